//! The centre as a service: fetch, render what changed, bundle, publish, promote, round after round.
//!
//! What comes in: a [`ServeConfig`], and the time before each step. What goes out: bundles and commits for
//! what changed, and a [`ServeState`] on disk that says what was done from which sources. An environment
//! whose sources are what they were, and whose bundles, published files and branch lie as they were written, is not touched. One environment's
//! failure is reported and stops no other; what was good before stays. [`daemon`] runs rounds until it is stopped.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_signer::durable::FileError;
use outhaul_signer::key::KeyError;

use outhaul_git::source::SourceError;
use outhaul_git::source::{Cache, SourceMap};
use outhaul_load::program::NotPrograms;
use outhaul_load::scheduler::Schedulers;
use outhaul_load::{LoadRequest, Origin, OutputRefused};
use outhaul_plane::render::MemoryCache;
use outhaul_promote::HubConnection;
use outhaul_promote::hooks::HookPrograms;
use outhaul_promote::watch::{self, Pass, StepEvent, StepOutcome, Watch};

mod config;
pub mod daemon;
mod hook;
mod server;
mod state;
mod steps;
mod written;

pub use config::{BundleConfig, EnvironmentConfig, GitConfig, PromoteConfig, ServeConfig};
pub use hook::knows_secret;
pub use state::{EnvironmentMemory, LastFailure, LastRun, ServeState};
pub use steps::RoundProblem;

/// Passes that promotions may set off in one round: more than any chain is long.
const MAX_PASSES: usize = 32;
/// Under what name the chain's problems are reported.
const CHAIN: &str = "promotion";

