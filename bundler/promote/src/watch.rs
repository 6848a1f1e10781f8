//! The chain of environments, followed: each step once, in order, as far as the gates are open.
//!
//! What comes in: a control plane, a hub, and optionally the first environment, which follows its base
//! branch without a gate. What goes out: what was decided about each step, as an [`StepEvent`] that is the
//! same as long as nothing changed, so that whoever prints says it once. A silent hub, an unreadable
//! branch or a closed gate stops its own step and no other. No environment is moved back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use outhaul_kit::failure::{Classified as _, FailureClass};
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use super::direction::{Direction, refuse};
use super::error_text::with_help;
use super::given_hooks;
use super::hooks::{HookPrograms, HookResult, HookRun, HookStep};
use super::promotion::StepResult;
use super::record::{self, Basis, Recorded};
use super::{Chain, Decision, GateRule, GateVerdict, HubConnection, PromoteError, StepMove};
use outhaul_control::model::PromotionPolicy;
use outhaul_git::source::{Cache, SourceMap};

/// What to follow.
#[derive(Debug, Clone)]
pub struct Watch<'a> {
    /// The control plane's repository, a URL or folder.
    pub control_plane: &'a str,
    /// The local folders of repositories.
    pub sources: SourceMap,
    /// Where others are fetched to.
    pub cache: &'a Cache,
    /// Who decides; without it only the first environment moves.
    pub hub: Option<HubConnection<'a>>,
    /// The environment that follows its base branch.
    pub first: Option<&'a str>,
    /// The programs of the policies' hooks.
    pub hooks: HookPrograms,
}

/// What was decided about one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepEvent {
    /// The environment before; `None` for the first.
    pub from: Option<String>,
    /// The environment that is moved.
    pub to: String,
    /// The commit.
    pub commit: Option<String>,
    /// What came of it.
    pub outcome: StepOutcome,
}

/// What came of one step. As JSON it is an object with `state` (`current`, `closed`, `failed` or `moved`), and beside
/// it `reasons`, `problem` or `environment_commit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepOutcome {
    /// It is there already, or further.
    Current,
    /// The gate is closed, and why.
    Closed(Vec<String>),
    /// It could not be decided or done.
    Failed(StepProblem),
    /// Moved.
    Moved(StepMove),
}

/// Why a step could not be decided or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepProblem {
    /// Its kind.
    pub class: FailureClass,
    /// What is wrong, for people.
    pub text: String,
}

impl Serialize for StepOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Current => map.serialize_entry("state", "current")?,
            Self::Closed(reasons) => {
                map.serialize_entry("state", "closed")?;
                map.serialize_entry("reasons", reasons)?;
            }
            Self::Failed(problem) => {
                map.serialize_entry("state", "failed")?;
                map.serialize_entry("problem", &problem.text)?;
            }
            Self::Moved(moved) => {
                map.serialize_entry("state", "moved")?;
                map.serialize_entry("environment_commit", &moved.made)?;
                if !moved.hooks.is_empty() {
                    map.serialize_entry("hooks", &moved.hooks)?;
                }
            }
        }
        map.end()
    }
}

impl StepEvent {
    /// What a command ends with for this step alone: a closed gate is an answer, only what failed is an error.
    pub fn code(&self) -> u8 {
        match &self.outcome {
            StepOutcome::Failed(problem) => problem.class.code(),
            StepOutcome::Moved(moved) if !failures(&moved.hooks).is_empty() => {
                FailureClass::Refused.code()
            }
            _ => 0,
        }
    }
}

/// The sentences of the hooks that failed.
pub fn failures(hooks: &[HookRun]) -> Vec<String> {
    let failed = hooks
        .iter()
        .filter(|hook| hook.result == HookResult::Failed);
    failed.map(HookRun::sentence).collect()
}

/// What a pass ends with: 0 when no step failed, the code of what could not be reached only where nothing else is wrong.
pub fn exit_code(events: &[StepEvent]) -> u8 {
    let environment = FailureClass::Environment.code();
    let codes = || events.iter().map(StepEvent::code).filter(|code| *code > 0);
    let others = codes().filter(|code| *code != environment).max();
    others.or_else(|| codes().max()).unwrap_or(0)
}

