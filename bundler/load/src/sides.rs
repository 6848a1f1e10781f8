//! Sides: from two words that a person typed to two control planes.
//!
//! What comes in: a [`DiffRequest`]: two revisions of a control plane's repository, or two folders. What
//! goes out: one [`EnvironmentSides`] of platforms for each environment, or every finding of both sides. A revision
//! is promoted content when it lists environments, and an environment's own content otherwise; what
//! is not changed by it is read as it is now. It writes nothing outside the cache.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};

use outhaul_diff::Side;

use crate::pipeline::{self, Platform};
use crate::scheduler::Schedulers;
use crate::{LoadRequest, Origin};
use outhaul_control::Diagnostics;
use outhaul_control::model::Environment;
use outhaul_git::source::git::{self, Repository};
use outhaul_git::source::{self, GitReference, SourceError, TreeLimits};
use outhaul_git::source::{Cache, SourceMap};
use outhaul_kit::commit_id::typed_commit_id;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_plane::compose::Mode;

/// What to compare.
#[derive(Debug, Clone)]
pub struct DiffRequest {
    /// The side before and the side after, as typed.
    pub words: [String; 2],
    /// Whether the side after is the control plane's working copy, edits and all, and not the commit that
    /// it has checked out.
    pub working_copy: bool,
    /// The control plane's repository; without it the words are folders.
    pub control_plane: Option<String>,
    /// The branch with the environments, instead of `main`.
    pub branch: Option<String>,
    /// Only these environments; empty for all that the words can mean.
    pub environments: Vec<String>,
    /// What takes the place of the base repository when the words are an environment's folders: for both
    /// sides, or one each.
    pub base_dirs: Vec<PathBuf>,
    /// The commits that those are.
    pub base_commits: Vec<String>,
    /// Which repositories stand here as folders or mirrors.
    pub sources: SourceMap,
    /// Where others are fetched to.
    pub cache: Cache,
    /// The programs that policies may name to choose for them.
    pub schedulers: Schedulers,
    /// How to treat Kalypso's defects.
    pub mode: Mode,
}

/// Folders that were rendered before, for whoever wrote them knows them.
pub trait RenderedFolders {
    /// Whether a folder is one.
    fn is_rendered(&self, folder: &Path) -> bool;

    /// What it holds.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn read(&self, folder: &Path) -> Result<Platform, Box<dyn Error + Send + Sync>>;
}

/// The side of a difference that `platform` is.
pub fn side<'a>(name: &'a str, platform: &'a Platform) -> Side<'a> {
    Side {
        name,
        plane: &platform.control_plane,
        schedule: &platform.schedule,
        composition: platform.composition(),
        rendering: &platform.rendering,
    }
}

/// Both sides of one environment.
#[derive(Debug)]
pub struct EnvironmentSides {
    /// The environment; empty for rendered folders that do not say.
    pub environment: String,
    /// Before.
    pub before: Platform,
    /// After.
    pub after: Platform,
}

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// A word that is neither a revision nor a folder.
    #[error("`{word}` is neither a revision of `{control_plane}` nor a folder")]
    Unknown {
        /// The word.
        word: String,
        /// The repository.
        control_plane: String,
    },
    /// A word that is not a folder, without a repository.
    #[error(
        "`{word}` is not a folder\nhelp: compare two folders, or revisions with `--control-plane URL|DIR`"
    )]
    NotAFolder {
        /// The word.
        word: String,
    },
    /// A rendered folder can only be compared with another.
    #[error(
        "`{rendered}` was rendered and `{other}` was not\nhelp: compare two rendered folders, or two control planes"
    )]
    Mixed {
        /// The rendered one.
        rendered: String,
        /// The other.
        other: String,
    },
    /// Which environment is meant cannot be known.
    #[error(
        "cannot infer the environment of `{before}` and `{after}`\nhelp: add `--environment NAME`: {known}"
    )]
    WhichEnvironment {
        /// A word.
        before: String,
        /// The other.
        after: String,
        /// What there is.
        known: String,
    },
    /// A repository or folder that cannot be read.
    #[error("cannot read `{word}`\nhelp: {}", source.help())]
    Source {
        /// What was typed.
        word: String,
        /// Why.
        source: SourceError,
    },
    /// A rendered folder that cannot be read.
    #[error(transparent)]
    Rendered(Box<dyn Error + Send + Sync>),
    /// At least one side cannot be loaded.
    #[error("the control plane cannot be loaded")]
    Findings(Vec<Broken>),
}

impl Classified for DiffError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Source { source, .. } => source.class(),
            Self::Findings(sides) => {
                let classes = sides.iter().filter_map(|side| side.findings.class());
                classes.max().unwrap_or(FailureClass::Usage)
            }
            _ => FailureClass::Usage,
        }
    }
}

/// A side that cannot be loaded.
#[derive(Debug)]
pub struct Broken {
    /// What was typed.
    pub word: String,
    /// The environment.
    pub environment: String,
    /// Why.
    pub findings: Diagnostics,
}

