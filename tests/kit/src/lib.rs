//! What tests of several crates stand on: a centre with real keys, sites that sign, folders to compare.
//!
//! What comes in: what a test wants to be said. What goes out: signed bundles, kits, slips, requests and reports, as a
//! real centre and a real site make them, and [`bent`], metadata as nobody should make it. Keys are made per test; none
//! lies in the repository. It knows no agent, no bundler and no hub, starts none of the programs, and is part of none.
#![expect(
    clippy::new_without_default,
    clippy::return_self_not_must_use,
    clippy::unwrap_used,
    reason = "a test ends where it cannot go on, and says what it makes"
)]
#![warn(missing_docs)]

pub mod archive;
pub mod bent;
mod centre;
mod contents;
mod draft;
pub mod folder;
pub mod plain;
mod site;

pub use centre::{Centre, kit_of, metadata, now, secret};
pub use contents::{Contents, noise};
pub use draft::{Draft, Load};
pub use outhaul_bundle::fake::MemoryBlobs;
pub use site::{Site, TOKEN, line};
