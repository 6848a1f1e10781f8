//! What runs on a site, and what a person is to do, in words.
//!
//! What comes in: the machine's site. What goes out: sentences for `status`, `rollback`, `apply` and
//! errors, so that all of them say the same. It reads nothing else and decides nothing.

use crate::machine::{Site, Work};
use crate::state::Note;
use crate::state_folder::{AtWork, Holder};

/// Why nothing continues automatically.
pub const NO_SERVICE: &str =
    "no service runs on this site (`systemctl start outhaul-agent` starts it)";

/// What runs, as the second half of a sentence. `begun`: whether the work under way may have changed something.
pub fn what_runs(site: &Site, begun: bool) -> String {
    match (site.active, site.work) {
        (None, Work::Applying(number)) if !begun => {
            format!("no bundle is active, and nothing of bundle {number} was applied yet")
        }
        (Some(active), Work::Applying(number)) if !begun && !active.broken => format!(
            "bundle {} is active, and nothing of bundle {number} was applied yet",
            active.number
        ),
        (Some(active), Work::Reverting { from, to, .. }) if !begun && !active.broken => {
            match active.number == from {
                true => {
                    format!("bundle {from} is active, and nothing of bundle {to} was put back yet")
                }
                false => {
                    format!("bundle {to} is active, and nothing of bundle {from} was applied yet")
                }
            }
        }
        (Some(active), Work::Soaking(number)) if site.watched => format!(
            "bundle {number} is applied and looked at; bundle {} is the one to go back to",
            active.number
        ),
        (Some(active), Work::Soaking(number)) => format!(
            "bundle {number} is applied, and whether it is healthy is not known yet; bundle {} is the one to go back to",
            active.number
        ),
        (None, _) => "no bundle is active".to_owned(),
        (Some(active), Work::Idle | Work::Correcting) if active.broken => {
            format!("bundle {} is only partly applied", active.number)
        }
        (Some(active), Work::Idle | Work::Correcting) => {
            format!("bundle {} is active", active.number)
        }
        (Some(active), Work::Repairing) if !begun && !active.broken => format!(
            "bundle {} is active as it was, and was not applied again yet",
            active.number
        ),
        (Some(active), _) => format!(
            "bundle {} is the last one that ran, and may be partly overwritten",
            active.number
        ),
    }
}

/// What becomes of work that was unfinished when a rollback from bundle `from` to bundle `to` was ordered.
pub fn taken_back(before: &Site, from: u64, to: u64) -> Option<String> {
    let is_active = |number: u64| before.active.is_some_and(|active| active.number == number);
    match before.work {
        Work::Repairing => Some(format!(
            "bundle {from} is active and was being applied again: it is left with that unfinished, for bundle {to}"
        )),
        Work::Applying(_) | Work::Soaking(_) if is_active(to) => Some(format!(
            "the work on bundle {from} was unfinished: it is taken back, and bundle {to} stays the active one"
        )),
        _ => None,
    }
}

/// How a site whose active bundle is broken is put right.
pub fn repair(site: &Site) -> Option<String> {
    let active = site.active.filter(|active| active.broken)?;
    Some(format!(
        "fix what is named there, then run `outhaul-agent apply` to apply bundle {} again; a newer \
         bundle can be imported at any time",
        active.number
    ))
}

/// That a command is at work, and its end is to be waited for.
fn wait_for(holder: &Holder) -> String {
    let who = match holder {
        Holder::Process(id) => format!("a command is at work on this site (process {id})"),
        Holder::Unknown(lock) => format!(
            "a command is at work on this site (`fuser -v {}` names its process)",
            outhaul_kit::text::quoted(lock)
        ),
        Holder::Folder(folder) => format!(
            "a process whose file `lock` was removed is at work on this site (`fuser -v {}` names it)",
            outhaul_kit::text::quoted(folder)
        ),
    };
    format!("{who}: wait until it has ended; `outhaul-agent status` shows then what came of it")
}

/// What a person is to do, if anything; `note` shows why the work under way, or the active bundle, stands
/// as it does; `at_work`: the service continues automatically, and a command is waited for.
pub fn to_do(site: &Site, note: &Note, at_work: &AtWork) -> Option<String> {
    if let AtWork::Command(holder) = at_work {
        return Some(wait_for(holder));
    }
    let service = *at_work == AtWork::Service;
    let why = match note.to_string().as_str() {
        "" => String::new(),
        note => format!(" ({note})"),
    };
    if let Work::Reverting {
        from,
        to,
        decided: true,
    } = site.work
    {
        return Some(match (note.is_blocked(), service) {
            (true, service) => format!(
                "the rollback from bundle {from} to bundle {to} is unfinished{why}: fix what blocks it, then run \
                 `outhaul-agent apply`, which ends it{}",
                if service {
                    "; the service tries, too"
                } else {
                    ""
                }
            ),
            (false, true) => format!(
                "the rollback from bundle {from} to bundle {to} is unfinished{why}: the service goes on with it, or run \
                 `outhaul-agent apply`"
            ),
            (false, false) => format!(
                "the rollback from bundle {from} to bundle {to} is unfinished{why}: run `outhaul-agent apply`, which ends \
                 it; {NO_SERVICE}"
            ),
        });
    }
    // Nothing is to be done while health is looked at.
    if site.watched && !note.is_blocked() {
        return None;
    }
    match site.worked_on() {
        Some(number) if note.is_blocked() => Some(format!(
            "the work on bundle {number} is unfinished{why}: fix that, then run \
             `outhaul-agent apply`; a newer bundle can be imported at any time"
        )),
        Some(number) if site.work == Work::Correcting => Some(match service {
            true => format!(
                "what differs from bundle {number} on this host is being put back: the service goes on with it, or \
                 run `outhaul-agent apply`"
            ),
            false => format!(
                "what differs from bundle {number} on this host is not put back yet: run `outhaul-agent apply`, which \
                 goes on with it; {NO_SERVICE}"
            ),
        }),
        Some(number) if service => Some(format!(
            "the work on bundle {number} is unfinished{why}: the service goes on with it, or run \
             `outhaul-agent apply`"
        )),
        Some(number) => Some(format!(
            "the work on bundle {number} is unfinished{why}: run `outhaul-agent apply`, which goes on with it; {NO_SERVICE}"
        )),
        // What keeps it from being whole is named with it.
        None => repair(site).map(|help| match (site.active, why.as_str()) {
            (Some(active), why) if !why.is_empty() => {
                format!(
                    "bundle {} is only partly applied{why}: {help}",
                    active.number
                )
            }
            _ => help,
        }),
    }
}
