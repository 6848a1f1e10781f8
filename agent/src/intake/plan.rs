//! What a bundle would change on this site, before anything is changed.
//!
//! What comes in: what an import would get, and an agent whose memory is a copy. What goes out: the orders
//! that would be carried out, per assignment what would be added, run, changed or removed, and whether it
//! would wait. Everything is verified and unpacked as for an import; nothing is stored, and nothing runs but what is asked whether it may be applied.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::index::Assignment;
use outhaul_bundle::name::Name;
use outhaul_bundle::{Digest, Index, Instruction, Order};

mod unfinished;

pub(crate) use unfinished::{Unfinished, finish};

use super::{BundleSource, ImportOutcome, Offer, copy, since};
use crate::agent::Agent;
use crate::apply;
use crate::blobs::Blobs;
use crate::error::AgentError;
use crate::generation;
use crate::machine::{Event, State};
use crate::orders;
use crate::rehearsal::HostChanges;
use crate::rehearsal::served;
pub use crate::rehearsal::{AssignmentPlan, ImportPlan, Rehearsal, forward_only_sentence};
use crate::runner::{self, approval, delays, former_targets, held, lost_database};
use crate::state::{generations, inventory};
use crate::update;
use outhaul_reconcilers::{Change, Desired, Item, Reconciler, ansible};

/// The files that a bundle has for one site alone, by assignment.
pub fn own_files(index: &Index, site: &Name) -> BTreeMap<String, Vec<String>> {
    let overlays = index
        .assignments
        .iter()
        .filter_map(|assignment| Some((&assignment.name, assignment.overlay(site)?)));
    overlays
        .map(|(name, overlay)| {
            let files = overlay.files.iter().map(|file| file.path.to_string());
            (name.to_string(), files.collect())
        })
        .collect()
}

/// Assignments of a bundle that are for other sites of its stream, by name.
pub fn for_others(index: &Index, site: &Name) -> Vec<String> {
    let names = index.for_others(site);
    names.into_iter().map(ToString::to_string).collect()
}

/// Assignments of a bundle for Ansible that nothing takes back, by name.
pub fn forward_only(index: &Index) -> Vec<String> {
    if index.reconciler.kind.as_str() != ansible::KIND {
        return Vec::new();
    }
    let all = index.assignments.iter();
    all.filter(|one| ansible::is_forward_only(one))
        .map(|one| one.name.to_string())
        .collect()
}

/// Files of one assignment that are not in the other as they are here.
fn differing(before: &Assignment, after: &Assignment) -> Vec<Change> {
    let all = |assignment: &Assignment| -> BTreeMap<String, Digest> {
        let payload = assignment.payload.iter();
        let payload = payload.map(|file| (format!("payload/{}", file.path), file.content));
        let files = assignment.files.iter();
        let files = files.map(|file| (file.path.to_string(), file.content));
        files.chain(payload).collect()
    };
    let (mut before, after) = (all(before), all(after));
    let mut changes = Vec::new();
    for (item, digest) in after {
        let action = match before.remove(&item) {
            Some(known) if known == digest => continue,
            Some(_) => "change",
            None => "add",
        };
        changes.push(Change { action, item });
    }
    let gone = before.into_keys();
    changes.extend(gone.map(|item| Change {
        action: "remove",
        item,
    }));
    changes
}

