-- Orders that verified bundles carry, and what a site's enrolment was made with: an order for an
-- earlier enrolment is none for the present one.
CREATE TABLE site_orders (
    site        TEXT NOT NULL,
    enrolment   TEXT NOT NULL,
    number      BIGINT NOT NULL,
    kind        TEXT NOT NULL,
    instruction TEXT NOT NULL,
    recorded_ms BIGINT NOT NULL,
    PRIMARY KEY (site, enrolment, number)
);
ALTER TABLE sites ADD COLUMN enrolment TEXT;
-- The first report of an epoch that a newer key of its site signed.
ALTER TABLE epochs ADD COLUMN rekeyed_at BIGINT;
