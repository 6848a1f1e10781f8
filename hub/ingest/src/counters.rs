//! What came in over HTTP since the server started, counted.
//!
//! What comes in: what became of each batch of reports. What goes out: numbers that only grow. Nothing of it is stored.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Ingested;

/// What came in over HTTP since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    accepted: AtomicU64,
    duplicates: AtomicU64,
    refused: AtomicU64,
    /// Of the refused ones, by rule: rules are this program's own words, and few.
    by_rule: Mutex<BTreeMap<String, u64>>,
}

impl Counters {
    /// Counts a batch of reports.
    pub fn add(&self, done: &Ingested) {
        self.accepted.fetch_add(done.accepted, Ordering::Relaxed);
        self.duplicates
            .fetch_add(done.duplicates, Ordering::Relaxed);
        self.refused
            .fetch_add(done.refused_lines, Ordering::Relaxed);
        let mut by_rule = self.by_rule.lock().unwrap_or_else(PoisonError::into_inner);
        for group in &done.refused_groups {
            *by_rule.entry(group.rule.to_string()).or_default() += group.lines;
        }
    }

    /// How many were refused, by rule.
    pub fn refused_by_rule(&self) -> BTreeMap<String, u64> {
        let by_rule = self.by_rule.lock().unwrap_or_else(PoisonError::into_inner);
        by_rule.clone()
    }

    /// How many reports came in, by what became of them.
    pub fn reports(&self) -> [(&'static str, u64); 3] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("accepted", of(&self.accepted)),
            ("duplicate", of(&self.duplicates)),
            ("refused", of(&self.refused)),
        ]
    }
}
