//! History: which other commit a folder's content came from.
//!
//! What comes in: folders that the present state does not explain, and the control plane's load request.
//! What goes out: the same folders, some of them explained: consistent with an earlier state, or torn,
//! which is when the platform repository records one commit and holds the content of another. Each
//! commit that is tried is rendered whole; how many are is bounded.

use std::collections::BTreeSet;

use crate::classify::{folder, holds};
use crate::{ImportReport, Tree, Verdict};
use outhaul_git::source::SourceMap;
use outhaul_git::source::{self, GitReference};
use outhaul_load::LoadRequest;
use outhaul_load::pipeline::{self, Platform};
use outhaul_plane::compose::Mode;

/// What may be tried.
#[derive(Debug, Clone, Copy)]
pub struct HistoryLimits {
    /// Most commits of the base, and most of the environment.
    pub commits: usize,
}

/// Explains what can be explained.
pub fn explain(
    report: &mut ImportReport,
    there: &Tree,
    platform: &Platform,
    request: &LoadRequest,
    limits: HistoryLimits,
) {
    let snapshot = &platform.rendering.snapshot;
    let Some(base) = platform.control_plane.base_repos.get("main") else {
        return;
    };
    let says = report.recorded.clone();
    let mut seen: BTreeSet<String> = BTreeSet::from([snapshot.base.commit.clone()]);
    let at_base = |commit: &str| {
        let mut request = request.clone();
        request.sources.pin("main", &base.at.repo.value, commit);
        request
    };
    // What the platform repository says it is of, when the control plane has moved on.
    if let Some(commit) = says
        .as_ref()
        .filter(|commit| seen.insert((*commit).clone()))
    {
        attempt(report, there, &at_base(commit), &|_| {
            (
                Verdict::Older,
                commit.clone(),
                format!(
                    "what its recorded commit {} gives; the control plane has moved on",
                    short(commit)
                ),
            )
        });
    }
    let tip = GitReference::Branch(base.at.branch.clone());
    let before = says.as_ref().map(|id| GitReference::Commit {
        id: id.clone(),
        near: Some(base.at.branch.clone()),
    });
    let starts: Vec<GitReference> = before.into_iter().chain([tip]).collect();
    let sources = &request.sources;
    let mut left = limits.commits;
    for start in starts {
        for commit in commits(&base.at.repo.value, &start, sources, request, limits) {
            if left == 0 || nothing_open(report) {
                break;
            }
            if !seen.insert(commit.clone()) {
                continue;
            }
            left -= 1;
            let recorded = says.as_deref().map_or("none", short);
            attempt(report, there, &at_base(&commit), &|_| {
                (
                    Verdict::Torn,
                    commit.clone(),
                    format!(
                        "its recorded commit is {recorded}, its content is that of {}",
                        short(&commit)
                    ),
                )
            });
        }
    }
    environment(report, there, platform, request, limits);
}

/// Earlier states of the environment's own branch.
fn environment(
    report: &mut ImportReport,
    there: &Tree,
    platform: &Platform,
    request: &LoadRequest,
    limits: HistoryLimits,
) {
    let source = &platform.rendering.snapshot.environment;
    let start = GitReference::Commit {
        id: source.commit.clone(),
        near: None,
    };
    let before = commits(&source.repo, &start, &request.sources, request, limits);
    for commit in before.into_iter().skip(1).take(limits.commits) {
        if nothing_open(report) {
            return;
        }
        let mut request = request.clone();
        request.sources.pin(&source.name, &source.repo, &commit);
        attempt(report, there, &request, &|_| {
            (
                Verdict::Older,
                commit.clone(),
                format!(
                    "what commit {} of the environment gives, which has moved on",
                    short(&commit)
                ),
            )
        });
    }
}

fn nothing_open(report: &ImportReport) -> bool {
    report.count(Verdict::Unexplained) == 0
}

/// Renders `request` in both modes and settles every open folder that one of them explains.
fn attempt(
    report: &mut ImportReport,
    there: &Tree,
    request: &LoadRequest,
    settle: &dyn Fn(&str) -> (Verdict, String, String),
) {
    let trees: Vec<Tree> = [true, false]
        .into_iter()
        .filter_map(|compat| pipeline::run_whole(request, Mode { compat }, None).ok())
        .map(|platform| platform.rendering.tree())
        .collect();
    for one in &mut report.folders {
        if one.verdict != Verdict::Unexplained {
            continue;
        }
        let is = folder(there, &one.path);
        let of = |tree: &Tree| match folder(tree, &one.path) {
            // A cluster type's folder stands for its README.md.
            files if !one.path.contains('/') => files
                .into_iter()
                .filter(|(name, _)| name == "README.md")
                .collect(),
            files => files,
        };
        let explained = trees.iter().any(|tree| {
            let files = of(tree);
            // What is not there is explained by a state that does not ask for it.
            (is.is_empty() && files.is_empty()) || (!files.is_empty() && holds(&is, &files))
        });
        if explained {
            let (verdict, commit, reason) = settle(&one.path);
            one.verdict = verdict;
            one.commit = Some(commit);
            one.reasons = vec![reason];
        }
    }
}

/// Commits from `start` back, the newest first; none for what has no history here.
fn commits(
    url: &str,
    start: &GitReference,
    sources: &SourceMap,
    request: &LoadRequest,
    limits: HistoryLimits,
) -> Vec<String> {
    source::open(url, start, sources, &request.cache)
        .and_then(|opened| opened.history(limits.commits))
        .unwrap_or_default()
}

fn short(commit: &str) -> &str {
    commit.get(..8).unwrap_or(commit)
}
