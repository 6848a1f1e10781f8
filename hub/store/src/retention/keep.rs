//! Which old reports of a site may be removed.
//!
//! What comes in: a site's old reports, the decisions of gates on record, and how far gates look back. What goes out: numbers that
//! may be removed, by numbering, and how many others are kept for which reason. It is pure. Whatever a later report, a decision
//! on record or a verifier of an audit export needs is kept: the state that each decision saw is the same when it is worked out from
//! what is left.

use std::collections::{BTreeMap, BTreeSet};

use super::{GateMoment, OldReport, OldReports};

/// Kinds of reports that may be removed. The others tell what people, orders and refusals did; they are few, and stay.
const REMOVABLE: [&str; 4] = ["observation", "cluster", "generation", "started"];
/// States of a bundle that show what became of it: every `generation` report that states one stays. An `observation` may go.
const ENDS: [&str; 3] = ["failed", "rejected", "reverted"];
/// States in which a bundle is not on its way.
const SETTLED: [&str; 2] = ["active", "superseded"];

/// Why an old report is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptBecause {
    /// It tells of a decision, an order, a refusal, a loss, or what became of a bundle.
    Record,
    /// The site's present state follows from it, or it is the last that tells of an assignment.
    State,
    /// A gate's decision on record rests on it, or a gate still looks back to it.
    Decision,
    /// The order of numberings and acknowledgements follow from it.
    Chain,
    /// A report before it is missing, and not declared lost.
    Gap,
    /// Two machines reported with the site's key: what both reported is evidence.
    Conflict,
}

/// Numbers of a numbering that may be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovableEpoch {
    /// The numbering.
    pub epoch: String,
    /// The numbers, in order.
    pub numbers: Vec<u64>,
    /// The numbers right before one that may be removed that are not among these; not each is there.
    pub before_removed: Vec<u64>,
}

/// What may be removed of a site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removable {
    /// By numbering.
    pub epochs: Vec<RemovableEpoch>,
    /// How many old reports are kept, and why.
    pub kept: BTreeMap<KeptBecause, u64>,
}

/// One numbering on the way through time: what it said of the site so far.
#[derive(Debug, Default)]
struct NumberingHistory {
    /// Places of its reports by number.
    numbers: BTreeMap<u64, usize>,
    /// Those that tell what runs.
    running: BTreeSet<u64>,
    /// Those that tell of a bundle on its way, of which no later one tells of the same or a newer bundle.
    attempts: BTreeMap<u64, u64>,
}

/// What is kept, by the place of the report.
type Kept = BTreeMap<usize, KeptBecause>;

impl OldReports {
    /// What may be removed. `moments` are all decisions on record in the order of time, and the present with the longest time that
    /// a gate looks back.
    pub fn removable(&self, moments: &[GateMoment]) -> Removable {
        let mut kept = Kept::new();
        let asked =
            |moment: &&GateMoment| moment.environment == self.environment || !self.registered_once;
        let moments: Vec<&GateMoment> = moments.iter().filter(asked).collect();
        self.keep_records(&mut kept);
        self.keep_seen(&moments, &mut kept);
        self.keep_chain(&mut kept);
        self.keep_late(&moments, &mut kept);
        let mut found = Removable::default();
        for because in kept.values() {
            *found.kept.entry(*because).or_default() += 1;
        }
        let mut epochs: BTreeMap<i64, BTreeSet<u64>> = BTreeMap::new();
        for (at, row) in self.rows.iter().enumerate() {
            if !kept.contains_key(&at) {
                epochs.entry(row.ordinal).or_default().insert(row.number);
            }
        }
        for (ordinal, numbers) in epochs {
            let Some(numbering) = self.numberings.get(&ordinal) else {
                continue;
            };
            let before = |number: &u64| number.checked_sub(1);
            let stays = |number: &u64| !numbers.contains(number);
            found.epochs.push(RemovableEpoch {
                epoch: numbering.name.clone(),
                before_removed: numbers.iter().filter_map(before).filter(stays).collect(),
                numbers: numbers.into_iter().collect(),
            });
        }
        found
    }

