//! Every integration test of the centre, as one program: it links once, and no file is forgotten.
//!
//! What comes in: the program `outhaul`, and the cases that Kalypso itself recorded (see
//! `runner/kalypso.rs`). What goes out: a verdict. Nothing here uses a network or writes outside
//! temporary folders.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test that fails ends the test"
)]

mod runner {
    pub mod backwards;
    pub mod bases;
    pub mod branch_there;
    pub mod chain;
    pub mod chain_mistakes;
    pub mod check;
    pub mod cli;
    pub mod copies;
    pub mod defects;
    pub mod delivery;
    pub mod diff;
    pub mod estimates;
    pub mod explain;
    pub mod exposed;
    pub mod first_tries;
    pub mod forged;
    pub mod forges;
    pub mod formats;
    pub mod former;
    pub mod fuzz;
    pub mod gate;
    pub mod golden;
    pub mod hostile;
    pub mod import;
    pub mod isolation;
    pub mod kalypso;
    pub mod kept;
    pub mod large_index;
    pub mod lost;
    pub mod media;
    pub mod mistakes;
    pub mod moved_back;
    pub mod named;
    pub mod named_places;
    pub mod outdated;
    pub mod places;
    pub mod policies;
    pub mod projects;
    pub mod promotion;
    pub mod promotion_hooks;
    pub mod pulled;
    pub mod records;
    pub mod replay;
    pub mod repositories;
    pub mod scaffold;
    pub mod scans;
    pub mod scheduling;
    pub mod schemas;
    pub mod serve;
    pub mod serve_written;
    pub mod shelf;
    pub mod signed_records;
    pub mod silent;
    pub mod sites;
    pub mod standing;
    pub mod story;
    pub mod tampered;
    pub mod teams;
    pub mod unsound;
    pub mod verbose;
}

#[test]
fn no_test_file_is_forgotten() {
    let source = include_str!("runner.rs");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runner");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(module) = name.strip_suffix(".rs") {
            assert!(
                source.contains(&format!("pub mod {module};")),
                "{name} is not declared"
            );
        }
    }
}
