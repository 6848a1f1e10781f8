//! Where the sites of a stream stand with its bundles: one row per site that is not revoked, kept as reports and registrations
//! come in.
//!
//! What comes in: the names of sites of which something was recorded in this transaction; a bundle of a stream. What goes out:
//! how many sites stand where, counted along an index, and the names of those that stand at one place, a page of them. A row is
//! worked out again from the tables that it follows from, never advanced by itself. It reads no report.

use std::collections::{BTreeMap, BTreeSet};

use super::db::{Row, SqlValue, params};
use super::{Session, StoreError, from_sql, to_sql};

/// Recipients asked for at once.
const RECIPIENTS_AT_ONCE: usize = 400;

/// What of a site's rows gives its place: `attempt` is what the site reported beyond what runs, of its own stream.
const WORKED_OUT: &str = "INSERT INTO stream_sites (site, role, reported, running, running_index, attempt, attempt_state)
     SELECT s.site, s.role, CASE WHEN c.site IS NULL THEN 0 ELSE 1 END,
            CASE WHEN o.role = s.role THEN o.bundle_number ELSE 0 END,
            CASE WHEN o.role = s.role THEN o.index_digest ELSE '' END,
            CASE WHEN a.role = s.role THEN a.bundle_number
                 WHEN v.site IS NOT NULL AND o.role = s.role THEN v.bundle_number ELSE 0 END,
            CASE WHEN a.role = s.role THEN a.state
                 WHEN v.site IS NOT NULL AND o.role = s.role THEN 'reverted' ELSE '' END
       FROM sites s LEFT JOIN current_states c ON c.site = s.site
       LEFT JOIN observations o ON o.site = c.site AND o.epoch = c.epoch AND o.number = c.running
       LEFT JOIN observations a
         ON a.site = c.site AND a.epoch = c.epoch AND a.number = c.attempt AND c.attempt_left = 0
       LEFT JOIN reverts v
         ON v.site = c.site AND v.epoch = c.epoch AND v.number = c.attempt AND c.attempt_left = 1
      WHERE s.revoked_ms IS NULL";
const KEPT: &str = "ON CONFLICT (site) DO UPDATE SET role = excluded.role, reported = excluded.reported,
        running = excluded.running, running_index = excluded.running_index, attempt = excluded.attempt,
        attempt_state = excluded.attempt_state
      WHERE stream_sites.role <> excluded.role OR stream_sites.reported <> excluded.reported
         OR stream_sites.running <> excluded.running OR stream_sites.running_index <> excluded.running_index
         OR stream_sites.attempt <> excluded.attempt OR stream_sites.attempt_state <> excluded.attempt_state";

/// Where a site stands with one bundle of its stream, by what it reported. Each site of the stream is at exactly one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BundlePlace {
    /// It runs the bundle.
    Runs,
    /// It reported the bundle, and does not run it yet.
    Took,
    /// It reported that the bundle failed or was rejected, or that it left it again.
    NotTaken,
    /// It runs other content under the bundle's number.
    OtherContent,
    /// It runs a newer one.
    Beyond,
    /// It reports, and of this bundle nothing.
    Behind,
    /// It never reported.
    Never,
}

impl BundlePlace {
    /// Every place.
    pub const ALL: [Self; 7] = [
        Self::Runs,
        Self::Took,
        Self::NotTaken,
        Self::OtherContent,
        Self::Beyond,
        Self::Behind,
        Self::Never,
    ];

    /// Its word in addresses and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Took => "took",
            Self::NotTaken => "not_taken",
            Self::OtherContent => "other_content",
            Self::Beyond => "beyond",
            Self::Behind => "behind",
            Self::Never => "never",
        }
    }

    /// The condition of the rows at it: the bundle's number is `$2`, the digest of its index `$3`.
    fn condition(self) -> &'static str {
        match self {
            Self::Runs => "reported = 1 AND running = $2 AND running_index = $3",
            Self::Took => {
                "running < $2 AND attempt = $2 AND $3 <> '' AND attempt_state NOT IN ('failed', 'rejected', 'reverted')"
            }
            Self::NotTaken => {
                "running < $2 AND attempt = $2 AND $3 <> '' AND attempt_state IN ('failed', 'rejected', 'reverted')"
            }
            Self::OtherContent => "reported = 1 AND running = $2 AND running_index <> $3",
            Self::Beyond => "reported = 1 AND running > $2 AND $3 <> ''",
            Self::Behind => "reported = 1 AND running < $2 AND attempt <> $2 AND $3 <> ''",
            Self::Never => "reported = 0 AND running < $2 AND $3 <> ''",
        }
    }
}

