//! What is held by a database that was saved in `rescued`, and by a copy of the holds there: a backup that is older does not know it.
//!
//! What comes in: the state folder that a site is restored into, and the header of its backup. What goes out: the holds that were given since the backup,
//! put into the restored database beside those of the backup, and a sentence about each file that they came from, or that only by its time is older than
//! the backup. A hold is never dropped without a sentence: one that was released since the backup is held again. Of `rescued`, it removes the copies of
//! the holds and of the floors, with their `site.json`, when the restored site has both.

use std::path::{Path, PathBuf};

use outhaul_bundle::name::Name;
use outhaul_kit::text;
use rusqlite::Connection;

use super::format::Header;
use crate::rescued;
use crate::state::folder_identity::FolderIdentity;
use crate::state::holds::{self, beside::Holds};
use crate::state::{self, StateError, Store, former, key, outbox, saved};
use crate::state_folder::{RESCUED, StateFolder};
use crate::stored;

use super::BackupError;
use super::restored::Restored;

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

/// What one file in `rescued` says of the time after the backup was made.
pub(super) struct SavedHolds {
    path: PathBuf,
    /// The numbering of its reports, where that is known.
    epoch: Option<Name>,
    age: Age,
    /// `None` where it cannot be read.
    holds: Option<Holds>,
}

/// Whether a file was written after the backup was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    /// It is of the numbering of the backup, and has more reports.
    Newer,
    /// It is of another numbering, or of an unknown one, and its time is later.
    NewerByTime,
    /// The same, and its time is earlier.
    OlderByTime,
}

impl Age {
    /// `None` where it is certain that it is older: it is of the numbering of the backup, and knows no later report.
    fn of(path: &Path, known: Option<(&Name, u64)>, header: &Header) -> Option<Self> {
        match known {
            Some((epoch, last)) if *epoch == header.epoch => {
                (last > header.reports_last).then_some(Self::Newer)
            }
            _ => Some(match modified_ms(path) {
                Some(at_ms) if at_ms < header.made_ms => Self::OlderByTime,
                _ => Self::NewerByTime,
            }),
        }
    }
}

/// When a file was written, milliseconds since 1970 by this machine's clock.
fn modified_ms(path: &Path) -> Option<i64> {
    let modified = std::fs::metadata(path).and_then(|found| found.modified());
    let modified = jiff::Timestamp::try_from(modified.ok()?).ok()?;
    Some(modified.as_millisecond())
}

/// The holds in `rescued` that the backup may not know, the newest file last. Those of a database that is older than the backup are no news.
pub(super) fn since(state_folder: &StateFolder, header: &Header) -> Vec<SavedHolds> {
    let mut databases = former::databases(&state_folder.root().join(RESCUED));
    databases.sort_by_key(|path| modified_ms(path));
    let mut found: Vec<SavedHolds> = databases
        .into_iter()
        .filter_map(|path| of_database(path, header))
        .collect();
    found.extend(of_copy(&rescued::copied(state_folder), header));
    found
}

/// The holds of a saved database; `None` where it is older than the backup.
fn of_database(path: PathBuf, header: &Header) -> Option<SavedHolds> {
    let (epoch, age, holds) = match holds_in(&path) {
        Ok((epoch, last, holds)) => {
            let age = Age::of(&path, Some((&epoch, last)), header)?;
            (Some(epoch), age, Some(holds))
        }
        Err(_) => (None, Age::NewerByTime, None),
    };
    Some(SavedHolds {
        path,
        epoch,
        age,
        holds,
    })
}

/// The numbering of a saved database, its last report, and its holds.
fn holds_in(path: &Path) -> Result<(Name, u64, Holds), StateError> {
    let site = saved::site_in(path)?;
    let store = Store::open_read_only(path)?;
    let last = outbox::cursor(store.read())?.last;
    Ok((site.epoch, last, Holds::of(store.read())?))
}

/// The copy of the holds that was moved there with `site.json` when the folder was moved aside for this restore.
fn of_copy(rescued: &StateFolder, header: &Header) -> Option<SavedHolds> {
    let path = rescued.holds();
    if !path.exists() {
        return None;
    }
    let known = FolderIdentity::read(&rescued.identity());
    let numbered = known.as_ref().map(|known| (&known.epoch, known.reports));
    Some(SavedHolds {
        age: Age::of(&path, numbered, header)?,
        holds: holds::beside::read(rescued),
        epoch: known.map(|known| known.epoch),
        path,
    })
}

