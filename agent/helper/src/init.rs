//! Setting the helper up: once, by root, for a site that is enrolled.
//!
//! What comes in: the agent's folder as it is at this moment, which is trusted now and never again. What
//! goes out: the helper's folder, its user's own, with the site, the fleet's metadata, floors and time, the
//! inventory of what is applied, and copies of the bundles that the site keeps. With `again`, for a site
//! that was moved or enrolled again, the helper's own inventory and bundles stay. It changes nothing of
//! what runs and nothing in the agent's folder.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use outhaul_bundle::{Digest, Index, Limits};
use outhaul_host::state_place;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kit::media::Media;
use rustix::process::{Gid, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};

use super::accept::row;
use super::{Helper, RequestFailure, generation, settings};
use crate::durable::{self, at};
use crate::error::AgentError;
use crate::facilities::Facilities as _;
use crate::host::Host;
use crate::state::clock;
use crate::state::{self, SiteIdentity, StateError, Store, floors, generations, inventory, key};
use crate::state_folder::StateFolder;

/// Largest database of an agent in bytes.
const MAX_DATABASE_BYTES: u64 = 4 * 1024 * 1024 * 1024;
const MAX_FLOORS_BYTES: u64 = 4 * 1024 * 1024;

/// What was set up.
#[derive(Debug)]
pub struct PreparedHelper {
    /// Who this site is.
    pub site: SiteIdentity,
    /// The numbers of the bundles that the helper has now.
    pub bundles: Vec<u64>,
    /// What could not be taken, in sentences.
    pub without: Vec<String>,
}

/// Sets the helper up in `folder` for the agent in `agent`.
///
/// # Errors
/// [`AgentError`]; a helper that is set up already stays as it is, unless `again`.
pub fn run(folder: &Path, agent: &Path, again: bool) -> Result<PreparedHelper, AgentError> {
    state_place::refuse_helper(folder, agent)?;
    let state_folder = StateFolder::new(folder);
    act_as_owner(folder)?;
    let from = Media::open(agent)?;
    durable::create_private_folder(state_folder.root()).or_else(|error| {
        match fs::metadata(state_folder.root()) {
            Ok(_) => Ok(()),
            Err(_) => Err(error),
        }
    })?;
    let own = rustix::process::getuid().as_raw();
    if fs::metadata(state_folder.root()).is_ok_and(|found| found.uid() != own) {
        return Err(AgentError::Usage {
            message: format!("`{}` belongs to another user", folder.display()),
            help: "run this as root; it works as the user whom the folder belongs to".into(),
        });
    }
    fs::set_permissions(state_folder.root(), fs::Permissions::from_mode(0o700))
        .map_err(at("protect", state_folder.root()))?;
    let lock = state_folder.lock()?;
    let config = settings(&state_folder)?;
    state_folder.create()?;
    let mut store = Store::open(&state_folder.database())?;
    let known = state::meta::<SiteIdentity>(store.read(), key::SITE)?.is_some();
    if known && !again {
        return Err(AgentError::Usage {
            message: format!(
                "the apply helper is set up already in `{}`",
                folder.display()
            ),
            help: "after a move or a new enrolment of the site, add `--again`".into(),
        });
    }
    let copy = copy_of(&from, &state_folder)?;
    let site = state::site(copy.read())?;
    let trusted = floors::trusted(copy.read())?;
    let beliefs = floors::floors(copy.read(), &state_folder.root().join("init/floors.json"))?;
    let reading = clock::now(copy.read(), Host.clocks(&config.clock))?;
    let items = match known {
        true => Vec::new(),
        false => inventory::items(copy.read(), None)?,
    };
    // Who sets it up again says so: older floors of the helper count no more.
    durable::remove_file(&state_folder.floors())?;
    store.commit(|db| {
        floors::store_trusted(db, &trusted)?;
        floors::store(db, &beliefs)?;
        reading.store(db)?;
        items.iter().try_for_each(|item| inventory::put(db, item))?;
        state::set_meta(db, key::SITE, Some(&site))
    })?;
    let mut helper = Helper {
        state_folder,
        config,
        store,
        site,
        limits: Limits::default(),
        heartbeat: Heartbeat::default(),
        agent: from,
        _lock: lock,
    };
    let mut ready = PreparedHelper {
        site: helper.site.clone(),
        bundles: Vec::new(),
        without: Vec::new(),
    };
    let kept = generations::all(copy.read())?;
    for known in kept.into_iter().filter(|row| row.whole && row.good) {
        let number = known.number;
        match helper.adopt(&known) {
            Ok(()) => ready.bundles.push(number),
            Err(problem) => ready.without.push(format!(
                "bundle {number} could not be copied: {}; import it again",
                match problem {
                    RequestFailure::Refused { message, .. } => message,
                    RequestFailure::Unable { problem, .. } => problem,
                }
            )),
        }
    }
    drop(copy);
    durable::remove_tree(&helper.state_folder.root().join("init"))?;
    Ok(ready)
}

