//! containerd's mirror configuration on this machine: written so that every pull asks the site's mirror first, and
//! restored.
//!
//! What comes in: containerd's folder of hosts (`certs.d`), and the address and authority of the mirror. What goes out:
//! a `hosts.toml` for all registries and in each registry's own folder that is there, and what was done to each file. What
//! is about to be changed is recorded before anything is; the file that was there keeps its inode under another name, and
//! gets its own name back. A file that someone else has changed since is never overwritten. It neither starts
//! containerd nor writes its own configuration.

mod config;
mod hosts;
mod record;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use outhaul_kit::durable::{self, FileError, at};
use outhaul_kit::lock;

use crate::digest::Digest;
use crate::error::ServeError;

pub use config::{ConfigState, config_state};
pub use hosts::Mirror;
use record::{HostsRecord, Record};

/// The folder for registries that have none of their own.
const DEFAULT: &str = "_default";
/// The file of a registry's folder.
const HOSTS: &str = "hosts.toml";
/// The name under which the file that was there is kept.
const BEFORE: &str = "hosts.toml.before-outhaul";
/// Largest `hosts.toml` in bytes.
const MAX_HOSTS_BYTES: u64 = 1 << 20;
const MODE: u32 = 0o644;

/// What was done to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: PathBuf,
    /// What was done.
    pub what: HostsFileOutcome,
}

/// What was done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostsFileOutcome {
    /// It asks the mirror; there was none before.
    Written,
    /// It asks the mirror first; what was there is kept beside it, under this name.
    Merged(PathBuf),
    /// It asks the mirror already.
    Unchanged,
    /// It is left as it is, for this reason.
    Left(String),
    /// What was there before is there again.
    Restored,
    /// There was none before, and there is none again.
    Removed,
}

/// Writes the mirror `mirror` into `folder`, containerd's `certs.d`.
///
/// # Errors
/// [`ServeError`] when a `hosts.toml` that is there cannot be read or extended, or the folder cannot be written. All
/// files are read before the first is written.
pub fn enable(folder: &Path, mirror: &Mirror) -> Result<Vec<FileChange>, ServeError> {
    let made = !folder.exists();
    durable::create_folder(folder)?;
    let _lock = locked(folder)?;
    let mut record = Record::read(folder)?.unwrap_or_default();
    record.made_folder |= made;
    let mut changes = Vec::new();
    let mut problems = Vec::new();
    let mut writes = Vec::new();
    for registry in registries(folder)? {
        match planned(folder, &registry, &record, mirror) {
            Ok(HostsFile::Done(change)) => changes.push(change),
            Ok(HostsFile::Write(write)) => writes.push(write),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(ServeError::Hosts { problems });
    }
    // What is about to be changed, and how each file is known again, before anything is.
    for write in &writes {
        let entry = record.entries.entry(write.registry.clone()).or_default();
        entry.existed = write.existed;
        entry.made_folder = write.makes_folder;
        entry.written.insert(write.digest());
    }
    if !writes.is_empty() {
        record.write(folder)?;
    }
    for write in writes {
        changes.push(write.carry_out(folder)?);
    }
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(changes)
}

/// Restores what [`enable`] found in `folder`, as far as nobody has changed it since. Nothing where it was never enabled.
///
/// # Errors
/// [`ServeError`] when the record cannot be read, or the folder cannot be written.
pub fn disable(folder: &Path) -> Result<Vec<FileChange>, ServeError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let lock = locked(folder)?;
    let Some(mut record) = Record::read(folder)? else {
        return Ok(Vec::new());
    };
    let mut changes = Vec::new();
    let mut left = record.clone();
    for (registry, entry) in &record.entries {
        let change = restored(folder, registry, entry)?;
        if !matches!(change.what, HostsFileOutcome::Left(_)) {
            left.entries.remove(registry);
        }
        changes.push(change);
    }
    // Those whose file someone else has changed stay on record, with what was there before.
    std::mem::swap(&mut record, &mut left);
    match record.entries.is_empty() {
        true => Record::remove(folder)?,
        false => record.write(folder)?,
    }
    drop(lock);
    if record.entries.is_empty() && record.made_folder {
        remove_if_empty(folder)?;
    }
    Ok(changes)
}

fn locked(folder: &Path) -> Result<lock::Held, ServeError> {
    let lock = lock::take_folder(folder).map_err(at("open", folder))?;
    lock.ok_or_else(|| ServeError::Usage {
        problem: format!("another command works in `{}`", folder.display()),
        help: "repeat this command when the other one has ended".to_owned(),
    })
}

/// The folders of registries, that for all others first.
fn registries(folder: &Path) -> Result<Vec<String>, ServeError> {
    let mut names = vec![DEFAULT.to_owned()];
    for path in durable::list(folder)? {
        let name = path.file_name().and_then(|name| name.to_str());
        match name {
            Some(name) if path.is_dir() && name != DEFAULT => names.push(name.to_owned()),
            _ => {}
        }
    }
    Ok(names)
}

/// What is to be done about one file.
enum HostsFile {
    Done(FileChange),
    Write(Write),
}

/// A file that is to be written.
struct Write {
    registry: String,
    content: String,
    /// Whether a file is there, or was before the mirror was enabled.
    existed: bool,
    /// Whether that file still has to be kept under its other name.
    keep: bool,
    mode: u32,
    makes_folder: bool,
}

impl Write {
    fn digest(&self) -> String {
        Digest::of(self.content.as_bytes()).to_string()
    }

