//! What people decide for one assignment: hold it, release it, put it back, let it through alone.
//!
//! What comes in: a decision, who made it and why. What goes out: the holds, the machine's step and the report, in one
//! transaction. A hold keeps the content that the assignment has; a rollback is a hold at what an earlier
//! bundle brought; a release gives the assignment to the active bundle again. While work is under way, it is not decided
//! which bundle an assignment is from: such a decision is refused then, before anything is changed.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::report::ReportEvent;
use outhaul_kit::suggest::did_you_mean;
use outhaul_reconcilers::shortened;

use super::{Decision, Transition, kept_in_words, nothing, nothing_here};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::generation;
use crate::held;
use crate::intact::{self, Look};
use crate::known_again;
use crate::machine::{Event, Site, Work};
use crate::state::holds::AssignmentHold;
use crate::state::{generations, inventory, outbox};
use outhaul_site::stored;

/// A decision of a person about one assignment.
#[derive(Debug, Clone, Copy)]
pub struct Decided<'a> {
    /// The assignment's name.
    pub name: &'a str,
    /// Who decides.
    pub who: &'a str,
    /// Why; may be empty.
    pub why: &'a str,
}

type Holds = BTreeMap<String, AssignmentHold>;

/// Holds an assignment at the content that it has. Returns the hold.
///
/// # Errors
/// [`AgentError::Nothing`] when this site knows no such assignment, or work is under way.
pub fn hold(agent: &mut Agent, decided: Decided<'_>) -> Result<AssignmentHold, AgentError> {
    let site = at_rest(agent)?;
    let mut all = held::all(agent)?;
    let generation = match all.get(decided.name) {
        Some(known) => known.generation,
        None => installed(agent, &site, decided.name)?,
    };
    let hold = AssignmentHold {
        who: decided.who.to_owned(),
        why: shortened(decided.why),
        generation,
        approves: None,
    };
    all.insert(decided.name.to_owned(), hold.clone());
    commit(agent, &site, What::Hold, decided, &all, Repair::No)?;
    Ok(hold)
}

/// What the release of an assignment comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// Nobody held it.
    NotHeld,
    /// The hold is over, and nothing has to be applied for it.
    Done,
    /// The hold is over, and the active bundle, of this number, has to be applied for it.
    Apply(u64),
}

/// Ends the hold of an assignment.
///
/// # Errors
/// [`AgentError::Nothing`] when this site has no such assignment, or work is under way.
pub fn release(agent: &mut Agent, decided: Decided<'_>) -> Result<Released, AgentError> {
    let site = at_rest(agent)?;
    let mut all = held::all(agent)?;
    let Some(hold) = all.remove(decided.name) else {
        if names(agent, &site).contains(decided.name) {
            return Ok(Released::NotHeld);
        }
        return Err(unknown(agent, &site, decided.name));
    };
    let differs = differs(agent, &site, decided.name, &hold);
    let repair = if differs { Repair::Yes } else { Repair::No };
    commit(agent, &site, What::Release, decided, &all, repair)?;
    let active = site.active.filter(|_| differs);
    Ok(active.map_or(Released::Done, |active| Released::Apply(active.number)))
}