/// Whether the copy of the holds in `rescued` is of another site than the backup.
fn is_of_another(rescued: &StateFolder, header: &Header) -> bool {
    FolderIdentity::read(&rescued.identity())
        .is_some_and(|known| (&known.fleet, &known.site) != (&header.fleet, &header.site))
}

/// Puts them into the restored database, and notes there what a person has to know about them. Returns that.
///
/// # Errors
/// [`StateError`]
pub(super) fn give_back(db: &Connection, found: &[SavedHolds]) -> Result<Vec<String>, StateError> {
    let mut sentences = Vec::new();
    let before = state::meta::<Restored>(db, key::RESTORED)?.map(|restored| restored.before);
    let of_backup = Holds::of(db)?;
    let mut all = of_backup.assignments.clone();
    let mut of_site = None;
    for one in found {
        let shown = text::path(&one.path);
        // What was before the restore that the backup knows of, that restore has given back.
        if one.epoch.as_ref().map(Name::as_str) == before.as_deref() && before.is_some() {
            continue;
        }
        let Some(holds) = &one.holds else {
            sentences.push(format!(
                "`{shown}` cannot be read, so that what was held when it was saved is not known: where something was held, give `outhaul-agent hold`, \
                 or for one assignment `outhaul-agent hold --assignment NAME`, before the service is started"
            ));
            continue;
        };
        // Which of two holds is the newer one, only the numbering shows for certain: else that of the backup stays.
        let counts = |is_in_backup: bool| one.age == Age::Newer || !is_in_backup;
        let site = holds.site.as_ref();
        let site = site.filter(|_| counts(of_backup.site.is_some()));
        let assignments = holds.assignments.iter();
        let assignments: Vec<_> = assignments
            .filter(|(name, _)| counts(of_backup.assignments.contains_key(*name)))
            .collect();
        let mut given = Vec::new();
        given.extend(site.map(|site| format!("the site ({})", site.sentence())));
        given.extend(
            assignments.iter().map(|(name, hold)| {
                format!("`{name}` ({})", holds::sentence(hold, hold.generation))
            }),
        );
        if given.is_empty() {
            continue;
        }
        let given = given.join(", ");
        if one.age == Age::OlderByTime {
            sentences.push(format!(
                "not held again, because `{shown}` was saved before the backup was made, as its time shows: {given}; where that is to be held, give \
                 `outhaul-agent hold`, or for one assignment `outhaul-agent hold --assignment NAME`, before the service is started"
            ));
            continue;
        }
        if let Some(site) = site {
            of_site = Some(site);
        }
        let assignments = assignments.into_iter();
        all.extend(assignments.map(|(name, hold)| (name.clone(), hold.clone())));
        let by = match one.age {
            Age::Newer => "",
            _ => ", as its time shows",
        };
        sentences.push(format!(
            "held again, as in `{shown}`, which was saved after the backup was made{by}: {given}"
        ));
    }
    stored::put_holds(db, of_site, &all)?;
    let kept = Some(&sentences).filter(|sentences| !sentences.is_empty());
    state::set_meta(db, key::RESTORED_HOLDS, kept)?;
    Ok(sentences)
}

/// Removes the copies of the holds and of the floors, which the site has again, or which are older than its backup: a later restore would take them for
/// news. What stays does no harm; what could not be read, or was not followed, stays for a person to look at.
pub(super) fn remove_copy(state_folder: &StateFolder, header: &Header, found: &[SavedHolds]) {
    let copy = rescued::copied(state_folder);
    let path = copy.holds();
    let mut found = found.iter().filter(|one| one.path == path);
    let stays = found.any(|one| {
        let has_holds = one.holds.as_ref().is_none_or(|holds| holds.count() > 0);
        has_holds && (one.holds.is_none() || one.age == Age::OlderByTime)
    });
    if stays || is_of_another(&copy, header) {
        return;
    }
    rescued::remove_copied(state_folder, (&header.fleet, &header.site));
}
