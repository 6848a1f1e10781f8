//! One promotion, as a person asks for it: whose gate decides, which commit, and whether it may be moved.
//!
//! What comes in: the environment to move, and what was said about the commit, the gate and the direction. What
//! goes out: the commit that moved it, that it is there already, or why the gate is closed. Every rule of the
//! step is decided here and in [`super::order`]; nothing is printed.

use super::hooks::{HookPrograms, HookRun, HookStep};
use super::lineage::{Lineage, shown};
use super::moved;
use super::order::ChainPlace;
use super::problems::{circles_with, unknown_before};
use super::record::{Basis, Recorded};
use super::{Chain, Decision, GateRule, GateVerdict, HubConnection, Link, PromoteError, refuse};
use outhaul_bundle::hub_api::GateRules;
use outhaul_control::overriding::Override;
use outhaul_kit::text::printable;

/// What is asked for.
#[derive(Debug)]
pub struct Promotion<'a> {
    /// The environment to move.
    pub to: &'a str,
    /// The environment whose gate decides, where several come before `to`.
    pub from: Option<&'a str>,
    /// The commit: a full id, branch or tag; without it the one that the environment before is at, or the newest
    /// of the base branch for the first environment.
    pub commit: Option<&'a str>,
    /// Who goes past the gate.
    pub past_gate: Option<Override>,
    /// Whom to ask.
    pub hub: Option<HubConnection<'a>>,
    /// The oldest report that counts, in hours: stricter than the policy, never looser.
    pub max_age_hours: Option<u32>,
    /// A commit that is older than the one that is there, or comes from a later environment, is meant.
    pub backwards: bool,
    /// The programs of the policy's hooks.
    pub hooks: &'a HookPrograms,
}

/// What came of it.
#[derive(Debug)]
pub enum Promoted {
    /// It is at the commit already, on record; nothing was changed.
    Already {
        /// The commit.
        commit: String,
        /// What would have allowed it.
        basis: Basis,
    },
    /// The gate is closed; nothing was changed.
    Closed {
        /// The environment whose gate it is.
        from: String,
        /// The commit.
        commit: String,
        /// What the hub decided.
        decision: Box<Decision>,
    },
    /// It was moved.
    Moved {
        /// The commit.
        commit: String,
        /// The commit on the environment's branch that did it.
        made: String,
        /// What allowed it.
        basis: Basis,
        /// What came of the hooks.
        hooks: Vec<HookRun>,
    },
}

/// An environment that was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepMove {
    /// The commit on its branch that did it.
    pub made: String,
    /// What came of the hooks.
    pub hooks: Vec<HookRun>,
}

/// What came of a step that its gate allowed.
#[derive(Debug)]
pub(super) enum StepResult {
    /// It was moved.
    Moved(StepMove),
    /// The gate was closed when the hooks had been run.
    Closed {
        from: String,
        decision: Box<Decision>,
    },
}

