//! One round of the service: everything that is due, in order.
//!
//! What comes in: the agent, and when each thing was last done. What goes out: bundles taken, decisions
//! of people carried out, drift looked for, reports sent. A source that fails is reported in the log and tried
//! again later, with a pause that grows; only a memory that cannot be used ends the service.

use std::time::{Duration, Instant};

use outhaul_bundle::report::ReportEvent;
use outhaul_host::links::Links;
use outhaul_kit::service;
use outhaul_pace::Pace;

use super::exports::Exports;
use super::outcome::StatesBefore;
use super::watch::Watch;
use crate::agent::Agent;
use crate::calls::{self, Call, CommandResult};
use crate::error::AgentError;
use crate::following;
use crate::intake::pull::BundleRepository;
use crate::intake::skipped_source;
use crate::intake::visit;
use crate::intake::{self, ImportOutcome};
use crate::keys;
use crate::machine::State;
use crate::report;
use crate::runner::{self, observe};
use crate::runner::{former_targets, lost_database, tidy};
use crate::state::{StateError, generations};
use crate::status::page;
use crate::update;

/// First pause after an attempt that failed, unless the setting asks more often.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// Longest pause between two attempts while they fail: a link that is up for twenty minutes is used,
/// also when nothing announces it.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// When each thing is due.
#[derive(Debug)]
pub struct Round {
    watch: Watch,
    exports: Exports,
    decide: Due,
    /// The page of the status is written.
    page: Due,
    /// What keeps unfinished work from going on, as it was last reported.
    unfinished: Option<String>,
    /// The `status` that the service manager got last.
    shown: String,
    poll: Due,
    send: Due,
    drift: Due,
    links: Links,
}

/// Something that is done every so often.
#[derive(Debug)]
struct Due {
    /// `None`: never.
    every: Option<Duration>,
    next: Instant,
    failures: u32,
}

impl Due {
    fn new(seconds: u64, wanted: bool, first: Instant) -> Self {
        let every = (wanted && seconds > 0).then(|| Duration::from_secs(seconds));
        Self {
            every,
            next: first,
            failures: 0,
        }
    }

    fn is_due(&self) -> bool {
        self.every.is_some() && Instant::now() >= self.next
    }

    /// Makes it due at once.
    fn now(&mut self) {
        self.next = Instant::now();
    }

    /// Plans the next time: jittered by a tenth, later after failures.
    fn done(&mut self, worked: bool) {
        let Some(every) = self.every else { return };
        self.failures = if worked {
            0
        } else {
            self.failures.saturating_add(1)
        };
        let pause = pause(every, self.failures);
        let mut byte = [128u8];
        // Without randomness every site asks at the same time, which is no reason not to ask.
        let _ = getrandom::fill(&mut byte);
        let jitter = f64::from(byte[0]) / 255.0 * 0.2 + 0.9;
        self.next = Instant::now() + pause.mul_f64(jitter);
    }
}

/// How long to wait: the setting, or after failures a minute that doubles up to [`MAX_PAUSE`].
fn pause(every: Duration, failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else {
        return every;
    };
    let first = every.min(FIRST_PAUSE);
    first.saturating_mul(1 << doublings.min(6)).min(MAX_PAUSE)
}

impl Round {
    /// Tidies up after a cut, and reports that the agent started.
    ///
    /// # Errors
    /// [`AgentError`] of the store.
    pub fn begin(agent: &mut Agent) -> Result<Self, AgentError> {
        tidy::keep_identity(agent)?;
        report::queue(
            agent,
            ReportEvent::Started {
                agent_version: update::version(),
            },
        )?;
        update::report(agent)?;
        tidy::tidy_up_at_start(agent)?;
        bind_key(agent)?;
        tidy::restore_floors(agent)?;
        tidy::keep_holds(agent);
        match agent.check_settings() {
            // The default target is none that this site was set to.
            Err(error @ AgentError::Apply(_)) => error
                .lines()
                .iter()
                .for_each(|line| tracing::error!("{line}")),
            other => {
                other?;
                former_targets::look(agent)?;
            }
        }
        calls::drop_all(&mut agent.store)?;
        let now = Instant::now();
        let config = &agent.config;
        // What was applied a moment ago needs no look; what a cluster applies by itself does.
        let follows = config.observe.repository.is_some();
        let until_first = if follows { 0 } else { config.drift_s };
        let drift_first = now + Duration::from_secs(until_first);
        Ok(Self {
            watch: Watch::default(),
            exports: Exports::default(),
            decide: Due::new(15, true, now),
            page: Due::new(15, config.serve.page.is_some(), now),
            unfinished: None,
            shown: String::new(),
            poll: Due::new(
                config.repository.poll_s,
                config.repository.url.is_some(),
                now,
            ),
            send: Due::new(config.hub.send_s, report::hub_url(agent).is_some(), now),
            drift: Due::new(config.drift_s, true, drift_first),
            links: Links::now(),
        })
    }

