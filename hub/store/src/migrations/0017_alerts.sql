-- What was known at the last look for alerts, what was announced, and to whom: what is not sent yet is sent later, also after a
-- restart and by another process.
CREATE TABLE alert_known (
    name   TEXT PRIMARY KEY,
    status TEXT NOT NULL
);
CREATE TABLE alerts (
    id          BIGINT PRIMARY KEY,
    at_ms       BIGINT NOT NULL,
    kind        TEXT NOT NULL,
    subject     TEXT NOT NULL,
    environment TEXT,
    severity    TEXT NOT NULL,
    was         TEXT NOT NULL,
    status      TEXT NOT NULL,
    message     TEXT NOT NULL
);
CREATE TABLE alert_deliveries (
    alert       BIGINT NOT NULL,
    destination TEXT NOT NULL,
    state       TEXT NOT NULL,
    attempts    BIGINT NOT NULL,
    next_ms     BIGINT NOT NULL,
    problem     TEXT NOT NULL,
    PRIMARY KEY (alert, destination)
);
CREATE INDEX alert_deliveries_waiting ON alert_deliveries (destination, state, alert);