/// What taking in a verified offer would come to. The blobs are read and verified; nothing is kept.
pub(crate) fn rehearse(
    agent: &mut Agent,
    source: &mut dyn BundleSource,
    index: Index,
    offer: &Offer,
    restored: bool,
) -> Result<ImportOutcome, AgentError> {
    let mut plan = ImportPlan {
        number: index.number,
        active: generations::active(agent.store.read())?,
        orders: Vec::new(),
        changes: HostChanges::default(),
        stored_again: restored,
        after_loss: lost_database::is_unanswered(agent.store.read())?,
        soak_s: Some(u64::from(agent.config.health.soak_s)).filter(|seconds| *seconds > 0),
        served: Vec::new(),
        own_files: own_files(&index, &agent.site.name),
        for_others: for_others(&index, &agent.site.name),
        held: Vec::new(),
        forward_only: forward_only(&index.clone().for_site(&agent.site.name)),
        unopened: Vec::new(),
        agent: update::planned(agent, &index)?,
        waits: None,
    };
    let orders: Vec<Order> = orders::orders_of(agent, &index)?
        .into_iter()
        .cloned()
        .collect();
    // A revocation acts before the rest is looked at.
    if let Some(order) = orders.iter().find(|one| one.what == Instruction::Revoke) {
        plan.orders.push(orders::rehearse(agent, order, offer)?);
        return Ok(recorded(agent, plan));
    }
    orders::refuse_if_revoked(agent.store.read(), source.name())?;
    let volume = source.volume(&index)?;
    if let Some(volume) = volume.as_ref().filter(|volume| !volume.is_since()) {
        return Err(AgentError::part_not_planned(source.name(), volume));
    }
    if let Some(parity) = source.parity(&index)? {
        return Err(AgentError::parity_not_planned(source.name(), &parity));
    }
    let index = index.for_site(&agent.site.name);
    if let Some(volume) = &volume {
        let stored = Blobs::new(&agent.state_folder);
        since::check(agent, source.name(), &index, volume, &stored)?;
    }
    if orders.is_empty() {
        agent.can_apply(&index)?;
    }
    let mut blobs = Blobs::for_rehearsal(&agent.state_folder, &index, agent.limits)?;
    since::build_on(agent, volume.as_ref(), &mut blobs)?;
    let needed = blobs
        .missing_bytes(&index.blobs)
        .saturating_add(since::making_bytes(&index, volume.as_ref()))
        .saturating_add(generation::unpacked_bytes(&index));
    agent.check_space(needed)?;
    if !restored {
        copy::begin(agent, source.name(), &index, offer)?;
    }
    let read = source.blobs(&index, &mut blobs);
    let read =
        read.map_err(|error| since::or_wrong(agent, source.name(), &index, &mut blobs, error));
    let read = read.and_then(|()| {
        let tried = blobs.tried(&index);
        tried.map_err(|error| copy::of_unpacking(source.name(), error))
    });
    match read {
        Ok(unopened) => plan.unopened = unopened,
        Err(error) => {
            // As after an import: an older one on the same stick may still be taken.
            runner::transition(agent, &Event::CopyLost(index.number).into())?;
            return Err(error);
        }
    }
    for order in &orders {
        let planned = orders::rehearse(agent, order, offer)?;
        let ends = planned.ends;
        plan.orders.push(planned);
        if ends {
            return Ok(recorded(agent, plan));
        }
    }
    if !orders.is_empty() {
        agent.can_apply(&index)?;
    }
    plan_assignments(agent, &index, &mut plan)?;
    agent
        .store
        .commit(|db| copy::issued(db, index.number, offer))?;
    delays::look(agent)?;
    plan.waits = match restored {
        // It is active: nothing keeps it from being applied again.
        true => None,
        false => approval::why_it_waits(agent, &index)?,
    };
    Ok(recorded(agent, plan))
}

fn recorded(agent: &mut Agent, plan: ImportPlan) -> ImportOutcome {
    let number = plan.number;
    agent.rehearsal = Some(Rehearsal {
        plan: Some(plan),
        ..Rehearsal::default()
    });
    ImportOutcome::Rests {
        number,
        state: State::Staged,
        note: String::new(),
    }
}

