-- People who log in at an identity provider: which name is whose, their sessions with what the provider stated, and the logins
-- of late that were used, so that none is used twice.
CREATE TABLE people (
    name     TEXT PRIMARY KEY,
    issuer   TEXT NOT NULL,
    subject  TEXT NOT NULL,
    added_ms BIGINT NOT NULL,
    seen_ms  BIGINT NOT NULL
);
CREATE UNIQUE INDEX people_by_subject ON people (issuer, subject);
CREATE TABLE person_sessions (
    session_sha256 TEXT PRIMARY KEY,
    name           TEXT NOT NULL,
    client         TEXT NOT NULL,
    facts          TEXT NOT NULL,
    begun_ms       BIGINT NOT NULL,
    expires_ms     BIGINT NOT NULL
);
CREATE INDEX person_sessions_by_end ON person_sessions (expires_ms);
CREATE INDEX person_sessions_by_name ON person_sessions (name);
CREATE TABLE used_logins (
    login_sha256 TEXT PRIMARY KEY,
    expires_ms   BIGINT NOT NULL
);
