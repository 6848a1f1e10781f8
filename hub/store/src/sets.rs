//! What reports state of assignments, kept once for all reports that state the same.
//!
//! What comes in: the results of one report, by assignment. What goes out: the digest by which its observation names them. A look that
//! found nothing new, and the next site of a stream, repeat what is there, and then one line is written instead of one for
//! each assignment. A set never changes. The view `observed_assignments` shows them per report.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::digest::Hasher;
use outhaul_gate::facts::ObservedAssignment;

use super::db::{SqlValue, params};
use super::{Session, StoreError};

/// Reads like the table that it takes the place of.
const VIEW: &str = "CREATE VIEW observed_assignments AS
    SELECT o.site, o.epoch, o.number, s.assignment, s.status, s.config_version, s.message
      FROM observations o JOIN assignment_sets s ON s.digest = o.assignments";

impl Session<'_> {
    /// The digests of sets, which are on record afterwards; empty for an empty one.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub(super) fn keep_sets<'s>(
        &self,
        reported: impl Iterator<Item = &'s BTreeMap<String, ObservedAssignment>>,
    ) -> Result<Vec<String>, StoreError> {
        let mut kept: BTreeSet<String> = BTreeSet::new();
        reported
            .map(|set| {
                if set.is_empty() {
                    return Ok(String::new());
                }
                let digest = digest_of(set);
                if !kept.contains(&digest) {
                    self.keep_set(&digest, set)?;
                    kept.insert(digest.clone());
                }
                Ok(digest)
            })
            .collect()
    }

    fn keep_set(
        &self,
        digest: &str,
        reported: &BTreeMap<String, ObservedAssignment>,
    ) -> Result<(), StoreError> {
        let known = "SELECT EXISTS (SELECT 1 FROM assignment_sets WHERE digest = $1)";
        let mut query = self.db.prepare_cached(known)?;
        if query.query_row(params![digest], |row| row.get::<_, bool>(0))? {
            return Ok(());
        }
        let rows: Vec<_> = reported
            .iter()
            .map(|(assignment, one)| {
                [
                    SqlValue::Text(digest),
                    SqlValue::Text(assignment),
                    SqlValue::Text(&one.status),
                    SqlValue::Text(&one.config_version),
                    SqlValue::Text(&one.message),
                ]
            })
            .collect();
        let text =
            "INSERT INTO assignment_sets (digest, assignment, status, config_version, message)";
        self.insert_each(text, &rows)
    }

    /// Makes sets of what an older hub kept per report.
    pub(super) fn fold_assignments(&self) -> Result<(), StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT site, epoch, number, assignment, status, config_version, message
               FROM observed_assignments_before ORDER BY site, epoch, number, assignment",
        )?;
        let mut rows = query.query([])?;
        let mut place: Option<(String, String, i64)> = None;
        let mut reported: BTreeMap<String, ObservedAssignment> = BTreeMap::new();
        loop {
            let row = rows.next()?;
            let next: Option<(String, String, i64)> = match &row {
                None => None,
                Some(row) => Some((row.get(0)?, row.get(1)?, row.get(2)?)),
            };
            if place.is_some() && place != next {
                self.fold(place.as_ref(), &reported)?;
                reported.clear();
            }
            let Some(row) = row else { break };
            let one = ObservedAssignment {
                status: row.get(4)?,
                config_version: row.get(5)?,
                message: row.get(6)?,
            };
            reported.insert(row.get(3)?, one);
            place = next;
        }
        drop(rows);
        drop(query);
        self.db
            .execute_batch("DROP TABLE observed_assignments_before")?;
        Ok(self.db.execute_batch(VIEW)?)
    }

    fn fold(
        &self,
        place: Option<&(String, String, i64)>,
        reported: &BTreeMap<String, ObservedAssignment>,
    ) -> Result<(), StoreError> {
        let Some((site, epoch, number)) = place else {
            return Ok(());
        };
        let digest = self.keep_sets(std::iter::once(reported))?.concat();
        let text = "UPDATE observations SET assignments = $1 WHERE site = $2 AND epoch = $3 AND number = $4";
        self.db
            .prepare_cached(text)?
            .execute(params![digest, site, epoch, number])?;
        Ok(())
    }
}

/// Of what no two sets have in common: each text with its length before it.
fn digest_of(reported: &BTreeMap<String, ObservedAssignment>) -> String {
    let mut hasher = Hasher::new();
    for (assignment, one) in reported {
        for text in [assignment, &one.status, &one.config_version, &one.message] {
            hasher.update(&(text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        }
    }
    hasher.finish().0.hex()
}
