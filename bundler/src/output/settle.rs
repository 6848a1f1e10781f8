//! A rendering becomes what lies in a folder: sound, kept or left out, and never too little.
//!
//! What comes in: a [`Platform`] and the folder with the last result. What goes out: the folder with
//! the new one, and what became of the broken assignments. The last good files of a broken assignment
//! are those that the record lists, as long as nobody changed them. It writes all of it or nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use outhaul_bundle::Digest;

use super::{Changes, OutputError, Record, absolute, read_record, record_path, write};
use crate::guard;
use crate::isolation::{self, Isolation, Last};
use crate::pipeline::Platform;
use crate::render::{PROMOTED_COMMIT_FILE, SITES, assignment_of};
use crate::schedule::AssignmentId;

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

/// Writes what `platform` rendered into `folder`, broken assignments as they last were.
///
/// # Errors
/// [`OutputError`]; the folder is then as it was.
pub fn settle(folder: &Path, platform: &Platform) -> Result<Settled, OutputError> {
    let rendering = &platform.rendering;
    let folder = &absolute(folder)?;
    let record = read_record(&record_path(folder))?;
    let isolation = isolation::isolate(&rendering.failures, &rendering.undecided, |id| {
        last_good(folder, record.as_ref(), id)
    });
    let mut tree: BTreeMap<String, Cow<'_, [u8]>> = rendering
        .files()
        .map(|(path, bytes)| (path, Cow::Borrowed(bytes)))
        .collect();
    let mut after = rendering.assignments();
    for (id, (_, files)) in &isolation.kept {
        after.insert(id.to_string());
        for (path, bytes) in files {
            tree.insert(path.clone(), Cow::Borrowed(bytes));
        }
    }
    if after.is_empty() && !isolation.is_empty() {
        return Err(OutputError::AllBroken);
    }
    let before = record
        .map(|record| record.assignments())
        .unwrap_or_default();
    guard::check(
        &platform.control_plane,
        &format!("environment `{}`", rendering.environment),
        &before,
        &after,
        guard::max_percent(&platform.control_plane),
    )?;
    let kept = isolation
        .kept
        .iter()
        .map(|(id, (kept, _))| (id.to_string(), kept.clone()))
        .collect();
    let changes = write(folder, &tree, &rendering.snapshot, kept)?;
    Ok(Settled {
        changes,
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
