//! Folders that the folder reconciler wrote to before `target` in `agent.toml` was changed: what it wrote there stays.
//!
//! What comes in: the settings, and the inventory, which names files below the target. What goes out: each earlier folder with the files that this
//! agent wrote into it, for as long as one of them is there; the inventory of the target as it is now; and the target that a running service
//! still follows. It removes no file: what still reads the folder, a person knows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use outhaul_kit::text::{self, quoted};
use outhaul_reconcilers::{Item, Phase, folder};
use outhaul_site::attention::{Attention, AttentionKind};
use outhaul_values::file;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::apply;
use crate::config;
use crate::error::AgentError;
use crate::generation;
use crate::state::{self, StateError, generations, inventory, key, saved};

/// Most folders that are remembered, the latest.
const MAX_FOLDERS: usize = 8;
/// How many files are named.
const MAX_NAMED: usize = 3;

/// A folder that is the target no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FormerTarget {
    /// As `agent.toml` named it; empty for the one in the state folder, wherever that is.
    folder: PathBuf,
    /// What was written, relative to it.
    items: Vec<String>,
    /// The same as the inventory had it; empty in what an earlier agent remembered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inventory: Vec<Item>,
}

impl FormerTarget {
    /// What of it is still there.
    fn left(&self, agent: &Agent) -> Vec<&str> {
        let folder = on_disk(agent, &self.folder);
        let items = self.items.iter().map(String::as_str);
        let is_there = |item: &&str| folder.join(item).symlink_metadata().is_ok();
        items.filter(is_there).collect()
    }

    /// The inventory of this folder, for when it is the target again. Of what an earlier agent remembered, the names alone are known.
    fn inventory(self) -> Vec<Item> {
        if !self.inventory.is_empty() {
            return self.inventory;
        }
        let named = self.items.into_iter().filter_map(|item| {
            let (assignment, _) = item.split_once('/')?;
            Some(Item {
                kind: folder::KIND.to_owned(),
                assignment: assignment.to_owned(),
                item,
                digest: String::new(),
                before: String::new(),
                generation: 0,
                phase: Phase::Applied,
            })
        });
        named.collect()
    }

    fn attention(&self, agent: &Agent, now: &Path) -> Option<Attention> {
        let left = self.left(agent);
        if left.is_empty() {
            return None;
        }
        let old = on_disk(agent, &self.folder);
        let folder = text::path(&old);
        let named: Vec<String> = left.iter().map(|item| format!("`{item}`")).collect();
        let named = text::named(&named, MAX_NAMED);
        let files = if left.len() == 1 { "file" } else { "files" };
        Some(Attention::of_site(
            AttentionKind::FormerTarget,
            format!(
                "the target of the folder reconciler was `{folder}`, and is `{}` now: {} {files} that this agent wrote into the old one are still \
                 there and are neither changed nor removed by any bundle: {named}",
                text::path(&on_disk(agent, now)),
                left.len()
            ),
            format!(
                "see that nothing uses them any more, then remove them (`ls -R {}` lists them); or set `target` in agent.toml to the old folder \
                 again",
                quoted(&old)
            ),
        ))
    }
}

/// The target as it is now; `None` where the apply helper writes, which has settings of its own.
fn target(agent: &Agent) -> Option<PathBuf> {
    if agent.config.apply.helper.is_some() {
        return None;
    }
    Some(agent.config.folder.target.clone().unwrap_or_default())
}

/// Where a target lies. The one in the state folder goes with it, such as onto another machine.
fn on_disk(agent: &Agent, named: &Path) -> PathBuf {
    match named.as_os_str().is_empty() {
        true => agent.state_folder.default_target(),
        false => named.to_owned(),
    }
}

