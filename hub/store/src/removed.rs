//! Which reports are no longer kept: the removals on record, and the numbers that they removed.
//!
//! What comes in: a removal that begins, what it removed of a site, and its end. What goes out: the removals, the newest first, and
//! the numbers of a site that are gone, as ranges. A number in a range was on record: it is known, and never counted again. It
//! removes no report by itself.

use std::collections::BTreeMap;

use serde::Serialize;

use super::db::{OptionalExtension as _, Row, params};
use super::{ReportPosition, Session, StoreError, from_sql, to_sql};

/// One time that reports were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Removal {
    /// Its number.
    pub id: u64,
    /// When it began, milliseconds since 1970.
    pub at_ms: i64,
    /// Who removed them: a person, or `serve` for the server by its setting.
    pub by: String,
    /// The rule, such as `older than 180 days`.
    pub rule: String,
    /// Reports that were received before this moment, milliseconds since 1970.
    pub before_ms: i64,
    /// Of how many sites some were removed.
    pub sites: u64,
    /// How many reports were removed.
    pub reports: u64,
    /// How many bytes their envelopes had.
    pub bytes: u64,
    /// When it ended; `None` while it goes on, or where it was cut off: the next one removes the rest.
    pub ended_ms: Option<i64>,
}

/// Numbers of one numbering of a site that are no longer kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct RemovedRange {
    /// The site.
    pub site: String,
    /// The numbering.
    pub epoch: String,
    /// The first number.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// Since when the first of them was removed, milliseconds since 1970.
    pub since_ms: i64,
    /// The rule of the last removal.
    pub rule: String,
    /// Who did that one.
    pub by: String,
}

/// How much of a numbering is no longer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RemovedInAll {
    /// In how many ranges.
    pub ranges: u64,
    /// How many reports.
    pub reports: u64,
    /// Since when the first of them was removed, milliseconds since 1970.
    pub since_ms: i64,
}

/// What is read of a range, as [`range`] takes it.
const RANGES: &str =
    "SELECT d.epoch, d.first_number, d.last_number, d.since_ms, r.rule, r.by_name, d.site
               FROM removed_reports d JOIN removals r ON r.id = d.removal";

/// Ranges of one numbering: first number to last number, removal and since when.
type Ranges = BTreeMap<u64, (u64, i64, i64)>;

