-- Sites on which no agent runs: the hub makes their reports of the webhooks of their reconcilers. No secret is here: the hub derives it
-- from its own key and `salt`. `settings` is what somebody registered, `shown` what the objects of the site showed last, both as JSON.
CREATE TABLE webhook_sites (
    site          TEXT PRIMARY KEY,
    sender        TEXT NOT NULL,
    salt          TEXT NOT NULL,
    settings      TEXT NOT NULL,
    shown         TEXT NOT NULL,
    registered_ms BIGINT NOT NULL,
    registered_by TEXT NOT NULL
);
-- Who sent the webhooks that an observation rests on; empty where an agent looked.
ALTER TABLE observations ADD COLUMN webhook TEXT NOT NULL DEFAULT '';
