//! What one commit has to change.
//!
//! What comes in: what the branch holds ([`BranchFiles`]) and what it should ([`Desired`]). What goes out: what is on
//! record there ([`OnRecord`]), for the plan that all destinations share, and then the [`CommitChanges`]: the new and
//! the removed files, and what people changed by hand in files that are Outhaul's. It is pure. A file that the
//! record does not list is never among them, unless it is what Kalypso wrote and the caller said that it
//! now is ours.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
use outhaul_bundle::index::Snapshot;

use super::{Desired, RECORD_PATH};
use outhaul_plane::render::{is_of_assignment, top_of};
use outhaul_plane::schedule::AssignmentId;
use outhaul_record::guard::{self, Removal};
use outhaul_record::isolation::Isolation;
use outhaul_record::plan::{DesiredContent, Shipped};
use outhaul_record::record::Record;

/// What a branch holds below the published path.
#[derive(Debug, Clone, Default)]
pub struct BranchFiles {
    /// The record's bytes.
    pub record: Option<Vec<u8>>,
    /// The content of the files that matter: in the desired tree, in the record, or Kalypso's.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Those of them that may be executed; what is rendered may not.
    pub executable: BTreeSet<String>,
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
    /// Someone else's file is where one of ours must go.
    #[error(
        "`{path}` already exists, and Outhaul did not write it (there are {count} such files)\nhelp: publish to another \
         branch or `--path`, or remove it there; if Kalypso wrote it, `--adopt` takes over what Kalypso wrote"
    )]
    Foreign {
        /// The first of them.
        path: String,
        /// How many.
        count: usize,
    },
    /// Where Outhaul wrote a file there is a link, a submodule or a folder now.
    #[error(
        "Outhaul published the file `{path}`, and {what} is there in the branch now (there are {count} such files)\nhelp: see who put it \
         there, remove it from the branch (`git rm -r`) and push that: the file is published again then"
    )]
    Replaced {
        /// The file, the first of them.
        path: String,
        /// What is there, with its article.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// What was published there is not known any more.
    #[error(
        "`{path}` {}, and {count} files of assignments that are not rendered now are there, the first of them `{first}`: whether they \
         were written by Outhaul and are to be removed is not known; nothing was published\nhelp: restore the record from the branch's \
         history, or remove there what is not wanted; if Kalypso wrote it, `--adopt` takes over what Kalypso wrote",
        crate::folder::incomplete(*is_there)
    )]
    Lost {
        /// The record.
        path: String,
        /// Whether it is there, and lists other files.
        is_there: bool,
        /// The first of the files.
        first: String,
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
        "`{path}` is not a record of Outhaul: {problem}\nhelp: restore it from the branch's history; without it the owner of each file is not known"
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
pub struct CommitChanges {
    /// Files that were not there.
    pub added: BTreeSet<String>,
    /// Files with other content now.
    pub changed: BTreeSet<String>,
    /// Files that go.
    pub removed: BTreeSet<String>,
    /// What becomes of the broken assignments: what the branch has of them stays.
    pub isolation: Isolation<()>,
    /// Files of ours that someone changed or removed in the branch.
    pub by_hand: BTreeSet<String>,
    /// Files that stay as they are.
    pub unchanged: usize,
    /// Whether the promoted commit is another than before.
    pub promoted: bool,
    /// Where the branch was when it was last seen from here, when it is not there any more.
    pub gone_from: Option<String>,
    /// What the branch was rendered from; `None` when nothing of ours is there.
    pub before: Option<Snapshot>,
    /// New content, or `None` to remove, by path from the repository's root.
    pub edits: BTreeMap<String, Option<Vec<u8>>>,
}

impl CommitChanges {
    /// A warning where a branch that was published before is made again.
    pub fn made_anew(&self, branch: &str) -> Option<String> {
        let commit = self.gone_from.as_ref()?;
        Some(format!(
            "warning: branch `{branch}` was at {commit} when it was last seen from here, and is not there any more; it was made again, \
             without its history and without files of others"
        ))
    }

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
        _ => is_of_assignment(path),
    }
}

/// What a branch held after the last run: its record, and what became of that since.
#[derive(Debug)]
pub struct OnRecord {
    there: BranchFiles,
    record: Option<Record>,
    /// Every file that is ours, with its digest where the record has one.
    owned: BTreeMap<String, Option<Digest>>,
    /// The assignments of which a file is there, whoever changed it last; not looked for where all is sound.
    present: BTreeSet<AssignmentId>,
    /// The digest of the snapshot that what is adopted now is from.
    now: Digest,
}

impl OnRecord {
    /// Judges what is `there` below `root`.
    ///
    /// # Errors
    /// [`PlanError`] when it is another environment's, or someone else's file is in the way.
    pub fn of(root: &str, there: BranchFiles, desired: &Desired<'_>) -> Result<Self, PlanError> {
        let record = there.record.as_deref().map(Record::parse).transpose();
        let record = record.map_err(|problem| PlanError::Record {
            path: at(root, RECORD_PATH),
            problem,
        })?;
        if let Some(old) = record
            .as_ref()
            .filter(|old| old.environment != desired.environment)
        {
            return Err(PlanError::OtherEnvironment {
                theirs: old.environment.clone(),
                ours: desired.environment.to_owned(),
            });
        }
        let mut owned: BTreeMap<String, Option<Digest>> = record
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
        refuse_foreign(root, &there, desired, &owned)?;
        // Beside a record, what lies in other folders than those of cluster types is someone else's.
        let of_record = record.iter().flat_map(|record| record.files.keys());
        let mut tops: BTreeSet<&str> = of_record.map(|path| top_of(path)).collect();
        let of_plane = desired.control_plane.cluster_types.keys();
        tops.extend(of_plane.map(String::as_str));
        tops.extend(desired.tree.keys().map(|path| top_of(path)));
        let is_left = |path: &&String| {
            is_of_assignment(path) && (record.is_none() || tops.contains(top_of(path)))
        };
        let mut left = there.others.iter().filter(is_left);
        if let Some(first) = left.next() {
            return Err(PlanError::Lost {
                path: at(root, RECORD_PATH),
                is_there: record.is_some(),
                first: first.clone(),
                count: 1 + left.count(),
            });
        }
        let sound = desired.failures.is_empty()
            && desired.undecided.is_empty()
            && desired.control_plane.lost.is_empty();
        let ours = owned.keys();
        let ours = ours.filter(|path| !sound && there.files.contains_key(*path));
        let present = ours.filter_map(|path| folder_of(path)).collect();
        Ok(Self {
            there,
            record,
            owned,
            present,
            now: desired.snapshot.digest,
        })
    }
}