impl fmt::Display for StepEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.commit.as_deref().unwrap_or("its commit");
        let short = short.get(..12).unwrap_or(short);
        let to = &self.to;
        match (&self.outcome, &self.from) {
            (StepOutcome::Current, _) => write!(f, "`{to}` is at {short}"),
            (StepOutcome::Closed(reasons), from) => {
                let from = from.as_deref().unwrap_or_default();
                write!(
                    f,
                    "`{to}` stays: the gate of `{from}` is closed for {short}"
                )?;
                reasons
                    .iter()
                    .try_for_each(|reason| write!(f, "\n  - {reason}"))
            }
            (StepOutcome::Failed(problem), _) => write!(f, "`{to}` stays: {}", problem.text),
            (StepOutcome::Moved(StepMove { made, hooks }), from) => {
                match from {
                    Some(from) => write!(
                        f,
                        "`{to}` moved to {short}, the gate of `{from}` is open (commit {made})"
                    )?,
                    None => write!(
                        f,
                        "`{to}` moved to {short}, the newest of its base (commit {made})"
                    )?,
                }
                hooks
                    .iter()
                    .try_for_each(|hook| write!(f, "\n  - {}", hook.sentence()))
            }
        }
    }
}

/// What came of one look at every step.
#[derive(Debug, Default)]
pub struct Pass {
    /// What was decided about each.
    pub events: Vec<StepEvent>,
    /// What has no effect, for people.
    pub notes: Vec<String>,
}

/// Looks at every step once.
///
/// # Errors
/// [`PromoteError`] when the environments cannot be read, or the policies are not a chain.
pub fn pass(watch: &Watch<'_>) -> Result<Pass, PromoteError> {
    let chain = Chain::open(watch.control_plane, watch.sources.clone(), watch.cache)?;
    chain.refuse_policies_beside(&|name| {
        let mut steps = chain.policies.iter();
        watch.first == Some(name)
            || steps.any(|one| [&one.from, &one.to].iter().any(|end| end.value == name))
    })?;
    let mut events = Vec::new();
    if let Some(first) = watch.first {
        events.push(follow(&chain, first));
    }
    if let Some(hub) = &watch.hub {
        for policy in in_order(&chain.policies)? {
            events.push(step(&chain, hub, (policy, &watch.hooks)));
        }
    }
    Ok(Pass {
        events,
        notes: given_hooks::notes(&chain.policies, &watch.hooks),
    })
}

/// What was announced already: each decision once, and again when it changes.
#[derive(Debug, Default)]
pub struct Announced {
    steps: BTreeMap<(Option<String>, String), StepEvent>,
    notes: BTreeSet<String>,
    problem: Option<String>,
}

/// What is announced after a pass.
#[derive(Debug)]
pub struct Announcement {
    /// Decisions that were not announced yet.
    pub events: Vec<StepEvent>,
    /// Notes that were not announced yet.
    pub notes: Vec<String>,
    /// Whether an environment was moved: then the next step may move, too.
    pub moved: bool,
    /// What a command ends with after this pass: [`exit_code`].
    pub code: u8,
}

impl Announced {
    /// What is new of a pass that was possible; `None` when there is no step at all to follow.
    pub fn announce(&mut self, pass: Pass) -> Option<Announcement> {
        let Pass { events, mut notes } = pass;
        self.problem = None;
        if events.is_empty() {
            return None;
        }
        let is_moved = |event: &StepEvent| matches!(event.outcome, StepOutcome::Moved(_));
        let moved = events.iter().any(is_moved);
        let code = exit_code(&events);
        let mut is_new = |event: &StepEvent| {
            let key = (event.from.clone(), event.to.clone());
            self.steps.insert(key, event.clone()).as_ref() != Some(event)
        };
        notes.retain(|note| self.notes.insert(note.clone()));
        Some(Announcement {
            notes,
            events: events.into_iter().filter(&mut is_new).collect(),
            moved,
            code,
        })
    }

    /// Why a pass was not possible, when that was not announced yet.
    pub fn problem(&mut self, error: &PromoteError) -> Option<String> {
        let text = with_help(error);
        let is_new = self.problem.as_ref() != Some(&text);
        self.problem = Some(text.clone());
        is_new.then_some(text)
    }
}

/// The policies, those of earlier environments first.
fn in_order(policies: &[PromotionPolicy]) -> Result<Vec<&PromotionPolicy>, PromoteError> {
    let mut left: Vec<&PromotionPolicy> = policies.iter().collect();
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let waiting: BTreeSet<&str> = left.iter().map(|policy| policy.to.value.as_str()).collect();
        let (ready, later): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|policy| !waiting.contains(policy.from.value.as_str()));
        if ready.is_empty() {
            let names = later.iter().map(|policy| format!("`{}`", policy.name));
            return Err(PromoteError::Circle {
                policies: names.collect::<Vec<_>>().join(", "),
            });
        }
        ordered.extend(ready);
        left = later;
    }
    Ok(ordered)
}

