//! Write: a folder becomes a tree, and nothing is written that lies there already.
//!
//! What comes in: the folder, what was found in it, and the tree that it is to hold. What goes out: the
//! folder with that tree and whatever else people put there. Of the smallest folder that holds every change
//! a new one is made beside it, with links to the files that stay, and takes the old one's place at once. Where
//! few changes lie far apart there are several, which a power cut cannot part for good (see
//! [`exchange`]). Where nothing changes, nothing is written but the record.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_kit::interrupt;

use super::exchange::{self, sync};
use super::remembered::{Remembered, time_of_file_system};
use super::walk::{FileStamp, FilesFound, walk};
use super::{FolderChanges, OutputError, absolute, io_error, read_file, record_path, write_record};
use outhaul_plane::render::{is_of_assignment, top_of};
use outhaul_record::record::Record;

/// The most files and folders that are synced one by one; of more the whole file system is synced once.
const SYNCED_ALONE: usize = 64;
/// Several folders are replaced instead of one when they hold less than one part in so many of its files.
const SEVERAL_SHARE: usize = 4;

/// What a file of a tree is to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeContent<'a> {
    /// These bytes.
    Bytes(Cow<'a, [u8]>),
    /// What lies there, with this digest: it was found untouched.
    Taken(Digest),
}

/// Files by path.
pub type Tree<'a> = BTreeMap<String, TreeContent<'a>>;

/// What writing did.
#[derive(Debug)]
pub struct WrittenFolder {
    /// What is different now.
    pub changes: FolderChanges,
    /// The record's digest.
    pub record: Digest,
    /// The files of the tree as they are now, where it is certain that nobody touched them.
    pub seen: BTreeMap<String, FileStamp>,
}

/// Makes `folder` hold `tree`, of which `record` then lists the files. `before` is what was found there.
///
/// # Errors
/// [`OutputError`]; the folder is then as it was.
pub fn write(
    folder: &Path,
    tree: &Tree<'_>,
    mut record: Record,
    before: &Remembered,
) -> Result<WrittenFolder, OutputError> {
    let folder = &absolute(folder)?;
    let old = before.record.as_ref().map(|record| &record.files);
    let is_ours = |path: &String| old.is_some_and(|old| old.contains_key(path));
    let mut changes = FolderChanges::default();
    let mut touched = BTreeSet::new();
    let mut foreign = Vec::new();
    for (path, content) in tree {
        let TreeContent::Bytes(bytes) = content else {
            changes.unchanged += 1;
            continue;
        };
        match before.there.get(path) {
            None => changes.added += 1,
            Some(Some(seen)) if holds(&folder.join(path), seen, bytes) => {
                changes.unchanged += 1;
                continue;
            }
            Some(_) if is_ours(path) => changes.changed += 1,
            Some(_) => foreign.push(path),
        }
        touched.insert(path.as_str());
    }
    if let Some(first) = foreign.first() {
        return Err(OutputError::Foreign {
            path: folder.join(first),
            count: foreign.len(),
        });
    }
    refuse_lost(folder, tree, before)?;
    for path in before.there.keys().filter(|path| !tree.contains_key(*path)) {
        match is_ours(path) {
            true => {
                changes.removed += 1;
                touched.insert(path);
            }
            false => changes.foreign += 1,
        }
    }
    let digests = tree
        .iter()
        .map(|(path, content)| (path.clone(), content.digest()));
    record.files = digests.collect();
    let mut seen = before.seen(tree, &touched);
    let digest = match (touched.is_empty() && folder.exists(), before.record_digest) {
        (true, Some(digest)) if before.record.as_ref() == Some(&record) => digest,
        (true, _) => write_record(&record_path(folder), &record)?,
        (false, _) => {
            let below = match folders(folder, tree, &touched) {
                whole if whole == [""] && is_stood_in(folder) => tops(folder, &touched)?,
                below => below,
            };
            let swap = Swap {
                folder,
                below: &below,
                tree,
                touched: &touched,
                before,
            };
            swap.run(record, &mut seen)?
        }
    };
    Ok(WrittenFolder {
        changes,
        record: digest,
        seen,
    })
}

