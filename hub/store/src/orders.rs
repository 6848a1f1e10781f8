//! Orders that verified bundles carry, the enrolments that they are for, and what sites reported about them.
//!
//! What comes in: orders of bundles that `desired` has checked, and checked reports. What goes out: what
//! was ordered and what became of it, for the few questions that depend on it. A recorded order never
//! changes; only the bundle that it is said to have come with first does, when an older one turns up.

use super::db::{OptionalExtension as _, params};
use outhaul_bundle::index::Stream;
use outhaul_bundle::report::{Report, ReportEvent};
use outhaul_bundle::{Digest, Instruction, Order};

use super::{Session, Signed, StoreError, json, parse, to_sql};

/// The bundle that an order came with.
#[derive(Debug, Clone, Copy)]
pub struct Carrier<'a> {
    /// The stream's role.
    pub role: &'a str,
    /// The bundle's number.
    pub number: u64,
    /// When it was signed.
    pub signed: Signed,
}

/// A report about an order: of the very enrolment, or of none and then at least of its kind.
pub(super) const TOLD_OF_ORDER: &str = "t.site = o.site AND t.order_number = o.number
     AND (t.enrolment = o.enrolment OR (t.enrolment IS NULL AND t.kind = o.kind))";

impl Session<'_> {
    /// Records an order; `false` when it was on record already.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_order(
        &self,
        order: &Order,
        carrier: &Carrier<'_>,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let enrolment = order.enrolment.to_string();
        let site = order.site.as_str();
        let known = self.order(site, &enrolment, order.number)?.is_some();
        let text =
            "INSERT INTO site_orders (site, enrolment, number, kind, instruction, recorded_ms,
                role, bundle_number, ordered_ms, signed_as)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (site, enrolment, number) DO UPDATE SET role = excluded.role,
                bundle_number = excluded.bundle_number, ordered_ms = excluded.ordered_ms,
                signed_as = excluded.signed_as
              WHERE excluded.signed_as < site_orders.signed_as OR site_orders.role = ''";
        self.db.prepare_cached(text)?.execute(params![
            site,
            enrolment,
            to_sql(order.number),
            order.what.as_str(),
            json(&order.what, "an order")?,
            now_ms,
            carrier.role,
            to_sql(carrier.number),
            carrier.signed.issued_ms,
            to_sql(carrier.signed.signed_as)
        ])?;
        Ok(!known)
    }

    /// What order `number` for an enrolment of a site says.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn order(
        &self,
        site: &str,
        enrolment: &str,
        number: u64,
    ) -> Result<Option<Instruction>, StoreError> {
        let text = "SELECT instruction FROM site_orders
             WHERE site = $1 AND enrolment = $2 AND number = $3";
        let key = params![site, enrolment, to_sql(number)];
        let mut query = self.db.prepare_cached(text)?;
        let row: Option<String> = query.query_row(key, |row| row.get(0)).optional()?;
        row.map(|text| parse(&text, "an order")).transpose()
    }

    /// Whether an enrolment of a site was revoked by order.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn revocation_ordered(&self, site: &str, enrolment: &str) -> Result<bool, StoreError> {
        let text = "SELECT COUNT(*) FROM site_orders
             WHERE site = $1 AND enrolment = $2 AND kind = 'revoke'";
        let mut query = self.db.prepare_cached(text)?;
        let count: i64 = query.query_row(params![site, enrolment], |row| row.get(0))?;
        Ok(count > 0)
    }

    /// The order of signing of the newest approval of `key` for an enrolment of a site; `None` when there is none.
    /// Without a key: of any.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn approval(
        &self,
        site: &str,
        enrolment: &str,
        key: Option<&Digest>,
    ) -> Result<Option<(i64, i64)>, StoreError> {
        let text = "SELECT instruction, signed_as, number FROM site_orders
             WHERE site = $1 AND enrolment = $2 AND kind = 'approve' ORDER BY signed_as, number";
        let mut query = self.db.prepare_cached(text)?;
        let mut rows = query.query(params![site, enrolment])?;
        let mut newest = None;
        while let Some(row) = rows.next()? {
            let what: Instruction = parse(&row.get::<_, String>(0)?, "an order")?;
            let of_key = |found: &Digest| key.is_none_or(|key| key == found);
            if matches!(&what, Instruction::Approve { key } if of_key(key)) {
                newest = Some((row.get(1)?, row.get(2)?));
            }
        }
        Ok(newest)
    }

    /// The stream to which a site of this enrolment has moved, by the last of the orders to move that it
    /// says to have carried out.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn last_move(&self, site: &str, enrolment: &str) -> Result<Option<Stream>, StoreError> {
        let text = format!(
            "SELECT o.instruction FROM site_orders o
              WHERE o.site = $1 AND o.enrolment = $2 AND o.kind = 'move'
                AND EXISTS (SELECT 1 FROM told_orders t WHERE {TOLD_OF_ORDER} AND t.done = 1)
              ORDER BY o.number DESC LIMIT 1"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let row: Option<String> = query
            .query_row(params![site, enrolment], |row| row.get(0))
            .optional()?;
        Ok(
            match row.map(|text| parse(&text, "an order")).transpose()? {
                Some(Instruction::Move { to, .. }) => Some(to),
                _ => None,
            },
        )
    }

    /// What a site's present enrolment was made with; `None` for one from before there were orders.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn enrolment(&self, site: &str) -> Result<Option<String>, StoreError> {
        let mut query = self
            .db
            .prepare_cached("SELECT enrolment FROM sites WHERE site = $1")?;
        let row: Option<Option<String>> = query
            .query_row(params![site], |row| row.get(0))
            .optional()?;
        Ok(row.flatten())
    }

    /// Remembers what a site's enrolment was made with.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn set_enrolment(&self, site: &str, enrolment: &str) -> Result<(), StoreError> {
        let text = "UPDATE sites SET enrolment = $1 WHERE site = $2";
        self.db.execute(text, params![enrolment, site])?;
        Ok(())
    }

    /// A site follows another stream from now on.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn move_site(&self, site: &str, to: &Stream) -> Result<(), StoreError> {
        let text =
            "UPDATE sites SET role = $1, environment = $2, cluster_type = $3 WHERE site = $4";
        self.db.execute(
            text,
            params![
                to.role.as_str(),
                to.environment.as_str(),
                to.cluster_type.as_str(),
                site
            ],
        )?;
        self.keep_stream_site(site)
    }

    /// Records what a report states of an order or of a freshness slip; of any other, nothing.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub(super) fn add_outcome(&self, report: &Report) -> Result<(), StoreError> {
        let (site, epoch) = (report.site.as_str(), report.epoch.as_str());
        let at = to_sql(report.number);
        let (number, what, message, enrolment, done) = match &report.event {
            ReportEvent::OrderDone {
                number,
                what,
                message,
                enrolment,
            } => (*number, what, message, enrolment.as_ref(), true),
            ReportEvent::OrderRefused {
                number,
                what,
                message,
                enrolment,
            } => (*number, what, message, Some(enrolment), false),
            ReportEvent::FreshnessSlip {
                source,
                issued_ms,
                number,
                ..
            } => {
                let text = "INSERT INTO taken_slips
                        (site, epoch, number, source, issued_ms, bundle_number)
                     VALUES ($1, $2, $3, $4, $5, $6)";
                let number = to_sql(*number);
                let row = params![site, epoch, at, source, issued_ms, number];
                self.db.execute(text, row)?;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let text = "INSERT INTO told_orders
                (site, epoch, number, order_number, enrolment, kind, done, message)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let enrolment = enrolment.map(ToString::to_string);
        let (number, done) = (to_sql(number), i64::from(done));
        self.db.execute(
            text,
            params![site, epoch, at, number, enrolment, what, done, message],
        )?;
        Ok(())
    }
}
