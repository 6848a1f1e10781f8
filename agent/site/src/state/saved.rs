//! The databases that are saved in `rescued`: which of them are whole, whose they are, and which one may take the place of one that is gone.
//!
//! What comes in: the path of a site's database. What goes out: a saved one that was read from its first page to its last, and the command that puts
//! it back. It changes none of them, and never names one that is damaged as a way back.

use std::path::{Path, PathBuf};

use outhaul_bundle::name::Name;
use outhaul_kit::text;

use super::folder_identity::FolderIdentity;
use super::{SiteIdentity, StateError, Store, former, key, meta, outbox, rescue};
use crate::aside;
use crate::durable;
use crate::state_folder::{REPORTS, RESCUED};

/// The database that was saved beside `database` and may take its place: the one with the most reports of the numbering that `site.json` names,
/// or where that file is missing, the last one. None that is damaged, and none that is older than what this site worked with last.
pub fn beside(database: &Path) -> Option<PathBuf> {
    let mut all = former::best_first(database).into_iter();
    all.find(|path| site_in(path).is_ok())
}

/// The saved ones that may not take the place of any, because they are damaged.
pub(crate) fn damaged_beside(database: &Path) -> Vec<PathBuf> {
    let mut found = all(database);
    found.retain(|path| site_in(path).is_err());
    found
}

/// Everything that was saved beside `database`, by its name.
pub fn all(database: &Path) -> Vec<PathBuf> {
    former::databases(&database.with_file_name(RESCUED))
}

/// Whose the saved database at `path` is; all of it is read.
///
/// # Errors
/// [`StateError::Damaged`] where it is not whole any more, [`StateError::NotEnrolled`] where it is no site's.
pub fn site_in(path: &Path) -> Result<SiteIdentity, StateError> {
    let store = Store::open_read_only(path)?;
    if rescue::has_holes(store.read()).unwrap_or(true) {
        return Err(StateError::Damaged {
            path: path.to_owned(),
            problem: "parts of it are zeros".to_owned(),
        });
    }
    meta(store.read(), key::SITE)?.ok_or_else(|| StateError::NotEnrolled {
        folder: path.to_owned(),
    })
}

/// The saved database at `path`, where it is one of `site` of `fleet`; all of it is read.
///
/// # Errors
/// As [`site_in`].
pub fn open_of(path: &Path, (fleet, site): (&Name, &Name)) -> Result<Option<Store>, StateError> {
    let of = site_in(path)?;
    match (&of.fleet, &of.name) == (fleet, site) {
        true => Store::open_read_only(path).map(Some),
        false => Ok(None),
    }
}

/// Whether all that the lost database held is saved beside it, or every report of it at least: as far as `site.json` has noted how many there were.
pub fn has_all(database: &Path) -> bool {
    let Some(known) = FolderIdentity::beside(database) else {
        return false;
    };
    beside(database).is_some() || has_reports_up_to(database, &known)
}

/// Whether the last report that `known` has noted is in a file of saved reports.
fn has_reports_up_to(database: &Path, known: &FolderIdentity) -> bool {
    let folder = database.with_file_name(RESCUED).join(REPORTS);
    let found = durable::list(&folder).unwrap_or_default();
    let numbers = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let (epoch, _, last) = outbox::of_file_name(name, &known.site)?;
        Some(epoch == known.epoch.as_str() && last >= known.reports)
    };
    found.iter().any(|path| numbers(path) == Some(true))
}

/// The command that puts the saved database back. What SQLite wrote beside the removed one would be put into it; a database that is in place by then is
/// left alone.
pub fn put_back_command(database: &Path, saved: &Path) -> String {
    let beside = aside::BESIDE_DATABASE.map(|end| text::quoted(aside::ending(database, end)));
    let (database, saved) = (text::quoted(database), text::quoted(saved));
    format!(
        "if test -s {database}; then echo {database}: a database is there >&2; false; else rm -f {beside} && mv {saved} {database}; fi",
        beside = beside.join(" "),
    )
}
