//! Sites of which two machines report with one key, and what people chose.
//!
//! What comes in: reports that a site's key signed and that contradict what is on record. What goes out: the conflicts
//! that are open, worked out by the gate's own function. Nothing is changed or removed; a choice is a separate entry.
//! An epoch that a choice set aside is kept, and is not the site's present one.

use std::collections::BTreeMap;

use super::db::{DbError, OptionalExtension as _, Row, params};
use outhaul_bundle::report::Report;
use outhaul_gate::EDITION;
use outhaul_gate::conflict::{self, Reported};
use outhaul_gate::facts::{Act, ActKind, Conflict, Restored};

use super::{Session, StoreError, from_sql, to_sql};

/// Contradicting reports kept of one site since its last choice: enough to look at. Of what is beyond, one is kept for each report of the
/// site that is taken between them: that report may end the conflict, and the next one is a new conflict.
const MAX_OF_SITE: i64 = 100;

/// A report that contradicts what is on record, about to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewConflict<'a> {
    /// The report.
    pub report: &'a Report,
    /// Digest of its bytes, as text.
    pub digest: &'a str,
    /// Digest of the report on record that it contradicts.
    pub on_record: &'a str,
    /// What was expected and found.
    pub reason: &'a str,
    /// The signed envelope, as it came.
    pub envelope: &'a [u8],
    /// By which transport it came.
    pub via: &'a str,
    /// When, milliseconds since 1970.
    pub received_ms: i64,
}

/// Where a report that someone names by its digest is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedReport {
    /// Its digest.
    pub digest: String,
    /// Its epoch, where the report is on record; `None` where it was refused.
    pub epoch: Option<String>,
}

/// What one site's conflict is worked out from.
#[derive(Debug, Default)]
struct ConflictRecords {
    conflicts: Vec<Conflict>,
    reported: BTreeMap<String, Reported>,
    enrolled_ms: i64,
}

