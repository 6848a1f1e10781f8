//! Copy: the bundles that were signed last, once more, onto media that are carried to sites.
//!
//! ```text
//! copies ─▶ audience, plan ─▶ write ─┬▶ whole
//! what the     for whom,             ├▶ volumes   in parts, with parity
//! fleet keeps  so what is left out   └▶ since     without what sites have, with patches
//! ```
//!
//! It makes no bundle, signs nothing and needs no key: each copy is compared with the signed index, and read back from the medium.
//! It reads no clock and prints nothing.

pub mod audience;
pub mod copies;
mod failure;
pub mod others;
pub mod patches;
pub mod plan;
pub mod since;
pub mod volumes;
pub mod write;
