//! Making desired state real: one trait, and the reconcilers behind it.
//!
//! What comes in: an assignment that was verified and unpacked, and the inventory. What goes out: each
//! assignment's own result with its steps. [`reconciler`] has the contract. Nothing here knows a bundle's
//! archive, a key, a database or the machine that decides what is applied.

pub mod ansible;
mod assignment;
mod context;
mod error;
pub mod folder;
pub mod hook;
mod inventory;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
mod line;
pub mod marks;
pub mod outcome;
pub mod reconciler;
pub mod remote;
pub mod sealed;
pub mod settings;
pub mod watched;
#[cfg(feature = "kubernetes")]
pub mod zarf;

#[cfg(test)]
mod fixture_for_tests;

pub use assignment::Desired;
pub use context::ReconcilerContext;
pub use error::ApplyError;
pub use inventory::{Item, Ledger, LedgerError, Phase};
pub use outcome::{Change, shortened};
pub use reconciler::Reconciler;
