//! The highest versions that files in `rescued` show this site to have accepted: a backup that is older does not know them.
//!
//! What comes in: the state folder, and which site it is to be. What goes out: the highest floors of `floors.json` and of the databases that are saved
//! there, with the files that show them. A file of another site, and one that cannot be read, shows none. It writes nothing.

use std::path::{Path, PathBuf};

use outhaul_bundle::name::Name;
use outhaul_kit::text;
use rusqlite::Connection;

use crate::rescued;
use crate::state::floors::{self, Floors};
use crate::state::folder_identity::FolderIdentity;
use crate::state::{self, SiteIdentity, StateError, Store, key, saved};
use crate::state_folder::StateFolder;

/// What is saved of floors.
#[derive(Debug, Default)]
pub struct SavedFloors {
    /// The highest, by name.
    pub floors: Floors,
    /// The files that were read.
    pub files: Vec<PathBuf>,
}

impl SavedFloors {
    fn take(&mut self, floors: Floors, path: PathBuf) {
        raise(&mut self.floors, &floors);
        self.files.push(path);
    }

    /// The saved version of `name`, where it is higher than `below`.
    fn above(&self, name: &str, below: u64) -> Option<u64> {
        self.floors
            .get(name)
            .copied()
            .filter(|saved| *saved > below)
    }
}

/// Which bundles a restored site takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredFloor {
    /// The oldest; 0 where the backup knows none.
    pub from: u64,
    /// The saved files that show that it was accepted; without any, nothing here shows whether a newer one was.
    pub shown_by: Vec<PathBuf>,
}

impl RestoredFloor {
    /// What a person has to know of it.
    pub fn sentence(&self) -> String {
        let from = self.from;
        let files: Vec<_> = self
            .shown_by
            .iter()
            .map(|path| format!("`{}`", text::path(path)))
            .collect();
        match (files.is_empty(), from) {
            (false, _) => format!(
                "bundles older than {from} are refused, as {} shows the highest versions that this site has accepted",
                files.join(", ")
            ),
            (true, 0) => "no bundle was accepted before the backup was made, and nothing here shows whether one was since: each bundle of this site's \
                          stream is accepted; ask the centre which one this site ran last, and import nothing older"
                .to_owned(),
            (true, _) => format!(
                "warning: nothing here shows which bundles this site accepted after the backup was made: bundles older than {from} are refused, and each \
                 from {from} on is accepted, also one that is older than what this site ran last; ask the centre which one that was, and import nothing \
                 older"
            ),
        }
    }
}

/// The oldest bundle of the site's stream that the floors in a database let in.
pub(super) fn floor_of(db: &Connection, site: &SiteIdentity) -> Result<u64, StateError> {
    let floors = floors::in_database(db)?;
    Ok(floors.get(site.stream.role.as_str()).copied().unwrap_or(0))
}

/// Raises the floors of the backup to those that are saved. What the backup knows is never lowered.
pub(super) fn raised(
    inside: &StateFolder,
    store: &mut Store,
    site: &SiteIdentity,
    saved: &SavedFloors,
) -> Result<RestoredFloor, StateError> {
    let before = floor_of(store.read(), site)?;
    let mut floors = floors::floors(store.read(), &inside.floors())?;
    raise(&mut floors, &saved.floors);
    floors::write_sidecar(store.read(), &inside.floors(), &floors)?;
    let shown_by = saved.files.clone();
    store.commit(|db| {
        floors::store(db, &floors)?;
        let kept = Some(&shown_by).filter(|files| !files.is_empty());
        state::set_meta(db, key::RESTORED_FLOORS, kept)
    })?;
    let from = saved.above(site.stream.role.as_str(), before);
    Ok(RestoredFloor {
        from: from.unwrap_or(before),
        shown_by,
    })
}

/// Raises each floor to that of `others` where that is higher.
fn raise(floors: &mut Floors, others: &Floors) {
    for (name, version) in others {
        let floor = floors.entry(name.clone()).or_insert(*version);
        *floor = (*floor).max(*version);
    }
}

/// What is saved for the site `site` of the fleet `fleet`.
pub fn of(state_folder: &StateFolder, (fleet, site): (&Name, &Name)) -> SavedFloors {
    let mut found = SavedFloors::default();
    let copy = rescued::copied(state_folder);
    let known = FolderIdentity::read(&copy.identity());
    if known.is_some_and(|known| (&known.fleet, &known.site) == (fleet, site))
        && let Some(floors) = floors::in_sidecar(&copy.floors())
    {
        found.take(floors, copy.floors());
    }
    for path in saved::all(&state_folder.database()) {
        match in_database(&path, (fleet, site)) {
            Ok(Some(floors)) => found.take(floors, path),
            Ok(None) => {}
            Err(error) => {
                tracing::debug!("`{}` shows no floors: {error}", path.display());
            }
        }
    }
    found
}

fn in_database(path: &Path, of: (&Name, &Name)) -> Result<Option<Floors>, StateError> {
    let site = saved::site_in(path)?;
    if (&site.fleet, &site.name) != of {
        return Ok(None);
    }
    let store = Store::open_read_only(path)?;
    floors::in_database(store.read()).map(Some)
}