/// Puts an assignment back to what an earlier bundle brought, and holds it there. Returns that bundle's number and the
/// active one's, which is applied for it.
///
/// # Errors
/// [`AgentError::Nothing`] when no kept bundle has it, or work is under way.
pub fn roll_back(
    agent: &mut Agent,
    decided: Decided<'_>,
    wanted: Option<u64>,
) -> Result<(u64, u64), AgentError> {
    let site = at_rest(agent)?;
    let name = decided.name;
    let Some(active) = site.active else {
        return Err(nothing("no bundle is active on this site"));
    };
    let mut all = held::all(agent)?;
    let now = all.get(name).and_then(|hold| hold.generation);
    let below = now.unwrap_or(active.number);
    let candidates = site.earlier.iter().chain(&site.pins).copied();
    let to = match wanted {
        Some(wanted) => candidates.clone().find(|number| *number == wanted),
        None => candidates.filter(|number| *number < below).max(),
    };
    let Some(to) = to else {
        let which = wanted.map_or_else(String::new, |wanted| format!(" to bundle {wanted}"));
        let held = now.map_or_else(String::new, |now| {
            format!("it is held at what bundle {now} brought, and ")
        });
        return Err(nothing(&format!(
            "`{name}` cannot go back{which}: {held}{}",
            kept_in_words(&site)
        )));
    };
    let hold = AssignmentHold {
        who: decided.who.to_owned(),
        why: match decided.why {
            "" => format!("rolled back to bundle {to}"),
            why => shortened(&format!("rolled back to bundle {to}: {why}")),
        },
        generation: Some(to),
        approves: None,
    };
    if held::kept(agent, name, &hold).is_none() {
        if !names(agent, &site).contains(name) {
            return Err(unknown(agent, &site, name));
        }
        return Err(nothing(&format!(
            "`{name}` cannot go back to bundle {to}, which does not have it or is not whole on disk any more"
        )));
    }
    check_content(agent, name, to)?;
    all.insert(name.to_owned(), hold);
    commit(agent, &site, What::Rollback, decided, &all, Repair::Yes)?;
    Ok((to, active.number))
}

/// Refuses what is not whole: before anything is switched, and while the stored blobs may still have it.
fn check_content(agent: &Agent, name: &str, number: u64) -> Result<(), AgentError> {
    let index = held::only(&crate::index_of(agent, number)?, name);
    let damages = intact::damages(&agent.state_folder, &index, Look::Every);
    if intact::can_be_put_back(&agent.state_folder, &index, &damages) {
        return Ok(());
    }
    Err(AgentError::Nothing {
        message: format!(
            "{}, in the stored copy, too: `{name}` cannot go back to it, and the running bundle is not affected",
            intact::sentence(number, &damages)
        ),
        help: "ask the centre for a newer bundle with that content; `outhaul-agent status` lists the bundles"
            .into(),
    })
}

/// Bundle `number` is approved for one assignment alone: all others are held at what they have. [`super::let_through`] is to follow.
///
/// # Errors
/// [`AgentError::Nothing`] when the bundle does not wait or does not concern it, or work is under way.
pub fn approve_alone(
    agent: &mut Agent,
    decided: Decided<'_>,
    number: u64,
) -> Result<(), AgentError> {
    let site = at_rest(agent)?;
    if site.waiting.is_none_or(|waiting| waiting.number != number) {
        return Err(nothing(&format!(
            "bundle {number} does not wait, so nothing of it can be approved alone"
        )));
    }
    let index = crate::index_of(agent, number)?;
    let db = agent.store.read();
    let applied = inventory::present(db, None)?.into_iter();
    let mut names: Vec<String> = applied.map(|item| item.assignment).collect();
    names.extend(index.assignments.iter().map(|a| a.name.to_string()));
    names.sort();
    names.dedup();
    if !names.iter().any(|name| name == decided.name) {
        return Err(nothing(&format!(
            "bundle {number} has no assignment `{}`; it has {}",
            decided.name,
            names.join(", ")
        )));
    }
    let mut all = held::all(agent)?;
    all.remove(decided.name);
    for name in names.into_iter().filter(|name| name != decided.name) {
        if all.contains_key(&name) {
            continue;
        }
        let hold = AssignmentHold {
            who: decided.who.to_owned(),
            why: format!("of bundle {number} only `{}` is approved", decided.name),
            generation: installed(agent, &site, &name).unwrap_or_default(),
            approves: Some(number),
        };
        if let Some(generation) = hold.generation
            && held::kept(agent, &name, &hold).is_none()
        {
            return Err(nothing_here(
                &format!(
                    "what `{name}` has is what bundle {generation} brought, and bundle {generation} is not here: it cannot be held at that, so that nothing \
                     of bundle {number} can be approved alone"
                ),
                &format!("`outhaul-agent approve {number}` approves all of it"),
            ));
        }
        all.insert(name, hold);
    }
    commit(
        agent,
        &site,
        What::Approve(number),
        decided,
        &all,
        Repair::No,
    )
}

