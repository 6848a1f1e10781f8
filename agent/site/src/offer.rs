//! What a bundle offers, verified, before any blob was read; and what came of it.
//!
//! What comes in: what the verifier accepted. What goes out: the metadata, floors and signed time, stored in the
//! transaction of whoever takes the bundle in or carries out its orders. Nothing is verified here.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use outhaul_signer::Acceptance;
use rusqlite::Connection;

use crate::incomplete::IncompleteBundle;
use crate::machine::State;
use crate::state::clock::ClockReading;
use crate::state::{StateError, floors};

/// What came of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportOutcome {
    /// It runs already; nothing was applied.
    AlreadyActive {
        /// Its number.
        number: u64,
        /// What of its metadata is newer than what this site knew, and remembered from now on.
        remembered: Vec<String>,
    },
    /// It brought an order, and nothing else of it is for this site.
    Ordered {
        /// Its number.
        number: u64,
        /// What was done.
        note: String,
    },
    /// It is one part of a bundle, and others are missing; nothing was applied.
    Incomplete {
        /// Which part.
        part: usize,
        /// What came of that part.
        brought: Brought,
        /// What is here and what is missing.
        bundle: Box<IncompleteBundle>,
    },
    /// It came to rest in this state.
    Rests {
        /// Its number.
        number: u64,
        /// Where.
        state: State,
        /// Why.
        note: String,
    },
}

/// What came of one part of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Brought {
    /// It is kept.
    New,
    /// All that it holds was here before.
    Known,
    /// The same of a parity part.
    KnownParity,
    /// Parity of another set is kept, and this, of a set of so many, was not.
    NotKept(usize),
    /// It is kept in the place of these parity parts of another set of so many.
    InsteadOf(Vec<usize>, usize),
}

impl Brought {
    /// The same of the part of this number, for people.
    pub fn sentence(&self, part: usize, bundle: &IncompleteBundle) -> String {
        let sentence = bundle.sentence();
        match self {
            Self::New => sentence,
            Self::Known => format!("part {part} was here already; {sentence}"),
            Self::KnownParity => format!("parity part {part} was here already; {sentence}"),
            Self::NotKept(of) => format!(
                "parity part {part} of {of} is of another set than the parity that is here, and is not kept; {sentence}"
            ),
            Self::InsteadOf(parts, of) => {
                let names: Vec<String> = parts.iter().map(ToString::to_string).collect();
                format!(
                    "parity part {part} is of another set than parity {} of {of} that was here and was not enough, and replaces it; \
                     {sentence}",
                    names.join(", ")
                )
            }
        }
    }
}

/// What came of parts that were made again, for people.
pub fn made_again(parts: &[usize]) -> String {
    let names: Vec<String> = parts.iter().map(ToString::to_string).collect();
    let (what, verb) = match parts.len() {
        1 => ("part", "was"),
        _ => ("parts", "were"),
    };
    format!(
        "{what} {} {verb} missing or damaged and {verb} made again from parity, as signed; where a stick had all parts, replace it: \
         the next bundle may lose more on it than parity repairs",
        names.join(", ")
    )
}

/// A verified offer: what a source brings, before any blob was read.
#[derive(Debug)]
pub struct Offer {
    /// What the metadata says.
    pub acceptance: Acceptance,
    /// The index's digest.
    pub index: Digest,
    /// The roots that it brought along, by file name.
    pub roots: BTreeMap<String, Vec<u8>>,
}

/// Stores what was accepted: metadata, floors and the signed time.
///
/// # Errors
/// [`StateError`]
pub fn accept_metadata(
    db: &Connection,
    reading: &ClockReading,
    offer: &Offer,
) -> Result<(), StateError> {
    floors::store(db, &offer.acceptance.versions)?;
    // What is older than this is refused from now on.
    crate::incomplete::supersede(db, offer.acceptance.number.saturating_sub(1))?;
    floors::store_trusted(db, &offer.acceptance.trusted)?;
    reading.clone().accept(db, &offer.acceptance)
}
