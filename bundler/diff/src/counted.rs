//! Counted: how many assignments, values, files, lines and sites differ.
//!
//! What comes in: what differs in each cluster type. What goes out: numbers, for the first line of a
//! difference and for programs. It looks at nothing else.

use std::collections::BTreeSet;

use serde::Serialize;

use super::ClusterTypeChange;
use super::files::FileKind;

/// How many of each thing differ in one environment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Assignments.
    pub assignments: AssignmentCounts,
    /// Values, however many assignments have them.
    pub values: usize,
    /// Files.
    pub files: FileCounts,
    /// Lines of texts that are new.
    pub lines_added: usize,
    /// Lines of texts that are gone.
    pub lines_removed: usize,
    /// Sites that get something else than before.
    pub sites: usize,
}

/// How many assignments differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AssignmentCounts {
    /// There now.
    pub added: usize,
    /// On both sides, with other files.
    pub changed: usize,
    /// Gone.
    pub removed: usize,
    /// They cannot be rendered any more.
    pub broken: usize,
    /// They can be rendered again.
    pub repaired: usize,
    /// They cannot be rendered on either side.
    pub broken_on_both_sides: usize,
}

/// How many files differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FileCounts {
    /// New.
    pub added: usize,
    /// With other bytes.
    pub changed: usize,
    /// Gone.
    pub removed: usize,
}

/// Different changes of values: many assignments share one.
pub(super) fn values<'a>(changes: impl Iterator<Item = &'a ClusterTypeChange>) -> usize {
    let values = changes.flat_map(|change| &change.values);
    let different: BTreeSet<_> = values
        .map(|value| (&value.key, &value.before, &value.after))
        .collect();
    different.len()
}

/// Those of one cluster type.
pub(super) fn of(change: &ClusterTypeChange) -> Counts {
    let mut counts = Counts::default();
    counts.add(change);
    counts.values = values(std::iter::once(change));
    counts
}

impl Counts {
    /// Adds all of a cluster type, its values aside.
    pub(super) fn add(&mut self, change: &ClusterTypeChange) {
        let assignments = &mut self.assignments;
        assignments.added += change.added.len();
        assignments.removed += change.removed.len();
        for broken in &change.broken {
            match (broken.before.is_empty(), broken.after.is_empty()) {
                (true, _) => assignments.broken += 1,
                (false, true) => assignments.repaired += 1,
                (false, false) => assignments.broken_on_both_sides += 1,
            }
        }
        let moved = change.added.iter().chain(&change.removed);
        let moved: BTreeSet<&str> = moved.map(|one| one.target.as_str()).collect();
        let mut changed = BTreeSet::new();
        for file in &change.files {
            match file.kind {
                FileKind::Added => self.files.added += 1,
                FileKind::Changed => self.files.changed += 1,
                FileKind::Removed => self.files.removed += 1,
            }
            self.lines_added += file.lines_added;
            self.lines_removed += file.lines_removed;
            let target = file.path.split('/').next().unwrap_or_default();
            if !moved.contains(target) {
                changed.insert(target);
            }
        }
        assignments.changed += changed.len();
        self.sites += change.sites.count;
    }

    /// In words, those that are not zero.
    pub(super) fn phrases(&self) -> Vec<String> {
        let assignments = &self.assignments;
        let mut words: Vec<String> = [
            (
                assignments.broken,
                "assignment broken",
                "assignments broken",
            ),
            (
                assignments.repaired,
                "assignment repaired",
                "assignments repaired",
            ),
            (assignments.added, "assignment added", "assignments added"),
            (
                assignments.changed,
                "assignment changed",
                "assignments changed",
            ),
            (
                assignments.removed,
                "assignment removed",
                "assignments removed",
            ),
            (self.values, "value changed", "values changed"),
            (self.files.added, "file added", "files added"),
            (self.files.changed, "file changed", "files changed"),
            (self.files.removed, "file removed", "files removed"),
        ]
        .into_iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, one, many)| outhaul_kit::format_count::format_count(number, one, many))
        .collect();
        if self.lines_added + self.lines_removed > 0 {
            let grouped = outhaul_kit::format_count::grouped;
            words.push(format!(
                "lines +{} -{}",
                grouped(self.lines_added),
                grouped(self.lines_removed)
            ));
        }
        if self.sites > 0 {
            words.push(outhaul_kit::format_count::format_count(
                self.sites,
                "site touched",
                "sites touched",
            ));
        }
        words
    }
}
