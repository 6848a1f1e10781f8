-- The version of the timestamp that a bundle came with: the order in which a fleet's bundles were
-- signed, also within one second.
ALTER TABLE bundles ADD COLUMN signed_as BIGINT NOT NULL DEFAULT 0;
