//! A backup of a site: one file with its memory, its keys and its settings, and on request its content.
//!
//! What comes in: a state folder that no other process works on. What goes out: a file of mode 0600 (`format`), or a state
//! folder made from one ([`restore`]). What a file holds is checked as a whole before a name of the state folder appears,
//! and a restored site renumbers its reports, so that it never uses a number twice. The file holds secret keys: whoever
//! has it is the site. It applies nothing.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::digest::HashingWriter;

use crate::durable::{self, at};
use crate::keys;
use crate::state::{self, StateError, Store, doing, outbox};
use crate::state_folder::StateFolder;

mod checked;
mod error;
mod format;
pub mod restore;
pub mod restored;
pub mod saved_floors;
mod saved_holds;

pub use error::BackupError;
pub use format::{Header, MAGIC};

use format::{BackupEntry, MAX_ENTRIES, Named};

/// The copy of the database, in the state folder while a backup is written.
const COPY: &str = "agent.db.backup";
/// The mode of a backup: it holds secret keys.
const MODE: u32 = 0o600;

/// What was written.
#[derive(Debug)]
pub struct WrittenBackup {
    /// What the file holds.
    pub header: Header,
    /// Its size in bytes.
    pub bytes: u64,
    /// Digest of the whole file: what is written down and compared before it is restored.
    pub digest: Digest,
}

/// Writes a backup of the site to `to`, with its blobs and generations where `content` is wanted. The caller holds the lock.
///
/// # Errors
/// [`BackupError`]; a file that was at `to` before is then as it was.
pub fn write(
    state_folder: &StateFolder,
    store: &Store,
    to: &Path,
    content: bool,
    version: &str,
    made_ms: i64,
) -> Result<WrittenBackup, BackupError> {
    // The digest of one that is there may be written down somewhere.
    if to.symlink_metadata().is_ok() {
        let path = outhaul_kit::text::path(to);
        return Err(BackupError::Exists { path });
    }
    let copy = state_folder.root().join(COPY);
    let mut name = to.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    let done = write_parts(
        state_folder,
        store,
        (to, &part, &copy),
        content,
        (version, made_ms),
    );
    let removed = durable::remove_file(&copy);
    if done.is_err() {
        // What is left of it would hold keys; the reason it failed for comes first.
        let _ = durable::remove_file(&part);
    }
    let written = done?;
    removed?;
    Ok(written)
}

fn write_parts(
    state_folder: &StateFolder,
    store: &Store,
    (to, part, copy): (&Path, &Path, &Path),
    content: bool,
    (version, made_ms): (&str, i64),
) -> Result<WrittenBackup, BackupError> {
    let db = store.read();
    let site = state::site(db)?;
    let key = keys::key_in_use(state_folder, db)?;
    let cursor = outbox::cursor(db)?;
    durable::remove_file(copy)?;
    db.execute("VACUUM INTO ?1", [copy.to_string_lossy()])
        .map_err(doing("copy the database"))?;
    private(copy)?;
    let mut files = vec![(copy.to_owned(), "agent.db".to_owned())];
    files.extend(present(state_folder, content)?);
    if files.len() > MAX_ENTRIES {
        return Err(BackupError::TooMany { found: files.len() });
    }
    let mut entries = Vec::new();
    for (path, name) in &files {
        entries.push(BackupEntry::of(path, name)?);
    }
    let header = Header {
        format: format::FORMAT.to_owned(),
        agent: version.to_owned(),
        fleet: site.fleet,
        site: site.name,
        key: key.public().id(),
        epoch: site.epoch,
        reports_last: cursor.last,
        reports_acknowledged: cursor.acknowledged,
        made_ms,
        content,
        entries,
    };
    let file = durable::create(part, MODE)?;
    private(part)?;
    let mut out = HashingWriter::new(BufWriter::new(file));
    let failed = at("write", part);
    write_all(&mut out, &header, &files).map_err(failed)?;
    let sum = format!("{}\n", out.digest());
    out.write_all(sum.as_bytes()).map_err(at("write", part))?;
    let (file, digest, bytes) = out.finish();
    let file = file
        .into_inner()
        .map_err(|error| at("write", part)(error.into_error()))?;
    file.sync_all().map_err(at("sync", part))?;
    durable::rename(part, to)?;
    Ok(WrittenBackup {
        header,
        bytes,
        digest,
    })
}

fn write_all(out: &mut impl Write, header: &Header, files: &[(PathBuf, String)]) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(state::to_json(header).as_bytes())?;
    out.write_all(b"\n")?;
    for ((path, _), entry) in files.iter().zip(&header.entries) {
        let mut file = BufReader::new(durable::open_file(path)?).take(entry.bytes + 1);
        let copied = io::copy(&mut file, out)?;
        if copied != entry.bytes {
            let text = format!("`{}` changed while it was read", path.display());
            return Err(io::Error::other(text));
        }
    }
    Ok(())
}

/// What of a state folder belongs into a backup besides the database, in a fixed order.
fn present(
    state_folder: &StateFolder,
    content: bool,
) -> Result<Vec<(PathBuf, String)>, BackupError> {
    let mut found = Vec::new();
    let mut folders = vec![state_folder.root().to_owned()];
    while let Some(folder) = folders.pop() {
        for path in durable::list(&folder)? {
            let Some(name) = path
                .strip_prefix(state_folder.root())
                .ok()
                .and_then(Path::to_str)
            else {
                continue;
            };
            let about = std::fs::symlink_metadata(&path).map_err(at("look at", &path))?;
            let wanted = Named::of(name).is_some_and(|named| named != Named::Database)
                && (content || !Named::is_content(name));
            if about.is_dir() && Named::is_folder(name) && (content || !Named::is_content(name)) {
                folders.push(path);
            } else if about.is_file() && wanted {
                found.push((path.clone(), name.to_owned()));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn private(path: &Path) -> Result<(), BackupError> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(MODE))
        .map_err(|error| at("set the mode of", path)(error).into())
}

impl From<StateError> for BackupError {
    fn from(error: StateError) -> Self {
        Self::State(Box::new(error))
    }
}
