//! Removing what the inventory lists, and nothing else.
//!
//! What comes in: rows of the inventory. What goes out: one step for each, in the order opposite to that of
//! applying. An object goes only when it is still the very one that was applied; a namespace only when nothing
//! of others is left in it; the definition of a kind only when there are no objects of it, or the site's settings name it. Whatever stays
//! is named with the reason.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use outhaul_bundle::report::StepResult;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kubernetes::{ClientError, Cluster, Key, Reason, Resource, argocd, fleet, flux, order};
use serde_json::Value;

use super::controller::ManifestController;
use super::objects::DesiredObjects;
use super::ownership::{Ownership, OwnershipRecord, owner_of, uid_of};
use crate::error::ApplyError;
use crate::inventory::{Item, Ledger, Phase};
use crate::outcome::step;

/// Between two looks at what is being removed.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How something is removed.
#[derive(Clone, Copy)]
pub struct PruneOptions<'a> {
    /// Whose objects are waited for until they are gone.
    pub controller: &'a dyn ManifestController,
    /// How long.
    pub patience: Duration,
    /// Whether the whole assignment is gone.
    pub gone: bool,
    /// Names of definitions that are removed whatever there is of their kind.
    pub definitions: &'a [String],
}

/// What became of one object.
enum RemovalOutcome {
    /// It is being removed, and what else there is to remove may be needed for it.
    Going(String),
    /// It is gone, or going.
    Removed(String),
    /// It is going, and someone keeps it from being gone: it is reported to people.
    Lingers(String),
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
    all: &DesiredObjects,
    ledger: &mut dyn Ledger,
) -> Result<Vec<Item>, ApplyError> {
    let wanted: BTreeSet<String> = all
        .objects
        .iter()
        .map(|wanted| wanted.object.key.to_string())
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
/// gone; else they are tried again with the next bundle. What a controller takes apart is waited for: it may need
/// what would be removed after it, such as the account that it works as.
pub fn prune(
    cluster: &Cluster,
    items: &[Item],
    manner: PruneOptions<'_>,
    ledger: &mut dyn Ledger,
    heartbeat: &Heartbeat,
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
        heartbeat.beat();
        let mark = OwnershipRecord::parse(&item.digest);
        let outcome = match (key, mark) {
            (Some(key), Some(mark)) => remove(cluster, &key, &mark, manner, heartbeat)?,
            _ => Ok(RemovalOutcome::Kept(
                "the inventory's row of it cannot be read".into(),
            )),
        };
        let (status, message) = match outcome {
            Ok(RemovalOutcome::Removed(message)) => {
                ledger.forget(std::slice::from_ref(item))?;
                ledger.passed("object-removed");
                ("removed", message)
            }
            Ok(RemovalOutcome::Lingers(message) | RemovalOutcome::Released(message)) => {
                ledger.forget(std::slice::from_ref(item))?;
                ("skipped", message)
            }
            Ok(RemovalOutcome::Kept(message)) => {
                if manner.gone {
                    let left = Item {
                        phase: Phase::Left,
                        ..item.clone()
                    };
                    ledger.intend(&[left])?;
                }
                ("skipped", message)
            }
            Ok(RemovalOutcome::Going(why)) => return Err(manner.controller.not_responding(&why)),
            Err(trouble) if trouble.is_of_the_site() => return Err(trouble.into()),
            Err(refused) => ("failed", format!("it cannot be removed: {refused}")),
        };
        steps.push(step(&item.item, status, message));
    }
    Ok(steps)
}