impl Shipped for OnRecord {
    /// The files stay where they are.
    type Content = ();

    fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// What is adopted is on no record yet.
    fn names(&self) -> BTreeSet<String> {
        let ids = self.owned.keys().filter_map(|path| folder_of(path));
        ids.map(|id| id.to_string()).collect()
    }

    fn there(&self) -> Vec<(AssignmentId, Option<&str>)> {
        self.present.iter().map(|id| (id.clone(), None)).collect()
    }

    fn last(&mut self, id: &AssignmentId) -> Result<(Digest, ()), String> {
        if !self.present.contains(id) {
            return Err("the branch has no last good output of it".to_owned());
        }
        let old = self.record.as_ref();
        Ok((old.map_or(self.now, |old| old.origin(&id.to_string())), ()))
    }
}

impl Desired<'_> {
    /// What should be there.
    pub fn wanted(&self) -> DesiredContent<'_> {
        let named = |path: &String| folder_of(path).map(|id| id.to_string());
        DesiredContent {
            control_plane: self.control_plane,
            what: format!("environment `{}`", self.environment),
            sound: self.tree.keys().filter_map(named).collect(),
            failures: self.failures.iter().collect(),
            undecided: self.undecided.iter().collect(),
            max_removal_percent: guard::max_percent(self.control_plane),
        }
    }
}

fn at(root: &str, path: &str) -> String {
    match root {
        "" => path.to_owned(),
        root => format!("{root}/{path}"),
    }
}

/// What has to change below `root` for what is `on_record` to become `desired`.
///
/// # Errors
/// [`PlanError`] when the record cannot be written.
pub fn changes(
    root: &str,
    on_record: &OnRecord,
    desired: &Desired<'_>,
    isolation: Isolation<()>,
) -> Result<CommitChanges, PlanError> {
    let OnRecord {
        there,
        record: old,
        owned,
        ..
    } = on_record;
    let at = |path: &str| at(root, path);
    let stays = |path: &str| folder_of(path).is_some_and(|id| isolation.kept.contains_key(&id));
    let mut plan = CommitChanges {
        before: old.as_ref().map(|old| old.snapshot.clone()),
        ..CommitChanges::default()
    };
    let mut files = BTreeMap::new();
    for (path, digest) in owned {
        let now = there.files.get(path);
        let is_changed = |digest| now.is_none_or(|bytes| Digest::of(bytes) != digest);
        if digest.is_some_and(|digest| is_changed(digest) || there.executable.contains(path)) {
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
            Some(now) if now == bytes && !there.executable.contains(path) => {
                plan.unchanged += 1;
                continue;
            }
            Some(_) => plan.changed.insert(path.clone()),
            None => plan.added.insert(path.clone()),
        };
        plan.edits.insert(at(path), Some(bytes.clone()));
    }
    let kept = isolation.recorded();
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
    let Desired {
        environment,
        snapshot,
        promoted,
        ..
    } = *desired;
    let mut record = Record::new(environment, snapshot, promoted, kept);
    record.files = files;
    let bytes = record.bytes().map_err(|problem| PlanError::Record {
        path: at(RECORD_PATH),
        problem,
    })?;
    plan.edits.insert(at(RECORD_PATH), Some(bytes));
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

/// Refuses when a path of ours is taken, is a folder there, or lies below a file.
fn refuse_foreign(
    root: &str,
    there: &BranchFiles,
    desired: &Desired<'_>,
    owned: &BTreeMap<String, Option<Digest>>,
) -> Result<(), PlanError> {
    let foreign: BTreeSet<&str> = there
        .others
        .iter()
        .chain(there.files.keys().filter(|path| !owned.contains_key(*path)))
        .map(String::as_str)
        .collect();
    let mut in_the_way = BTreeSet::new();
    let mut replaced = BTreeMap::new();
    let paths = desired.tree.keys().map(String::as_str);
    for path in paths.chain([RECORD_PATH]) {
        let below = format!("{path}/");
        let mut is_below = foreign.range(below.as_str()..);
        let what = match is_below
            .next()
            .is_some_and(|first| first.starts_with(&below))
        {
            true => Some("a folder"),
            false => foreign.contains(path).then_some("a link or a submodule"),
        };
        if let Some(what) = what.filter(|_| owned.contains_key(path)) {
            replaced.insert(path, what);
            continue;
        }
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
    if let Some((path, what)) = replaced.first_key_value() {
        return Err(PlanError::Replaced {
            path: at(root, path),
            what,
            count: replaced.len(),
        });
    }
    match in_the_way.first() {
        None => Ok(()),
        Some(first) => Err(PlanError::Foreign {
            path: at(root, first),
            count: in_the_way.len(),
        }),
    }
}
