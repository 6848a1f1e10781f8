//! What an index says of contents: what a bundle brings and how large it is, its files, and what differs from another bundle.
//!
//! What comes in: indexes that were verified when they were recorded. What goes out: sizes, rows of files, and changes per
//! assignment and file. It is pure, and knows digests only: no content of a file is here.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::{Assignment, File};
use outhaul_bundle::name::Name;
use outhaul_bundle::{Digest, Index};
use serde::Serialize;

/// Changed files listed of one assignment, and of all of a bundle together; the rest is counted.
const CHANGES_SHOWN: usize = 200;
const ALL_CHANGES_SHOWN: usize = 1_000;
/// Assignments, images and repositories listed of those that differ; the rest is counted.
const NAMED_SHOWN: usize = 200;
/// Sites named of an overlay: it may be for very many, and each of its files says for whom it is.
const SITES_NAMED: usize = 8;
/// Longest text of an index that is shown, in characters: most are names and addresses of people's own.
const TEXT_CHARS: usize = 300;

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
    /// Assignments, by name, as many as are shown.
    pub assignments: Vec<NamedChange>,
    /// How many more differ.
    pub more_assignments: usize,
    /// Images and other artifacts, by name, as many as are shown.
    pub images: Vec<NamedChange>,
    /// How many more differ.
    pub more_images: usize,
    /// Git repositories, by URL, as many as are shown.
    pub repositories: Vec<NamedChange>,
    /// How many more differ.
    pub more_repositories: usize,
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
        let part = part_for(&overlay.sites);
        rows.extend(overlay.files.iter().map(|file| row(&part, file)));
    }
    rows.extend(assignment.payload.iter().map(|file| row("payload", file)));
    rows
}

/// What the files of an overlay are part of: the first of its sites by name, and how many more; then with a digest of all names, so
/// that two sets of sites are never taken for one.
fn part_for(sites: &BTreeSet<Name>) -> String {
    let named: Vec<&str> = sites.iter().take(SITES_NAMED).map(Name::as_str).collect();
    let named = named.join(", ");
    let more = sites.len().saturating_sub(SITES_NAMED);
    if more == 0 {
        return format!("for {named}");
    }
    let mut hasher = Hasher::new();
    for site in sites {
        hasher.update(site.as_str().as_bytes());
        hasher.update(b"\n");
    }
    let digest = hasher.finish().0.hex();
    let short = digest.get(..12).unwrap_or(&digest);
    format!("for {named} and {more} more (set {short})")
}

/// A text of an index, as much of it as is shown.
pub fn shown(text: &str) -> String {
    let mut letters = text.chars();
    let mut shown: String = letters.by_ref().take(TEXT_CHARS).collect();
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
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

/// The files that differ, by part and path, at most so many and never more than [`CHANGES_SHOWN`]; and how many more do.
pub fn file_changes(
    before: &[FileRow],
    now: &[FileRow],
    at_most: usize,
) -> (Vec<FileChange>, usize) {
    // Of very many files few are listed: only those are copied.
    let mut both: BTreeMap<(&str, &str), [Option<&FileRow>; 2]> = BTreeMap::new();
    for file in before {
        both.entry((&file.part, &file.path)).or_default()[0] = Some(file);
    }
    for file in now {
        both.entry((&file.part, &file.path)).or_default()[1] = Some(file);
    }
    let differ = both.into_values().filter(|[before, now]| before != now);
    let (mut listed, mut more) = (Vec::new(), 0);
    for [before, now] in differ {
        if listed.len() == at_most.min(CHANGES_SHOWN) {
            more += 1;
            continue;
        }
        listed.push(FileChange {
            change: match (before, now) {
                (None, _) => "added",
                (_, None) => "removed",
                _ => "changed",
            },
            before: before.cloned(),
            now: now.cloned(),
        });
    }
    (listed, more)
}

/// What differs between two bundles of a stream.
pub fn changes(before: &Index, now: &Index) -> BundleChanges {
    let mut changes = BundleChanges::default();
    let mut differ: BTreeMap<&str, (Option<&Assignment>, Option<&Assignment>)> = BTreeMap::new();
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
        differ.insert(one.name.as_str(), (earlier, Some(one)));
    }
    differ.extend(
        left.into_iter()
            .map(|(name, one)| (name, (Some(one), None))),
    );
    changes.more_assignments = differ.len().saturating_sub(NAMED_SHOWN);
    // Of those that are not listed no file is looked at.
    let mut room = ALL_CHANGES_SHOWN;
    for (before, now) in differ.into_values().take(NAMED_SHOWN) {
        let change = assignment_change(before, now, room);
        room -= change.files.len();
        changes.assignments.push(change);
    }
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
    changes.more_images = left_out(&mut changes.images, NAMED_SHOWN);
    changes.repositories = named_changes(repositories(before), repositories(now));
    changes.more_repositories = left_out(&mut changes.repositories, NAMED_SHOWN);
    changes
}

/// Leaves the first so many, and says how many there were besides.
fn left_out<T>(list: &mut Vec<T>, shown: usize) -> usize {
    let more = list.len().saturating_sub(shown);
    list.truncate(shown);
    more
}

fn assignment_change(
    before: Option<&Assignment>,
    now: Option<&Assignment>,
    room: usize,
) -> NamedChange {
    let config = |one: Option<&Assignment>| one.map(|one| one.config_version.to_string());
    let rows = |one: Option<&Assignment>| one.map(files).unwrap_or_default();
    let (listed, more) = file_changes(&rows(before), &rows(now), room);
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
        name: shown(&name),
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
