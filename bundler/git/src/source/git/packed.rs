//! Some commits of a repository as one pack: listed, read and checked.
//!
//! What comes in: commits, and bounds. What goes out: a pack of them with their trees and files, and which of
//! them have parents that are not in it. Each object is compared with its id while it is read, so that a
//! damaged repository is known here and not on site.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::Path;
use std::process::Stdio;

use super::super::{SourceError, TreeLimits};
use super::tree::{MAX_OBJECT, broken, damaged, header_of, kind_and_size};
use super::{Repository, program};
use crate::pack::{ObjectKind, PackWriter, id_of};

/// Longest line of a listing in bytes.
const MAX_LINE: u64 = 8192;

/// What is in a pack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// The commits whose parents are not in it.
    pub shallow: Vec<String>,
    /// Paths of submodules: their content is not in the repository.
    pub submodules: Vec<String>,
    /// Paths of files whose content is elsewhere: pointers of Git LFS.
    pub pointers: Vec<String>,
}

impl Repository {
    /// Makes a bare repository in `folder` of one pack; `shallow` are its commits whose parents are not in it.
    ///
    /// # Errors
    /// [`SourceError`] when the pack is damaged, or the folder cannot be written.
    pub fn of_pack<'s>(
        folder: &Path,
        from: &mut dyn std::io::Read,
        shallow: impl IntoIterator<Item = &'s String>,
    ) -> Result<Self, SourceError> {
        let repository = Self::at(folder);
        repository.init()?;
        let mut lines = String::new();
        for id in shallow {
            lines.push_str(id);
            lines.push('\n');
        }
        if !lines.is_empty() {
            outhaul_kit::durable::write(&folder.join("shallow"), lines.as_bytes(), 0o644)
                .map_err(broken)?;
        }
        let pack = Path::new("objects/pack/pack-shipped.pack");
        std::fs::create_dir_all(folder.join("objects/pack")).map_err(broken)?;
        let mut file = std::fs::File::create(folder.join(pack)).map_err(broken)?;
        std::io::copy(from, &mut file).map_err(broken)?;
        repository.run(&["index-pack", &pack.display().to_string()])?;
        Ok(repository)
    }

    /// Writes a pack of `commits` to `out`.
    ///
    /// # Errors
    /// [`SourceError`] when an object is missing or damaged, a bound is passed, or `out` fails.
    pub fn pack(
        &self,
        commits: &[String],
        limits: &TreeLimits,
        out: &mut dyn Write,
    ) -> Result<Packed, SourceError> {
        let mut packed = Packed::default();
        let mut paths: BTreeMap<String, String> = BTreeMap::new();
        for commit in commits {
            paths.insert(commit.clone(), String::new());
            self.objects(commit, limits, &mut paths, &mut packed)?;
        }
        packed.submodules.sort();
        packed.submodules.dedup();
        let mut command = self.command(&["cat-file", "--batch"]);
        let mut child = program::start(command.stdin(Stdio::piped()).stderr(Stdio::null()))?;
        let done = match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => write(
                &paths,
                limits,
                &mut packed,
                input,
                BufReader::new(output),
                out,
            ),
            _ => Err(broken("no pipe to `git cat-file`")),
        };
        if let Err(error) = done {
            program::stop(&mut child);
            return Err(error);
        }
        child.wait().map_err(broken)?;
        packed.pointers.sort();
        Ok(packed)
    }

    /// Adds the ids of a commit's root, folders and files.
    fn objects(
        &self,
        commit: &str,
        limits: &TreeLimits,
        paths: &mut BTreeMap<String, String>,
        packed: &mut Packed,
    ) -> Result<(), SourceError> {
        let root = self.run(&["rev-parse", "--verify", &format!("{commit}^{{tree}}")])?;
        paths.insert(super::text(&root), String::new());
        let mut command = self.command(&["ls-tree", "-r", "-t", "-z", "--full-tree", commit]);
        let mut child = program::start(command.stdin(Stdio::null()).stderr(Stdio::null()))?;
        let Some(output) = child.stdout.take() else {
            program::stop(&mut child);
            return Err(broken("no pipe to `git ls-tree`"));
        };
        let read = entries(BufReader::new(output), commit, limits, paths, packed);
        if let Err(error) = read {
            program::stop(&mut child);
            return Err(error);
        }
        let status = child.wait().map_err(broken)?;
        match status.success() {
            true => Ok(()),
            false => Err(damaged(commit, "a folder in it is missing or no folder")),
        }
    }
}

