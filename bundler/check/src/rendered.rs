//! Does a folder hold what its record says that it was rendered from?
//!
//! What comes in: the folder with its [`Record`], and what the record's commits render to now. What
//! goes out: every difference, file by file; none means equal, byte for byte. What was kept from an
//! earlier snapshot cannot be rendered again: it must be as the record says, and is named. Files of others are named and are no difference:
//! what applies the folder applies them, too. It writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Snapshot;
use serde::Serialize;

use outhaul_load::pipeline::Platform;
use outhaul_plane::render::{assignment_of, top_of};
use outhaul_record::isolation::Kept;
use outhaul_record::record::Record;
use outhaul_ship::folder::{OutputError, read_file, walk};

/// How a folder is not what its commits render to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// How many files are equal.
    pub equal: usize,
    /// Files with other content, and links.
    pub differs: BTreeSet<String>,
    /// Files with the content that they should have, which may be executed; no rendered file may.
    pub executable: BTreeSet<String>,
    /// Files that should be there.
    pub missing: BTreeSet<String>,
    /// Files that the record lists and the commits do not give.
    pub extra: BTreeSet<String>,
    /// Files that neither the record lists nor the commits give: of others.
    pub foreign: BTreeSet<String>,
    /// Sources that cannot be read as they were, because they are folders.
    pub moved: BTreeSet<String>,
    /// Assignments that were kept from an earlier snapshot: compared with the record only.
    pub kept: BTreeMap<String, Kept>,
    /// Those of them that their snapshot renders after all.
    pub kept_but_sound: BTreeSet<String>,
}

impl Comparison {
    /// Whether all is as it should be.
    pub fn is_equal(&self) -> bool {
        let sets = [
            &self.differs,
            &self.executable,
            &self.missing,
            &self.extra,
            &self.moved,
            &self.kept_but_sound,
        ];
        sets.into_iter().all(BTreeSet::is_empty)
    }

    /// One line for each difference, for people.
    pub fn lines(&self) -> Vec<String> {
        let reported = [
            (&self.differs, "differs"),
            (
                &self.executable,
                "may be executed, and is rendered as a file that may not",
            ),
            (&self.missing, "is missing"),
            (&self.extra, "is not rendered"),
            (&self.moved, "is a folder and is not what it was"),
            (
                &self.kept_but_sound,
                "was kept, but its snapshot renders it",
            ),
        ];
        let lines = reported
            .into_iter()
            .flat_map(|(names, what)| names.iter().map(move |name| format!("`{name}` {what}")));
        lines.collect()
    }
}

/// Compares `folder` with what `platform` rendered from the commits of `record`.
///
/// # Errors
/// [`OutputError`] when a file cannot be read.
pub fn verify(
    folder: &Path,
    record: &Record,
    platform: &Platform,
) -> Result<Comparison, OutputError> {
    let rendering = &platform.rendering;
    let mut found = Comparison {
        moved: moved(&record.snapshot, &rendering.snapshot),
        kept: record.kept.clone(),
        ..Comparison::default()
    };
    let sound = rendering.assignments();
    let kept = record.kept.keys();
    found.kept_but_sound = kept.filter(|id| sound.contains(*id)).cloned().collect();
    let is_kept = |path: &str| assignment_of(path).is_some_and(|id| record.kept.contains_key(id));
    let rendered = rendering
        .files()
        .filter(|(path, _)| !is_kept(path))
        .map(|(path, bytes)| (path, Digest::of(bytes)));
    let kept = record.files.iter().filter(|(path, _)| is_kept(path));
    let expected: BTreeMap<String, Digest> = rendered
        .chain(kept.map(|(path, digest)| (path.clone(), *digest)))
        .collect();
    let has_modes = has_modes(folder);
    for (path, digest) in &expected {
        let file = folder.join(path);
        if leads_elsewhere(folder, path) {
            // What it leads to may be another thing tomorrow.
            found.differs.insert(path.clone());
            continue;
        }
        match read_file(&file) {
            Ok(bytes) if Digest::of(&bytes) == *digest => match has_modes && is_executable(&file) {
                true => drop(found.executable.insert(path.clone())),
                false => found.equal += 1,
            },
            Ok(_) => drop(found.differs.insert(path.clone())),
            Err(error) if error.is_missing() => {
                found.missing.insert(path.clone());
            }
            Err(error) => return Err(error.into()),
        }
    }
    for path in walk(folder, "")?.into_keys() {
        if expected.contains_key(&path) || top_of(&path) == ".git" {
            continue;
        }
        match record.files.contains_key(&path) {
            true => found.extra.insert(path),
            false => found.foreign.insert(path),
        };
    }
    Ok(found)
}

/// Whether the file at `path` below `folder`, or a folder on the way to it, is a symbolic link.
fn leads_elsewhere(folder: &Path, path: &str) -> bool {
    let parts = Path::new(path).ancestors();
    let mut below = parts.filter(|part| !part.as_os_str().is_empty());
    below.any(|part| folder.join(part).is_symlink())
}

/// Whether files of the folder have modes of their own: on FAT, exFAT and most shares of other systems they all have the ones of the mount.
fn has_modes(folder: &Path) -> bool {
    // The numbers of these file systems in `statfs`: FAT, exFAT, NTFS (of two drivers), SMB (of three versions).
    const WITHOUT: [u64; 7] = [
        0x4d44,
        0x2011_bab0,
        0x5346_544e,
        0x7366_746e,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
    ];
    let found = rustix::fs::statfs(folder);
    found.map_or(true, |found| {
        // On some platforms the number is a signed one of 32 bits.
        u64::try_from(found.f_type).map_or(true, |kind| !WITHOUT.contains(&(kind & 0xffff_ffff)))
    })
}

/// Whether a file may be executed by anybody; of what cannot be read that is not known.
fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o111 != 0)
}

/// Sources that were read now at another commit than then: plain folders have no other.
fn moved(then: &Snapshot, now: &Snapshot) -> BTreeSet<String> {
    let all = |snapshot: &Snapshot| -> Vec<_> {
        let fixed = [snapshot.environment.clone(), snapshot.base.clone()];
        fixed
            .into_iter()
            .chain(snapshot.workloads.clone())
            .collect()
    };
    let now = all(now);
    let gone = all(then).into_iter().filter(|source| !now.contains(source));
    gone.map(|source| format!("{} at {}", source.name, source.commit))
        .collect()
}
