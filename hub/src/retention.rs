//! Old reports are removed: by a person, or by the server by its setting; nothing unless one of both asks for it.
//!
//! What comes in: a store, how old reports may become, and who asks. What goes out: rows that are gone and an entry that says so, in
//! transactions of at most 500 reports, so that nobody waits for long. Wherever it is cut off, what is gone is on record as gone,
//! and the next removal goes on. What is still needed is decided by the store (`outhaul_store`, `retention/keep.rs`); a report
//! that no key of its site signed, and that only the report after it confirms, keeps its whole numbering. It removes no decision,
//! act, refusal or log entry, and nothing by a clock that is implausible.

mod rounds;

use std::collections::BTreeMap;
use std::time::Duration;

use outhaul_bundle::report::PAYLOAD_TYPE;
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::PublicKey;
use serde::Serialize;

use crate::clock;
use crate::error::HubError;
use crate::explanations;
use crate::store::{
    AccessEntry, GateMoment, KeptBecause, OldReports, Removable, RemovableEpoch, Session, Store,
    StoreError,
};
use crate::time::{self, DAY_MS};
pub use rounds::start;

/// The shortest time that reports are kept, in days: less is no history.
pub const LEAST_DAYS: u32 = 7;
/// The longest that can be said, in days.
pub const MOST_DAYS: u32 = 36_500;
/// What the server is called as the one who removed.
pub const SERVER: &str = "serve";
/// Reports removed in one transaction.
const AT_ONCE: u64 = 500;
/// Reports of one site that are looked at together: five years of a look every quarter of an hour.
pub const LOOKED_AT: u32 = 200_000;
/// Sites that are listed at once.
const SITES_AT_ONCE: u32 = 500;
/// How often a plan is made again because gates decided meanwhile.
const TRIES: u32 = 20;
/// What is asked for.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Reports that were received so many days ago or earlier may go.
    pub days: u32,
    /// Who asks.
    pub by: String,
    /// How: `command line` or `serve`.
    pub how: &'static str,
    /// How long to wait after each transaction, so that others write.
    pub pause: Duration,
    /// Reports of one site that are looked at together: [`LOOKED_AT`].
    pub at_once: u32,
}

impl Rule {
    /// What someone asks for at the command line, without pauses.
    pub fn by_hand(days: u32, by: &str) -> Self {
        Self {
            days,
            by: by.to_owned(),
            how: "command line",
            pause: Duration::ZERO,
            at_once: LOOKED_AT,
        }
    }

    /// As it stands on record.
    pub fn text(&self) -> String {
        format!("older than {} days", self.days)
    }

    /// That someone has this removed.
    pub(crate) fn entry(&self, what: &str, now_ms: i64) -> AccessEntry {
        AccessEntry {
            id: 0,
            at_ms: now_ms,
            who: self.by.clone(),
            how: self.how.to_owned(),
            peer: String::new(),
            action: "prune".to_owned(),
            detail: format!("{what} {}", self.text()),
            allowed: true,
        }
    }

    fn before_ms(&self, counted_ms: i64) -> i64 {
        counted_ms.saturating_sub(i64::from(self.days) * DAY_MS)
    }
}

/// A removal that failed, with what was removed before: each transaction is whole.
#[derive(Debug)]
pub struct Interrupted {
    /// Why it failed.
    pub error: HubError,
    /// What is gone and on record as gone.
    pub done: Removed,
}

/// What was removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// The number of its entry; `None` where nothing was removed.
    pub removal: Option<i64>,
    /// Reports received before this moment were looked at, milliseconds since 1970.
    pub before_ms: i64,
    /// Sites of which reports were removed.
    pub sites: u64,
    /// Reports.
    pub reports: u64,
    /// Bytes of their envelopes; 0 where nothing was removed yet.
    pub bytes: u64,
    /// Explanations as old that no bundle needs which runs or is the newest of its stream.
    pub explanations: u64,
    /// Reports that are as old and are kept, by why.
    pub kept: BTreeMap<KeptBecause, u64>,
    /// Sites of which none was removed, because only the report after it confirms one of them.
    pub unconfirmed: Vec<String>,
    /// Partitions of a server that are as old as a whole, and that the hub's user may not drop.
    pub foreign_parts: u64,
    /// Whether it was asked to stop before the end.
    pub stopped: bool,
}

/// A removal on its way.
struct Work<'a> {
    store: &'a mut Store,
    rule: &'a Rule,
    now_ms: i64,
    is_trial: bool,
    stop: &'a dyn Fn() -> bool,
    moments: Vec<GateMoment>,
    decision: i64,
    done: Removed,
}

/// What became of one look at a site.
#[derive(PartialEq, Eq)]
enum Turn {
    /// There may be more of it, received from this moment on.
    More(i64),
    Done,
    /// A gate decided meanwhile: what may go is to be worked out again.
    Again,
    Stopped,
}