    fn carry_out(self, folder: &Path) -> Result<FileChange, FileError> {
        let own = folder.join(&self.registry);
        let (path, before) = (own.join(HOSTS), own.join(BEFORE));
        durable::create_folder(&own)?;
        if self.keep {
            // The file itself gets a second name: its owner, times and links come back with it.
            fs::hard_link(&path, &before).map_err(at("keep a second name of", &path))?;
            durable::sync_folder(&own)?;
        }
        durable::write(&path, self.content.as_bytes(), self.mode)?;
        let what = match self.existed {
            true => HostsFileOutcome::Merged(before),
            false => HostsFileOutcome::Written,
        };
        Ok(FileChange { path, what })
    }
}

/// What the file of one registry becomes.
fn planned(
    folder: &Path,
    registry: &str,
    record: &Record,
    mirror: &Mirror,
) -> Result<HostsFile, String> {
    let own = folder.join(registry);
    let (path, before) = (own.join(HOSTS), own.join(BEFORE));
    let current = content(&path)?;
    let kept = content(&before)?;
    let entry = record.entries.get(registry);
    let done = |what| {
        Ok(HostsFile::Done(FileChange {
            path: path.clone(),
            what,
        }))
    };
    if entry.is_none() && kept.is_some() {
        return Err(format!(
            "`{}` is there, and nothing records why: compare it with `{HOSTS}`, keep the right one, and remove it",
            before.display()
        ));
    }
    let is_ours = entry.is_some_and(|entry| entry.wrote(current.as_deref()));
    let base = match entry {
        Some(entry) if entry.existed && kept.is_some() => kept.clone(),
        Some(entry) if !entry.existed && (is_ours || current.is_none()) => None,
        _ => current.clone(),
    };
    let begun = entry.is_some() && (kept.is_some() || is_ours);
    if begun && !is_ours && current != base && current.is_some() {
        return done(HostsFileOutcome::Left(
            "someone has changed it since the mirror was enabled".to_owned(),
        ));
    }
    let is_bare = current.is_none() && base.is_none() && registry != DEFAULT;
    if is_bare && has_certificates(&own)? {
        return done(HostsFileOutcome::Left(format!(
            "its folder has certificates and no `{HOSTS}`: containerd would no longer read them; images of `{registry}` \
             do not come from the mirror"
        )));
    }
    let content = match &base {
        Some(text) if mirror.is_in(text) => return done(HostsFileOutcome::Unchanged),
        Some(text) => mirror
            .merged(text)
            .map_err(|problem| format!("`{}`: {problem}", path.display()))?,
        None => mirror.alone(),
    };
    if current.as_deref() == Some(content.as_str()) {
        return done(HostsFileOutcome::Unchanged);
    }
    let existed = base.is_some();
    let mode = fs::metadata(&path).map_or(MODE, |found| found.permissions().mode() & 0o777);
    Ok(HostsFile::Write(Write {
        registry: registry.to_owned(),
        content,
        existed,
        keep: existed && kept.is_none(),
        mode,
        makes_folder: entry.map_or(!own.exists(), |entry| entry.made_folder),
    }))
}

fn content(path: &Path) -> Result<Option<String>, String> {
    let wrong = |problem: String| format!("`{}`: {problem}", path.display());
    let bytes =
        durable::read_if_present(path, MAX_HOSTS_BYTES).map_err(|error| error.to_string())?;
    let text = bytes.map(String::from_utf8).transpose();
    text.map_err(|_| wrong("it is not text in UTF-8".to_owned()))
}

/// Whether containerd finds certificates in a registry's folder, as it does where there is no `hosts.toml`.
fn has_certificates(folder: &Path) -> Result<bool, String> {
    let names = durable::list(folder).map_err(|error| error.to_string())?;
    Ok(names.iter().any(|path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("crt" | "cert" | "key"))
    }))
}

/// Brings one file back.
fn restored(folder: &Path, registry: &str, entry: &HostsRecord) -> Result<FileChange, ServeError> {
    let own = folder.join(registry);
    let (path, before) = (own.join(HOSTS), own.join(BEFORE));
    let unreadable = |problem: String| ServeError::Hosts {
        problems: vec![problem],
    };
    let current = content(&path).map_err(unreadable)?;
    let kept = content(&before).map_err(unreadable)?;
    let is_ours = entry.wrote(current.as_deref());
    let left = |why: String| HostsFileOutcome::Left(why);
    let what = match (entry.existed, is_ours, &kept) {
        (true, _, Some(_)) if is_ours || current == kept || current.is_none() => {
            durable::rename(&before, &path)?;
            // Where both are names of one file, because it was cut off between them, renaming does nothing.
            durable::remove_file(&before)?;
            durable::sync_folder(&own)?;
            HostsFileOutcome::Restored
        }
        (true, _, Some(_)) => left(format!(
            "someone has changed it since the mirror was enabled; what was there before is `{}`",
            before.display()
        )),
        // It was cut off before the file was touched.
        (true, false, None) => HostsFileOutcome::Restored,
        (true, true, None) => left(format!(
            "what was there before, `{}`, is gone; remove the mirror from it by hand",
            before.display()
        )),
        (false, true, _) => {
            durable::remove_file(&path)?;
            durable::sync_folder(&own)?;
            HostsFileOutcome::Removed
        }
        (false, false, _) if current.is_none() => HostsFileOutcome::Removed,
        (false, false, _) => left("someone has changed it since the mirror was enabled".to_owned()),
    };
    if what == HostsFileOutcome::Removed && entry.made_folder {
        remove_if_empty(&own)?;
    }
    Ok(FileChange { path, what })
}

/// Removes a folder that was made here, unless something is in it by now.
fn remove_if_empty(folder: &Path) -> Result<(), FileError> {
    let is_empty = folder.exists() && durable::list(folder)?.is_empty();
    if !is_empty {
        return Ok(());
    }
    fs::remove_dir(folder).map_err(at("remove", folder))?;
    folder.parent().map_or(Ok(()), durable::sync_folder)
}

#[cfg(test)]
mod tests;
