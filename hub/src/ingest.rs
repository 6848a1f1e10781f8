//! Ingest, which is a crate of its own; here with the tests that run on both kinds of stores.
//!
//! What comes in: lines, one envelope each. What goes out: rows and what was refused, as `outhaul_ingest` makes them.

pub use outhaul_ingest::*;

#[cfg(test)]
mod tests;
