-- The chain of decisions: kept for each, also where its content is forgotten.
CREATE TABLE decision_chain (
    id       BIGINT PRIMARY KEY,
    verdict  TEXT NOT NULL,
    content  TEXT NOT NULL,
    previous TEXT NOT NULL,
    digest   TEXT NOT NULL
);
-- The signed metadata that was accepted for each stream, and the indexes of its bundles: what an audit follows from the root.
CREATE TABLE accepted_metadata (
    id         BIGINT PRIMARY KEY,
    role       TEXT NOT NULL,
    number     BIGINT NOT NULL,
    at_ms      BIGINT NOT NULL,
    files      TEXT NOT NULL,
    index_body TEXT
);
CREATE INDEX accepted_metadata_by_bundle ON accepted_metadata (role, number, id);
