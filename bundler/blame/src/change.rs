//! What one commit changes for the assignments in question.
//!
//! What comes in: a commit, and what the site would get before and after it. What goes out: values, templates, rendered files and the
//! team's own files that differ, with their lines, and the branch by which it came. It reads repositories and writes nothing.

use std::collections::BTreeSet;

use outhaul_git::source::{self, CommitSummary, GitReference, OpenedSource};
use outhaul_load::pipeline::Platform;
use outhaul_load::sides::side;

use crate::cause::CommitCause;
use crate::moved::{MANIFESTS, SourceMove};
use crate::states::RenderedState;
use crate::{BlameError, BlameRequest};

/// A repository at a commit.
pub(crate) fn open_at(
    platform: &Platform,
    repo: &str,
    commit: &str,
) -> Result<OpenedSource, BlameError> {
    let reference = GitReference::Commit {
        id: commit.to_owned(),
        near: None,
    };
    source::open(repo, &reference, &platform.sources, &platform.cache).map_err(|source| {
        BlameError::Source {
            repo: repo.to_owned(),
            source,
        }
    })
}

/// What one commit changes for the assignments in question.
pub(crate) fn changes_of(
    request: &BlameRequest<'_>,
    meant: &BTreeSet<String>,
    moved: &SourceMove,
    commit: &CommitSummary,
    (older, newer): (&RenderedState, &RenderedState),
    platform: &Platform,
) -> Result<CommitCause, BlameError> {
    let repo = &moved.repo;
    let failed = |source| BlameError::Source {
        repo: repo.clone(),
        source,
    };
    let before = commit.before.clone().unwrap_or_else(|| moved.from.clone());
    let opened = open_at(platform, repo, &commit.id)?;
    let mut cause = CommitCause {
        id: commit.id.clone(),
        paths: opened.changed_since(&before, "").map_err(failed)?,
        before: before.clone(),
        repo: repo.clone(),
        source: moved.title(),
        names: moved.names.clone(),
        branch: branch(request, platform, moved),
        is_merge: commit.is_merge,
        author: commit.author.clone(),
        at: commit.at.clone(),
        subject: commit.subject.clone(),
        assignments: meant
            .iter()
            .filter(|name| older.fingerprints.get(*name) != newer.fingerprints.get(*name))
            .cloned()
            .collect(),
        removed: meant
            .iter()
            .filter(|name| {
                older.fingerprints.contains_key(*name) && !newer.fingerprints.contains_key(*name)
            })
            .cloned()
            .collect(),
        policies: Vec::new(),
        values: Vec::new(),
        templates: Vec::new(),
        files: Vec::new(),
        lines: Vec::new(),
    };
    let (Ok(old), Ok(new)) = (&older.platform, &newer.platform) else {
        // It cannot be rendered at all on one side: everything in it counts.
        cause.lines = opened.lines_since(&before, "").map_err(failed)?;
        return Ok(cause);
    };
    add_rendered(&mut cause, request, meant, (old, new));
    let places = teams_places(&moved.names, repo, meant, new, request.cluster_type);
    for path in places {
        cause
            .files
            .extend(opened.changed_since(&before, &path).map_err(failed)?);
        cause
            .lines
            .extend(opened.lines_since(&before, &path).map_err(failed)?);
    }
    Ok(cause)
}

/// Values, policies, templates and rendered files that differ for the site.
fn add_rendered(
    cause: &mut CommitCause,
    request: &BlameRequest<'_>,
    meant: &BTreeSet<String>,
    (old, new): (&Platform, &Platform),
) {
    let mut difference = outhaul_diff::compare(side("before", old), side("after", new));
    let Some(change) = difference.cluster_types.remove(request.cluster_type) else {
        return;
    };
    let of_site =
        |sites: &[String]| sites.is_empty() || sites.iter().any(|site| site == request.site);
    cause.values = change.values;
    cause.values.retain(|value| {
        value
            .targets
            .iter()
            .any(|target| match target.split_once('@') {
                Some((target, site)) => site == request.site && meant.contains(target),
                None => meant.contains(target),
            })
    });
    let decided = change.added.iter().chain(&change.removed);
    for one in decided.filter(|one| meant.contains(&one.target)) {
        cause.policies.extend(one.policies.iter().cloned());
    }
    for one in change
        .reasons
        .iter()
        .filter(|one| meant.contains(&one.target))
    {
        cause
            .policies
            .extend(one.added.iter().chain(&one.removed).cloned());
    }
    cause.policies.sort();
    cause.policies.dedup();
    cause.templates = change.templates;
    for file in change.files {
        let target = file.path.split('/').next().unwrap_or_default();
        if meant.contains(target) && of_site(&file.sites) {
            cause
                .lines
                .extend(file.diff.iter().filter(|line| is_change(line)).cloned());
            cause.files.push(file.path);
        }
    }
}

/// Where the team's own files of the assignments lie in the repository, as far as it is read for them.
fn teams_places(
    names: &BTreeSet<String>,
    repo: &str,
    meant: &BTreeSet<String>,
    new: &Platform,
    cluster_type: &str,
) -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    for name in meant {
        let group = new.rendering.cluster_types.get(cluster_type);
        let Some(rendered) = group.and_then(|group| group.assignments.get(name)) else {
            continue;
        };
        let field = |name: &str| rendered.manifests.get(name).map_or("", String::as_str);
        let is_here = source::normal_url(field("repo")) == source::normal_url(repo)
            && names.iter().any(|name| {
                let branch = Some(field("branch")).filter(|branch| !branch.is_empty());
                *name == format!("{MANIFESTS}{}", branch.unwrap_or("HEAD"))
            });
        if is_here {
            places.insert(field("path").to_owned());
        }
    }
    places
}

fn is_change(line: &str) -> bool {
    (line.starts_with('+') && !line.starts_with("+++"))
        || (line.starts_with('-') && !line.starts_with("---"))
}

/// The branch that a source follows, as the control plane says.
fn branch(request: &BlameRequest<'_>, platform: &Platform, moved: &SourceMove) -> Option<String> {
    let plane = &platform.control_plane;
    if moved.names.contains(&plane.environment)
        && let Ok(environments) = outhaul_load::environments(request.load)
    {
        let own = environments
            .into_iter()
            .find(|one| one.name == plane.environment);
        if let Some(own) = own {
            return Some(own.control_plane.branch);
        }
    }
    let named = moved.names.iter().find_map(|name| {
        let of_base = plane.base_repos.get(name).map(|base| &base.at);
        let of_team = plane.registrations.get(name).map(|one| &one.workload);
        of_base.or(of_team).map(|at| at.branch.clone())
    });
    named.or_else(|| {
        let manifests = moved
            .names
            .iter()
            .find_map(|name| name.strip_prefix(MANIFESTS));
        manifests
            .filter(|branch| *branch != "HEAD")
            .map(str::to_owned)
    })
}