impl Session<'_> {
    /// Records a report that contradicts what is on record, unless it is known or many are.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_conflict(&self, new: &NewConflict<'_>) -> Result<(), StoreError> {
        let site = new.report.site.as_str();
        let many: i64 = self.db.query_row(
            "SELECT COUNT(*) FROM site_conflicts WHERE site = $1 AND received_ms >
                COALESCE((SELECT MAX(at_ms) FROM gate_acts WHERE kind = 'choose' AND site = $1), 0)",
            params![site],
            |row| row.get(0),
        )?;
        if many >= MAX_OF_SITE {
            let since_taken: i64 = self.db.query_row(
                "SELECT COUNT(*) FROM site_conflicts WHERE site = $1 AND received_ms >=
                    COALESCE((SELECT MAX(received_ms) FROM reports WHERE site = $1), 0)",
                params![site],
                |row| row.get(0),
            )?;
            if since_taken > 0 {
                return Ok(());
            }
        }
        self.db.execute(
            "INSERT INTO site_conflicts
                (id, site, epoch, number, digest, on_record, reason, envelope, via, received_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (site, epoch, number, digest) DO NOTHING",
            params![
                self.next_id("site_conflicts")?,
                site,
                new.report.epoch.as_str(),
                to_sql(new.report.number),
                new.digest,
                new.on_record,
                new.reason,
                new.envelope,
                new.via,
                new.received_ms
            ],
        )?;
        Ok(())
    }

    /// The open conflict of each site that has one.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn open_conflicts(&self) -> Result<BTreeMap<String, Conflict>, StoreError> {
        let mut seen: BTreeMap<String, ConflictRecords> = BTreeMap::new();
        let mut query = self.db.prepare_cached(
            "SELECT c.epoch, c.number, c.digest, c.on_record, c.reason, c.via, c.received_ms,
                    c.site, s.enrolled_ms
               FROM site_conflicts c JOIN sites s ON s.site = c.site
              WHERE s.revoked_ms IS NULL ORDER BY c.received_ms, c.id",
        )?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let site = seen.entry(row.get(7)?).or_default();
            site.enrolled_ms = row.get(8)?;
            site.conflicts.push(conflict_of(&row)?);
        }
        if seen.is_empty() {
            return Ok(BTreeMap::new());
        }
        let choices = self.choices()?;
        let mut open = BTreeMap::new();
        for (name, mut site) in seen {
            site.reported = self.epochs_reported(&name)?;
            let choice = conflict::choice(choices.iter(), &name, site.enrolled_ms);
            let (seen, reported) = (&site.conflicts, &site.reported);
            if let Some(found) = conflict::open(seen, site.enrolled_ms, choice, reported, EDITION) {
                open.insert(name, found);
            }
        }
        Ok(open)
    }

    /// The last choice about a site since it was registered.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn choice_of(&self, site: &str, enrolled_ms: i64) -> Result<Option<Act>, StoreError> {
        let choices = self.choices()?;
        Ok(conflict::choice(choices.iter(), site, enrolled_ms).cloned())
    }

    fn choices(&self) -> Result<Vec<Act>, StoreError> {
        self.acts_of(ActKind::Choose)
    }

    /// When the hub received the first report of each epoch of a site.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn epoch_starts(&self, site: &str) -> Result<BTreeMap<String, i64>, StoreError> {
        let reported = self.epochs_reported(site)?.into_iter();
        Ok(reported.map(|(epoch, at)| (epoch, at.first_ms)).collect())
    }

    /// When the hub received the first report of each epoch of a site, and when the last one was made.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn epochs_reported(&self, site: &str) -> Result<BTreeMap<String, Reported>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT epoch, MIN(received_ms),
                    MAX(CASE WHEN wall_ms >= received_ms OR lower_bound_ms >= received_ms THEN received_ms
                             WHEN wall_ms >= lower_bound_ms THEN wall_ms ELSE lower_bound_ms END)
               FROM reports WHERE site = $1 GROUP BY epoch",
        )?;
        let rows = query.query_map(params![site], |row| {
            let (first_ms, last_made_ms) = (row.get(1)?, row.get(2)?);
            let at = Reported {
                first_ms,
                last_made_ms,
            };
            Ok((row.get(0)?, at))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The reports of a site whose digest begins so, on record or refused as contradicting.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn named_reports(&self, site: &str, hex: &str) -> Result<Vec<NamedReport>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT digest, epoch FROM reports WHERE site = $1 AND SUBSTR(digest, 8, $2) = $3
             UNION
             SELECT digest, NULL FROM site_conflicts c WHERE site = $1 AND SUBSTR(digest, 8, $2) = $3
                AND NOT EXISTS (SELECT 1 FROM reports r WHERE r.site = c.site AND r.digest = c.digest)
              ORDER BY 1",
        )?;
        let rows = query.query_map(params![site, to_sql(hex.len() as u64), hex], |row| {
            Ok(NamedReport {
                digest: row.get(0)?,
                epoch: row.get(1)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Sets aside every epoch of a site that a choice did not name, and works out its present state again.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn set_epochs_aside(&self, choice: &Act) -> Result<(), StoreError> {
        let site = choice.site.as_deref().unwrap_or_default();
        let starts = self.epoch_starts(site)?;
        let all = starts.iter().map(|(epoch, ms)| (epoch.as_str(), *ms));
        let aside = conflict::set_aside(all, Some(choice));
        for epoch in starts.keys() {
            let at_ms = aside.contains(epoch).then_some(choice.at_ms);
            self.db.execute(
                "UPDATE epochs SET set_aside_ms = $1 WHERE site = $2 AND epoch = $3",
                params![at_ms, site, epoch],
            )?;
        }
        self.keep_current(site)
    }

    /// The later epochs of the site of a report, which the same key signs and nobody set aside, of which the first report
    /// is on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn later_epochs(&self, report: &Report) -> Result<Vec<LaterEpoch>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT e.epoch, r.wall_ms, r.digest FROM epochs e
               JOIN epochs o ON o.site = e.site AND o.epoch = $1
               JOIN reports r ON r.site = e.site AND r.epoch = e.epoch AND r.number = 1
              WHERE e.site = $2 AND e.ordinal > o.ordinal AND e.set_aside_ms IS NULL
                AND o.set_aside_ms IS NULL AND e.key_generation = o.key_generation
              ORDER BY e.ordinal",
        )?;
        let key = params![report.epoch.as_str(), report.site.as_str()];
        let rows = query.query_map(key, |row| {
            Ok(LaterEpoch {
                epoch: row.get(0)?,
                began_ms: row.get(1)?,
                first: row.get(2)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// A report of an earlier epoch of the same site, which the same key signs and nobody set aside, that was made after this
    /// one, the first of its epoch: by the times that are certain and by the site's clock alike. A machine whose clock was set
    /// back has made none by the first, and one that was restored from an older copy none by the second.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn earlier_epoch_goes_on(
        &self,
        report: &Report,
    ) -> Result<Option<OlderReport>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT o.epoch, r.number, r.digest FROM epochs e
               JOIN epochs o ON o.site = e.site AND o.ordinal < e.ordinal
               JOIN reports r ON r.site = o.site AND r.epoch = o.epoch
              WHERE e.site = $1 AND e.epoch = $2 AND e.set_aside_ms IS NULL
                AND o.set_aside_ms IS NULL AND e.key_generation = o.key_generation
                AND r.lower_bound_ms > $3 AND r.wall_ms > $4
              ORDER BY o.ordinal DESC, r.number DESC LIMIT 1",
        )?;
        let key = params![
            report.site.as_str(),
            report.epoch.as_str(),
            report.at.lower_bound_ms,
            report.at.wall_ms
        ];
        let row = query.query_row(key, |row| {
            Ok(OlderReport {
                epoch: row.get(0)?,
                number: from_sql(row.get(1)?),
                digest: row.get(2)?,
            })
        });
        Ok(row.optional()?)
    }

    /// Every contradicting report with its site and envelope, in the order in which they were recorded.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub(super) fn all_conflicts(&self) -> Result<Vec<(String, Conflict, String)>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT epoch, number, digest, on_record, reason, via, received_ms, site, envelope
               FROM site_conflicts ORDER BY received_ms, id",
        )?;
        let rows = query.query_map([], |row| {
            let envelope: Vec<u8> = row.get(8)?;
            let envelope = String::from_utf8_lossy(&envelope).trim_end().to_owned();
            Ok((row.get(7)?, conflict_of(row)?, envelope))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Notes that this database was restored from a backup.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_restore(&self, restored: Restored, digest: &str) -> Result<(), StoreError> {
        self.db.execute(
            "INSERT INTO restores (id, at_ms, backup_ms, digest) VALUES ($1, $2, $3, $4)",
            params![
                self.next_id("restores")?,
                restored.at_ms,
                restored.backup_ms,
                digest
            ],
        )?;
        Ok(())
    }

    /// Every restore with the digest of its backup, in order.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn restores(&self) -> Result<Vec<(Restored, String)>, StoreError> {
        let mut query = self
            .db
            .prepare_cached("SELECT at_ms, backup_ms, digest FROM restores ORDER BY id")?;
        let rows = query.query_map([], |row| {
            let restored = Restored {
                at_ms: row.get(0)?,
                backup_ms: row.get(1)?,
            };
            Ok((restored, row.get(2)?))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The last restore.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn last_restore(&self) -> Result<Option<Restored>, StoreError> {
        Ok(self.restores()?.pop().map(|(restored, _)| restored))
    }

    /// The site that has, or had, the key with this id, other than `site`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn other_site_of_key(
        &self,
        key_id: &str,
        site: &str,
    ) -> Result<Option<String>, StoreError> {
        let text =
            "SELECT site FROM site_keys WHERE key_id = $1 AND site <> $2 ORDER BY site LIMIT 1";
        let mut query = self.db.prepare_cached(text)?;
        Ok(query
            .query_row(params![key_id, site], |row| row.get(0))
            .optional()?)
    }
}

/// An epoch that began after another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaterEpoch {
    /// Its name.
    pub epoch: String,
    /// When its first report was made, by the site's clock, milliseconds since 1970.
    pub began_ms: i64,
    /// Digest of that report.
    pub first: String,
}

/// A report of an older epoch that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OlderReport {
    /// The epoch.
    pub epoch: String,
    /// Its number there.
    pub number: u64,
    /// Its digest.
    pub digest: String,
}

fn conflict_of(row: &Row<'_>) -> Result<Conflict, DbError> {
    Ok(Conflict {
        epoch: row.get(0)?,
        number: from_sql(row.get(1)?),
        digest: row.get(2)?,
        on_record: row.get(3)?,
        reason: row.get(4)?,
        via: row.get(5)?,
        received_ms: row.get(6)?,
    })
}
