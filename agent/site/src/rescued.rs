//! What is kept of databases that were removed: reports in `rescued/reports`, on their way to the hub, and what was left beside such a database.
//!
//! What comes in: the state folder, the site as its database has it, and acknowledgements whose signatures were verified. What goes out: the files
//! that the database does not have itself, and fewer of them once the hub has acknowledged what is in them. They are written by
//! `state::rescue`, or here out of a saved database. Of their lines only reports of this very site leave; no signature is verified here.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::name::Name;
use outhaul_bundle::report::{Ack, MAX_REPORTS_AT_ONCE_BYTES, Report};
use outhaul_kit::{media, text};
use outhaul_signer::Envelope;

use crate::aside;
use crate::durable::{self, FileError};
use crate::identity::{self, FolderIdentity};
use crate::state::{self, SiteIdentity, StateError, Store, key, outbox};
use crate::state_folder::{REPORTS, RESCUED, StateFolder};

/// How the names end of files with what was in a file of reports and is no report of this site.
const LEFT: &str = ".left";

/// One file of reports, as `export` writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RescuedReports {
    /// The file.
    pub path: PathBuf,
    /// The numbering that the reports belong to.
    pub epoch: String,
    /// The number of the first.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
}

impl RescuedReports {
    /// By the name of the file, where it is one of `site`.
    fn of(path: PathBuf, site: &Name) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let (epoch, first, last) = outbox::of_file_name(name, site)?;
        Some(Self {
            epoch: epoch.to_owned(),
            path,
            first,
            last,
        })
    }

    /// Which reports are in it, in words.
    pub fn sentence(&self) -> String {
        let Self {
            epoch, first, last, ..
        } = self;
        match first == last {
            true => format!("report {first} of numbering {epoch}"),
            false => format!("reports {first} to {last} of numbering {epoch}"),
        }
    }
}

/// What of a file may leave this machine, and what is wrong with the rest of it.
#[derive(Debug)]
pub struct Readable {
    /// Its reports, as they travel.
    pub bytes: Vec<u8>,
    /// Why something in it does not leave; `None` where all of it does.
    pub problem: Option<String>,
}

impl RescuedReports {
    /// Its reports. Nothing but a regular file is opened, and of its lines only those leave that are reports of this very site with the
    /// numbering and numbers that its name states: whoever put something else there gets it neither onto a stick nor to the hub. `None` where
    /// it is gone.
    ///
    /// # Errors
    /// [`FileError`] where it is something else than a file, or cannot be read.
    pub fn read(&self, site: &SiteIdentity) -> Result<Option<Readable>, FileError> {
        let all = match media::read_file(&self.path, MAX_REPORTS_AT_ONCE_BYTES as u64) {
            Ok(all) => all,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error),
        };
        let (mut bytes, mut others) = (Vec::new(), 0_u64);
        for line in lines(&all) {
            if self.has(line, site) {
                bytes.extend_from_slice(line);
                bytes.push(b'\n');
            } else {
                others += 1;
            }
        }
        let what = match others {
            1 => "1 line that is not a report of this site with that numbering, which is left out"
                .to_owned(),
            _ => format!(
                "{others} lines that are not reports of this site with that numbering, which are left out"
            ),
        };
        let path = text::path(&self.path);
        let problem = (others > 0).then(|| format!("has {what}: find out who wrote to `{path}`"));
        Ok(Some(Readable { bytes, problem }))
    }

    /// Keeps lines that are no reports of this site, and that nobody was sent, in a file beside this one, which goes.
    fn keep(&self, lines: &[&[u8]]) -> Result<(), FileError> {
        let mut bytes = lines.join(&b'\n');
        bytes.push(b'\n');
        let first = aside::ending(&self.path, LEFT);
        // A power cut may have come before the file itself went.
        let is_free = |to: &PathBuf| {
            !aside::is_taken(to)
                || durable::read(to, bytes.len() as u64).is_ok_and(|there| there == bytes)
        };
        let to = aside::first_free(&first, is_free);
        durable::write(&to, &bytes, durable::SECRET_MODE)?;
        tracing::warn!(
            "{} are with the hub, and `{}` had lines that are not reports of this site with that numbering: these were not sent, and stay in `{}`; find \
             out who wrote them",
            self.sentence(),
            text::path(&self.path),
            text::path(&to)
        );
        Ok(())
    }

    /// Whether a line is one of the reports that the name states. Whoever gets it verifies its signature.
    fn has(&self, line: &[u8], site: &SiteIdentity) -> bool {
        let report = Envelope::from_json(line)
            .ok()
            .and_then(|envelope| Report::from_bytes(envelope.unverified_payload()).ok());
        report.is_some_and(|report| {
            (&report.fleet, &report.site) == (&site.fleet, &site.name)
                && report.epoch.as_str() == self.epoch
                && (self.first..=self.last).contains(&report.number)
        })
    }
}

/// The folder with such files.
pub fn folder(state_folder: &StateFolder) -> PathBuf {
    state_folder.root().join(RESCUED).join(REPORTS)
}

