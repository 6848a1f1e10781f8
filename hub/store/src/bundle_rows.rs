//! Bundles as they are listed: those of each stream, the newest first, and the indexes that are kept of them.
//!
//! What comes in: a stream, and below which number. What goes out: rows of what was recorded, a bounded number of them, and the
//! text of one index. It verifies nothing and reads no site.

use std::collections::BTreeSet;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Snapshot;

use super::db::{DbError, OptionalExtension as _, Row, params};
use super::{Session, StoreError, from_sql, parse, to_sql};

/// A stream of which bundles are on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamOnRecord {
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// Its signing role.
    pub role: String,
    /// How many bundles of it are on record.
    pub bundles: u64,
    /// The highest number.
    pub newest: u64,
}

/// A bundle as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleOnRecord {
    /// Its stream's signing role.
    pub role: String,
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// Its number.
    pub number: u64,
    /// Digest of its index.
    pub index: String,
    /// Size of its index, in bytes.
    pub index_size: u64,
    /// The commits that it was rendered from.
    pub snapshot: Snapshot,
    /// The sites that it is for; empty for every site of the stream.
    pub recipients: BTreeSet<String>,
    /// The reconciler's kind.
    pub reconciler: String,
    /// When it was signed, milliseconds since 1970.
    pub issued_ms: i64,
    /// When its signature expires.
    pub expires_ms: i64,
    /// When this hub received it first.
    pub received_ms: i64,
    /// Whether a key that signed it was taken away from its stream since.
    pub taken_back: bool,
    /// How many assignments it has.
    pub assignments: u64,
}

/// What is kept of a bundle's index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptIndex {
    /// Its text, which has the digest on record.
    Whole(String),
    /// Nothing is kept: it is too large, or was recorded before indexes were kept.
    Missing,
    /// What is kept has another digest.
    Other,
}

const COLUMNS: &str = "SELECT b.role, b.environment, b.cluster_type, b.number, b.index_digest, b.index_size, b.snapshot,
            b.recipients, b.reconciler, b.issued_ms, b.expires_ms, b.recorded_ms, b.taken_back,
            (SELECT COUNT(*) FROM bundle_assignments a WHERE a.role = b.role AND a.number = b.number)
       FROM bundles b";

