//! Old reports: which of a site's may be removed, and their removal.
//!
//! What comes in: a site and a moment. What goes out: the reports that it received before that moment with all that decides whether
//! they are still needed (`keep` decides it), and rows that are gone, each removal with its entry (`removed`). What a site's
//! present state, a gate's decision on record or the chain of reports needs is never removed here. It reads no clock.

mod keep;

use std::collections::BTreeMap;

use outhaul_gate::GateRules;
use outhaul_gate::longest_soak_ms;
use serde::Deserialize;

use super::db::{DbError, OptionalExtension as _, Row, params};
use super::envelopes::ENVELOPE;
use super::{Session, StoreError, from_sql, to_sql};

pub use keep::{KeptBecause, Removable, RemovableEpoch};

/// A soak time that reaches back before every report: of a decision whose rules this program cannot read.
const ALL_OF_TIME_MS: i64 = i64::MAX / 4;

/// A gate's decision on record, as far as it holds reports: when it was made, and how far it looked back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateMoment {
    /// Its number.
    pub id: i64,
    /// The environment whose sites it asked.
    pub environment: String,
    /// When, milliseconds since 1970.
    pub at_ms: i64,
    /// The longest time without a break that it asked for; 0 for none.
    pub soak_ms: i64,
}

/// A report that may be old enough, without its envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OldReport {
    pub ordinal: i64,
    pub number: u64,
    pub received_ms: i64,
    pub wall_ms: i64,
    pub lower_bound_ms: i64,
    pub clock_trusted: bool,
    pub kind: String,
    /// What it states of a bundle.
    pub look: Option<OldLook>,
    /// Whether it tells of a bundle that the site left again.
    pub left: bool,
}

/// What an old report states of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OldLook {
    pub bundle: u64,
    pub state: String,
    pub runs: bool,
    /// The digest of what it states of assignments.
    pub set: String,
}

/// A numbering of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbering {
    pub name: String,
    pub acked: u64,
}

/// The old reports of a site, and what decides about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OldReports {
    /// The site.
    pub site: String,
    /// Its environment.
    pub environment: String,
    /// All of them were received before this moment, and from the one that was asked for on no other was.
    pub before_ms: i64,
    /// The highest number of each numbering that was received before all of them.
    pub(super) highest_before: BTreeMap<i64, u64>,
    /// Whether two machines reported with its key, or someone chose between them: then its reports are evidence.
    pub is_contested: bool,
    /// Whether it was registered once only and no order moves it: gates of other environments never asked it then.
    pub registered_once: bool,
    pub(super) rows: Vec<OldReport>,
    pub(super) numberings: BTreeMap<i64, Numbering>,
    pub(super) sets: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct RecordedQuestion {
    question: Option<GateRules>,
}