/// Every such file of `site`, by numbering and number.
fn all(state_folder: &StateFolder, site: &SiteIdentity) -> Vec<RescuedReports> {
    let found = durable::list(&folder(state_folder)).unwrap_or_default();
    let of = |path: PathBuf| RescuedReports::of(path, &site.name);
    let mut all: Vec<_> = found.into_iter().filter_map(of).collect();
    // The longer one first: it may have all that is in the other.
    let place = |one: &RescuedReports| (one.epoch.clone(), one.first, Reverse(one.last));
    all.sort_by_key(place);
    all
}

/// The files whose reports are in no outbox: the database of `site` has those of its own numbering.
pub fn waiting(state_folder: &StateFolder, site: &SiteIdentity) -> Vec<RescuedReports> {
    let mut found = all(state_folder, site);
    found.retain(|one| one.epoch != site.epoch.as_str());
    found
}

/// Whose database or reports are saved here, each with the file that shows it, relative to the state folder.
pub fn owners(state_folder: &StateFolder) -> Vec<((Name, Name), String)> {
    let rescued = state_folder.root().join(RESCUED);
    let databases = state::former::databases(&rescued).into_iter();
    let databases = databases.filter_map(|path| {
        let of = state::saved::site_in(&path).ok()?;
        Some(((of.fleet, of.name), path))
    });
    let files = durable::list(&folder(state_folder)).unwrap_or_default();
    let reports = files
        .into_iter()
        .filter_map(|path| Some((signer(&path)?, path)));
    let shown = |path: PathBuf| {
        let inside = path.strip_prefix(state_folder.root()).unwrap_or(&path);
        inside.to_string_lossy().into_owned()
    };
    let copy = copied(state_folder);
    let holds = FolderIdentity::read(&copy.identity());
    let holds = holds.filter(|_| copy.holds().exists() || copy.floors().exists());
    // Without it, `site.json` beside it shows nothing any more.
    let shown_by = match copy.holds().exists() {
        true => copy.holds(),
        false => copy.floors(),
    };
    let holds = holds.map(|known| ((known.fleet, known.site), shown_by));
    let all = databases.chain(holds).chain(reports);
    all.map(|(of, path)| (of, shown(path))).collect()
}

/// Where the copies of the holds and of the floors lie that came along when a state folder was moved aside, with its `site.json`.
pub fn copied(state_folder: &StateFolder) -> StateFolder {
    StateFolder::new(&state_folder.root().join(RESCUED))
}

/// Removes these copies, which the site `site` of `fleet` has again: a later restore would take them for news. One that stays does no harm. Floors that
/// could not be used stay for a person to look at, with the file that shows whose they are, and so do the copies of another site.
pub fn remove_copied(state_folder: &StateFolder, (fleet, site): (&Name, &Name)) {
    let copy = copied(state_folder);
    let known = FolderIdentity::read(&copy.identity());
    let is_own = known.map(|known| (&known.fleet, &known.site) == (fleet, site));
    if is_own == Some(false) {
        return;
    }
    let _ = durable::remove_file(&copy.holds());
    let is_used = is_own == Some(true) && state::floors::in_sidecar(&copy.floors()).is_some();
    if copy.floors().exists() && !is_used {
        return;
    }
    for path in [copy.floors(), copy.identity()] {
        let _ = durable::remove_file(&path);
    }
}

/// The fleet and the site that the first report in a file names; nobody has verified it.
fn signer(path: &Path) -> Option<(Name, Name)> {
    let bytes = media::read_file(path, MAX_REPORTS_AT_ONCE_BYTES as u64).ok()?;
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    let report = Report::from_bytes(Envelope::from_json(line).ok()?.unverified_payload()).ok()?;
    Some((report.fleet, report.site))
}

/// Removes what the hub has, by its verified acknowledgements. Returns how many reports of former numberings went. One that covers more of a former numbering than was
/// ever saved is about reports of another machine, where `site.json` does not name it as one of this site: nothing goes for it.
///
/// # Errors
/// [`FileError`] of what cannot be removed.
pub fn acknowledged(
    state_folder: &StateFolder,
    site: &SiteIdentity,
    acks: &[Ack],
) -> Result<u64, FileError> {
    let all = all(state_folder, site);
    let saved = |epoch: &str| {
        let of_it = all.iter().filter(|one| one.epoch == epoch);
        of_it.map(|one| one.last).max().unwrap_or(0)
    };
    let before = identity::read(state_folder).map_or(Vec::new(), |known| known.before);
    let is_former = |epoch: &str| before.iter().any(|before| before.as_str() == epoch);
    let covers = |one: &&RescuedReports| {
        acks.iter().any(|ack| {
            let is_own = (&ack.fleet, &ack.site) == (&site.fleet, &site.name);
            let is_known =
                ack.epoch == site.epoch || is_former(&one.epoch) || ack.number <= saved(&one.epoch);
            is_own && is_known && ack.epoch.as_str() == one.epoch && ack.number >= one.last
        })
    };
    // The database has those of its own numbering, and counts them.
    let (own, former): (Vec<_>, Vec<_>) = all
        .iter()
        .filter(covers)
        .partition(|one| one.epoch == site.epoch.as_str());
    remove(own.into_iter(), site)?;
    remove(former.into_iter(), site)
}

