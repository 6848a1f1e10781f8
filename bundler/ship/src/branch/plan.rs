//! What one commit has to change, and whether it may.
//!
//! What comes in: what the branch holds ([`There`]) and what it should ([`Desired`]). What goes out: a
//! [`Plan`] with the new and the removed files, and with what people changed by hand in files that are
//! Outhaul's. It is pure. A file that the record does not list is never in a plan, unless it is
//! what Kalypso wrote and the caller said that it now is ours.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
use outhaul_bundle::index::Snapshot;

use super::Desired;
use super::record::{self, Record};
use crate::guard::{self, Removal};
use crate::isolation::{self, Isolation, Kept, Last};
use outhaul_plane::schedule::AssignmentId;

/// What a branch holds below the published path.
#[derive(Debug, Clone, Default)]
pub struct There {
    /// The record's bytes.
    pub record: Option<Vec<u8>>,
    /// The content of the files that matter: in the desired tree, in the record, or Kalypso's.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Every other path, also of links and submodules.
    pub others: BTreeSet<String>,
}

/// Why a branch is left as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Every assignment is broken, and the branch has none that could stay.
    #[error(
        "nothing was published: every assignment is broken, and the branch has no last good output"
    )]
    AllBroken,
    /// Somebody else's file is where one of ours must go.
    #[error(
        "`{path}` is in the way: Outhaul did not write it (there are {count} such files)\nhelp: publish to another \
         branch or `--path`, or remove it there; if Kalypso wrote it, `--adopt` takes over what Kalypso wrote"
    )]
    Foreign {
        /// The first of them.
        path: String,
        /// How many.
        count: usize,
    },
    /// It would remove too much.
    #[error(transparent)]
    Removal(#[from] Removal),
    /// Another environment is published there.
    #[error(
        "environment `{theirs}` is published there, not `{ours}`\nhelp: give each environment its own branch or `--path`"
    )]
    OtherEnvironment {
        /// The one that is.
        theirs: String,
        /// The one that was asked for.
        ours: String,
    },
    /// The record cannot be read.
    #[error(
        "`{path}` is not a record of Outhaul: {problem}\nhelp: restore it from the branch's history; without it \
         nobody knows which files are whose"
    )]
    Record {
        /// Where it lies.
        path: String,
        /// What is wrong.
        problem: String,
    },
}

/// What a commit changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Files that were not there.
    pub added: BTreeSet<String>,
    /// Files with other content now.
    pub changed: BTreeSet<String>,
    /// Files that go.
    pub removed: BTreeSet<String>,
    /// What becomes of the broken assignments: what the branch has of them stays.
    pub isolation: Isolation<()>,
    /// Files of ours that somebody changed or removed in the branch.
    pub by_hand: BTreeSet<String>,
    /// Files that stay as they are.
    pub unchanged: usize,
    /// Whether the promoted commit is another than before.
    pub promoted: bool,
    /// What the branch was rendered from; `None` when nothing of ours is there.
    pub before: Option<Snapshot>,
    /// New content, or `None` to remove, by path from the repository's root.
    pub edits: BTreeMap<String, Option<Vec<u8>>>,
}

impl Plan {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// The cluster types whose files change.
    pub fn cluster_types(&self) -> BTreeSet<&str> {
        let all = [&self.added, &self.changed, &self.removed];
        all.into_iter()
            .flatten()
            .filter_map(|path| path.split_once('/').map(|(first, _)| first))
            .filter(|first| !first.starts_with('.'))
            .collect()
    }
}

/// Whether Kalypso writes files of this name.
pub(super) fn is_kalypsos(path: &str) -> bool {
    if path == outhaul_plane::render::PROMOTED_COMMIT_FILE {
        return true;
    }
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [top, ..] if top.starts_with('.') => false,
        [_, "README.md"] => true,
        [_, _, file] => {
            let stem = file.rsplit_once('.').map_or(*file, |(stem, _)| stem);
            matches!(stem, "reconciler" | "namespace" | "platform-config")
        }
        _ => false,
    }
}

