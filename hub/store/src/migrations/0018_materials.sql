-- What bundles and their images hold, by the digest of each bill of materials that a signed index lists; advisories, and statements
-- about exploitability, as somebody imported them.
CREATE TABLE bundle_materials (
    role   TEXT NOT NULL,
    number BIGINT NOT NULL,
    path   TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (role, number, path)
);
CREATE INDEX bundle_materials_by_digest ON bundle_materials (digest);
CREATE TABLE materials (
    digest      TEXT PRIMARY KEY,
    images      TEXT NOT NULL,
    unknown     TEXT NOT NULL,
    recorded_ms BIGINT NOT NULL
);
CREATE TABLE components (
    materials      TEXT NOT NULL,
    ordinal        BIGINT NOT NULL,
    kind           TEXT NOT NULL,
    advised_name   TEXT NOT NULL,
    distribution   TEXT NOT NULL,
    release        TEXT NOT NULL,
    name           TEXT NOT NULL,
    version        TEXT NOT NULL,
    source_name    TEXT,
    source_version TEXT,
    purl           TEXT NOT NULL,
    assignments    TEXT NOT NULL,
    PRIMARY KEY (materials, ordinal)
);
CREATE INDEX components_by_advised_name ON components (kind, advised_name);
CREATE INDEX components_by_name ON components (kind, name);
CREATE TABLE advisories (
    id          TEXT PRIMARY KEY,
    body        TEXT NOT NULL,
    imported_ms BIGINT NOT NULL,
    imported_by TEXT NOT NULL
);
CREATE TABLE advisory_names (
    name     TEXT NOT NULL,
    advisory TEXT NOT NULL,
    PRIMARY KEY (name, advisory)
);
CREATE TABLE vex_documents (
    digest      TEXT PRIMARY KEY,
    body        TEXT NOT NULL,
    imported_ms BIGINT NOT NULL,
    imported_by TEXT NOT NULL
);
CREATE TABLE vex_statements (
    document      TEXT NOT NULL,
    ordinal       BIGINT NOT NULL,
    vulnerability TEXT NOT NULL,
    statement     TEXT NOT NULL,
    PRIMARY KEY (document, ordinal, vulnerability)
);
CREATE INDEX vex_statements_by_vulnerability ON vex_statements (vulnerability);
