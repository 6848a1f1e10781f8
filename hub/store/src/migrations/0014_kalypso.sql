-- What was imported of a Kalypso installation: what should run, by its descriptors, and what its reconcilers told. `at_ms` is when
-- it was imported last, so that a commit that comes back is the newest again.
CREATE TABLE kalypso_descriptors (
    manifests_endpoint TEXT NOT NULL,
    commit_id          TEXT NOT NULL,
    version            TEXT NOT NULL,
    workspace          TEXT NOT NULL,
    application        TEXT NOT NULL,
    workload           TEXT NOT NULL,
    source_endpoint    TEXT NOT NULL,
    target             TEXT NOT NULL,
    environment        TEXT NOT NULL,
    build              TEXT NOT NULL,
    build_commit       TEXT NOT NULL,
    at_ms              BIGINT NOT NULL,
    PRIMARY KEY (manifests_endpoint, commit_id, version)
);
CREATE TABLE kalypso_reconcilers (
    host       TEXT NOT NULL,
    reconciler TEXT NOT NULL,
    commit_id  TEXT NOT NULL,
    kind       TEXT NOT NULL,
    endpoint   TEXT NOT NULL,
    status     TEXT NOT NULL,
    message    TEXT NOT NULL,
    at_ms      BIGINT NOT NULL,
    PRIMARY KEY (host, reconciler, commit_id)
);
