//! Hooks of a step: programs that must succeed before an environment is moved, and programs that are run after it was.
//!
//! What comes in: a promotion policy, the programs that whoever runs outhaul named, and the hub's decision. What goes out: one
//! [`HookRun`] per hook, which the commit that moves the environment records. A control plane names a hook and never a program. A
//! hook without a program, one that fails and one that takes too long keep the environment where it is; one that failed for a commit is run for
//! it again after an hour at the earliest.
//! Of a hook before the move that has the name of a check of the policy, the outcome is put on record at the hub.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::error_text::error_chain;
use super::{Decision, GateError, GateVerdict, HubConnection, PromoteError};
use outhaul_bundle::hub_api::{
    CheckOutcome, CheckRequest, CheckRule, MAX_CHECK_DETAIL_BYTES, path,
};
use outhaul_control::model::{PromotionHook, PromotionPolicy};
use outhaul_kit::failure::Classified as _;
use outhaul_kit::suggest::nearest;
use outhaul_kit::text::printable;
use outhaul_load::program::{NotPrograms, ProgramFault, Programs, last_line, run};

/// What the question says it is.
pub const FORMAT: &str = "outhaul.dev/promotion-hook/v1";

/// How long a hook that failed for a commit is not asked about it again by who follows the chain.
const AGAIN: Duration = Duration::from_secs(3600);
const HOUR: Duration = Duration::from_secs(3600);

/// Programs by the name of their hook, and what came of them for which step: who looks at the chain again and again runs a hook once
/// for each commit, and once more after a while.
#[derive(Debug, Clone, Default)]
pub struct HookPrograms {
    programs: Programs,
    done: Arc<Mutex<BTreeMap<HookOfStep, LastRun>>>,
}

/// A hook and the step that it was run for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct HookOfStep {
    hook: String,
    to: String,
    commit: String,
}

/// What came of a hook when it was run last.
#[derive(Debug, Clone)]
struct LastRun {
    at: Instant,
    done: HookRun,
    /// Whether all that is to be put on record of it is.
    is_stated: bool,
}

impl HookPrograms {
    /// From texts of the form `NAME=PROGRAM`.
    ///
    /// # Errors
    /// [`NotPrograms`] for the first that is not of this form, or has the name of an earlier one.
    pub fn parse(given: &[String]) -> Result<Self, NotPrograms> {
        let programs = Programs::parse(given)?;
        Ok(Self {
            programs,
            ..Self::default()
        })
    }

    /// The names of the hooks that programs were given for.
    pub(super) fn names(&self) -> Vec<&str> {
        self.programs.names()
    }

    /// Those of them that are none of `known`.
    pub(super) fn unused(&self, known: &[&str]) -> Vec<&str> {
        self.programs.unused(known)
    }
}

/// When a hook is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPhase {
    /// The environment has not been moved.
    Before,
    /// It was moved.
    After,
}

/// What came of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HookResult {
    /// It ended with 0, in time.
    Passed,
    /// It did not.
    Failed,
    /// The gate was overridden, or nobody named its program then.
    NotRun,
}

/// One hook, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookRun {
    /// Its name.
    pub hook: String,
    /// When it was run.
    pub moment: HookPhase,
    /// What came of it.
    pub result: HookResult,
    /// The last line that it wrote, or why it failed or was not run.
    pub message: String,
}

impl HookRun {
    /// For people, in one line.
    pub fn sentence(&self) -> String {
        let moment = match self.moment {
            HookPhase::Before => "before",
            HookPhase::After => "after",
        };
        let result = match self.result {
            HookResult::Passed => "passed",
            HookResult::Failed => "FAILED",
            HookResult::NotRun => "not run",
        };
        let mut text = format!("hook `{}` ({moment}): {result}", self.hook);
        if !self.message.is_empty() {
            text.push_str(": ");
            text.push_str(&self.message);
        }
        text
    }
}