/// All of bundle `number` is approved: what was held because only parts of it were is released. Returns whether
/// something has to be applied for it.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn approve_rest(agent: &mut Agent, number: u64, who: &str) -> Result<bool, AgentError> {
    let site = crate::site_now(agent.store.read())?;
    let mut all = held::all(agent)?;
    let of_it = |hold: &AssignmentHold| hold.approves == Some(number);
    let is_active = site.active.is_some_and(|active| active.number == number);
    if !all.values().any(of_it) || site.work != Work::Idle {
        return Ok(false);
    }
    all.retain(|_, hold| !of_it(hold));
    let repair = if is_active { Repair::Yes } else { Repair::No };
    let why = format!("all of bundle {number} is approved");
    let decided = Decided {
        name: "",
        who,
        why: &why,
    };
    commit(agent, &site, What::Release, decided, &all, repair)?;
    Ok(is_active)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repair {
    Yes,
    No,
}

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Hold,
    Release,
    Rollback,
    /// Of this bundle, the assignment alone.
    Approve(u64),
}

impl What {
    /// The word of the report, and what is done.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Hold => ("hold", "held"),
            Self::Release => ("release", "released"),
            Self::Rollback => ("rollback", "rolled back"),
            Self::Approve(_) => ("approve", "approved alone"),
        }
    }
}

/// Writes the holds with the decision's report and the machine's steps. What is kept on disk is kept before it is needed,
/// and given up after.
fn commit(
    agent: &mut Agent,
    site: &Site,
    what: What,
    decided: Decided<'_>,
    all: &Holds,
    repair: Repair,
) -> Result<(), AgentError> {
    let pins: Vec<u64> = all.values().filter_map(|hold| hold.generation).collect();
    let added = pins.iter().copied().find(|pin| !site.pins.contains(pin));
    let gone: Vec<u64> = site
        .pins
        .iter()
        .copied()
        .filter(|pin| !pins.contains(pin))
        .collect();
    let mut released = held::all(agent)?;
    released.retain(|name, _| !all.contains_key(name));
    let (word, done) = what.words();
    let event = |name: &str| ReportEvent::Decision {
        what: word.to_owned(),
        who: decided.who.to_owned(),
        number: match what {
            What::Approve(number) => Some(number),
            _ => all.get(name).and_then(|hold| hold.generation),
        },
        assignment: name.parse().ok(),
        reason: Some(shortened(decided.why)).filter(|why| !why.is_empty()),
    };
    // Without a name it is about each that is released: a release without an assignment would end a hold of the whole site.
    let events: Vec<ReportEvent> = match decided.name {
        "" => released.keys().map(|name| event(name)).collect(),
        name => vec![event(name)],
    };
    let content = match what {
        What::Approve(number) => Some(crate::content_of(&crate::index_of(agent, number)?)),
        _ => None,
    };
    let repair = repair == Repair::Yes;
    let step = match added {
        Some(number) => Event::Pinned { number, repair },
        None => Event::Unpinned {
            number: gone.first().copied(),
            repair,
        },
    };
    let note = match decided.name {
        "" => format!("released by {}: {}", decided.who, decided.why),
        name => format!("`{name}` {done} by {}", decided.who),
    };
    let kept = Decision::Assignments(all.clone());
    // A bundle that is known again by its own metadata gets its row with the hold that keeps it.
    let mut rows = Vec::new();
    for number in pins {
        if generations::one(agent.store.read(), number)?.is_none() {
            rows.extend(known_again::row_of(agent, number));
        }
    }
    crate::transition_on(
        agent,
        &Transition::decided(step, note, kept),
        |db| {
            if rows.is_empty() {
                return Ok(());
            }
            for row in &rows {
                // The service may have begun with that bundle since: its row stays then.
                stored::add_known(db, row)?;
            }
            stored::put_holds(db, None, all)
        },
        |db, author| {
            held::forget(db, &released)?;
            if let What::Approve(number) = what {
                super::store_approval(db, number, content.as_ref(), decided.who)?;
            }
            for event in events {
                outbox::queue(db, author, event)?;
            }
            Ok(())
        },
    )?;
    for pin in gone {
        let step = Event::Unpinned {
            number: Some(pin),
            repair: false,
        };
        crate::transition(agent, &step.into())?;
    }
    Ok(())
}

