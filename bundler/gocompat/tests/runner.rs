//! The crate's integration tests in one binary.
//!
//! In: the golden vectors that `OUTHAUL_KALYPSO_DIR` (default: `shared/kalypso` beside the
//! project's folder) holds, whatever their number. Out: the vectors that differ.
//! Without the folder the tests say `SKIPPED` and pass, except in CI.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a helper of a test or benchmark that fails ends it"
)]

mod decoding;
mod golden;
mod properties;
mod templates;
