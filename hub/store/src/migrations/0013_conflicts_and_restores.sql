-- Reports that a site's key signed and that cannot come from the machine whose reports are on record.
CREATE TABLE site_conflicts (
    id          BIGINT PRIMARY KEY,
    site        TEXT NOT NULL,
    epoch       TEXT NOT NULL,
    number      BIGINT NOT NULL,
    digest      TEXT NOT NULL,
    on_record   TEXT NOT NULL,
    reason      TEXT NOT NULL,
    envelope    BYTEA NOT NULL,
    via         TEXT NOT NULL,
    received_ms BIGINT NOT NULL,
    UNIQUE (site, epoch, number, digest)
);
-- When a person chose another machine's numbering: an epoch that was set aside is not the site's present one.
ALTER TABLE epochs ADD COLUMN set_aside_ms BIGINT;
-- Which report a choice names, and the numbering that is the site's from then on.
ALTER TABLE gate_acts ADD COLUMN chosen TEXT;
ALTER TABLE gate_acts ADD COLUMN epoch TEXT;
-- Restores of this database from a backup: what was there before does not count at a gate.
CREATE TABLE restores (
    id        BIGINT PRIMARY KEY,
    at_ms     BIGINT NOT NULL,
    backup_ms BIGINT NOT NULL,
    digest    TEXT NOT NULL
);
CREATE INDEX site_keys_by_key ON site_keys (key_id);
