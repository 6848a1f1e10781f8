//! Phrases: texts as both printers write them.
//!
//! What comes in: values, lines and findings. What goes out: short text on one line.

pub use super::plain::{plain, value};
pub use outhaul_kit::format_count::{format_count as count, grouped};
use std::collections::BTreeMap;

use outhaul_bundle::index::Source;

use super::files::FileKind;
use super::{ClusterTypeChange, Difference, FileChange, Presence, Version, counted};
use outhaul_control::diagnostic::Diagnostic;

/// A finding as one line: place and message.
pub fn finding(finding: &Diagnostic) -> String {
    let message = plain(&finding.message);
    match &finding.location {
        Some(location) => format!("{}: {message}", location.file_line()),
        None => message,
    }
}

/// What differs in a cluster type, in few words.
pub fn summary(change: &ClusterTypeChange) -> String {
    let mut parts = Vec::new();
    match change.presence {
        Presence::Added => parts.push("new cluster type".to_owned()),
        Presence::Removed => parts.push("cluster type gone".to_owned()),
        Presence::Kept => {}
    }
    parts.extend(counted::of(change).phrases());
    if !change.reasons.is_empty() {
        parts.push(count(
            change.reasons.len(),
            "assignment by other policies",
            "assignments by other policies",
        ));
    }
    parts.join(", ")
}

/// What differs in the whole environment, in one sentence.
pub fn headline(difference: &Difference) -> String {
    let changed = difference.cluster_types.len();
    let all = changed + difference.unchanged_cluster_types;
    let of = format!(
        "{} of {}",
        grouped(changed),
        count(all, "cluster type", "cluster types")
    );
    let parts = difference.counts.phrases();
    if parts.is_empty() {
        of
    } else {
        format!("{of}: {}", parts.join(", "))
    }
}

/// What the difference cannot show, because neither side can be rendered.
pub fn still_broken(difference: &Difference) -> Option<String> {
    let number = difference.counts.assignments.broken_on_both_sides;
    (number > 0).then(|| {
        let many = count(number, "assignment is", "assignments are");
        format!("{many} broken on both sides, and not compared: `outhaul check` shows why")
    })
}

/// A place below the repositories that `version` was made of, which the reader knows; with the source
/// that it is in.
pub fn known<'a>(at: &'a str, version: &'a Version) -> Option<(&'a str, &'a Source)> {
    let snapshot = &version.snapshot;
    [&snapshot.environment, &snapshot.base]
        .into_iter()
        .filter(|source| !source.repo.is_empty())
        .find_map(|source| {
            let commit = source.commit.get(..8).unwrap_or(&source.commit);
            let path = at.strip_prefix(&source.repo)?.strip_prefix('@')?;
            Some((path.strip_prefix(commit)?.strip_prefix(':')?, source))
        })
}

/// Files that change alike, together: what happened, the lines, and the paths.
pub fn alike(files: &[FileChange]) -> Vec<(&FileChange, Vec<&str>)> {
    type Alike<'a> = (FileKind, &'a [String], &'a str, &'a [String]);
    let mut groups: BTreeMap<Alike<'_>, (usize, Vec<&str>)> = BTreeMap::new();
    for (at, file) in files.iter().enumerate() {
        // Files that come or go say nothing but their name.
        let name = file.path.rsplit('/').next().unwrap_or_default();
        groups
            .entry((file.kind, &file.diff, name, &file.sites))
            .or_insert((at, Vec::new()))
            .1
            .push(&file.path);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort();
    groups
        .into_iter()
        .filter_map(|(at, paths)| Some((files.get(at)?, paths)))
        .collect()
}

/// On which sites, when not on all.
pub fn on_sites(file: &FileChange) -> String {
    let names: Vec<&str> = file.sites.iter().map(String::as_str).collect();
    match names.len() {
        0 => String::new(),
        1 => format!(" on site {}", names.join("")),
        _ => format!(" on sites {}", some(&names, 3)),
    }
}

/// Some names, and how many more there are.
pub fn some(names: &[&str], most: usize) -> String {
    let shown = names
        .iter()
        .take(most)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {} more", grouped(more)),
    }
}
