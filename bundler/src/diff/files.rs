//! Files: which of an assignment's files differ, and how.
//!
//! What comes in: the files of one assignment on both sides. What goes out: a [`FileChange`] for each
//! whose bytes differ, and for no other.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::lines;

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
    /// What happened to it.
    pub kind: FileKind,
    /// Lines that are new; 0 for what is no text.
    pub lines_added: usize,
    /// Lines that are gone; 0 for what is no text.
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
