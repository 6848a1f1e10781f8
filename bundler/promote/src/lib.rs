//! Promotion: the next environment's base commit, moved on its branch when the gate is open.
//!
//! What comes in: a control plane, an environment, a commit, and the hub's decision about the
//! environment before, or who overrides it and why. What goes out: one commit that changes one line of
//! the `BaseRepo` named `main`, with the evidence in its message, where [`required`] looks for it before
//! anything of a later environment is shipped. A closed gate, a commit that breaks the environment, a moved
//! branch or anything unreadable changes nothing. It does not decide: the hub does.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use outhaul_control::diagnostic::{Diagnostics, SourceFile};
use outhaul_control::kinds::{self, Object};
use outhaul_control::model::{BaseRepo, Environment, PromotionPolicy};
use outhaul_git::branch::{self, Edit};
use outhaul_git::source::{
    self, Cache, GitReference, OpenedSource, SourceError, SourceMap, TreeLimits,
};
use outhaul_kit::suggest::nearest;
use outhaul_load::ENVIRONMENTS;

mod answer;
mod candidate;
mod clock;
mod direction;
mod error;
mod error_text;
mod evidence;
mod former;
mod given_hooks;
pub mod hooks;
mod hub;
pub mod lineage;
mod moved;
pub mod order;
pub mod overrides;
mod policy;
mod problems;
mod promotion;
mod ran;
pub mod record;
pub mod required;
mod unread_policies;
pub mod warnings;
pub mod watch;

pub use error::PromoteError;
pub use hub::{GateError, GateRule, HubConnection, ways_to_open};
use moved::BaseFile;
use order::{ChainPlace, PromotionOrder};
pub use outhaul_bundle::hub_api::{Decision, Evidence, GateVerdict};
pub use problems::WrittenChain;
pub use promotion::{Promoted, Promotion, StepMove};
use record::{Basis, Recorded};
use unread_policies::BranchUse;

/// Commits of a branch that are searched: of an environment, or of the control plane.
const MAX_COMMITS: usize = 5_000;

/// An environment's own branch, and the base that it is pinned to.
#[derive(Debug)]
pub struct Link {
    environment: Environment,
    opened: OpenedSource,
    /// The file with the `BaseRepo`, and its path.
    file: Arc<SourceFile>,
    path: String,
    base: BaseRepo,
}

/// A control plane whose environments are looked at.
#[derive(Debug)]
pub struct Chain<'a> {
    url: &'a str,
    /// The branch with the environments, when it is not `main` or the default branch.
    branch: Option<String>,
    sources: SourceMap,
    cache: &'a Cache,
    environments: BTreeMap<String, Environment>,
    policies: Vec<PromotionPolicy>,
    order: PromotionOrder,
    /// The branch that lists them.
    opened: OpenedSource,
    /// What was found on branches of environments, by repository and commit.
    policies_beside: RefCell<BTreeMap<(String, String), Diagnostics>>,
}

impl<'a> Chain<'a> {
    /// Reads which environments there are, for a promotion.
    ///
    /// # Errors
    /// [`PromoteError`] when the control plane cannot be read, or has a promotion policy that would have no effect.
    pub fn open(url: &'a str, sources: SourceMap, cache: &'a Cache) -> Result<Self, PromoteError> {
        let chain = Self::on_branch(url, None, sources, cache)?;
        refuse(unread_policies::of(&chain.opened, BranchUse::List)?)?;
        Ok(chain)
    }

    /// The same for who moves nothing, where the environments may be on another branch than `main` or the default branch. Policies that lie
    /// where none is read are not looked for.
    ///
    /// # Errors
    /// [`PromoteError`] when the control plane cannot be read, or has a promotion policy for an environment that it does not list.
    pub fn on_branch(
        url: &'a str,
        branch: Option<String>,
        sources: SourceMap,
        cache: &'a Cache,
    ) -> Result<Self, PromoteError> {
        let mut sources = sources;
        sources.insert_given(url);
        let opened = open(url, branch.as_deref(), &sources, cache)?;
        let listed = listed(&opened)?;
        Self::of_listed((url, branch), (sources, cache), opened, listed)
    }

