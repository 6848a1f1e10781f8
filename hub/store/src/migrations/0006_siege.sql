-- Requests that wait for somebody to approve them. None is ever replaced: another request for the same
-- site lies beside the first, and a person decides. Those of before showed their kit's token, which is
-- no proof any more; agents send them again.
DROP TABLE enrolment_requests;
CREATE TABLE pending_requests (
    id          BIGINT PRIMARY KEY,
    site        TEXT NOT NULL,
    key_id      TEXT NOT NULL,
    kit         TEXT NOT NULL,
    lane        TEXT NOT NULL,
    peer        TEXT NOT NULL,
    envelope    BYTEA NOT NULL,
    received_ms BIGINT NOT NULL,
    UNIQUE (site, key_id, kit)
);
CREATE INDEX pending_requests_by_peer ON pending_requests (lane, peer);
-- Requests that a person has rejected: they do not come back by being sent again.
CREATE TABLE rejected_requests (
    id          BIGINT PRIMARY KEY,
    site        TEXT NOT NULL,
    key_id      TEXT NOT NULL,
    kit         TEXT NOT NULL,
    rejected_ms BIGINT NOT NULL,
    UNIQUE (site, key_id, kit)
);
-- Kits are known by an id now that is no secret.
DELETE FROM expected_sites;
ALTER TABLE expected_sites RENAME COLUMN token_sha256 TO kit;
-- What sites report to have refused.
CREATE TABLE site_refusals (
    site    TEXT NOT NULL,
    epoch   TEXT NOT NULL,
    number  BIGINT NOT NULL,
    source  TEXT NOT NULL,
    rule    TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (site, epoch, number)
);
-- Bundles that sites left again, each told by the report of the bundle that runs since.
CREATE TABLE reverts (
    site          TEXT NOT NULL,
    epoch         TEXT NOT NULL,
    number        BIGINT NOT NULL,
    bundle_number BIGINT NOT NULL,
    index_digest  TEXT NOT NULL,
    decided_by    TEXT,
    reason        TEXT NOT NULL,
    PRIMARY KEY (site, epoch, number)
);
-- A bundle that a site came back from is not what it runs: the report of the older one tells that.
UPDATE observations SET running = 0 WHERE state = 'reverted';
-- Who may put gate decisions on record over the network, and who did.
CREATE TABLE callers (
    name         TEXT PRIMARY KEY,
    token_sha256 TEXT NOT NULL,
    added_ms     BIGINT NOT NULL
);
ALTER TABLE gate_decisions ADD COLUMN asked_by TEXT NOT NULL DEFAULT '';
