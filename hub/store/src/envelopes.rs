//! The signed envelopes of reports: on a server in parts by when they were received, each a partition of one table.
//!
//! What comes in: when reports are received; how old a part may become. What goes out: the part that an envelope belongs to, made ahead
//! of time; and parts that are dropped whole, after what is still needed of them was moved to one that stays. The key of a report is
//! in `reports` alone, which is not partitioned: a place is taken once, whatever part its envelope lies in. In a SQLite file
//! envelopes lie in the rows of their reports, and the same statements read them. It reads no clock and decides about no report.

use super::db::{DbErrorKind, Value, params};
use super::{NewReport, Session, Store, StoreError, to_sql};

/// How long a part is, in milliseconds: 30 days, counted from 1970.
pub const PART_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// The part of what stays when the one that it was in is dropped.
const STAYING: i64 = -1;
/// Envelopes moved in one transaction.
const MOVED_AT_ONCE: u32 = 2_000;

/// The envelope of a report `r`, wherever it lies.
macro_rules! envelope {
    () => {
        "CASE WHEN r.part IS NULL THEN r.envelope ELSE
        (SELECT l.envelope FROM report_envelopes l
          WHERE l.part = r.part AND l.site = r.site AND l.epoch = r.epoch AND l.number = r.number) END"
    };
}
pub(super) use envelope;

/// The same for a text that is made.
pub(super) const ENVELOPE: &str = envelope!();

/// The table of a part.
fn table(part: i64) -> String {
    match u64::try_from(part) {
        Ok(part) => format!("report_envelopes_{part}"),
        Err(_) => "report_envelopes_staying".to_owned(),
    }
}

/// The part that something belongs to that was received at a moment.
fn part_at(received_ms: i64) -> i64 {
    (received_ms / PART_MS).max(0)
}