/// Removes what the rule says, or only counts it.
///
/// # Errors
/// [`Interrupted`], with what was removed before it failed: [`HubError::Clock`] when `now_ms` cannot be, by what the fleet signed: a
/// report that is gone does not come back when the clock is set; [`HubError::Store`] when the store fails.
pub fn remove(
    store: &mut Store,
    rule: &Rule,
    now_ms: i64,
    is_trial: bool,
    stop: &dyn Fn() -> bool,
) -> Result<Removed, Box<Interrupted>> {
    let mut work = match Work::begin(store, rule, now_ms, is_trial, stop) {
        Ok(work) => work,
        Err(error) => {
            let done = Removed::default();
            return Err(Box::new(Interrupted { error, done }));
        }
    };
    let ended = work.all();
    let done = work.done;
    match ended {
        Ok(()) => Ok(done),
        Err(error) => {
            let error = error.into();
            Err(Box::new(Interrupted { error, done }))
        }
    }
}

/// The moment from which the age of reports is counted: the clock, but at most a day after the newest report on record came in. By a
/// clock that is ahead all of them would be old; counted too early, they go later.
fn age_reference_ms(session: &Session<'_>, now_ms: i64) -> Result<i64, StoreError> {
    let newest = session.newest_received_ms()?;
    Ok(newest.map_or(now_ms, |newest| now_ms.min(newest.saturating_add(DAY_MS))))
}

impl<'a> Work<'a> {
    fn begin(
        store: &'a mut Store,
        rule: &'a Rule,
        now_ms: i64,
        is_trial: bool,
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Self, HubError> {
        if let Some(problem) = clock::problem(store, now_ms)? {
            return Err(HubError::Clock { problem });
        }
        let (counted_ms, mut moments, decision, soaks) = store.read(|session| {
            let soaks = session.longest_soaks()?;
            let counted_ms = age_reference_ms(session, now_ms)?;
            let (moments, decision) = (session.gate_moments(0)?, session.newest_decision()?);
            Ok::<_, StoreError>((counted_ms, moments, decision, soaks))
        })?;
        // Gates look back from now on as well.
        let present = |(environment, soak_ms)| GateMoment {
            id: 0,
            environment,
            at_ms: counted_ms,
            soak_ms,
        };
        moments.extend(soaks.into_iter().map(present));
        moments.sort_by_key(|moment| moment.at_ms);
        let done = Removed {
            before_ms: rule.before_ms(counted_ms),
            ..Removed::default()
        };
        Ok(Self {
            store,
            rule,
            now_ms,
            is_trial,
            stop,
            moments,
            decision,
            done,
        })
    }

    /// One site after the other.
    fn all(&mut self) -> Result<(), StoreError> {
        let (before_ms, pause) = (self.done.before_ms, self.rule.pause);
        let mut after = String::new();
        'sites: loop {
            let sites = self.store.read(|session| {
                session.sites_with_reports_before(before_ms, &after, SITES_AT_ONCE)
            })?;
            let Some(last) = sites.last() else { break };
            after.clone_from(last);
            for site in &sites {
                if self.site(site)? == Turn::Stopped {
                    break 'sites;
                }
            }
        }
        if !self.done.stopped {
            let entry = self.rule.entry("explanations", self.now_ms);
            self.done.explanations =
                explanations::remove_old(self.store, before_ms, &entry, self.is_trial)?;
            let is_over = || self.is_trial || (self.stop)();
            let parts = self.store.drop_parts_before(before_ms, pause, &is_over)?;
            self.done.foreign_parts = parts.foreign;
        }
        if let Some(removal) = self.done.removal.filter(|_| !self.done.stopped) {
            self.store
                .write(|session| session.end_removal(removal, time::now_ms()))?;
        }
        Ok(())
    }

    fn site(&mut self, site: &str) -> Result<Turn, StoreError> {
        let (before, mut tries) = (self.done.reports, TRIES);
        let mut from_ms = i64::MIN;
        let turn = loop {
            match self.part(site, from_ms)? {
                Turn::More(next_ms) => from_ms = next_ms,
                Turn::Again if tries > 0 => tries -= 1,
                // Gates decide faster than it looks: the next removal comes to it.
                Turn::Again => break Turn::Done,
                turn => break turn,
            }
        };
        if self.done.reports > before {
            self.done.sites += 1;
            if let Some(removal) = self.done.removal {
                self.store
                    .write(|session| session.count_removed_site(removal))?;
            }
        }
        Ok(turn)
    }

