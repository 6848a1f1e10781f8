//! A bundle of which some parts are here, and what is kept of it.
//!
//! What comes in: the memory. What goes out: which bundle this site waits to get the rest of, which of its parts are missing, and what
//! would complete it. It takes nothing in and keeps no blob: the agent's `intake` does.

use std::collections::BTreeMap;

use outhaul_bundle::{Digest, Parity};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::state::{self, SiteIdentity, StateError, key};

/// A bundle of which some parts are here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncompleteBundle {
    /// Its number.
    pub number: u64,
    /// Digest of its index, under which the index lies among the blobs.
    pub index: Digest,
    /// The role of its stream.
    pub role: String,
    /// How many parts it has, as the part that came last was cut.
    pub parts: usize,
    /// Those that are missing, from 1.
    pub missing: Vec<usize>,
    /// The bundle whose parts were here before and were given up for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<u64>,
    /// Whether no part of it came yet: how it is cut says parity alone, which nobody signs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_by_parity: bool,
    /// Parity that is here, for as long as parts are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parity: Option<KeptParity>,
    /// The parity that was here before the medium that is being read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<KeptParity>,
}

/// What is kept of parity parts of one set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptParity {
    /// One of the set.
    pub set: Parity,
    /// The parity parts that are here, from 1, and the digest under which each lies among the blobs.
    pub kept: BTreeMap<usize, Digest>,
    /// How many parts or parity parts more are enough, whichever they are.
    pub more: usize,
    /// Whether it was used where parity lied: another file of the same parity part takes its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_doubted: bool,
}

impl KeptParity {
    /// Nothing of a set yet.
    pub fn of(set: &Parity) -> Self {
        Self {
            set: set.sibling(1),
            kept: BTreeMap::new(),
            more: 0,
            is_doubted: false,
        }
    }

    /// Whether a parity part belongs to it.
    pub fn is_set_of(&self, parity: &Parity) -> bool {
        self.set == parity.sibling(1)
    }

    /// This, as it was kept before a medium was read, with what that left of the same set. Of one part this stays, unless it is doubted.
    #[must_use]
    pub fn joined(
        &self,
        brought: Option<&Self>,
        is_there: impl Fn(&Digest) -> bool,
        missing: usize,
    ) -> Self {
        let mut both = self.clone();
        both.kept.retain(|_, digest| is_there(digest));
        for (part, digest) in brought
            .filter(|one| one.set == self.set)
            .iter()
            .flat_map(|one| &one.kept)
        {
            match self.is_doubted {
                true => drop(both.kept.insert(*part, *digest)),
                false => drop(both.kept.entry(*part).or_insert(*digest)),
            }
        }
        both.count(missing);
        both
    }

    /// Whether one of these is kept.
    pub fn has_any_of(&self, digests: &BTreeMap<usize, Digest>) -> bool {
        let mut kept = self.kept.values();
        kept.any(|digest| digests.values().any(|one| one == digest))
    }

    /// Counts what is needed when so many parts are missing.
    pub fn count(&mut self, missing: usize) {
        self.more = missing.saturating_sub(self.kept.len()).max(1);
    }

    /// What is here of it and what would be enough, for people.
    fn sentence(&self, missing: &[usize]) -> String {
        let here: Vec<String> = self.kept.keys().map(ToString::to_string).collect();
        let others = (1..=self.set.of()).filter(|part| !self.kept.contains_key(part));
        let parts = missing.iter().map(|part| format!("part {part}"));
        let all: Vec<String> = parts
            .chain(others.map(|part| format!("parity part {part} of {}", self.set.of())))
            .collect();
        let here = match here.as_slice() {
            [] => "no parity part is here".to_owned(),
            [one] => format!("parity part {one} of {} is here", self.set.of()),
            here => format!(
                "parity parts {} of {} are here",
                here.join(", "),
                self.set.of()
            ),
        };
        let more = match self.more {
            1 => "any one of these is enough".to_owned(),
            more => format!("any {more} of these are enough"),
        };
        format!("; {here}: {more}: {}", all.join(", "))
    }
}

impl IncompleteBundle {
    /// The bundle whose parts are given up when those of the bundle with this index come.
    pub fn replaced_by(before: Option<&Self>, index: &Digest) -> Option<u64> {
        before.and_then(|before| match before.index == *index {
            true => before.replaced,
            false => Some(before.number),
        })
    }

    /// How it stands, for people.
    pub fn sentence(&self) -> String {
        let Self {
            number,
            parts,
            missing,
            replaced,
            parity,
            ..
        } = self;
        let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let (what, verb) = match missing.len() {
            1 => ("part", "is"),
            _ => ("parts", "are"),
        };
        let replaced = match replaced {
            Some(other) if other == number => {
                format!("; the parts of another bundle {other} that were here were given up")
            }
            Some(other) => format!("; the parts of bundle {other} that were here were given up"),
            None => String::new(),
        };
        let parity = parity.as_ref();
        let parity = parity.map_or_else(String::new, |parity| parity.sentence(missing));
        format!(
            "bundle {number} is not complete: {} of {parts} parts are here, {what} {} {verb} missing; it is applied when all \
             are here{parity}{replaced}",
            parts - missing.len().min(*parts),
            names.join(", ")
        )
    }
}

/// What this site waits to get the rest of.
///
/// # Errors
/// [`StateError`]
pub fn incomplete(
    db: &Connection,
    site: &SiteIdentity,
) -> Result<Option<IncompleteBundle>, StateError> {
    let known: Option<IncompleteBundle> = state::meta(db, key::INCOMPLETE)?;
    Ok(known.filter(|known| known.role == site.stream.role.as_str()))
}

/// A bundle of this number is staged, or is known to be the newest that may come: nothing older is waited for.
///
/// # Errors
/// [`StateError`]
pub fn supersede(db: &Connection, number: u64) -> Result<(), StateError> {
    let known: Option<IncompleteBundle> = state::meta(db, key::INCOMPLETE)?;
    if known.is_some_and(|known| known.number <= number) {
        state::set_meta::<IncompleteBundle>(db, key::INCOMPLETE, None)?;
    }
    Ok(())
}
