//! What is held by a database that was saved in `rescued`, and by a copy of the holds there: a backup that is older does not know it.
//!
//! What comes in: the state folder that a site is restored into, and the header of its backup. What goes out: the holds that were given since the backup,
//! put into the restored database beside those of the backup, and a sentence about each file that they came from. A hold is never dropped: one that
//! was released since the backup is held again. Of `rescued`, it removes the copy of the holds alone, when they are in the database.

use std::path::{Path, PathBuf};

use outhaul_kit::text;
use rusqlite::Connection;

use super::format::Header;
use crate::durable;
use crate::rescued;
use crate::state::folder_identity::FolderIdentity;
use crate::state::holds::{self, beside::Holds};
use crate::state::{self, StateError, Store, former, key, outbox, saved};
use crate::state_folder::{RESCUED, StateFolder};

use super::BackupError;

/// Refuses what is saved in `rescued` for another site than the one of the backup: nothing would ever send or use it.
///
/// # Errors
/// [`BackupError::OtherRescued`]
pub(super) fn refuse_of_another(
    state_folder: &StateFolder,
    header: &Header,
) -> Result<(), BackupError> {
    let all = rescued::owners(state_folder).into_iter();
    let other = all
        .filter(|((fleet, site), _)| (fleet, site) != (&header.fleet, &header.site))
        .map(|((fleet, site), shown)| (format!("site `{site}` of fleet {fleet}"), shown))
        .next();
    match other {
        None => Ok(()),
        Some((found, shown)) => Err(BackupError::OtherRescued {
            folder: state_folder.root().to_owned(),
            path: state_folder.root().join(shown),
            found,
            own: format!("site `{}` of fleet {}", header.site, header.fleet),
        }),
    }
}

/// What was held after the backup was made, by one file in `rescued`.
pub(super) struct SavedHolds {
    path: PathBuf,
    /// `None` where it cannot be read.
    holds: Option<Holds>,
}

/// The holds in `rescued` that the backup does not know, the newest file last. Those of a database that is older than the backup are no news.
pub(super) fn since(state_folder: &StateFolder, header: &Header) -> Vec<SavedHolds> {
    let rescued = state_folder.root().join(RESCUED);
    let modified = |path: &PathBuf| std::fs::metadata(path).and_then(|found| found.modified());
    let mut databases = former::databases(&rescued);
    databases.sort_by_key(|path| modified(path).ok());
    let mut found: Vec<SavedHolds> = databases
        .into_iter()
        .filter_map(|path| of_database(path, header))
        .collect();
    found.extend(of_copy(&StateFolder::new(&rescued), header));
    found
}

fn of_database(path: PathBuf, header: &Header) -> Option<SavedHolds> {
    match holds_in(&path, header) {
        Ok(Some(holds)) => Some(SavedHolds {
            path,
            holds: Some(holds),
        }),
        Ok(None) => None,
        Err(_) => Some(SavedHolds { path, holds: None }),
    }
}

/// The holds of a saved database; `None` where it is older than the backup.
fn holds_in(path: &Path, header: &Header) -> Result<Option<Holds>, StateError> {
    let site = saved::site_in(path)?;
    let store = Store::open_read_only(path)?;
    let last = outbox::cursor(store.read())?.last;
    match site.epoch == header.epoch && last <= header.reports_last {
        true => Ok(None),
        false => Holds::of(store.read()).map(Some),
    }
}

/// The copy of the holds that was moved there with `site.json` when the folder was moved aside for this restore.
fn of_copy(rescued: &StateFolder, header: &Header) -> Option<SavedHolds> {
    let path = rescued.holds();
    let known = FolderIdentity::read(&rescued.identity());
    let is_older = known.is_some_and(|known| {
        let is_other = (&known.fleet, &known.site) != (&header.fleet, &header.site);
        is_other || (known.epoch == header.epoch && known.reports <= header.reports_last)
    });
    (path.exists() && !is_older).then(|| SavedHolds {
        holds: holds::beside::read(rescued),
        path,
    })
}

/// Puts them into the restored database. Returns what a person has to know about them.
///
/// # Errors
/// [`StateError`]
pub(super) fn give_back(db: &Connection, found: &[SavedHolds]) -> Result<Vec<String>, StateError> {
    let mut sentences = Vec::new();
    let mut all = holds::of_assignments(db)?;
    for SavedHolds { path, holds } in found {
        let shown = text::path(path);
        let Some(holds) = holds else {
            sentences.push(format!(
                "`{shown}` cannot be read, so that what was held when it was saved is not known: where something was held, give `outhaul-agent hold`, \
                 or for one assignment `outhaul-agent hold --assignment NAME`, before the service is started"
            ));
            continue;
        };
        let mut given = Vec::new();
        if let Some(site) = &holds.site {
            state::set_meta(db, key::HOLD, Some(site))?;
            given.push(format!("the site ({})", site.sentence()));
        }
        for (name, hold) in &holds.assignments {
            all.insert(name.clone(), hold.clone());
            given.push(format!(
                "`{name}` ({})",
                holds::sentence(hold, hold.generation)
            ));
        }
        if !given.is_empty() {
            sentences.push(format!(
                "held again, as in `{shown}`, which was saved after the backup was made: {}",
                given.join(", ")
            ));
        }
    }
    holds::store(db, &all)?;
    Ok(sentences)
}

/// Removes the copy of the holds, which the site has again: a later restore would take it for news. One that stays does no harm.
pub(super) fn remove_copy(state_folder: &StateFolder) {
    let rescued = StateFolder::new(&state_folder.root().join(RESCUED));
    for path in [rescued.holds(), rescued.identity()] {
        let _ = durable::remove_file(&path);
    }
}
