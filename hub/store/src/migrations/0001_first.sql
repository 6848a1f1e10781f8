-- The hub's tables. One text for SQLite and PostgreSQL: times are BIGINT milliseconds since 1970,
-- flags are BIGINT 0 or 1, lists are TEXT holding JSON, digests are TEXT `sha256:<hex>`.

CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- What the update framework's client trusts, per stream: history of one stream never blocks another.
CREATE TABLE trusted_metadata (
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (role, name)
);
CREATE TABLE trusted_floors (
    role    TEXT NOT NULL,
    name    TEXT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (role, name)
);

CREATE TABLE sites (
    site           TEXT PRIMARY KEY,
    role           TEXT NOT NULL,
    environment    TEXT NOT NULL,
    cluster_type   TEXT NOT NULL,
    key_generation BIGINT NOT NULL,
    enrolled_ms    BIGINT NOT NULL,
    revoked_ms     BIGINT
);
CREATE TABLE site_keys (
    site        TEXT NOT NULL,
    generation  BIGINT NOT NULL,
    key_id      TEXT NOT NULL,
    public_key  TEXT NOT NULL,
    enrolled_ms BIGINT NOT NULL,
    PRIMARY KEY (site, generation)
);
-- Requests that a stick brought and nobody has approved yet.
CREATE TABLE enrolment_requests (
    site        TEXT PRIMARY KEY,
    envelope    BYTEA NOT NULL,
    received_ms BIGINT NOT NULL
);
-- Kits that were handed out: a request with this token needs no approval by hand, once.
CREATE TABLE expected_sites (
    site         TEXT PRIMARY KEY,
    token_sha256 TEXT NOT NULL,
    expected_ms  BIGINT NOT NULL
);

-- The lives of a site's store. The newest is the one with the highest ordinal.
CREATE TABLE epochs (
    site           TEXT NOT NULL,
    epoch          TEXT NOT NULL,
    ordinal        BIGINT NOT NULL,
    key_generation BIGINT NOT NULL,
    acked          BIGINT NOT NULL,
    PRIMARY KEY (site, epoch)
);
-- Every accepted report, as signed. Rows are only ever added.
CREATE TABLE reports (
    site           TEXT NOT NULL,
    epoch          TEXT NOT NULL,
    number         BIGINT NOT NULL,
    digest         TEXT NOT NULL,
    previous       TEXT,
    kind           TEXT NOT NULL,
    envelope       BYTEA NOT NULL,
    via            TEXT NOT NULL,
    received_ms    BIGINT NOT NULL,
    wall_ms        BIGINT NOT NULL,
    lower_bound_ms BIGINT NOT NULL,
    clock_trusted  BIGINT NOT NULL,
    PRIMARY KEY (site, epoch, number)
);
-- What reports told of a bundle. `running` is 1 when it tells what the site runs, 0 when it tells
-- of a bundle that is on its way or was refused, and so changes nothing about what runs.
CREATE TABLE observations (
    site            TEXT NOT NULL,
    epoch           TEXT NOT NULL,
    number          BIGINT NOT NULL,
    role            TEXT NOT NULL,
    bundle_number   BIGINT NOT NULL,
    index_digest    TEXT NOT NULL,
    base_commit     TEXT NOT NULL,
    snapshot_digest TEXT NOT NULL,
    state           TEXT NOT NULL,
    running         BIGINT NOT NULL,
    message         TEXT NOT NULL,
    PRIMARY KEY (site, epoch, number)
);
CREATE TABLE observed_assignments (
    site           TEXT NOT NULL,
    epoch          TEXT NOT NULL,
    number         BIGINT NOT NULL,
    assignment     TEXT NOT NULL,
    status         TEXT NOT NULL,
    config_version TEXT NOT NULL,
    message        TEXT NOT NULL,
    PRIMARY KEY (site, epoch, number, assignment)
);
-- Reports that the site itself declared lost.
CREATE TABLE declared_gaps (
    site      TEXT NOT NULL,
    epoch     TEXT NOT NULL,
    number    BIGINT NOT NULL,
    first_lost BIGINT NOT NULL,
    last_lost  BIGINT NOT NULL,
    reason    TEXT NOT NULL,
    PRIMARY KEY (site, epoch, number)
);

-- Desired state: what verified bundles say.
CREATE TABLE bundles (
    role            TEXT NOT NULL,
    number          BIGINT NOT NULL,
    environment     TEXT NOT NULL,
    cluster_type    TEXT NOT NULL,
    index_digest    TEXT NOT NULL,
    index_size      BIGINT NOT NULL,
    base_commit     TEXT NOT NULL,
    snapshot        TEXT NOT NULL,
    recipients      TEXT NOT NULL,
    reconciler      TEXT NOT NULL,
    issued_ms       BIGINT NOT NULL,
    expires_ms      BIGINT NOT NULL,
    recorded_ms     BIGINT NOT NULL,
    PRIMARY KEY (role, number)
);
CREATE TABLE bundle_assignments (
    role           TEXT NOT NULL,
    number         BIGINT NOT NULL,
    assignment     TEXT NOT NULL,
    workload       TEXT NOT NULL,
    workspace      TEXT NOT NULL,
    policies       TEXT NOT NULL,
    config_version TEXT NOT NULL,
    PRIMARY KEY (role, number, assignment)
);

CREATE TABLE refusals (
    id      BIGINT PRIMARY KEY,
    at_ms   BIGINT NOT NULL,
    source  TEXT NOT NULL,
    site    TEXT,
    rule    TEXT NOT NULL,
    message TEXT NOT NULL
);
CREATE TABLE gate_decisions (
    id          BIGINT PRIMARY KEY,
    at_ms       BIGINT NOT NULL,
    environment TEXT NOT NULL,
    base_commit TEXT NOT NULL,
    verdict     TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    decision    TEXT NOT NULL
);
CREATE INDEX gate_decisions_by_commit ON gate_decisions (environment, base_commit, id);
CREATE TABLE waivers (
    id         BIGINT PRIMARY KEY,
    site       TEXT NOT NULL,
    until_ms   BIGINT NOT NULL,
    reason     TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    granted_ms BIGINT NOT NULL
);
