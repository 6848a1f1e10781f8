//! Every command of the hub, the signer and the centre that writes to a place that a person names, at each place of someone else.
//!
//! What comes in: a fleet, hubs, a site's state folder, a control plane and a clone of one of its environments, as the programs made
//! them. What must come out: each command is refused with a sentence that says whose place it is, and the place is as it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use outhaul_tests::{Ran, program, run_expecting};

use super::system::SystemFixture;

/// Commands that write below or into `{}`.
const COMMANDS: [(&str, &str); 21] = [
    (
        "outhaul-hub",
        "init --state {} --root 1.root.json --plain-key test",
    ),
    (
        "outhaul-hub",
        "init --state {}/new --root 1.root.json --plain-key test",
    ),
    ("outhaul-hub", "restore hub.backup --state {}"),
    ("outhaul-hub", "restore hub.backup --state {}/new"),
    ("outhaul-hub", "backup --to {}/new.backup --state hub"),
    ("outhaul-hub", "acks {} --state hub"),
    ("outhaul-hub", "audit export {}/new.audit --state hub"),
    ("outhaul-signer", "init {} --passphrase-file passphrase"),
    ("outhaul-signer", "init {}/new --passphrase-file passphrase"),
    ("outhaul-signer", "key {}/new --passphrase-file passphrase"),
    (
        "outhaul-signer",
        "countersign 2.request --root 1.root.json --key auditor.pem --answer {}/new --passphrase-file passphrase",
    ),
    (
        "outhaul",
        "key init --fleet {}/new --passphrase-file passphrase",
    ),
    (
        "outhaul",
        "site enrol edge-9 --fleet fleet --environment dev --cluster-type edge --control-plane control-plane --out {}/new.kit",
    ),
    (
        "outhaul",
        "slip --fleet fleet --environment dev --cluster-type edge --out {}/new.slip --passphrase-file passphrase",
    ),
    ("outhaul", "secret keygen --out {}/new"),
    ("outhaul", "schema --out {}/new"),
    ("outhaul", "init {}/new"),
    ("outhaul", "new config north --in {} --set GREETING=Hello"),
    ("outhaul", "demo --keep {}/new"),
    ("outhaul", "copy --fleet fleet --to {}/new"),
    (
        "outhaul",
        "render --environment dev --control-plane control-plane --out {}/new",
    ),
];

/// Places of someone, with what is said of them.
const PLACES: [(&str, &str); 6] = [
    ("fleet", "the folder of a fleet's keys"),
    ("sites/edge-1", "the state folder of a site"),
    ("other-hub", "the state folder of a hub"),
    ("control-plane", "control plane"),
    ("clone", "control plane"),
    ("control-plane/.git", "`.git`"),
];

/// What a command says of a place that is one of its own kind: it is there already, as before.
fn is_of_its_own(line: &str, place: &str) -> bool {
    let own = match line.split_whitespace().next() {
        Some("init") if line.starts_with("init --state {} ") => "other-hub",
        Some("init") if line.starts_with("init {} ") => "fleet",
        Some("restore") if line.ends_with("--state {}") => "other-hub",
        // What is added to; and JSON Schemas of a control plane's objects, which are for editors that have it open.
        Some("new" | "schema") => return ["control-plane", "clone"].contains(&place),
        _ => return false,
    };
    own == place
}