/// Where one side is read from.
#[derive(Debug, Clone)]
enum SideSource {
    /// A commit of the control plane's repository: what is promoted, or one environment's own.
    Revision { commit: String, promoted: bool },
    /// A repository in a folder, with its environments.
    ControlPlane(PathBuf),
    /// One environment's own folder.
    Environment(PathBuf),
    /// What was rendered before.
    Rendered(PathBuf),
}

/// Loads both sides of every environment that is meant.
///
/// # Errors
/// [`DiffError`], with the findings of every side that cannot be loaded.
pub fn load(
    question: &DiffRequest,
    folders: &dyn RenderedFolders,
) -> Result<Vec<EnvironmentSides>, DiffError> {
    let [before, after] = [question.place(0, folders)?, question.place(1, folders)?];
    let rendered = |place: &SideSource| matches!(place, SideSource::Rendered(_));
    if let (SideSource::Rendered(a), SideSource::Rendered(b)) = (&before, &after) {
        return Ok(vec![EnvironmentSides {
            environment: question.environments.first().cloned().unwrap_or_default(),
            before: folders.read(a).map_err(DiffError::Rendered)?,
            after: folders.read(b).map_err(DiffError::Rendered)?,
        }]);
    }
    if rendered(&before) || rendered(&after) {
        let [a, b] = question.words.clone();
        let (rendered, other) = if rendered(&before) { (a, b) } else { (b, a) };
        return Err(DiffError::Mixed { rendered, other });
    }
    let environments = question.meant(&before, &after)?;
    let mut pairs = Vec::new();
    let mut broken = Vec::new();
    for environment in environments {
        let mut one = |at: usize, place: &SideSource| {
            let request = question.request(at, place, &environment);
            let platform = pipeline::run_whole(&request, question.mode, None);
            platform
                .map_err(|findings| {
                    broken.push(Broken {
                        word: question.words[at].clone(),
                        environment: environment.name.clone(),
                        findings,
                    });
                })
                .ok()
        };
        // Both sides are reported, not only the first that fails.
        let (old, new) = (one(0, &before), one(1, &after));
        if let (Some(before), Some(after)) = (old, new) {
            let environment = environment.name;
            pairs.push(EnvironmentSides {
                environment,
                before,
                after,
            });
        }
    }
    if broken.is_empty() {
        Ok(pairs)
    } else {
        Err(DiffError::Findings(broken))
    }
}

/// An environment by name, and where its own content lies when the control plane says so.
struct NamedEnvironment {
    name: String,
    at: Option<Environment>,
}

impl DiffRequest {
    fn place(&self, at: usize, folders: &dyn RenderedFolders) -> Result<SideSource, DiffError> {
        let word = &self.words[at];
        let Some(url) = &self.control_plane else {
            return folder(word, folders)
                .ok_or_else(|| DiffError::NotAFolder { word: word.clone() });
        };
        let opened = match self.open(url, word) {
            Ok(opened) => opened,
            Err(SourceError::NoSuchReference { .. }) => {
                return folder(word, folders).ok_or_else(|| DiffError::Unknown {
                    word: word.clone(),
                    control_plane: url.clone(),
                });
            }
            Err(source) => {
                let word = url.clone();
                return Err(DiffError::Source { word, source });
            }
        };
        let promoted = opened.tree(crate::ENVIRONMENTS, &|_| true, &TreeLimits::YAML);
        Ok(SideSource::Revision {
            commit: opened.commit,
            promoted: promoted.is_ok_and(|tree| !tree.files.is_empty()),
        })
    }

    /// A branch, a tag, a commit; and whatever else git knows when the repository lies here.
    fn open(&self, url: &str, word: &str) -> Result<source::OpenedSource, SourceError> {
        let open = |reference: GitReference| {
            source::open_given(url, &reference, &self.sources, &self.cache)
        };
        let commit = |id: String| GitReference::Commit { id, near: None };
        if let Some(repository) = self.repository() {
            return open(commit(repository.revision(url, word)?));
        }
        if let Some(id) = typed_commit_id(word) {
            return open(commit(id));
        }
        match open(GitReference::Branch(word.to_owned())) {
            Err(SourceError::NoSuchReference { .. }) => open(GitReference::Tag(word.to_owned())),
            opened => opened,
        }
    }

    /// The control plane's repository, when it lies on this machine.
    fn repository(&self) -> Option<Repository> {
        let url = self.control_plane.as_ref()?;
        let folder = self.sources.resolve(url, &GitReference::Head);
        let folder = folder.or_else(|| source::local_folder(url))?;
        git::is_repository(folder).then(|| Repository::at(folder))
    }

