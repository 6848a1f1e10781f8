//! What held assignments keep, known again after a lost database: the bundle that brought it, by its own signed metadata on disk.
//!
//! What comes in: the holds that were given back, and the folders of the kept bundles. What goes out: the row of each bundle at which
//! an assignment is held, where its metadata verifies from the root of the kit on and lists the index that lies beside it; and the others, whose
//! content is not known. It writes into the database alone; whether each file is whole is looked at where it is used.

use outhaul_signer::TrustedMetadata;
use rusqlite::Connection;

use crate::held::Lacking;
use crate::known_again;
use crate::state::floors::Floors;
use crate::state::{StateError, generations, holds};
use crate::state_folder::StateFolder;
use outhaul_site::stored;

/// Stores what is known again of the bundles at which assignments are held. Returns what is not.
///
/// # Errors
/// [`StateError`]
pub fn store(
    state_folder: &StateFolder,
    (kit, role): (&TrustedMetadata, &str),
    floors: &Floors,
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
        match known_again::verified(state_folder, number, kit, role) {
            Some(row) => stored::add_known(db, &row)?,
            None => lacking.push(Lacking {
                name,
                generation: number,
                is_too_old: takes_from > number,
            }),
        }
    }
    Ok(lacking)
}
