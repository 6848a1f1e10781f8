//! What an earlier database of this state folder applied is known again, when that database is gone.
//!
//! What comes in: the state folder of a site that is enrolled with an empty database, and what its kept
//! generations would have applied. What goes out: inventory rows for the files that are in the target with
//! exactly that content, for playbooks of which the removal is kept, and for a cluster's objects, which say by
//! themselves whose they are; and values that were set here, where the file in the target is the one that this agent made with them. Without them every file would be someone else's, and no newer bundle could ever be
//! applied over it; and what a newer bundle leaves out of a cluster would stay for ever. A file that was changed is
//! known again only when a person says so, and a generation that cannot be read says nothing. It changes no file
//! and removes none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
#[cfg(feature = "kubernetes")]
use std::rc::Rc;

use outhaul_bundle::name::Name;
use outhaul_bundle::{Index, Limits};
use outhaul_reconcilers::folder::Folder;
use outhaul_reconcilers::{Desired, Item, ansible};
use outhaul_values::given::MAX_VALUES;
use outhaul_values::{GivenValue, GivenValues, file};
use rusqlite::Connection;

use crate::apply;
use crate::config::AgentConfig;
use crate::durable;
use crate::facilities::Facilities as _;
use crate::generation;
use crate::host::Host;
use crate::runner::kept_floors::MAX_GENERATIONS;
use crate::runner::lost_database::ValueBefore;
use crate::state::{self, StateError, clock, inventory, key};
use crate::state_folder::StateFolder;

/// What is known again.
#[derive(Debug, Default)]
pub struct Adopted {
    /// How many files and playbooks.
    pub known: usize,
    /// Files that a kept generation brings and that have another content now: someone else's, unless a person
    /// says that they are not.
    pub changed: Vec<PathBuf>,
    /// The newest bundle that was here and is not on disk, where there is one: such files may be what it brought.
    pub absent: Option<u64>,
    /// Values that were set here before.
    pub values: Vec<ValueBefore>,
}

/// Who set a value whose author nobody knows any more.
const WHO: &str = "unknown";
/// Why such a value is set.
const WHY: &str = "found in the file that it was applied with, after the database was lost";

/// Puts what is known again into the inventory; with `changed` files of another content, too. What the inventory
/// has already stays as it is.
pub(super) fn adopt(
    state_folder: &StateFolder,
    config: &AgentConfig,
    site: &Name,
    changed_too: bool,
    db: &Connection,
) -> Result<Adopted, StateError> {
    let mut numbers: Vec<u64> = durable::list(&state_folder.generations())?
        .iter()
        .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
        .collect();
    // The newest last: what two of them wrote is the newer one's.
    numbers.sort_unstable();
    let folder = apply::folder(config, state_folder);
    let mut ours: BTreeSet<_> = inventory::items(db, None)?.iter().map(named).collect();
    let before = ours.clone();
    let mut differing = Vec::new();
    let mut values = BTreeMap::new();
    for number in numbers.iter().copied().rev().take(MAX_GENERATIONS).rev() {
        let Some(index) = index(state_folder, number) else {
            continue;
        };
        let index = index.for_site(site);
        for desired in generation::desired(state_folder, &index, site) {
            let kind = apply::for_assignment(&index, &desired.assignment, config, state_folder);
            let kind = kind.map_or_else(|_| String::new(), |one| one.kind().to_owned());
            let (same, changed) = if kind == ansible::KIND {
                let oldest = numbers.first() == Some(&number);
                (
                    ansible::known_again(&apply::Context(state_folder.clone()), &desired, oldest),
                    Vec::new(),
                )
            } else if matches!(
                kind.as_str(),
                "kubernetes" | "argocd" | "fleet" | "flux" | "zarf"
            ) {
                (objects(state_folder, config, &kind, &desired), Vec::new())
            } else {
                known_in(&folder, &desired, &mut values)
            };
            named_values(&desired, &mut values);
            for item in same
                .into_iter()
                .filter(|item| !before.contains(&named(item)))
            {
                ours.insert(named(&item));
                inventory::put(db, &item)?;
            }
            differing.extend(changed);
        }
    }
    // A bundle that failed since has made the folders of the old ones go.
    differing.extend(state::meta::<Vec<Item>>(db, key::DISPUTED)?.unwrap_or_default());
    // What one generation brings and another changed is the other's.
    differing.retain(|item| !ours.contains(&named(item)));
    let disputed: BTreeMap<_, _> = differing
        .into_iter()
        .map(|item| (named(&item), item))
        .collect();
    let mut disputed: Vec<Item> = disputed.into_values().collect();
    if changed_too {
        for item in std::mem::take(&mut disputed) {
            ours.insert(named(&item));
            inventory::put(db, &item)?;
        }
    }
    let kept = (!disputed.is_empty()).then_some(&disputed);
    state::set_meta(db, key::DISPUTED, kept)?;
    Ok(Adopted {
        known: ours.len().saturating_sub(before.len()),
        absent: None,
        changed: disputed.iter().map(|item| folder.path_of(item)).collect(),
        values: set_again(values, config, db)?,
    })
}