/// Removes what the database of `site` has as well, before its reports are renumbered: they are queued again then, and under their former
/// numbers they would be others' reports to the hub.
///
/// # Errors
/// [`FileError`] of what cannot be removed.
pub fn queued_again(state_folder: &StateFolder, site: &SiteIdentity) -> Result<u64, FileError> {
    let all = all(state_folder, site);
    let own = all.iter().filter(|one| one.epoch == site.epoch.as_str());
    remove(own, site)
}

/// Returns how many reports of `site` were in them, each counted once. What else lay in one was never sent, and stays beside it.
fn remove<'a>(
    files: impl Iterator<Item = &'a RescuedReports>,
    site: &SiteIdentity,
) -> Result<u64, FileError> {
    let mut gone = BTreeSet::new();
    for one in files {
        let bytes = match media::read_file(&one.path, MAX_REPORTS_AT_ONCE_BYTES as u64) {
            Ok(bytes) => bytes,
            Err(error) if error.is_missing() => continue,
            // What is in it was not sent either.
            Err(error) => {
                tracing::warn!("{} stays: {error}", one.sentence());
                continue;
            }
        };
        let (own, others): (Vec<_>, Vec<_>) = lines(&bytes).partition(|line| one.has(line, site));
        if !others.is_empty() {
            one.keep(&others)?;
        }
        durable::remove_file(&one.path)?;
        gone.extend(own.into_iter().map(Digest::of));
    }
    Ok(gone.len() as u64)
}

/// The reports in such a file, as they travel.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = bytes.split(|byte| *byte == b'\n');
    all.filter(|line| !line.is_empty())
}

/// Writes the reports of every saved database of `site` beside it, where that could not be done when it was saved, or an earlier agent saved it.
///
/// # Errors
/// [`StateError`] of the first that cannot be read or written; those of the others are written all the same.
pub fn write_out(state_folder: &StateFolder, site: &SiteIdentity) -> Result<(), StateError> {
    let saved = state::former::databases(&state_folder.root().join(RESCUED));
    // One that is damaged keeps the reports of no other back: all are tried before the first error is returned.
    let done: Vec<_> = saved
        .iter()
        .map(|one| write_out_of(one, state_folder, site))
        .collect();
    done.into_iter().collect()
}

fn write_out_of(
    saved: &Path,
    state_folder: &StateFolder,
    site: &SiteIdentity,
) -> Result<(), StateError> {
    let store = Store::open_read_only(saved)?;
    let of: Option<SiteIdentity> = state::meta(store.read(), key::SITE)?;
    let is_own = |of: &SiteIdentity| (&of.fleet, &of.name) == (&site.fleet, &site.name);
    match of.filter(is_own) {
        Some(of) => state::write_reports(store.read(), &of, &folder(state_folder)).map(drop),
        None => Ok(()),
    }
}

/// Moves what SQLite wrote beside a database that is not there into a folder of its own in `rescued`, which is returned where reports may be committed
/// in it and nowhere else: SQLite would discard it with the database that it makes. Under their own names
/// they belong to the database again that is put beside them.
///
/// # Errors
/// [`FileError`]
pub fn keep_left_beside_database(state_folder: &StateFolder) -> Result<Option<PathBuf>, FileError> {
    let database = state_folder.database();
    let left = aside::BESIDE_DATABASE.map(|end| aside::ending(&database, end));
    // SQLite takes an empty one for a new database.
    let is_empty = |found: fs::Metadata| found.is_file() && found.len() == 0;
    let is_there =
        aside::is_taken(&database) && !fs::symlink_metadata(&database).is_ok_and(is_empty);
    if is_there || !left.iter().any(|path| aside::is_taken(path)) {
        return Ok(None);
    }
    let has_rows =
        |end: &str| fs::metadata(aside::ending(&database, end)).is_ok_and(|found| found.len() > 0);
    let is_needed =
        ["-wal", "-journal"].iter().any(|end| has_rows(end)) && !state::saved::has_all(&database);
    let first = state_folder.root().join(RESCUED).join("left");
    let folder = aside::first_free(&first, |path| !aside::is_taken(path));
    durable::make_folder(&folder)?;
    for path in left.iter().filter(|path| aside::is_taken(path)) {
        let name = path.file_name().unwrap_or_default();
        durable::rename(path, &folder.join(name))?;
    }
    durable::sync_folder(state_folder.root())?;
    Ok(is_needed.then_some(folder))
}

/// Removes what a process left here of a copy that it did not finish.
pub fn tidy_up(state_folder: &StateFolder) {
    state::remove_leftovers(&state_folder.root().join(RESCUED));
}

#[cfg(test)]
mod tests;