/// What has to change below `root` for `there` to become `desired`.
///
/// # Errors
/// [`PlanError`] when it may not.
pub fn plan(root: &str, there: There, desired: &Desired<'_>) -> Result<Plan, PlanError> {
    let at = |path: &str| match root {
        "" => path.to_owned(),
        root => format!("{root}/{path}"),
    };
    let old = match &there.record {
        None => None,
        Some(bytes) => Some(Record::parse(bytes).map_err(|problem| PlanError::Record {
            path: at(record::PATH),
            problem,
        })?),
    };
    if let Some(old) = old
        .as_ref()
        .filter(|old| old.environment != desired.environment)
    {
        return Err(PlanError::OtherEnvironment {
            theirs: old.environment.clone(),
            ours: desired.environment.to_owned(),
        });
    }
    let mut owned: BTreeMap<String, Option<Digest>> = old
        .iter()
        .flat_map(|record| &record.files)
        .map(|(path, digest)| (path.clone(), Some(*digest)))
        .collect();
    if desired.adopt {
        // People write a README.md, too: Kalypso's says the same everywhere.
        let theirs = there.files.iter().filter(|(path, bytes)| {
            is_kalypsos(path)
                && (!path.ends_with("/README.md")
                    || *bytes == outhaul_plane::render::README.as_bytes())
        });
        for (path, _) in theirs {
            owned.entry(path.clone()).or_insert(None);
        }
    }
    refuse_foreign(&there, desired, &owned, &at)?;

    let isolation = isolate(&there, desired, &owned, old.as_ref());
    let stays = |path: &str| folder_of(path).is_some_and(|id| isolation.kept.contains_key(&id));
    let mut plan = Plan {
        before: old.as_ref().map(|old| old.snapshot.clone()),
        ..Plan::default()
    };
    let mut files = BTreeMap::new();
    for (path, digest) in &owned {
        let now = there.files.get(path);
        if digest.is_some_and(|digest| now.is_none_or(|bytes| Digest::of(bytes) != digest)) {
            plan.by_hand.insert(path.clone());
        }
        if desired.tree.contains_key(path) {
            continue;
        }
        let Some(bytes) = now else { continue };
        if stays(path) {
            files.insert(path.clone(), Digest::of(bytes));
        } else {
            plan.removed.insert(path.clone());
            plan.edits.insert(at(path), None);
        }
    }
    for (path, bytes) in desired.tree {
        files.insert(path.clone(), Digest::of(bytes));
        match there.files.get(path) {
            Some(now) if now == bytes => {
                plan.unchanged += 1;
                continue;
            }
            Some(_) => plan.changed.insert(path.clone()),
            None => plan.added.insert(path.clone()),
        };
        plan.edits.insert(at(path), Some(bytes.clone()));
    }
    guard_removals(desired, &owned, &isolation)?;
    let kept: BTreeMap<String, Kept> = isolation
        .kept
        .iter()
        .map(|(id, (kept, ()))| (id.to_string(), kept.clone()))
        .collect();
    plan.isolation = isolation;
    // Which commits it came from is worth a commit only when the result differs.
    let same = old
        .as_ref()
        .is_some_and(|old| old.files == files && old.kept.keys().eq(kept.keys()));
    if same && plan.edits.is_empty() {
        plan.by_hand.clear();
        return Ok(plan);
    }
    let marker = outhaul_plane::render::PROMOTED_COMMIT_FILE;
    plan.promoted = plan.added.contains(marker) || plan.changed.contains(marker);
    let record = Record::new(
        desired.environment,
        desired.snapshot,
        desired.promoted,
        files,
        kept,
    );
    let bytes = record.bytes().map_err(|problem| PlanError::Record {
        path: at(record::PATH),
        problem,
    })?;
    plan.edits.insert(at(record::PATH), Some(bytes));
    Ok(plan)
}