/// Each value by assignment and key, and whether it was in use to the last.
type Values = BTreeMap<(String, String), (String, bool)>;

/// The files of an assignment that are in the target: those with the content that the bundle or one of the kept sets of values gives them,
/// and the others. The values of a set that is in the target were in use.
fn known_in(folder: &Folder, desired: &Desired, values: &mut Values) -> (Vec<Item>, Vec<Item>) {
    let (mut same, mut changed) = folder.known_again(desired);
    let form = desired.assignment.site_values.as_ref();
    let shown =
        form.map(|declared| format!("{}/{}", desired.assignment.name, declared.form.file()));
    // The file is the one that this bundle brings: what a set of an older one looks like does not show that it was in use to the last.
    if same.iter().any(|item| Some(&item.item) == shown.as_ref()) {
        let of = desired.assignment.name.as_str();
        let older = values.iter_mut().filter(|((name, _), _)| name == of);
        older.for_each(|(_, (_, in_use))| *in_use = false);
    }
    for own in file::kept(desired) {
        let (with_values, _) = folder.known_again(&own);
        let found = with_values.into_iter();
        let found: Vec<Item> = found
            .filter(|item| Some(&item.item) == shown.as_ref())
            .collect();
        if found.is_empty() {
            continue;
        }
        changed.retain(|item| Some(&item.item) != shown.as_ref());
        same.extend(found);
        let name = own.assignment.name.to_string();
        let used = own.site_values.into_iter();
        values.extend(used.map(|(key, value)| ((name.clone(), key), (value, true))));
    }
    (same, changed)
}

/// Values of kept sets of which nothing shows whether they were in use to the last.
fn named_values(desired: &Desired, values: &mut Values) {
    let name = desired.assignment.name.to_string();
    for (key, value) in file::kept(desired)
        .into_iter()
        .flat_map(|own| own.site_values)
    {
        let known = values.entry((name.clone(), key));
        known.or_insert((value, false));
    }
}

/// Sets again what was in use to the last. What is set already stays as it is.
fn set_again(
    found: Values,
    config: &AgentConfig,
    db: &Connection,
) -> Result<Vec<ValueBefore>, StateError> {
    let at_ms = clock::now(db, Host.clocks(&config.clock))?.wall_ms();
    let mut given: GivenValues = state::meta(db, key::SITE_VALUES)?.unwrap_or_default();
    let mut before = Vec::new();
    for ((assignment, key), (value, in_use)) in found {
        if given.of(&assignment).any(|(known, _)| known == key) {
            continue;
        }
        let set = in_use && given.count() < MAX_VALUES;
        if set {
            let one = GivenValue {
                value: value.clone(),
                who: WHO.to_owned(),
                why: WHY.to_owned(),
                at_ms,
            };
            given.set(&assignment, &key, one);
        }
        before.push(ValueBefore {
            assignment,
            key,
            value,
            set,
        });
    }
    let kept = Some(&given).filter(|given| !given.is_empty());
    state::set_meta(db, key::SITE_VALUES, kept)?;
    Ok(before)
}

/// By what an item of the inventory is one.
fn named(item: &Item) -> (String, String) {
    (item.assignment.clone(), item.item.clone())
}

#[cfg(feature = "kubernetes")]
fn objects(
    state_folder: &StateFolder,
    config: &AgentConfig,
    kind: &str,
    desired: &Desired,
) -> Vec<Item> {
    use outhaul_reconcilers::kubernetes::Kubernetes;
    let site = || Rc::new(apply::Context(state_folder.clone()));
    if kind == outhaul_reconcilers::zarf::KIND {
        let zarf = outhaul_reconcilers::zarf::Zarf::new(&config.zarf, &config.kubernetes, site());
        return zarf.known_again(desired);
    }
    let reconciler = match kind {
        "argocd" => apply::argocd(config, state_folder),
        "fleet" => apply::fleet(config, state_folder),
        "flux" => apply::flux(config, state_folder),
        _ => Kubernetes::new(&config.kubernetes, site()),
    };
    reconciler.known_again(desired)
}

#[cfg(not(feature = "kubernetes"))]
fn objects(_: &StateFolder, _: &AgentConfig, _: &str, _: &Desired) -> Vec<Item> {
    Vec::new()
}

/// The index that a generation kept. It is trusted only for the folder that it lies in, so that
/// it only says which files to look at.
fn index(state_folder: &StateFolder, number: u64) -> Option<Index> {
    let limits = Limits::default();
    let path = state_folder.generation(number).join("index.json");
    let bytes = durable::read(&path, limits.max_index_bytes).ok()?;
    let index = Index::from_bytes(&bytes, &limits).ok()?;
    (index.number == number).then_some(index)
}
