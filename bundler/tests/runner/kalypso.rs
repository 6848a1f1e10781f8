//! Where Kalypso's recorded cases lie.
//!
//! What comes in: `OUTHAUL_KALYPSO_DIR`, or the folder beside the workspace. What goes out: a path, or
//! `None` after saying `SKIPPED`, which is a failure where `CI` is `true`.

use std::path::{Path, PathBuf};

/// The folder with `replay/`, `golden/` and `tutorial/`.
pub fn folder(test: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = std::env::var_os("OUTHAUL_KALYPSO_DIR")
        .map_or_else(|| root.join("../shared/kalypso"), PathBuf::from);
    if folder.join("replay/pairs.json").is_file() {
        return Some(folder);
    }
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{test}: Kalypso's recorded cases are missing; set OUTHAUL_KALYPSO_DIR"
    );
    eprintln!(
        "SKIPPED: {test}: no Kalypso cases in `{}` (OUTHAUL_KALYPSO_DIR)",
        folder.display()
    );
    None
}

/// The vectors of one golden file.
pub fn vectors(folder: &Path, name: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join("golden").join(name)).unwrap();
    let vectors: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert!(!vectors.is_empty(), "{name} is empty");
    vectors
}
