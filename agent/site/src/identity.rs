//! Which site a state folder is, beside the database, in `site.json`: name, fleet, and how far its reports were numbered.
//!
//! What comes in: an open database, and the folder that it lies in. What goes out: nothing where the two are of one site, or an error that
//! names both; and the file, written again where it differs. A database of another site, or an older copy of this site's own, would report
//! under a wrong name, or give numbers twice. Reports that wait in an older copy are saved. The file never counts for anything else.

use outhaul_bundle::name::Name;
use outhaul_kit::text;
use rusqlite::Connection;

use crate::durable;
use crate::keys;
use crate::request;
use crate::state::folder_identity::FORMAT;
pub use crate::state::folder_identity::FolderIdentity;
use crate::state::{
    self, SiteIdentity, StateError, doing, key, meta, outbox, saved, site, to_json,
};
use crate::state_folder::{REPORTS, RESCUED, StateFolder};

/// Most numberings that are remembered: a site is renumbered when it is restored, or when the hub asks for it.
const MAX_BEFORE: usize = 256;

/// What the file has; `None` where it is not there or cannot be read.
pub fn read(state_folder: &StateFolder) -> Option<FolderIdentity> {
    FolderIdentity::read(&state_folder.identity())
}

/// Refuses a database that is not of the site that the folder is, or an older copy than the one that reported last; returns its site. Where
/// no file says so, the requests for enrolment do.
///
/// # Errors
/// [`StateError::OtherSite`], [`StateError::OlderCopy`], and [`StateError::NotEnrolled`] before enrolment.
pub fn check(state_folder: &StateFolder, db: &Connection) -> Result<SiteIdentity, StateError> {
    match compared(state_folder, db) {
        Ok(both) => Ok(both.found),
        Err(StateError::OlderCopy {
            path,
            problem,
            newer,
            ..
        }) => Err(StateError::OlderCopy {
            waiting: waiting_in_older(state_folder, db, newer.is_some())?,
            path,
            problem,
            newer,
        }),
        Err(other) => Err(other),
    }
}

/// What becomes of the reports that wait in an older copy, in words. It is on its way out of the folder, and where the newer database is lost, nothing else has
/// them: they are saved. Of a numbering from before, they were queued again since, and the hub may have others under their numbers: these stay in the copy.
fn waiting_in_older(
    state_folder: &StateFolder,
    db: &Connection,
    has_newer: bool,
) -> Result<String, StateError> {
    let (found, count) = (site(db)?, outbox::count(db)?);
    if has_newer || count == 0 {
        return Ok(String::new());
    }
    let (reports, those) = match count {
        1 => ("1 report".to_owned(), "that report is saved"),
        many => (format!("{many} reports"), "those reports are saved"),
    };
    let in_it = format!("; it holds {reports} that had not reached the hub when it was copied");
    if read(state_folder).is_none_or(|known| known.epoch != found.epoch) {
        return Ok(format!("{in_it}; keep it for the centre"));
    }
    let folder = state_folder.root().join(RESCUED).join(REPORTS);
    Ok(match state::write_reports(db, &found, &folder) {
        Ok(_) => format!("{in_it}; {those} in `{}`", text::path(&folder)),
        Err(error) => {
            format!("{in_it}, which could not be saved beside it ({error}); keep it for the centre")
        }
    })
}

/// What the file has, and what the database has, where they agree.
struct Both {
    known: Option<FolderIdentity>,
    found: SiteIdentity,
    reports: u64,
}

fn compared(state_folder: &StateFolder, db: &Connection) -> Result<Both, StateError> {
    // The file first, then both rows of one moment: a service that renumbers its reports meanwhile writes the database first.
    let known = read(state_folder);
    let moment = db
        .unchecked_transaction()
        .map_err(doing("read the site's identity"))?;
    let found = site(&moment)?;
    let reports = outbox::cursor(&moment)?.last;
    drop(moment);
    let Some(known) = known else {
        check_requests(state_folder, db, &found)?;
        return Ok(Both {
            known: None,
            found,
            reports,
        });
    };
    if (&known.fleet, &known.site) != (&found.fleet, &found.name) {
        let (fleet, name) = (&known.fleet, &known.site);
        let key = has_own_key(state_folder, db)?;
        return Err(other(
            state_folder,
            (&found, key),
            (fleet, name),
            "site.json",
        ));
    }
    let older = |problem: String| StateError::OlderCopy {
        path: state_folder.database(),
        problem,
        newer: saved::beside(&state_folder.database()),
        waiting: String::new(),
    };
    if known.epoch == found.epoch && reports < known.reports {
        let had = known.reports;
        return Err(older(format!(
            "it knows {reports} reports, and at least {had} were made, as `site.json` shows"
        )));
    }
    if known.epoch != found.epoch && known.before.contains(&found.epoch) {
        let epoch = &known.epoch;
        return Err(older(format!(
            "its reports were renumbered since, as {epoch}"
        )));
    }
    Ok(Both {
        known: Some(known),
        found,
        reports,
    })
}

/// What differs, in a sentence, where the file names another numbering of reports than the database, which is not an older copy: an older file was
/// put back, or a power cut came between the two.
///
/// # Errors
/// As [`check`].
pub fn other_numbering(
    state_folder: &StateFolder,
    db: &Connection,
) -> Result<Option<String>, StateError> {
    let Both { known, found, .. } = compared(state_folder, db)?;
    let known = known.filter(|known| known.epoch != found.epoch);
    Ok(known.map(|known| {
        format!(
            "`site.json` in the state folder names another numbering of this site's reports ({}) than the database ({}), which is the one that counts",
            known.epoch, found.epoch
        )
    }))
}