/// The removal of what the inventory has, with what goes with it.
fn removal(agent: &Agent, item: &Item) -> Change {
    let settings = apply::for_items_of(&item.kind, &agent.config);
    let facilities = &agent.facilities;
    // Who removes it says what lacks.
    let reconciler = facilities.reconciler(&item.kind, &settings, &agent.state_folder);
    let more = reconciler.ok().and_then(|reconciler| {
        let mut more = reconciler.goes_with_removed(true, std::slice::from_ref(item));
        more.pop()
    });
    more.unwrap_or_else(|| Change {
        action: "remove",
        item: item.item.clone(),
    })
}

/// All that applying an assignment does, where nothing here shows what of it was applied before.
fn all_of(reconciler: &dyn Reconciler, desired: &Desired) -> Vec<Change> {
    let run = reconciler.items(desired);
    if reconciler.runs_again() && !run.is_empty() {
        let run = run.into_iter();
        return run
            .map(|item| Change {
                action: "run",
                item: item.item,
            })
            .collect();
    }
    let files = desired.files().map(|(_, _, shown)| Change {
        action: "apply",
        item: shown,
    });
    files.collect()
}

fn plan_assignments(
    agent: &mut Agent,
    index: &Index,
    plan: &mut ImportPlan,
) -> Result<(), AgentError> {
    // As before anything is applied: what was written to another target is not in this one.
    former_targets::look(agent)?;
    // A folder that is gone keeps nobody from looking at a newer bundle.
    let active = plan.active.map(|number| runner::index_of(agent, number));
    let active = active.and_then(Result::ok);
    let before = active.as_ref().map(|index| index.served.clone());
    plan.served = served::differing(&before.unwrap_or_default(), &index.served);
    let running = active.map_or_else(Vec::new, |index| index.assignments);
    plan.changes = changes_of(agent, index, &running)?;
    plan.held = held::names(agent)?.into_iter().collect();
    Ok(())
}

/// What applying `index` changes on this host, where `running` was applied last.
fn changes_of(
    agent: &Agent,
    index: &Index,
    running: &[Assignment],
) -> Result<HostChanges, AgentError> {
    let mut plan = HostChanges::default();
    let reconcilers = agent.reconcilers(index)?;
    let held = held::names(agent)?;
    for desired in held::free(agent, index)? {
        let name = desired.assignment.name.as_str().to_owned();
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        let recorded = agent.recorded(reconciler.kind(), &name)?;
        let mut changes = reconciler.plan(&desired, &recorded);
        if changes.is_empty() {
            // What the inventory does not list, such as the config that a playbook reads.
            let known = running.iter().find(|a| a.name == desired.assignment.name);
            changes = match known {
                Some(known) => differing(known, &desired.assignment),
                None if reconciler.plans_every_file() => Vec::new(),
                None => all_of(reconciler, &desired),
            };
        }
        changes.extend(reconciler.absent(&desired, &recorded)?);
        plan.in_the_way
            .extend(reconciler.in_the_way(&desired, &recorded)?);
        plan.not_looked_for = plan.not_looked_for.or(reconciler.not_looked_for());
        if changes.is_empty() {
            match reconciler.runs_again() {
                true => plan.run_again.push(name),
                false => plan.unchanged.push(name),
            }
            continue;
        }
        changes.extend(reconciler.goes_with_removed(false, &recorded));
        let action = if recorded.is_empty() { "add" } else { "change" };
        plan.assignments.push(AssignmentPlan {
            name,
            action,
            changes,
        });
    }
    let wanted: BTreeSet<&str> = index.assignments.iter().map(|a| a.name.as_str()).collect();
    let stays = |name: &str| wanted.contains(name) || held.contains(name);
    for item in inventory::surplus(agent.store.read(), stays)? {
        let change = removal(agent, &item);
        match plan
            .assignments
            .last_mut()
            .filter(|last| last.name == item.assignment)
        {
            Some(last) => last.changes.push(change),
            None => plan.assignments.push(AssignmentPlan {
                name: item.assignment,
                action: "remove",
                changes: vec![change],
            }),
        }
    }
    Ok(plan)
}
