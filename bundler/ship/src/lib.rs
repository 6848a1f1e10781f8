//! Ship: from a rendered platform to its destination.
//!
//! ```text
//! Platform ─▶ plan ─▶ folder   files on this disk, swapped in at once
//!                  ├▶ branch   one commit, or a pull request
//!                  └▶ stream   collect ─▶ assemble ─▶ attest, seal ─▶ sign ─▶ deliver
//! ```
//!
//! Each [`destination`] has a record of what it held last; what of that stays, and whether a removal is stopped, is planned for all
//! in one place ([`outhaul_record`]). Nothing here reads a clock, prints, or speaks to a forge.

pub mod assemble;
pub mod branch;
pub mod collect;
pub mod deliver;
mod destination;
mod failure;
pub mod folder;
pub mod outcome;
pub mod shown;
pub mod stream;
pub mod verify;