/// The step that hooks are asked about.
#[derive(Debug, Clone, Copy)]
pub(super) struct HookStep<'a> {
    pub policy: &'a PromotionPolicy,
    pub programs: &'a HookPrograms,
    pub commit: &'a str,
    /// Where the outcomes of checks are put on record.
    pub hub: Option<HubConnection<'a>>,
}

impl HookStep<'_> {
    /// Whether all that closes the gate are outcomes of checks that hooks of the step state.
    pub fn would_open(&self, decision: &Decision) -> bool {
        let unmet = || decision.rules.iter().filter(|rule| !rule.met);
        let hooks = &self.policy.hooks.before;
        let by_hook = |rule: &str| {
            let mut checks = self.policy.rules.checks.iter();
            checks.any(|check| check.rule() == rule && hooks.iter().any(|hook| is_of(check, hook)))
        };
        decision.verdict == GateVerdict::Closed
            && unmet().next().is_some()
            && unmet().all(|rule| by_hook(&rule.rule))
            && decision.reasons.len() == unmet().count()
    }

    /// What to say where a hook passed for this commit, its outcome is on record, and the gate stays closed for want of it: running the
    /// hook again would add an outcome, and change nothing. `None` where a hook that would open the gate is still to be run.
    pub fn not_counted(&self, decision: &Decision) -> Option<String> {
        let checks = self.policy.rules.checks.iter().filter(|check| {
            let mut rules = decision.rules.iter();
            rules.any(|rule| !rule.met && rule.rule == check.rule())
        });
        let hooks: Vec<&PromotionHook> = checks
            .flat_map(|check| {
                self.policy
                    .hooks
                    .before
                    .iter()
                    .filter(|hook| is_of(check, hook))
            })
            .collect();
        if hooks.is_empty() || !hooks.iter().all(|hook| self.has_passed(hook)) {
            return None;
        }
        let named: Vec<String> = hooks
            .iter()
            .map(|hook| format!("`{}`", hook.name.value))
            .collect();
        let named = named.join(", ");
        Some(format!(
            "of hook {named} it is on record that it passed for this commit, and the gate does not count it: see `by` of the check in the \
             promotion policy, and by whom the outcome is (`outhaul-hub approvals --all`); it is not run again for this commit before `outhaul \
             promote` is started again"
        ))
    }

    /// Whether a hook passed, its outcome is on record, and is not older than the check allows.
    fn has_passed(&self, hook: &PromotionHook) -> bool {
        let Some(last) = self.last(hook) else {
            return false;
        };
        let mut checks = self.policy.rules.checks.iter();
        let hours = checks
            .find(|check| is_of(check, hook))
            .and_then(|check| check.max_age_hours);
        let is_old = hours.is_some_and(|hours| last.at.elapsed() >= HOUR.saturating_mul(hours));
        last.is_stated && last.done.result == HookResult::Passed && !is_old
    }

    /// The hub at which the outcome of a hook is put on record: the policy asks for a check of its name.
    fn states_at(&self, hook: &PromotionHook) -> Option<HubConnection<'_>> {
        let mut checks = self.policy.rules.checks.iter();
        self.hub.filter(|_| checks.any(|check| is_of(check, hook)))
    }

    /// Puts the outcome of a hook on record where the policy asks for a check of its name.
    fn state(&self, hook: &PromotionHook, done: &HookRun) -> Result<(), PromoteError> {
        let Some(hub) = self.states_at(hook) else {
            return Ok(());
        };
        let outcome = match done.result {
            HookResult::Passed => CheckOutcome::Passed,
            HookResult::Failed => CheckOutcome::Failed,
            HookResult::NotRun => return Ok(()),
        };
        let mut detail = printable(&done.message).to_string();
        let ends = (0..=MAX_CHECK_DETAIL_BYTES).rev();
        let end = ends.into_iter().find(|end| detail.is_char_boundary(*end));
        detail.truncate(end.unwrap_or(0));
        let sent = CheckRequest {
            environment: self.policy.from.value.clone(),
            commit: self.commit.to_owned(),
            name: hook.name.value.clone(),
            outcome,
            detail,
            digest: None,
        };
        let body = json!(sent).to_string().into_bytes();
        let sent = hub.send(path::CHECKS, body);
        sent.map(drop)
            .map_err(|error| self.not_stated(done, &error))
    }

    /// That the outcome of a hook is not on record, and why.
    fn not_stated(&self, done: &HookRun, error: &GateError) -> PromoteError {
        let help = match error {
            GateError::NoToken | GateError::Token(_) => {
                "name a file with a token of scopes `record` and `check` in `$OUTHAUL_HUB_TOKEN_FILE` (`outhaul-hub token create NAME \
                 --scope record --scope check` on the hub's machine makes one), and promote again"
            }
            GateError::Refused { .. } => {
                "do what the hub says, and promote again; the token in `$OUTHAUL_HUB_TOKEN_FILE` needs the scopes `record` and `check`"
            }
            _ => {
                "see that the hub runs and can be reached, and promote again: what is on record already is kept"
            }
        };
        PromoteError::HookNotStated {
            environment: self.policy.to.value.clone(),
            hook: done.hook.clone(),
            result: match (done.result, done.message.as_str()) {
                (HookResult::Passed, "") => "passed".to_owned(),
                (HookResult::Passed, text) => format!("passed ({text})"),
                (_, text) => format!("failed ({text})"),
            }
            .into(),
            why: error_chain(error).into(),
            help,
            class: error.class(),
        }
    }

    /// Refuses a step with hooks for which no program was named: all of them at once, before anything is run.
    pub fn check(&self) -> Result<(), PromoteError> {
        let hooks = &self.policy.hooks;
        let all = || hooks.before.iter().chain(&hooks.after);
        let missing: Vec<&PromotionHook> = all()
            .filter(|hook| self.programs.programs.get(&hook.name.value).is_none())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let known = self.programs.programs.names();
        let named: Vec<String> = missing
            .iter()
            .map(|hook| {
                let name = &hook.name.value;
                let meant =
                    nearest(name, &known).filter(|near| !all().any(|h| h.name.value == *near));
                let meant = meant.map(|near| format!(", where `{near}` was given"));
                format!(
                    "`{name}` ({}){}",
                    hook.name.location,
                    meant.unwrap_or_default()
                )
            })
            .collect();
        Err(PromoteError::HookUnknown {
            environment: self.policy.to.value.clone(),
            hooks: named.join(", "),
        })
    }

    /// Runs the hooks that must succeed before the environment is moved, in order, up to the first that fails.
    /// Without a decision the gate was overridden, and they are not run.
    pub fn before(&self, decision: Option<&Decision>) -> Result<Vec<HookRun>, PromoteError> {
        let mut runs = Vec::new();
        for hook in &self.policy.hooks.before {
            let done = match decision {
                Some(_) => self.run_once(hook, decision)?,
                None => not_run(hook, HookPhase::Before, "the gate was overridden"),
            };
            if done.result == HookResult::Failed {
                return Err(PromoteError::HookFailed {
                    environment: self.policy.to.value.clone(),
                    hook: hook.name.value.clone(),
                    problem: done.message,
                    recorded: match self.states_at(hook) {
                        Some(_) => "; that outcome is on record at the hub",
                        None => "",
                    },
                });
            }
            runs.push(done);
        }
        Ok(runs)
    }

    /// Runs a hook before the move, unless it failed for this commit a short time ago, its outcome is still to be put on record, or it
    /// passed and the gate is closed for want of others.
    fn run_once(
        &self,
        hook: &PromotionHook,
        decision: Option<&Decision>,
    ) -> Result<HookRun, PromoteError> {
        let is_closed = decision.is_some_and(|one| one.verdict == GateVerdict::Closed);
        let counts = |last: &LastRun| match last.done.result {
            HookResult::Passed if last.is_stated => is_closed && self.has_passed(hook),
            _ => last.at.elapsed() < AGAIN,
        };
        let last = match self.last(hook).filter(counts) {
            Some(last) => last,
            None => LastRun {
                done: self
                    .run(hook, (HookPhase::Before, None), decision)
                    .map_err(|problem| self.not_started(hook, problem))?,
                at: Instant::now(),
                is_stated: false,
            },
        };
        // What came of it is known from here on, also where the hub cannot be told.
        self.remember(hook, last.clone());
        if !last.is_stated {
            self.state(hook, &last.done)?;
            self.remember(
                hook,
                LastRun {
                    is_stated: true,
                    ..last.clone()
                },
            );
        }
        Ok(last.done)
    }

    fn key(&self, hook: &PromotionHook) -> HookOfStep {
        HookOfStep {
            hook: hook.name.value.clone(),
            to: self.policy.to.value.clone(),
            commit: self.commit.to_owned(),
        }
    }

    /// What came of a hook when it was run last for this commit.
    fn last(&self, hook: &PromotionHook) -> Option<LastRun> {
        let known = self.programs.done.lock();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        known.get(&self.key(hook)).cloned()
    }

    /// Remembers it, and forgets what was of other commits.
    fn remember(&self, hook: &PromotionHook, last: LastRun) {
        let key = self.key(hook);
        let known = self.programs.done.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        known.retain(|other, _| other.to != key.to || other.commit == key.commit);
        known.insert(key, last);
    }

    /// Runs the hooks for an environment that was moved by the commit `made` on its branch: all of them.
    pub fn after(&self, made: &str, decision: Option<&Decision>) -> Vec<HookRun> {
        let hooks = self.policy.hooks.after.iter();
        hooks
            .map(|hook| {
                let moment = HookPhase::After;
                let ran = self.run(hook, (moment, Some(made)), decision);
                ran.unwrap_or_else(|message| HookRun {
                    hook: hook.name.value.clone(),
                    moment,
                    result: HookResult::Failed,
                    message,
                })
            })
            .collect()
    }

    /// That the program of a hook says nothing about the commit, since it was not run: nothing is put on record.
    fn not_started(&self, hook: &PromotionHook, problem: String) -> PromoteError {
        let name = &hook.name.value;
        let program = self.programs.programs.get(name);
        PromoteError::HookNotStarted {
            environment: self.policy.to.value.clone(),
            hook: name.clone(),
            program: program.map_or_else(String::new, |path| path.display().to_string()),
            problem,
        }
    }

    /// What came of a hook's program; an error is that it could not be started.
    fn run(
        &self,
        hook: &PromotionHook,
        (moment, made): (HookPhase, Option<&str>),
        decision: Option<&Decision>,
    ) -> Result<HookRun, String> {
        let Some(program) = self.programs.programs.get(&hook.name.value) else {
            return Ok(not_run(hook, moment, "no program was named for it"));
        };
        let question = json!({
            "format": FORMAT,
            "hook": hook.name.value,
            "moment": moment,
            "from": self.policy.from.value,
            "to": self.policy.to.value,
            "commit": self.commit,
            "environmentCommit": made,
            "decision": decision,
        });
        let limit = Duration::from_secs(u64::from(hook.minutes) * 60);
        let (result, message) = match run(program, question.to_string().as_bytes(), limit) {
            Ok(text) => {
                let last = last_line(&String::from_utf8_lossy(&text));
                (HookResult::Passed, last.unwrap_or_default())
            }
            Err(fault @ ProgramFault::Start(_)) => return Err(fault.sentence()),
            Err(fault) => (HookResult::Failed, fault.sentence()),
        };
        Ok(HookRun {
            hook: hook.name.value.clone(),
            moment,
            result,
            message,
        })
    }
}

/// Whether a hook states the outcome of a check: they have one name.
fn is_of(check: &CheckRule, hook: &PromotionHook) -> bool {
    check.name == hook.name.value
}

fn not_run(hook: &PromotionHook, moment: HookPhase, why: &str) -> HookRun {
    HookRun {
        hook: hook.name.value.clone(),
        moment,
        result: HookResult::NotRun,
        message: why.to_owned(),
    }
}

#[cfg(test)]
mod tests;
