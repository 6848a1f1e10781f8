//! Plain folders as sources.
//!
//! What comes in: a folder and a path below it. What goes out: its regular files, sorted by path, and
//! one digest of all of them. A folder that is opened for its digest keeps what it read of small files,
//! so that what is used is what the digest is of. Symbolic links are named and never followed, `.git` is
//! never entered, and nothing is written.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;
use rayon::prelude::*;

use super::{SourceError, StreamedFile, TreeLimits};

/// Largest file in bytes whose content is kept from opening to reading: what people write by hand.
const MAX_KEPT_FILE: u64 = 64 << 10;
/// Most bytes that are kept.
const MAX_KEPT: u64 = 64 << 20;
/// Fewest files that are worth another processor.
pub const FILES_PER_JOB: usize = 256;

/// Every file of a folder, sorted by path.
#[derive(Debug, Default)]
pub(super) struct Listing {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    path: String,
    link: bool,
    /// What was read when the folder was opened.
    kept: Option<Content>,
}

#[derive(Debug, Clone)]
struct Content {
    bytes: Vec<u8>,
    executable: bool,
}

/// Hands the files below `dir/path` that `wanted` accepts to `take`, and says which links there are;
/// `None` when that is not a folder, or one only through a link. `opened` is what [`open`] gave; without it
/// the folder is listed now.
pub(super) fn each<E: From<SourceError>>(
    dir: &Path,
    opened: Option<&Listing>,
    path: &str,
    wanted: &dyn Fn(&str) -> bool,
    limits: &TreeLimits,
    take: &mut dyn FnMut(StreamedFile<'_>) -> Result<(), E>,
) -> Result<Option<Vec<String>>, E> {
    if !dir.is_dir() {
        return Err(E::from(SourceError::NotAFolder {
            path: dir.to_owned(),
        }));
    }
    let mut root = dir.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        root.push(part);
        // A link in a team's folder could lead anywhere on this disk.
        if !fs::symlink_metadata(&root).is_ok_and(|found| found.is_dir()) {
            return Ok(None);
        }
    }
    if opened.is_some_and(|listing| listing.leads_through_link(path)) {
        return Ok(None);
    }
    let now;
    let (listing, above) = match opened {
        Some(listing) if path.is_empty() => (listing, String::new()),
        Some(listing) => (listing, format!("{path}/")),
        None => {
            now = Listing::of(&root)?;
            (&now, String::new())
        }
    };
    let mut skipped = Vec::new();
    let (mut total, mut files) = (0u64, 0usize);
    for entry in &listing.entries {
        let Some(below) = entry.path.strip_prefix(&above) else {
            continue;
        };
        let is_wanted = wanted(below);
        if entry.link {
            skipped.push(below.to_owned());
            continue;
        }
        if !is_wanted {
            continue;
        }
        files += 1;
        if files > limits.max_files {
            return Err(beyond(&root, limits.max_files as u64, "files").into());
        }
        let most = limits.max_file_bytes;
        let left = limits.max_total_bytes.saturating_sub(total);
        let path = root.join(below);
        let too_large = || SourceError::TooLarge {
            what: format!("`{}`", path.display()),
            limit: most,
            unit: "bytes",
        };
        let (executable, size, from): (bool, u64, Box<dyn Read>) = match &entry.kept {
            Some(kept) if kept.bytes.len() as u64 <= most => {
                let bytes = kept.bytes.as_slice();
                (kept.executable, bytes.len() as u64, Box::new(bytes))
            }
            _ => {
                let file = open_file(&path).map_err(|error| unreadable(&path, error))?;
                let metadata = file.metadata().map_err(|error| unreadable(&path, error))?;
                (is_executable(&metadata), metadata.len(), Box::new(file))
            }
        };
        if size > most {
            return Err(too_large().into());
        }
        if size > left {
            return Err(beyond(&root, limits.max_total_bytes, "bytes").into());
        }
        let mut content = Bounded {
            from,
            read: 0,
            max: most.min(left),
            error: None,
        };
        let taken = take(StreamedFile {
            path: below.to_owned(),
            executable,
            content: &mut content,
        });
        match content.error.take() {
            Some(None) if left < most => {
                return Err(beyond(&root, limits.max_total_bytes, "bytes").into());
            }
            Some(None) => return Err(too_large().into()),
            Some(Some(error)) => return Err(unreadable(&path, error).into()),
            None => taken?,
        }
        // Of what is not wanted whole, all counts.
        total = total.saturating_add(content.read.max(size));
    }
    Ok(Some(skipped))
}