    /// What people, orders and refusals did, what became of bundles, and what lies above a gap.
    fn keep_records(&self, kept: &mut Kept) {
        for (at, row) in self.rows.iter().enumerate() {
            let look = row.look.as_ref();
            let is_end = row.kind == "generation"
                && look.is_some_and(|look| ENDS.contains(&look.state.as_str()));
            if !REMOVABLE.contains(&row.kind.as_str()) || row.left || is_end {
                kept.entry(at).or_insert(KeptBecause::Record);
            }
            if self.is_contested {
                kept.entry(at).or_insert(KeptBecause::Conflict);
            }
            let acked = self.numberings.get(&row.ordinal);
            if acked.is_none_or(|known| row.number > known.acked) {
                kept.entry(at).or_insert(KeptBecause::Gap);
            }
        }
        let mut last: BTreeMap<&str, (i64, u64, usize)> = BTreeMap::new();
        for (at, row) in self.rows.iter().enumerate() {
            let set = row.look.as_ref().and_then(|look| self.sets.get(&look.set));
            for assignment in set.into_iter().flatten() {
                let found = (row.ordinal, row.number, at);
                let known = last.entry(assignment).or_insert(found);
                *known = found.max(*known);
            }
        }
        for (_, _, at) in last.into_values() {
            kept.entry(at).or_insert(KeptBecause::State);
        }
    }

    /// What the state follows from at each moment, and at any later one whatever is reported until then.
    fn keep_seen(&self, moments: &[&GateMoment], kept: &mut Kept) {
        let mut seen: BTreeMap<i64, NumberingHistory> = BTreeMap::new();
        let mut rows = self.rows.iter().enumerate().peekable();
        let old = moments.partition_point(|moment| moment.at_ms < self.before_ms);
        let mut is_same = false;
        for moment in &moments[..old] {
            while let Some((at, row)) = rows.next_if(|(_, row)| row.received_ms <= moment.at_ms) {
                seen.entry(row.ordinal).or_default().add(at, row);
                is_same = false;
            }
            // It saw what the one before it saw.
            if is_same && moment.soak_ms == 0 {
                continue;
            }
            is_same = true;
            if let Some((_, present)) = seen.last_key_value() {
                present.keep_state(kept, KeptBecause::Decision);
                if moment.soak_ms > 0 {
                    let enough_ms = moment.at_ms.saturating_sub(moment.soak_ms);
                    self.keep_run(present, enough_ms, present.running.last().copied(), kept);
                }
            }
        }
        for (at, row) in rows {
            seen.entry(row.ordinal).or_default().add(at, row);
        }
        let later = moments[old..].iter().filter(|moment| moment.soak_ms > 0);
        let least_ms = later
            .map(|moment| moment.at_ms.saturating_sub(moment.soak_ms))
            .min();
        for numbering in seen.values() {
            numbering.keep_state(kept, KeptBecause::State);
            if let Some(enough_ms) = least_ms.filter(|enough_ms| *enough_ms < self.before_ms) {
                self.keep_run(numbering, enough_ms, None, kept);
            }
        }
    }

    /// All reports down to the first that tells what runs and is from long enough ago, from a number on, or from the newest.
    fn keep_run(
        &self,
        seen: &NumberingHistory,
        enough_ms: i64,
        from: Option<u64>,
        kept: &mut Kept,
    ) {
        let from = from.unwrap_or(u64::MAX);
        let is_enough = |number: &&u64| {
            let at = seen.numbers.get(number);
            at.is_some_and(|at| self.rows[*at].received_ms <= enough_ms)
        };
        let stop = seen.running.range(..=from).rev().find(is_enough);
        for at in seen
            .numbers
            .range(stop.copied().unwrap_or(0)..=from)
            .map(|(_, at)| *at)
        {
            kept.entry(at).or_insert(KeptBecause::Decision);
        }
    }

