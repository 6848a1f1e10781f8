//! What became of orders, and the freshness slips that sites took: for people who look.
//!
//! What comes in: the tables that bundles and reports filled. What goes out: per site the orders of its
//! present enrolment, each with what the site reported about it, and the last slip. Orders for an earlier
//! enrolment are none for this site any more and are left out.

use std::collections::BTreeMap;

use outhaul_bundle::Instruction;

use super::current::{CHOSEN, SitePage};
use super::orders::TOLD_OF_ORDER;
use super::{Session, StoreError, from_sql, parse};

/// One order for a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteOrder {
    /// Its number.
    pub number: u64,
    /// What was ordered.
    pub what: Instruction,
    /// The first bundle that carried it; `None` when that was not recorded.
    pub carrier: Option<OrderCarrier>,
    /// What the site reported about it.
    pub reported: Option<ReportedOutcome>,
    /// Whether a later approval is for another enrolment of the site: it was enrolled again.
    pub is_void: bool,
}

/// The bundle that carried an order first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderCarrier {
    /// Its stream's environment.
    pub environment: String,
    /// Its stream's cluster type.
    pub cluster_type: String,
    /// Its number.
    pub bundle: u64,
    /// When it was signed, milliseconds since 1970.
    pub signed_ms: i64,
}

/// What a site reported about an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedOutcome {
    /// Whether it was carried out; else it never will be.
    pub done: bool,
    /// What the site said.
    pub message: String,
    /// The site's clock then, milliseconds since 1970.
    pub wall_ms: i64,
    /// When the hub received the report.
    pub received_ms: i64,
}

/// The last freshness slip that a site took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedSlip {
    /// Its file's name, or the name of a typed one.
    pub source: String,
    /// The signed time that it brought, milliseconds since 1970.
    pub issued_ms: i64,
    /// The newest bundle number that it names.
    pub bundle: u64,
    /// When the hub received the report of it.
    pub received_ms: i64,
}

impl Session<'_> {
    /// The orders of each registered site's present enrolment, by number.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn site_orders(
        &self,
        page: SitePage<'_>,
    ) -> Result<BTreeMap<String, Vec<SiteOrder>>, StoreError> {
        let text = format!(
            "{CHOSEN} SELECT o.site, o.number, o.instruction, b.environment, b.cluster_type, b.number,
                    o.ordered_ms, t.done, t.message, r.wall_ms, r.received_ms,
                    EXISTS (SELECT 1 FROM site_orders n
                             WHERE n.site = o.site AND n.enrolment <> o.enrolment
                               AND n.kind = 'approve' AND n.signed_as > o.signed_as)
               FROM chosen JOIN site_orders o ON o.site = chosen
               JOIN sites s ON s.site = o.site AND s.enrolment = o.enrolment
               LEFT JOIN bundles b ON b.role = o.role AND b.number = o.bundle_number
               LEFT JOIN told_orders t ON {TOLD_OF_ORDER}
               LEFT JOIN reports r
                 ON r.site = t.site AND r.epoch = t.epoch AND r.number = t.number
              ORDER BY o.site, o.number, t.done DESC, r.received_ms"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let mut rows = query.query(page.bounds())?;
        let mut found: BTreeMap<String, Vec<SiteOrder>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let orders = found.entry(row.get(0)?).or_default();
            let number = from_sql(row.get(1)?);
            // Reported twice, as by a store that was put back: the first of the best.
            if orders.last().is_some_and(|last| last.number == number) {
                continue;
            }
            let environment: Option<String> = row.get(3)?;
            let carrier = match environment {
                None => None,
                Some(environment) => Some(OrderCarrier {
                    environment,
                    cluster_type: row.get(4)?,
                    bundle: from_sql(row.get(5)?),
                    signed_ms: row.get(6)?,
                }),
            };
            let done: Option<i64> = row.get(7)?;
            let reported = match done {
                None => None,
                Some(done) => Some(ReportedOutcome {
                    done: done != 0,
                    message: row.get(8)?,
                    wall_ms: row.get(9)?,
                    received_ms: row.get(10)?,
                }),
            };
            orders.push(SiteOrder {
                number,
                what: parse(&row.get::<_, String>(2)?, "an order")?,
                carrier,
                reported,
                is_void: row.get(11)?,
            });
        }
        Ok(found)
    }

    /// The last freshness slip that each site took: the last report of one in its newest epoch that has
    /// any.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn last_slips(
        &self,
        page: SitePage<'_>,
    ) -> Result<BTreeMap<String, AcceptedSlip>, StoreError> {
        let text = format!(
            "{CHOSEN} SELECT site, source, issued_ms, bundle_number, received_ms FROM (
                SELECT t.site, t.source, t.issued_ms, t.bundle_number, r.received_ms,
                       ROW_NUMBER() OVER (PARTITION BY t.site
                                          ORDER BY e.ordinal DESC, t.number DESC) AS place
                  FROM chosen JOIN taken_slips t ON t.site = chosen
                  JOIN epochs e ON e.site = t.site AND e.epoch = t.epoch
                  JOIN reports r
                    ON r.site = t.site AND r.epoch = t.epoch AND r.number = t.number) AS ranked
             WHERE place = 1"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map(page.bounds(), |row| {
            let slip = AcceptedSlip {
                source: row.get(1)?,
                issued_ms: row.get(2)?,
                bundle: from_sql(row.get(3)?),
                received_ms: row.get(4)?,
            };
            Ok((row.get(0)?, slip))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
