-- Files that an import refused, by the digest of their bytes: the next import tells them and counts them no more.
CREATE TABLE refused_files (
    digest TEXT PRIMARY KEY,
    what   TEXT NOT NULL,
    at_ms  BIGINT NOT NULL
);
