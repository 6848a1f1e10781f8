-- The signed envelopes of reports, in parts by when they were received: a server keeps each part as a table of its own, and old ones
-- are dropped whole. `part` of a report says in which one its envelope lies; it is NULL where the envelope is in the row of the report
-- itself, as in a SQLite file and in every report of before. Part -1 holds those that were kept when their part was dropped.
ALTER TABLE reports ADD COLUMN part BIGINT;
CREATE TABLE report_envelopes (
    part     BIGINT NOT NULL,
    site     TEXT NOT NULL,
    epoch    TEXT NOT NULL,
    number   BIGINT NOT NULL,
    envelope BYTEA NOT NULL,
    PRIMARY KEY (part, site, epoch, number)
)
-- server: PARTITION BY LIST (part)
;
-- The names of environments are found by as many steps as there are environments, not by a walk through all sites.
CREATE INDEX sites_by_environment ON sites (environment);
