//! The chain of environments, followed: each step once, in order, as far as the gates are open.
//!
//! What comes in: a control plane, a hub, and optionally the first environment, which follows its base
//! branch without a gate. What goes out: what was decided about each step, as an [`StepEvent`] that is the
//! same as long as nothing changed, so that whoever prints says it once. A silent hub, an unreadable
//! branch or a closed gate stops its own step and no other. No environment is moved back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::record::Basis;
use super::{Chain, GateRule, GateVerdict, HubConnection, PromoteError};
use outhaul_control::model::PromotionPolicy;
use outhaul_git::source::{Cache, SourceMap};

/// What to follow.
#[derive(Debug, Clone)]
pub struct Watch<'a> {
    /// The control plane's repository, a URL or folder.
    pub control_plane: &'a str,
    /// What stands for repositories here.
    pub sources: SourceMap,
    /// Where others are fetched to.
    pub cache: &'a Cache,
    /// Who decides; without it only the first environment moves.
    pub hub: Option<HubConnection<'a>>,
    /// The environment that follows its base branch.
    pub first: Option<&'a str>,
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

/// What came of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// It is there already, or further.
    Current,
    /// The gate is closed, and why.
    Closed(Vec<String>),
    /// It could not be decided or done.
    Failed(String),
    /// Moved; the commit that did it.
    Moved(String),
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
            (StepOutcome::Failed(problem), _) => write!(f, "`{to}` stays: {problem}"),
            (StepOutcome::Moved(made), Some(from)) => {
                write!(
                    f,
                    "`{to}` moved to {short}, the gate of `{from}` is open (commit {made})"
                )
            }
            (StepOutcome::Moved(made), None) => {
                write!(
                    f,
                    "`{to}` moved to {short}, the newest of its base (commit {made})"
                )
            }
        }
    }
}

/// Looks at every step once.
///
/// # Errors
/// [`PromoteError`] when the environments cannot be read, or the policies are no chain.
pub fn pass(watch: &Watch<'_>) -> Result<Vec<StepEvent>, PromoteError> {
    let chain = Chain::open(watch.control_plane, watch.sources.clone(), watch.cache)?;
    let mut events = Vec::new();
    if let Some(first) = watch.first {
        events.push(follow(&chain, first));
    }
    if let Some(hub) = &watch.hub {
        for policy in in_order(&chain.policies)? {
            events.push(step(&chain, hub, policy));
        }
    }
    Ok(events)
}

/// What was announced already: each decision is news once, and again when it changes.
#[derive(Debug, Default)]
pub struct Announced {
    steps: BTreeMap<(Option<String>, String), StepEvent>,
    problem: Option<String>,
}

/// What is new after a pass.
#[derive(Debug)]
pub struct News {
    /// Decisions that were not announced yet.
    pub events: Vec<StepEvent>,
    /// Whether an environment was moved: then the next step may move, too.
    pub moved: bool,
    /// Whether a step could not be decided or done.
    pub failed: bool,
}

impl Announced {
    /// What is new of a pass that was possible; `None` when there is no step at all to follow.
    pub fn news(&mut self, events: Vec<StepEvent>) -> Option<News> {
        self.problem = None;
        if events.is_empty() {
            return None;
        }
        let any = |is: fn(&StepOutcome) -> bool| events.iter().any(|event| is(&event.outcome));
        let moved = any(|outcome| matches!(outcome, StepOutcome::Moved(_)));
        let failed = any(|outcome| matches!(outcome, StepOutcome::Failed(_)));
        let mut is_new = |event: &StepEvent| {
            let key = (event.from.clone(), event.to.clone());
            self.steps.insert(key, event.clone()).as_ref() != Some(event)
        };
        Some(News {
            events: events.into_iter().filter(&mut is_new).collect(),
            moved,
            failed,
        })
    }

    /// Why a pass was not possible, when that is news.
    pub fn problem(&mut self, error: &PromoteError) -> Option<String> {
        let text = error_chain(error);
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
        let link = chain.link(to)?;
        let commit = chain.newest(&link)?;
        event.commit = Some(commit.clone());
        if link.is_at(&commit) {
            return Ok(None);
        }
        chain.move_to(&link, &commit, &Basis::First).map(Some)
    };
    match advance() {
        Ok(None) => {}
        Ok(Some(made)) => event.outcome = StepOutcome::Moved(made),
        Err(error) => event.outcome = failed(&error),
    }
    event
}

fn step(chain: &Chain<'_>, hub: &HubConnection<'_>, policy: &PromotionPolicy) -> StepEvent {
    let (from, to) = (&policy.from.value, &policy.to.value);
    let mut event = StepEvent {
        from: Some(from.clone()),
        to: to.clone(),
        commit: None,
        outcome: StepOutcome::Current,
    };
    let decide = |commit: &mut Option<String>| -> Result<StepOutcome, PromoteError> {
        let before = chain.link(from)?;
        let pinned = before.pinned()?.to_owned();
        *commit = Some(pinned.clone());
        let link = chain.link(to)?;
        if link.is_at(&pinned) || chain.is_beyond(&link, &pinned)? {
            return Ok(StepOutcome::Current);
        }
        let decision = hub.ask(from, &pinned, &GateRule::of(policy))?;
        if decision.verdict != GateVerdict::Open {
            return Ok(StepOutcome::Closed(decision.reasons));
        }
        let from = from.clone();
        let decision = Box::new(decision);
        let basis = Basis::Open { from, decision };
        Ok(StepOutcome::Moved(chain.move_to(&link, &pinned, &basis)?))
    };
    event.outcome = match decide(&mut event.commit) {
        Ok(outcome) => outcome,
        Err(error) => failed(&error),
    };
    event
}

/// What is wrong with the commit is told whole.
fn failed(error: &PromoteError) -> StepOutcome {
    StepOutcome::Failed(match error {
        PromoteError::Candidate { findings, .. } => {
            format!(
                "{}\n{}",
                error_chain(error),
                findings.render(false).trim_end()
            )
        }
        _ => error_chain(error),
    })
}

/// An error with its causes, in one line.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let text = cause.to_string();
        let line = text.lines().next().unwrap_or_default().to_owned();
        if !parts.iter().any(|said| said.contains(&line)) {
            parts.push(line);
        }
        next = cause.source();
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(outcome: StepOutcome) -> StepEvent {
        StepEvent {
            from: None,
            to: "dev".to_owned(),
            commit: None,
            outcome,
        }
    }

    #[test]
    fn a_decision_is_news_once_and_again_when_it_changed() {
        let mut announced = Announced::default();
        let mut news = |outcome| announced.news(vec![event(outcome)]).unwrap();
        assert_eq!(news(StepOutcome::Current).events.len(), 1);
        assert!(news(StepOutcome::Current).events.is_empty());
        let moved = news(StepOutcome::Moved("c".to_owned()));
        assert!(moved.moved && !moved.failed && moved.events.len() == 1);
        let failed = news(StepOutcome::Failed("p".to_owned()));
        assert!(failed.failed && !failed.moved);
        assert_eq!(news(StepOutcome::Current).events.len(), 1);
    }

    #[test]
    fn an_outage_is_news_once_until_a_pass_was_possible() {
        let mut announced = Announced::default();
        let outage = PromoteError::Circle {
            policies: "`a`".to_owned(),
        };
        assert!(announced.problem(&outage).is_some());
        assert!(announced.problem(&outage).is_none());
        assert!(announced.news(Vec::new()).is_none());
        assert!(announced.problem(&outage).is_some());
    }
}
