//! What an index says of contents: what a bundle brings and how large it is, its files, and what differs from another bundle.
//!
//! What comes in: indexes that were verified when they were recorded. What goes out: sizes, rows of files, and changes per
//! assignment and file. It is pure, and knows digests only: no content of a file is here.

use std::collections::BTreeMap;

use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::{Assignment, File};
use outhaul_bundle::name::Name;
use outhaul_bundle::{Digest, Index};
use serde::Serialize;

/// Changed files listed of one assignment; the rest is counted.
const CHANGES_SHOWN: usize = 200;

/// One file of an assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileRow {
    /// What it is part of: nothing for a rendered file, `payload`, or the sites that it is for.
    pub part: String,
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Digest of its content.
    pub digest: String,
    /// Whether it is executable.
    pub executable: bool,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// `added`, `removed`, `changed`.
    pub change: &'static str,
    /// How it was.
    pub before: Option<FileRow>,
    /// How it is.
    pub now: Option<FileRow>,
}

/// What differs of something that has a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedChange {
    /// Its name.
    pub name: String,
    /// `added`, `removed`, `changed`.
    pub change: &'static str,
    /// Digest of its config before, of an assignment.
    pub config_before: Option<String>,
    /// Digest of its config now.
    pub config_now: Option<String>,
    /// The files that differ.
    pub files: Vec<FileChange>,
    /// How many more differ.
    pub more: usize,
}

/// What differs between two bundles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BundleChanges {
    /// Assignments, by name.
    pub assignments: Vec<NamedChange>,
    /// Images and other artifacts, by name.
    pub images: Vec<NamedChange>,
    /// Git repositories, by URL.
    pub repositories: Vec<NamedChange>,
    /// How many assignments are the same.
    pub unchanged: usize,
}

/// All that a bundle brings, by digest: also what a site has to have already.
pub fn held(index: &Index) -> BTreeMap<Digest, u64> {
    let files = index.files().chain(&index.attestations);
    let programs = index.agent.iter().flat_map(|agent| agent.programs.values());
    let served = index.served.contents().chain(programs);
    files
        .map(|file| (file.content, file.size))
        .chain(served.map(|content| (content.digest, content.size)))
        .collect()
}

/// Bytes of the contents that `before` does not have.
pub fn new_bytes(now: &BTreeMap<Digest, u64>, before: Option<&BTreeMap<Digest, u64>>) -> u64 {
    now.iter()
        .filter(|(digest, _)| before.is_none_or(|before| !before.contains_key(*digest)))
        .fold(0, |sum, (_, size)| sum.saturating_add(*size))
}

/// The files of an assignment: rendered ones first, then those of some sites, then the payload.
pub fn files(assignment: &Assignment) -> Vec<FileRow> {
    let row = |part: &str, file: &File| FileRow {
        part: part.to_owned(),
        path: file.path.to_string(),
        size: file.size,
        digest: file.content.to_string(),
        executable: file.executable,
    };
    let mut rows: Vec<FileRow> = assignment.files.iter().map(|file| row("", file)).collect();
    for overlay in &assignment.overlays {
        let sites: Vec<&str> = overlay.sites.iter().map(Name::as_str).collect();
        let part = format!("for {}", sites.join(", "));
        rows.extend(overlay.files.iter().map(|file| row(&part, file)));
    }
    rows.extend(assignment.payload.iter().map(|file| row("payload", file)));
    rows
}

/// One digest of the paths, contents and modes of files: equal where an assignment brings the same.
pub fn digest_of(files: &[FileRow]) -> String {
    let mut hasher = Hasher::new();
    for file in files {
        let mode = if file.executable { "x" } else { "-" };
        for text in [&*file.part, &file.path, &file.digest, mode] {
            hasher.update(&(text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        }
    }
    hasher.finish().0.to_string()
}

/// The files that differ, by part and path, and how many more do.
pub fn file_changes(before: &[FileRow], now: &[FileRow]) -> (Vec<FileChange>, usize) {
    let named = |files: &[FileRow]| -> BTreeMap<(String, String), FileRow> {
        let key = |file: &FileRow| (file.part.clone(), file.path.clone());
        files.iter().map(|file| (key(file), file.clone())).collect()
    };
    let mut left = named(before);
    let mut found: BTreeMap<(String, String), FileChange> = BTreeMap::new();
    for (key, now) in named(now) {
        let before = left.remove(&key);
        let change = match &before {
            None => "added",
            Some(before) if *before == now => continue,
            Some(_) => "changed",
        };
        let now = Some(now);
        found.insert(
            key,
            FileChange {
                change,
                before,
                now,
            },
        );
    }
    for (key, before) in left {
        let removed = FileChange {
            change: "removed",
            before: Some(before),
            now: None,
        };
        found.insert(key, removed);
    }
    let more = found.len().saturating_sub(CHANGES_SHOWN);
    (found.into_values().take(CHANGES_SHOWN).collect(), more)
}

/// What differs between two bundles of a stream.
pub fn changes(before: &Index, now: &Index) -> BundleChanges {
    let mut changes = BundleChanges::default();
    let mut left: BTreeMap<&str, &Assignment> = before
        .assignments
        .iter()
        .map(|one| (one.name.as_str(), one))
        .collect();
    for one in &now.assignments {
        let earlier = left.remove(one.name.as_str());
        if earlier.is_some_and(|earlier| earlier == one) {
            changes.unchanged += 1;
            continue;
        }
        changes
            .assignments
            .push(assignment_change(earlier, Some(one)));
    }
    for one in left.into_values() {
        changes.assignments.push(assignment_change(Some(one), None));
    }
    changes.assignments.sort_by(|a, b| a.name.cmp(&b.name));
    let images = |index: &Index| -> BTreeMap<String, String> {
        let named = index.served.images.iter();
        named
            .map(|one| (one.name.clone(), one.manifest.digest.to_string()))
            .collect()
    };
    let repositories = |index: &Index| -> BTreeMap<String, String> {
        let named = index.served.repositories.iter();
        named
            .map(|one| (one.url.clone(), format!("{:?}", one.refs)))
            .collect()
    };
    changes.images = named_changes(images(before), images(now));
    changes.repositories = named_changes(repositories(before), repositories(now));
    changes
}

fn assignment_change(before: Option<&Assignment>, now: Option<&Assignment>) -> NamedChange {
    let config = |one: Option<&Assignment>| one.map(|one| one.config_version.to_string());
    let rows = |one: Option<&Assignment>| one.map(files).unwrap_or_default();
    let (listed, more) = file_changes(&rows(before), &rows(now));
    NamedChange {
        name: now
            .or(before)
            .map(|one| one.name.to_string())
            .unwrap_or_default(),
        change: match (before, now) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        },
        config_before: config(before),
        config_now: config(now),
        files: listed,
        more,
    }
}

fn named_changes(
    mut before: BTreeMap<String, String>,
    now: BTreeMap<String, String>,
) -> Vec<NamedChange> {
    let change = |name: String, change| NamedChange {
        name,
        change,
        config_before: None,
        config_now: None,
        files: Vec::new(),
        more: 0,
    };
    let mut found = Vec::new();
    for (name, value) in now {
        match before.remove(&name) {
            None => found.push(change(name, "added")),
            Some(earlier) if earlier != value => found.push(change(name, "changed")),
            Some(_) => {}
        }
    }
    found.extend(before.into_keys().map(|name| change(name, "removed")));
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}
