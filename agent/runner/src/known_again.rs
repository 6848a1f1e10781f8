//! A bundle on disk of which no row says anything, after a lost database: known again by its own signed metadata.
//!
//! What comes in: the folder of a kept bundle, and the metadata that this site trusts. What goes out: its row, where that metadata verifies and
//! lists the index that lies beside it; and which bundle an assignment is from that such a bundle applied. It writes into the
//! inventory alone; whether each file is
//! whole is looked at where it is used.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outhaul_bundle::{Digest, Index, Limits};
use outhaul_reconcilers::Item;
use outhaul_signer::clock::TimePolicy;
use outhaul_signer::trust::{self, SourceError};
use outhaul_signer::{MetadataSource, TrustedMetadata};
use rusqlite::Connection;
use serde::de::IgnoredAny;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::machine::State;
use crate::state::floors::{self, Floors};
use crate::state::generations::Generation;
use crate::state::{self, Note, StateError, holds, inventory, key};
use crate::state_folder::StateFolder;
use crate::{apply, durable, generation, held};

/// Where such a bundle came from, as far as it is known.
pub const SOURCE: &str = "known again on disk, after the database was lost";

/// What is of the past is not too old for this: an expired date blocks what is new, and never what runs.
const LONG_AGO: TimePolicy = TimePolicy {
    lower_bound: Timestamp::UNIX_EPOCH,
    wall: Timestamp::UNIX_EPOCH,
    wall_trusted: false,
};

/// Whether nothing is active since an enrolment after a lost database: what runs is what that database knew, and the bundles on disk show it.
///
/// # Errors
/// [`StateError`]
pub fn is_lost(db: &Connection) -> Result<bool, StateError> {
    let lost: Option<IgnoredAny> = state::meta(db, key::LOST)?;
    let active: Option<u64> = state::meta(db, key::ACTIVE)?;
    Ok(lost.is_some() && active.is_none())
}

/// The bundle that an assignment is from which was applied before the database was lost; `None` where nothing is known of it, or the database was not
/// lost. What of it a newer bundle left as it was counts for that one: the oldest that is named is the one that ran.
///
/// # Errors
/// [`StateError`]
pub fn applied_before(db: &Connection, name: &str) -> Result<Option<u64>, StateError> {
    if !is_lost(db)? {
        return Ok(None);
    }
    let items = inventory::present(db, Some(name))?;
    Ok(items.iter().map(|item| item.generation).min())
}

/// The index of a bundle on disk, as this site gets it: from its row, or known again.
pub fn index_of(agent: &Agent, number: u64) -> Option<Index> {
    if let Ok(index) = crate::index_of(agent, number) {
        return Some(index);
    }
    let row = row_of(agent, number)?;
    let index = generation::read_index(&agent.state_folder, number, &row.index, &agent.limits);
    Some(index.ok()?.for_site(&agent.site.name))
}

/// The row of a bundle on disk that has none.
pub fn row_of(agent: &Agent, number: u64) -> Option<Generation> {
    let mut trusted = floors::trusted(agent.store.read()).ok()?;
    // By the root alone: a newer bundle that was taken in since has newer metadata, and this is of the past.
    trusted.0.retain(|name, _| name == "root.json");
    let role = agent.site.stream.role.as_str();
    verified(&agent.state_folder, number, &trusted, role)
}

/// The newest bundle that was here, by the floors or by what people hold, and that is not on disk: nothing shows what it brought.
///
/// # Errors
/// [`StateError`]
pub fn absent(
    state_folder: &StateFolder,
    role: &str,
    db: &Connection,
) -> Result<Option<u64>, StateError> {
    let on_disk: BTreeSet<u64> = generation::on_disk(state_folder)?
        .into_iter()
        .map(|(number, _)| number)
        .collect();
    // Where the floors cannot be known, they name no bundle.
    let floors = floors::floors(db, &state_folder.floors()).unwrap_or_default();
    let accepted = floors.get(role).copied().filter(|number| *number > 0);
    let held = holds::of_assignments(db)?;
    let held = held.values().filter_map(|hold| hold.generation);
    Ok(held
        .chain(accepted)
        .filter(|number| !on_disk.contains(number))
        .max())
}