/// Whether two names lead to one folder.
fn is_same(agent: &Agent, one: &Path, other: &Path) -> bool {
    let (one, other) = (on_disk(agent, one), on_disk(agent, other));
    one == other
        || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn written(db: &Connection) -> Result<Vec<Item>, StateError> {
    let mut items = inventory::items(db, None)?;
    items.retain(|item| item.kind == folder::KIND);
    Ok(items)
}

/// What the settings and the inventory show of earlier folders.
struct FormerFolders {
    /// The folders, the latest last.
    former: Vec<FormerTarget>,
    /// The one among them that is the target again.
    returned: Option<FormerTarget>,
    /// Whether the target is the one that is remembered.
    is_known: bool,
}

/// The earlier folders, as the settings and the inventory show them now.
fn found(agent: &Agent, now: &Path) -> Result<FormerFolders, StateError> {
    let db = agent.store.read();
    let mut former: Vec<FormerTarget> = state::meta(db, key::FORMER_TARGETS)?.unwrap_or_default();
    let known: Option<PathBuf> = state::meta(db, key::TARGET)?;
    if known
        .as_deref()
        .is_some_and(|known| is_same(agent, known, now))
    {
        return Ok(FormerFolders {
            former,
            returned: None,
            is_known: true,
        });
    }
    if let Some(folder) = known {
        let inventory = written(db)?;
        former.retain(|one| one.folder != folder);
        if !inventory.is_empty() {
            let items = inventory.iter().map(|item| item.item.clone()).collect();
            former.push(FormerTarget {
                folder,
                items,
                inventory,
            });
        }
    }
    // It is in use again: what lies there is what bundles change.
    let again = former
        .iter()
        .position(|one| is_same(agent, &one.folder, now));
    let returned = again.map(|at| former.remove(at));
    former.retain(|one| !is_same(agent, &one.folder, now));
    former.drain(..former.len().saturating_sub(MAX_FOLDERS));
    Ok(FormerFolders {
        former,
        returned,
        is_known: false,
    })
}

/// The target that a running service follows, where agent.toml names another one since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StillFollowed {
    /// Where the service writes.
    pub followed: PathBuf,
    /// Where it would write after a restart.
    pub set: PathBuf,
    /// What `target` was when the service started; `None` where it was not set.
    pub setting: Option<PathBuf>,
}

impl StillFollowed {
    /// Where the service writes, beside what agent.toml says.
    pub fn sentence(&self) -> String {
        format!(
            "the service still writes to `{}`, though `target` in agent.toml is `{}` now",
            text::path(&self.followed),
            text::path(&self.set)
        )
    }

    /// What to do about it: the two ways, and what follows from a restart.
    pub fn help(&self) -> String {
        let (old, new) = (text::path(&self.followed), text::path(&self.set));
        let back = match self.setting {
            Some(_) => format!("set it to `{old}` again"),
            None => "remove it again".to_owned(),
        };
        format!(
            "where `target` was not meant to change, {back}; where it was, `systemctl restart outhaul-agent`, then `outhaul-agent apply`: from the \
             restart on the service writes to `{new}`, where the files of the active bundle are missing until then, and no bundle changes or \
             removes what lies in `{old}`"
        )
    }
}

/// Where a service runs that read another `target` than agent.toml has now, `agent` looks at what that service writes to; what it wrote
/// there is in use, whatever the file says.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn follow_service(agent: &mut Agent) -> Result<Option<StillFollowed>, AgentError> {
    let read = agent.state_folder.service_settings();
    let is_other = read.is_some() && read != config::mark(&agent.state_folder.config());
    let known: Option<PathBuf> = state::meta(agent.store.read(), key::TARGET)?;
    let (true, Some(set), Some(known)) = (is_other, target(agent), known) else {
        return Ok(None);
    };
    if is_same(agent, &known, &set) || written(agent.store.read())?.is_empty() {
        return Ok(None);
    }
    let setting = Some(known.clone()).filter(|known| !known.as_os_str().is_empty());
    agent.config.folder.target.clone_from(&setting);
    Ok(Some(StillFollowed {
        followed: on_disk(agent, &known),
        set: on_disk(agent, &set),
        setting,
    }))
}

