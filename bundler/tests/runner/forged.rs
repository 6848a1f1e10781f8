//! Attacks at the centre, by whoever may write where it reads or writes: commits that pass as promotions, links, bundles beside those
//! that were copied.
//!
//! What comes in: a control plane that `outhaul init` wrote, forged. What must come out: a refusal before anything is signed, or a line
//! that names what is forged; no number is lost, and nothing outside is touched.

use std::fs;
use std::process::Command;

use super::gate::GateFixture;
use super::repositories::{commit, git};

const KEYS: &str = "--fleet fleet --passphrase-file passphrase";

#[test]
fn attack_a_commit_written_by_hand_with_trailers_ships_nothing() {
    let made = GateFixture::new();
    let new = made.change();
    let bundle = format!("bundle --environment stage --control-plane cp {KEYS} --out stick");
    let trailers = format!("Outhaul-Promoted: stage {new}\nOuthaul-Gate: open dev");
    let whole = format!(
        "Promote {} to stage\n\nThe gate of `dev` is open: 1 of 1 sites confirmed {new}.\n- edge-1: report 4 (sha256:{}), bundle \
         1 active\n\n{trailers}",
        &new[..12],
        "30".repeat(32)
    );
    let before = made.at("stage");
    let base = made.base("stage");
    // As `promote` writes it: without quotes.
    let moved = |text: &str| {
        text.replace(&format!("\"{base}\""), &new)
            .replace(&base, &new)
    };
    // The base moves, and with it another file; or the message is not what `promote` writes.
    for (message, other) in [
        (whole.as_str(), Some("more.yaml")),
        (whole.as_str(), Some("base-repo.yaml")),
        (&format!("Promote\n\n{trailers}"), None),
        (
            &format!("Promote {} to stage\n\n{trailers}", &new[..12]),
            None,
        ),
    ] {
        git(&made.path("cp"), &["checkout", "--quiet", "stage"]);
        git(&made.path("cp"), &["reset", "--quiet", "--hard", &before]);
        let path = made.path("cp/base-repo.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, moved(&text)).unwrap();
        if let Some(other) = other {
            let mut file = fs::OpenOptions::new();
            let mut file = file
                .create(true)
                .append(true)
                .open(made.path("cp").join(other))
                .unwrap();
            std::io::Write::write_all(&mut file, b"# more\n").unwrap();
        }
        commit(&made.path("cp"), message);
        let (_, _, err) = made.ends(1, &bundle);
        assert!(err.contains("no record shows"), "{message}\n{err}");
        assert!(!made.path("stick").exists());
    }
    // Whoever may push to the branch can write all of it: there is no key in it.
    git(&made.path("cp"), &["reset", "--quiet", "--hard", &before]);
    let path = made.path("cp/base-repo.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, moved(&text)).unwrap();
    commit(&made.path("cp"), &whole);
    made.ok(&bundle);
}

#[test]
fn attack_a_link_where_a_bundle_goes_or_is_published_is_refused_and_costs_no_number() {
    let made = GateFixture::new();
    let bundle =
        format!("bundle --environment dev --control-plane cp {KEYS} --out stick --publish web");
    fs::create_dir(made.path("stick")).unwrap();
    fs::create_dir(made.path("web")).unwrap();
    let outside = made.path("outside");
    fs::create_dir(&outside).unwrap();
    let links = [
        ("stick/dev-edge-1.outhaul", "outside/file"),
        ("web/metadata", "outside"),
        ("web/targets", "outside"),
        ("web/blobs", "outside"),
        ("web/blobs/sha256", "outside"),
        ("web/metadata/timestamp.json", "outside/file"),
    ];
    for (link, to) in links {
        let link = made.path(link);
        let folder = link.parent().unwrap();
        fs::create_dir_all(folder).unwrap();
        std::os::unix::fs::symlink(made.path(to), &link).unwrap();
        let (_, _, err) = made.ends(3, &bundle);
        assert!(
            err.contains(link.to_str().unwrap()) || err.contains("not a"),
            "{err}"
        );
        assert_eq!(
            fs::read_dir(&outside).unwrap().count(),
            0,
            "{}",
            link.display()
        );
        fs::remove_file(&link).unwrap();
        if folder != made.path("stick") && folder != made.path("web") {
            fs::remove_dir_all(folder).unwrap();
        }
    }
    let _ = fs::remove_dir_all(made.path("web/blobs"));
    made.ok(&bundle);
    assert!(made.path("stick/dev-edge-1.outhaul").is_file());
    let timestamp = || fs::read_to_string(made.path("web/metadata/timestamp.json")).unwrap();
    assert!(timestamp().contains("\"version\""), "{}", timestamp());

    // The next number is signed, and its place cannot be written: the next run ships it under its number.
    let old = timestamp();
    let in_the_way = made.path("stick/.dev-edge-2.outhaul.tmp");
    fs::create_dir(&in_the_way).unwrap();
    made.change();
    made.ok("promote --control-plane cp --to dev");
    let (_, _, err) = made.ends(3, &bundle);
    assert!(
        err.contains("what is on record is written then, under its number"),
        "{err}"
    );
    fs::remove_dir(in_the_way).unwrap();
    made.ok(&bundle);
    assert!(made.path("stick/dev-edge-2.outhaul").is_file());
    assert_ne!(timestamp(), old, "and it is published");
}

#[test]
fn attack_a_blob_that_lies_under_a_right_name_is_replaced_when_a_bundle_is_published() {
    let made = GateFixture::new();
    let bundle = |to: &str| {
        made.ok(&format!(
            "bundle --environment dev --control-plane cp {KEYS} --out stick --publish {to}"
        ));
    };
    bundle("web");
    let blobs = |folder: &str| -> Vec<(std::ffi::OsString, Vec<u8>)> {
        let read = fs::read_dir(made.path(folder).join("blobs/sha256")).unwrap();
        let mut all: Vec<_> = read
            .map(|one| {
                let one = one.unwrap();
                (one.file_name(), fs::read(one.path()).unwrap())
            })
            .collect();
        all.sort();
        all
    };
    let right = blobs("web");
    assert!(!right.is_empty());
    // Of another size, and of the same size.
    for change in [|_: usize| 8, |size: usize| size] {
        let forged = made.path("forged/blobs/sha256");
        fs::create_dir_all(&forged).unwrap();
        for (name, bytes) in &right {
            fs::write(forged.join(name), vec![b'x'; change(bytes.len())]).unwrap();
        }
        fs::remove_dir_all(made.path("web")).unwrap();
        bundle("forged");
        assert_eq!(blobs("forged"), right);
        fs::rename(made.path("forged"), made.path("web")).unwrap();
    }
}

#[test]
fn a_missing_folder_for_temporary_files_says_nothing_against_a_bundle() {
    let made = GateFixture::new();
    made.ok(&format!(
        "bundle --environment dev --control-plane cp {KEYS} --out stick"
    ));
    let verify = |temporary: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul"));
        let output = command
            .current_dir(made.path("."))
            .env("OUTHAUL_PROJECT", "none")
            .env("TMPDIR", temporary)
            .args(["verify", "stick/dev-edge-1.outhaul", "--fleet", "fleet"])
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), err)
    };
    let (code, err) = verify("/nowhere/at/all");
    assert_eq!(code, 3, "{err}");
    assert!(
        err.contains("`/nowhere/at/all`") && err.contains("TMPDIR"),
        "{err}"
    );
    assert!(!err.contains("do not use"), "{err}");
    let (code, err) = verify(made.path(".").to_str().unwrap());
    assert_eq!(code, 0, "{err}");
}

#[test]
fn attack_a_forged_bundle_beside_the_copied_one_is_named() {
    let made = GateFixture::new();
    made.ok(&format!(
        "bundle --environment dev --control-plane cp {KEYS} --out stick"
    ));
    fs::create_dir(made.path("cp1")).unwrap();
    let mut forged = fs::read(made.path("stick/dev-edge-1.outhaul")).unwrap();
    let at = forged.len() / 2;
    forged[at] ^= 1;
    fs::write(made.path("cp1/dev-edge-9.outhaul"), forged).unwrap();
    let (_, _, err) = made.ok("copy --fleet fleet --to cp1");
    assert!(
        err.contains(
            "`cp1/dev-edge-9.outhaul` lies there as well, was not written now, and does not verify"
        ),
        "{err}"
    );
    assert!(
        err.contains("what was written to `cp1` (1 file) was read back"),
        "{err}"
    );
}
