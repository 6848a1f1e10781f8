//! What held assignments keep, known again after a lost database: the bundle that brought it, by its own signed metadata on disk.
//!
//! What comes in: the holds that were given back, and the folders of the kept bundles. What goes out: the row of each bundle at which
//! an assignment is held, where its metadata verifies from the root of the kit on and lists the index that lies beside it; and the others, whose
//! content is not known. It writes into the database alone; whether each file is whole is looked at where it is used.

use outhaul_bundle::{Digest, Index, Limits};
use outhaul_signer::TrustedMetadata;
use outhaul_signer::clock::TimePolicy;
use outhaul_signer::trust;
use rusqlite::Connection;

use super::kept_floors::Kept;
use crate::durable;
use crate::machine::State;
use crate::runner::held::Lacking;
use crate::state::floors::Floors;
use crate::state::generations::{self, Generation};
use crate::state::{Note, StateError, holds};
use crate::state_folder::StateFolder;

/// Where such a bundle came from, as far as it is known.
pub(crate) const SOURCE: &str = "known again on disk, after the database was lost";

/// Stores what is known again of the bundles at which assignments are held. Returns what is not.
pub(super) fn store(
    state_folder: &StateFolder,
    (kit, role): (&TrustedMetadata, &str),
    floors: &Floors,
    now: TimePolicy,
    db: &Connection,
) -> Result<Vec<Lacking>, StateError> {
    let takes_from = floors.get(role).copied().unwrap_or(0);
    let mut lacking = Vec::new();
    for (name, hold) in holds::of_assignments(db)? {
        let Some(number) = hold.generation else {
            continue;
        };
        if generations::one(db, number)?.is_some() {
            continue;
        }
        match verified(state_folder, number, kit, role, now) {
            Some(row) => generations::put(db, &row)?,
            None => lacking.push(Lacking {
                name,
                generation: number,
                is_too_old: takes_from > number,
            }),
        }
    }
    Ok(lacking)
}

/// The row of a bundle on disk. It is of the past: an expired date, and the floors, count for what is new.
fn verified(
    state_folder: &StateFolder,
    number: u64,
    kit: &TrustedMetadata,
    role: &str,
    now: TimePolicy,
) -> Option<Generation> {
    let kept = Kept {
        state_folder,
        number,
    };
    let accepted = trust::verify(kit, &Floors::new(), &kept, role, now);
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
