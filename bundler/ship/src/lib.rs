//! Ship: from a rendered platform to its destination.
//!
//! ```text
//! Platform ─▶ plan ─▶ folder   files on this disk, swapped in at once
//!                  ├▶ branch   one commit, or a pull request
//!                  └▶ stream   collect ─▶ assemble ─▶ attest, seal ─▶ sign ─▶ deliver
//! ```
//!
//! Each [`destination`] has a record of what it held last. What is broken stays as that says ([`isolation`]), and
//! what would remove too much is stopped ([`guard`]): one [`plan`] decides that for all. Nothing here reads a clock, prints, or
//! speaks to a forge.

pub mod assemble;
pub mod branch;
pub mod collect;
pub mod deliver;
mod destination;
mod failure;
pub mod folder;
pub mod guard;
pub mod isolation;
mod lock;
pub mod manifests;
mod plan;
pub mod record;
pub mod stream;
pub mod verify;