impl Session<'_> {
    /// The part for envelopes that were received at a moment, made where it is not there, and the one after it. `None` where
    /// envelopes lie in the rows of their reports: in a file, and on a server whose tables belong to somebody else.
    pub(super) fn part_for(&self, received_ms: i64) -> Result<Option<i64>, StoreError> {
        if !self.db.is_server() {
            return Ok(None);
        }
        let part = part_at(received_ms);
        for one in [part, part.saturating_add(1)] {
            if !self.make_part(one)? {
                return Ok((one > part).then_some(part));
            }
        }
        Ok(Some(part))
    }

    /// Makes a part on a server where it is not there; `false` where this user may not. Writers come one at a time, so that nobody
    /// else makes it meanwhile. Attached, it locks out nobody who reads or writes.
    pub(super) fn make_part(&self, part: i64) -> Result<bool, StoreError> {
        let name = table(part);
        let text = "SELECT to_regclass($1) IS NOT NULL";
        if self
            .db
            .query_row(text, params![name], |row| row.get::<_, bool>(0))?
        {
            return Ok(true);
        }
        let text =
            "SELECT pg_has_role(relowner, 'USAGE') AND has_schema_privilege(relnamespace, 'CREATE')
               FROM pg_class WHERE oid = to_regclass('report_envelopes')";
        if !self.db.query_row(text, [], |row| row.get::<_, bool>(0))? {
            return Ok(false);
        }
        self.db.execute_batch(&format!(
            "CREATE TABLE {name} (LIKE report_envelopes INCLUDING ALL);
             ALTER TABLE report_envelopes ATTACH PARTITION {name} FOR VALUES IN ({part})"
        ))?;
        Ok(true)
    }

    /// Writes the envelopes of reports that were received in one moment into its part.
    pub(super) fn add_envelopes(&self, part: i64, new: &[NewReport<'_>]) -> Result<(), StoreError> {
        let rows: Vec<_> = new
            .iter()
            .map(|new| {
                [
                    Value::Int(part),
                    Value::Text(new.report.site.as_str()),
                    Value::Text(new.report.epoch.as_str()),
                    Value::Int(to_sql(new.report.number)),
                    Value::Blob(new.envelope),
                ]
            })
            .collect();
        let text = "INSERT INTO report_envelopes (part, site, epoch, number, envelope)";
        self.insert_each(text, &rows)
    }

    /// Removes envelopes of a numbering from one number to another, but for those of parts that are dropped whole once all before a
    /// moment went.
    pub(super) fn remove_envelopes(
        &self,
        (site, epoch, first, last): (&str, &str, i64, i64),
        before_ms: i64,
    ) -> Result<(), StoreError> {
        let text = "DELETE FROM report_envelopes WHERE site = $1 AND epoch = $2 AND number = $3 AND part = $4";
        let mut delete = self.db.prepare_cached(text)?;
        let within = "SELECT number, part FROM reports
             WHERE site = $1 AND epoch = $2 AND number >= $3 AND number <= $4 AND part IS NOT NULL";
        let mut query = self.db.prepare_cached(within)?;
        let rows = query.query_map(params![site, epoch, first, last], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        let there: Vec<(i64, i64)> = rows.collect::<Result<_, _>>()?;
        let is_dropped = |part: i64| self.db.is_server() && is_before(part, before_ms);
        for (number, part) in there.into_iter().filter(|(_, part)| !is_dropped(*part)) {
            delete.execute(params![site, epoch, number, part])?;
        }
        Ok(())
    }

    /// The parts of which everything was received before a moment, the oldest first; none in a file.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn parts_before(&self, before_ms: i64) -> Result<Vec<i64>, StoreError> {
        if !self.db.is_server() {
            return Ok(Vec::new());
        }
        let text = "SELECT CAST(SUBSTR(c.relname, 18) AS BIGINT) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
              WHERE i.inhparent = to_regclass('report_envelopes') AND c.relname ~ '^report_envelopes_[0-9]{1,15}$'
              ORDER BY 1";
        let mut query = self.db.prepare_cached(text)?;
        let parts = query.query_map([], |row| row.get(0))?;
        let parts: Vec<i64> = parts.collect::<Result<_, _>>()?;
        let old = parts.into_iter();
        Ok(old.filter(|part| is_before(*part, before_ms)).collect())
    }

    /// Moves envelopes of a part whose reports are still on record to the part that stays; how many, 0 once there are none left.
    fn keep_of_part(&self, part: i64) -> Result<u64, StoreError> {
        let text = "SELECT v.site, v.epoch, v.number FROM report_envelopes v
               JOIN reports r ON r.site = v.site AND r.epoch = v.epoch AND r.number = v.number AND r.part = v.part
              WHERE v.part = $1 LIMIT $2";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params![part, MOVED_AT_ONCE], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        let left: Vec<(String, String, i64)> = rows.collect::<Result<_, _>>()?;
        if left.is_empty() {
            return Ok(0);
        }
        self.make_part(STAYING)?;
        let place = "part = $1 AND site = $2 AND epoch = $3 AND number = $4";
        let copy = format!(
            "INSERT INTO report_envelopes (part, site, epoch, number, envelope)
             SELECT {STAYING}, site, epoch, number, envelope FROM report_envelopes WHERE {place}"
        );
        let point = format!("UPDATE reports SET part = {STAYING} WHERE {place}");
        let remove = format!("DELETE FROM report_envelopes WHERE {place}");
        for text in [&copy, &point, &remove] {
            let mut write = self.db.prepare_cached(text)?;
            for (site, epoch, number) in &left {
                write.execute(params![part, site, epoch, number])?;
            }
        }
        Ok(left.len() as u64)
    }

    /// Drops a part, of which no report is on record any more.
    fn drop_part(&self, part: i64) -> Result<(), StoreError> {
        let name = table(part);
        // Whoever reads a long list is not waited for while nobody can write.
        self.db.execute_batch(&format!(
            "SET LOCAL lock_timeout = '2s'; ALTER TABLE report_envelopes DETACH PARTITION {name}; DROP TABLE {name}"
        ))?;
        Ok(())
    }

    /// The parts in which envelopes lie.
    pub(super) fn parts_with_envelopes(&self) -> Result<Vec<i64>, StoreError> {
        let text = "SELECT DISTINCT part FROM report_envelopes ORDER BY part";
        let mut query = self.db.prepare_cached(text)?;
        let parts = query.query_map([], |row| row.get(0))?;
        Ok(parts.collect::<Result<_, _>>()?)
    }
}

impl Store {
    /// Drops the parts of envelopes that were all received before a moment, after what is still on record of them was moved, a bounded
    /// number in each transaction; how many. One that somebody reads for long stays for the next time. Nothing in a file.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn drop_parts_before(
        &mut self,
        before_ms: i64,
        stop: &dyn Fn() -> bool,
    ) -> Result<u64, StoreError> {
        let mut dropped = 0;
        for part in self.read(|session| session.parts_before(before_ms))? {
            loop {
                if stop() {
                    return Ok(dropped);
                }
                let done = self.write(|session| {
                    let moved = session.keep_of_part(part)?;
                    if moved == 0 {
                        session.drop_part(part)?;
                    }
                    Ok::<_, StoreError>(moved == 0)
                });
                match done {
                    Ok(false) => {}
                    Ok(true) => {
                        dropped += 1;
                        break;
                    }
                    Err(StoreError::Sql { source }) if source.trouble() == DbErrorKind::Busy => {
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(dropped)
    }
}

/// Whether everything of a part was received before a moment.
fn is_before(part: i64, before_ms: i64) -> bool {
    part >= 0 && part.saturating_add(1).saturating_mul(PART_MS) <= before_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_thirty_days_and_old_once_its_last_moment_is() {
        assert_eq!(
            (part_at(0), part_at(PART_MS - 1), part_at(PART_MS)),
            (0, 0, 1)
        );
        assert_eq!(part_at(-5), 0);
        assert!(is_before(0, PART_MS));
        assert!(!is_before(0, PART_MS - 1));
        assert!(!is_before(STAYING, i64::MAX));
    }
}