    /// The chain of what `opened` was found to list.
    fn of_listed(
        (url, branch): (&'a str, Option<String>),
        (sources, cache): (SourceMap, &'a Cache),
        opened: OpenedSource,
        (environments, policies): ListedObjects,
    ) -> Result<Self, PromoteError> {
        policy::contradictions(&policies)?;
        refuse(problems::unknown_in(&policies, &environments))?;
        let order = PromotionOrder::of(&environments, &policies);
        Ok(Self {
            url,
            branch,
            sources,
            cache,
            environments,
            policies,
            order,
            opened,
            policies_beside: RefCell::default(),
        })
    }

    /// Where `environment` is in the chain.
    pub fn before(&self, environment: &str) -> &ChainPlace {
        self.order.before(environment)
    }

    /// The environment whose gate decides about `to`, when `asked` or nothing was named; `None` for the
    /// first of the chain.
    ///
    /// # Errors
    /// [`PromoteError::NotFromThere`], [`PromoteError::NoOrder`] or [`PromoteError::NoEnvironment`].
    pub fn gate_before(
        &self,
        to: &str,
        asked: Option<&str>,
    ) -> Result<Option<String>, PromoteError> {
        self.environment(to)?;
        match (self.before(to), asked) {
            (ChainPlace::First, asked) => Ok(asked.map(str::to_owned)),
            (ChainPlace::After(names, _), Some(asked)) if names.contains(asked) => {
                Ok(Some(asked.to_owned()))
            }
            (ChainPlace::After(names, _), None) if names.len() == 1 => Ok(names.first().cloned()),
            (ChainPlace::After(names, at), _) => Err(PromoteError::NotFromThere {
                environment: to.to_owned(),
                allowed: quoted(names),
                at: at.to_string(),
            }),
            (ChainPlace::Unknown, _) => Err(PromoteError::NoOrder {
                environment: to.to_owned(),
            }),
        }
    }

    /// Refuses any environment but the first.
    ///
    /// # Errors
    /// [`PromoteError::NotFirst`], [`PromoteError::NoOrder`] or [`PromoteError::NoEnvironment`].
    pub fn first_only(&self, name: &str) -> Result<(), PromoteError> {
        self.environment(name)?;
        match self.before(name) {
            ChainPlace::First => Ok(()),
            ChainPlace::After(names, at) => Err(PromoteError::NotFirst {
                environment: name.to_owned(),
                allowed: quoted(names),
                at: at.to_string(),
            }),
            ChainPlace::Unknown => Err(PromoteError::NoOrder {
                environment: name.to_owned(),
            }),
        }
    }

    fn environment(&self, name: &str) -> Result<&Environment, PromoteError> {
        self.environments.get(name).ok_or_else(|| {
            let names: Vec<String> = self.environments.keys().cloned().collect();
            let quoted = names.iter().map(|name| format!("`{name}`"));
            PromoteError::NoEnvironment {
                environment: name.to_owned(),
                known: match names.is_empty() {
                    true => "none".to_owned(),
                    false => quoted.collect::<Vec<_>>().join(", "),
                },
                near: nearest(name, &names).map(str::to_owned),
            }
        })
    }

    /// The link for `environment`.
    ///
    /// # Errors
    /// [`PromoteError`] when there is none or it cannot be read.
    pub fn link(&self, environment: &str) -> Result<Link, PromoteError> {
        let found = self.environment(environment)?;
        let at = &found.control_plane;
        let sources = self.environment_sources(&at.repo.value);
        let opened = open_environment(found, &sources, self.cache)?;
        if let Some(BaseFile { path, file, base }) = moved::base_file(&opened, &at.path)? {
            return Ok(Link {
                environment: found.clone(),
                opened,
                file,
                path,
                base,
            });
        }
        Err(PromoteError::NoBase {
            environment: environment.to_owned(),
        })
    }

    /// The local folders of repositories when an environment's own branch in `repository` is read.
    fn environment_sources(&self, repository: &str) -> SourceMap {
        sources_beside(self.url, &self.sources, repository)
    }

    /// The newest commit of the branch that `link` is based on.
    ///
    /// # Errors
    /// [`PromoteError`] when its repository cannot be read.
    pub fn newest(&self, link: &Link) -> Result<String, PromoteError> {
        let at = &link.base.at;
        let reference = GitReference::Branch(at.branch.clone());
        let sources = self.base_sources(link);
        Ok(source::open(&at.repo.value, &reference, &sources, self.cache)?.commit)
    }

    /// Refuses an environment that another one shares its branch and path with.
    fn alone(&self, to: &str) -> Result<(), PromoteError> {
        let environment = self.environment(to)?;
        let Some(other) = problems::shares_with(&self.environments, environment) else {
            return Ok(());
        };
        Err(PromoteError::Shared {
            environment: to.to_owned(),
            other: other.name.clone(),
            branch: environment.control_plane.branch.clone(),
            at: environment.control_plane.branch_at.to_string(),
            other_at: other.control_plane.branch_at.to_string(),
        })
    }

    /// Moves `link` to `commit`, when nothing breaks there; returns the new commit of its branch.
    fn move_to(
        &self,
        link: &Link,
        commit: &str,
        basis: &Basis,
        more: Recorded<'_>,
    ) -> Result<String, PromoteError> {
        self.alone(&link.environment.name)?;
        self.check(link, commit)?;
        let message = record::message(&link.environment.name, commit, basis, more);
        link.advance(commit, &message)
    }

    /// The local folders of repositories when `link`'s base is read.
    fn base_sources(&self, link: &Link) -> SourceMap {
        let mut sources = self.sources.clone();
        let at = &link.base.at;
        let own = &link.environment.control_plane.repo.value;
        if let Some(folder) = source::local_folder(self.url)
            && source::normal_url(own) == source::normal_url(&at.repo.value)
        {
            sources.insert_default(&at.repo.value, folder);
        }
        sources
    }
}

impl Link {
    /// The commit that the environment's base is pinned to.
    ///
    /// # Errors
    /// [`PromoteError::NotPinned`].
    pub fn pinned(&self) -> Result<&str, PromoteError> {
        let commit = self
            .base
            .commit
            .as_ref()
            .map(|commit| commit.value.as_str());
        commit.ok_or_else(|| PromoteError::NotPinned {
            environment: self.environment.name.clone(),
        })
    }

    /// Whether it is at `commit` already.
    pub fn is_at(&self, commit: &str) -> bool {
        self.base
            .commit
            .as_ref()
            .is_some_and(|pinned| pinned.value == commit)
    }

    /// Commits the move to `commit`; returns the new commit of the environment's branch.
    ///
    /// # Errors
    /// [`PromoteError`]; the branch is then as it was.
    pub fn advance(&self, commit: &str, message: &str) -> Result<String, PromoteError> {
        let text = moved::with_commit(&self.file, &self.base, commit).ok_or_else(|| {
            PromoteError::Shape {
                file: self.file.name.clone(),
            }
        })?;
        let files = BTreeMap::from([(self.path.clone(), text.into_bytes())]);
        let branch = &self.environment.control_plane.branch;
        let edit = Edit {
            branch,
            parent: &self.opened.commit,
            files: &files,
            message,
        };
        let folder = self.opened.repository_folder().unwrap_or(Path::new("."));
        let made = match self.opened.remote() {
            None => branch::commit_local(folder, &edit),
            Some(remote) => branch::commit_and_push(folder, remote.url(), &edit),
        };
        made.map_err(|source| PromoteError::Branch {
            environment: self.environment.name.clone(),
            source,
        })
    }
}

/// The branch of a control plane that lists its environments.
fn open(
    url: &str,
    branch: Option<&str>,
    sources: &SourceMap,
    cache: &Cache,
) -> Result<OpenedSource, SourceError> {
    let name = branch.unwrap_or("main").to_owned();
    match source::open_given(url, &GitReference::Branch(name), sources, cache) {
        // Not every repository calls it `main`.
        Err(SourceError::NoSuchReference { .. }) if branch.is_none() => {
            source::open_given(url, &GitReference::Head, sources, cache)
        }
        opened => opened,
    }
}

/// `sources`, and the folder of the control plane at `url`, where it is one, as the local copy of `repository`, in which an environment's own
/// branch lies; a copy that is named for that repository stays.
fn sources_beside(url: &str, sources: &SourceMap, repository: &str) -> SourceMap {
    let mut sources = sources.clone();
    if let Some(folder) = source::local_folder(url) {
        sources.insert_default(repository, folder);
    }
    sources
}

/// The branch of an environment.
fn open_environment(
    environment: &Environment,
    sources: &SourceMap,
    cache: &Cache,
) -> Result<OpenedSource, SourceError> {
    let at = &environment.control_plane;
    let reference = GitReference::Branch(at.branch.clone());
    source::open(&at.repo.value, &reference, sources, cache)
}

/// Refuses what has findings.
fn refuse(findings: Diagnostics) -> Result<(), PromoteError> {
    match findings.is_empty() {
        true => Ok(()),
        false => Err(PromoteError::Findings(findings)),
    }
}

/// The environments that a control plane lists, by name, and the promotion policies beside them.
type ListedObjects = (BTreeMap<String, Environment>, Vec<PromotionPolicy>);

/// Reads them.
fn listed(opened: &OpenedSource) -> Result<ListedObjects, PromoteError> {
    let mut environments: BTreeMap<String, Environment> = BTreeMap::new();
    let mut policies = Vec::new();
    let mut findings = Diagnostics::new();
    for (_, object) in objects(opened, ENVIRONMENTS)? {
        match object {
            Object::Environment(environment) => {
                if let Some(first) = environments.get(&environment.name) {
                    findings.push(problems::listed_twice(first, &environment));
                }
                environments.insert(environment.name.clone(), environment);
            }
            Object::Promotion(policy) => policies.push(policy),
            _ => {}
        }
    }
    refuse(findings)?;
    Ok((environments, policies))
}

type NamedFile = (String, Arc<SourceFile>);

/// Every object below `path`, with its file.
fn objects(opened: &OpenedSource, path: &str) -> Result<Vec<(NamedFile, Object)>, PromoteError> {
    objects_of(opened, path, &|path| {
        path.ends_with(".yaml") || path.ends_with(".yml")
    })
}

/// Every object of those files below `path` whose paths, from there, `is_meant` is true for, with its file.
fn objects_of(
    opened: &OpenedSource,
    path: &str,
    is_meant: &dyn Fn(&str) -> bool,
) -> Result<Vec<(NamedFile, Object)>, PromoteError> {
    let mut findings = Diagnostics::new();
    let mut found = Vec::new();
    let root = source::normal_path(path)?;
    let named = |below: &str| {
        opened.file_name(&match root.as_str() {
            "" => below.to_owned(),
            root => format!("{root}/{below}"),
        })
    };
    let tree = opened.tree(path, is_meant, &TreeLimits::YAML)?;
    if root == ENVIRONMENTS {
        let links = tree.skipped.iter().filter(|path| is_meant(path));
        findings.extend(links.map(|path| problems::linked(&named(path))));
    }
    for file in tree.files {
        let name = named(&file.path);
        let Ok(text) = String::from_utf8(file.bytes) else {
            // Of the list nothing is left out: a policy in it would have no effect.
            if root == ENVIRONMENTS {
                findings.push(problems::not_text(&name));
            }
            continue;
        };
        let source = Arc::new(SourceFile { name, text });
        for object in kinds::read_file(&source, &mut findings) {
            found.push(((file.path.clone(), Arc::clone(&source)), object));
        }
    }
    if findings.has_errors() {
        Err(PromoteError::Findings(findings))
    } else {
        Ok(found)
    }
}

/// Names with `or` between them.
fn quoted(names: &BTreeSet<String>) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(" or ")
}
