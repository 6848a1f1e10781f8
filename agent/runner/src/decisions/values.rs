//! What people decide about values that belong to this site: set one, or leave it to the centre again.
//!
//! What comes in: a key, a value, who decides and why. What goes out: the value in the memory, the report of it, and the machine's
//! step by which the active bundle is applied again with it, in one transaction: after a power cut it is set, reported and
//! applied, or none of it. A value is taken when the active bundle or one that waits allows it.

use std::collections::BTreeSet;

use outhaul_bundle::Index;
use outhaul_bundle::report::ReportEvent;
use outhaul_reconcilers::shortened;
use outhaul_values::given::{GivenValue, MAX_VALUES};
use outhaul_values::{GivenValues, check_values, checked};

use super::assignments;
use super::{Transition, nothing_here};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::machine::Event;
use crate::state::{self, StateError, key, outbox};
use crate::{held, own_values};

/// A decision of a person about one value.
#[derive(Debug, Clone, Copy)]
pub struct Decided<'a> {
    /// The key.
    pub key: &'a str,
    /// The value; `None` leaves it to the centre.
    pub value: Option<&'a str>,
    /// The assignment or workload, where several have the key.
    pub workload: Option<&'a str>,
    /// Who decides.
    pub who: &'a str,
    /// Why; may be empty.
    pub why: &'a str,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueDecided {
    /// The assignment.
    pub assignment: String,
    /// What was set before.
    pub before: Option<String>,
    /// Why what runs does not use it, if so.
    pub unused: Option<String>,
    /// The active bundle, when it has to be applied again for it.
    pub apply: Option<u64>,
}

/// Sets a value, or leaves it to the centre again.
///
/// # Errors
/// [`AgentError::Nothing`] when the key is not open here, the value is not allowed, the assignment is held, or work is under way.
pub fn decide(agent: &mut Agent, decided: Decided<'_>) -> Result<ValueDecided, AgentError> {
    let site = assignments::at_rest(agent)?;
    let active = own_values::active_index(agent)?;
    let waiting = site
        .waiting
        .and_then(|waiting| crate::index_of(agent, waiting.number).ok());
    // A value that waits may be set; what is taken back stays in a file that nobody here knows.
    if let Some((message, help)) = own_values::unknown(agent)?
        && (waiting.is_none() || decided.value.is_none())
    {
        let message = format!("{message}; values stay as they are");
        return Err(AgentError::Nothing { message, help });
    }
    let mut given = agent.site_values()?;
    let bundles: Vec<&Index> = active.iter().chain(&waiting).collect();
    let assignment = assignment(&bundles, &given, decided)?;
    not_held(agent, &assignment)?;
    let before = given.of(&assignment).find(|(key, _)| *key == decided.key);
    let before = before.map(|(_, given)| given.value.clone());
    let used_before = used(active.as_ref(), &given, &assignment);
    match decided.value {
        Some(value) => {
            check(&bundles, &assignment, decided.key, value)?;
            let at_ms = agent.clock_reading()?.wall_ms();
            let one = GivenValue {
                value: value.to_owned(),
                who: shortened(decided.who),
                why: shortened(decided.why),
                at_ms,
            };
            given.set(&assignment, decided.key, one);
        }
        None if before.is_none() => {
            let message = format!(
                "`{}` of `{assignment}` is not set on this site; the centre's value is used",
                decided.key
            );
            let look = "`outhaul-agent values` lists what is set here";
            return Err(nothing_here(&message, look));
        }
        None => drop(given.unset(&assignment, decided.key)),
    }
    if given.count() > MAX_VALUES {
        let message = format!("this site keeps {MAX_VALUES} values, and no more are kept");
        let look = "`outhaul-agent unset KEY` leaves one to the centre again";
        return Err(nothing_here(&message, look));
    }
    let differs = used(active.as_ref(), &given, &assignment) != used_before;
    let statement = checked::statement(active.as_ref(), &given);
    let of_it = statement
        .iter()
        .find(|one| one.assignment.as_str() == assignment && one.key == decided.key);
    let unused = of_it.and_then(|one| one.unused.clone());
    let what = match decided.value {
        Some(value) => format!("`{}` of `{assignment}` is `{value}`", decided.key),
        None => format!("`{}` of `{assignment}` is the centre's again", decided.key),
    };
    let mut message = format!("{what}, set by {}", decided.who);
    if !decided.why.is_empty() {
        message = format!("{message}: {}", decided.why);
    }
    let message = shortened(&message);
    let who = Some(shortened(decided.who));
    let event = ReportEvent::SiteValues {
        message: message.clone(),
        who,
        values: statement.clone(),
    };
    let store = |db: &rusqlite::Transaction<'_>, author: &outbox::Author<'_>| {
        state::set_meta(
            db,
            key::SITE_VALUES,
            Some(&given).filter(|given| !given.is_empty()),
        )?;
        let reported = Some(&statement).filter(|reported| !reported.is_empty());
        state::set_meta(db, key::SITE_VALUES_REPORTED, reported)?;
        outbox::queue(db, author, event).map(|_| ())
    };
    let apply = site.active.map(|active| active.number).filter(|_| differs);
    match apply {
        Some(_) => {
            crate::transition_with(agent, &Transition::new(Event::RepairDue, message), store)?;
        }
        None => agent
            .commit(store)
            .map_err(|error: StateError| AgentError::from(error))?,
    }
    Ok(ValueDecided {
        assignment,
        before,
        unused,
        apply,
    })
}