/// Refuses a folder that has files of other assignments that no record lists: what Outhaul wrote there is not left behind for good.
fn refuse_lost(folder: &Path, tree: &Tree<'_>, before: &Remembered) -> Result<(), OutputError> {
    let record = before.record.as_ref();
    let is_on_record = |path: &str| record.is_some_and(|record| record.files.contains_key(path));
    // Beside a record, what lies in other folders than those of cluster types is someone else's.
    let of_record = record.iter().flat_map(|record| record.files.keys());
    let tops = of_record.chain(tree.keys());
    let tops: BTreeSet<&str> = tops.map(|path| top_of(path)).collect();
    let is_written = |path: &&String| {
        is_of_assignment(path)
            && !tree.contains_key(*path)
            && !is_on_record(path)
            && (record.is_none() || tops.contains(top_of(path)))
    };
    let mut left = before.there.keys().filter(is_written);
    let Some(first) = left.next() else {
        return Ok(());
    };
    Err(OutputError::Lost {
        record: record_path(folder),
        is_there: record.is_some(),
        folder: folder.to_owned(),
        first: first.clone(),
        count: 1 + left.count(),
    })
}

impl TreeContent<'_> {
    fn digest(&self) -> Digest {
        match self {
            Self::Bytes(bytes) => Digest::of(bytes),
            Self::Taken(digest) => *digest,
        }
    }
}

impl Remembered {
    /// The files of `tree` that stay as they were found.
    fn seen(&self, tree: &Tree<'_>, touched: &BTreeSet<&str>) -> BTreeMap<String, FileStamp> {
        let there = self.there.iter();
        let stay =
            there.filter(|(path, _)| tree.contains_key(*path) && !touched.contains(path.as_str()));
        stay.filter_map(|(path, seen)| Some((path.clone(), (*seen)?.as_proof(self.looked_at))))
            .collect()
    }
}

fn holds(path: &Path, seen: &FileStamp, bytes: &[u8]) -> bool {
    seen.size == bytes.len() as u64 && read_file(path).is_ok_and(|there| there == bytes)
}

/// The folders that are replaced: the smallest one that holds every change, or several, one for each
/// change, where that leaves most files alone. Each is there and holds something afterwards; none lies in
/// another. An empty name is all of it.
fn folders(folder: &Path, tree: &Tree<'_>, touched: &BTreeSet<&str>) -> Vec<String> {
    let parent = |path: &str| {
        path.rsplit_once('/')
            .map_or("", |(folder, _)| folder)
            .to_owned()
    };
    let is_folder = |path: PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let is_real = |below: &str| {
        let ends = below.match_indices('/').map(|(at, _)| at);
        let mut ends = ends.chain([below.len()]);
        ends.all(|end| is_folder(folder.join(&below[..end])))
    };
    let count = |below: &str| within(tree, below).count();
    let fitting = |mut below: String| {
        while !below.is_empty() && (count(&below) == 0 || !is_real(&below)) {
            below = parent(&below);
        }
        below
    };
    let mut common = touched
        .first()
        .map(|first| parent(first))
        .unwrap_or_default();
    // What the first and the last of sorted paths begin with, all between them do.
    let last = touched.last().copied().unwrap_or_default();
    while !common.is_empty() && !last.starts_with(&format!("{common}/")) {
        common = parent(&common);
    }
    let one = fitting(common);
    let parents: BTreeSet<String> = touched.iter().map(|path| parent(path)).collect();
    let each: BTreeSet<String> = parents.into_iter().map(fitting).collect();
    let is_below = |inner: &String| {
        let above = inner.match_indices('/').map(|(at, _)| &inner[..at]);
        above
            .chain([""])
            .any(|above| above != inner && each.contains(above))
    };
    let several: Vec<String> = each.iter().filter(|one| !is_below(one)).cloned().collect();
    let files: usize = several.iter().map(|below| count(below)).sum();
    match files.saturating_mul(SEVERAL_SHARE) < count(&one) {
        true => several,
        false => vec![one],
    }
}

/// Whether the working folder is `folder` or lies in it: who stands there would be left in a folder that is
/// gone, if a new one took its place.
fn is_stood_in(folder: &Path) -> bool {
    let found = fs::canonicalize(folder);
    std::env::current_dir().is_ok_and(|cwd| found.is_ok_and(|folder| cwd.starts_with(folder)))
}

