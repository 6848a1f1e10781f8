//! The files of one commit, listed and read by git while it is counted what comes.
//!
//! What comes in: a commit, a folder in it, which files are wanted, and bounds. What goes out: those
//! files, one after another. Git is ended as soon as a bound is passed: a few small trees that name one
//! another can stand for more files than there is room for. Git does not compare what it reads with its id; here
//! the commit, each folder and each file is compared, so that nobody who can write into a repository's folder
//! changes what a commit's id means.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use super::super::lfs::{is_pointer, opening};
use super::super::{Names, SourceError, StreamedFile, TreeLimits};
use super::{Repository, program, text};
use crate::pack::{ObjectHash, ObjectKind, id_of};

/// Most bytes of a commit or a folder.
pub(super) const MAX_OBJECT: u64 = 64 << 20;
/// Longest path in bytes.
const MAX_PATH: usize = 4096;
/// Entries that are looked at for each file that may be wanted.
const LOOKED_AT: usize = 5;

/// Why an object is refused that is another one than its id says.
const OTHER_CONTENT: &str = "its content does not match its id";

/// What a listing gave.
struct TreeListing {
    entries: Vec<Entry>,
    /// The ids of the commit and of all folders, which say what is in it.
    folders: BTreeSet<String>,
    /// Symbolic links and submodules.
    skipped: Vec<String>,
}

struct Entry {
    executable: bool,
    id: String,
    size: u64,
    path: String,
}

