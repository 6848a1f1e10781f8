//! Which bundles are too old for a site that is enrolled after its database was lost: what `floors.json`, the files in `rescued` and, where `floors.json` is
//! gone, the kept generations show.
//!
//! What comes in: the state folder, and the root of the kit. What goes out: the highest of these floors, and what is not known, for the person who
//! enrols; a kept generation counts where that root accounts for its signed metadata. Metadata counts only as far as it verifies.
//! It writes into the database, and the floors beside it.

use outhaul_signer::TrustedMetadata;
use outhaul_signer::clock::TimePolicy;
use outhaul_signer::trust;
use outhaul_site::backup::saved_floors::{self, RestoredFloor};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::generation;
use crate::known_again::KeptMetadata;
use crate::state::floors::{self, Floors};
use crate::state::{SiteIdentity, StateError};
use crate::state_folder::StateFolder;

/// Most generations that are looked at, the newest; two are kept.
pub const MAX_GENERATIONS: usize = 16;

/// What is known of older bundles again, where nothing else says which are too old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFloors {
    /// The newest bundle whose metadata was verified: older ones are refused.
    pub from: Option<u64>,
    /// The newest bundle on disk, where it is another: ones between may be accepted.
    pub on_disk: Option<u64>,
}

/// How both are gone.
const GONE: &str = "the record of the highest versions (`floors.json`) is gone, too";

impl KeptFloors {
    /// What is known, where no warning is needed.
    pub fn sentence(&self) -> Option<String> {
        let from = self.from.filter(|_| self.on_disk.is_none())?;
        Some(format!(
            "{GONE}: bundles older than {from} are refused, by the signed metadata of bundle {from} on disk; nothing here shows whether a \
             newer one was accepted before"
        ))
    }

    /// That older bundles may be accepted, and what to do.
    pub fn warning(&self) -> Option<(String, String)> {
        let refused = match self.from {
            Some(from) => format!("only bundles older than {from} are refused"),
            None => "older bundles may be accepted".to_owned(),
        };
        match (self.from, self.on_disk) {
            (Some(_), None) => None,
            (_, Some(newest)) => Some((
                format!(
                    "{GONE}, and the metadata of bundle {newest} on disk cannot be verified from this kit: {refused}"
                ),
                format!("import nothing older than bundle {newest}"),
            )),
            (None, None) => Some((
                format!("{GONE}, and no bundle is on disk: {refused}"),
                "ask the centre which number this site ran last, and import nothing older"
                    .to_owned(),
            )),
        }
    }
}

/// Stores what a kit's root and an earlier store of this site say, and what is saved of it in `rescued`: what that had accepted still holds. `lost` says that
/// there was one; what is returned then, where its floors are gone and nothing saved shows newer ones, is what the kept generations show.
///
/// # Errors
/// [`StateError`]
pub fn store(
    state_folder: &StateFolder,
    (kit, site): (&TrustedMetadata, &SiteIdentity),
    now: TimePolicy,
    lost: bool,
    db: &Connection,
) -> Result<(Option<KeptFloors>, RestoredFloor), StateError> {
    let role = site.stream.role.as_str();
    let before = floors::floors(db, &state_folder.floors())?;
    let (mut kept, mut shown) = (before.clone(), None);
    if lost && kept.is_empty() {
        let found = of(state_folder, kit, role, now);
        kept = found.0;
        shown = Some(found.1);
    }
    // They came along when a state folder was moved aside, or are of a database that was removed.
    let saved = saved_floors::of(state_folder, (&site.fleet, &site.name)).raise(&mut kept, role);
    let shown = shown.filter(|_| saved.shown_by.is_empty());
    if kept != before {
        floors::raise(state_folder, db, &kept)?;
    }
    floors::store_trusted(db, kit)?;
    floors::store(db, &kept)?;
    Ok((shown, saved))
}

/// The floors that the kept generations of the stream `role` show, from the root of a kit on.
fn of(
    state_folder: &StateFolder,
    kit: &TrustedMetadata,
    role: &str,
    now: TimePolicy,
) -> (Floors, KeptFloors) {
    let found = generation::on_disk(state_folder).unwrap_or_default();
    let mut numbers: Vec<u64> = found.into_iter().map(|(number, _)| number).collect();
    numbers.sort_unstable();
    let newest = numbers.last().copied();
    let (mut trusted, mut floors, mut from) = (kit.clone(), Floors::new(), None);
    for number in numbers.into_iter().rev().take(MAX_GENERATIONS).rev() {
        let kept = KeptMetadata {
            state_folder,
            number,
        };
        // An expired date blocks new installs, and never the floors.
        match trust::verify(&trusted, &floors, &kept, role, now) {
            Ok(accepted) => {
                from = Some(accepted.number);
                (trusted, floors) = (accepted.trusted, accepted.versions);
            }
            Err(error) => tracing::debug!("bundle {number} on disk shows no floors: {error}"),
        }
    }
    let on_disk = newest.filter(|newest| from.is_none_or(|from| from < *newest));
    (floors, KeptFloors { from, on_disk })
}