/// The assignment of whose files `path` is one.
fn folder_of(path: &str) -> Option<AssignmentId> {
    let folder = outhaul_plane::render::assignment_of(path)?;
    let (cluster_type, target) = folder.split_once('/')?;
    (!cluster_type.starts_with('.')).then(|| AssignmentId {
        cluster_type: cluster_type.to_owned(),
        target: target.to_owned(),
    })
}

/// What the branch has of the broken assignments stays, whoever changed it last.
fn isolate(
    there: &There,
    desired: &Desired<'_>,
    owned: &BTreeMap<String, Option<Digest>>,
    old: Option<&Record>,
) -> Isolation<()> {
    let is_there = |path: &&String| there.files.contains_key(*path);
    let sound = desired.failures.is_empty()
        && desired.undecided.is_empty()
        && desired.control_plane.lost.is_empty();
    let present: BTreeSet<AssignmentId> = match sound {
        true => BTreeSet::new(),
        false => owned
            .keys()
            .filter(is_there)
            .filter_map(|path| folder_of(path))
            .collect(),
    };
    let before = present.iter().map(|id| (id.clone(), None));
    let lost = isolation::lost(desired.control_plane, before);
    let failures = desired.failures.iter().chain(&lost);
    isolation::isolate(failures, desired.undecided, |id| {
        if !present.contains(id) {
            return Last::None("the branch has no last good output of it".to_owned());
        }
        let kept = old.and_then(|old| old.kept.get(&id.to_string()));
        let last = old.map_or(desired.snapshot.digest, |old| old.snapshot.digest);
        Last::Good {
            from: kept.map_or(last, |kept| kept.from),
            content: (),
        }
    })
}

fn guard_removals(
    desired: &Desired<'_>,
    owned: &BTreeMap<String, Option<Digest>>,
    isolation: &Isolation<()>,
) -> Result<(), PlanError> {
    let named = |path: &String| folder_of(path).map(|id| id.to_string());
    let before: BTreeSet<String> = owned.keys().filter_map(named).collect();
    let mut after: BTreeSet<String> = desired.tree.keys().filter_map(named).collect();
    after.extend(isolation.kept.keys().map(ToString::to_string));
    if after.is_empty() && !isolation.is_empty() {
        return Err(PlanError::AllBroken);
    }
    guard::check(
        desired.control_plane,
        &format!("environment `{}`", desired.environment),
        &before,
        &after,
        guard::max_percent(desired.control_plane),
    )?;
    Ok(())
}

/// Refuses when a path of ours is taken, is a folder there, or lies below a file.
fn refuse_foreign(
    there: &There,
    desired: &Desired<'_>,
    owned: &BTreeMap<String, Option<Digest>>,
    at: &impl Fn(&str) -> String,
) -> Result<(), PlanError> {
    let foreign: BTreeSet<&str> = there
        .others
        .iter()
        .chain(there.files.keys().filter(|path| !owned.contains_key(*path)))
        .map(String::as_str)
        .collect();
    let mut in_the_way = BTreeSet::new();
    let paths = desired.tree.keys().map(String::as_str);
    for path in paths.chain([record::PATH]) {
        let same = there.files.get(path) == desired.tree.get(path);
        if foreign.contains(path) && !same {
            in_the_way.insert(path.to_owned());
        }
        let folder = format!("{path}/");
        if let Some(below) = foreign.range(folder.as_str()..).next()
            && below.starts_with(&folder)
        {
            in_the_way.insert((*below).to_owned());
        }
        let parents = path.match_indices('/').map(|(end, _)| &path[..end]);
        in_the_way.extend(
            parents
                .filter(|parent| foreign.contains(parent))
                .map(str::to_owned),
        );
    }
    match in_the_way.first() {
        None => Ok(()),
        Some(first) => Err(PlanError::Foreign {
            path: at(first),
            count: in_the_way.len(),
        }),
    }
}