/// Every file below a folder.
fn everything(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => {
                found.insert(path.clone(), Vec::new());
                found.extend(everything(&path));
            }
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

fn typed(fixture: &SystemFixture, name: &str, line: &str, code: i32) -> Ran {
    let mut command = fixture.command(&program(name).unwrap());
    run_expecting(command.args(line.split_whitespace()), code).unwrap()
}

/// A fixture with all of the places, and with what the commands read.
fn world() -> SystemFixture {
    let fixture = SystemFixture::new();
    typed(
        &fixture,
        "outhaul",
        "init control-plane --environments dev",
        0,
    );
    fixture.fleet();
    fs::copy(
        fixture.path("fleet/metadata/1.root.json"),
        fixture.path("1.root.json"),
    )
    .unwrap();
    let kit = "site enrol edge-1 --fleet fleet --environment dev --cluster-type edge --control-plane control-plane --out edge-1.kit";
    typed(&fixture, "outhaul", kit, 0);
    fs::create_dir(fixture.path("sites")).unwrap();
    typed(
        &fixture,
        "outhaul-agent",
        "--state sites/edge-1 enrol edge-1.kit",
        0,
    );
    typed(
        &fixture,
        "outhaul-hub",
        "init --state other-hub --root 1.root.json --plain-key test",
        0,
    );
    typed(
        &fixture,
        "outhaul-hub",
        "backup --to hub.backup --state hub",
        0,
    );
    typed(
        &fixture,
        "outhaul-signer",
        "key auditor --passphrase-file passphrase",
        0,
    );
    let plane = fixture.path("control-plane");
    fixture.git(
        ".",
        &[
            "clone",
            "-q",
            "--branch",
            "dev",
            plane.to_str().unwrap(),
            "clone",
        ],
    );
    assert!(!fixture.path("clone/.environments").exists());
    fixture
}

#[test]
fn every_output_in_a_place_of_somebody_is_refused_and_the_place_is_as_it_was() {
    let fixture = world();
    for (place, whose) in PLACES {
        let before = everything(&fixture.path(place));
        for (name, line) in COMMANDS {
            let own = is_of_its_own(line, place);
            let typed_line = line.replace("{}", place);
            let mut command = fixture.command(&program(name).unwrap());
            let output = command
                .args(typed_line.split_whitespace())
                .output()
                .unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            let said = format!("{name} {typed_line}\n{stderr}");
            if !own {
                assert_eq!(output.status.code(), Some(2), "{said}");
                // Of what is read for a rendering that is said first.
                let of_input = "in the control plane's folder";
                let is_said = stderr.contains(whose)
                    || (line.starts_with("render") && stderr.contains(of_input));
                assert!(is_said && stderr.contains("help: "), "{said}");
            }
            if own && line.starts_with("schema") {
                fs::remove_dir_all(fixture.path(place).join("new")).unwrap();
            }
            if own && line.starts_with("new") {
                fs::remove_file(fixture.path(place).join("configs/north.yaml")).ok();
            }
            let after = everything(&fixture.path(place));
            assert!(before == after, "{said}\nchanged");
        }
    }
}

#[test]
fn a_kit_of_another_site_or_fleet_is_not_replaced_and_that_of_the_same_site_is_when_it_is_asked_for()
 {
    let fixture = world();
    let plane = "--environment dev --cluster-type edge --control-plane control-plane";
    let enrol = |site: &str, fleet: &str, more: &str, code: i32| {
        let line = format!("site enrol {site} --fleet {fleet} {plane} --out edge-1.kit {more}");
        typed(&fixture, "outhaul", &line, code)
    };
    let kit = fs::read(fixture.path("edge-1.kit")).unwrap();
    for more in ["", "--again"] {
        let said = enrol("edge-2", "fleet", more, 1).stderr;
        assert!(
            said.contains("`edge-1.kit` is the kit of site `edge-1` (dev/edge), and would be replaced; nothing was written"),
            "{said}"
        );
    }
    typed(
        &fixture,
        "outhaul",
        "key init --fleet second --passphrase-file passphrase",
        0,
    );
    let said = enrol("edge-1", "second", "", 1).stderr;
    assert!(
        said.contains("is the kit of site `edge-1` of fleet "),
        "{said}"
    );
    assert!(fs::read(fixture.path("edge-1.kit")).unwrap() == kit);
    enrol("edge-1", "fleet", "--again", 0);
    assert!(fs::read(fixture.path("edge-1.kit")).unwrap() != kit);
}
