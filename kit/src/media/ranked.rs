//! The files of a listing that are kept: a bounded number, those first that are most likely meant.
//!
//! What comes in: each file with its rank, in the order in which they are found. What goes out: at most so many, those of the highest
//! rank. It holds at most twice as many at a time, whatever lies on the medium, and opens nothing.

use std::cmp::Reverse;
use std::path::PathBuf;

pub(super) struct Ranked {
    found: Vec<(u64, PathBuf)>,
    kept: usize,
    dropped: bool,
}

impl Ranked {
    pub(super) fn new(kept: usize) -> Self {
        Self {
            found: Vec::new(),
            kept,
            dropped: false,
        }
    }

    pub(super) fn add(&mut self, rank: u64, path: PathBuf) {
        self.found.push((rank, path));
        if self.found.len() >= self.kept.saturating_mul(2).max(1) {
            self.cut();
        }
    }

    /// Leaves the best; of one rank those that were found first, which lie nearest to the top.
    fn cut(&mut self) {
        if self.found.len() > self.kept {
            self.found.sort_by_key(|(rank, _)| Reverse(*rank));
            self.found.truncate(self.kept);
            self.dropped = true;
        }
    }

    /// Whether any are left out; complete before [`Ranked::sorted`] takes them.
    pub(super) fn dropped(&mut self) -> bool {
        self.cut();
        self.dropped
    }

    /// What is kept, by name.
    pub(super) fn sorted(mut self) -> Vec<PathBuf> {
        self.cut();
        let mut files: Vec<PathBuf> = self.found.into_iter().map(|(_, path)| path).collect();
        files.sort();
        files
    }
}