fn beyond(root: &Path, limit: u64, unit: &'static str) -> SourceError {
    SourceError::TooLarge {
        what: format!("folder `{}`", root.display()),
        limit,
        unit,
    }
}

/// A content of at most `max` bytes. It remembers what went wrong, since whoever reads it has errors of its own.
#[expect(
    clippy::option_option,
    reason = "not looked for, not there, and there are three things"
)]
struct Bounded<'a> {
    from: Box<dyn Read + 'a>,
    read: u64,
    max: u64,
    /// The error of the system, or none when there is more than `max`.
    error: Option<Option<std::io::Error>>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let failed = || std::io::Error::other("it cannot be read on");
        if self.error.is_some() {
            return Err(failed());
        }
        let count = match self.from.read(buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                self.error = Some(Some(error));
                return Err(failed());
            }
        };
        self.read = self.read.saturating_add(count as u64);
        if self.read > self.max {
            self.error = Some(None);
            return Err(failed());
        }
        Ok(count)
    }
}

/// One digest over the paths, modes and contents of all files below `dir`, and what was read for it.
///
/// # Errors
/// [`SourceError`] when it is not a folder or cannot be read.
pub(super) fn open(dir: &Path) -> Result<(Digest, Listing), SourceError> {
    if !dir.is_dir() {
        return Err(SourceError::NotAFolder {
            path: dir.to_owned(),
        });
    }
    digested(dir, Listing::of(dir)?)
}

/// As [`open`], of these files alone. What is not there any more is left out.
///
/// # Errors
/// As [`open`].
pub(super) fn open_files(dir: &Path, paths: Vec<String>) -> Result<(Digest, Listing), SourceError> {
    let mut entries = Vec::new();
    for path in paths {
        let Ok(metadata) = fs::symlink_metadata(dir.join(&path)) else {
            continue;
        };
        // A folder that git lists as one entry is a submodule.
        let link = metadata.is_symlink() || metadata.is_dir();
        let path = path.trim_end_matches('/').to_owned();
        if link || metadata.is_file() {
            let kept = None;
            entries.push(Entry { path, link, kept });
        }
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    digested(dir, Listing { entries })
}

fn digested(dir: &Path, Listing { entries }: Listing) -> Result<(Digest, Listing), SourceError> {
    let may_keep = AtomicU64::new(MAX_KEPT);
    let read: Vec<_> = entries
        .into_par_iter()
        .with_min_len(FILES_PER_JOB)
        .map(|mut entry| {
            let line = entry.read(dir, &may_keep);
            line.map(|line| (entry, line))
        })
        .collect();
    let mut hasher = Hasher::new();
    let mut entries = Vec::with_capacity(read.len());
    for one in read {
        let (entry, line) = one?;
        hasher.update(line.as_bytes());
        hasher.update(b" ");
        hasher.update(entry.path.as_bytes());
        hasher.update(b"\0");
        entries.push(entry);
    }
    Ok((hasher.finish().0, Listing { entries }))
}

/// Whether `path` is a symbolic link, or a submodule of the working copy that `opened` is.
pub(super) fn is_link(dir: &Path, opened: Option<&Listing>, path: &str) -> bool {
    fs::symlink_metadata(dir.join(path)).is_ok_and(|found| found.is_symlink())
        || opened.is_some_and(|listing| listing.has_link(path))
}

impl Listing {
    fn has_link(&self, path: &str) -> bool {
        let found = self
            .entries
            .binary_search_by(|entry| entry.path.as_str().cmp(path));
        found.is_ok_and(|at| self.entries.get(at).is_some_and(|entry| entry.link))
    }

    /// Whether `path`, or a folder above it, is a link.
    fn leads_through_link(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(end, _)| end);
        let mut parts = ends.chain([path.len()]).filter_map(|end| path.get(..end));
        parts.any(|part| self.has_link(part))
    }

    /// What there is below `dir`; nothing is read.
    fn of(dir: &Path) -> Result<Self, SourceError> {
        let mut entries = Vec::new();
        walk(dir, "", &mut entries)?;
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { entries })
    }
}

