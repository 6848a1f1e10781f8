//! A rendering becomes what lies in a folder: sound, kept or left out, and never too little.
//!
//! What comes in: a [`Rendering`], what of the last result is reused as it is, and the folder with that
//! result. What goes out: the folder with the new one, and what became of the broken assignments. The
//! last good files of a broken assignment are those that the record lists, as long as nobody changed
//! them. It writes all of it or nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use outhaul_bundle::Digest;

use super::remembered::Remembered;
use super::write::{Content, Tree, write};
use super::{Changes, OutputError, Record, absolute};
use crate::guard;
use crate::isolation::{self, Isolation, Last};
use outhaul_control::ControlPlane;
use outhaul_plane::render::{DiskCache, PROMOTED_COMMIT_FILE, Rendering, SITES, assignment_of};
use outhaul_plane::schedule::AssignmentId;

/// Files by path.
type Files = BTreeMap<String, Vec<u8>>;

/// What became of a result.
#[derive(Debug)]
pub struct Settled {
    /// What writing changed.
    pub changes: Changes,
    /// How many files there are now.
    pub files: usize,
    /// How many assignments there are now, the kept ones among them.
    pub assignments: usize,
    /// What became of the broken ones.
    pub isolation: Isolation<()>,
}

impl Record {
    /// The assignments whose files it lists, as `<cluster type>/<target>`.
    pub fn assignments(&self) -> BTreeSet<String> {
        let paths = self
            .files
            .keys()
            .filter(|path| *path != PROMOTED_COMMIT_FILE);
        paths
            .filter_map(|path| assignment_of(path).map(str::to_owned))
            .collect()
    }
}

/// What is to be in a folder, besides what was rendered now.
#[derive(Debug)]
pub struct Rest<'a> {
    /// What was found in the folder.
    pub before: &'a Remembered,
    /// Assignments that stay as they were found, as `<cluster type>/<target>`.
    pub reused: &'a BTreeSet<String>,
    /// What the next run may know.
    pub cache: DiskCache,
}

/// Writes what was rendered and what is reused into `folder`, broken assignments as they last were.
///
/// # Errors
/// [`OutputError`]; the folder is then as it was.
pub fn settle(
    folder: &Path,
    control_plane: &ControlPlane,
    rendering: &Rendering,
    rest: Rest<'_>,
) -> Result<Settled, OutputError> {
    let Rest {
        before,
        reused,
        cache,
    } = rest;
    let folder = &absolute(folder)?;
    let record = before.record.as_ref();
    let there = record.map(Record::assignments).unwrap_or_default();
    let there = there.iter().filter_map(|name| AssignmentId::parse(name));
    let lost = isolation::lost(control_plane, there.map(|id| (id, None)));
    let failures = rendering.failures.iter().chain(&lost);
    let isolation = isolation::isolate(failures, &rendering.undecided, |id| {
        last_good(folder, record, id)
    });
    let mut tree: Tree<'_> = rendering
        .files()
        .map(|(path, bytes)| (path, Content::Bytes(Cow::Borrowed(bytes))))
        .collect();
    let files = record.iter().flat_map(|record| &record.files);
    let is_taken = |path: &str| assignment_of(path).is_some_and(|of| reused.contains(of));
    tree.extend(
        files
            .filter(|(path, _)| is_taken(path))
            .map(|(path, digest)| (path.clone(), Content::Taken(*digest))),
    );
    let mut after = rendering.assignments();
    after.extend(reused.iter().cloned());
    for (id, (_, files)) in &isolation.kept {
        after.insert(id.to_string());
        for (path, bytes) in files {
            tree.insert(path.clone(), Content::Bytes(Cow::Borrowed(bytes)));
        }
    }
    if after.is_empty() && !isolation.is_empty() {
        return Err(OutputError::AllBroken);
    }
    guard::check(
        control_plane,
        &format!("environment `{}`", rendering.environment),
        &record.map(Record::assignments).unwrap_or_default(),
        &after,
        guard::max_percent(control_plane),
    )?;
    let kept = isolation
        .kept
        .iter()
        .map(|(id, (kept, _))| (id.to_string(), kept.clone()))
        .collect();
    let written = write(folder, &tree, &rendering.snapshot, kept, before)?;
    before.replace(folder, cache, written.record, written.seen);
    Ok(Settled {
        changes: written.changes,
        files: tree.len(),
        assignments: after.len(),
        isolation: isolation.without_content(),
    })
}

/// The files of `id` as they lie in `folder`, when they are what the record says.
fn last_good(folder: &Path, record: Option<&Record>, id: &AssignmentId) -> Last<Files> {
    let name = id.to_string();
    let prefix = format!("{name}/");
    let Some(record) = record else {
        return Last::None("it has no last good output".to_owned());
    };
    let mut content = Files::new();
    let below = |prefix: String| {
        let from = record.files.range(prefix.clone()..);
        from.take_while(move |(path, _)| path.starts_with(&prefix))
    };
    let of_sites = below(SITES.to_owned()).filter(|(path, _)| assignment_of(path) == Some(&name));
    for (path, digest) in below(prefix).chain(of_sites) {
        match fs::read(folder.join(path)) {
            Ok(bytes) if Digest::of(&bytes) == *digest => drop(content.insert(path.clone(), bytes)),
            _ => return Last::None(format!("its last good file `{path}` was changed")),
        }
    }
    if content.is_empty() {
        return Last::None("it has no last good output".to_owned());
    }
    let kept = record.kept.get(&name);
    Last::Good {
        from: kept.map_or(record.snapshot.digest, |kept| kept.from),
        content,
    }
}
