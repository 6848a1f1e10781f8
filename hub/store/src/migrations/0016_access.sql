-- Who may do what over the network: the digests of tokens, of which the callers of before are those that may read and have
-- their questions put on record; the sessions of browsers; and who did what.
CREATE TABLE tokens (
    name         TEXT PRIMARY KEY,
    token_sha256 TEXT NOT NULL UNIQUE,
    scopes       TEXT NOT NULL,
    added_ms     BIGINT NOT NULL,
    added_by     TEXT NOT NULL,
    expires_ms   BIGINT,
    revoked_ms   BIGINT
);
INSERT INTO tokens (name, token_sha256, scopes, added_ms, added_by)
    SELECT name, token_sha256, 'read record', added_ms, 'caller add' FROM callers;
DROP TABLE callers;
CREATE TABLE sessions (
    session_sha256 TEXT PRIMARY KEY,
    token_sha256   TEXT NOT NULL,
    begun_ms       BIGINT NOT NULL,
    expires_ms     BIGINT NOT NULL
);
CREATE INDEX sessions_by_end ON sessions (expires_ms);
CREATE TABLE access_log (
    id      BIGINT PRIMARY KEY,
    at_ms   BIGINT NOT NULL,
    who     TEXT NOT NULL,
    how     TEXT NOT NULL,
    peer    TEXT NOT NULL,
    action  TEXT NOT NULL,
    detail  TEXT NOT NULL,
    allowed BIGINT NOT NULL
);