impl Entry {
    /// Its mode and digest. The content is kept when it is small, and taken from what `may_keep`.
    fn read(&mut self, dir: &Path, may_keep: &AtomicU64) -> Result<String, SourceError> {
        let path = dir.join(&self.path);
        let unreadable = |error| unreadable(&path, error);
        if self.link && path.is_dir() && !path.is_symlink() {
            return Ok("s".to_owned());
        }
        if self.link {
            let target = fs::read_link(&path).map_err(unreadable)?;
            let digest = Digest::of(target.as_os_str().as_encoded_bytes());
            return Ok(format!("l {}", digest.hex()));
        }
        let mut file = open_file(&path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let executable = is_executable(&metadata);
        let mode = if executable { 'x' } else { 'f' };
        let left = may_keep.load(Ordering::Relaxed);
        if metadata.len() <= MAX_KEPT_FILE.min(left) {
            let bytes = whole(&file, metadata.len(), MAX_KEPT_FILE).map_err(unreadable)?;
            // It may have grown since.
            if bytes.len() as u64 <= MAX_KEPT_FILE {
                // A little more than that may be kept when several look at once.
                let less = |left: u64| Some(left.saturating_sub(bytes.len() as u64));
                let _ = may_keep.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
                let digest = Digest::of(&bytes);
                self.kept = Some(Content { bytes, executable });
                return Ok(format!("{mode} {}", digest.hex()));
            }
            file = open_file(&path).map_err(unreadable)?;
        }
        let mut hasher = Hasher::new();
        std::io::copy(&mut file, &mut hasher).map_err(unreadable)?;
        Ok(format!("{mode} {}", hasher.finish().0.hex()))
    }
}

fn walk(folder: &Path, below: &str, entries: &mut Vec<Entry>) -> Result<(), SourceError> {
    let unreadable = |error| unreadable(folder, error);
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().into_string().map_err(|name| {
            let path = folder.join(name).to_string_lossy().into_owned();
            SourceError::NotText { path }
        })?;
        if name == ".git" {
            continue;
        }
        let path = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_dir() {
            walk(&entry.path(), &path, entries)?;
        } else if kind.is_symlink() || kind.is_file() {
            entries.push(Entry {
                path,
                link: kind.is_symlink(),
                kept: None,
            });
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: std::io::Error) -> SourceError {
    SourceError::Unreadable {
        path: path.to_owned(),
        error,
    }
}

/// A link that took the place of a file meanwhile is not followed.
fn open_file(path: &Path) -> std::io::Result<fs::File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
}

fn is_executable(metadata: &fs::Metadata) -> bool {
    metadata.permissions().mode() & 0o100 != 0
}

/// The `len` bytes that `file` has, or one byte more than `max_bytes`. What is added to it meanwhile is
/// not asked for; a file that says it has none, as those of the kernel do, is read to its end.
fn whole(file: &fs::File, len: u64, max_bytes: u64) -> std::io::Result<Vec<u8>> {
    let beyond = max_bytes.saturating_add(1);
    let asked = if len == 0 { beyond } else { len.min(beyond) };
    let mut bytes = Vec::with_capacity(usize::try_from(len.min(beyond)).unwrap_or_default());
    file.take(asked).read_to_end(&mut bytes)?;
    Ok(bytes)
}