    /// As much of a site as is looked at together, of what was received from a moment on.
    fn part(&mut self, site: &str, from_ms: i64) -> Result<Turn, StoreError> {
        let (before_ms, moments) = (self.done.before_ms, &self.moments);
        let plan = self.store.read(|session| {
            let Some(old) = session.old_reports(site, (from_ms, before_ms), self.rule.at_once)?
            else {
                return Ok(None);
            };
            let mut plan = old.removable(moments);
            let all = plan.epochs.len();
            confirmed(session, site, &mut plan)?;
            Ok::<_, StoreError>(Some((old, all - plan.epochs.len(), plan)))
        })?;
        let Some((old, unconfirmed, plan)) = plan else {
            return Ok(Turn::Done);
        };
        if unconfirmed > 0 && !self.done.unconfirmed.iter().any(|known| known == site) {
            self.done.unconfirmed.push(site.to_owned());
        }
        let mut removed = 0;
        for epoch in &plan.epochs {
            for run in runs(&epoch.numbers) {
                if (self.stop)() {
                    self.done.stopped = true;
                    return Ok(Turn::Stopped);
                }
                removed += run.1 - run.0 + 1;
                if self.is_trial {
                    continue;
                }
                if !self.batch(&old, &epoch.epoch, run)? {
                    return Ok(Turn::Again);
                }
                std::thread::sleep(self.rule.pause);
            }
        }
        if self.is_trial {
            self.done.reports += removed;
        }
        for (because, count) in plan.kept {
            *self.done.kept.entry(because).or_default() += count;
        }
        Ok(match old.before_ms < before_ms {
            true => Turn::More(old.before_ms),
            false => Turn::Done,
        })
    }

    /// One transaction; `false` when gates decided meanwhile, and nothing was removed.
    fn batch(
        &mut self,
        old: &OldReports,
        epoch: &str,
        run: (u64, u64),
    ) -> Result<bool, StoreError> {
        let (rule, now_ms, decision, begun) =
            (self.rule, self.now_ms, self.decision, self.done.removal);
        let before_ms = self.done.before_ms;
        let removed = self.store.write(|session| {
            let newest = session.newest_decision()?;
            if newest != decision {
                return Ok(Err((newest, session.gate_moments(decision)?)));
            }
            if !old.is_contested && session.is_contested(&old.site)? {
                return Ok(Err((newest, Vec::new())));
            }
            let removal = match begun {
                Some(removal) => removal,
                None => begin(session, rule, (before_ms, now_ms))?,
            };
            let place = (old.site.as_str(), epoch);
            let counts = session.remove_reports(place, run, (removal, before_ms, now_ms))?;
            Ok::<_, StoreError>(Ok((removal, counts)))
        })?;
        match removed {
            Ok((removal, (reports, bytes))) => {
                self.done.removal = Some(removal);
                self.done.reports += reports;
                self.done.bytes += bytes;
                Ok(true)
            }
            Err((newest, more)) => {
                self.decision = newest;
                self.moments.extend(more);
                self.moments.sort_by_key(|moment| moment.at_ms);
                Ok(false)
            }
        }
    }
}

fn begin(
    session: &Session<'_>,
    rule: &Rule,
    (before_ms, now_ms): (i64, i64),
) -> Result<i64, StoreError> {
    session.add_access(&rule.entry("reports", now_ms))?;
    session.begin_removal((&rule.by, &rule.text()), before_ms, now_ms)
}

/// Leaves out numberings in which a report that stays is signed by no key of the site: it counts because the report after it names
/// it.
fn confirmed(session: &Session<'_>, site: &str, plan: &mut Removable) -> Result<(), StoreError> {
    let mut keys = Vec::new();
    for stored in session.site_keys(site)? {
        let key = PublicKey::from_pem(&stored.public_key).map_err(|_| StoreError::Corrupt {
            what: format!("key of site `{site}`"),
        })?;
        keys.push(key);
    }
    let mut stay: Vec<RemovableEpoch> = Vec::new();
    for epoch in plan.epochs.drain(..) {
        let mut holds = true;
        for some in epoch.before_removed.chunks(64) {
            let envelopes = session.envelopes((site, &epoch.epoch), some)?;
            holds &= envelopes.iter().all(|bytes| {
                let envelope = Envelope::from_json(bytes);
                envelope.is_ok_and(|envelope| envelope.verify(PAYLOAD_TYPE, &keys).is_ok())
            });
        }
        if holds {
            stay.push(epoch);
        }
    }
    plan.epochs = stay;
    Ok(())
}

/// Numbers one after the other as first and last, at most [`AT_ONCE`] of them.
fn runs(numbers: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((first, last)) if *last + 1 == *number && *number - *first < AT_ONCE => {
                *last = *number;
            }
            _ => runs.push((*number, *number)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_one_after_the_other_go_together_and_never_too_many_at_once() {
        assert_eq!(runs(&[1, 2, 3, 5, 9, 10]), [(1, 3), (5, 5), (9, 10)]);
        let many: Vec<u64> = (1..=AT_ONCE + 1).collect();
        assert_eq!(runs(&many), [(1, AT_ONCE), (AT_ONCE + 1, AT_ONCE + 1)]);
        assert_eq!(runs(&[]), []);
    }
}
