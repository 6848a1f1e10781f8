//! What to do next, for someone who has never seen this site.
//!
//! What comes in: how the site stands. What goes out: short instructions, the most urgent first; none when there is
//! nothing to do. It looks at nothing else.

use std::path::Path;

use outhaul_host::owner;
use outhaul_kit::console::place;
use outhaul_kit::text::quoted;

use super::Status;
use crate::attention::AttentionKind;
use crate::following;
use crate::intake::refusals::PastRefusal;
use crate::machine::State;
use crate::orders::EnrolmentStatus;

/// What to do next at the state folder `state`; `has_hub`: reports are also sent over a network.
pub(super) fn steps(status: &Status, has_hub: bool, state: &Path) -> Vec<String> {
    let mut next = Vec::new();
    if status.trouble.is_some() {
        next.push(
            "import a freshness slip that is newer (`outhaul slip` at the centre writes one), or restore the whole \
             state folder from one backup"
                .to_owned(),
        );
    }
    next.extend(status.to_do.clone());
    let helps = status
        .attention
        .iter()
        .map(|attention| attention.help.clone());
    next.extend(helps);
    next.extend(refused(status));
    match status.enrolment {
        EnrolmentStatus::Requested => next.push(
            "`outhaul-agent export FOLDER` puts the enrolment request on a stick; tell the centre the key shown above \
             by telephone"
                .to_owned(),
        ),
        EnrolmentStatus::OtherKeyApproved => next.push(
            "tell the centre that another machine's key was approved under this site's name".to_owned(),
        ),
        EnrolmentStatus::Revoked => {
            next.push("ask the centre for a new kit, and `outhaul-agent enrol` it".to_owned());
        }
        EnrolmentStatus::Approved => {}
    }
    if let Some(bundle) = &status.incomplete {
        let missing: Vec<_> = bundle.missing.iter().map(ToString::to_string).collect();
        next.push(format!(
            "`outhaul-agent import FOLDER` imports the missing parts of bundle {} (part {} of {}) from a stick, in any \
             order",
            bundle.number,
            missing.join(", "),
            bundle.parts
        ));
    } else if let Some(cluster) = &status.cluster {
        next.extend(following::next(cluster));
    } else if status.active.is_none()
        && status.unfinished.is_none()
        && !status.command
        && !status.names_import()
    {
        next.push("`outhaul-agent import FOLDER` imports a bundle from a stick".to_owned());
    }
    if let Some(visit) = status
        .media
        .last()
        .filter(|visit| visit.cut_off && !status.command)
    {
        next.push(format!(
            "reading `{}` was interrupted before anything was copied: `outhaul-agent import {}` reads it again",
            visit.place,
            quoted(&visit.place)
        ));
    }
    if status.reports_waiting > 0 && !has_hub {
        let which = match status.reports_waiting {
            1 => "the report that waits".to_owned(),
            many => format!("the {many} reports that wait"),
        };
        next.push(format!(
            "`outhaul-agent export FOLDER` puts {which} on a stick for the hub"
        ));
    }
    // Where nothing waits for it, a hold is nothing to be done about now; how it ends is.
    if let Some(hold) = &status.hold
        && status
            .attention
            .iter()
            .all(|one| one.what != AttentionKind::Hold)
    {
        next.push(format!(
            "nothing new is applied while this site is {}: `outhaul-agent hold --release` ends that",
            hold.sentence()
        ));
    }
    for (name, hold) in &status.held {
        next.push(format!(
            "`{name}` stays as it is while it is held by {}: `outhaul-agent hold --release --assignment {name}` ends \
             that",
            hold.who
        ));
    }
    let mut reported: Vec<String> = Vec::new();
    // Also what an earlier step begins with, and goes on from.
    next.retain(|step| {
        let contains = |known: &String| {
            let rest = known.strip_prefix(step.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([',', ';', ' ']))
        };
        let is_new = !reported.iter().any(contains);
        reported.push(step.clone());
        is_new
    });
    // Scripts and the page print them as they are.
    let owned = next.iter().map(|step| owner::as_owner(step, state));
    owned.map(|step| place::named(&step).into_owned()).collect()
}

/// What to do about the newest bundle that was refused and is newer than all that is here; without one, about what was refused last and has no
/// number.
fn refused(status: &Status) -> Option<String> {
    let here = status.generations.iter();
    let here = here.filter(|bundle| State::from_word(bundle.state) != Some(State::Rejected));
    let here = here.map(|bundle| bundle.number);
    let newest = here
        .chain(status.incomplete.iter().map(|bundle| bundle.number))
        .max();
    let newer = status.refusals.iter().filter_map(PastRefusal::way_out);
    let newer = newer.filter(|(number, _)| Some(*number) > newest);
    newer
        .max_by_key(|(number, _)| *number)
        .map(|(_, help)| help)
        .or_else(|| status.refusals.last()?.way_out_unnumbered(status.active))
}
