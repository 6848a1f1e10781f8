-- Reports that are no longer kept: each time somebody, or the server by its setting, removed some, and which numbers are gone.
-- A number that is in a range was on record and is known: it is neither missing nor new.
CREATE TABLE removals (
    id        BIGINT PRIMARY KEY,
    at_ms     BIGINT NOT NULL,
    by_name   TEXT NOT NULL,
    rule      TEXT NOT NULL,
    before_ms BIGINT NOT NULL,
    sites     BIGINT NOT NULL,
    reports   BIGINT NOT NULL,
    bytes     BIGINT NOT NULL,
    ended_ms  BIGINT
);
CREATE TABLE removed_reports (
    site         TEXT NOT NULL,
    epoch        TEXT NOT NULL,
    first_number BIGINT NOT NULL,
    last_number  BIGINT NOT NULL,
    removal      BIGINT NOT NULL,
    since_ms     BIGINT NOT NULL,
    PRIMARY KEY (site, epoch, first_number)
);
-- The reports of a site that are older than a moment, found without reading the others.
CREATE INDEX reports_by_time ON reports (site, received_ms, epoch, number);
-- Whether any observation still names a set of results.
CREATE INDEX observations_by_set ON observations (assignments);