/// What a person holds stays as it is, its values as well.
fn not_held(agent: &Agent, assignment: &str) -> Result<(), AgentError> {
    let Some(hold) = held::all(agent)?.remove(assignment) else {
        return Ok(());
    };
    Err(AgentError::Nothing {
        message: format!(
            "`{assignment}` is {}; its values stay as they are while it is held",
            held::sentence(&hold, hold.generation)
        ),
        help: format!(
            "`outhaul-agent hold --release --assignment {assignment}` ends the hold, then set the value; nothing was changed"
        ),
    })
}

/// The values of an assignment that what runs uses.
fn used(
    active: Option<&Index>,
    given: &GivenValues,
    assignment: &str,
) -> std::collections::BTreeMap<String, String> {
    let found = active.and_then(|index| {
        let mut all = index.assignments.iter();
        all.find(|one| one.name.as_str() == assignment)
    });
    let declared = found.and_then(|found| found.site_values.as_ref());
    check_values(declared, given.of(assignment)).used
}

/// Which assignment is meant.
fn assignment(
    bundles: &[&Index],
    given: &GivenValues,
    decided: Decided<'_>,
) -> Result<String, AgentError> {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for one in bundles.iter().flat_map(|index| &index.assignments) {
        let name = one.name.as_str();
        let is_meant = |workload: &str| workload == name || workload == one.workload;
        let Some(declared) = &one.site_values else {
            continue;
        };
        open.extend(
            declared
                .keys
                .keys()
                .map(|key| format!("`{key}` of `{name}`")),
        );
        if decided.workload.is_none_or(is_meant) && declared.keys.contains_key(decided.key) {
            names.insert(name);
        }
    }
    // What no bundle opens any more may still be unset.
    let kept = given.iter().filter(|(name, key, _)| {
        decided.value.is_none()
            && *key == decided.key
            && decided.workload.is_none_or(|workload| workload == *name)
    });
    names.extend(kept.map(|(name, _, _)| name));
    let mut all = names.iter();
    match (all.next(), all.next()) {
        (Some(one), None) => Ok((*one).to_owned()),
        (Some(_), Some(_)) => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            Err(AgentError::Usage {
                message: format!("`{}` is open in {}", decided.key, names.join(", ")),
                help: "name the one that is meant with `--workload NAME`; nothing was changed"
                    .into(),
            })
        }
        (None, _) if open.is_empty() => Err(nothing_here(
            "no bundle of this site opens a value to it: the centre sets all of them",
            "whoever made the bundle opens a value with a `SiteValues` object",
        )),
        (None, _) => {
            let of = decided
                .workload
                .map_or_else(String::new, |name| format!(" of `{name}`"));
            let open: Vec<String> = open.into_iter().collect();
            Err(AgentError::Nothing {
                message: format!(
                    "`{}`{of} is not open to this site; open are {}",
                    decided.key,
                    open.join(", ")
                ),
                help:
                    "`outhaul-agent values` shows what may be set, and to what; nothing was changed"
                        .into(),
            })
        }
    }
}

/// One of the bundles must allow the value.
fn check(bundles: &[&Index], assignment: &str, key: &str, value: &str) -> Result<(), AgentError> {
    let all = bundles.iter().flat_map(|index| &index.assignments);
    let declared = all
        .filter(|one| one.name.as_str() == assignment)
        .filter_map(|one| one.site_values.as_ref());
    let mut refused = None;
    for declared in declared {
        match declared.rule(key).and_then(|rule| rule.check(key, value)) {
            Ok(()) => return Ok(()),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let message = refused.map_or_else(|| format!("`{key}` is not open"), |error| error.to_string());
    Err(AgentError::Nothing {
        message,
        help: "`outhaul-agent values` shows what may be set, and to what; nothing was changed"
            .into(),
    })
}