    fn meant(
        &self,
        before: &SideSource,
        after: &SideSource,
    ) -> Result<Vec<NamedEnvironment>, DiffError> {
        let mut known: BTreeMap<String, Environment> = BTreeMap::new();
        let mut broken = Vec::new();
        // What the new side lists counts, and what only the old side lists is compared too.
        for (at, place) in [(1, after), (0, before)] {
            let request = self.request(
                at,
                place,
                &NamedEnvironment {
                    name: String::new(),
                    at: None,
                },
            );
            match crate::environments(&request) {
                Ok(listed) => {
                    for environment in listed {
                        known.entry(environment.name.clone()).or_insert(environment);
                    }
                }
                Err(findings) => broken.push(Broken {
                    word: self.words[at].clone(),
                    environment: String::new(),
                    findings,
                }),
            }
        }
        if !broken.is_empty() {
            return Err(DiffError::Findings(broken));
        }
        let meant = |name: &String| NamedEnvironment {
            name: name.clone(),
            at: known.get(name).cloned(),
        };
        if !self.environments.is_empty() {
            return Ok(self.environments.iter().map(meant).collect());
        }
        let own = [before, after].map(|place| match place {
            SideSource::Revision {
                commit,
                promoted: false,
            } => Some(commit.as_str()),
            _ => None,
        });
        let folders = matches!(
            (before, after),
            (SideSource::Environment(_), _) | (_, SideSource::Environment(_))
        );
        if !folders && own == [None, None] {
            return Ok(known.keys().map(meant).collect());
        }
        let found = self.branches(&own, known.values());
        if folders || found.is_empty() {
            let names: Vec<String> = known.keys().map(|name| format!("`{name}`")).collect();
            let [before, after] = self.words.clone();
            return Err(DiffError::WhichEnvironment {
                before,
                after,
                known: if names.is_empty() {
                    "any name".into()
                } else {
                    names.join(", ")
                },
            });
        }
        Ok(found.iter().map(meant).collect())
    }

    /// The environments whose branch one of the words is, or else whose branch one of the commits
    /// leads to or comes from. Nothing when that is more than one branch.
    fn branches<'e>(
        &self,
        commits: &[Option<&str>; 2],
        known: impl Iterator<Item = &'e Environment> + Clone,
    ) -> Vec<String> {
        let names = |test: &dyn Fn(&Environment) -> bool| -> Vec<String> {
            let found: Vec<&Environment> = known.clone().filter(|e| test(e)).collect();
            let branches: BTreeSet<&String> =
                found.iter().map(|e| &e.control_plane.branch).collect();
            if branches.len() == 1 {
                found.iter().map(|e| e.name.clone()).collect()
            } else {
                Vec::new()
            }
        };
        let typed = names(&|e| self.words.contains(&e.control_plane.branch));
        if !typed.is_empty() {
            return typed;
        }
        let Some(repository) = self.repository() else {
            return Vec::new();
        };
        names(&|environment| {
            let branch = &environment.control_plane.branch;
            let Ok(tip) = repository.revision("", branch) else {
                return false;
            };
            commits.iter().flatten().any(|commit| {
                let follows = |a: &str, b: &str| repository.follows(a, b).unwrap_or(false);
                follows(commit, &tip) || follows(&tip, commit)
            })
        })
    }

    fn request(
        &self,
        at: usize,
        place: &SideSource,
        environment: &NamedEnvironment,
    ) -> LoadRequest {
        let mut sources = self.sources.clone();
        if at == 1 && self.working_copy {
            sources.read_working_copies();
        }
        let repository = |url: String| Origin::Repository {
            url,
            branch: self.branch.clone(),
        };
        let from = match place {
            SideSource::Revision { commit, promoted } => {
                let own = environment.at.as_ref().map(|e| &e.control_plane);
                if *promoted {
                    sources.pin(crate::ENVIRONMENTS, "", commit);
                    sources.pin(crate::PROMOTED, "", commit);
                }
                // One branch may hold everything, each environment in a folder.
                let branch = self.branch.as_deref().unwrap_or("main");
                if let Some(own) = own.filter(|own| !promoted || own.branch == branch) {
                    sources.pin(&environment.name, &own.repo.value, commit);
                }
                repository(self.control_plane.clone().unwrap_or_default())
            }
            SideSource::ControlPlane(dir) | SideSource::Rendered(dir) => {
                repository(dir.to_string_lossy().into_owned())
            }
            SideSource::Environment(dir) => {
                let nth = |many: &[PathBuf]| many.get(at).or(many.first()).cloned();
                Origin::Folders {
                    environment_dir: dir.clone(),
                    base_dir: nth(&self.base_dirs),
                    base_commit: self
                        .base_commits
                        .get(at)
                        .or(self.base_commits.first())
                        .cloned(),
                }
            }
        };
        LoadRequest {
            environment: environment.name.clone(),
            from,
            sources,
            cache: self.cache.clone(),
            schedulers: self.schedulers.clone(),
        }
    }
}

/// What a folder holds; `None` when it is not one.
fn folder(word: &str, folders: &dyn RenderedFolders) -> Option<SideSource> {
    let dir = PathBuf::from(word);
    if !dir.is_dir() {
        return None;
    }
    let rendered = folders.is_rendered(&dir);
    Some(match () {
        () if rendered => SideSource::Rendered(dir),
        () if git::is_repository(&dir) || dir.join(crate::ENVIRONMENTS).is_dir() => {
            SideSource::ControlPlane(dir)
        }
        () => SideSource::Environment(dir),
    })
}