/// The topmost folders that hold every change, so that `folder` itself stays the one that it is.
fn tops(folder: &Path, touched: &BTreeSet<&str>) -> Result<Vec<String>, OutputError> {
    let mut all = BTreeSet::new();
    let mut in_the_way = Vec::new();
    for path in touched {
        let top = path.split_once('/').map_or(*path, |(top, _)| top);
        let place = folder.join(top);
        let is_folder = fs::symlink_metadata(&place).map_or(true, |found| found.is_dir());
        if !path.contains('/') || !is_folder {
            in_the_way.push(place);
        }
        all.insert(top.to_owned());
    }
    in_the_way.dedup();
    match in_the_way.first() {
        None => Ok(all.into_iter().collect()),
        Some(first) => Err(OutputError::Foreign {
            path: first.clone(),
            count: in_the_way.len(),
        }),
    }
}

/// The part of a tree below one of its folders.
fn within<'t, 'a>(
    tree: &'t Tree<'a>,
    below: &str,
) -> impl Iterator<Item = (&'t String, &'t TreeContent<'a>)> {
    let prefix = prefix(below);
    let from = tree.range(prefix.clone()..);
    from.take_while(move |(path, _)| path.starts_with(&prefix))
}

fn prefix(below: &str) -> String {
    match below {
        "" => String::new(),
        below => format!("{below}/"),
    }
}

/// One change of a folder.
struct Swap<'s> {
    folder: &'s Path,
    /// What is replaced, within the folder.
    below: &'s [String],
    tree: &'s Tree<'s>,
    /// The paths that are written or removed.
    touched: &'s BTreeSet<&'s str>,
    before: &'s Remembered,
}

impl Swap<'_> {
    /// Does it; `seen` gets what is known of the files after it.
    fn run(
        &self,
        mut record: Record,
        seen: &mut BTreeMap<String, FileStamp>,
    ) -> Result<Digest, OutputError> {
        let folder = self.folder;
        let parent = folder.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(io_error("create", parent))?;
        let new = || {
            tempfile::Builder::new()
                .prefix(exchange::STAGED)
                .tempdir_in(parent)
        };
        let (staged, _temporary) =
            interrupt::make(new, tempfile::TempDir::path).map_err(io_error("write in", parent))?;
        interrupt::here();
        let mut made = Unsynced::default();
        let mut expected = BTreeMap::new();
        for (number, below) in self.below.iter().enumerate() {
            let fresh = staged.path().join(number.to_string());
            let done = self.stage(below, &fresh, &mut made, &mut expected);
            done.map_err(|error| self.in_place(error, staged.path()))?;
        }
        let synced = made.sync(staged.path());
        synced.map_err(|error| self.in_place(error, staged.path()))?;
        interrupt::here();
        // The record and what it records go together.
        let _whole = interrupt::finishing();
        // A crash between the swap and the last record must leave nothing that looks like someone
        // else's.
        let exact = record.files.clone();
        if let Some(old) = &self.before.record {
            let gone = old.files.iter();
            let gone = gone.filter(|(path, _)| !exact.contains_key(*path));
            let gone: Vec<_> = gone.map(|(path, digest)| (path.clone(), *digest)).collect();
            record.files.extend(gone);
        }
        let path = &record_path(folder);
        let mut digest = write_record(path, &record)?;
        exchange::all(folder, staged.path(), self.below)?;
        interrupt::here();
        // Its links to the files that stay count in their times.
        drop(staged);
        if record.files.len() != exact.len() {
            record.files = exact;
            digest = write_record(path, &record)?;
        }
        let now = time_of_file_system(folder);
        let mut after = FilesFound::new();
        for below in self.below {
            after.append(&mut walk(folder, below)?);
        }
        for (path, before) in &expected {
            let same = after.get(path).copied().flatten();
            match same.filter(|now| now.has_content_of(before)) {
                Some(found) => drop(seen.insert(path.clone(), found.as_proof(now))),
                None => drop(seen.remove(path)),
            }
        }
        for below in self.below.iter().filter(|below| !below.is_empty()) {
            // Of a folder that lost its last file nothing is left; one that holds anything stays.
            drop(fs::remove_dir(folder.join(below)));
        }
        Ok(digest)
    }

    /// The same error, which names the file or folder that was to be made, and not the temporary one in `staged`, which is removed.
    fn in_place(&self, error: OutputError, staged: &Path) -> OutputError {
        let place = |path: PathBuf| {
            let Ok(inner) = path.strip_prefix(staged) else {
                return path;
            };
            let mut parts = inner.components();
            let number = parts.next().and_then(|part| part.as_os_str().to_str());
            let below = number
                .and_then(|number| number.parse().ok())
                .and_then(|number: usize| self.below.get(number));
            let folder = below.map_or(self.folder.to_owned(), |below| self.folder.join(below));
            // A path with a `/` at its end would be another text for the same folder.
            folder.join(parts.as_path()).components().collect()
        };
        match error {
            OutputError::Io {
                doing,
                path,
                source,
            } => OutputError::Io {
                doing,
                path: place(path),
                source,
            },
            error => error,
        }
    }

    /// Makes the new folder for `below` at `fresh`. `expected` gets what its files of the tree are.
    fn stage(
        &self,
        below: &str,
        fresh: &Path,
        made: &mut Unsynced,
        expected: &mut BTreeMap<String, FileStamp>,
    ) -> Result<(), OutputError> {
        let prefix = prefix(below);
        let to = |path: &str| fresh.join(path.strip_prefix(&prefix).unwrap_or(path));
        made.folder(fresh)?;
        for (path, content) in within(self.tree, below) {
            let seen = match content {
                TreeContent::Bytes(bytes) if self.touched.contains(path.as_str()) => {
                    made.file(&to(path), bytes)?
                }
                _ => {
                    made.link(&self.folder.join(path), &to(path))?;
                    self.before.there.get(path).copied().flatten()
                }
            };
            expected.extend(seen.map(|seen| (path.clone(), seen)));
        }
        // Looked for again, so that what came while it was rendered stays too.
        for path in walk(self.folder, below)?.keys() {
            if !self.tree.contains_key(path) && !self.touched.contains(path.as_str()) {
                made.link(&self.folder.join(path), &to(path))?;
            }
        }
        Ok(())
    }
}