impl Chain<'_> {
    /// What the gate decides; where only outcomes of checks are missing that hooks of the step state, they are run and the gate is asked
    /// again. What else refuses the step is looked at before a hook is run.
    pub(super) fn decided(
        &self,
        link: &Link,
        step: Option<&HookStep<'_>>,
        from: &str,
        ask: &dyn Fn(&str) -> Result<Decision, PromoteError>,
    ) -> Result<(Box<Decision>, Option<Vec<HookRun>>), PromoteError> {
        let mut decision = Box::new(ask(from)?);
        let Some(step) = step.filter(|step| step.would_open(&decision)) else {
            return Ok((decision, None));
        };
        self.refuse_unseen_path(link, from)?;
        step.check()?;
        let mut runs = None;
        if step.not_counted(&decision).is_none() {
            runs = Some(step.before(Some(&decision))?);
            decision = Box::new(ask(from)?);
        }
        if step.would_open(&decision) {
            decision.notes.extend(step.not_counted(&decision));
        }
        Ok((decision, runs))
    }

    /// Whether the environment is at the commit, with a promotion on record; and that it goes forward, before anything is run for it.
    fn is_done(
        &self,
        link: &Link,
        commit: &str,
        is_first: bool,
        backwards: bool,
    ) -> Result<bool, PromoteError> {
        if !link.is_at(commit) {
            if !backwards {
                self.refuse_backwards(link, commit)?;
            }
            return Ok(false);
        }
        match self.unrecorded(link, commit, is_first)? {
            Some(lineage) if !backwards => {
                self.refuse_moved_there(link, commit, lineage)?;
                Ok(false)
            }
            Some(_) => Ok(false),
            None => Ok(true),
        }
    }

    /// Moves an environment, when everything allows it.
    ///
    /// # Errors
    /// [`PromoteError`]; nothing was changed.
    pub fn promote(&self, asked: Promotion<'_>) -> Result<Promoted, PromoteError> {
        let to = asked.to;
        if asked.from == Some(to) {
            return Err(PromoteError::FromItself {
                environment: to.to_owned(),
            });
        }
        if let Some(from) = asked.from {
            self.environment(from)?;
        }
        self.alone(to)?;
        let link = self.link(to)?;
        refuse(circles_with(to, &self.environments, &self.policies))?;
        if asked.past_gate.is_none() {
            let unknown = unknown_before(self.environment(to)?, &self.environments);
            refuse(unknown.into_iter().collect())?;
        }
        let former = match self.before(to) {
            ChainPlace::First => self.former_gate(&link)?,
            _ => None,
        };
        let from = self.deciding(&asked, former.is_some())?;
        if let Some(former) = former.filter(|_| from.is_none() && asked.past_gate.is_none()) {
            return Err(former.refusal(to));
        }
        if let Some(from) = from.as_deref().filter(|_| !asked.backwards)
            && self.order.comes_before(to, from)
        {
            return Err(PromoteError::FromLater {
                environment: to.to_owned(),
                from: from.to_owned(),
            });
        }
        let before = from.as_deref().filter(|from| *from != to);
        let before = before.map(|from| self.link(from)).transpose()?;
        self.refuse_policies_on(&link, before.as_ref())?;
        let commit = self.candidate(&asked, &link, before.as_ref())?;
        let policy = from.as_deref().and_then(|from| self.policy(from, to));
        let hooks = policy.map(|policy| HookStep {
            policy,
            programs: asked.hooks,
            commit: &commit,
            hub: asked.hub,
        });
        self.refuse_unused_hooks((to, asked.hooks), hooks.as_ref())?;
        let is_first = asked.past_gate.is_none() && from.is_none();
        let is_done = self.is_done(&link, &commit, is_first, asked.backwards)?;
        let mut ran = None;
        let ask = |from: &str| {
            let hub = asked.hub.as_ref().ok_or_else(|| PromoteError::NoHub {
                environment: to.to_owned(),
                from: from.to_owned(),
            })?;
            let rule = match policy {
                Some(policy) => GateRule::of(policy),
                None => GateRule {
                    to: Some(to.to_owned()),
                    max_age_hours: None,
                    // Nothing is written, whatever the hub has on record of a policy of before.
                    rules: Some(GateRules::default()),
                },
            };
            let rule = rule.no_older_than(asked.max_age_hours);
            Ok(hub.ask(from, &commit, &rule)?)
        };
        let basis = match (&asked.past_gate, from) {
            (Some(given), _) => Basis::Override(given.clone()),
            (None, None) => Basis::First,
            (None, Some(from)) => {
                let step = hooks.as_ref().filter(|_| !is_done);
                let (decision, runs) = self.decided(&link, step, &from, &ask)?;
                ran = runs;
                if decision.verdict != GateVerdict::Open {
                    return Ok(Promoted::Closed {
                        from,
                        commit,
                        decision,
                    });
                }
                Basis::Open { from, decision }
            }
        };
        if is_done {
            self.loads(&link, &commit)?;
            return Ok(Promoted::Already { commit, basis });
        }
        let (basis, made) = self.make(&link, &commit, (basis, hooks, ran), &ask)?;
        Ok(match made {
            StepResult::Moved(StepMove { made, hooks }) => Promoted::Moved {
                commit,
                made,
                basis,
                hooks,
            },
            StepResult::Closed { from, decision } => Promoted::Closed {
                from,
                commit,
                decision,
            },
        })
    }

    /// Makes a step that its gate allows: the hooks before it, the move, the hooks after it. Hooks take time, so that the gate
    /// is asked again when one was run; those that ran before the gate decided are given.
    pub(super) fn make(
        &self,
        link: &Link,
        commit: &str,
        (basis, hooks, ran): (Basis, Option<HookStep<'_>>, Option<Vec<HookRun>>),
        ask: &dyn Fn(&str) -> Result<Decision, PromoteError>,
    ) -> Result<(Basis, StepResult), PromoteError> {
        let (other_path, other_repository) = match &basis {
            Basis::First => (None, None),
            Basis::Open { from, decision } => {
                let path = self.refuse_unseen_path(link, from)?;
                let repository = self.refuse_not_run(link, (from, decision), path.as_deref())?;
                (path, repository)
            }
            Basis::Override(_) => (self.other_path(link), self.other_repository(link)),
        };
        let more = Recorded {
            policies: match basis {
                Basis::First => None,
                _ => self.policies_commit(),
            },
            other_path: other_path.as_deref(),
            other_repository: other_repository.as_deref(),
            hooks: &[],
        };
        let Some(step) = hooks.filter(|_| basis != Basis::First) else {
            let made = self.move_to(link, commit, &basis, more)?;
            let hooks = Vec::new();
            return Ok((basis, StepResult::Moved(StepMove { made, hooks })));
        };
        let mut basis = basis;
        let is_decided = ran.is_some();
        let mut runs = match ran {
            Some(runs) => runs,
            None => {
                if matches!(basis, Basis::Open { .. }) {
                    step.check()?;
                }
                step.before(basis.decision())?
            }
        };
        if let Basis::Open { from, decision } = &mut basis
            && !runs.is_empty()
            && !is_decided
        {
            **decision = ask(from)?;
            if decision.verdict != GateVerdict::Open {
                let (from, decision) = (from.clone(), decision.clone());
                return Ok((basis, StepResult::Closed { from, decision }));
            }
            self.refuse_not_run(link, (from, decision), other_path.as_deref())?;
        }
        let more = Recorded {
            hooks: &runs,
            ..more
        };
        let made = self.move_to(link, commit, &basis, more)?;
        runs.extend(step.after(&made, basis.decision()));
        Ok((basis, StepResult::Moved(StepMove { made, hooks: runs })))
    }

    /// Refuses a path that no site of `from` has run: its gate decides about a commit, and a base is a commit and a path there. Returns the
    /// path where it is another one than that of `from` and the last promotion records it as such: someone went past the gate with it.
    /// A path that became another one because `from` changed its own is refused: nobody let it in.
    ///
    /// # Errors
    /// [`PromoteError::UnseenPath`], or that the chain cannot be read.
    pub(super) fn refuse_unseen_path(
        &self,
        link: &Link,
        from: &str,
    ) -> Result<Option<String>, PromoteError> {
        let path = |link: &Link| moved::path_of(&link.base);
        let (own, theirs) = (path(link), path(&self.link(from)?));
        if own == theirs {
            return Ok(None);
        }
        if let Some(commit) = &link.base.commit {
            let lineage = self.lineage(link, &commit.value)?;
            if lineage.promotion.is_ok() && lineage.other_path.as_deref() == Some(shown(&own)) {
                return Ok(lineage.other_path);
            }
        }
        Err(PromoteError::UnseenPath {
            environment: link.environment.name.clone(),
            from: from.to_owned(),
            path: printable(shown(&own)).into(),
            their_path: printable(shown(&theirs)).into(),
            at: link.base.location.file_line().into(),
        })
    }

    /// The path of the base of `link`, where it is another one than that of an environment before it. Of one that cannot be read
    /// nothing is recorded: then the next promotion through its gate is refused.
    fn other_path(&self, link: &Link) -> Option<String> {
        let ChainPlace::After(names, _) = self.before(&link.environment.name) else {
            return None;
        };
        let own = moved::path_of(&link.base);
        let others = names.iter().filter_map(|name| self.link(name).ok());
        let mut paths = others.map(|other| moved::path_of(&other.base));
        paths
            .any(|path| path != own)
            .then(|| shown(&own).to_owned())
    }

    /// Refuses an environment that an ordinary commit moved to `commit`, from one that contains it or is beside it.
    pub(super) fn refuse_moved_there(
        &self,
        link: &Link,
        commit: &str,
        lineage: Lineage,
    ) -> Result<(), PromoteError> {
        match self.moved_from(link, commit, lineage)? {
            Some((before, made)) => self.refuse_moved_back(link, (&before, commit), &made),
            None => Ok(()),
        }
    }

    /// How `link` came to `commit`, where it is and no promotion brought it there.
    fn unrecorded(
        &self,
        link: &Link,
        commit: &str,
        is_first: bool,
    ) -> Result<Option<Lineage>, PromoteError> {
        if is_first {
            return Ok(None);
        }
        let lineage = self.lineage(link, commit)?;
        Ok(lineage.promotion.is_err().then_some(lineage))
    }

    /// The environment whose gate decides; `None` for the first, also where it `had_gate` and the chain has none before it now.
    fn deciding(
        &self,
        asked: &Promotion<'_>,
        had_gate: bool,
    ) -> Result<Option<String>, PromoteError> {
        let to = asked.to;
        match (&asked.past_gate, self.before(to)) {
            (Some(_), ChainPlace::First) if !had_gate => Err(PromoteError::FirstHasNoGate {
                environment: to.to_owned(),
            }),
            // Past the gate also goes what the chain does not know.
            (Some(_), _) if asked.from.is_some() || asked.commit.is_some() => {
                Ok(asked.from.map(str::to_owned))
            }
            _ => self.gate_before(to, asked.from),
        }
    }

    /// The commit that is to be promoted: one that exists.
    fn candidate(
        &self,
        asked: &Promotion<'_>,
        link: &Link,
        before: Option<&Link>,
    ) -> Result<String, PromoteError> {
        match (asked.commit, before) {
            (Some(commit), _) => self.resolve(link, commit),
            (None, None) => self.newest(link),
            (None, Some(before)) => self.resolve(link, before.pinned()?),
        }
    }
}
