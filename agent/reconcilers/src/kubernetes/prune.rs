//! Removing what the inventory lists, and nothing else.
//!
//! What comes in: rows of the inventory. What goes out: one step for each, in the order opposite to that of
//! applying. An object goes only when it is still the very one that was applied; a namespace only when nothing
//! of others is left in it; the definition of a kind only when there are no objects of it. Whatever stays is
//! named with the reason.

use std::collections::BTreeSet;

use outhaul_bundle::report::StepResult;
use outhaul_kit::pulse::Pulse;
use outhaul_kubernetes::{Cluster, Key, Reason, Trouble, order};

use super::look::Looked;
use super::mark::{Mark, Origin, owner_of, uid_of};
use crate::error::ApplyError;
use crate::inventory::{Item, Ledger};
use crate::outcome::step;

/// What became of one object.
enum Outcome {
    /// It is gone, or going.
    Removed(String),
    /// It is not ours any more: it stays, and is forgotten.
    Released(String),
    /// It stays for now, and in the inventory.
    Kept(String),
}

/// What is recorded and not wanted any more. A row that was written without the cluster names a namespace also
/// for what is in none.
pub fn surplus(
    cluster: &Cluster,
    recorded: &[Item],
    looked: &[Looked],
    ledger: &mut dyn Ledger,
) -> Result<Vec<Item>, ApplyError> {
    let wanted: BTreeSet<String> = looked
        .iter()
        .map(|one| one.object.key.to_string())
        .collect();
    let mut gone = Vec::new();
    for item in recorded.iter().filter(|item| !wanted.contains(&item.item)) {
        let Some(mut key) = Key::parse(&item.item).filter(|key| key.namespace.is_some()) else {
            gone.push(item.clone());
            continue;
        };
        let resource = cluster.resource_of(&key);
        let resource = resource?;
        if resource.is_none_or(|resource| resource.namespaced) {
            gone.push(item.clone());
            continue;
        }
        key.namespace = None;
        let named = Item {
            item: key.to_string(),
            ..item.clone()
        };
        let known = wanted.contains(&named.item);
        if !known {
            ledger.intend(std::slice::from_ref(&named))?;
            gone.push(named);
        }
        ledger.forget(std::slice::from_ref(item))?;
    }
    Ok(gone)
}

/// Removes `items`. Those that stay, though they are ours, get the phase `left` when the whole assignment is
/// `gone`; else they are tried again with the next bundle.
pub fn prune(
    cluster: &Cluster,
    items: &[Item],
    gone: bool,
    ledger: &mut dyn Ledger,
    pulse: &Pulse,
) -> Result<Vec<StepResult>, ApplyError> {
    let mut ordered: Vec<(Option<Key>, &Item)> = items
        .iter()
        .map(|item| (Key::parse(&item.item), item))
        .collect();
    ordered.sort_by_key(|(key, item)| {
        let rank = key.as_ref().map_or(0, order::rank);
        std::cmp::Reverse((rank, item.item.clone()))
    });
    let mut steps = Vec::new();
    for (key, item) in ordered {
        pulse.beat();
        let mark = Mark::parse(&item.digest);
        let outcome = match (key, mark) {
            (Some(key), Some(mark)) => remove(cluster, &key, &mark),
            _ => Ok(Outcome::Kept(
                "the inventory's row of it cannot be read".into(),
            )),
        };
        let (status, message) = match outcome {
            Ok(Outcome::Removed(message)) => {
                ledger.forget(std::slice::from_ref(item))?;
                ledger.passed("object-removed");
                ("removed", message)
            }
            Ok(Outcome::Released(message)) => {
                ledger.forget(std::slice::from_ref(item))?;
                ("skipped", message)
            }
            Ok(Outcome::Kept(message)) => {
                if gone {
                    let left = Item {
                        phase: "left".into(),
                        ..item.clone()
                    };
                    ledger.intend(&[left])?;
                }
                ("skipped", message)
            }
            Err(trouble) if trouble.is_of_the_site() => return Err(trouble.into()),
            Err(refused) => ("failed", format!("it cannot be removed: {refused}")),
        };
        steps.push(step(&item.item, status, message));
    }
    Ok(steps)
}

fn remove(cluster: &Cluster, key: &Key, mark: &Mark) -> Result<Outcome, Trouble> {
    let Some(resource) = cluster.resource_of(key)? else {
        return Ok(Outcome::Removed("its kind is not there any more".into()));
    };
    let Some(found) = cluster.get(&resource, key)? else {
        return Ok(Outcome::Removed("it was not there any more".into()));
    };
    if matches!(mark.origin, Origin::Took(_)) {
        let told = format!("`{key}` was there before Outhaul and was left as it is");
        return Ok(Outcome::Released(told));
    }
    if !mark.is_of(&found) {
        if let Some(other) = mark.owner.other_site(&found) {
            let told = format!("`{key}` belongs to the site `{other}` by now and was left");
            return Ok(Outcome::Released(told));
        }
        return Ok(Outcome::Released(match owner_of(&found) {
            Some(other) if other != mark.owner.assignment => {
                format!("`{key}` belongs to `{other}` by now and was left")
            }
            _ => format!("`{key}` is another object by now and was left: it is not Outhaul's"),
        }));
    }
    if key.is_namespace() {
        let left = cluster.left_in(&key.name)?;
        if !left.is_empty() {
            return Ok(Outcome::Kept(format!(
                "`{key}` was left behind: it holds {}, which this assignment did not put there",
                left.join(", ")
            )));
        }
    }
    if key.is_definition() && cluster.has_objects(&found)? {
        return Ok(Outcome::Kept(format!(
            "`{key}` was left behind: there are objects of its kind, which would go with it"
        )));
    }
    if !found["metadata"]["deletionTimestamp"].is_null() {
        return Ok(Outcome::Removed(waits_for(&found)));
    }
    match cluster.delete(&resource, key, uid_of(&found)) {
        Ok(_) => {}
        Err(Trouble::Refused(refusal)) if refusal.reason == Reason::Conflict => {
            let told =
                format!("`{key}` is another object by now and was left: it is not Outhaul's");
            return Ok(Outcome::Released(told));
        }
        Err(error) => return Err(error),
    }
    let still = cluster.get(&resource, key)?;
    let same = still.filter(|still| uid_of(still) == uid_of(&found));
    Ok(Outcome::Removed(
        same.map_or_else(String::new, |still| waits_for(&still)),
    ))
}

/// Why an object that is deleted is still there.
fn waits_for(found: &serde_json::Value) -> String {
    let finalizers = |value: &serde_json::Value| -> Vec<String> {
        let all = value.as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter()
            .filter_map(|one| one.as_str())
            .map(ToOwned::to_owned)
            .collect()
    };
    let mut names = finalizers(&found["metadata"]["finalizers"]);
    names.extend(finalizers(&found["spec"]["finalizers"]));
    if names.is_empty() {
        return "it is being removed".into();
    }
    format!("it is being removed, and waits for {}", names.join(", "))
}
