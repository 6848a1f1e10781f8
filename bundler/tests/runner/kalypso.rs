//! Where Kalypso's recorded cases lie.
//!
//! What comes in: `OUTHAUL_KALYPSO_DIR`, or the folder beside the workspace. What goes out: a path, or
//! `None` after saying `SKIPPED`, which is a failure in CI.

use std::path::{Path, PathBuf};

/// The folder with `replay/`, `golden/` and `tutorial/`.
#[track_caller]
pub fn folder() -> Option<PathBuf> {
    outhaul_tests::kalypso_or_skip("replay/pairs.json")
}

/// The vectors of one golden file.
pub fn vectors(folder: &Path, name: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join("golden").join(name)).unwrap();
    let vectors: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert!(!vectors.is_empty(), "{name} is empty");
    vectors
}