/// What of the inventory is no record of the target as it is now, and what is one of it besides.
#[derive(Default)]
struct Compared {
    elsewhere: Vec<Item>,
    besides: Vec<Item>,
}

/// Compares the inventory, which another target or another machine has filled, with what lies in the target: only what is there exactly as it was
/// applied is certain to be Outhaul's. A saved database knows what was applied since a backup.
fn compare(agent: &Agent, is_from_backup: bool) -> Result<Compared, StateError> {
    let folder = apply::folder(&agent.config, &agent.state_folder);
    let active = generations::active(agent.store.read())?;
    let index = active.and_then(|number| crate::index_of(agent, number).ok());
    let applied = index.map_or_else(Vec::new, |index| {
        generation::desired(&agent.state_folder, &index, &agent.site.name)
    });
    // With sealed values opened and values of the site, a file has another digest than the bundle names.
    let own = applied.iter().flat_map(file::kept).collect::<Vec<_>>();
    let same = applied.iter().chain(&own);
    let known: BTreeSet<String> = same
        .flat_map(|desired| folder.known_again(desired).0)
        .map(|item| item.item)
        .collect();
    let mut elsewhere = written(agent.store.read())?;
    elsewhere.retain(|item| !folder.is_as_recorded(item) && !known.contains(&item.item));
    let mut besides = Vec::new();
    if is_from_backup {
        for path in saved::all(&agent.state_folder.database()) {
            besides.extend(saved_inventory(agent, &path).unwrap_or_default());
        }
        besides.retain(|item| folder.is_as_recorded(item));
    }
    Ok(Compared { elsewhere, besides })
}

/// The inventory of a saved database, where it is this site's.
fn saved_inventory(agent: &Agent, path: &Path) -> Result<Vec<Item>, StateError> {
    let store = saved::open_of(path, (&agent.site.fleet, &agent.site.name))?;
    store.map_or_else(|| Ok(Vec::new()), |store| written(store.read()))
}

/// Remembers the target, and what an earlier one holds, before anything is written to the new one. What was applied in another target, or on another
/// machine, is no record of the files in this one: of those, the inventory keeps what is there exactly as it was applied, such as in a folder that
/// was moved.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn look(agent: &mut Agent) -> Result<(), AgentError> {
    let Some(now) = target(agent) else {
        return Ok(());
    };
    let FormerFolders {
        mut former,
        returned,
        is_known,
    } = found(agent, &now)?;
    let before = former.len();
    if is_known {
        former.retain(|one| !one.left(agent).is_empty());
    }
    let db = agent.store.read();
    let is_from_backup = state::meta::<bool>(db, key::FROM_BACKUP)?.unwrap_or_default();
    if is_known && former.len() == before && !is_from_backup {
        return Ok(());
    }
    let is_other = !is_known && state::meta::<PathBuf>(db, key::TARGET)?.is_some();
    let Compared { elsewhere, besides } = match is_other || is_from_backup {
        true => compare(agent, is_from_backup)?,
        false => Compared::default(),
    };
    let returned = returned.map_or_else(Vec::new, FormerTarget::inventory);
    Ok(agent.commit(|db, _| {
        for item in &elsewhere {
            inventory::forget(db, item)?;
        }
        for item in returned.iter().chain(&besides) {
            inventory::put(db, item)?;
        }
        state::set_meta::<bool>(db, key::FROM_BACKUP, None)?;
        state::set_meta(db, key::TARGET, Some(&now))?;
        let kept = Some(&former).filter(|former| !former.is_empty());
        state::set_meta(db, key::FORMER_TARGETS, kept)
    })?)
}

/// What lies in earlier targets, and what to do about it.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn attention(agent: &Agent) -> Result<Vec<Attention>, AgentError> {
    let Some(now) = target(agent) else {
        return Ok(Vec::new());
    };
    let former = found(agent, &now)?.former;
    let found = former.iter().filter_map(|one| one.attention(agent, &now));
    Ok(found.collect())
}
