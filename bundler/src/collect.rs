//! 5a. COLLECT: what a reconciler needs on site and could not otherwise reach.
//!
//! What comes in: the `manifests` of each assignment: a repository, a branch, a path. What goes out:
//! that folder's files, in a spool, pinned to one commit. A symbolic link or a submodule cannot travel
//! and is an error, because a payload with a hole would fail on site, where nobody can mend it.

use std::collections::BTreeMap;
use std::sync::Arc;

use outhaul_bundle::index::{File, Source};
use outhaul_bundle::name::{NameError, RelativePath};

use crate::assemble::{Spool, SpoolError};
use crate::control::source::{self, Cache, Opened, Reference, SourceError, SourceMap, TreeLimits};
use crate::delivery::storage::OCI;
use crate::render::RenderedAssignment;

/// How the names of sources begin that only an assignment of an earlier snapshot is from.
pub const KEPT: &str = "kept:";

/// Why a payload cannot be collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// A folder is not what it was when the assignment was last good.
    #[error("`{assignment}`: the folder of its manifests is not what it was")]
    Gone {
        /// The assignment.
        assignment: String,
    },
    /// The storage is of a kind that cannot be carried yet.
    #[error(
        "`{assignment}`: its manifests are in `{storage}` storage, which cannot be carried yet\n\
         help: use `storage: git`, or leave `repo` out when there is no payload"
    )]
    Storage {
        /// The assignment.
        assignment: String,
        /// What the deployment target says.
        storage: String,
    },
    /// The repository cannot be read.
    #[error("`{assignment}`: its manifests cannot be collected")]
    Source {
        /// The assignment.
        assignment: String,
        /// Why.
        source: SourceError,
    },
    /// The temporary folder failed.
    #[error("cannot keep payloads in the temporary folder")]
    Spool(#[from] SpoolError),
    /// A path that cannot travel.
    #[error("`{assignment}`: a file of its manifests cannot travel")]
    Path {
        /// The assignment.
        assignment: String,
        /// What is wrong with it.
        source: NameError,
    },
    /// Links and submodules.
    #[error(
        "`{assignment}`: `{path}` is a symbolic link or submodule, which cannot travel\n\
         help: put the file itself there"
    )]
    Link {
        /// The assignment.
        assignment: String,
        /// Its path in the repository.
        path: String,
    },
}

/// What was collected.
#[derive(Debug, Default)]
pub struct Payloads {
    /// Files by assignment name; their contents are in the spool.
    pub files: BTreeMap<String, Vec<File>>,
    /// The repositories, each at the commit that was read, sorted.
    pub sources: Vec<Source>,
    /// The commit that each assignment's payload is from, by assignment name.
    pub commits: BTreeMap<String, String>,
}

/// Collects the payloads of `assignments` into `spool`. Each repository and branch is opened once, so
/// that all assignments of one bundle see the same commit; but those that `pins` names, by assignment,
/// are read at their commit there.
///
/// # Errors
/// [`CollectError`] for the first payload that cannot travel whole.
pub fn collect(
    assignments: &BTreeMap<String, Arc<RenderedAssignment>>,
    pins: &BTreeMap<String, String>,
    sources: &SourceMap,
    cache: &Cache,
    spool: &mut Spool,
) -> Result<Payloads, CollectError> {
    let mut opened: BTreeMap<(String, Option<String>, Option<&String>), Opened> = BTreeMap::new();
    let mut payloads = Payloads::default();
    for (name, assignment) in assignments {
        let manifests = &assignment.manifests;
        let Some(repo) = manifests.get("repo").filter(|repo| !repo.is_empty()) else {
            continue;
        };
        let storage = manifests.get("storage").filter(|storage| *storage != "git");
        if storage.is_some_and(|storage| storage == OCI) {
            // Whether the sites have it themselves was decided before: see `delivery::storage`.
            continue;
        }
        if let Some(storage) = storage.filter(|storage| !storage.is_empty()) {
            let (assignment, storage) = (name.clone(), storage.clone());
            return Err(CollectError::Storage {
                assignment,
                storage,
            });
        }
        let failed = |source| CollectError::Source {
            assignment: name.clone(),
            source,
        };
        let branch = manifests
            .get("branch")
            .filter(|branch| !branch.is_empty())
            .cloned();
        let pin = pins.get(name);
        let key = (source::normal_url(repo), branch.clone(), pin);
        if !opened.contains_key(&key) {
            let reference = branch.clone().map_or(Reference::Head, Reference::Branch);
            let named = match pin {
                None => format!("manifests:{}", branch.as_deref().unwrap_or("HEAD")),
                Some(_) => format!("{KEPT}{name}"),
            };
            let reference = match pin {
                None => sources.pinned(&named, repo, reference),
                // A folder cannot be brought back: it is read as it is, and must be as it was.
                Some(pin) if pin.starts_with("sha256:") => reference,
                Some(pin) => Reference::Commit {
                    id: pin.clone(),
                    near: branch.clone(),
                },
            };
            let source = source::open(repo, &reference, sources, cache).map_err(failed)?;
            if pin.is_some_and(|pin| *pin != source.commit) {
                let assignment = name.clone();
                return Err(CollectError::Gone { assignment });
            }
            payloads.sources.push(Source {
                name: named,
                repo: repo.clone(),
                commit: source.commit.clone(),
            });
            opened.insert(key.clone(), source);
        }
        let Some(source) = opened.get(&key) else {
            continue;
        };
        let commits = &mut payloads.commits;
        commits.insert(name.clone(), source.commit.clone());
        let folder = manifests.get("path").map_or(".", String::as_str);
        let tree = source
            .tree(
                folder,
                &|path| !path.starts_with(".git/"),
                &TreeLimits::PAYLOAD,
            )
            .map_err(failed)?;
        if let Some(path) = tree.skipped.first() {
            return Err(CollectError::Link {
                assignment: name.clone(),
                path: path.clone(),
            });
        }
        let mut files = Vec::new();
        for file in tree.files {
            let path: RelativePath = file.path.parse().map_err(|source| CollectError::Path {
                assignment: name.clone(),
                source,
            })?;
            let (content, size) = spool.add(&file.bytes)?;
            files.push(File {
                path,
                content,
                size,
                executable: file.executable,
            });
        }
        payloads.files.insert(name.clone(), files);
    }
    payloads.sources.sort();
    payloads.sources.dedup();
    Ok(payloads)
}
