//! How often content was applied on this site and left again, with no person in between.
//!
//! What comes in: an open transaction, and the digest of what a bundle brings, whatever its number. What goes out: counts. It
//! decides nothing.

use outhaul_bundle::Digest;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{StateError, key, meta, set_meta};

/// Of how many contents the count is kept.
const KEPT: usize = 32;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Returned {
    content: Digest,
    count: u32,
}

/// How often it was left.
///
/// # Errors
/// [`StateError`]
pub fn count(db: &Connection, content: &Digest) -> Result<u32, StateError> {
    let all: Vec<Returned> = meta(db, key::RETURNS)?.unwrap_or_default();
    let found = all.iter().find(|known| known.content == *content);
    Ok(found.map_or(0, |known| known.count))
}

/// Counts that it was left once more.
///
/// # Errors
/// [`StateError`]
pub fn add(db: &Connection, content: Digest) -> Result<(), StateError> {
    let count = count(db, &content)?.saturating_add(1);
    let mut all: Vec<Returned> = meta(db, key::RETURNS)?.unwrap_or_default();
    all.retain(|known| known.content != content);
    all.push(Returned { content, count });
    all.drain(..all.len().saturating_sub(KEPT));
    set_meta(db, key::RETURNS, Some(&all))
}

/// Forgets it: it works, or a person wants it tried.
///
/// # Errors
/// [`StateError`]
pub fn forget(db: &Connection, content: &Digest) -> Result<(), StateError> {
    let mut all: Vec<Returned> = meta(db, key::RETURNS)?.unwrap_or_default();
    all.retain(|known| known.content != *content);
    set_meta(db, key::RETURNS, Some(&all).filter(|all| !all.is_empty()))
}
