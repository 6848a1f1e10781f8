//! 5a. COLLECT: what a reconciler needs on site and could not otherwise reach.
//!
//! What comes in: the `manifests` of each assignment: a repository, a branch, a path. What goes out:
//! that folder's files, in a spool, pinned to one commit. A symbolic link, a submodule or a file of Git LFS
//! cannot travel and is an error, because a payload with a hole would fail on site, where nobody can mend it.

use std::collections::BTreeMap;
use std::sync::Arc;

use outhaul_bundle::index::{File, Source};
use outhaul_bundle::name::{NameError, RelativePath};

use crate::assemble::{Spool, SpoolError};
use outhaul_control::diagnostic::Diagnostic;
use outhaul_git::source::{self, Cache, Opened, Reference, SourceError, SourceMap, TreeLimits};
use outhaul_plane::delivery::storage::OCI;
use outhaul_plane::render::RenderedAssignment;

use places::Clash;

mod places;

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
        source: Arc<SourceError>,
    },
    /// The same, of an assignment that is still to be named.
    #[error(transparent)]
    Unread(#[from] SourceError),
    /// The temporary folder failed.
    #[error("cannot keep payloads in the temporary folder")]
    Spool(#[from] SpoolError),
    /// A path that cannot travel.
    #[error(
        "`{assignment}`: a file of its manifests cannot travel\nhelp: rename it in its repository"
    )]
    Path {
        /// The assignment.
        assignment: String,
        /// What is wrong with it.
        source: NameError,
    },
    /// A rendered file and a file of the payload would be the same file on site.
    #[error(
        "`{assignment}`: its template renders `{path}`, and its manifests have it too\nhelp: rename one of \
         them; on site one would silently replace the other"
    )]
    Collision {
        /// The assignment.
        assignment: String,
        /// The file, as it would be on site.
        path: String,
    },
    /// Two files that are one where case is not told, or a file in the place of a folder.
    #[error(
        "`{assignment}`: its manifests have `{first}` and `{second}`, which differ by case alone or are both \
         file and folder\nhelp: rename one of them; sticks and some sites do not tell case"
    )]
    Alike {
        /// The assignment.
        assignment: String,
        /// One of them.
        first: String,
        /// The other.
        second: String,
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
    /// A file that the repository has as a pointer of Git LFS.
    #[error(
        "`{assignment}`: `{path}` is a pointer of Git LFS, and its content is not in the repository\n\
         help: put the file itself there: `git lfs untrack` the pattern, `git add --renormalize` the file, and \
         commit both"
    )]
    Pointer {
        /// The assignment.
        assignment: String,
        /// Its path in the repository.
        path: String,
    },
}

/// How much of a payload an index lists.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Files.
    pub files: u64,
    /// Bytes of their paths.
    pub path_bytes: u64,
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

/// Which repository, at which branch, pinned to which commit.
type Key = (String, Option<String>, Option<String>);

/// Opens each repository and branch once, so that all assignments of one bundle, and all bundles of one
/// run, see the same commit; but an assignment with a pin is read at its commit there.
#[derive(Debug)]
pub struct Collector<'a> {
    sources: &'a SourceMap,
    cache: &'a Cache,
    opened: BTreeMap<Key, Result<(Opened, String), Arc<SourceError>>>,
}

impl<'a> Collector<'a> {
    /// One that has opened nothing yet.
    pub fn new(sources: &'a SourceMap, cache: &'a Cache) -> Self {
        Self {
            sources,
            cache,
            opened: BTreeMap::new(),
        }
    }

    /// Whether the payload of one assignment can travel whole, and how much it has to be listed. Nothing is kept.
    ///
    /// # Errors
    /// [`CollectError`] when it cannot.
    pub fn look(
        &mut self,
        name: &str,
        assignment: &RenderedAssignment,
        pin: Option<&String>,
    ) -> Result<Listed, CollectError> {
        let Some(source) = self.open(name, assignment, pin)? else {
            return Ok(Listed::default());
        };
        let folder = folder(assignment);
        let names = source
            .0
            .names(folder, &TreeLimits::PAYLOAD)
            .map_err(|source| failed(name, source))?;
        no_links(name, names.skipped)?;
        if let Some(path) = names.pointers.into_iter().next() {
            return Err(pointer(name, path));
        }
        let paths = names.files;
        paths
            .iter()
            .try_for_each(|path| relative(name, path).map(drop))?;
        let named = || name.to_owned();
        match places::clash(assignment, &paths) {
            None => Ok(Listed {
                files: paths.len() as u64,
                path_bytes: paths.iter().map(|path| path.len() as u64).sum(),
            }),
            Some(Clash::Rendered(path)) => Err(CollectError::Collision {
                assignment: named(),
                path,
            }),
            Some(Clash::Alike(first, second)) => Err(CollectError::Alike {
                assignment: named(),
                first,
                second,
            }),
        }
    }

