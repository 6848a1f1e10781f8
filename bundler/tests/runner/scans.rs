//! Scanners that a delivery policy names, as `outhaul bundle` runs them: real programs that read the bill of materials.
//!
//! What comes in: the factory example with a delivery policy. What must come out: a bundle that its scanner allows, with the report in
//! the fleet's folder, or no bundle and no number.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::delivery::{Centre, message};

const POLICY: &str = "  scan: look\n";

/// A centre with an executable script, and the option that names it.
fn fixture(text: &str) -> (Centre, String) {
    let centre = Centre::new();
    let path = centre.folder.path().join("look");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let option = format!("--scanner look={}", path.display());
    (centre, option)
}

/// The only report in the fleet's folder, by its name.
fn report(centre: &Centre) -> (String, String) {
    let scans = centre.folder.path().join("fleet/scans");
    let role = fs::read_dir(scans).unwrap().next().unwrap().unwrap();
    let mut files = fs::read_dir(role.path()).unwrap();
    let file = files.next().unwrap().unwrap();
    assert!(files.next().is_none());
    let name = file.file_name().into_string().unwrap();
    (name, fs::read_to_string(file.path()).unwrap())
}

#[test]
fn a_scanner_reads_the_bill_of_materials_and_its_report_is_kept() {
    let (centre, scanner) = fixture("cat > read.json; echo '{\"findings\": 0}'");
    let made = centre.bundle_with(POLICY, &scanner);
    assert!(made.status.success(), "{}", message(&made));
    let read = fs::read(centre.folder.path().join("read.json")).unwrap();
    let read: Value = serde_json::from_slice(&read).unwrap();
    assert_eq!(read["bomFormat"], "CycloneDX");
    assert!(!read["components"].as_array().unwrap().is_empty());
    let kept = ("1.report".to_owned(), "{\"findings\": 0}\n".to_owned());
    assert_eq!(report(&centre), kept);
    // What is unchanged is not made again, so that nothing new is to be scanned.
    fs::remove_file(centre.folder.path().join("read.json")).unwrap();
    let again = centre.bundle_with(POLICY, &scanner);
    assert!(again.status.success(), "{}", message(&again));
    assert!(!centre.folder.path().join("read.json").exists());
}

#[test]
fn a_scanner_that_no_policy_names_is_noted() {
    let (centre, _) = fixture("touch ran");
    let path = centre.folder.path().join("look");
    let made = centre.bundle_with(
        "  expiresDays: 30\n",
        &format!("--scanner luck={}", path.display()),
    );
    let text = message(&made);
    assert!(made.status.success(), "{text}");
    let note = "note: scanner `luck` has a program and scans nothing: no delivery policy names it (`scan`)";
    assert!(text.contains(note), "{text}");
    assert!(!centre.folder.path().join("ran").exists());
}

#[test]
fn a_bundle_that_its_scanner_forbids_is_not_signed_and_the_report_is_named() {
    let (centre, scanner) = fixture("echo report; echo '2 critical' >&2; exit 4");
    let tried = centre.bundle_with(POLICY, &scanner);
    let text = message(&tried);
    assert_eq!(tried.status.code(), Some(1), "{text}");
    for part in [
        "stream `dev/bench`: delivery policy `all` (control-plane/dev/delivery.yaml:7) wants it scanned by `look`, and it \
         forbids it: exit status: 4: 2 critical",
        "refused.report`; correct what it found",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(!centre.folder.path().join("stick").exists());
    let kept = ("refused.report".to_owned(), "report\n".to_owned());
    assert_eq!(report(&centre), kept);
    // The number was not used.
    let made = centre.bundle_with("  expiresDays: 30\n", "");
    assert!(made.status.success(), "{}", message(&made));
    let file = centre.folder.path().join("stick/dev-bench-1.outhaul");
    assert!(file.is_file());
}

#[test]
fn a_scanner_without_a_program_and_one_that_cannot_start_forbid_the_bundle() {
    let centre = Centre::new();
    for (more, parts) in [
        (
            "",
            [
                "no program was named for it\n",
                "give `--scanner look=PROGRAM`",
            ],
        ),
        (
            "--scanner lok=/bin/true",
            [
                "no program was named for it, where `lok` was given",
                "give `--scanner look=PROGRAM`",
            ],
        ),
        (
            "--scanner look=/nowhere/look",
            [
                "it gave no verdict: it cannot be started: No such file",
                "run `/nowhere/look` by hand",
            ],
        ),
    ] {
        let tried = centre.bundle_with(POLICY, more);
        let text = message(&tried);
        assert_eq!(tried.status.code(), Some(1), "{text}");
        for part in parts {
            assert!(text.contains(part), "`{part}` is not in:\n{text}");
        }
        assert!(!centre.folder.path().join("stick").exists());
    }
    let wrong = centre.bundle_with(POLICY, "--scanner look");
    assert_eq!(wrong.status.code(), Some(2), "{}", message(&wrong));
}

#[test]
fn a_scanner_that_was_killed_gave_no_verdict_and_one_that_complains_at_length_gave_one() {
    let (centre, scanner) = fixture("kill -9 $$");
    let tried = centre.bundle_with(POLICY, &scanner);
    let text = message(&tried);
    assert_eq!(tried.status.code(), Some(1), "{text}");
    for part in ["it gave no verdict: signal: 9 (SIGKILL)", "/look` by hand"] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(!text.contains("forbids"), "{text}");
    let (centre, scanner) = fixture("yes warning | head -c 1000000 >&2; echo '{}'");
    let made = centre.bundle_with(POLICY, &scanner);
    assert!(made.status.success(), "{}", message(&made));
}