/// Refuses a database of another site than each request in the folder is for.
fn check_requests(
    state_folder: &StateFolder,
    db: &Connection,
    found: &SiteIdentity,
) -> Result<(), StateError> {
    let requests = request::all(state_folder);
    let is_own = |one: &_| named(one) == (&found.fleet, &found.name);
    match requests.first() {
        Some(first) if !requests.iter().any(is_own) => {
            let shown = format!("{}.request", first.site);
            let key = has_own_key(state_folder, db)?;
            Err(other(state_folder, (found, key), named(first), &shown))
        }
        _ => Ok(()),
    }
}

fn named(request: &outhaul_bundle::report::EnrolmentRequest) -> (&Name, &Name) {
    (&request.fleet, &request.site)
}

/// Whether the key in the folder is the one that the database signs with: then both are of one site, whatever lies beside them.
fn has_own_key(state_folder: &StateFolder, db: &Connection) -> Result<bool, StateError> {
    let wanted: Option<String> = meta(db, key::KEY_ID)?;
    Ok(wanted.is_some() && wanted == keys::id_in(state_folder))
}

fn other(
    state_folder: &StateFolder,
    (found, has_key): (&SiteIdentity, bool),
    (fleet, name): (&Name, &Name),
    shown: &str,
) -> StateError {
    if has_key {
        return StateError::OtherPiece {
            path: state_folder.root().join(shown),
            found: format!("site `{name}` of fleet {fleet}"),
            own: format!("site `{}` of fleet {}", found.name, found.fleet),
        };
    }
    StateError::OtherSite {
        path: state_folder.database(),
        found: format!("site `{}` of fleet {}", found.name, found.fleet),
        own: format!("site `{name}` of fleet {fleet}"),
        shown: shown.to_owned(),
    }
}

/// Writes the file again where it is not what the database has.
///
/// # Errors
/// As [`check`], and [`StateError::File`] where it cannot be written.
pub fn keep(state_folder: &StateFolder, db: &Connection) -> Result<(), StateError> {
    let Both {
        known,
        found,
        reports,
    } = compared(state_folder, db)?;
    let mut before = known.as_ref().map_or(Vec::new(), |known| {
        let mut before = known.before.clone();
        if known.epoch != found.epoch {
            before.push(known.epoch.clone());
        }
        before
    });
    let surplus = before.len().saturating_sub(MAX_BEFORE);
    before.drain(..surplus);
    let now = FolderIdentity {
        format: FORMAT.to_owned(),
        fleet: found.fleet,
        site: found.name,
        epoch: found.epoch,
        before,
        reports,
        key: meta(db, key::KEY_ID)?,
    };
    if known.as_ref() == Some(&now) {
        return Ok(());
    }
    let mut text = to_json(&now);
    text.push('\n');
    let path = state_folder.identity();
    Ok(durable::write(
        &path,
        text.as_bytes(),
        durable::SECRET_MODE,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Store, key, set_meta};

    fn site_named(name: &str, epoch: &str) -> SiteIdentity {
        serde_json::from_value(serde_json::json!({
            "fleet": "acme", "name": name, "epoch": epoch, "hub_url": "", "hub_key": "",
            "stream": { "role": "s-1", "environment": "dev", "cluster_type": "drone" },
        }))
        .unwrap()
    }

    fn set(store: &mut Store, name: &str, epoch: &str, reports: u64) {
        let cursor = outbox::Cursor {
            last: reports,
            ..outbox::Cursor::default()
        };
        let done = store.commit(|db| {
            set_meta(db, key::SITE, Some(&site_named(name, epoch)))?;
            set_meta(db, key::OUTBOX, Some(&cursor))
        });
        let _: () = done.unwrap();
    }

    #[test]
    fn another_sites_database_and_an_older_copy_are_refused_and_a_newer_one_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let state_folder = StateFolder::new(folder.path());
        let mut store = Store::open(&state_folder.database()).unwrap();
        let mut now = |name: &str, epoch: &str, reports: u64| {
            set(&mut store, name, epoch, reports);
            keep(&state_folder, store.read())
        };
        assert_eq!(read(&state_folder), None);
        now("press-7", "e1", 3).unwrap();
        now("press-7", "e1", 5).unwrap();
        let other = now("press-8", "e1", 9).unwrap_err().to_string();
        assert!(
            other.contains("is of site `press-8` of fleet acme"),
            "{other}"
        );
        assert!(other.contains("as `site.json` in it shows"), "{other}");
        let older = now("press-7", "e1", 4).unwrap_err().to_string();
        assert!(
            older.contains("it knows 4 reports, and at least 5 were made"),
            "{older}"
        );
        // Numbered again, and then the database from before.
        now("press-7", "e2", 1).unwrap();
        let older = now("press-7", "e1", 9).unwrap_err().to_string();
        assert!(older.contains("renumbered since, as e2"), "{older}");
        now("press-7", "e2", 2).unwrap();
        assert_eq!(read(&state_folder).unwrap().reports, 2);
        // Once more: the first numbering is not forgotten.
        now("press-7", "e3", 1).unwrap();
        for former in ["e1", "e2"] {
            let older = now("press-7", former, 99).unwrap_err().to_string();
            assert!(older.contains("renumbered since, as e3"), "{older}");
        }
        now("press-7", "e3", 2).unwrap();
    }
}