impl Session<'_> {
    /// The streams of which bundles are on record, by environment and cluster type.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn streams_on_record(&self) -> Result<Vec<StreamOnRecord>, StoreError> {
        let text = "SELECT environment, cluster_type, role, COUNT(*), MAX(number) FROM bundles
              GROUP BY environment, cluster_type, role ORDER BY environment, cluster_type, role";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map([], |row| {
            Ok(StreamOnRecord {
                environment: row.get(0)?,
                cluster_type: row.get(1)?,
                role: row.get(2)?,
                bundles: from_sql(row.get(3)?),
                newest: from_sql(row.get(4)?),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The bundles of a stream below a number, the newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn bundles_below(
        &self,
        role: &str,
        below: u64,
        at_most: usize,
    ) -> Result<Vec<BundleOnRecord>, StoreError> {
        let text = format!(
            "{COLUMNS} WHERE b.role = $1 AND b.number < $2 ORDER BY b.number DESC LIMIT $3"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let at_most = i64::try_from(at_most).unwrap_or(i64::MAX);
        let mut rows = query.query(params![role, to_sql(below), at_most])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(on_record(&row)?);
        }
        Ok(found)
    }

    /// The newest bundle of a role that was not taken back.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn newest_bundle(&self, role: &str) -> Result<Option<BundleOnRecord>, StoreError> {
        let text = format!(
            "{COLUMNS} WHERE b.role = $1 AND b.taken_back = 0 ORDER BY b.number DESC LIMIT 1"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let mut rows = query.query(params![role])?;
        rows.next()?.map(|row| on_record(&row)).transpose()
    }

    /// The bundles of a role for a site that were made from a base commit and not taken back, the newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn bundles_of_base(
        &self,
        (role, site): (&str, &str),
        base_commit: &str,
        at_most: usize,
    ) -> Result<Vec<BundleOnRecord>, StoreError> {
        let text = format!(
            "{COLUMNS} WHERE b.role = $1 AND b.base_commit = $2 AND b.taken_back = 0
                AND (b.recipients = '[]' OR REPLACE(b.recipients, $3, '') <> b.recipients)
              ORDER BY b.number DESC LIMIT $4"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let at_most = i64::try_from(at_most).unwrap_or(i64::MAX);
        // Recipients are a list of JSON, and no name needs an escape in it.
        let named = format!("\"{site}\"");
        let mut rows = query.query(params![role, base_commit, named, at_most])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(on_record(&row)?);
        }
        Ok(found)
    }

    /// One bundle of a stream.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn bundle_on_record(
        &self,
        role: &str,
        number: u64,
    ) -> Result<Option<BundleOnRecord>, StoreError> {
        let below = number.saturating_add(1);
        let found = self.bundles_below(role, below, 1)?.pop();
        Ok(found.filter(|bundle| bundle.number == number))
    }

    /// The number of the bundle after one, on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn next_bundle(&self, role: &str, number: u64) -> Result<Option<u64>, StoreError> {
        let text = "SELECT MIN(number) FROM bundles WHERE role = $1 AND number > $2";
        let mut query = self.db.prepare_cached(text)?;
        let next: Option<i64> = query.query_row(params![role, to_sql(number)], |row| row.get(0))?;
        Ok(next.map(from_sql))
    }

    /// The number of the bundle of a stream that `newer` ones are above.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn nth_newest_bundle(&self, role: &str, newer: usize) -> Result<Option<u64>, StoreError> {
        let text =
            "SELECT number FROM bundles WHERE role = $1 ORDER BY number DESC LIMIT 1 OFFSET $2";
        let mut query = self.db.prepare_cached(text)?;
        let newer = i64::try_from(newer).unwrap_or(i64::MAX);
        let found: Option<i64> = query
            .query_row(params![role, newer], |row| row.get(0))
            .optional()?;
        Ok(found.map(from_sql))
    }

    /// What is kept of a bundle's index.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn kept_index(&self, bundle: &BundleOnRecord) -> Result<KeptIndex, StoreError> {
        let text = "SELECT index_body FROM accepted_metadata
              WHERE role = $1 AND number = $2 AND index_body IS NOT NULL ORDER BY id DESC LIMIT 1";
        let mut query = self.db.prepare_cached(text)?;
        let key = params![bundle.role, to_sql(bundle.number)];
        let body: Option<String> = query.query_row(key, |row| row.get(0)).optional()?;
        Ok(match body {
            None => KeptIndex::Missing,
            Some(body) if Digest::of(body.as_bytes()).to_string() == bundle.index => {
                KeptIndex::Whole(body)
            }
            Some(_) => KeptIndex::Other,
        })
    }

    /// Whether an index of a bundle is kept; its text is not read.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn keeps_index(&self, bundle: &BundleOnRecord) -> Result<bool, StoreError> {
        let text = "SELECT COUNT(*) FROM accepted_metadata
              WHERE role = $1 AND number = $2 AND index_body IS NOT NULL";
        let mut query = self.db.prepare_cached(text)?;
        let key = params![bundle.role, to_sql(bundle.number)];
        let count: i64 = query.query_row(key, |row| row.get(0))?;
        Ok(count > 0)
    }

    /// How many sites of a stream run each number of it, the number that most run first: number, digest of its index as
    /// they report it, sites.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn running_in_stream(&self, role: &str) -> Result<Vec<(u64, String, u64)>, StoreError> {
        let text = "SELECT running, running_index, COUNT(*) FROM stream_sites
              WHERE role = $1 AND reported = 1 AND running > 0
              GROUP BY running, running_index ORDER BY 3 DESC, 1 DESC, 2";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params![role], |row| {
            Ok((from_sql(row.get(0)?), row.get(1)?, from_sql(row.get(2)?)))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn on_record(row: &Row<'_>) -> Result<BundleOnRecord, StoreError> {
    let text = |at: usize| -> Result<String, DbError> { row.get(at) };
    Ok(BundleOnRecord {
        role: text(0)?,
        environment: text(1)?,
        cluster_type: text(2)?,
        number: from_sql(row.get(3)?),
        index: text(4)?,
        index_size: from_sql(row.get(5)?),
        snapshot: parse(&text(6)?, "a snapshot")?,
        recipients: parse(&text(7)?, "recipients")?,
        reconciler: text(8)?,
        issued_ms: row.get(9)?,
        expires_ms: row.get(10)?,
        received_ms: row.get(11)?,
        taken_back: row.get(12)?,
        assignments: from_sql(row.get(13)?),
    })
}
