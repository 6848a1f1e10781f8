//! What people decide about gates, checked before it goes on record: by the command line and by the page, in one way.
//!
//! What comes in: who decides what, why, and until when. What goes out: one entry more on record, or why not. Nothing on
//! record is changed. Whether whoever decides may do so is asked before.

use outhaul_kit::suggest::nearest;
use outhaul_view::steps::not_asked_for;

use crate::error::HubError;
use crate::gate;
use crate::gate::record::known_environment;
use crate::store::{Act, ActKind, Session, StoreError};
use crate::time::{self, DAY_MS};

/// Nothing is let be for longer; whoever needs longer should revoke the site.
const LONGEST_MS: i64 = 366 * DAY_MS;

/// Puts an approval, outcome of a check, hold, waiver, deferral or withdrawal on record; returns its number, and what should be known of it.
/// An outcome of a check that is stated again within a minute has the number of the entry that is there ([`Session::add_act`]).
///
/// # Errors
/// [`HubError::Usage`] when it is about something that is not there; nothing was changed.
pub fn record(session: &Session<'_>, act: &Act) -> Result<(i64, Option<String>), HubError> {
    let note = check(session, act)?;
    Ok((session.add_act(act)?, note))
}

/// Whether what it is about is there.
///
/// # Errors
/// [`HubError::Usage`] when it is not.
pub fn check(session: &Session<'_>, act: &Act) -> Result<Option<String>, HubError> {
    match act.kind {
        ActKind::Approve | ActKind::Check | ActKind::Hold => {
            let environment = act.environment.as_deref().unwrap_or_default();
            if !session.environments()?.is_empty() {
                known_environment(session, environment)
                    .map_err(|error| usage(error.to_string(), &error.help()))?;
            }
            let Some(commit) = act.commit.as_deref() else {
                return Ok(None);
            };
            let bundles = session.bundles()?;
            let is_of = |b: &crate::store::DesiredBundle| {
                b.environment == environment && b.base_commit == commit
            };
            // Bundles come by sticks: in any order.
            let unknown = || {
                let short = gate::short(commit);
                format!("this hub has no bundle of `{environment}` from base {short} yet")
            };
            let notes = [
                (!bundles.iter().any(is_of)).then(unknown),
                not_asked_for(session, act)?,
            ];
            let notes: Vec<String> = notes.into_iter().flatten().collect();
            Ok((!notes.is_empty()).then(|| notes.join("; ")))
        }
        ActKind::Waive | ActKind::Defer => {
            let site = act.site.as_deref().unwrap_or_default();
            if session.site(site)?.is_none() {
                return Err(unknown_site(session, site)?);
            }
            Ok(None)
        }
        ActKind::Withdraw => withdrawable(session, act.withdraws.unwrap_or_default()),
        ActKind::Choose => Err(usage(
            "a choice between machines is not made here".to_owned(),
            "`outhaul-hub choose` makes one",
        )),
        ActKind::Lost => Err(usage(
            "a statement about a lost text is not recorded here".to_owned(),
            "`outhaul-hub lost` does",
        )),
        ActKind::Clock => Err(usage(
            "a statement about the clock is not recorded here".to_owned(),
            "`outhaul-hub clock` does",
        )),
    }
}

fn withdrawable(session: &Session<'_>, id: i64) -> Result<Option<String>, HubError> {
    let problem = match session.act(id)? {
        None => format!("there is no approval, hold, waiver, deferral or outcome of a check {id}"),
        Some((found, _)) if found.kind == ActKind::Withdraw => {
            format!("{id} is a withdrawal, which stays")
        }
        Some((found, _)) if found.kind == ActKind::Choose => {
            format!("{id} is a choice between machines: another choice replaces it")
        }
        Some((found, _)) if found.kind == ActKind::Clock => {
            format!("{id} states that the clock was ahead, which stays")
        }
        Some((found, _)) if found.kind == ActKind::Lost => {
            format!("{id} states that the signed text of a report is lost, which stays")
        }
        Some((_, true)) => format!("{id} was withdrawn before"),
        Some((_, false)) => return Ok(None),
    };
    Err(usage(
        problem,
        "`outhaul-hub approvals --all` lists them; nothing was changed",
    ))
}

/// The time at which `what` ends, as someone wrote it.
///
/// # Errors
/// [`HubError::Usage`] when it is not a time, past, or too far away.
pub fn until(text: &str, what: &str, now_ms: i64) -> Result<i64, HubError> {
    let until_ms = time::parse(text, now_ms)
        .map_err(|problem| usage(problem, &format!("name the time at which {what} ends")))?;
    if until_ms <= now_ms || until_ms - now_ms > LONGEST_MS {
        return Err(usage(
            format!("{what} cannot end {}", typed_end(text, until_ms)),
            "choose a date in the future, within 366 days",
        ));
    }
    Ok(until_ms)
}

/// A time as it was typed, and the instant that it is: a date lasts until its end.
pub(crate) fn typed_end(text: &str, at_ms: i64) -> String {
    let (text, at) = (text.trim(), time::rfc3339(at_ms));
    match text == at {
        true => format!("at {at}"),
        false => format!("with `{text}` ({at})"),
    }
}

/// That no site has this name, with the one that was meant most likely.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub(crate) fn unknown_site(session: &Session<'_>, site: &str) -> Result<HubError, StoreError> {
    let help = match nearest(site, &session.site_names()?) {
        Some(near) => format!("did you mean `{near}`? `outhaul-hub sites` lists all of them"),
        None => "`outhaul-hub sites` lists them".to_owned(),
    };
    let problem = format!("no site `{site}` is registered");
    Ok(usage(problem, &format!("{help}; nothing was changed")))
}

pub(crate) fn usage(problem: String, help: &str) -> HubError {
    HubError::Usage {
        problem,
        help: help.to_owned(),
    }
}
