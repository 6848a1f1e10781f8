//! Files and folders that an option names and that are not there, or are not what the option is for.
//!
//! What comes in: mistyped authorities, a list of files under another name, folders for publishing. What must come out: a refusal before
//! anything is signed, or a word about what was made or is not read; and true words about what a new destination has.

use std::fs;

use outhaul_test_kit::folder;

use super::gate::GateFixture;
use super::repositories::{commit, git};

const BUNDLE: &str = "bundle --environment dev --control-plane cp --fleet fleet --passphrase-file passphrase --out stick";

#[test]
fn a_file_that_is_no_authority_is_refused_before_a_number_is_used() {
    let made = GateFixture::new();
    fs::write(made.path("empty.pem"), "").unwrap();
    fs::write(made.path("text.pem"), "no PEM\n").unwrap();
    let before = folder::tree(&made.path("fleet"));
    let hub = made.hub();
    for (words, file) in [
        (format!("{BUNDLE} --registry-ca r.example=no.pem"), "no.pem"),
        (format!("{BUNDLE} --registry-ca r.example=empty.pem"), "empty.pem"),
        (format!("{BUNDLE} --registry-ca r.example=text.pem"), "text.pem"),
        (format!("{BUNDLE} --estimate --registry-ca r.example=no.pem"), "no.pem"),
        (
            "publish oci --fleet fleet --to r.example/a --registry-ca r.example=no.pem".to_owned(),
            "no.pem",
        ),
        (
            "verify none.outhaul --fleet fleet --snapshot --environment dev --control-plane cp --registry-ca r.example=empty.pem".to_owned(),
            "empty.pem",
        ),
        (
            format!("promote --control-plane cp --to stage --hub {hub} --hub-ca text.pem"),
            "text.pem",
        ),
        (
            "publish git --environment dev --control-plane cp --pull-request --forge-ca no.pem".to_owned(),
            "no.pem",
        ),
    ] {
        let words = words.replace(" --out stick --estimate", " --estimate");
        let (_, _, err) = made.ends(2, &words);
        assert!(err.contains(file) && err.contains("-ca <"), "{words}: {err}");
    }
    assert_eq!(folder::tree(&made.path("fleet")), before);
    assert!(!made.path("stick").exists());
}

#[test]
fn a_folder_for_publishing_below_one_that_is_not_there_is_refused_and_a_new_one_is_named() {
    let made = GateFixture::new();
    let (_, _, err) = made.ends(2, &format!("{BUNDLE} --publish no/such"));
    assert!(err.contains("there is no folder `no`"), "{err}");
    assert!(!made.path("no").exists() && !made.path("stick").exists());
    let (_, _, err) = made.ok(&format!("{BUNDLE} --publish web"));
    assert!(err.contains("`web` was not there, and was made"), "{err}");
    let (_, _, err) = made.ok(&format!("{BUNDLE} --publish web"));
    assert!(!err.contains("was made"), "{err}");
    // A number that was made without it was never there, although others of its stream are.
    made.ok(&format!("{BUNDLE} --renew"));
    let (_, _, err) = made.ok(&format!("{BUNDLE} --publish web"));
    assert!(err.contains("number 2 was not in `web`"), "{err}");
}

#[test]
fn a_list_of_files_under_another_name_or_elsewhere_is_named() {
    let made = GateFixture::new();
    let cp = made.path("cp");
    git(&cp, &["checkout", "--quiet", "hello"]);
    let place = cp.join("manifests/dev");
    fs::create_dir(place.join("sub")).unwrap();
    fs::write(place.join("outhaul-file.toml"), "").unwrap();
    fs::write(place.join("sub/outhaul-files.toml"), "").unwrap();
    commit(&cp, "lists");
    git(&cp, &["checkout", "--quiet", "main"]);
    let check = "check --environment dev --control-plane cp --output lines";
    let (_, out, _) = made.ok(check);
    for path in ["outhaul-file.toml", "sub/outhaul-files.toml"] {
        let said = format!("`manifests/dev/{path}` is not read as a list of files");
        assert!(out.contains(&said), "{out}");
    }
    // What is wrong in a list is said there, and not where the workload is registered.
    git(&cp, &["checkout", "--quiet", "hello"]);
    fs::remove_file(place.join("outhaul-file.toml")).unwrap();
    fs::write(place.join("outhaul-files.toml"), "[[images]]\n").unwrap();
    commit(&cp, "a list");
    git(&cp, &["checkout", "--quiet", "main"]);
    let (_, out, _) = made.ends(1, check);
    assert!(out.contains("outhaul-files.toml:1:"), "{out}");
}

#[test]
fn what_a_list_names_and_the_manifests_have_or_lack_is_found_by_check_at_its_line() {
    const SUM: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let made = GateFixture::new();
    let cp = made.path("cp");
    let check = "check --environment dev --control-plane cp --output lines";
    let with = |list: &str| {
        git(&cp, &["checkout", "--quiet", "hello"]);
        let place = cp.join("manifests/dev");
        fs::write(place.join("model.bin"), "1").unwrap();
        fs::write(place.join("outhaul-files.toml"), list).unwrap();
        commit(&cp, "a list");
        git(&cp, &["checkout", "--quiet", "main"]);
        made.ends(1, check).1
    };
    let file = |path: &str| {
        format!(
            "[[file]]\nurl = \"https://files.example/m\"\nsha256 = \"{SUM}\"\npath = \"{path}\"\n"
        )
    };
    let missing = with("\n[[package]]\npath = \"tool_1_all.deb\"\n");
    for part in [
        "outhaul-files.toml:3:8",
        "it is not among the workload's manifests",
    ] {
        assert!(missing.contains(part), "{part}: {missing}");
    }
    let taken = with(&format!("\n{}", file("Model.bin")));
    for part in [
        "outhaul-files.toml:2:1",
        "lists a file for `Model.bin`, and the workload's manifests have `model.bin` there",
    ] {
        assert!(taken.contains(part), "{part}: {taken}");
    }
    let twice = with(&[file("a"), file("a/b")].concat());
    for part in [
        "outhaul-files.toml:5:1",
        "lists a file for `a/b`, and one for `a`",
    ] {
        assert!(twice.contains(part), "{part}: {twice}");
    }
}

#[test]
fn a_name_of_an_environment_that_was_mistyped_is_an_error_of_usage_for_every_command() {
    let made = GateFixture::new();
    for command in ["check", "schedule", "render --out out"] {
        let (_, out, err) = made.ends(
            2,
            &format!("{command} --environment dve --control-plane cp"),
        );
        assert!((out + &err).contains("did you mean `dev`?"), "{command}");
    }
    assert!(!made.path("out").exists());
}

#[test]
fn a_part_of_the_sites_that_no_environment_has_is_named_where_its_gate_would_stay_closed() {
    let made = GateFixture::new();
    let cp = made.path("cp");
    let policy = "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata:\n  name: parts\nspec:\n  from: dev\n  to: stage\n  \
                  parts:\n    - clusterType: egde\n      soakHours: 1\n    - workload: hello\n      soakHours: 1\n";
    fs::write(cp.join(".environments/parts.yaml"), policy).unwrap();
    commit(&cp, "parts");
    let (_, out, _) = made.ok("check --environment dev --control-plane cp --output lines");
    for part in [
        ".environments/parts.yaml:",
        "warning[unknown-part]",
        "names cluster type `egde`",
        "did you mean `edge`?",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!out.contains("names workload"), "{out}");
    let (_, out, _) = made.ok("check --environment stage --control-plane cp --output lines");
    assert!(!out.contains("unknown-part"), "{out}");
}