/// Where the helper runs as a separate user, its folder is that user's, who may have put links into it: root
/// does the work as that user, with the one right to read the agent's folder.
fn act_as_owner(folder: &Path) -> Result<(), AgentError> {
    let owner = match fs::symlink_metadata(folder) {
        Ok(found) if found.uid() != 0 && rustix::process::getuid().is_root() => found,
        _ => return Ok(()),
    };
    let reading = CapabilitySet::DAC_READ_SEARCH;
    let sets = CapabilitySets {
        effective: reading,
        permitted: reading,
        inheritable: CapabilitySet::empty(),
    };
    let (user, group) = (Uid::from_raw(owner.uid()), Gid::from_raw(owner.gid()));
    thread::set_keep_capabilities(true)
        .and_then(|()| thread::set_thread_groups(&[]))
        .and_then(|()| thread::set_thread_res_gid(group, group, group))
        .and_then(|()| thread::set_thread_res_uid(user, user, user))
        .and_then(|()| thread::set_capabilities(None, sets))
        .map_err(|error| at("become the owner of", folder)(error.into()).into())
}

/// A copy of the agent's state, so that nothing of it is opened where someone else may change it.
fn copy_of(from: &Media, state_folder: &StateFolder) -> Result<Store, AgentError> {
    let folder = state_folder.root().join("init");
    durable::remove_tree(&folder)?;
    durable::make_folder(&folder)?;
    for (name, max_bytes) in [
        ("agent.db", MAX_DATABASE_BYTES),
        ("agent.db-wal", MAX_DATABASE_BYTES),
        ("floors.json", MAX_FLOORS_BYTES),
    ] {
        let Some(file) = from.open_file(Path::new(name))? else {
            if name == "agent.db" {
                return Err(StateError::NotEnrolled {
                    folder: folder.clone(),
                }
                .into());
            }
            continue;
        };
        let to = folder.join(name);
        let mut copy = durable::create(&to, 0o600)?;
        io::copy(&mut io::Read::take(file, max_bytes), &mut copy).map_err(at("write", &to))?;
    }
    let store = Store::open(&folder.join("agent.db"))?;
    Ok(store)
}

impl Helper {
    /// Copies a bundle that the agent had accepted and applied when the helper was set up.
    fn adopt(&mut self, known: &generations::Generation) -> Result<(), RequestFailure> {
        let path = generation(known.number).join("index.json");
        let bytes = self.agent.read(&path, self.limits.max_index_bytes)?;
        let bytes = bytes.unwrap_or_default();
        let wrong = |problem: String| RequestFailure::Unable {
            problem,
            help: String::new(),
        };
        if Digest::of(&bytes) != known.index {
            return Err(wrong("its index is not the one that was accepted".into()));
        }
        let index = Index::from_bytes(&bytes, &self.limits)
            .map_err(|error| wrong(error.to_string()))?
            .for_site(&self.site.name);
        self.copy(&index, &bytes)?;
        let row = row(&index, known.index, known.signers.clone());
        Ok(self.store.commit(|db| generations::put(db, &row))?)
    }
}