/// The bundle that brought the content that an assignment has now, also where only the inventory knows it after a lost database; `None` for one that
/// only a bundle that waits has.
fn installed(agent: &Agent, site: &Site, name: &str) -> Result<Option<u64>, AgentError> {
    let has = |number: u64| {
        let index = crate::index_of(agent, number);
        index.is_ok_and(|index| {
            generation::desired(&agent.state_folder, &index, &agent.site.name)
                .iter()
                .any(|desired| desired.assignment.name.as_str() == name)
        })
    };
    let active = site.active.map(|active| active.number);
    if active.is_some_and(has) {
        return Ok(active);
    }
    let before = known_again::applied_before(agent.store.read(), name)?;
    if before.is_some() {
        return Ok(before);
    }
    // Such as after a restore without content: the inventory knows what the active bundle has put on this host.
    if active.is_some_and(|active| crate::index_of(agent, active).is_err()) {
        let items = inventory::present(agent.store.read(), Some(name))?;
        if let Some(oldest) = items.iter().map(|item| item.generation).min() {
            return Ok(Some(oldest));
        }
    }
    if site.waiting.is_some_and(|waiting| has(waiting.number)) {
        return Ok(None);
    }
    Err(unknown(agent, site, name))
}

/// The assignments that bundles on disk have for this site.
fn names(agent: &Agent, site: &Site) -> BTreeSet<String> {
    let active = site.active.map(|active| active.number);
    let waiting = site.waiting.map(|waiting| waiting.number);
    let all = active.into_iter().chain(waiting);
    let all = all.chain(site.earlier.iter().chain(&site.pins).copied());
    let indexes = all.filter_map(|number| crate::index_of(agent, number).ok());
    let here =
        |index| generation::desired(&agent.state_folder, &index, &agent.site.name).into_iter();
    let named = indexes.flat_map(here);
    let mut names: BTreeSet<String> = named.map(|one| one.assignment.name.to_string()).collect();
    let db = agent.store.read();
    let is_gone = active.is_some_and(|active| crate::index_of(agent, active).is_err());
    if is_gone || known_again::is_lost(db).unwrap_or_default() {
        let applied = inventory::present(db, None).unwrap_or_default();
        names.extend(applied.into_iter().map(|item| item.assignment));
    }
    names
}

fn unknown(agent: &Agent, site: &Site, name: &str) -> AgentError {
    let known = Vec::from_iter(names(agent, site));
    let message = format!("this site has no assignment `{name}`");
    nothing_here(&message, &did_you_mean(name, &known))
}

/// Whether the active bundle has something else for the assignment than what is kept.
fn differs(agent: &Agent, site: &Site, name: &str, hold: &AssignmentHold) -> bool {
    let Some(active) = site.active else {
        return false;
    };
    let Ok(index) = crate::index_of(agent, active.number) else {
        return false;
    };
    match held::kept(agent, name, hold) {
        Some(kept) => !held::is_same(&index, &kept),
        // What it keeps runs, and is not here to be compared.
        None => {
            hold.generation.is_some() || index.assignments.iter().any(|a| a.name.as_str() == name)
        }
    }
}

/// The site, when nothing is being done to the host.
pub(super) fn at_rest(agent: &Agent) -> Result<Site, AgentError> {
    let site = crate::site_now(agent.store.read())?;
    match site.worked_on() {
        None => Ok(site),
        Some(number) => Err(AgentError::Nothing {
            message: format!(
                "the work on bundle {number} is unfinished, so no single assignment can be decided about now"
            ),
            help: "`outhaul-agent status` shows what keeps it; `outhaul-agent hold` holds everything that is new"
                .into(),
        }),
    }
}