impl Repository {
    /// Hands the files below `path` of `commit` that `wanted` accepts to `take`, sorted by path, and says
    /// which links and submodules there are; `None` when that is not a folder.
    pub(in super::super) fn each<E: From<SourceError>>(
        &self,
        commit: &str,
        path: &str,
        wanted: &dyn Fn(&str) -> bool,
        limits: &TreeLimits,
        take: &mut dyn FnMut(StreamedFile<'_>) -> Result<(), E>,
    ) -> Result<Option<Vec<String>>, E> {
        let Some(mut listed) = self.list(commit, path, wanted, limits)? else {
            return Ok(None);
        };
        listed.entries.sort_by(|a, b| a.path.cmp(&b.path));
        self.read(&listed.folders, listed.entries, take)?;
        listed.skipped.sort();
        Ok(Some(listed.skipped))
    }

    /// What lies below `path` of `commit`; `None` when that is not a folder. Every file is read: whoever can push
    /// may have pushed a tree whose files are not files.
    pub(in super::super) fn names(
        &self,
        commit: &str,
        path: &str,
        limits: &TreeLimits,
    ) -> Result<Option<Names>, SourceError> {
        let Some(listed) = self.list(commit, path, &|_| true, limits)? else {
            return Ok(None);
        };
        let files = listed.entries.iter().map(|entry| entry.path.clone());
        let mut names = Names {
            files: files.collect(),
            pointers: Vec::new(),
            skipped: listed.skipped,
        };
        self.read::<SourceError>(&listed.folders, listed.entries, &mut |file| {
            if opening(file.content).is_ok_and(|opening| is_pointer(&opening)) {
                names.pointers.push(file.path);
            }
            Ok(())
        })?;
        Ok(Some(names))
    }

    /// Whether `path` of `commit` is a symbolic link or a submodule.
    pub(in super::super) fn is_link(&self, commit: &str, path: &str) -> bool {
        let arguments = ["ls-tree", "-z", "--full-tree", commit, "--", path];
        let listed = self.try_run(&arguments);
        listed.is_ok_and(|listed| {
            listed.is_ok_and(|line| line.starts_with(b"120000 ") || line.starts_with(b"160000 "))
        })
    }

    fn list(
        &self,
        commit: &str,
        path: &str,
        wanted: &dyn Fn(&str) -> bool,
        limits: &TreeLimits,
    ) -> Result<Option<TreeListing>, SourceError> {
        let root = &format!("{commit}:{path}");
        match self.try_run(&["cat-file", "-t", root])? {
            Ok(kind) if kind.trim_ascii() == b"tree" => {}
            _ => return Ok(None),
        }
        // What leads to the folder: the commit, its root, and each folder on the way.
        let ends = path.match_indices('/').map(|(end, _)| end);
        let parts = ends.chain([0, path.len()]);
        let way = parts.filter_map(|end| Some(format!("{commit}:{}", path.get(..end)?)));
        let mut arguments = vec!["rev-parse".to_owned(), commit.to_owned()];
        arguments.extend(way);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let folders = text(&self.run(&arguments)?);
        let folders = folders.lines().map(str::to_owned).collect();
        let mut command = self.command(&["ls-tree", "-r", "-t", "-z", "-l", "--full-tree", root]);
        let mut child = program::start(command.stdin(Stdio::null()).stderr(Stdio::null()))?;
        let Some(output) = child.stdout.take() else {
            program::stop(&mut child);
            return Err(broken("no pipe to `git ls-tree`"));
        };
        let mut counting = CountedListing {
            root,
            limits,
            seen: 0,
            total: 0,
            listed: TreeListing {
                entries: Vec::new(),
                folders,
                skipped: Vec::new(),
            },
        };
        let read = counting.lines(BufReader::new(output), wanted);
        if let Err(error) = read {
            program::stop(&mut child);
            return Err(error);
        }
        let status = child.wait().map_err(broken)?;
        if !status.success() {
            return Err(damaged(root, "a folder in it is missing or no folder"));
        }
        Ok(Some(counting.listed))
    }

    /// Reads the commit and its folders, and then every entry, through one `cat-file --batch`.
    fn read<E: From<SourceError>>(
        &self,
        folders: &BTreeSet<String>,
        entries: Vec<Entry>,
        take: &mut dyn FnMut(StreamedFile<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut command = self.command(&["cat-file", "--batch"]);
        let mut child = program::start(command.stdin(Stdio::piped()).stderr(Stdio::null()))?;
        let done = match (child.stdin.take(), child.stdout.take()) {
            (Some(mut input), Some(output)) => {
                let mut output = BufReader::new(output);
                match compare(folders, &mut input, &mut output) {
                    Ok(()) => ask(entries, input, output, take),
                    Err(error) => Err(error.into()),
                }
            }
            _ => Err(broken("no pipe to `git cat-file`").into()),
        };
        if let Err(error) = done {
            program::stop(&mut child);
            return Err(error);
        }
        let status = child.wait().map_err(broken)?;
        if !status.success() {
            return Err(damaged(
                "a file",
                "its content does not have the size that git states",
            )
            .into());
        }
        Ok(())
    }
}

/// Asks for an object; the line that git answers before its bytes. One question, one answer: neither pipe can fill up while the other waits.
pub(super) fn header_of(
    id: &str,
    input: &mut impl std::io::Write,
    output: &mut impl std::io::BufRead,
) -> std::io::Result<String> {
    writeln!(input, "{id}")?;
    input.flush()?;
    let mut header = String::new();
    output.by_ref().take(256).read_line(&mut header)?;
    Ok(header)
}

/// What git's answer about an object states; `None` where it has none, or a damaged one.
pub(super) fn kind_and_size(header: &str) -> Option<(ObjectKind, u64)> {
    let mut fields = header.trim().split(' ').skip(1);
    let kind = ObjectKind::named(fields.next()?)?;
    Some((kind, fields.next()?.parse().ok()?))
}

/// Compares the commit and its folders with their ids.
fn compare(
    ids: &BTreeSet<String>,
    input: &mut impl std::io::Write,
    output: &mut impl std::io::BufRead,
) -> Result<(), SourceError> {
    for id in ids {
        let failed = |_: std::io::Error| damaged(id, "its object is damaged");
        let header = header_of(id, input, output).map_err(failed)?;
        let found = kind_and_size(&header).filter(|(_, size)| *size <= MAX_OBJECT);
        let Some((kind, size)) = found else {
            return Err(damaged(id, "its object is missing or damaged"));
        };
        let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
        let mut newline = [0];
        output
            .read_exact(&mut bytes)
            .and_then(|()| output.read_exact(&mut newline))
            .map_err(failed)?;
        if id_of(kind, &bytes, id) != *id {
            return Err(damaged(id, OTHER_CONTENT));
        }
    }
    Ok(())
}

fn ask<E: From<SourceError>>(
    entries: Vec<Entry>,
    mut input: impl std::io::Write,
    mut output: impl std::io::BufRead,
    take: &mut dyn FnMut(StreamedFile<'_>) -> Result<(), E>,
) -> Result<(), E> {
    for entry in entries {
        // Git ends when an object is damaged.
        let failed = |_: std::io::Error| damaged(&entry.path, "its object is damaged");
        let header = header_of(&entry.id, &mut input, &mut output).map_err(failed)?;
        let expected = format!("{} blob {}\n", entry.id, entry.size);
        if header != expected {
            let found = header.trim().strip_prefix(&entry.id).unwrap_or_default();
            let why = match found.split_whitespace().next() {
                None => "its object is damaged".to_owned(),
                Some("missing") => "its object is missing".to_owned(),
                Some("blob") => "its size is not the one that git states".to_owned(),
                Some(kind) => format!("the tree has it as a file, and its object is a {kind}"),
            };
            return Err(damaged(&entry.path, &why).into());
        }
        let mut content = Content {
            from: output.by_ref().take(entry.size),
            hash: ObjectHash::new(ObjectKind::Blob, entry.size, &entry.id),
            is_broken: false,
        };
        let taken = take(StreamedFile {
            path: entry.path.clone(),
            executable: entry.executable,
            content: &mut content,
        });
        if content.is_broken {
            return Err(damaged(&entry.path, "its object is damaged").into());
        }
        taken?;
        // What was not asked for is read all the same: git sees then whether it is whole.
        std::io::copy(&mut content, &mut std::io::sink()).map_err(failed)?;
        if content.from.limit() > 0 {
            return Err(damaged(&entry.path, "its object is damaged").into());
        }
        let hash = content.hash;
        let mut newline = [0];
        output.read_exact(&mut newline).map_err(failed)?;
        if newline != *b"\n" {
            return Err(damaged(&entry.path, "its content is longer than git states").into());
        }
        if hash.id() != entry.id {
            return Err(damaged(&entry.path, OTHER_CONTENT).into());
        }
    }
    Ok(())
}

/// A file's content; it remembers what came and whether it broke off, since whoever reads it has errors of its own.
struct Content<R> {
    from: std::io::Take<R>,
    hash: ObjectHash,
    is_broken: bool,
}

impl<R: std::io::Read> std::io::Read for Content<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(buffer);
        let is_early = read.as_ref().is_ok_and(|count| *count == 0)
            && self.from.limit() > 0
            && !buffer.is_empty();
        if is_early || read.is_err() {
            self.is_broken = true;
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if let Ok(count) = read {
            self.hash.update(buffer.get(..count).unwrap_or_default());
        }
        read
    }
}

/// A listing, counted while it comes.
struct CountedListing<'a> {
    root: &'a str,
    limits: &'a TreeLimits,
    seen: usize,
    total: u64,
    listed: TreeListing,
}

impl CountedListing<'_> {
    fn lines(
        &mut self,
        mut from: impl std::io::BufRead,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<(), SourceError> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let most = MAX_PATH as u64 + 256;
            from.by_ref()
                .take(most)
                .read_until(0, &mut line)
                .map_err(broken)?;
            if line.pop().is_none() {
                return Ok(());
            }
            if line.len() as u64 + 1 >= most {
                return Err(self.too_large("a path", MAX_PATH as u64, "bytes"));
            }
            self.entry(&line, wanted)?;
        }
    }

    /// `<mode> SP <type> SP <id> SP+ <size> TAB <path>`.
    fn entry(&mut self, bytes: &[u8], wanted: &dyn Fn(&str) -> bool) -> Result<(), SourceError> {
        let line = String::from_utf8_lossy(bytes);
        let unknown = || broken(format!("cannot read the tree entry `{line}`"));
        let (head, path) = line.split_once('\t').ok_or_else(unknown)?;
        let fields: Vec<&str> = head.split_whitespace().collect();
        let [mode, _kind, id, size] = fields.as_slice() else {
            return Err(unknown());
        };
        let limits = self.limits;
        self.seen += 1;
        let most = limits.max_files.saturating_mul(LOOKED_AT);
        if self.seen > most {
            return Err(self.too_large("the tree", most as u64, "entries"));
        }
        if *mode == "040000" {
            self.listed.folders.insert((*id).to_owned());
            return Ok(());
        }
        let is_wanted = wanted(path);
        if !matches!(*mode, "100644" | "100755") {
            self.listed.skipped.push(path.to_owned());
            return Ok(());
        }
        if !is_wanted {
            return Ok(());
        }
        if str::from_utf8(bytes).is_err() {
            let path = path.to_owned();
            return Err(SourceError::NotText { path });
        }
        // Of what is missing git says `BAD`.
        let size = size.parse().unwrap_or(0);
        self.total = self.total.saturating_add(size);
        if size > limits.max_file_bytes {
            return Err(self.too_large(path, limits.max_file_bytes, "bytes"));
        }
        if self.total > limits.max_total_bytes {
            return Err(self.too_large("the tree", limits.max_total_bytes, "bytes"));
        }
        if self.listed.entries.len() >= limits.max_files {
            return Err(self.too_large("the tree", limits.max_files as u64, "files"));
        }
        self.listed.entries.push(Entry {
            executable: *mode == "100755",
            id: (*id).to_owned(),
            size,
            path: path.to_owned(),
        });
        Ok(())
    }

    fn too_large(&self, what: &str, limit: u64, unit: &'static str) -> SourceError {
        SourceError::TooLarge {
            what: format!("{what} of `{}`", self.root),
            limit,
            unit,
        }
    }
}

pub(super) fn damaged(what: &str, message: &str) -> SourceError {
    SourceError::Damaged {
        what: what.to_owned(),
        message: message.to_owned(),
    }
}

pub(super) fn broken(message: impl ToString) -> SourceError {
    SourceError::Git {
        message: message.to_string(),
    }
}
