//! What is on record at many places, asked for at once: a batch of reports is not worth a question each.
//!
//! What comes in: names of sites, numberings, places of reports. What goes out: what is on record of each, with an entry also for
//! what is not. Each is looked up by its key, whatever the server knows of the size of a table. It writes nothing.

use std::collections::BTreeMap;

use super::db::{DbError, Row, SqlValue};
use super::envelopes::{ENVELOPE, kept};
use super::sites::registration_after;
use super::{
    Registration, ReportPosition, Session, SiteKey, StoreError, StoredReport, from_sql, to_sql,
};

/// Rows of one statement: few texts, so that each stays prepared.
const SIZES: [usize; 3] = [1, 8, 64];

/// One numbering of a site, as far as a report of it is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownEpoch {
    /// Generation of the key that signs it.
    pub key_generation: i64,
    /// From which report on, where another key signed what came before.
    pub rekeyed_at: Option<u64>,
    /// Whether no later numbering of the site is on record.
    pub is_last: bool,
    /// Whether no other one is.
    pub is_only: bool,
    /// When someone chose another machine than the one that reports under it, milliseconds since 1970.
    pub set_aside_ms: Option<i64>,
}

/// A site and one of its numberings.
pub type SiteEpoch = (String, String);

impl Session<'_> {
    /// The registrations of these sites.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn sites_named(
        &self,
        names: &[&str],
    ) -> Result<BTreeMap<String, Option<Registration>>, StoreError> {
        let text = "SELECT v.column1, s.site, s.role, s.environment, s.cluster_type, s.key_generation, s.enrolled_ms,
                    s.revoked_ms
               FROM {keys} LEFT JOIN sites s ON s.site = v.column1";
        let keys: Vec<_> = names.iter().map(|name| [SqlValue::Text(name)]).collect();
        let mut found = BTreeMap::new();
        self.of_each(text, &keys, |row| {
            let is_known = row.get::<_, Option<String>>(1)?.is_some();
            let site = is_known.then(|| registration_after(row, 1)).transpose()?;
            found.insert(row.get(0)?, site);
            Ok(())
        })?;
        Ok(found)
    }

    /// The keys of these sites whose reports are taken, of each the newest first: none of those that a revocation ended.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn keys_of_sites(
        &self,
        names: &[&str],
    ) -> Result<BTreeMap<String, Vec<SiteKey>>, StoreError> {
        let text = "SELECT k.site, k.generation, k.key_id, k.public_key
               FROM {keys} JOIN site_keys k ON k.site = v.column1 JOIN sites s ON s.site = k.site
              WHERE s.counts_from_ms IS NULL OR k.enrolled_ms >= s.counts_from_ms OR k.generation = s.key_generation";
        let keys: Vec<_> = names.iter().map(|name| [SqlValue::Text(name)]).collect();
        // By generation: a key that fills up its statement comes twice.
        let mut found: BTreeMap<String, BTreeMap<i64, SiteKey>> = BTreeMap::new();
        self.of_each(text, &keys, |row| {
            let key = SiteKey {
                generation: row.get(1)?,
                key_id: row.get(2)?,
                public_key: row.get(3)?,
            };
            found
                .entry(row.get(0)?)
                .or_default()
                .insert(key.generation, key);
            Ok(())
        })?;
        let newest_first = |(site, keys): (String, BTreeMap<i64, SiteKey>)| {
            (site, keys.into_values().rev().collect())
        };
        Ok(found.into_iter().map(newest_first).collect())
    }

    /// What is on record at these places.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn stored_reports(
        &self,
        places: &[ReportPosition],
    ) -> Result<BTreeMap<ReportPosition, Option<StoredReport>>, StoreError> {
        // One look for both columns: no digest has a space in it.
        let text = "SELECT v.column1, v.column2, v.column3,
                    (SELECT r.digest || ' ' || COALESCE(r.previous, '') FROM reports r
                      WHERE r.site = v.column1 AND r.epoch = v.column2 AND r.number = v.column3)
               FROM {keys}";
        let keys = keys_of(places);
        let mut found = BTreeMap::new();
        self.of_each(text, &keys, |row| {
            let place = place_of(row)?;
            let both: Option<String> = row.get(3)?;
            let stored = both.as_deref().and_then(|both| both.split_once(' '));
            let stored = stored.map(|(digest, previous)| StoredReport {
                digest: digest.to_owned(),
                previous: Some(previous.to_owned()).filter(|text| !text.is_empty()),
            });
            found.insert(place, stored);
            Ok(())
        })?;
        Ok(found)
    }

    /// The envelopes of what is on record at these places, as they came.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn envelopes_at(
        &self,
        places: &[ReportPosition],
    ) -> Result<BTreeMap<ReportPosition, Vec<u8>>, StoreError> {
        let text = format!(
            "SELECT r.site, r.epoch, r.number, {ENVELOPE}, r.digest
               FROM {{keys}} JOIN reports r ON r.site = v.column1 AND r.epoch = v.column2 AND r.number = v.column3"
        );
        let keys = keys_of(places);
        let mut found = BTreeMap::new();
        self.of_each(&text, &keys, |row| {
            let place = place_of(row)?;
            if let Some(envelope) = kept(row.get(3)?, &row.get::<_, String>(4)?) {
                found.insert(place, envelope);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// What is known of these numberings; `None` of one that is new.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn known_epochs(
        &self,
        epochs: &[SiteEpoch],
    ) -> Result<BTreeMap<SiteEpoch, Option<KnownEpoch>>, StoreError> {
        let text = "SELECT v.column1, v.column2, e.key_generation, e.rekeyed_at,
                    CASE WHEN EXISTS (SELECT 1 FROM epochs o WHERE o.site = e.site AND o.ordinal > e.ordinal)
                         THEN 0 ELSE 1 END,
                    CASE WHEN EXISTS (SELECT 1 FROM epochs o WHERE o.site = e.site AND o.epoch <> e.epoch)
                         THEN 0 ELSE 1 END,
                    e.set_aside_ms
               FROM {keys} LEFT JOIN epochs e ON e.site = v.column1 AND e.epoch = v.column2";
        let mut found = BTreeMap::new();
        self.of_each(text, &texts(epochs), |row| {
            let generation: Option<i64> = row.get(2)?;
            let epoch = match generation {
                None => None,
                Some(key_generation) => Some(KnownEpoch {
                    key_generation,
                    rekeyed_at: row.get::<_, Option<i64>>(3)?.map(from_sql),
                    is_last: row.get(4)?,
                    is_only: row.get(5)?,
                    set_aside_ms: row.get(6)?,
                }),
            };
            found.insert((row.get(0)?, row.get(1)?), epoch);
            Ok(())
        })?;
        Ok(found)
    }

    /// For each of these numberings, whether any report of it was removed.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn have_removed(
        &self,
        epochs: &[SiteEpoch],
    ) -> Result<BTreeMap<SiteEpoch, bool>, StoreError> {
        let text = "SELECT v.column1, v.column2,
                    CASE WHEN EXISTS (SELECT 1 FROM removed_reports d
                                       WHERE d.site = v.column1 AND d.epoch = v.column2) THEN 1 ELSE 0 END
               FROM {keys}";
        let mut found = BTreeMap::new();
        self.of_each(text, &texts(epochs), |row| {
            found.insert((row.get(0)?, row.get(1)?), row.get(2)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Runs a query for all `keys`, many at once, and hands over its rows. In `text`, `{keys}` are rows `v` with the columns
    /// `column1` and so on; the last of the keys may be asked for several times.
    pub(super) fn of_each<const N: usize>(
        &self,
        text: &str,
        keys: &[[SqlValue<'_>; N]],
        mut take: impl FnMut(&Row<'_>) -> Result<(), DbError>,
    ) -> Result<(), StoreError> {
        for part in keys.chunks(SIZES[SIZES.len() - 1]) {
            let Some(last) = part.last() else { break };
            let size = SIZES.into_iter().find(|size| *size >= part.len());
            let size = size.unwrap_or(part.len());
            let filled = part.iter().chain(std::iter::repeat(last)).take(size);
            let values: Vec<SqlValue<'_>> = filled.flatten().copied().collect();
            let text = text.replace("{keys}", &format!("({}) AS v", rows_of(size, last)));
            let mut query = self.db.prepare_cached(&text)?;
            let mut rows = query.query(values)?;
            while let Some(row) = rows.next()? {
                take(&row)?;
            }
        }
        Ok(())
    }

    /// Writes many rows: `text` up to the word `VALUES`.
    pub(super) fn insert_each<const N: usize>(
        &self,
        text: &str,
        rows: &[[SqlValue<'_>; N]],
    ) -> Result<(), StoreError> {
        let mut rest = rows;
        for size in SIZES.into_iter().rev() {
            while rest.len() >= size {
                let (part, after) = rest.split_at(size);
                rest = after;
                let list = placeholders(size, |at| format!("${}", at + 1), N);
                let values: Vec<SqlValue<'_>> = part.iter().flatten().copied().collect();
                let mut insert = self.db.prepare_cached(&format!("{text} VALUES {list}"))?;
                insert.execute(values)?;
            }
        }
        Ok(())
    }
}

/// Numberings as keys.
pub(super) fn texts(epochs: &[SiteEpoch]) -> Vec<[SqlValue<'_>; 2]> {
    let texts = |(site, epoch)| [SqlValue::Text(site), SqlValue::Text(epoch)];
    let pairs = epochs.iter().map(|(site, epoch)| (&**site, &**epoch));
    pairs.map(texts).collect()
}

/// Places as rows of keys.
fn keys_of(places: &[ReportPosition]) -> Vec<[SqlValue<'_>; 3]> {
    let keys = places.iter().map(|place| {
        let number = SqlValue::Int(to_sql(place.number));
        [
            SqlValue::Text(&place.site),
            SqlValue::Text(&place.epoch),
            number,
        ]
    });
    keys.collect()
}

/// The place in the first three columns.
fn place_of(row: &Row<'_>) -> Result<ReportPosition, DbError> {
    Ok(ReportPosition {
        site: row.get(0)?,
        epoch: row.get(1)?,
        number: from_sql(row.get(2)?),
    })
}

/// `VALUES` of so many rows of the kinds of `like`; a server is to know them without a look at a table.
fn rows_of<const N: usize>(size: usize, like: &[SqlValue<'_>; N]) -> String {
    let typed = |at: usize| {
        let kind = match like[at % N] {
            SqlValue::Int(_) => "BIGINT",
            _ => "TEXT",
        };
        format!("CAST(${} AS {kind})", at + 1)
    };
    format!("VALUES {}", placeholders(size, typed, N))
}

fn placeholders(size: usize, one: impl Fn(usize) -> String, width: usize) -> String {
    let row = |row: usize| {
        let columns: Vec<String> = (0..width).map(|column| one(row * width + column)).collect();
        format!("({})", columns.join(", "))
    };
    (0..size).map(row).collect::<Vec<_>>().join(", ")
}
