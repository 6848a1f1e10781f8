//! Sites and their keys.
//!
//! What comes in: enrolments that someone approved. What goes out: registrations and keys. A key is
//! never exchanged silently: a new one is a new generation, and the old one stays on record.

use super::db::{DbError, OptionalExtension as _, Row, params};
use serde::Serialize;

use super::{Session, StoreError};

/// One registered site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registration {
    /// Its name.
    pub site: String,
    /// Its stream's signing role.
    pub role: String,
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// Which of its keys is in use, from 1.
    pub key_generation: i64,
    /// When it was approved, milliseconds since 1970.
    pub enrolled_ms: i64,
    /// When it was revoked.
    pub revoked_ms: Option<i64>,
}

/// One key of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteKey {
    /// 1 for the first, and so on.
    pub generation: i64,
    /// The key's id.
    pub key_id: String,
    /// SPKI PEM.
    pub public_key: String,
}

const COLUMNS: &str =
    "site, role, environment, cluster_type, key_generation, enrolled_ms, revoked_ms";

impl Session<'_> {
    /// The site `name`, revoked or not.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn site(&self, name: &str) -> Result<Option<Registration>, StoreError> {
        let text = format!("SELECT {COLUMNS} FROM sites WHERE site = $1");
        let mut query = self.db.prepare_cached(&text)?;
        Ok(query.query_row(params![name], registration).optional()?)
    }

    /// The names of all sites that are registered, also of those that were revoked.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn site_names(&self) -> Result<Vec<String>, StoreError> {
        let mut query = self
            .db
            .prepare_cached("SELECT site FROM sites ORDER BY site")?;
        let rows = query.query_map(params![], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The keys of a site, newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn site_keys(&self, site: &str) -> Result<Vec<SiteKey>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT generation, key_id, public_key FROM site_keys
             WHERE site = $1 ORDER BY generation DESC",
        )?;
        let rows = query.query_map(params![site], |row| {
            Ok(SiteKey {
                generation: row.get(0)?,
                key_id: row.get(1)?,
                public_key: row.get(2)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Registers a site, or gives a registered one its next key; a revoked site is let in again, and what it reported before that
    /// counts no more.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn register_site(
        &self,
        site: &Registration,
        key_id: &str,
        public_key: &str,
    ) -> Result<(), StoreError> {
        let text = "INSERT INTO sites
                (site, role, environment, cluster_type, key_generation, enrolled_ms, revoked_ms)
             VALUES ($1, $2, $3, $4, $5, $6, NULL)
             ON CONFLICT (site) DO UPDATE SET role = excluded.role,
                environment = excluded.environment, cluster_type = excluded.cluster_type,
                key_generation = excluded.key_generation, enrolled_ms = excluded.enrolled_ms,
                counts_from_ms = CASE WHEN sites.revoked_ms IS NULL THEN sites.counts_from_ms
                                      ELSE excluded.enrolled_ms END,
                revoked_ms = NULL";
        self.db.prepare_cached(text)?.execute(params![
            site.site,
            site.role,
            site.environment,
            site.cluster_type,
            site.key_generation,
            site.enrolled_ms
        ])?;
        let text = "INSERT INTO site_keys (site, generation, key_id, public_key, enrolled_ms)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (site, generation) DO NOTHING";
        self.db.prepare_cached(text)?.execute(params![
            site.site,
            site.key_generation,
            key_id,
            public_key,
            site.enrolled_ms
        ])?;
        self.keep_stream_site(&site.site)?;
        // Whoever has this key reports from now on; one that reports by webhook says so afterwards.
        self.forget_webhook_site(&site.site)?;
        self.forget_request(&site.site, key_id)
    }

    /// Whether a site was registered again after it was revoked.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn has_registered_again(&self) -> Result<bool, StoreError> {
        let text = "SELECT EXISTS (SELECT 1 FROM sites WHERE counts_from_ms IS NOT NULL)";
        Ok(self.db.query_row(text, [], |row| row.get(0))?)
    }

    /// Revokes a site: its reports are refused and gates no longer wait for it. `false` when there
    /// is no such site or it is revoked already.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn revoke_site(&self, site: &str, now_ms: i64) -> Result<bool, StoreError> {
        let text = "UPDATE sites SET revoked_ms = $1 WHERE site = $2 AND revoked_ms IS NULL";
        let is_new = self.db.execute(text, params![now_ms, site])? == 1;
        self.keep_stream_site(site)?;
        Ok(is_new)
    }
}

fn registration(row: &Row<'_>) -> Result<Registration, DbError> {
    registration_after(row, 0)
}

/// The same, of a row with so many columns before it.
pub(super) fn registration_after(row: &Row<'_>, before: usize) -> Result<Registration, DbError> {
    Ok(Registration {
        site: row.get(before)?,
        role: row.get(before + 1)?,
        environment: row.get(before + 2)?,
        cluster_type: row.get(before + 3)?,
        key_generation: row.get(before + 4)?,
        enrolled_ms: row.get(before + 5)?,
        revoked_ms: row.get(before + 6)?,
    })
}