/// Why the service cannot begin or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration cannot be used.
    #[error("{place}: {problem}")]
    Config {
        /// File, line and column.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// The state cannot be read.
    #[error(
        "`{}` is not the state of this service: {problem}\nhelp: move it away; the next round then looks at \
         everything again and does nothing twice", path.display()
    )]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Another one runs.
    #[error("a service runs with `{}` already\nhelp: stop it, or give this one its own `state`", folder.display())]
    Locked {
        /// The state folder.
        folder: PathBuf,
    },
    /// The secret of the hook.
    #[error(
        "`{}` holds no secret for the hook: {problem}\nhelp: write at least 16 characters into it, such as \
         `openssl rand -hex 32` prints", path.display()
    )]
    Secret {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// What opens a fleet's keys.
    #[error("the keys of environment `{environment}` cannot be opened")]
    Key {
        /// The environment.
        environment: String,
        /// Why.
        source: KeyError,
    },
    /// The local folder of a repository cannot be used.
    #[error("`sources` cannot be used")]
    Source(#[from] SourceError),
    /// What it would write to is no place for it.
    #[error("`state` or `cache` cannot be used")]
    Place(#[from] OutputRefused),
    /// What chooses for policies cannot be used.
    #[error("`schedulers` cannot be used")]
    Scheduler(#[source] NotPrograms),
    /// What promotion policies name as hooks cannot be used.
    #[error("`hooks` of `[promote]` cannot be used")]
    Hook(#[source] NotPrograms),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system refused something.
    #[error("cannot {doing}")]
    System {
        /// What.
        doing: String,
        /// Why.
        source: io::Error,
    },
}

impl Classified for ServeError {
    fn class(&self) -> FailureClass {
        match self {
            Self::File(_) | Self::System { .. } | Self::Locked { .. } => FailureClass::Environment,
            _ => FailureClass::Usage,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Scheduler(error) | Self::Hook(error) => error.help(),
            _ => None,
        }
    }
}

/// What one round amounts to: nothing where nothing is wrong; what may pass where only disks, networks or servers failed; else a
/// refusal.
pub fn round_class(wrong: &BTreeMap<String, RoundProblem>) -> Option<FailureClass> {
    let mut problems = wrong.values();
    match wrong.is_empty() {
        true => None,
        false if problems.all(|problem| problem.unreachable) => Some(FailureClass::Environment),
        false => Some(FailureClass::Refused),
    }
}

/// What a round needs of the world.
#[derive(Clone, Copy)]
pub struct RoundContext<'a> {
    /// The time.
    pub clock: fn() -> Timestamp,
    /// Who is informed of what is done, as it is done.
    pub tell: &'a (dyn Fn(&str) + Sync),
    /// How it is stopped.
    pub heartbeat: &'a Heartbeat,
}

impl std::fmt::Debug for RoundContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RoundContext({:?})", self.heartbeat)
    }
}

/// The service between two rounds.
#[derive(Debug)]
pub struct Service {
    config: ServeConfig,
    request: LoadRequest,
    /// The programs of promotion policies' hooks.
    hooks: HookPrograms,
    state: ServeState,
    memories: BTreeMap<String, MemoryCache>,
    /// What was said last of each environment: it is said once.
    said: BTreeMap<String, String>,
    events: Vec<StepEvent>,
    /// The notes about the chain that were said last.
    notes: Vec<String>,
    _lock: outhaul_kit::lock::Held,
}

impl Service {
    /// A service that goes on from what the state folder remembers.
    ///
    /// # Errors
    /// [`ServeError`] when that, or what the configuration names, cannot be used.
    pub fn open(config: ServeConfig) -> Result<Self, ServeError> {
        for one in &config.environments {
            if let Some(bundle) = &one.bundle {
                // Better now than after the first change, at night.
                steps::secret(bundle).map_err(|source| ServeError::Key {
                    environment: one.name.clone(),
                    source,
                })?;
            }
        }
        let request = LoadRequest {
            environment: String::new(),
            from: Origin::Repository {
                url: config.control_plane.clone(),
                branch: config.control_plane_branch.clone(),
            },
            sources: {
                let mut sources = SourceMap::parse(&config.sources)?;
                sources.allow_hosts(&config.allow_hosts)?;
                sources
            },
            cache: Cache::at(config.cache()),
            schedulers: Schedulers::parse(&config.schedulers).map_err(ServeError::Scheduler)?,
        };
        let hooks = config
            .promote
            .as_ref()
            .map_or(&[][..], |chain| &chain.hooks);
        let hooks = HookPrograms::parse(hooks).map_err(ServeError::Hook)?;
        for folder in [config.state.clone(), config.cache()] {
            outhaul_load::refuse_output(&request, &folder)?;
        }
        let lock = state::lock(&config.state)?;
        let state = ServeState::read(&config.state)?;
        Ok(Self {
            config,
            request,
            hooks,
            state,
            memories: BTreeMap::new(),
            said: BTreeMap::new(),
            events: Vec::new(),
            notes: Vec::new(),
            _lock: lock,
        })
    }

    /// What it was asked to do.
    pub fn config(&self) -> &ServeConfig {
        &self.config
    }

    /// What was done, and what is wrong.
    pub fn state(&self) -> &ServeState {
        &self.state
    }

    /// Looks at every environment once, then at the chain; again while something was promoted. Returns
    /// what is wrong, by environment.
    ///
    /// # Errors
    /// [`ServeError`] when the state cannot be written.
    pub fn round(
        &mut self,
        around: RoundContext<'_>,
    ) -> Result<BTreeMap<String, RoundProblem>, ServeError> {
        let mut wrong = BTreeMap::new();
        for _ in 0..MAX_PASSES {
            wrong.clear();
            for one in self.config.environments.clone() {
                if around.heartbeat.is_cancelled() {
                    return Ok(wrong);
                }
                around.heartbeat.beat();
                if let Some(problem) = self.environment(&one, around)? {
                    wrong.insert(one.name, problem);
                }
            }
            around.heartbeat.beat();
            if around.heartbeat.is_cancelled() || !self.promote(around, &mut wrong) {
                break;
            }
        }
        Ok(wrong)
    }

    fn environment(
        &mut self,
        one: &EnvironmentConfig,
        around: RoundContext<'_>,
    ) -> Result<Option<RoundProblem>, ServeError> {
        let name = &one.name;
        let known = self.state.environments.get(name).cloned();
        let mut after = known.clone().unwrap_or_default();
        let mut request = self.request.clone();
        request.environment.clone_from(name);
        let memory = self.memories.entry(name.clone()).or_default();
        let now = (around.clock)();
        let mut lines = Vec::new();
        let result = steps::bring(one, &request, &after, memory, now, &mut lines);
        for line in lines {
            (around.tell)(&format!("{name}: {line}"));
            self.said.remove(name);
        }
        let problem = match result {
            Ok(done) => {
                if let Some(done) = done {
                    after.done = Some(done);
                    after.last_success = Some((around.clock)());
                }
                after.trouble = None;
                // What is broken stays wrong for as long as it is.
                let broken = after.done.as_ref().filter(|done| !done.broken.is_empty());
                broken.map(|done| RoundProblem {
                    text: done.broken.join("\n"),
                    unreachable: false,
                })
            }
            Err(problem) => {
                let text = problem.text.clone();
                let same = after.trouble.take().filter(|trouble| trouble.text == text);
                let since = same.map_or(now, |trouble| trouble.since);
                after.trouble = Some(LastFailure { since, text });
                Some(problem)
            }
        };
        let line = match (&problem, &after.done) {
            (Some(problem), _) => format!("{name}: {}", problem.text),
            (None, Some(done)) => {
                format!("{name}: up to date with snapshot {}", done.snapshot.short())
            }
            (None, None) => String::new(),
        };
        self.say(name, line, around);
        if known.as_ref() != Some(&after) {
            self.state.environments.insert(name.clone(), after);
            self.state.write(&self.config.state)?;
        }
        Ok(problem)
    }

    /// Says it, unless it is what was said last.
    fn say(&mut self, name: &str, line: String, around: RoundContext<'_>) {
        if self.said.get(name) != Some(&line) {
            (around.tell)(&line);
            self.said.insert(name.to_owned(), line);
        }
    }

    /// Follows the chain; whether an environment was moved.
    fn promote(
        &mut self,
        around: RoundContext<'_>,
        wrong: &mut BTreeMap<String, RoundProblem>,
    ) -> bool {
        let Some(chain) = &self.config.promote else {
            return false;
        };
        let pass = watch::pass(&Watch {
            control_plane: &self.config.control_plane,
            sources: self.request.sources.clone(),
            cache: &self.request.cache,
            hub: chain.hub.as_deref().map(|url| HubConnection {
                url,
                authority: chain.hub_ca.as_deref(),
            }),
            first: chain.first.as_deref(),
            hooks: self.hooks.clone(),
        });
        let Pass { events, mut notes } = match pass {
            Ok(pass) => pass,
            Err(error) => {
                let problem = steps::chain_problem(&error);
                self.say(CHAIN, format!("{CHAIN}: {}", problem.text), around);
                wrong.insert(CHAIN.to_owned(), problem);
                return false;
            }
        };
        self.said.remove(CHAIN);
        if events.is_empty() {
            let missing = match &chain.hub {
                Some(_) => "`.environments/` has no PromotionPolicy, and `[promote]` no `first`",
                None => "`[promote]` has neither `hub` nor `first`",
            };
            notes.push(format!("there is nothing to promote: {missing}"));
        }
        for note in notes.iter().filter(|note| !self.notes.contains(note)) {
            (around.tell)(&format!("{CHAIN}: note: {note}"));
        }
        self.notes = notes;
        for event in &events {
            if !self.events.contains(event) {
                (around.tell)(&format!("{CHAIN}: {event}"));
            }
            if let StepOutcome::Moved(moved) = &event.outcome
                && !watch::failures(&moved.hooks).is_empty()
            {
                let problem = RoundProblem {
                    text: event.to_string(),
                    unreachable: false,
                };
                wrong.insert(CHAIN.to_owned(), problem);
            }
            if let StepOutcome::Failed(failed) = &event.outcome {
                let problem = RoundProblem {
                    text: event.to_string(),
                    unreachable: failed.class == FailureClass::Environment,
                };
                // What is wrong is not hidden behind an outage of a later step.
                if wrong.get(CHAIN).is_none_or(|known| known.unreachable) {
                    wrong.insert(CHAIN.to_owned(), problem);
                }
            }
        }
        let moved = |event: &StepEvent| matches!(event.outcome, StepOutcome::Moved(_));
        let any = events.iter().any(moved);
        self.events = events;
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_refused_unless_all_that_is_wrong_may_pass() {
        let problem = |unreachable| RoundProblem {
            text: String::new(),
            unreachable,
        };
        let class = |problems: &[bool]| {
            let problems = problems.iter().enumerate();
            let wrong = problems.map(|(at, unreachable)| (at.to_string(), problem(*unreachable)));
            round_class(&wrong.collect())
        };
        assert_eq!(class(&[]), None);
        assert_eq!(class(&[true, true]), Some(FailureClass::Environment));
        assert_eq!(class(&[true, false]), Some(FailureClass::Refused));
    }
}