    /// Does what is due now.
    ///
    /// # Errors
    /// [`AgentError`] of the store; [`AgentError::Stopped`].
    pub fn go(&mut self, agent: &mut Agent) -> Result<(), AgentError> {
        // Before anything is looked at: what came of it would be written where nobody finds it.
        agent.store.check_place()?;
        tidy::keep_identity(agent)?;
        if self.links.came_up() {
            tracing::info!("a network came up: pulling and sending now");
            self.poll.now();
            self.send.now();
        }
        self.answer_calls(agent)?;
        if self.decide.is_due() {
            keep_beside(agent);
            let decided = decisions(agent);
            let problem = decided.as_ref().err().map(ToString::to_string);
            // Tried again soon, because a person may have fixed it; reported once.
            let known =
                problem == self.unfinished && matches!(decided, Err(AgentError::Blocked { .. }));
            if known || !self.log_failure("what is unfinished", decided)? {
                self.decide.done(true);
            }
            self.unfinished = problem;
        }
        for place in self.watch.changed(&agent.config.watch, &agent.site) {
            agent.store.check_place()?;
            let visited = self.exports.visit(agent, &place, Instant::now());
            // What came of it is in the log already.
            if let Err(error @ (AgentError::State(_) | AgentError::Stopped)) = visited {
                return Err(error);
            }
        }
        if self.poll.is_due() {
            let pulled = pull(agent);
            let worked = self.log_failure("the repository", pulled)?;
            self.poll.done(worked);
        }
        if self.drift.is_due() {
            let observed = look(agent);
            let worked = self.log_failure("looking for drift", observed)?;
            self.drift.done(worked);
        }
        if self.send.is_due() {
            let sent = send(agent);
            let worked = self.log_failure("the hub", sent)?;
            self.send.done(worked);
        }
        // Last: what was just found and done is on the stick, too.
        self.exports
            .write_newer(agent, &self.watch.places(), Instant::now())?;
        self.show(agent)
    }

    /// Does what commands ask for, one after the other, and answers them.
    fn answer_calls(&mut self, agent: &mut Agent) -> Result<(), AgentError> {
        while let Some((id, call)) = calls::next(agent.store.read())? {
            if agent.heartbeat.is_cancelled() {
                return Err(AgentError::Stopped);
            }
            tracing::info!("a command asks the service: {}", call.sentence());
            let answer = match &call {
                Call::Import(path) => calls::import::path(agent, path, None),
                Call::Slip(text) => calls::import::slip(agent, text, None),
                Call::Ordered(ordered) => calls::people::carry_out(agent, ordered),
                Call::Round => self.answered(agent)?,
            };
            let lines = answer.messages.iter().chain([&answer.text]);
            for line in lines.filter(|line| !line.is_empty()) {
                match answer.exit {
                    0 => tracing::info!("{line}"),
                    _ => tracing::warn!("{line}"),
                }
            }
            calls::answer(&mut agent.store, id, &answer)?;
            agent.heartbeat.beat();
        }
        Ok(())
    }

    /// Says what runs in one line of `systemctl status`, when it changed.
    fn show(&mut self, agent: &Agent) -> Result<(), AgentError> {
        let mut now = match generations::active(agent.store.read())? {
            Some(number) => format!("bundle {number} is active"),
            None if lost_database::is_without_bundles(agent.store.read())? => {
                "no bundle yet".to_owned()
            }
            None => "no bundle is active".to_owned(),
        };
        if let Some(reports) = self.exports.sentence() {
            now = format!("{now}; {reports}");
        }
        if now != self.shown {
            service::notify(service::NotifyState::Status(&now));
            self.shown = now;
        }
        if self.page.is_due() {
            let written = page::keep(agent);
            let worked = self.log_failure("the page of the status", written)?;
            self.page.done(worked);
        }
        Ok(())
    }

    /// Does everything once, and says what came of it, also where something failed.
    ///
    /// # Errors
    /// [`AgentError`] of the store, before anything was done.
    pub fn answered(&mut self, agent: &mut Agent) -> Result<CommandResult, AgentError> {
        let before = StatesBefore::of(agent)?;
        let done = self.once(agent);
        Ok(before.answer(agent, &done))
    }

    /// Does everything once; the first failure is the result, after all was tried.
    fn once(&mut self, agent: &mut Agent) -> Result<(), AgentError> {
        let mut first = None;
        let keep = |result: Result<(), AgentError>, first: &mut Option<AgentError>| match result {
            Err(error @ (AgentError::State(_) | AgentError::Stopped)) => Err(error),
            Err(error) if first.is_none() => {
                *first = Some(error);
                Ok(())
            }
            // The first one is the result; each is said.
            Err(error) => {
                error
                    .lines()
                    .iter()
                    .for_each(|line| tracing::warn!("{line}"));
                Ok(())
            }
            Ok(()) => Ok(()),
        };
        keep_beside(agent);
        // What cannot go on keeps no newer bundle away.
        keep(decisions(agent), &mut first)?;
        let before = generations::active(agent.store.read())?;
        for place in self.watch.changed(&agent.config.watch, &agent.site) {
            keep(
                self.exports.visit(agent, &place, Instant::now()),
                &mut first,
            )?;
        }
        if agent.config.repository.url.is_some() {
            keep(pull(agent), &mut first)?;
        }
        // What was applied a moment ago needs no second look.
        let follows = agent.config.observe.repository.is_some();
        let runs_on = before.is_some() && before == generations::active(agent.store.read())?;
        if follows || runs_on {
            keep(look(agent), &mut first)?;
        }
        if report::hub_url(agent).is_some() {
            keep(send(agent), &mut first)?;
        }
        first.map_or(Ok(()), Err)
    }

