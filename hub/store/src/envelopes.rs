//! The signed envelopes of reports: on a server in parts by when they were received, each a partition of one table.
//!
//! What comes in: when reports are received; how old a part may become. What goes out: the part that an envelope belongs to, made ahead
//! of time; and parts that are dropped whole, after what is still needed of them was moved to one that stays. The key of a report is
//! in `reports` alone, which is not partitioned: a place is taken once, whatever part its envelope lies in. In a SQLite file
//! envelopes lie in the rows of their reports, and the same statements read them. It reads no clock and decides about no report.

use std::time::Duration;

use outhaul_bundle::Digest;
use outhaul_signer::Envelope;

use super::db::{AnyBytes, DbErrorKind, SqlValue, params};
use super::{NewReport, Session, Store, StoreError, from_sql, to_sql};

/// How long a part is, in milliseconds: 30 days, counted from 1970.
pub const PART_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// The part of what stays when the one that it was in is dropped.
const STAYING: i64 = -1;
/// Envelopes moved in one transaction.
const MOVED_AT_ONCE: u32 = 2_000;

/// What became of the parts that were old as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedParts {
    /// Dropped.
    pub dropped: u64,
    /// Still there, because this user may not drop them: their envelopes are removed one by one.
    pub foreign: u64,
}

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