/// Sites of a stream that stand alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSites {
    /// Whether they reported anything.
    pub reported: bool,
    /// The number of the bundle that they run; 0 for none of this stream.
    pub running: u64,
    /// Digest of its index, as they report it.
    pub running_index: String,
    /// The bundle above that one which they reported last; 0 for none.
    pub attempt: u64,
    /// How far that one came.
    pub attempt_state: String,
    /// How many they are.
    pub sites: u64,
}

impl StreamSites {
    /// Where they stand with a bundle of their stream, of which `index` is the digest of the index.
    pub fn place(&self, number: u64, index: &str) -> BundlePlace {
        if !self.reported {
            BundlePlace::Never
        } else if self.running > number {
            BundlePlace::Beyond
        } else if self.running == number && self.running_index == index {
            BundlePlace::Runs
        } else if self.running == number {
            BundlePlace::OtherContent
        } else if self.attempt != number {
            BundlePlace::Behind
        } else if matches!(
            self.attempt_state.as_str(),
            "failed" | "rejected" | "reverted"
        ) {
            BundlePlace::NotTaken
        } else {
            BundlePlace::Took
        }
    }
}

/// One bundle of a stream, and for whom it is.
#[derive(Debug, Clone, Copy)]
pub struct BundleOfStream<'a> {
    /// The stream's signing role.
    pub role: &'a str,
    /// The number.
    pub number: u64,
    /// Digest of its index.
    pub index: &'a str,
    /// The sites that it is for; empty for every site of the stream.
    pub recipients: &'a BTreeSet<String>,
}

/// A site at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedSite {
    /// Its name.
    pub site: String,
    /// The number of the bundle that it runs; 0 for none of this stream.
    pub running: u64,
    /// The bundle above that one which it reported last; 0 for none.
    pub attempt: u64,
    /// How far that one came.
    pub attempt_state: String,
    /// When its newest report was received, milliseconds since 1970; `None` when it never reported.
    pub received_ms: Option<i64>,
}

