//! A site from its backup: all of the file is checked, put together beside, and then given its names, the database last.
//!
//! What comes in: a backup, and an empty state folder. What goes out: a site with the keys and the state of the backup,
//! which renumbers its reports: what the hub acknowledged since stays true, and what waited is reported again. On an
//! error nothing of it stays. A restore that a power cut interrupted leaves no database; the next one clears what it left.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};
use outhaul_kit::media;
use outhaul_signer::SigningKey;
use rusqlite::{Connection, OpenFlags};

use super::format::{BackupEntry, Header, Named};
use super::restored::Restored;
use super::saved_floors::{self, RestoredFloor, SavedFloors};
use super::saved_holds::{self, SavedHolds};
use super::{BackupError, checked};
use crate::durable::{self, FileError, at};
use crate::identity;
use crate::keys;
use crate::secrets::Secrets;
use crate::state::clock::{self, Clocks};
use crate::state::generations;
use crate::state::outbox::{self, Author};
use crate::state::{self, SiteIdentity, StateError, Store, events, holds, key};
use crate::state_folder::{RESCUED, RESTORING, StateFolder};

/// Names that may be in a state folder before a site is restored into it.
const HARMLESS: [&str; 4] = ["lock", "lost+found", RESCUED, RESTORING];

/// What a restore is given besides the file.
#[derive(Debug)]
pub struct Options<'a> {
    /// The digest that was written down when the backup was made.
    pub digest: Option<Digest>,
    /// Who restores.
    pub who: &'a str,
    /// The machine's clocks.
    pub clocks: Clocks,
    /// What is wrong with a file of settings, if anything.
    pub settings: fn(&Path) -> Option<String>,
}

/// What was restored.
#[derive(Debug)]
pub struct Done {
    /// What the backup says of itself.
    pub header: Header,
    /// Digest of the whole file.
    pub digest: Digest,
    /// The new numbering of the reports.
    pub epoch: String,
    /// Whether settings that were here already stay instead of those in the backup.
    pub kept_settings: bool,
    /// What a person has to know about holds that are not in the backup, a sentence for each file that shows them.
    pub held: Vec<String>,
    /// From which bundle on this site takes them now.
    pub floor: RestoredFloor,
}

/// Makes the site of the backup at `path` in `state_folder`.
///
/// # Errors
/// [`BackupError`]; the state folder is then as it was.
pub fn restore(
    state_folder: &StateFolder,
    path: &Path,
    options: &Options<'_>,
) -> Result<Done, BackupError> {
    let root = state_folder.root();
    let existed = root.exists();
    // Whoever is at work in it is said before what lies in it, and before a large file is read.
    state_folder.check_idle().map_err(StateError::from)?;
    if state_folder.restore_is_at_its_end() {
        return finished(state_folder, path, options);
    }
    occupied(root)?;
    let mut file = media::open_file(path)?;
    let checked = checked::check(&mut file, path, options.digest)?;
    saved_holds::refuse_of_another(state_folder, &checked.header)?;
    durable::make_folder(root)?;
    let done = {
        let _lock = state_folder.lock().map_err(StateError::from)?;
        put_in(state_folder, &mut file, path, &checked, options)
    };
    if done.is_err() {
        // The reason why it failed comes first.
        let _ = durable::remove_tree(&root.join(RESTORING));
        if !existed {
            let _ = durable::remove_tree(root);
        }
    }
    done
}

/// Removes what a restore left that was interrupted when everything was in its place. Returns whether there was one.
///
/// # Errors
/// [`FileError`] of what cannot be removed.
pub fn finish(state_folder: &StateFolder) -> Result<bool, FileError> {
    let root = state_folder.root();
    if !state_folder.restore_is_at_its_end() {
        return Ok(false);
    }
    durable::remove_tree(&root.join(RESTORING))?;
    durable::sync_folder(root)?;
    Ok(true)
}

