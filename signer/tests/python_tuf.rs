//! Interoperability with the reference client: python-tuf's ngclient downloads what a fleet publishes.
//!
//! Without Python or its package `tuf` the test prints SKIPPED and why; in CI it fails instead.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use jiff::{SignedDuration, Timestamp};
use outhaul_signer::ceremony::RootChange;
use outhaul_signer::{Secret, SignRequest};
use sha2::{Digest as _, Sha256};

use crate::fleet::{fleet_made_at, index, secret};

/// A Python that has the package, or why there is none.
fn python() -> Result<String, String> {
    let python = std::env::var("OUTHAUL_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let import = "import tuf.ngclient, tuf; print(tuf.__version__)";
    match Command::new(&python).args(["-c", import]).output() {
        Ok(output) if output.status.success() => Ok(python),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("`{python}`: {error}")),
    }
}

fn download(python: &str, root: &Path, folder: &Path, cache: &Path, target: &str) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python_tuf/ngclient.py");
    Command::new(python)
        .arg(script)
        .args([root, folder, cache])
        .arg(target)
        .output()
        .unwrap()
}

#[test]
fn python_tuf_downloads_what_a_fleet_publishes_and_follows_it() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => {
            let last = reason.lines().last().unwrap_or_default();
            return outhaul_tests::skipped(&format!(
                "python-tuf is missing (`pip install tuf`): {last}"
            ));
        }
    };
    let dir = tempfile::tempdir().unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "python-tuf asks the real clock, so this fleet lives by it"
    )]
    let now = Timestamp::now();
    let fleet = fleet_made_at(dir.path(), now);
    let role = fleet.role("dev", "drone");
    let targets = dir.path().join("targets").join(&role);
    let cache = dir.path().join("cache");
    fs::create_dir_all(&targets).unwrap();
    fs::create_dir_all(&cache).unwrap();
    let root = dir.path().join("metadata/1.root.json");
    let name = format!("{role}/index.json");
    let passphrase: Secret = secret();
    for number in 1..=3 {
        if number == 3 {
            let all = [
                RootChange::RotateOnline,
                RootChange::RotateTargets,
                RootChange::RotateRoot,
            ];
            fleet.change_root(&all, now, &passphrase).unwrap();
        }
        let index_bytes = index(&fleet, "dev", number);
        let digest = hex::encode(Sha256::digest(&index_bytes));
        fs::write(targets.join(format!("{digest}.index.json")), &index_bytes).unwrap();
        let expires = now + SignedDuration::from_hours(24 * 30);
        let request = SignRequest {
            role: &role,
            number,
            index_bytes: &index_bytes,
            index_compressed: None,
            issued: now,
            expires,
        };
        fleet
            .commit(&fleet.sign_bundle(request, &passphrase).unwrap())
            .unwrap();
        let output = download(&python, &root, dir.path(), &cache, &name);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "number {number}: {printed}");
        assert_eq!(output.stdout, index_bytes, "number {number}");
    }
    let other = download(
        &python,
        &root,
        dir.path(),
        &cache,
        "s-0000000000000000/index.json",
    );
    assert!(!other.status.success());
}
