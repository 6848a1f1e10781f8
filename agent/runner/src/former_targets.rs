//! Folders that the folder reconciler wrote to before `target` in `agent.toml` was changed: what it wrote there stays.
//!
//! What comes in: the settings, and the inventory, which names files below the target as it is now. What goes out: each earlier folder with
//! the files that this agent wrote into it, for as long as one of them is there; and the target that a running service still follows. It removes
//! none of them: what still reads the folder, a person knows.

use std::path::{Path, PathBuf};

use outhaul_kit::text::{self, quoted};
use outhaul_reconcilers::folder;
use outhaul_site::attention::{Attention, AttentionKind};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::config;
use crate::error::AgentError;
use crate::state::{self, StateError, inventory, key};

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
}

impl FormerTarget {
    /// What of it is still there.
    fn left(&self, agent: &Agent) -> Vec<&str> {
        let folder = on_disk(agent, &self.folder);
        let items = self.items.iter().map(String::as_str);
        let is_there = |item: &&str| folder.join(item).symlink_metadata().is_ok();
        items.filter(is_there).collect()
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

fn written(db: &Connection) -> Result<Vec<String>, StateError> {
    let items = inventory::items(db, None)?.into_iter();
    let ours = items.filter(|item| item.kind == folder::KIND);
    Ok(ours.map(|item| item.item).collect())
}

/// The earlier folders, as the settings and the inventory show them now, and whether that is remembered already.
fn found(agent: &Agent, now: &Path) -> Result<(Vec<FormerTarget>, bool), StateError> {
    let db = agent.store.read();
    let mut former: Vec<FormerTarget> = state::meta(db, key::FORMER_TARGETS)?.unwrap_or_default();
    let known: Option<PathBuf> = state::meta(db, key::TARGET)?;
    if known
        .as_deref()
        .is_some_and(|known| is_same(agent, known, now))
    {
        return Ok((former, true));
    }
    if let Some(folder) = known {
        let items = written(db)?;
        former.retain(|one| one.folder != folder);
        if !items.is_empty() {
            former.push(FormerTarget { folder, items });
        }
    }
    // It is in use again: what lies there is what bundles change.
    former.retain(|one| !is_same(agent, &one.folder, now));
    former.drain(..former.len().saturating_sub(MAX_FOLDERS));
    Ok((former, false))
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

/// Remembers the target, and what an earlier one holds, before anything is written to the new one.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn look(agent: &mut Agent) -> Result<(), AgentError> {
    let Some(now) = target(agent) else {
        return Ok(());
    };
    let (mut former, is_known) = found(agent, &now)?;
    let before = former.len();
    if is_known {
        former.retain(|one| !one.left(agent).is_empty());
    }
    if is_known && former.len() == before {
        return Ok(());
    }
    Ok(agent.commit(|db, _| {
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
    let (former, _) = found(agent, &now)?;
    let found = former.iter().filter_map(|one| one.attention(agent, &now));
    Ok(found.collect())
}