impl Session<'_> {
    /// The decisions on record above a number, in the order of time.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn gate_moments(&self, above: i64) -> Result<Vec<GateMoment>, StoreError> {
        let mut found = Vec::new();
        let mut next = above;
        loop {
            let mut query = self.db.prepare_cached(
                "SELECT id, environment, at_ms, decision FROM gate_decisions WHERE id > $1 ORDER BY id LIMIT 500",
            )?;
            let mut rows = query.query(params![next])?;
            let before = found.len();
            while let Some(row) = rows.next()? {
                let asked: Result<RecordedQuestion, _> =
                    serde_json::from_str(&row.get::<_, String>(3)?);
                found.push(GateMoment {
                    id: row.get(0)?,
                    environment: row.get(1)?,
                    at_ms: row.get(2)?,
                    soak_ms: match asked {
                        // One without a question cannot be made again; the reports that it names are kept all the same.
                        Ok(asked) => asked.question.as_ref().map_or(0, longest_soak_ms),
                        Err(_) => ALL_OF_TIME_MS,
                    },
                });
            }
            match found.last().filter(|_| found.len() > before) {
                Some(last) => next = last.id,
                None => break,
            }
        }
        found.sort_by_key(|moment| moment.at_ms);
        Ok(found)
    }

    /// The number of the newest decision; 0 where there is none.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn newest_decision(&self) -> Result<i64, StoreError> {
        let text = "SELECT COALESCE(MAX(id), 0) FROM gate_decisions";
        Ok(self.db.query_row(text, [], |row| row.get(0))?)
    }

    /// How far back the gates of each environment look by the rules on record, in milliseconds.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn longest_soaks(&self) -> Result<BTreeMap<String, i64>, StoreError> {
        let mut found = BTreeMap::new();
        for environment in self.environments()? {
            let steps = self.step_rules(&environment)?;
            let longest = steps.iter().map(|step| longest_soak_ms(&step.rules)).max();
            if let Some(longest) = longest.filter(|longest| *longest > 0) {
                found.insert(environment, longest);
            }
        }
        Ok(found)
    }

    /// When the newest report on record was received; `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn newest_received_ms(&self) -> Result<Option<i64>, StoreError> {
        // One step in the index for each site, not a walk through all reports.
        let text = "SELECT MAX(newest) FROM
             (SELECT (SELECT MAX(received_ms) FROM reports r WHERE r.site = s.site) AS newest FROM sites s) AS of_sites";
        Ok(self.db.query_row(text, [], |row| row.get(0))?)
    }

    /// Sites after a name that have reports received before a moment, by name.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn sites_with_reports_before(
        &self,
        before_ms: i64,
        after: &str,
        at_most: u32,
    ) -> Result<Vec<String>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT site FROM sites s WHERE site > $1
                AND EXISTS (SELECT 1 FROM reports r WHERE r.site = s.site AND r.received_ms < $2)
              ORDER BY site LIMIT $3",
        )?;
        let rows = query.query_map(params![after, before_ms, at_most], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The reports of a site that were received from one moment on and before another, at most so many: of more, the oldest. Of what
    /// was received in one moment all or nothing is in it, and at least one moment.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn old_reports(
        &self,
        site: &str,
        (from_ms, before_ms): (i64, i64),
        at_most: u32,
    ) -> Result<Option<OldReports>, StoreError> {
        let Some(registered) = self.site(site)? else {
            return Ok(None);
        };
        let nth = |place: u32| -> Result<Option<i64>, StoreError> {
            let text = "SELECT received_ms FROM reports WHERE site = $1 AND received_ms >= $2 AND received_ms < $3
                  ORDER BY received_ms LIMIT 1 OFFSET $4";
            let mut query = self.db.prepare_cached(text)?;
            let key = params![site, from_ms, before_ms, place];
            Ok(query.query_row(key, |row| row.get(0)).optional()?)
        };
        let before_ms = match (nth(at_most)?, nth(0)?) {
            (Some(cut), Some(first)) => cut.max(first.saturating_add(1)),
            _ => before_ms,
        };
        let mut query = self.db.prepare_cached(
            "SELECT e.ordinal, r.number, r.received_ms, r.wall_ms, r.lower_bound_ms, r.clock_trusted, r.kind,
                    o.bundle_number, o.state, o.running, o.assignments,
                    CASE WHEN v.site IS NULL THEN 0 ELSE 1 END
               FROM reports r JOIN epochs e ON e.site = r.site AND e.epoch = r.epoch
               LEFT JOIN observations o ON o.site = r.site AND o.epoch = r.epoch AND o.number = r.number
               LEFT JOIN reverts v ON v.site = r.site AND v.epoch = r.epoch AND v.number = r.number
              WHERE r.site = $1 AND r.received_ms >= $2 AND r.received_ms < $3
              ORDER BY r.received_ms, e.ordinal, r.number",
        )?;
        let rows = query.query_map(params![site, from_ms, before_ms], old_report)?;
        let rows: Vec<OldReport> = rows.collect::<Result<_, _>>()?;
        let text = "SELECT ordinal, epoch, acked FROM epochs WHERE site = $1";
        let mut query = self.db.prepare_cached(text)?;
        let numberings = query.query_map(params![site], |row| {
            let name = row.get(1)?;
            let acked = from_sql(row.get(2)?);
            Ok((row.get(0)?, Numbering { name, acked }))
        })?;
        let mut sets = BTreeMap::new();
        let mut query = self
            .db
            .prepare_cached("SELECT assignment FROM assignment_sets WHERE digest = $1")?;
        for look in rows.iter().filter_map(|row| row.look.as_ref()) {
            if !sets.contains_key(&look.set) {
                let names = query.query_map(params![look.set], |row| row.get(0))?;
                sets.insert(look.set.clone(), names.collect::<Result<_, _>>()?);
            }
        }
        let text = "SELECT e.ordinal, MAX(r.number) FROM reports r JOIN epochs e ON e.site = r.site AND e.epoch = r.epoch
              WHERE r.site = $1 AND r.received_ms < $2 GROUP BY e.ordinal";
        let mut query = self.db.prepare_cached(text)?;
        let highest = query.query_map(params![site, from_ms], |row| {
            Ok((row.get(0)?, from_sql(row.get(1)?)))
        })?;
        let registered_once = self.is_registered_once(site)?;
        Ok(Some(OldReports {
            site: registered.site,
            environment: registered.environment,
            before_ms,
            highest_before: highest.collect::<Result<_, _>>()?,
            is_contested: self.is_contested(site)?,
            registered_once,
            rows,
            numberings: numberings.collect::<Result<_, _>>()?,
            sets,
        }))
    }

    /// Whether a site was registered once only, and no order moves it to another stream.
    fn is_registered_once(&self, site: &str) -> Result<bool, StoreError> {
        // It may be registered again for another environment with the key that it has.
        let text = "SELECT NOT EXISTS (SELECT 1 FROM site_orders WHERE site = $1 AND kind = 'move')
              AND NOT EXISTS (SELECT 1 FROM site_keys k JOIN sites s ON s.site = k.site
                               WHERE k.site = $1 AND (k.generation > 1 OR k.enrolled_ms <> s.enrolled_ms))";
        let mut query = self.db.prepare_cached(text)?;
        Ok(query.query_row(params![site], |row| row.get(0))?)
    }

    /// Whether two machines reported with the key of a site, or someone chose between them.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn is_contested(&self, site: &str) -> Result<bool, StoreError> {
        let text = "SELECT EXISTS (SELECT 1 FROM site_conflicts WHERE site = $1)
              OR EXISTS (SELECT 1 FROM gate_acts WHERE kind = 'choose' AND site = $1)";
        let mut query = self.db.prepare_cached(text)?;
        Ok(query.query_row(params![site], |row| row.get(0))?)
    }

    /// The signed envelope of a report.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn envelopes(
        &self,
        (site, epoch): (&str, &str),
        numbers: &[u64],
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let text = format!(
            "SELECT {ENVELOPE} FROM reports r WHERE r.site = $1 AND r.epoch = $2 AND r.number = $3"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let mut found = Vec::new();
        for number in numbers {
            let mut rows = query.query(params![site, epoch, to_sql(*number)])?;
            while let Some(row) = rows.next()? {
                found.push(row.get(0)?);
            }
        }
        Ok(found)
    }

    /// Removes reports of a numbering from one number to another, all of which may be removed, and notes that; returns how many
    /// there were and the bytes of their envelopes. Those that are gone already are not counted. Envelopes in parts that are as old as
    /// `before_ms` are left to [`Store::drop_parts_before`](super::Store::drop_parts_before).
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn remove_reports(
        &self,
        (site, epoch): (&str, &str),
        (first, last): (u64, u64),
        (removal, before_ms, now_ms): (i64, i64, i64),
    ) -> Result<(u64, u64), StoreError> {
        let key = (site, epoch, to_sql(first), to_sql(last));
        let within = "site = $1 AND epoch = $2 AND number >= $3 AND number <= $4";
        let text = format!(
            "SELECT r.number, COALESCE(LENGTH({ENVELOPE}), 0) FROM reports r WHERE {within}"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map(params![key.0, key.1, key.2, key.3], |row| {
            Ok((from_sql(row.get(0)?), from_sql(row.get(1)?)))
        })?;
        let there: Vec<(u64, u64)> = rows.collect::<Result<_, _>>()?;
        let text = format!("SELECT DISTINCT assignments FROM observations WHERE {within}");
        let mut query = self.db.prepare_cached(&text)?;
        let sets = query.query_map(params![key.0, key.1, key.2, key.3], |row| row.get(0))?;
        let sets: Vec<String> = sets.collect::<Result<_, _>>()?;
        self.remove_envelopes(key, before_ms)?;
        for table in ["observations", "reports"] {
            let text = format!("DELETE FROM {table} WHERE {within}");
            let mut delete = self.db.prepare_cached(&text)?;
            delete.execute(params![key.0, key.1, key.2, key.3])?;
        }
        let text = "DELETE FROM assignment_sets WHERE digest = $1
             AND NOT EXISTS (SELECT 1 FROM observations WHERE assignments = $1)";
        let mut forget = self.db.prepare_cached(text)?;
        for set in sets.iter().filter(|set| !set.is_empty()) {
            forget.execute(params![set])?;
        }
        let numbers: Vec<u64> = there.iter().map(|(number, _)| *number).collect();
        self.add_removed((site, epoch), &numbers, (removal, now_ms))?;
        let bytes = there.iter().map(|(_, bytes)| bytes).sum();
        let count = numbers.len() as u64;
        self.count_removed(removal, (0, count, bytes))?;
        Ok((count, bytes))
    }

    /// Adds a site to those of which a removal removed reports.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn count_removed_site(&self, removal: i64) -> Result<(), StoreError> {
        self.count_removed(removal, (1, 0, 0))
    }
}

fn old_report(row: &Row<'_>) -> Result<OldReport, DbError> {
    let look = match row.get::<_, Option<i64>>(7)? {
        None => None,
        Some(bundle) => Some(OldLook {
            bundle: from_sql(bundle),
            state: row.get(8)?,
            runs: row.get::<_, i64>(9)? != 0,
            set: row.get(10)?,
        }),
    };
    Ok(OldReport {
        ordinal: row.get(0)?,
        number: from_sql(row.get(1)?),
        received_ms: row.get(2)?,
        wall_ms: row.get(3)?,
        lower_bound_ms: row.get(4)?,
        clock_trusted: row.get::<_, i64>(5)? != 0,
        kind: row.get(6)?,
        look,
        left: row.get::<_, i64>(11)? != 0,
    })
}