    /// What decides about acknowledgements, about when a numbering began, and about whether it went on after another.
    fn keep_chain(&self, kept: &mut Kept) {
        let mut by_ordinal: BTreeMap<i64, Vec<(usize, &OldReport)>> = BTreeMap::new();
        for (at, row) in self.rows.iter().enumerate() {
            by_ordinal.entry(row.ordinal).or_default().push((at, row));
        }
        for (ordinal, of_numbering) in by_ordinal {
            let acked = self.numberings.get(&ordinal).map_or(0, |known| known.acked);
            let rows = || of_numbering.iter().copied();
            let first = rows().min_by_key(|(_, row)| row.received_ms);
            let clock = rows().filter(|(_, row)| row.clock_trusted);
            let clock = clock.min_by_key(|(_, row)| row.wall_ms);
            let named = rows().filter(|(_, row)| [1, acked].contains(&row.number));
            let mut latest: Vec<(usize, &OldReport)> = rows().collect();
            latest.sort_by_key(|(_, row)| std::cmp::Reverse((row.lower_bound_ms, row.wall_ms)));
            let mut highest = i64::MIN;
            latest.retain(|(_, row)| {
                let is_later = row.wall_ms > highest;
                highest = highest.max(row.wall_ms);
                is_later
            });
            for (at, _) in first.into_iter().chain(clock).chain(named).chain(latest) {
                kept.entry(at).or_insert(KeptBecause::Chain);
            }
        }
    }

    /// What was missing when a decision was made, because it came later than one with a higher number. When that one came before all
    /// that is looked at is not known here: then each decision before counts.
    fn keep_late(&self, moments: &[&GateMoment], kept: &mut Kept) {
        let mut by_number: Vec<(usize, &OldReport)> = self.rows.iter().enumerate().collect();
        by_number.sort_by_key(|(_, row)| std::cmp::Reverse((row.ordinal, row.number)));
        let mut above: Option<(i64, i64)> = None;
        for (at, row) in by_number {
            let known = above.filter(|(ordinal, _)| *ordinal == row.ordinal);
            let mut least_ms = known.map_or(row.received_ms, |(_, ms)| ms);
            let highest = self.highest_before.get(&row.ordinal);
            if highest.is_some_and(|highest| *highest > row.number) {
                least_ms = i64::MIN;
            }
            let next = moments.partition_point(|moment| moment.at_ms < least_ms);
            if moments
                .get(next)
                .is_some_and(|moment| moment.at_ms < row.received_ms)
            {
                kept.entry(at).or_insert(KeptBecause::Decision);
            }
            above = Some((row.ordinal, least_ms.min(row.received_ms)));
        }
    }
}

impl NumberingHistory {
    fn add(&mut self, at: usize, row: &OldReport) {
        self.numbers.insert(row.number, at);
        let Some(look) = &row.look else { return };
        if look.runs {
            self.running.insert(row.number);
        }
        if SETTLED.contains(&look.state.as_str()) {
            return;
        }
        let mut above = self.attempts.range(row.number..);
        if above.any(|(_, bundle)| *bundle >= look.bundle) {
            return;
        }
        let (number, bundle) = (row.number, look.bundle);
        self.attempts
            .retain(|known, older| *known > number || *older > bundle);
        self.attempts.insert(number, bundle);
    }

    /// The newest report, the newest that tells what runs, and those of bundles that may be on their way.
    fn keep_state(&self, kept: &mut Kept, because: KeptBecause) {
        let newest = self.numbers.keys().next_back();
        let running = self.running.last();
        for number in newest
            .into_iter()
            .chain(running)
            .chain(self.attempts.keys())
        {
            if let Some(at) = self.numbers.get(number) {
                kept.entry(*at).or_insert(because);
            }
        }
    }
}

#[cfg(test)]
mod tests;