/// Files and folders that are not yet certain to survive a power cut.
#[derive(Default)]
struct Unsynced {
    files: Vec<PathBuf>,
    folders: BTreeSet<PathBuf>,
    /// The folder of the file before: the next one most likely has the same.
    last: PathBuf,
}

impl Unsynced {
    fn folder(&mut self, path: &Path) -> Result<(), OutputError> {
        if self.last != path && !self.folders.contains(path) {
            fs::create_dir_all(path).map_err(io_error("create", path))?;
            self.folders.insert(path.to_path_buf());
        }
        path.clone_into(&mut self.last);
        Ok(())
    }

    fn file(&mut self, path: &Path, bytes: &[u8]) -> Result<Option<FileStamp>, OutputError> {
        self.folder(path.parent().unwrap_or(path))?;
        let write = || -> io::Result<Option<FileStamp>> {
            let mut file = File::create_new(path)?;
            io::Write::write_all(&mut file, bytes)?;
            Ok(FileStamp::of(&file.metadata()?))
        };
        let seen = write().map_err(io_error("write", path))?;
        self.files.push(path.to_path_buf());
        Ok(seen)
    }

    fn link(&mut self, from: &Path, to: &Path) -> Result<(), OutputError> {
        self.folder(to.parent().unwrap_or(to))?;
        fs::hard_link(from, to).map_err(io_error("keep", from))
    }

    fn sync(&self, fresh: &Path) -> Result<(), OutputError> {
        let files = self.files.len();
        if files + self.folders.len() > SYNCED_ALONE {
            let synced = File::open(fresh).and_then(|opened| Ok(rustix::fs::syncfs(opened)?));
            return synced.map_err(io_error("sync", fresh));
        }
        // The folders between a new one and `fresh` are new as well.
        let mut folders = self.folders.clone();
        for folder in &self.folders {
            let above = folder.ancestors().skip(1);
            folders.extend(
                above
                    .take_while(|at| at.starts_with(fresh))
                    .map(Path::to_path_buf),
            );
        }
        self.files
            .iter()
            .chain(&folders)
            .try_for_each(|path| sync(path))
    }
}

#[cfg(test)]
mod tests;