    /// Whether it worked; a transient failure is reported and does not end the service.
    fn log_failure<T>(
        &self,
        what: &str,
        result: Result<T, AgentError>,
    ) -> Result<bool, AgentError> {
        match result {
            Ok(_) => Ok(true),
            Err(error @ (AgentError::State(_) | AgentError::Stopped)) => Err(error),
            Err(error) => {
                tracing::warn!(what, "{error}");
                Ok(false)
            }
        }
    }
}

/// Writes the copies beside the database again, where someone removed or damaged them. The database has it all: what keeps them from being
/// written is logged.
fn keep_beside(agent: &Agent) {
    tidy::keep_holds(agent);
    if let Err(error) = tidy::restore_floors(agent) {
        tracing::warn!("`floors.json` is missing or damaged, and cannot be written again: {error}");
    }
}

/// A database from before names no key: it is the one that is here.
fn bind_key(agent: &mut Agent) -> Result<(), AgentError> {
    let Agent { store, key, .. } = agent;
    store
        .commit(|db| keys::bind(db, key))
        .map_err(|error: StateError| error.into())
}

/// What the log says of it.
const WENT_ON: &str = "went on with an unfinished bundle";

/// What is unfinished: a cut-off bundle, or what people decided while the service ran.
fn decisions(agent: &mut Agent) -> Result<(), AgentError> {
    visit::close_interrupted(agent)?;
    if let Some((number, state, _)) = runner::resume(agent)? {
        let row = generations::one(agent.store.read(), number)?;
        let why = row.map_or_else(String::new, |row| row.note.to_string());
        let state_word = state.as_str();
        let is_good = !matches!(state, State::Failed | State::Reverted | State::Rejected);
        match (is_good, why.as_str()) {
            (true, "") => tracing::info!(number, state = state_word, "{WENT_ON}"),
            (true, why) => tracing::info!(number, state = state_word, why, "{WENT_ON}"),
            (false, why) => tracing::warn!(number, state = state_word, why, "{WENT_ON}"),
        }
    }
    Ok(())
}

/// Looks at what runs: for drift, or at a cluster that follows the platform repository directly.
fn look(agent: &mut Agent) -> Result<(), AgentError> {
    if agent.config.observe.repository.is_some() {
        return following::observe(agent).map(drop);
    }
    observe::observe(agent).map(drop)
}

/// Sends what waits. A hub that takes nothing of this site is a failure: it is in the log, and tried again later.
fn send(agent: &mut Agent) -> Result<(), AgentError> {
    let sent = report::send(agent)?;
    sent.of_site
        .map_or(Ok(()), |refusal| Err(report::refusal::error(&refusal)))
}

/// Takes the newest bundle of the repository, when there is a newer one, and keeps for `status` what of this machine prevents that.
fn pull(agent: &mut Agent) -> Result<(), AgentError> {
    let done = pull_newest(agent);
    if let Some(url) = agent.config.repository.url.clone() {
        let noted = skipped_source::note_pulled(agent, &url, done.as_ref().err());
        if let Err(error) = noted {
            tracing::warn!("`status` cannot show what came of the repository: {error}");
        }
    }
    done
}

fn pull_newest(agent: &mut Agent) -> Result<(), AgentError> {
    let site = agent.site.clone();
    let config = agent.config.repository.clone();
    let limits = agent.limits;
    let pace = Pace::of(agent.state_folder.root(), config.pull_limits());
    let pace = (pace, agent.clock_reading()?.wall.as_millisecond());
    let heartbeat = &agent.heartbeat;
    let Some(mut source) =
        BundleRepository::open(&config, &site, limits, heartbeat, &*agent.facilities, pace)?
    else {
        return Ok(());
    };
    match intake::accept(agent, &mut source)? {
        // What is pulled comes whole.
        ImportOutcome::AlreadyActive { .. } | ImportOutcome::Incomplete { .. } => {}
        ImportOutcome::Ordered { number, note } => {
            tracing::warn!(number, note, "a bundle of the repository brought an order");
        }
        ImportOutcome::Rests {
            number,
            state,
            note,
        } => {
            tracing::info!(
                number,
                state = state.as_str(),
                note,
                "took a bundle from the repository"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_fails_is_tried_again_within_minutes() {
        let day = Duration::from_secs(86_400);
        assert_eq!(pause(day, 0), day);
        assert_eq!(pause(day, 1), Duration::from_secs(60));
        assert_eq!(pause(day, 2), Duration::from_secs(120));
        assert_eq!(pause(day, 99), MAX_PAUSE);
        let often = Duration::from_secs(5);
        assert_eq!(pause(often, 1), often);
        assert_eq!(pause(often, 99), MAX_PAUSE);
    }
}
