//! Ship: from a rendered platform to its destination.
//!
//! ```text
//! Platform ─▶ isolation, guard ─▶ folder   files on this disk, swapped in at once
//!              what is kept,   ├▶ branch   one commit, or a pull request
//!              what may go     └▶ stream   collect ─▶ assemble ─▶ attest, seal ─▶ sign ─▶ deliver
//! ```
//!
//! Each destination has a record of what it held last. What is broken stays as that says, and what would
//! remove too much is stopped, by the same rules for all three. Nothing here reads a clock, prints, or
//! speaks to a forge.

pub mod assemble;
pub mod attest;
pub mod branch;
pub mod collect;
pub mod deliver;
pub mod folder;
pub mod guard;
pub mod inspect;
pub mod isolation;
pub mod overriding;
pub mod sites;
pub mod stream;
pub mod verify;
