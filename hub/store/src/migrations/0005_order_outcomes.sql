-- With which bundle an order was first signed, so that people see since when it is on its way.
ALTER TABLE site_orders ADD COLUMN role TEXT NOT NULL DEFAULT '';
ALTER TABLE site_orders ADD COLUMN bundle_number BIGINT NOT NULL DEFAULT 0;
ALTER TABLE site_orders ADD COLUMN ordered_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE site_orders ADD COLUMN signed_as BIGINT NOT NULL DEFAULT 0;
-- What sites told of orders: kept whether or not the order is known, so that it does not matter which
-- of the two comes first. `enrolment` is NULL in reports that do not name it.
CREATE TABLE told_orders (
    site         TEXT NOT NULL,
    epoch        TEXT NOT NULL,
    number       BIGINT NOT NULL,
    order_number BIGINT NOT NULL,
    enrolment    TEXT,
    kind         TEXT NOT NULL,
    done         BIGINT NOT NULL,
    message      TEXT NOT NULL,
    PRIMARY KEY (site, epoch, number)
);
CREATE INDEX told_orders_by_order ON told_orders (site, order_number);
-- Freshness slips that sites took.
CREATE TABLE taken_slips (
    site          TEXT NOT NULL,
    epoch         TEXT NOT NULL,
    number        BIGINT NOT NULL,
    source        TEXT NOT NULL,
    issued_ms     BIGINT NOT NULL,
    bundle_number BIGINT NOT NULL,
    PRIMARY KEY (site, epoch, number)
);