/// The same command again after such an interruption: it is complete, where it is the backup that was being restored.
fn finished(
    state_folder: &StateFolder,
    path: &Path,
    options: &Options<'_>,
) -> Result<Done, BackupError> {
    let mut file = media::open_file(path)?;
    let checked = checked::check(&mut file, path, options.digest)?;
    let root = state_folder.root();
    let _lock = state_folder.lock().map_err(StateError::from)?;
    let store = Store::open(&state_folder.database()).map_err(unusable)?;
    let site = identity::check(state_folder, store.read())?;
    let restored: Option<Restored> = state::meta(store.read(), key::RESTORED)?;
    let header = &checked.header;
    let is_same = restored.is_some_and(|restored| {
        (restored.made_ms, restored.before.as_str()) == (header.made_ms, header.epoch.as_str())
    });
    if !is_same || (&site.name, &site.fleet) != (&header.site, &header.fleet) {
        return Err(BackupError::Occupied {
            folder: root.display().to_string(),
            name: "agent.db".to_owned(),
        });
    }
    let kept_settings = kept_settings(state_folder, header)?;
    let held: Option<Vec<String>> = state::meta(store.read(), key::RESTORED_HOLDS)?;
    finish(state_folder)?;
    saved_holds::remove_copy(
        state_folder,
        header,
        &saved_holds::since(state_folder, header),
    );
    let floor = saved_floors::of_restored(store.read(), &site)?;
    Ok(Done {
        header: header.clone(),
        digest: checked.digest,
        epoch: site.epoch.to_string(),
        kept_settings,
        held: held.unwrap_or_default(),
        floor,
    })
}

/// Whether the settings are others than those of the backup. What is left of `restoring` does not say so: removing it was interrupted.
fn kept_settings(state_folder: &StateFolder, header: &Header) -> Result<bool, BackupError> {
    let path = state_folder.config();
    let of_backup = header.entries.iter().find(|one| one.path == "agent.toml");
    let most = of_backup.map_or(0, |one| one.bytes);
    let length = match std::fs::metadata(&path) {
        Ok(found) => found.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(at("look at", &path)(error).into()),
    };
    let Some(entry) = of_backup.filter(|_| length == most) else {
        return Ok(true);
    };
    Ok(Digest::of(&durable::read(&path, most)?) != entry.digest)
}

/// What is here that a restore would write over. What an interrupted restore left is none, for it has no database.
fn occupied(root: &Path) -> Result<(), BackupError> {
    if !root.exists() {
        return Ok(());
    }
    let interrupted = root.join(RESTORING).exists() && !root.join("agent.db").exists();
    for path in durable::list(root)? {
        let name = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let is_its_own = interrupted && is_first_part(&name);
        if !HARMLESS.contains(&name.as_str()) && name != "agent.toml" && !is_its_own {
            return Err(BackupError::Occupied {
                folder: root.display().to_string(),
                name,
            });
        }
    }
    Ok(())
}

/// Whether a restore brings something of this name into the state folder itself.
fn is_first_part(name: &str) -> bool {
    let is_made = matches!(name, "holds.json" | "site.json");
    is_made || Named::is_folder(name) || Named::of(name).is_some()
}

fn put_in(
    state_folder: &StateFolder,
    file: &mut File,
    path: &Path,
    checked: &checked::CheckedBackup,
    options: &Options<'_>,
) -> Result<Done, BackupError> {
    let (root, header) = (state_folder.root(), &checked.header);
    let beside = root.join(RESTORING);
    if beside.exists() {
        for left in durable::list(root)? {
            let name = left.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| is_first_part(name) && name != "agent.toml") {
                remove(&left)?;
            }
        }
        durable::remove_tree(&beside)?;
    }
    durable::create_private_folder(&beside)?;
    unpack(file, path, checked, &beside)?;
    let inside = StateFolder::new(&beside);
    let saved = saved_holds::since(state_folder, header);
    let floors = saved_floors::of(state_folder, (&header.fleet, &header.site));
    let (epoch, held, floor) = renewed(&inside, header, (&saved, &floors), options)?;
    let kept_settings = state_folder.config().exists();
    if let Some(problem) = Some(inside.config())
        .filter(|path| path.exists())
        .and_then(|path| (options.settings)(&path))
    {
        return Err(BackupError::Settings { problem });
    }
    durable::sync_file_system(&beside)?;
    let mut names: Vec<PathBuf> = durable::list(&beside)?;
    // From here on the site is there.
    names.sort_by_key(|path| path.ends_with("agent.db"));
    let mut moved: Vec<PathBuf> = Vec::new();
    for from in names {
        let name = from.file_name().unwrap_or_default().to_owned();
        if name == "lock" || (name == "agent.toml" && kept_settings) {
            continue;
        }
        let to = root.join(&name);
        if let Err(error) = durable::rename(&from, &to) {
            for path in moved.iter().rev() {
                let _ = remove(path);
            }
            return Err(error.into());
        }
        moved.push(to);
    }
    durable::remove_tree(&beside)?;
    durable::sync_folder(root)?;
    saved_holds::remove_copy(state_folder, header, &saved);
    Ok(Done {
        header: header.clone(),
        digest: checked.digest,
        epoch,
        kept_settings,
        held,
        floor,
    })
}

