-- Statements about exploitability that bundles carry, by the digest that a signed index lists (`bundle_materials`). They count for those
-- bundles alone.
CREATE TABLE carried_documents (
    digest      TEXT PRIMARY KEY,
    recorded_ms BIGINT NOT NULL
);
CREATE TABLE carried_statements (
    document      TEXT NOT NULL,
    ordinal       BIGINT NOT NULL,
    vulnerability TEXT NOT NULL,
    statement     TEXT NOT NULL,
    PRIMARY KEY (document, ordinal, vulnerability)
);