impl Session<'_> {
    /// Puts a removal on record that begins; returns its number.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn begin_removal(
        &self,
        (by, rule): (&str, &str),
        before_ms: i64,
        now_ms: i64,
    ) -> Result<i64, StoreError> {
        let id = self.next_id("removals")?;
        self.db.execute(
            "INSERT INTO removals (id, at_ms, by_name, rule, before_ms, sites, reports, bytes, ended_ms)
             VALUES ($1, $2, $3, $4, $5, 0, 0, 0, NULL)",
            params![id, now_ms, by, rule, before_ms],
        )?;
        Ok(id)
    }

    /// Adds to what a removal did.
    pub(super) fn count_removed(
        &self,
        id: i64,
        (sites, reports, bytes): (u64, u64, u64),
    ) -> Result<(), StoreError> {
        self.db.prepare_cached(
            "UPDATE removals SET sites = sites + $1, reports = reports + $2, bytes = bytes + $3 WHERE id = $4",
        )?
        .execute(params![to_sql(sites), to_sql(reports), to_sql(bytes), id])?;
        Ok(())
    }

    /// Notes that a removal went through everything. One that found nothing leaves no entry.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn end_removal(&self, id: i64, now_ms: i64) -> Result<(), StoreError> {
        let text = "DELETE FROM removals WHERE id = $1 AND reports = 0";
        self.db.execute(text, params![id])?;
        let text = "UPDATE removals SET ended_ms = $1 WHERE id = $2";
        self.db.execute(text, params![now_ms, id])?;
        Ok(())
    }

    /// The removals on record, the newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn removals(&self, at_most: u32) -> Result<Vec<Removal>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT id, at_ms, by_name, rule, before_ms, sites, reports, bytes, ended_ms FROM removals
              ORDER BY id DESC LIMIT $1",
        )?;
        let rows = query.query_map(params![at_most], |row| {
            Ok(Removal {
                id: from_sql(row.get(0)?),
                at_ms: row.get(1)?,
                by: row.get(2)?,
                rule: row.get(3)?,
                before_ms: row.get(4)?,
                sites: from_sql(row.get(5)?),
                reports: from_sql(row.get(6)?),
                bytes: from_sql(row.get(7)?),
                ended_ms: row.get(8)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The numbers of a site that are no longer kept, by numbering and number, after a range that begins at a number of a numbering,
    /// at most so many ranges.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn removed_ranges(
        &self,
        site: &str,
        after: Option<(&str, u64)>,
        at_most: u32,
    ) -> Result<Vec<RemovedRange>, StoreError> {
        let text = format!(
            "{RANGES} WHERE d.site = $1 AND (d.epoch > $2 OR (d.epoch = $2 AND d.first_number > $3))
              ORDER BY d.epoch, d.first_number LIMIT $4"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let (epoch, number) = after.unwrap_or(("", 0));
        let rows = query.query_map(params![site, epoch, to_sql(number), at_most], range)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Ranges of one numbering that have a number from one to another, the highest first, at most so many.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn removed_within(
        &self,
        (site, epoch): (&str, &str),
        (from, to): (u64, u64),
        at_most: u32,
    ) -> Result<Vec<RemovedRange>, StoreError> {
        // No range overlaps another: of those that begin before `from` only the last can reach it.
        let text = format!(
            "{RANGES} WHERE d.site = $1 AND d.epoch = $2 AND d.first_number <= $3 AND d.last_number >= $4
                AND d.first_number >= COALESCE((SELECT MAX(b.first_number) FROM removed_reports b
                                                WHERE b.site = $1 AND b.epoch = $2 AND b.first_number <= $4), $4)
              ORDER BY d.first_number DESC LIMIT $5"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let key = params![site, epoch, to_sql(to), to_sql(from), at_most];
        let rows = query.query_map(key, range)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How much of each numbering of a site is no longer kept.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn removed_in_all(&self, site: &str) -> Result<BTreeMap<String, RemovedInAll>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT epoch, COUNT(*), COALESCE(CAST(SUM(last_number - first_number + 1) AS BIGINT), 0), MIN(since_ms)
               FROM removed_reports WHERE site = $1 GROUP BY epoch",
        )?;
        let rows = query.query_map(params![site], |row| {
            let all = RemovedInAll {
                ranges: from_sql(row.get(1)?),
                reports: from_sql(row.get(2)?),
                since_ms: row.get(3)?,
            };
            Ok((row.get(0)?, all))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Whether the report at a place was on record and is no longer kept.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn is_removed(&self, place: &ReportPosition) -> Result<bool, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT last_number FROM removed_reports
              WHERE site = $1 AND epoch = $2 AND first_number <= $3 ORDER BY first_number DESC LIMIT 1",
        )?;
        let key = params![place.site, place.epoch, to_sql(place.number)];
        let last: Option<i64> = query.query_row(key, |row| row.get(0)).optional()?;
        Ok(last.is_some_and(|last| from_sql(last) >= place.number))
    }

    /// Notes numbers of a numbering that a removal has just removed, together with those beside them.
    pub(super) fn add_removed(
        &self,
        (site, epoch): (&str, &str),
        numbers: &[u64],
        (removal, now_ms): (i64, i64),
    ) -> Result<(), StoreError> {
        let (Some(least), Some(most)) = (numbers.iter().min(), numbers.iter().max()) else {
            return Ok(());
        };
        let mut query = self.db.prepare_cached(
            "SELECT first_number, last_number, removal, since_ms FROM removed_reports
              WHERE site = $1 AND epoch = $2 AND last_number >= $3 AND first_number <= $4",
        )?;
        let near = (least.saturating_sub(1), most.saturating_add(1));
        let key = params![site, epoch, to_sql(near.0), to_sql(near.1)];
        let rows = query.query_map(key, |row| {
            let (first, last) = (from_sql(row.get(0)?), from_sql(row.get(1)?));
            Ok((first, (last, row.get(2)?, row.get(3)?)))
        })?;
        let mut ranges: Ranges = rows.collect::<Result<_, _>>()?;
        let before: Vec<u64> = ranges.keys().copied().collect();
        for number in numbers {
            ranges.insert(*number, (*number, removal, now_ms));
        }
        let remove =
            "DELETE FROM removed_reports WHERE site = $1 AND epoch = $2 AND first_number = $3";
        let mut remove = self.db.prepare_cached(remove)?;
        for first in before {
            remove.execute(params![site, epoch, to_sql(first)])?;
        }
        let mut insert = self.db.prepare_cached(
            "INSERT INTO removed_reports (site, epoch, first_number, last_number, removal, since_ms)
             VALUES ($1, $2, $3, $4, $5, $6)",
        )?;
        for (first, (last, removal, since_ms)) in joined(ranges) {
            insert.execute(params![
                site,
                epoch,
                to_sql(first),
                to_sql(last),
                removal,
                since_ms
            ])?;
        }
        Ok(())
    }
}

/// Ranges that touch made one, of the newest removal and since the first.
fn joined(ranges: Ranges) -> Ranges {
    let mut joined: Ranges = BTreeMap::new();
    for (first, (last, removal, since_ms)) in ranges {
        match joined.last_entry() {
            Some(mut before) if before.get().0.saturating_add(1) >= first => {
                let known = before.get_mut();
                *known = (
                    known.0.max(last),
                    known.1.max(removal),
                    known.2.min(since_ms),
                );
            }
            _ => {
                joined.insert(first, (last, removal, since_ms));
            }
        }
    }
    joined
}

pub(super) fn range(row: &Row<'_>) -> Result<RemovedRange, super::DbError> {
    Ok(RemovedRange {
        epoch: row.get(0)?,
        first: from_sql(row.get(1)?),
        last: from_sql(row.get(2)?),
        since_ms: row.get(3)?,
        rule: row.get(4)?,
        by: row.get(5)?,
        site: row.get(6)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one_since_the_first_and_by_the_last() {
        let of = |ranges: &[(u64, u64, i64, i64)]| -> Ranges {
            let each = ranges.iter();
            each.map(|(first, last, removal, ms)| (*first, (*last, *removal, *ms)))
                .collect()
        };
        let ranges = of(&[(1, 4, 1, 10), (5, 5, 2, 20), (6, 9, 1, 11), (11, 11, 2, 20)]);
        assert_eq!(joined(ranges), of(&[(1, 9, 2, 10), (11, 11, 2, 20)]));
        assert_eq!(joined(BTreeMap::new()), BTreeMap::new());
    }
}
