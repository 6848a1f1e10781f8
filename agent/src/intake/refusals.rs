//! What is reported to the centre about refusals: of a stick full of forgeries no more than of one.
//!
//! What comes in: refusals of one visit. What goes out: reports in the outbox, one each of the first ones, and one
//! of all others with their number by rule; the latest are remembered for `status`. It refuses nothing itself.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use outhaul_bundle::report::ReportEvent;
use outhaul_reconcilers::shortened;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{MAX_REPORTED, parity};
use crate::agent::Agent;
use crate::error::{AgentError, FAILED_BEFORE};
use crate::incomplete::IncompleteBundle;
use crate::state::{self, StateError, key, outbox};

/// How many refusals are remembered.
const KEPT: usize = 8;

/// A bundle or slip that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRefusal {
    /// When, milliseconds since 1970 by the site's clock.
    pub at_ms: i64,
    /// The rule.
    pub rule: String,
    /// What was refused and why.
    pub text: String,
    /// The file or URL; empty in what an earlier agent remembered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The bundle that was active then, 0 for none; absent in what an earlier agent remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<u64>,
    /// The bundle that it is about, where its metadata was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
}

impl PastRefusal {
    /// What to do about a bundle of which another copy is needed, with its number. What fails here for another reason has a way
    /// out of its own.
    pub fn way_out(&self) -> Option<(u64, String)> {
        let has_own = [NO_SPACE, INCOMPLETE, FAILED_BEFORE].contains(&self.rule.as_str());
        let number = self.number.filter(|_| !has_own)?;
        let help = AgentError::refused(&self.source, &self.rule, "").help();
        Some((
            number,
            format!("bundle {number} was refused (`{}`): {help}", self.source),
        ))
    }

    /// What to do about what was refused before its number was known, such as a bundle that is cut off or of another fleet; `active` is what
    /// runs now: once it is another bundle, one was brought since.
    pub fn way_out_unnumbered(&self, active: Option<u64>) -> Option<String> {
        let has_own = [NO_SPACE, INCOMPLETE, FAILED_BEFORE, "rollback", "revoked"];
        let is_open = self.number.is_none() && !has_own.contains(&self.rule.as_str());
        (is_open && self.active == Some(active.unwrap_or(0))).then(|| {
            let help = AgentError::refused(&self.source, &self.rule, "").help();
            format!("`{}` was refused: {help}", self.source)
        })
    }

    /// Whether it is about a bundle that runs by now, or that a newer one has replaced: from another copy, or without the file.
    fn is_over(&self, now: u64) -> bool {
        let before = |number| self.active.is_some_and(|active| active < number);
        let concerns = |number| before(number) || self.rule == parity::PARITY;
        let is_past = |number| number <= now && concerns(number);
        self.rule != PUBLISHED_TWICE && self.number.is_some_and(is_past)
    }
}

/// Remembers a refusal, in the transaction of its report. The same one again only moves up.
fn remember_refusal(
    db: &Connection,
    at_ms: i64,
    error: &AgentError,
    number: Option<u64>,
) -> Result<(), StateError> {
    let AgentError::Refused {
        rule, source_name, ..
    } = error
    else {
        return Ok(());
    };
    let refused = PastRefusal {
        at_ms,
        rule: rule.clone(),
        text: shortened(&error.to_string()),
        source: source_name.clone(),
        active: Some(state::meta::<u64>(db, key::ACTIVE)?.unwrap_or(0)),
        number,
    };
    let mut all: Vec<PastRefusal> = state::meta(db, key::REFUSALS)?.unwrap_or_default();
    all.retain(|known| known.text != refused.text);
    all.push(refused);
    all.drain(..all.len().saturating_sub(KEPT));
    state::set_meta(db, key::REFUSALS, Some(&all))
}

/// Rules by which a bundle is refused that this site could take as it was then: once another one is active, they say nothing any more.
const OF_THEN: [&str; 3] = [FAILED_BEFORE, "left-out", "patch-base"];

/// The rule of another bundle under a number that this site knows: no other copy heals that.
pub(super) const PUBLISHED_TWICE: &str = "published-twice";

/// What was refused, without what was refused for how the site stood before the bundle that runs became active, or of a bundle that
/// this site has had since.
///
/// # Errors
/// [`StateError`]
pub fn since_active(db: &Connection) -> Result<Vec<PastRefusal>, StateError> {
    let mut all: Vec<PastRefusal> = state::meta(db, key::REFUSALS)?.unwrap_or_default();
    let now = state::meta::<u64>(db, key::ACTIVE)?.unwrap_or(0);
    all.retain(|refused| {
        let is_of_then = OF_THEN.contains(&refused.rule.as_str());
        let holds = !is_of_then || refused.active.is_none_or(|active| active >= now);
        holds && !refused.is_over(now)
    });
    Ok(all)
}

/// Forgets for `status` what was refused under the name of a source that was taken since.
///
/// # Errors
/// [`AgentError`] of the store.
pub(super) fn clear_refusals(agent: &mut Agent, source: &str) -> Result<(), AgentError> {
    let known: Vec<PastRefusal> =
        state::meta(agent.store.read(), key::REFUSALS)?.unwrap_or_default();
    let mut left = known.clone();
    left.retain(|refused| refused.source != source);
    if left == known {
        return Ok(());
    }
    let left = Some(left).filter(|left| !left.is_empty());
    agent
        .commit(|db, _| state::set_meta(db, key::REFUSALS, left.as_ref()))
        .map_err(|error: StateError| error.into())
}

