//! Files: which of an assignment's files differ, and how.
//!
//! What comes in: the files of one assignment on both sides. What goes out: a [`FileChange`] for each
//! whose bytes differ, and for no other.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::lines;
use outhaul_plane::render::RenderedAssignment;

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// It is new.
    Added,
    /// Its bytes differ.
    Changed,
    /// It is gone.
    Removed,
}

impl FileKind {
    /// One letter, as git writes it.
    pub fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Changed => 'M',
            Self::Removed => 'D',
        }
    }
}

/// One file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// Path below the cluster type's folder.
    pub path: String,
    /// Sites that it differs on; empty when it is the file of all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
    /// What happened to it.
    pub kind: FileKind,
    /// Lines that are new; 0 for what is not text.
    pub lines_added: usize,
    /// Lines that are gone; 0 for what is not text.
    pub lines_removed: usize,
    /// A unified diff of a changed text; empty when it is too large or no text.
    pub diff: Vec<String>,
}

pub(super) fn between(
    target: &str,
    before: &BTreeMap<String, Vec<u8>>,
    after: &BTreeMap<String, Vec<u8>>,
) -> Vec<FileChange> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names
        .into_iter()
        .filter_map(|name| {
            let path = format!("{target}/{name}");
            match (before.get(name), after.get(name)) {
                (Some(old), Some(new)) if old == new => None,
                (old, new) => Some(change(path, old, new)),
            }
        })
        .collect()
}

/// Files that only some sites have, or have otherwise. Sites that change alike are reported together.
pub(super) fn of_sites(
    target: &str,
    before: &RenderedAssignment,
    after: &RenderedAssignment,
) -> Vec<FileChange> {
    let by_site = |rendered: &RenderedAssignment| -> BTreeMap<String, usize> {
        let overlays = rendered.overlays.iter().enumerate();
        overlays
            .flat_map(|(at, overlay)| overlay.sites.iter().map(move |site| (site.clone(), at)))
            .collect()
    };
    let (old, new) = (by_site(before), by_site(after));
    let sites: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut alike: BTreeMap<(Option<usize>, Option<usize>), Vec<String>> = BTreeMap::new();
    for site in sites {
        let key = (old.get(site).copied(), new.get(site).copied());
        alike.entry(key).or_default().push(site.clone());
    }
    let mut changes = Vec::new();
    for ((a, b), sites) in alike {
        let own = |rendered: &RenderedAssignment, at: Option<usize>| {
            let overlay = at.and_then(|at| rendered.overlays.get(at));
            overlay
                .map(|overlay| overlay.files.clone())
                .unwrap_or_default()
        };
        let (mut old, mut new) = (own(before, a), own(after, b));
        // What only one side has of its own is for the other the file of all sites.
        let names: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
        for name in names {
            for (own, all) in [(&mut old, &before.files), (&mut new, &after.files)] {
                if let (false, Some(bytes)) = (own.contains_key(&name), all.get(&name)) {
                    own.insert(name.clone(), bytes.clone());
                }
            }
        }
        changes.extend(
            between(target, &old, &new)
                .into_iter()
                .map(|change| FileChange {
                    sites: sites.clone(),
                    ..change
                }),
        );
    }
    changes
}

fn text(bytes: Option<&Vec<u8>>) -> Option<&str> {
    bytes.map_or(Some(""), |bytes| std::str::from_utf8(bytes).ok())
}

fn change(path: String, old: Option<&Vec<u8>>, new: Option<&Vec<u8>>) -> FileChange {
    let kind = match (old, new) {
        (None, _) => FileKind::Added,
        (_, None) => FileKind::Removed,
        _ => FileKind::Changed,
    };
    let diff = match (text(old), text(new)) {
        (Some(old), Some(new)) => lines::between(old, new),
        _ => lines::LineDiff::default(),
    };
    FileChange {
        path,
        sites: Vec::new(),
        kind,
        lines_added: diff.added,
        lines_removed: diff.removed,
        // Every line of a file that comes or goes is already said by its name.
        diff: match kind {
            FileKind::Changed => diff.drawn,
            FileKind::Added | FileKind::Removed => Vec::new(),
        },
    }
}
