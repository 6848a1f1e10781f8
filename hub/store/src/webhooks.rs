//! Sites that report by webhook: how they are registered, and what their objects showed last.
//!
//! What comes in: a registration, and after each event what the site shows now. What goes out: the same. No secret is stored, and what
//! the texts mean is not known here.

use std::collections::BTreeSet;

use super::db::{DbError, OptionalExtension as _, Row, SqlValue, params};
use super::{Session, StoreError};

/// One registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSite {
    /// The site.
    pub site: String,
    /// Who sends: `flux` or `argocd`.
    pub sender: String,
    /// What its secret is derived from, beside the hub's key.
    pub salt: String,
    /// What it was registered with, as JSON.
    pub settings: String,
    /// What its objects showed last, as JSON; empty before the first event.
    pub shown: String,
    /// When it was registered, milliseconds since 1970.
    pub registered_ms: i64,
    /// By whom.
    pub registered_by: String,
}

const COLUMNS: &str = "site, sender, salt, settings, shown, registered_ms, registered_by";

impl Session<'_> {
    /// The registration of a site; `None` for one that does not report by webhook.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn webhook_site(&self, site: &str) -> Result<Option<WebhookSite>, StoreError> {
        let text = format!("SELECT {COLUMNS} FROM webhook_sites WHERE site = $1");
        let mut query = self.db.prepare_cached(&text)?;
        Ok(query.query_row(params![site], webhook_site).optional()?)
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn webhook_sites(&self) -> Result<Vec<WebhookSite>, StoreError> {
        let text = format!("SELECT {COLUMNS} FROM webhook_sites ORDER BY site");
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map(params![], webhook_site)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Which of these sites report by webhook.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn webhook_sites_of(&self, names: &[&str]) -> Result<BTreeSet<String>, StoreError> {
        let text = "SELECT w.site FROM {keys} JOIN webhook_sites w ON w.site = v.column1";
        let keys: Vec<_> = names.iter().map(|name| [SqlValue::Text(name)]).collect();
        let mut found = BTreeSet::new();
        self.of_each(text, &keys, |row| {
            found.insert(row.get(0)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Registers how a site reports, in place of how it did.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn put_webhook_site(&self, one: &WebhookSite) -> Result<(), StoreError> {
        self.forget_webhook_site(&one.site)?;
        let text =
            format!("INSERT INTO webhook_sites ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7)");
        let row = params![
            one.site,
            one.sender,
            one.salt,
            one.settings,
            one.shown,
            one.registered_ms,
            one.registered_by
        ];
        self.db.execute(&text, row)?;
        Ok(())
    }

    /// A site reports by webhook no more, such as when an agent is enrolled on it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn forget_webhook_site(&self, site: &str) -> Result<(), StoreError> {
        let text = "DELETE FROM webhook_sites WHERE site = $1";
        self.db.execute(text, params![site])?;
        Ok(())
    }

    /// Keeps what the objects of a site show now.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn set_webhook_shown(&self, site: &str, shown: &str) -> Result<(), StoreError> {
        let text = "UPDATE webhook_sites SET shown = $1 WHERE site = $2";
        self.db.execute(text, params![shown, site])?;
        Ok(())
    }

    /// The role of the stream of an environment's cluster type, by the newest bundle on record of it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn role_of_stream(
        &self,
        environment: &str,
        cluster_type: &str,
    ) -> Result<Option<String>, StoreError> {
        let text = "SELECT role FROM bundles WHERE environment = $1 AND cluster_type = $2
             ORDER BY issued_ms DESC, number DESC LIMIT 1";
        let mut query = self.db.prepare_cached(text)?;
        let row = query.query_row(params![environment, cluster_type], |row| row.get(0));
        Ok(row.optional()?)
    }
}

fn webhook_site(row: &Row<'_>) -> Result<WebhookSite, DbError> {
    Ok(WebhookSite {
        site: row.get(0)?,
        sender: row.get(1)?,
        salt: row.get(2)?,
        settings: row.get(3)?,
        shown: row.get(4)?,
        registered_ms: row.get(5)?,
        registered_by: row.get(6)?,
    })
}
