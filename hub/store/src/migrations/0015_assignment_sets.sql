-- What a report tells of its assignments, once for all reports that tell the same: looks that found nothing new, and the sites of a
-- stream, repeat it. `assignments` of an observation is the digest of its set; empty where it told of none.
CREATE TABLE assignment_sets (
    digest         TEXT NOT NULL,
    assignment     TEXT NOT NULL,
    status         TEXT NOT NULL,
    config_version TEXT NOT NULL,
    message        TEXT NOT NULL,
    PRIMARY KEY (digest, assignment)
);
ALTER TABLE observations ADD COLUMN assignments TEXT NOT NULL DEFAULT '';
ALTER TABLE observed_assignments RENAME TO observed_assignments_before;