/// The envelope of the report with this digest, as the database has it; `None` where it is lost: where there is none, or what is there is
/// not of that report.
pub(super) fn kept(found: Option<AnyBytes>, digest: &str) -> Option<Vec<u8>> {
    let AnyBytes(bytes) = found?;
    let envelope = Envelope::from_json(&bytes).ok()?;
    let is_of_it = Digest::of(envelope.unverified_payload()).to_string() == digest;
    is_of_it.then_some(bytes)
}

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
    /// envelopes lie in the rows of their reports: in a file, and on a server whose tables belong to someone else.
    pub(super) fn part_for(&self, received_ms: i64) -> Result<Option<i64>, StoreError> {
        if !self.db.is_server() {
            return Ok(None);
        }
        let part = part_at(received_ms);
        for one in [part, part.saturating_add(1)] {
            if self.has_part(one)? {
                continue;
            }
            if !self.may_make_parts()? {
                return Ok((one > part).then_some(part));
            }
            self.make_part(one)?;
        }
        Ok(Some(part))
    }

    /// Whether this user may make parts on a server, and drop those that are its own: not where the tables belong to someone else.
    fn may_make_parts(&self) -> Result<bool, StoreError> {
        let text =
            "SELECT pg_has_role(relowner, 'USAGE') AND has_schema_privilege(relnamespace, 'CREATE')
               FROM pg_class WHERE oid = to_regclass('report_envelopes')";
        Ok(self.db.query_row(text, [], |row| row.get(0))?)
    }

    fn has_part(&self, part: i64) -> Result<bool, StoreError> {
        let text = "SELECT to_regclass($1) IS NOT NULL";
        let name = table(part);
        Ok(self.db.query_row(text, params![name], |row| row.get(0))?)
    }

    /// Makes a part on a server where it is not there. Writers come one at a time, so that nobody else makes it meanwhile. Attached,
    /// it locks out nobody who reads or writes.
    pub(super) fn make_part(&self, part: i64) -> Result<(), StoreError> {
        if self.has_part(part)? {
            return Ok(());
        }
        let name = table(part);
        Ok(self.db.execute_batch(&format!(
            "CREATE TABLE {name} (LIKE report_envelopes INCLUDING ALL);
             ALTER TABLE report_envelopes ATTACH PARTITION {name} FOR VALUES IN ({part})"
        ))?)
    }

    /// Writes the envelopes of reports that were received in one moment into its part.
    pub(super) fn add_envelopes(&self, part: i64, new: &[NewReport<'_>]) -> Result<(), StoreError> {
        let rows: Vec<_> = new
            .iter()
            .map(|new| {
                [
                    SqlValue::Int(part),
                    SqlValue::Text(new.report.site.as_str()),
                    SqlValue::Text(new.report.epoch.as_str()),
                    SqlValue::Int(to_sql(new.report.number)),
                    SqlValue::Blob(new.envelope),
                ]
            })
            .collect();
        let text = "INSERT INTO report_envelopes (part, site, epoch, number, envelope)";
        self.insert_each(text, &rows)
    }

    /// Removes envelopes of a numbering from one number to another, but for those of parts that this user can drop whole once all
    /// before a moment went.
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
        let dropped = self.parts_to_drop(before_ms)?;
        for (number, part) in there
            .into_iter()
            .filter(|(_, part)| !dropped.contains(part))
        {
            delete.execute(params![site, epoch, number, part])?;
        }
        Ok(())
    }

    /// The parts of which everything was received before a moment, the oldest first, each with whether this user may drop it; none in
    /// a file.
    fn parts_before(&self, before_ms: i64) -> Result<Vec<(i64, bool)>, StoreError> {
        if !self.db.is_server() {
            return Ok(Vec::new());
        }
        let text = "SELECT CAST(SUBSTR(c.relname, 18) AS BIGINT), pg_has_role(c.relowner, 'USAGE')
               FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
              WHERE i.inhparent = to_regclass('report_envelopes') AND c.relname ~ '^report_envelopes_[0-9]{1,15}$'
              ORDER BY 1";
        let mut query = self.db.prepare_cached(text)?;
        let parts = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let parts: Vec<(i64, bool)> = parts.collect::<Result<_, _>>()?;
        let old = parts.into_iter().filter(|one| is_before(one.0, before_ms));
        let old: Vec<_> = old.collect();
        // What is kept of a part moves to one that this user may have to make.
        if old.is_empty() || self.may_make_parts()? {
            return Ok(old);
        }
        Ok(old.into_iter().map(|(part, _)| (part, false)).collect())
    }

    /// Those of them that this user may drop.
    fn parts_to_drop(&self, before_ms: i64) -> Result<Vec<i64>, StoreError> {
        let old = self.parts_before(before_ms)?.into_iter();
        Ok(old.filter_map(|(part, may)| may.then_some(part)).collect())
    }

    /// Moves what is still on record of a part to the one that stays, a bounded number, or drops the part once there is none left;
    /// how many it moved. `None` where it is not there any more, because another process dropped it, or this user may not.
    fn empty_or_drop(&self, part: i64, before_ms: i64) -> Result<Option<u64>, StoreError> {
        if !self.parts_to_drop(before_ms)?.contains(&part) {
            return Ok(None);
        }
        let moved = self.keep_of_part(part)?;
        if moved == 0 {
            self.drop_part(part)?;
        }
        Ok(Some(moved))
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

    /// Places of envelopes in a part whose reports are not on record any more, a bounded number.
    fn without_report(&self, part: i64) -> Result<Vec<(String, String, i64)>, StoreError> {
        let text = "SELECT v.site, v.epoch, v.number FROM report_envelopes v
              WHERE v.part = $1 AND NOT EXISTS (SELECT 1 FROM reports r
                    WHERE r.site = v.site AND r.epoch = v.epoch AND r.number = v.number AND r.part = v.part)
              LIMIT $2";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params![part, MOVED_AT_ONCE], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Removes envelopes that have no report from a part.
    fn remove_from_part(
        &self,
        part: i64,
        places: &[(String, String, i64)],
    ) -> Result<(), StoreError> {
        let text = "DELETE FROM report_envelopes WHERE part = $1 AND site = $2 AND epoch = $3 AND number = $4
                AND NOT EXISTS (SELECT 1 FROM reports r
                     WHERE r.part = $1 AND r.site = $2 AND r.epoch = $3 AND r.number = $4)";
        let mut delete = self.db.prepare_cached(text)?;
        for (site, epoch, number) in places {
            delete.execute(params![part, site, epoch, number])?;
        }
        Ok(())
    }

    /// That the envelope of no report on record is lost. Reads all of them, one by one: for a database in a file.
    pub(super) fn every_report_has_its_envelope(&self) -> Result<(), StoreError> {
        let text = format!("SELECT r.site, r.epoch, r.number, r.digest, {ENVELOPE} FROM reports r");
        let mut query = self.db.prepare_cached(&text)?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            if kept(row.get(4)?, &row.get::<_, String>(3)?).is_none() {
                return Err(StoreError::NoEnvelope {
                    site: row.get(0)?,
                    epoch: row.get(1)?,
                    number: from_sql(row.get(2)?),
                });
            }
        }
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
    /// number in each transaction, with a pause after each. One that someone reads for long stays for the next time. Where
    /// this user may not drop a part, only envelopes without a report are removed from it. Nothing in a file.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn drop_parts_before(
        &mut self,
        before_ms: i64,
        pause: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<DroppedParts, StoreError> {
        let mut done = DroppedParts::default();
        for (part, is_dropped) in self.read(|session| session.parts_before(before_ms))? {
            loop {
                if stop() {
                    return Ok(done);
                }
                let turn = match is_dropped {
                    true => self.write(|session| session.empty_or_drop(part, before_ms)),
                    false => self.remove_without_report(part),
                };
                std::thread::sleep(pause);
                match turn {
                    Ok(Some(0)) => {
                        done.dropped += u64::from(is_dropped);
                        done.foreign += u64::from(!is_dropped);
                        break;
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(StoreError::Sql { source }) if source.trouble() == DbErrorKind::Busy => {
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(done)
    }

    /// Removes a bounded number of envelopes without a report from a part, which waited for a drop that this user may not do; how
    /// many. Nobody waits while they are looked for.
    fn remove_without_report(&mut self, part: i64) -> Result<Option<u64>, StoreError> {
        let places = self.read(|session| session.without_report(part))?;
        if !places.is_empty() {
            self.write(|session| session.remove_from_part(part, &places))?;
        }
        Ok(Some(places.len() as u64))
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
