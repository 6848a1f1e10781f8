//! What would get to where it must not be: a secret into git and bundles, a bundle into what bundles are made from.
//!
//! What comes in: a control plane that `outhaul init` wrote, and commands with such a value or folder. What must come out: a refusal or a
//! warning that names the key or the folder and prints no secret; the control plane as it was.

use super::gate::GateFixture;
use super::repositories::git;

#[test]
fn a_bundle_is_not_written_into_a_control_plane() {
    let made = GateFixture::new();
    let line =
        "bundle --control-plane cp --environment dev --fleet fleet --passphrase-file passphrase";
    for more in [
        "--out cp/bundles",
        "--out bundles --publish cp/web",
        "--out fleet/bundles",
    ] {
        let (_, _, err) = made.ends(2, &format!("{line} {more}"));
        assert!(err.contains("where Outhaul writes nothing"), "{err}");
    }
    // What stands for a repository is read, and what lies in it would travel.
    let line = format!("{line} --source https://git.example.org/app=app");
    std::fs::create_dir(made.path("app")).unwrap();
    let (_, _, err) = made.ends(2, &format!("{line} --out app/bundles"));
    assert!(err.contains("nothing was written"), "{err}");
    assert!(!made.path("cp/bundles").exists() && !made.path("bundles").exists());
    assert!(!made.path("app/bundles").exists());
}

#[test]
fn a_url_with_a_secret_is_not_written_into_a_control_plane() {
    let made = GateFixture::new();
    for line in [
        "registration app --workspace team --repo https://ghp_0123456789@git.example.org/app --in cp",
        "workload app --environments dev --manifests https://me:hunter2@git.example.org/app --in cp",
    ] {
        let (_, out, err) = made.ends(2, &format!("new {line}"));
        assert!(
            err.contains("was given with a password or token; nothing was written"),
            "{err}"
        );
        let said = format!("{out}{err}");
        assert!(
            !said.contains("hunter2") && !said.contains("0123456789"),
            "{said}"
        );
    }
    assert_eq!(git(&made.path("cp"), &["status", "--porcelain"]), "");
}

#[test]
fn a_secret_in_clear_is_named_and_never_printed() {
    let made = GateFixture::new();
    let (_, _, err) = made.ok("check --control-plane cp --environment dev");
    assert!(!err.contains("secret-in-clear"), "{err}");
    let (_, _, err) =
        made.ok("new config access --set DB_PASSWORD=hunter2 --label region=east --in cp");
    assert!(
        err.contains("warning[secret-in-clear]: `DB_PASSWORD`") && !err.contains("hunter2"),
        "{err}"
    );
    super::repositories::commit(&made.path("cp"), "a password");
    made.ok("promote --control-plane cp --to dev");
    let (_, out, err) = made.ok("check --control-plane cp --environment dev --output json");
    assert!(
        out.contains("secret-in-clear") && out.contains("DB_PASSWORD"),
        "{out}{err}"
    );
    let (_, out, err) = made.ok("check --control-plane cp --environment dev");
    let said = format!("{out}{err}");
    assert!(said.contains("configs/access.yaml:9:16"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