    /// Collects the payloads of `assignments` into `spool`.
    ///
    /// # Errors
    /// [`CollectError`] for the first payload that cannot travel whole.
    pub fn collect(
        &mut self,
        assignments: &BTreeMap<String, Arc<RenderedAssignment>>,
        pins: &BTreeMap<String, String>,
        spool: &mut Spool,
    ) -> Result<Payloads, CollectError> {
        let mut payloads = Payloads::default();
        for (name, assignment) in assignments {
            let Some((source, named)) = self.open(name, assignment, pins.get(name))? else {
                continue;
            };
            payloads.sources.push(Source {
                name: named.clone(),
                repo: source.url.clone(),
                commit: source.commit.clone(),
            });
            payloads.commits.insert(name.clone(), source.commit.clone());
            let mut files = Vec::new();
            // One file after another: together they may be larger than the memory.
            let links = source.each::<CollectError>(
                folder(assignment),
                &|path| !path.starts_with(".git/"),
                &TreeLimits::PAYLOAD,
                &mut |file| {
                    let path = relative(name, &file.path)?;
                    if source::is_pointer(&file.bytes) {
                        return Err(pointer(name, file.path));
                    }
                    let (content, size) = spool.add(&file.bytes)?;
                    files.push(File {
                        path,
                        content,
                        size,
                        executable: file.executable,
                    });
                    Ok(())
                },
            );
            let links = links.map_err(|error| match error {
                CollectError::Unread(source) => failed(name, source),
                other => other,
            })?;
            no_links(name, links)?;
            payloads.files.insert(name.clone(), files);
        }
        payloads.sources.sort();
        payloads.sources.dedup();
        Ok(payloads)
    }

    /// The source of one assignment's payload, and what the snapshot calls it; `None` when it has none.
    fn open(
        &mut self,
        name: &str,
        assignment: &RenderedAssignment,
        pin: Option<&String>,
    ) -> Result<Option<&(Opened, String)>, CollectError> {
        let manifests = &assignment.manifests;
        let Some(repo) = manifests.get("repo").filter(|repo| !repo.is_empty()) else {
            return Ok(None);
        };
        let storage = manifests.get("storage").filter(|storage| *storage != "git");
        if storage.is_some_and(|storage| storage == OCI) {
            // Whether the sites have it themselves was decided before: see `delivery::storage`.
            return Ok(None);
        }
        if let Some(storage) = storage.filter(|storage| !storage.is_empty()) {
            let (assignment, storage) = (name.to_owned(), storage.clone());
            return Err(CollectError::Storage {
                assignment,
                storage,
            });
        }
        let branch = manifests
            .get("branch")
            .filter(|branch| !branch.is_empty())
            .cloned();
        let key = (source::normal_url(repo), branch.clone(), pin.cloned());
        let (sources, cache) = (self.sources, self.cache);
        let found = self.opened.entry(key).or_insert_with(|| {
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
            let opened = source::open(repo, &reference, sources, cache).map_err(Arc::new)?;
            Ok((opened, named))
        });
        match found {
            Err(source) => Err(CollectError::Source {
                assignment: name.to_owned(),
                source: Arc::clone(source),
            }),
            Ok((opened, _)) if pin.is_some_and(|pin| *pin != opened.commit) => {
                Err(CollectError::Gone {
                    assignment: name.to_owned(),
                })
            }
            Ok(found) => Ok(Some(found)),
        }
    }
}

fn failed(assignment: &str, source: SourceError) -> CollectError {
    CollectError::Source {
        assignment: assignment.to_owned(),
        source: Arc::new(source),
    }
}

/// The folder of an assignment's manifests in their repository.
fn folder(assignment: &RenderedAssignment) -> &str {
    assignment.manifests.get("path").map_or(".", String::as_str)
}

fn relative(assignment: &str, path: &str) -> Result<RelativePath, CollectError> {
    path.parse().map_err(|source| CollectError::Path {
        assignment: assignment.to_owned(),
        source,
    })
}

fn no_links(assignment: &str, links: Vec<String>) -> Result<(), CollectError> {
    match links.into_iter().next() {
        None => Ok(()),
        Some(path) => Err(CollectError::Link {
            assignment: assignment.to_owned(),
            path,
        }),
    }
}

fn pointer(assignment: &str, path: String) -> CollectError {
    CollectError::Pointer {
        assignment: assignment.to_owned(),
        path,
    }
}

/// A payload's error as a finding, still without a place.
pub fn finding(error: &CollectError) -> Diagnostic {
    let mut lines = Vec::new();
    let mut help = None;
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = next {
        for line in cause.to_string().lines() {
            match line.trim().strip_prefix("help: ") {
                Some(text) => help = Some(text.to_owned()),
                None if lines.iter().any(|said| said == line) => {}
                None => lines.push(line.to_owned()),
            }
        }
        next = cause.source();
    }
    let message = lines.join(": ");
    let (finding, help) = match error {
        CollectError::Source { source, .. } if source.is_input() => (
            Diagnostic::error("not-collected", message),
            Some(source.help()),
        ),
        CollectError::Source { source, .. } => (
            Diagnostic::environment("not-collected", message),
            Some(source.help()),
        ),
        _ => (Diagnostic::error("not-collected", message), help),
    };
    match help {
        Some(help) => finding.help(help),
        None => finding,
    }
}
