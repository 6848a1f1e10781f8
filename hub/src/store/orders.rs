//! Orders that verified bundles carry, and the enrolments that they are for.
//!
//! What comes in: orders of bundles that `desired` has checked. What goes out: what was ordered, for the
//! few questions that depend on it. A recorded order never changes.

use outhaul_bundle::{Instruction, Order};
use rusqlite::{OptionalExtension as _, params};

use super::{Session, StoreError, json, parse, to_sql};

impl Session<'_> {
    /// Records an order; `false` when it was on record already.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_order(&self, order: &Order, now_ms: i64) -> Result<bool, StoreError> {
        let text =
            "INSERT INTO site_orders (site, enrolment, number, kind, instruction, recorded_ms)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (site, enrolment, number) DO NOTHING";
        let added = self.db.prepare_cached(text)?.execute(params![
            order.site.as_str(),
            order.enrolment.to_string(),
            to_sql(order.number),
            order.what.word(),
            json(&order.what, "an order")?,
            now_ms
        ])?;
        Ok(added == 1)
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
        let row: Option<String> = self.db.query_row(text, key, |row| row.get(0)).optional()?;
        row.map(|text| parse(&text, "an order")).transpose()
    }

    /// What was ordered of one kind for an enrolment of a site, oldest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn orders_of(
        &self,
        site: &str,
        enrolment: &str,
        kind: &str,
    ) -> Result<Vec<Instruction>, StoreError> {
        let text = "SELECT instruction FROM site_orders
             WHERE site = $1 AND enrolment = $2 AND kind = $3 ORDER BY number";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params![site, enrolment, kind], |row| {
            row.get::<_, String>(0)
        })?;
        rows.map(|row| parse(&row?, "an order")).collect()
    }

    /// What a site's present enrolment was made with; `None` for one from before there were orders.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn enrolment(&self, site: &str) -> Result<Option<String>, StoreError> {
        let text = "SELECT enrolment FROM sites WHERE site = $1";
        let row: Option<Option<String>> = self
            .db
            .query_row(text, params![site], |row| row.get(0))
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
    pub fn move_site(
        &self,
        site: &str,
        to: &outhaul_bundle::index::Stream,
    ) -> Result<(), StoreError> {
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
        Ok(())
    }

    /// How many requests wait.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn waiting_requests(&self) -> Result<i64, StoreError> {
        let text = "SELECT COUNT(*) FROM enrolment_requests";
        Ok(self.db.query_row(text, [], |row| row.get(0))?)
    }
}