impl Session<'_> {
    /// Works out again where `site` stands in its stream. To be called in the transaction in which its registration or
    /// what follows from its reports was written.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub(super) fn keep_stream_site(&self, site: &str) -> Result<(), StoreError> {
        self.keep_stream_sites(&[[SqlValue::Text(site)]])
    }

    /// The same of many sites.
    pub(super) fn keep_stream_sites(&self, sites: &[[SqlValue<'_>; 1]]) -> Result<(), StoreError> {
        let text = format!("{WORKED_OUT} AND s.site IN (SELECT v.column1 FROM {{keys}}) {KEPT}");
        self.of_each(&text, sites, |_| Ok(()))?;
        let text = "DELETE FROM stream_sites WHERE site IN (SELECT v.column1 FROM {keys})
                AND NOT EXISTS (SELECT 1 FROM sites s WHERE s.site = stream_sites.site AND s.revoked_ms IS NULL)";
        self.of_each(text, sites, |_| Ok(()))
    }

    /// The same for every site, for a store that was written before there was such a table.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn keep_all_stream_sites(&self) -> Result<(), StoreError> {
        self.db.execute("DELETE FROM stream_sites", [])?;
        self.db.execute(WORKED_OUT, [])?;
        Ok(())
    }

    /// How the sites of a stream stand, those that stand alike together.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn sites_of_stream(&self, role: &str) -> Result<Vec<StreamSites>, StoreError> {
        let text = "SELECT reported, running, running_index, attempt, attempt_state, COUNT(*)
               FROM stream_sites WHERE role = $1
              GROUP BY reported, running, running_index, attempt, attempt_state
              ORDER BY reported, running, running_index, attempt, attempt_state";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params![role], |row| {
            Ok(StreamSites {
                reported: row.get(0)?,
                running: from_sql(row.get(1)?),
                running_index: row.get(2)?,
                attempt: from_sql(row.get(3)?),
                attempt_state: row.get(4)?,
                sites: from_sql(row.get(5)?),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many of the sites that a bundle is for stand at each place; `stream` is what [`Self::sites_of_stream`] answers.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn places_of_bundle(
        &self,
        bundle: BundleOfStream<'_>,
        stream: &[StreamSites],
    ) -> Result<BTreeMap<BundlePlace, u64>, StoreError> {
        let mut found: BTreeMap<BundlePlace, u64> = BTreeMap::new();
        if bundle.recipients.is_empty() {
            for alike in stream {
                *found
                    .entry(alike.place(bundle.number, bundle.index))
                    .or_default() += alike.sites;
            }
            return Ok(found);
        }
        let recipients: Vec<&String> = bundle.recipients.iter().collect();
        for part in recipients.chunks(RECIPIENTS_AT_ONCE) {
            let text = format!(
                "SELECT reported, running, running_index, attempt, attempt_state FROM stream_sites
                  WHERE role = $1 AND site IN ({})",
                listed(2, part.len())
            );
            let mut values = vec![SqlValue::Text(bundle.role)];
            values.extend(part.iter().map(|site| SqlValue::Text(site)));
            let mut query = self.db.prepare_cached(&text)?;
            let mut rows = query.query(values)?;
            while let Some(row) = rows.next()? {
                let one = StreamSites {
                    reported: row.get(0)?,
                    running: from_sql(row.get(1)?),
                    running_index: row.get(2)?,
                    attempt: from_sql(row.get(3)?),
                    attempt_state: row.get(4)?,
                    sites: 1,
                };
                *found
                    .entry(one.place(bundle.number, bundle.index))
                    .or_default() += 1;
            }
        }
        Ok(found)
    }

    /// The sites at one place that a bundle is for, by name, after a name.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn sites_at(
        &self,
        bundle: BundleOfStream<'_>,
        place: BundlePlace,
        after: &str,
        at_most: usize,
    ) -> Result<Vec<PlacedSite>, StoreError> {
        if bundle.recipients.is_empty() {
            return self.placed(bundle, place, (after, at_most), None);
        }
        let later: Vec<&str> = bundle
            .recipients
            .iter()
            .map(String::as_str)
            .filter(|site| *site > after)
            .collect();
        let mut found = Vec::new();
        for part in later.chunks(RECIPIENTS_AT_ONCE) {
            let left = at_most.saturating_sub(found.len());
            if left == 0 {
                break;
            }
            found.extend(self.placed(bundle, place, (after, left), Some(part))?);
        }
        Ok(found)
    }

    fn placed(
        &self,
        bundle: BundleOfStream<'_>,
        place: BundlePlace,
        (after, at_most): (&str, usize),
        of: Option<&[&str]>,
    ) -> Result<Vec<PlacedSite>, StoreError> {
        let among = match of {
            Some(sites) => format!("AND site IN ({})", listed(5, sites.len())),
            None => String::new(),
        };
        let last = 5 + of.map_or(0, <[_]>::len);
        let text = format!(
            "SELECT p.site, p.running, p.attempt, p.attempt_state, r.received_ms
               FROM (SELECT site, running, attempt, attempt_state FROM stream_sites
                      WHERE role = $1 AND {} AND site > $4 {among} ORDER BY site LIMIT ${last}) AS p
               LEFT JOIN current_states c ON c.site = p.site
               LEFT JOIN reports r ON r.site = c.site AND r.epoch = c.epoch AND r.number = c.newest
              ORDER BY p.site",
            place.condition()
        );
        let mut values = vec![
            SqlValue::Text(bundle.role),
            SqlValue::Int(to_sql(bundle.number)),
            SqlValue::Text(bundle.index),
            SqlValue::Text(after),
        ];
        values.extend(
            of.unwrap_or_default()
                .iter()
                .map(|site| SqlValue::Text(site)),
        );
        values.push(SqlValue::Int(i64::try_from(at_most).unwrap_or(i64::MAX)));
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map(values, |row: &Row<'_>| {
            Ok(PlacedSite {
                site: row.get(0)?,
                running: from_sql(row.get(1)?),
                attempt: from_sql(row.get(2)?),
                attempt_state: row.get(3)?,
                received_ms: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// `$from, …`: so many parameters, the first of which is `from`.
fn listed(from: usize, count: usize) -> String {
    let names: Vec<String> = (from..from + count).map(|at| format!("${at}")).collect();
    names.join(", ")
}