/// What is reported to the centre about a source that was not taken: of a refusal itself, and of a lack of space, which only
/// someone on site can fix and the centre sees as a site that stays behind.
pub(super) fn to_report(error: &AgentError, source: &str) -> Option<AgentError> {
    match error {
        AgentError::Refused {
            source_name,
            rule,
            message,
            failed,
        } => Some(AgentError::Refused {
            source_name: source_name.clone(),
            rule: rule.clone(),
            message: message.clone(),
            failed: *failed,
        }),
        AgentError::Space { .. } => Some(AgentError::refused(source, NO_SPACE, error.to_string())),
        // Whoever fills the repository can fix it, and nobody on site.
        AgentError::Incomplete { missing, .. } => {
            let message = format!("`{missing}` is not there; what came of the bundle is kept");
            Some(AgentError::refused(source, INCOMPLETE, message))
        }
        _ => None,
    }
}

/// The rule of what cannot be completed by what came.
pub(super) const INCOMPLETE: &str = "incomplete";

/// Queues a report of a bundle of which parts are missing, and which: once for each set of missing parts.
///
/// # Errors
/// [`AgentError`] of the store.
pub(super) fn report_incomplete(
    agent: &mut Agent,
    source: &str,
    bundle: &IncompleteBundle,
) -> Result<(), AgentError> {
    let reported: Option<(Digest, Vec<usize>)> =
        state::meta(agent.store.read(), key::INCOMPLETE_REPORTED)?;
    let now = (bundle.index, bundle.missing.clone());
    if reported.as_ref() == Some(&now) {
        return Ok(());
    }
    let event = ReportEvent::Refusal {
        source: source.to_owned(),
        rule: INCOMPLETE.to_owned(),
        message: shortened(&bundle.sentence()),
    };
    agent
        .commit(|db, author| {
            state::set_meta(db, key::INCOMPLETE_REPORTED, Some(&now))?;
            outbox::queue(db, author, event)?;
            Ok(())
        })
        .map_err(|error: StateError| error.into())
}

/// The rule of what does not fit onto this site's disk.
pub(super) const NO_SPACE: &str = "no-space";

/// Queues a report of a refusal; of any other error, nothing.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn report_refusal(agent: &mut Agent, error: &AgentError) -> Result<(), AgentError> {
    report_refusals(agent, std::slice::from_ref(error))
}

/// The same of bundle `number`, whose metadata was verified.
///
/// # Errors
/// [`AgentError`] of the store.
pub(super) fn report_refusal_of(
    agent: &mut Agent,
    number: Option<u64>,
    error: &AgentError,
) -> Result<(), AgentError> {
    queue(agent, 0, std::slice::from_ref(error), number)
}

/// Queues the report of a source that was not taken. A disk that has no room for it either is reported by the error itself.
///
/// # Errors
/// [`AgentError`] of the store.
pub(super) fn report_source(
    agent: &mut Agent,
    number: Option<u64>,
    refused: &AgentError,
) -> Result<(), AgentError> {
    let reported = report_refusal_of(agent, number, refused);
    match (reported, refused) {
        (Err(error), AgentError::Refused { rule, .. }) if rule == NO_SPACE => {
            tracing::warn!("the lack of space cannot be reported: {error}");
            Ok(())
        }
        (done, _) => done,
    }
}

/// Queues reports of refusals in one transaction: one each of the first [`MAX_REPORTED`], one of the rest.
/// Of other errors, nothing.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn report_refusals(agent: &mut Agent, errors: &[AgentError]) -> Result<(), AgentError> {
    report_further_refusals(agent, 0, errors)
}

/// The same of a visit of which `before` refusals were reported already.
///
/// # Errors
/// [`AgentError`] of the store.
pub(super) fn report_further_refusals(
    agent: &mut Agent,
    before: usize,
    errors: &[AgentError],
) -> Result<(), AgentError> {
    queue(agent, before, errors, None)
}

fn queue(
    agent: &mut Agent,
    before: usize,
    errors: &[AgentError],
    number: Option<u64>,
) -> Result<(), AgentError> {
    let mut reported = Vec::new();
    let mut more: BTreeMap<&str, usize> = BTreeMap::new();
    for error in errors {
        let AgentError::Refused {
            source_name,
            rule,
            message,
            ..
        } = error
        else {
            continue;
        };
        if before + reported.len() >= MAX_REPORTED {
            *more.entry(rule).or_default() += 1;
            continue;
        }
        let event = ReportEvent::Refusal {
            source: source_name.clone(),
            rule: rule.clone(),
            message: shortened(message),
        };
        reported.push((error, event));
    }
    if reported.is_empty() && more.is_empty() {
        return Ok(());
    }
    agent
        .commit(|db, author| {
            for (error, event) in reported {
                remember_refusal(db, author.reading.wall_ms(), error, number)?;
                outbox::queue(db, author, event)?;
            }
            if !more.is_empty() {
                outbox::queue(db, author, rest_of_refusals(&more))?;
            }
            Ok(())
        })
        .map_err(|error: StateError| error.into())
}

/// One report of all that was refused beyond [`MAX_REPORTED`], by rule.
fn rest_of_refusals(more: &BTreeMap<&str, usize>) -> ReportEvent {
    let by_rule: Vec<_> = more
        .iter()
        .map(|(rule, count)| format!("{count} by rule `{rule}`"))
        .collect();
    let files: usize = more.values().sum();
    let message = format!(
        "{}; the site's journal and `outhaul-agent import` name them",
        by_rule.join(", ")
    );
    ReportEvent::Refusal {
        source: format!("{files} more files of the same medium"),
        rule: "more-refused".to_owned(),
        message: shortened(&message),
    }
}
