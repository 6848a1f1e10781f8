//! The highest versions that files in `rescued` show this site to have accepted: a backup that is older, and an enrolment after a lost database, do
//! not know them.
//!
//! What comes in: the state folder, and which site it is to be. What goes out: the floors of `floors.json` and of the databases that are saved there,
//! by file; a `floors.json` that cannot be used; and what to tell a person. A file of another site shows none. It lowers no floor, and writes into the
//! database of a site that is being restored alone, and the floors beside it.

use std::path::PathBuf;

use outhaul_bundle::name::Name;
use outhaul_kit::text;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::rescued;
use crate::state::floors::{self, Floors};
use crate::state::folder_identity::FolderIdentity;
use crate::state::{self, SiteIdentity, StateError, Store, key, saved};
use crate::state_folder::StateFolder;

/// What is saved of floors.
#[derive(Debug, Default)]
pub struct SavedFloors {
    /// Each file, and what it has.
    files: Vec<(PathBuf, Floors)>,
    /// A file of floors that is damaged, or of which no `site.json` beside it shows which site it is of.
    unread: Option<PathBuf>,
}

impl SavedFloors {
    /// Raises `floors` to those that are saved. What is higher already stays. Returns which bundles of the stream `role` are accepted then, and by
    /// which files.
    pub fn raise(&self, floors: &mut Floors, role: &str) -> RestoredFloor {
        let before = floors::takes_from(floors, role);
        let shows_more = |saved: &Floors| floors::takes_from(saved, role) > before;
        let shown_by = self.files.iter().filter(|(_, saved)| shows_more(saved));
        let shown_by = shown_by.map(|(path, _)| path.clone()).collect();
        for (_, saved) in &self.files {
            floors::raise_each(floors, saved);
        }
        RestoredFloor {
            from: floors::takes_from(floors, role),
            shown_by,
            unread: self.unread.clone(),
        }
    }
}

/// Which bundles a site takes that was restored, or enrolled after its database was lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredFloor {
    /// The oldest; 0 where none is known.
    pub from: u64,
    /// The saved files that show more than the backup does; without any, nothing here shows whether a newer one was accepted.
    pub shown_by: Vec<PathBuf>,
    /// A saved file of floors that could not be used, and stays.
    pub unread: Option<PathBuf>,
}

impl RestoredFloor {
    /// What a person has to know of it after a restore.
    pub fn sentence(&self) -> String {
        let from = self.from;
        let unread = self.unread_sentence();
        let unread = unread.map_or_else(String::new, |unread| format!("; {unread}"));
        if let Some(shown) = self.shown_sentence() {
            return shown + &unread;
        }
        let sentence = match from {
            0 => "warning: no bundle was accepted before the backup was made, and nothing here shows whether one was since: each bundle of this site's \
                  stream is accepted; ask the centre which one this site ran last, and import nothing older"
                .to_owned(),
            _ => format!(
                "warning: nothing here shows which bundles this site accepted after the backup was made: bundles older than {from} are refused, and each \
                 from {from} on is accepted, also one that is older than what this site ran last; ask the centre which one that was, and import nothing \
                 older"
            ),
        };
        sentence + &unread
    }

    /// What the saved files show, where they show more than was known without them.
    pub fn shown_sentence(&self) -> Option<String> {
        let files: Vec<_> = self
            .shown_by
            .iter()
            .map(|path| format!("`{}`", text::path(path)))
            .collect();
        let show = match files.as_slice() {
            [] => return None,
            [_] => "shows",
            _ => "show",
        };
        Some(format!(
            "bundles older than {} are refused, as {} {show} the highest versions that this site has accepted",
            self.from,
            files.join(" and ")
        ))
    }

    /// That a saved file of floors could not be used.
    pub fn unread_sentence(&self) -> Option<String> {
        let path = text::path(self.unread.as_ref()?);
        Some(format!(
            "`{path}` is damaged, or no `site.json` beside it shows that it is of this site, so that the versions in it are not known; the file stays there"
        ))
    }
}

/// Raises the floors of the backup to those that are saved. What the backup knows is never lowered.
pub(super) fn raised(
    inside: &StateFolder,
    store: &mut Store,
    site: &SiteIdentity,
    saved: &SavedFloors,
) -> Result<RestoredFloor, StateError> {
    let mut floors = floors::floors(store.read(), &inside.floors())?;
    let found = saved.raise(&mut floors, site.stream.role.as_str());
    floors::write_sidecar(store.read(), &inside.floors(), &floors)?;
    store.commit(|db| {
        floors::store(db, &floors)?;
        state::set_meta(db, key::RESTORED_FLOOR, Some(&found))
    })?;
    Ok(found)
}

/// The same of a site whose restore was interrupted when its database was in place.
///
/// # Errors
/// [`StateError`]
pub fn of_restored(db: &Connection, site: &SiteIdentity) -> Result<RestoredFloor, StateError> {
    let known: Option<RestoredFloor> = state::meta(db, key::RESTORED_FLOOR)?;
    Ok(RestoredFloor {
        from: floors::takes_from(&floors::in_database(db)?, site.stream.role.as_str()),
        ..known.unwrap_or_default()
    })
}

/// What is saved for the site `site` of the fleet `fleet`.
pub fn of(state_folder: &StateFolder, (fleet, site): (&Name, &Name)) -> SavedFloors {
    let mut found = SavedFloors::default();
    let copy = rescued::copied(state_folder);
    let known = FolderIdentity::read(&copy.identity());
    let is_own = known.map(|known| (&known.fleet, &known.site) == (fleet, site));
    match (is_own, floors::in_sidecar(&copy.floors())) {
        (Some(true), Some(floors)) => found.files.push((copy.floors(), floors)),
        (Some(false), _) => {}
        (Some(true), None) | (None, _) => {
            found.unread = Some(copy.floors()).filter(|path| path.exists());
        }
    }
    for path in saved::all(&state_folder.database()) {
        let opened = saved::open_of(&path, (fleet, site));
        let floors = opened.and_then(|store| {
            let store = store.as_ref();
            store
                .map(|store| floors::in_database(store.read()))
                .transpose()
        });
        match floors {
            Ok(Some(floors)) => found.files.push((path, floors)),
            Ok(None) => {}
            // That it is damaged is said with the holds that it may have.
            Err(error) => {
                tracing::debug!("`{}` shows no floors: {error}", path.display());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(all: &[(&str, u64)]) -> SavedFloors {
        let file = |(path, number): &(&str, u64)| {
            let floors = Floors::from([("role".to_owned(), *number)]);
            (PathBuf::from(path), floors)
        };
        SavedFloors {
            files: all.iter().map(file).collect(),
            unread: None,
        }
    }

    #[test]
    fn only_files_that_show_more_than_the_backup_are_named() {
        let raised = |all: &[(&str, u64)]| {
            let mut floors = Floors::from([("role".to_owned(), 3)]);
            let found = saved(all).raise(&mut floors, "role");
            assert_eq!(floors["role"], found.from);
            found
        };
        let none = raised(&[("/older", 2), ("/same", 3)]);
        assert_eq!((none.from, none.shown_sentence()), (3, None));
        assert!(none.sentence().starts_with("warning: "), "{none:?}");
        let one = raised(&[("/older", 2), ("/newer", 4)]).sentence();
        assert!(one.contains("older than 4 are refused, as `/newer` shows the"));
        let two = raised(&[("/a", 5), ("/b", 4)]).sentence();
        assert!(two.contains("older than 5 are refused, as `/a` and `/b` show the"));
        let first = RestoredFloor::default().sentence();
        assert!(first.starts_with("warning: no bundle"), "{first}");
    }
}