fn remove(path: &Path) -> Result<(), BackupError> {
    match path.is_dir() {
        true => durable::remove_tree(path)?,
        false => durable::remove_file(path)?,
    }
    Ok(())
}

/// Writes every file of the backup below `beside`.
fn unpack(
    file: &mut File,
    path: &Path,
    checked: &checked::CheckedBackup,
    beside: &Path,
) -> Result<(), BackupError> {
    let failed = |error: io::Error| BackupError::from(at("read", path)(error));
    file.seek(SeekFrom::Start(checked.first)).map_err(failed)?;
    for entry in &checked.header.entries {
        let to = beside.join(&entry.path);
        if let Some(folder) = to.parent() {
            durable::make_folder(folder)?;
        }
        unpack_one(file, path, entry, &to)?;
    }
    Ok(())
}

fn unpack_one(
    file: &mut File,
    path: &Path,
    entry: &BackupEntry,
    to: &Path,
) -> Result<(), BackupError> {
    // What is the site's own is for its user alone; content keeps who may run it.
    let mode = match Named::is_content(&entry.path) {
        true => (entry.mode & 0o755) | 0o600,
        false => 0o600,
    };
    let mut out = durable::create(to, mode)?;
    let mut one = file.by_ref().take(entry.bytes);
    let mut hasher = outhaul_bundle::digest::HashingWriter::new(&mut out);
    io::copy(&mut one, &mut hasher).map_err(|error| at("write", to)(error))?;
    let (_, found, _) = hasher.finish();
    // It was compared a moment ago: a stick that gives two answers is not a source.
    if found != entry.digest {
        let text = "it gives other bytes than when it was checked";
        return Err(at("read", path)(io::Error::other(text)).into());
    }
    out.set_permissions(std::fs::Permissions::from_mode(mode))
        .and_then(|()| out.sync_all())
        .map_err(at("sync", to))?;
    Ok(())
}

/// Checks the memory and the keys, and begins a new numbering of the reports; returns its name, what there is to know about the saved holds, and from which
/// bundle on the site takes them.
fn renewed(
    inside: &StateFolder,
    header: &Header,
    (saved, floors): (&[SavedHolds], &SavedFloors),
    options: &Options<'_>,
) -> Result<(String, Vec<String>, RestoredFloor), BackupError> {
    let path = inside.database();
    sound(&path)?;
    let mut store = Store::open(&path).map_err(unusable)?;
    let site = state::site(store.read()).map_err(unusable)?;
    let said = format!("site `{}` of fleet {}", header.site, header.fleet);
    if (&site.name, &site.fleet) != (&header.site, &header.fleet) {
        return Err(BackupError::OtherSite {
            expected: said,
            found: format!(
                "the database of site `{}` of fleet {}",
                site.name, site.fleet
            ),
        });
    }
    Secrets::load(&inside.identities()).map_err(|error| BackupError::Keys {
        problem: error.to_string(),
    })?;
    let signing = keys::key_in_use(inside, store.read()).map_err(|error| BackupError::Keys {
        problem: error.to_string(),
    })?;
    if signing.public().id() != header.key {
        return Err(BackupError::OtherSite {
            expected: format!("key {:.16}", header.key),
            found: format!("key {:.16}", signing.public().id()),
        });
    }
    let next = SiteIdentity {
        epoch: state::new_epoch()?,
        ..site.clone()
    };
    // The numbering of the backup is one of before from now on.
    identity::keep(inside, store.read())?;
    let held = store.commit(|db| saved_holds::give_back(db, saved))?;
    let floor = saved_floors::raised(inside, &mut store, &site, floors)?;
    renumber(&mut store, &signing, (&site, &next), header, options)?;
    // What stands beside a database: no backup brings it, because the database knows it better.
    holds::beside::keep(inside, store.read())?;
    identity::keep(inside, store.read())?;
    drop(store);
    // What SQLite keeps beside a database while it is open; closing it has emptied them.
    for left in ["agent.db-wal", "agent.db-shm"] {
        durable::remove_file(&inside.root().join(left))?;
    }
    Ok((next.epoch.to_string(), held, floor))
}