fn follow(chain: &Chain<'_>, to: &str) -> StepEvent {
    let mut event = StepEvent {
        from: None,
        to: to.to_owned(),
        commit: None,
        outcome: StepOutcome::Current,
    };
    let mut advance = || -> Result<Option<String>, PromoteError> {
        chain.first_only(to)?;
        chain.alone(to)?;
        let link = chain.link(to)?;
        if let Some(former) = chain.former_gate(&link)? {
            return Err(former.refusal(to));
        }
        let commit = chain.newest(&link)?;
        event.commit = Some(commit.clone());
        if link.is_at(&commit) {
            return Ok(None);
        }
        chain.refuse_policies_on(&link, None)?;
        // Whoever pushed another history there may mean it; a person says so.
        chain.refuse_backwards(&link, &commit)?;
        let more = Recorded::default();
        chain.move_to(&link, &commit, &Basis::First, more).map(Some)
    };
    match advance() {
        Ok(None) => {}
        Ok(Some(made)) => {
            let hooks = Vec::new();
            event.outcome = StepOutcome::Moved(StepMove { made, hooks });
        }
        Err(error) => event.outcome = failed(&error),
    }
    event
}

fn step(
    chain: &Chain<'_>,
    hub: &HubConnection<'_>,
    (policy, hooks): (&PromotionPolicy, &HookPrograms),
) -> StepEvent {
    let (from, to) = (&policy.from.value, &policy.to.value);
    let mut event = StepEvent {
        from: Some(from.clone()),
        to: to.clone(),
        commit: None,
        outcome: StepOutcome::Current,
    };
    let decide = |commit: &mut Option<String>| -> Result<StepOutcome, PromoteError> {
        chain.alone(to)?;
        let before = chain.link(from)?;
        let pinned = before.pinned()?.to_owned();
        *commit = Some(pinned.clone());
        let link = chain.link(to)?;
        let mut unrecorded = None;
        if link.is_at(&pinned) {
            let lineage = chain.lineage(&link, &pinned)?;
            let Err(problem) = &lineage.promotion else {
                return Ok(StepOutcome::Current);
            };
            chain.refuse_unseen_path(&link, from)?;
            unrecorded = Some(format!(
                "`{to}` is at that commit already, and no record shows that it came there through the gate of `{from}`: {problem}; \
                 `bundle` and `serve` refuse it until the gate opens"
            ));
            chain.refuse_moved_there(&link, &pinned, lineage)?;
        } else {
            match chain.direction(&link, &pinned)? {
                Direction::Back => return Ok(StepOutcome::Current),
                direction => refuse(direction, &link, &pinned)?,
            }
        }
        chain.refuse_policies_on(&link, Some(&before))?;
        let closed = |decision: &Decision| closed(decision, unrecorded.as_deref());
        let ask = |from: &str| -> Result<Decision, PromoteError> {
            Ok(hub.ask(from, &pinned, &GateRule::of(policy))?)
        };
        let hooks = HookStep {
            policy,
            programs: hooks,
            commit: &pinned,
            hub: Some(*hub),
        };
        let (decision, ran) = chain.decided(&link, Some(&hooks), from, &ask)?;
        if decision.verdict != GateVerdict::Open {
            return Ok(closed(&decision));
        }
        let from = from.clone();
        let basis = Basis::Open { from, decision };
        let step = (basis, Some(hooks), ran);
        Ok(match chain.make(&link, &pinned, step, &ask)?.1 {
            StepResult::Moved(moved) => StepOutcome::Moved(moved),
            StepResult::Closed { decision, .. } => closed(&decision),
        })
    };
    event.outcome = match decide(&mut event.commit) {
        Ok(outcome) => outcome,
        Err(error) => failed(&error),
    };
    event
}

/// Why a gate is closed, and for an environment that is at the commit already, what is `missing`.
fn closed(decision: &Decision, missing: Option<&str>) -> StepOutcome {
    let missing = missing.map(str::to_owned).into_iter();
    let notes = record::notes(decision).into_iter();
    let notes = notes.map(|note| format!("note: {note}"));
    let reasons = decision.reasons.iter().cloned();
    StepOutcome::Closed(missing.chain(reasons).chain(notes).collect())
}

/// What is wrong is reported whole.
fn failed(error: &PromoteError) -> StepOutcome {
    StepOutcome::Failed(StepProblem {
        class: error.class(),
        text: with_help(error),
    })
}

#[cfg(test)]
mod tests;