/// Reads `<mode> SP <type> SP <id> TAB <path>`, each ended by a zero byte.
fn entries(
    mut from: impl BufRead,
    commit: &str,
    limits: &TreeLimits,
    paths: &mut BTreeMap<String, String>,
    packed: &mut Packed,
) -> Result<(), SourceError> {
    let mut line = Vec::new();
    loop {
        line.clear();
        from.by_ref()
            .take(MAX_LINE)
            .read_until(0, &mut line)
            .map_err(broken)?;
        if line.is_empty() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches('\0');
        let unknown = || broken(format!("cannot read the tree entry `{text}`"));
        let (head, path) = text.split_once('\t').ok_or_else(unknown)?;
        let fields: Vec<&str> = head.split_whitespace().collect();
        let [mode, _kind, id] = fields.as_slice() else {
            return Err(unknown());
        };
        if *mode == "160000" {
            packed.submodules.push(path.to_owned());
        } else {
            paths
                .entry((*id).to_owned())
                .or_insert_with(|| path.to_owned());
        }
        if paths.len() + packed.submodules.len() > limits.max_files {
            return Err(SourceError::TooLarge {
                what: format!("the tree of `{commit}`"),
                limit: limits.max_files as u64,
                unit: "objects",
            });
        }
    }
}

fn write(
    paths: &BTreeMap<String, String>,
    limits: &TreeLimits,
    packed: &mut Packed,
    mut input: impl Write,
    mut output: impl BufRead,
    out: &mut dyn Write,
) -> Result<(), SourceError> {
    let count = u32::try_from(paths.len()).unwrap_or(u32::MAX);
    let like = paths.keys().next().map_or("", String::as_str);
    let failed = |error: std::io::Error| broken(format!("cannot write the pack: {error}"));
    let mut pack = PackWriter::new(out, count, like).map_err(failed)?;
    let mut total = 0u64;
    for (id, path) in paths {
        let shown = if path.is_empty() { id } else { path };
        let ended = |_: std::io::Error| damaged(shown, "its object is damaged");
        let header = header_of(id, &mut input, &mut output).map_err(ended)?;
        let Some((kind, size)) = kind_and_size(&header) else {
            return Err(damaged(shown, "its object is missing or damaged"));
        };
        let most = match kind {
            ObjectKind::Blob => limits.max_file_bytes,
            ObjectKind::Commit | ObjectKind::Tree => MAX_OBJECT,
        };
        total = total.saturating_add(size);
        for (found, limit) in [(size, most), (total, limits.max_total_bytes)] {
            if found > limit {
                return Err(SourceError::TooLarge {
                    what: format!("`{shown}`"),
                    limit,
                    unit: "bytes",
                });
            }
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        let mut newline = [0];
        output
            .read_exact(&mut bytes)
            .and_then(|()| output.read_exact(&mut newline))
            .map_err(ended)?;
        if id_of(kind, &bytes, id) != *id {
            return Err(damaged(shown, "its content does not match its id"));
        }
        match kind {
            ObjectKind::Commit if has_parent(&bytes) => packed.shallow.push(id.clone()),
            ObjectKind::Blob if super::super::is_pointer(&bytes) => {
                packed.pointers.push(path.clone());
            }
            ObjectKind::Commit | ObjectKind::Tree | ObjectKind::Blob => {}
        }
        pack.object(kind, &bytes).map_err(failed)?;
    }
    pack.finish().map_err(failed).map(drop)
}

fn has_parent(commit: &[u8]) -> bool {
    let mut lines = commit.split(|byte| *byte == b'\n');
    lines.any(|line| line.starts_with(b"parent "))
}