fn remove(
    cluster: &Cluster,
    key: &Key,
    mark: &OwnershipRecord,
    manner: PruneOptions<'_>,
    heartbeat: &Heartbeat,
) -> Result<Result<RemovalOutcome, ClientError>, ApplyError> {
    let resource = match cluster.resource_of(key) {
        Ok(Some(resource)) => resource,
        Ok(None) => {
            return Ok(Ok(RemovalOutcome::Removed(
                "its kind is not there any more".into(),
            )));
        }
        Err(trouble) => return Ok(Err(trouble)),
    };
    let remains_after = |found: &Value| manner.controller.remains_after(found).unwrap_or_default();
    let mut outlasting = Vec::new();
    if manner.controller.watches(key) {
        let looked_up = cluster.get(&resource, key).and_then(|found| match found {
            Some(found) => manner.controller.outlasting(cluster, key, &found),
            None => Ok(Vec::new()),
        });
        match looked_up {
            Ok(found) => outlasting = found,
            Err(trouble) => return Ok(Err(trouble)),
        }
    }
    let wait = |uid: &str| {
        let made = MadeObjects {
            key,
            uid,
            outlasting: &outlasting,
        };
        wait_until_gone(cluster, &resource, made, manner, heartbeat)
    };
    match delete(cluster, &resource, key, mark, manner) {
        Ok(Deleted::Going(found) | Deleted::Was(found)) if manner.controller.watches(key) => {
            let gone = wait(uid_of(&found))?;
            Ok(gone.map(|still| not_gone(key, still, manner, remains_after(&found))))
        }
        // It went before a power cut; what its controller made of it may still be there.
        Ok(Deleted::WasNot) if manner.controller.watches(key) => {
            let Ownership::Made(uid) = &mark.origin else {
                return Ok(Ok(RemovalOutcome::Removed(WAS_NOT.into())));
            };
            let gone = wait(uid)?;
            Ok(gone.map(|still| not_gone(key, still, manner, WAS_NOT.into())))
        }
        Ok(Deleted::WasNot) => Ok(Ok(RemovalOutcome::Removed(WAS_NOT.into()))),
        // The cluster still removes the objects of the kind, which may need what would be removed after the definition.
        Ok(Deleted::Going(found)) if goes_with_objects(key, manner) => {
            let gone = wait(uid_of(&found))?;
            Ok(gone.map(|still| match still {
                Some((_, still)) => RemovalOutcome::Lingers(format!(
                    "`{key}` is not gone after {} s: {}",
                    manner.patience.as_secs(),
                    waits_for(&still)
                )),
                None => RemovalOutcome::Removed(WITH_OBJECTS.into()),
            }))
        }
        Ok(Deleted::Going(found)) => {
            let why = waits_for(&found);
            Ok(Ok(match has_finalizers(&found) {
                true => RemovalOutcome::Lingers(format!("`{key}`: {why}")),
                false => RemovalOutcome::Removed(why),
            }))
        }
        Ok(Deleted::Was(_)) if goes_with_objects(key, manner) => {
            Ok(Ok(RemovalOutcome::Removed(WITH_OBJECTS.into())))
        }
        Ok(Deleted::Was(found)) => Ok(Ok(RemovalOutcome::Removed(remains_after(&found)))),
        Ok(Deleted::Not(outcome)) => Ok(Ok(outcome)),
        Err(trouble) => Ok(Err(trouble)),
    }
}

/// What is said of an object that is gone, with what was made of it, or of that which `still` is there.
fn not_gone(
    key: &Key,
    still: Option<(Key, Value)>,
    manner: PruneOptions<'_>,
    gone: String,
) -> RemovalOutcome {
    let Some((other, still)) = still else {
        return RemovalOutcome::Removed(gone);
    };
    let which = match other == *key {
        true => String::new(),
        false => format!(", which `{key}` made,"),
    };
    RemovalOutcome::Going(format!(
        "`{other}`{which} is not gone after {} s: {}",
        manner.patience.as_secs(),
        waits_for(&still)
    ))
}

/// An object that is deleted, and what its controller takes apart after it.
#[derive(Clone, Copy)]
struct MadeObjects<'a> {
    key: &'a Key,
    uid: &'a str,
    outlasting: &'a [(Key, Value)],
}

/// Waits until an object is gone, and what its controller made of it. Returns what is still there at the end.
fn wait_until_gone(
    cluster: &Cluster,
    resource: &Resource,
    MadeObjects {
        key,
        uid,
        outlasting,
    }: MadeObjects<'_>,
    manner: PruneOptions<'_>,
    heartbeat: &Heartbeat,
) -> Result<Result<Option<(Key, Value)>, ClientError>, ApplyError> {
    let until = Instant::now().checked_add(manner.patience);
    let look = || {
        let own = cluster.get(resource, key)?;
        match own.filter(|still| uid_of(still) == uid) {
            Some(own) => Ok(Some((key.clone(), own))),
            None => {
                let made = manner.controller.made(cluster, key, uid)?;
                match made.into_iter().next() {
                    Some(first) => Ok(Some(first)),
                    None => still_there(cluster, outlasting),
                }
            }
        }
    };
    loop {
        let still = match look() {
            Ok(still) => still,
            Err(trouble) => return Ok(Err(trouble)),
        };
        if still.is_none() || until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Ok(still));
        }
        if heartbeat.is_cancelled() {
            return Err(ApplyError::Stopped);
        }
        heartbeat.beat();
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The first of `all` that is still the same object.
fn still_there(
    cluster: &Cluster,
    all: &[(Key, Value)],
) -> Result<Option<(Key, Value)>, ClientError> {
    for (key, before) in all {
        if let Some(resource) = cluster.resource_of(key)?
            && let Some(found) = cluster.get(&resource, key)?
            && uid_of(&found) == uid_of(before)
        {
            return Ok(Some((key.clone(), found)));
        }
    }
    Ok(None)
}