/// What a held assignment keeps counts as applied by this agent where it is on this host exactly so, and an enrolment after a lost database could
/// not know that, because the bundle was not on disk.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn know_held(agent: &mut Agent) -> Result<(), AgentError> {
    let disputed: Vec<Item> = state::meta(agent.store.read(), key::DISPUTED)?.unwrap_or_default();
    if disputed.is_empty() || agent.config.apply.helper.is_some() {
        return Ok(());
    }
    let folder = apply::folder(&agent.config, &agent.state_folder);
    let is_disputed = |item: &Item| {
        let mut all = disputed.iter();
        all.any(|one| (&one.assignment, &one.item) == (&item.assignment, &item.item))
    };
    let mut known = Vec::new();
    for (name, hold) in held::all(agent)? {
        let kept = held::kept(agent, &name, &hold);
        let same = kept.map_or_else(Vec::new, |desired| folder.known_again(&desired).0);
        known.extend(same.into_iter().filter(is_disputed));
    }
    if known.is_empty() {
        return Ok(());
    }
    let stored = agent.commit(|db, _| known.iter().try_for_each(|item| inventory::put(db, item)));
    stored.map_err(|error: StateError| error.into())
}

/// Metadata as it lies beside a generation.
#[derive(Debug, Clone, Copy)]
pub struct KeptMetadata<'a> {
    /// Where all lies.
    pub state_folder: &'a StateFolder,
    /// The bundle.
    pub number: u64,
}

impl KeptMetadata<'_> {
    fn path(&self, name: &str) -> Option<PathBuf> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if !name.bytes().all(plain) {
            return None;
        }
        let metadata = self.state_folder.generation(self.number).join("metadata");
        let versioned = name
            .split_once('.')
            .filter(|(version, _)| version.bytes().all(|b| b.is_ascii_digit()));
        Some(match versioned {
            Some((_, "root.json")) => self.state_folder.roots().join(name),
            Some((_, bare)) => metadata.join(bare),
            None => metadata.join(name),
        })
    }
}

impl MetadataSource for KeptMetadata<'_> {
    fn fetch(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError> {
        let read = |path: PathBuf| durable::read_if_present(Path::new(&path), max_bytes);
        let found = self.path(name).map_or(Ok(None), read);
        found.map_err(|error| SourceError::Unreadable {
            name: name.to_owned(),
            reason: error.to_string(),
        })
    }
}

/// The row of a bundle on disk; `None` where its metadata does not verify, or lists another index. It is of the past: an expired date, and the
/// floors, count for what is new.
pub fn verified(
    state_folder: &StateFolder,
    number: u64,
    trusted: &TrustedMetadata,
    role: &str,
) -> Option<Generation> {
    let kept = KeptMetadata {
        state_folder,
        number,
    };
    let accepted = trust::verify(trusted, &Floors::new(), &kept, role, LONG_AGO);
    let accepted = accepted
        .inspect_err(|error| tracing::debug!("bundle {number} on disk is not known: {error}"))
        .ok()
        .filter(|accepted| accepted.number == number)?;
    let limits = Limits::default();
    let path = state_folder.generation(number).join("index.json");
    let bytes = durable::read(&path, limits.max_index_bytes).ok()?;
    let digest = Digest::of(&bytes);
    let index = Index::from_bytes(&bytes, &limits).ok()?;
    let is_listed = digest == Digest::from_bytes(accepted.index_sha256);
    (is_listed && index.number == number).then(|| Generation {
        number,
        index: digest,
        state: State::Superseded,
        signers: accepted.trusted.stream_signers(role),
        stream: index.stream,
        snapshot: index.snapshot,
        source: SOURCE.to_owned(),
        note: Note::default(),
        good: true,
        whole: true,
    })
}
