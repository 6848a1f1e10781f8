-- Since when the reports of a site count that was revoked and registered again.
ALTER TABLE sites ADD COLUMN counts_from_ms BIGINT;