/// What came of deleting one object.
enum Deleted {
    /// It is gone; it was this.
    Was(Value),
    /// It is going; it is this.
    Going(Value),
    /// It was not there.
    WasNot,
    /// It was not deleted.
    Not(RemovalOutcome),
}

/// What is said of a definition that the site's settings name.
pub const WITH_OBJECTS: &str = "with all objects of its kind, as `remove_definitions` under `[kubernetes]` in agent.toml has it";

fn goes_with_objects(key: &Key, manner: PruneOptions<'_>) -> bool {
    key.is_definition() && manner.definitions.contains(&key.name)
}

const WAS_NOT: &str = "it was not there any more";

fn delete(
    cluster: &Cluster,
    resource: &Resource,
    key: &Key,
    mark: &OwnershipRecord,
    manner: PruneOptions<'_>,
) -> Result<Deleted, ClientError> {
    let not = |outcome| Ok(Deleted::Not(outcome));
    let Some(found) = cluster.get(resource, key)? else {
        return Ok(Deleted::WasNot);
    };
    if matches!(mark.origin, Ownership::Took(_)) {
        let reported = format!("`{key}` was there before Outhaul and was left as it is");
        return not(RemovalOutcome::Released(reported));
    }
    if !mark.is_of(&found) {
        if let Some(other) = mark.owner.other_site(&found) {
            let reported = format!("`{key}` belongs to the site `{other}` by now and was left");
            return not(RemovalOutcome::Released(reported));
        }
        return not(RemovalOutcome::Released(match owner_of(&found) {
            Some(other) if other != mark.owner.assignment => {
                format!("`{key}` belongs to `{other}` by now and was left")
            }
            _ => format!("`{key}` is another object by now and was left: it is not Outhaul's"),
        }));
    }
    if key.is_namespace() {
        let left = cluster.left_in(&key.name)?;
        if !left.is_empty() {
            return not(RemovalOutcome::Kept(format!(
                "`{key}` was left behind: it holds {}, which this assignment did not put there",
                left.join(", ")
            )));
        }
    }
    if key.is_definition() && !goes_with_objects(key, manner) && cluster.has_objects(&found)? {
        return not(RemovalOutcome::Kept(format!(
            "`{key}` was left behind: there are objects of its kind, which would go with it; `remove_definitions = [\"{}\"]` under `[kubernetes]` in \
             agent.toml lets them",
            key.name
        )));
    }
    if !found["metadata"]["deletionTimestamp"].is_null() {
        return Ok(Deleted::Going(found));
    }
    match cluster.delete(resource, key, uid_of(&found)) {
        Ok(_) => {}
        Err(ClientError::Refused(refusal)) if refusal.reason == Reason::Conflict => {
            let reported =
                format!("`{key}` is another object by now and was left: it is not Outhaul's");
            return not(RemovalOutcome::Released(reported));
        }
        Err(error) => return Err(error),
    }
    let still = cluster.get(resource, key)?;
    let same = still.filter(|still| uid_of(still) == uid_of(&found));
    Ok(match same {
        Some(still) => Deleted::Going(still),
        None => Deleted::Was(found),
    })
}

/// What the cluster itself does with what is deleted, by itself.
const PASSING: [&str; 3] = [
    "customresourcecleanup.apiextensions.k8s.io",
    "foregroundDeletion",
    "orphan",
];

/// Whether someone has to do something before a deleted object is gone.
fn has_finalizers(found: &Value) -> bool {
    let all = found["metadata"]["finalizers"].as_array();
    all.is_some_and(|all| {
        all.iter()
            .filter_map(Value::as_str)
            .any(|one| !PASSING.contains(&one))
    })
}

/// Why an object that is deleted is still there.
fn waits_for(found: &Value) -> String {
    let finalizers = |value: &Value| -> Vec<String> {
        let all = value.as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter()
            .filter_map(|one| one.as_str())
            .map(ToOwned::to_owned)
            .collect()
    };
    if found["type"] == "helm.sh/release.v1" {
        return "Fleet's agent has not uninstalled the release that it records".into();
    }
    if found["metadata"]["deletionTimestamp"].is_null() {
        return "nobody has begun to remove it, which Kubernetes' garbage collector does \
                (kube-controller-manager)"
            .into();
    }
    let mut names = finalizers(&found["metadata"]["finalizers"]);
    names.extend(finalizers(&found["spec"]["finalizers"]));
    if names.is_empty() {
        return "it is being removed".into();
    }
    let said = match found["apiVersion"].as_str() {
        Some(api) if api.starts_with(argocd::GROUP) => argocd::keeps(found),
        Some(api) if api.starts_with(fleet::GROUP) => fleet::keeps(found),
        _ => flux::keeps(found),
    };
    let said = said.map_or_else(String::new, |said| format!(" ({said})"));
    format!(
        "it is being removed, and waits for {}{said}",
        names.join(", ")
    )
}
