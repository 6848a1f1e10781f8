//! All integration tests of the crate, as one binary.
//!
//! `attacks`: one test per attack on a bundle, named after it. `properties`: round trips, and that no
//! bytes whatever make a reader panic. `memory`: that size does not show in memory.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

mod attacks;
mod hub_api;
mod memory;
mod properties;

#[path = "../../fuzz/bodies/bundle.rs"]
mod bodies;

/// Names of the modules above: a test file that nobody declared would never run.
#[test]
fn every_test_file_is_declared() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let runner = include_str!("runner.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.trim_end_matches(".rs");
        assert!(
            stem == "runner" || runner.contains(&format!("mod {stem};")),
            "{name}"
        );
    }
}
