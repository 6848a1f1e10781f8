-- What renderings were made of, as the centre explained them: nobody signed that. Compressed; what is for one cluster type apart from
-- the rest, so that a page reads little.
CREATE TABLE explanations (
    id                 BIGINT PRIMARY KEY,
    digest             TEXT NOT NULL,
    environment        TEXT NOT NULL,
    snapshot           TEXT NOT NULL,
    snapshot_digest    TEXT NOT NULL,
    base_commit        TEXT NOT NULL,
    environment_commit TEXT NOT NULL,
    assignments        BIGINT NOT NULL,
    sent_by            TEXT NOT NULL,
    received_ms        BIGINT NOT NULL,
    last_sent_by       TEXT NOT NULL,
    last_received_ms   BIGINT NOT NULL,
    -- The one that was sent last has the highest, whatever the clock showed.
    sent_order         BIGINT NOT NULL,
    bytes              BIGINT NOT NULL,
    kept_bytes         BIGINT NOT NULL,
    head_bytes         BIGINT NOT NULL,
    head               BYTEA NOT NULL
);
CREATE UNIQUE INDEX explanations_by_digest ON explanations (digest);
CREATE INDEX explanations_by_commits ON explanations (environment, base_commit, environment_commit);
CREATE INDEX explanations_by_snapshot ON explanations (environment, snapshot_digest);
CREATE TABLE explanation_parts (
    explanation  BIGINT NOT NULL,
    cluster_type TEXT NOT NULL,
    bytes        BIGINT NOT NULL,
    body         BYTEA NOT NULL,
    PRIMARY KEY (explanation, cluster_type)
);
