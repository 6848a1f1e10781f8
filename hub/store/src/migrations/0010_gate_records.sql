-- What people decided about gates: approvals, waivers, deferrals, and withdrawals of these. Rows are only added, each
-- with the digest of the one before it. Those of `waivers` are carried over by the program, which then drops it.
CREATE TABLE gate_acts (
    id          BIGINT PRIMARY KEY,
    kind        TEXT NOT NULL,
    environment TEXT,
    base_commit TEXT,
    site        TEXT,
    until_ms    BIGINT,
    withdraws   BIGINT,
    reason      TEXT NOT NULL,
    by_name     TEXT NOT NULL,
    at_ms       BIGINT NOT NULL,
    previous    TEXT NOT NULL,
    digest      TEXT NOT NULL
);
CREATE INDEX gate_acts_withdrawn ON gate_acts (withdraws);
-- The rules with which each step of the promotion chain was asked about, as callers with a token gave them.
CREATE TABLE gate_rules (
    id          BIGINT PRIMARY KEY,
    environment TEXT NOT NULL,
    target      TEXT NOT NULL,
    rules       TEXT NOT NULL,
    asked_by    TEXT NOT NULL,
    at_ms       BIGINT NOT NULL
);
CREATE INDEX gate_rules_by_step ON gate_rules (environment, target, id);
-- What a decision rests on, in blocks of sites that decisions share: only what changed is written again.
CREATE TABLE evidence_blocks (
    digest TEXT PRIMARY KEY,
    body   TEXT NOT NULL,
    uses   BIGINT NOT NULL
);
CREATE TABLE decision_evidence (
    decision BIGINT NOT NULL,
    place    BIGINT NOT NULL,
    block    TEXT NOT NULL,
    PRIMARY KEY (decision, place)
);
-- Refusals, one row per transport, site and rule: how often, first and last.
ALTER TABLE refusals ADD COLUMN times BIGINT NOT NULL DEFAULT 1;
ALTER TABLE refusals ADD COLUMN first_ms BIGINT NOT NULL DEFAULT 0;
UPDATE refusals SET
    times = (SELECT COUNT(*) FROM refusals r WHERE (r.source = 'http') = (refusals.source = 'http')
              AND COALESCE(r.site, '') = COALESCE(refusals.site, '') AND r.rule = refusals.rule),
    first_ms = (SELECT MIN(r.at_ms) FROM refusals r WHERE (r.source = 'http') = (refusals.source = 'http')
              AND COALESCE(r.site, '') = COALESCE(refusals.site, '') AND r.rule = refusals.rule);
DELETE FROM refusals WHERE id < (SELECT MAX(r.id) FROM refusals r WHERE (r.source = 'http') = (refusals.source = 'http')
              AND COALESCE(r.site, '') = COALESCE(refusals.site, '') AND r.rule = refusals.rule);
