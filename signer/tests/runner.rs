//! All integration tests of this crate, in one program.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod attacks;
mod ceremonies;
mod cli;
mod cosign;
mod fleet;
mod fuzz;
mod media;
mod passphrase;
mod prompt;
mod python_tuf;
mod situations;
mod slip;

#[test]
fn no_test_file_is_forgotten() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let runner = std::fs::read_to_string(folder.join("runner.rs")).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        if is_rust && stem != "runner" {
            assert!(
                runner.contains(&format!("mod {stem};")),
                "{stem}.rs is not in runner.rs"
            );
        }
    }
}