fn renumber(
    store: &mut Store,
    signing: &SigningKey,
    (site, next): (&SiteIdentity, &SiteIdentity),
    header: &Header,
    options: &Options<'_>,
) -> Result<(), BackupError> {
    let made = jiff::Timestamp::from_millisecond(header.made_ms);
    let made = made.map_or_else(|_| header.made_ms.to_string(), |made| made.to_string());
    let who = format!("{}: restored from a backup of {made}", options.who);
    store.commit(|db| {
        let reading = clock::now(db, options.clocks.clone())?;
        reading.store(db)?;
        let author = |site| Author {
            site,
            key: signing,
            reading: &reading,
            max_rows: u64::MAX,
        };
        outbox::renumber(db, &author(site), next, &who)?;
        not_looked_at(db)?;
        events::repeat_state(db, &author(next))?;
        db.execute("DELETE FROM call", [])
            .map_err(state::doing("remove calls"))?;
        let restored = Restored {
            at_ms: reading.wall_ms(),
            made_ms: header.made_ms,
            before: site.epoch.to_string(),
            who: options.who.to_owned(),
        };
        state::set_meta(db, key::RESTORED, Some(&restored))?;
        state::set_meta(db, key::SITE, Some(next))?;
        // What was applied on the machine of the backup is no record of the files on this one.
        state::set_meta(db, key::FROM_BACKUP, Some(&true))?;
        Ok::<_, StateError>(())
    })?;
    Ok(())
}

/// What was found of each assignment was found on the machine of the backup: of this one nothing is known before something is applied here.
/// The sticks that were read there, and what kept a bundle away there, say nothing of this one either.
fn not_looked_at(db: &Connection) -> Result<(), StateError> {
    for of_that_machine in [key::MEDIA, key::NOT_TAKEN] {
        state::set_meta::<()>(db, of_that_machine, None)?;
    }
    let known = state::meta(db, key::RESULTS)?;
    let active = match known.is_none() {
        true => generations::active(db)?,
        false => None,
    };
    let mut results: Vec<AssignmentResult> = match active {
        Some(active) => generations::results(db, &format!("apply {active}"))?,
        None => known.unwrap_or_default(),
    };
    for result in &mut results {
        result.status = ComplianceStatus::InProgress;
        result.steps.clear();
        NOT_LOOKED_AT.clone_into(&mut result.message);
    }
    state::set_meta(db, key::RESULTS, Some(&results))
}

/// What is known of an assignment on the machine of a restored site.
const NOT_LOOKED_AT: &str = "not looked at since this site was restored from a backup";

fn unusable(error: StateError) -> BackupError {
    BackupError::Database {
        problem: error.to_string(),
    }
}

/// Whether a file is a whole database of this program, and has nothing in it that this program did not make.
fn sound(path: &Path) -> Result<(), BackupError> {
    let problem = |problem: String| BackupError::Database { problem };
    let of_sqlite = |error: rusqlite::Error| problem(error.to_string());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(of_sqlite)?;
    let verdict: String = db
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(of_sqlite)?;
    if verdict != "ok" {
        return Err(problem(verdict));
    }
    let version: i64 = db
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(of_sqlite)?;
    let wanted = state::shape_of(version).map_err(unusable)?;
    let found = state::shape(&db).map_err(unusable)?;
    if let Some(other) = found.symmetric_difference(&wanted).next() {
        return Err(problem(format!(
            "it is not shaped as an agent's: `{}` differs",
            other.split('|').nth(1).unwrap_or_default()
        )));
    }
    Ok(())
}
