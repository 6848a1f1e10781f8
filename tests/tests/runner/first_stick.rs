//! A bare machine without a network becomes a site from one stick, with one command.
//!
//! What comes in: a bare machine, the packages as `cargo xtask deb` writes them, and a fleet with a bundle. What must come out: a compliant report at a real hub, no
//! packet that left, and for every stick that is not as the centre wrote it a refusal before anything is installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use outhaul_test_kit::folder::{fill, paths};
use outhaul_tests::{program, result, run_script};

use super::bare::{Bare, STICK};
use super::documents::is_printed_in;
use super::since;
use super::system::SystemFixture;

/// What these commands print, for people.
const PAGE: &str = "runbooks/first-stick.md";

fn line<'a>(text: &'a str, start: &str) -> &'a str {
    let mut lines = text.lines();
    lines
        .find_map(|line| line.strip_prefix(start))
        .unwrap_or_else(|| panic!("no line `{start}` in:\n{text}"))
}

#[test]
fn a_bare_machine_becomes_a_site_with_one_command_and_its_first_report_is_compliant() {
    let Some(bare) = Bare::or_skip() else { return };
    let fixture = &bare.fixture;
    bare.packages(&["outhaul-agent"], 1);
    fs::write(
        fixture.path("settings.toml"),
        "[folder]\ntarget = \"/srv/applied\"\n",
    )
    .unwrap();
    // As the runbook has it.
    let typed = format!(
        "exec {} site kit edge-9 --fleet fleet --environment dev --cluster-type bench \
         --settings settings.toml --package packages/{} --stick \"$PWD/stick\" 2>&1",
        program("outhaul").unwrap().display(),
        bare.package("outhaul-agent", 1)
    );
    let mut shell = fixture.command(Path::new("sh"));
    let made = run_script(shell.args(["-c", &typed])).unwrap();
    assert_eq!(made.code, Some(0), "{}", made.everything());
    let stick = fixture.path("stick").display().to_string();
    let printed = made.stdout.replace(&stick, STICK);
    is_printed_in(PAGE, "outhaul site kit", &printed);
    // The number that travels by another way is that of the script.
    let typed = format!("sha256sum {STICK}/edge-9/start.sh");
    let ran = bare.types("stick", "", 0, &typed);
    is_printed_in(PAGE, &typed, &ran.stdout);
    let number = ran.stdout.split_whitespace().next().unwrap();
    assert!(printed.contains(&format!("\n{number}  ")), "{printed}");
    let page = fs::read_to_string(fixture.path("stick/START-HERE.txt")).unwrap();
    assert!(page.contains("edge-9/start.sh"), "{page}");
    assert!(!page.contains("SITES"), "{page}");

    let typed = format!("sh {STICK}/edge-9/start.sh");
    let ran = bare.types("stick", "", 0, &format!("exec 2>&1; {typed}"));
    is_printed_in(PAGE, &typed, &ran.stdout);
    let applied = bare.inside("/srv/applied");
    assert!(!paths(&applied).is_empty());

    // Home: the request by its fingerprint, then the reports.
    let request = "stick/requests/edge-9.request";
    let fingerprint = line(&ran.stdout, "fingerprint: ");
    bare.hub(&["site", "add", request, "--fingerprint", fingerprint]);
    bare.hub(&["import", "stick"]);
    let sites = result(&bare.hub(&["sites", "--output", "json"]).stdout);
    let site = &sites.as_array().unwrap_or_else(|| panic!("{sites}"))[0];
    assert_eq!(
        (&site["site"], &site["verdict"]),
        (&"edge-9".into(), &"ok".into()),
        "{sites}"
    );
    let approve = [
        "site",
        "approve",
        request,
        "--fleet",
        "fleet",
        "--fingerprint",
        fingerprint,
    ];
    fixture.run("outhaul", 0, &approve);

    // The same command takes what the stick brings next: the approval, the acknowledgement, a bundle.
    since::change(fixture);
    bare.kit("edge-9", 0, &["--settings", "settings.toml"]);
    let ran = bare.visit("stick", "edge-9", 0);
    assert!(ran.stdout.contains("bundle 2 is active"), "{}", ran.stdout);
    assert!(ran.stdout.contains("enrolment: approved"), "{}", ran.stdout);
    // A third time there is nothing to do.
    let ran = bare.visit("stick", "edge-9", 0);
    assert!(
        ran.stdout.contains("bundle 2 is already active"),
        "{}",
        ran.stdout
    );

    // The machine is that site, and no other one.
    bare.kit("edge-8", 0, &[]);
    let ran = bare.visit("stick", "edge-8", 2);
    assert!(
        ran.stderr
            .contains("error: this machine is another site than edge-8; nothing was changed"),
        "{}",
        ran.stderr
    );
    let page = fs::read_to_string(fixture.path("stick/START-HERE.txt")).unwrap();
    assert!(
        page.contains("edge-8/start.sh") && page.contains("edge-9/start.sh"),
        "{page}"
    );

    // Reports that find no way onto the stick are named, and stay.
    let read_only = format!("mount -o remount,bind,ro \"$ROOT{STICK}\"");
    let ran = bare.types(
        "stick",
        &read_only,
        3,
        &format!("sh {STICK}/edge-9/start.sh"),
    );
    assert!(
        ran.stderr.contains("they stay on this machine, too"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("not all was done (exit code 3)"),
        "{}",
        ran.stderr
    );
}

/// A stick by its name, what is done to the site's folder on it, the exit code, and what is named.
type Case = (&'static str, fn(&Path, &str), i32, fn(&str) -> &str);

const KIT: &str = "edge-9.kit";

const CASES: [Case; 8] = [
    (
        "byte-of-package",
        |own, name| flip(&own.join(name), 5000),
        4,
        |name| name,
    ),
    (
        "longer-package",
        |own, name| append(&own.join(name)),
        4,
        |name| name,
    ),
    (
        "byte-of-kit",
        |own, _| flip(&own.join(KIT), 300),
        4,
        |_| KIT,
    ),
    ("link", |own, _| replaced(&own.join(KIT), link), 4, |_| KIT),
    ("fifo", |own, _| replaced(&own.join(KIT), fifo), 4, |_| KIT),
    (
        "folder",
        |own, _| replaced(&own.join(KIT), folder),
        4,
        |_| KIT,
    ),
    (
        "missing-package",
        |own, name| fs::remove_file(own.join(name)).unwrap(),
        3,
        |name| name,
    ),
    (
        "missing-kit",
        |own, _| fs::remove_file(own.join(KIT)).unwrap(),
        3,
        |_| KIT,
    ),
];

#[test]
fn a_stick_that_is_not_as_the_centre_wrote_it_installs_nothing() {
    let Some(bare) = Bare::or_skip() else { return };
    let fixture = &bare.fixture;
    bare.packages(&["outhaul-agent"], 1);
    bare.kit("edge-9", 0, &[]);
    let package = bare.package("outhaul-agent", 1);
    for (stick, change, code, named) in CASES {
        fill(&fixture.path("stick"), &fixture.path(stick));
        change(&fixture.path(stick).join("edge-9"), &package);
        let ran = bare.visit(stick, "edge-9", code);
        let says = ["error: nothing was installed", named(&package)];
        assert!(
            says.iter().all(|words| ran.stderr.contains(words)),
            "{stick}: {}",
            ran.stderr
        );
        bare.is_untouched();
    }
}

#[test]
fn a_machine_that_cannot_take_what_is_on_the_stick_is_left_as_it_is() {
    let Some(bare) = Bare::or_skip() else { return };
    let fixture = &bare.fixture;
    bare.packages(&["outhaul-agent"], 1);
    bare.kit("edge-9", 0, &[]);
    let start = format!("sh {STICK}/edge-9/start.sh");
    let ran = bare.types(
        "stick",
        "",
        3,
        &format!("setpriv --reuid 1000 --clear-groups {start}"),
    );
    assert!(
        ran.stderr
            .contains("has to be run by root; nothing was changed"),
        "{}",
        ran.stderr
    );
    let full = "mkdir \"$ROOT/var/lib/outhaul-start\"; mount -t tmpfs -o size=64k tmpfs \"$ROOT/var/lib/outhaul-start\"";
    let ran = bare.types("stick", full, 3, &start);
    assert!(
        ran.stderr.contains("No space left on device"),
        "{}",
        ran.stderr
    );
    bare.is_untouched();

    // A processor that no package is for.
    let other = format!("outhaul-agent_{}-1_s390x.deb", env!("CARGO_PKG_VERSION"));
    let own = fixture
        .path("packages")
        .join(bare.package("outhaul-agent", 1));
    fs::rename(own, fixture.path(&other)).unwrap();
    fs::create_dir(fixture.path("foreign")).unwrap();
    let more = ["--stick", "foreign", "--package", &other];
    fixture.run("outhaul", 0, &[&site_kit("edge-7")[..], &more].concat());
    let ran = bare.visit("foreign", "edge-7", 3);
    let says = "the stick has no package for it, only: outhaul-agent";
    assert!(ran.stderr.contains(says), "{}", ran.stderr);
    bare.is_untouched();
}

fn site_kit(site: &str) -> [&str; 9] {
    let stream = ["--environment", "dev", "--cluster-type", "bench"];
    let [environment, dev, cluster_type, bench] = stream;
    [
        "site",
        "kit",
        site,
        "--fleet",
        "fleet",
        environment,
        dev,
        cluster_type,
        bench,
    ]
}

fn link(path: &Path) {
    symlink("/etc/passwd", path).unwrap();
}

fn folder(path: &Path) {
    fs::create_dir(path).unwrap();
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn append(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes.push(b'\n');
    fs::write(path, bytes).unwrap();
}

fn replaced(path: &Path, by: impl Fn(&Path)) {
    fs::remove_file(path).unwrap();
    by(path);
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A fleet with a bundle, and what passes for packages until a machine looks into them.
fn centre() -> SystemFixture {
    let fixture = since::fixture(2);
    for (name, bytes) in [
        (PACKAGE, &b"!<arch>\n"[..]),
        ("outhaul-hub_1_amd64.deb", b"!<arch>\n"),
        ("agent.deb", b"!<arch>\n"),
        ("outhaul-agent_2_amd64.deb", b"PK"),
        ("bad.toml", b"[folder\n"),
    ] {
        fs::write(fixture.path(name), bytes).unwrap();
    }
    fixture
}

const PACKAGE: &str = "outhaul-agent_1_amd64.deb";
const GOOD: [&str; 4] = ["--package", PACKAGE, "--stick", "stick"];

#[test]
fn what_cannot_be_put_on_a_stick_is_refused_at_the_centre() {
    let fixture = centre();
    let tries: [(&[&str], i32, &str); 6] = [
        (
            &["outhaul-hub_1_amd64.deb"],
            2,
            "none of the packages is the agent's",
        ),
        (&["agent.deb"], 2, "has no name of a Debian package"),
        (&["outhaul-agent_2_amd64.deb"], 2, "is not a Debian package"),
        (
            &[PACKAGE, "--package", "./outhaul-agent_1_amd64.deb"],
            2,
            "is given twice",
        ),
        (&[PACKAGE, "--settings", "bad.toml"], 2, "bad.toml"),
        (
            &[PACKAGE, "--hub-ca", "bad.toml"],
            2,
            "holds no certificate",
        ),
    ];
    let refused = |stick: &str, more: &[&str], code: i32, says: &str| {
        let at = [
            &site_kit("edge-9")[..],
            &["--stick", stick, "--package"],
            more,
        ];
        let ran = fixture.run("outhaul", code, &at.concat());
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
        assert!(paths(&fixture.path("stick")).is_empty());
        assert!(!fixture.path("fleet/sites/edge-9.json").exists());
    };
    for (more, code, says) in tries {
        refused("stick", more, code, says);
    }
    refused("nowhere", &[PACKAGE], 3, "nowhere");
    // What leads out of the stick is not followed.
    fs::create_dir(fixture.path("elsewhere")).unwrap();
    symlink("../elsewhere", fixture.path("stick/edge-9")).unwrap();
    let ran = fixture.run("outhaul", 3, &[&site_kit("edge-9")[..], &GOOD].concat());
    assert!(ran.stderr.contains("edge-9"), "{}", ran.stderr);
    assert!(paths(&fixture.path("elsewhere")).is_empty());
}

#[test]
fn a_kit_on_the_stick_is_kept_and_one_that_counts_no_longer_is_refused() {
    let fixture = centre();
    let kit = site_kit("edge-9");
    let mut enrol = kit;
    enrol[1] = "enrol";
    fixture.run(
        "outhaul",
        0,
        &[&enrol[..], &["--out", "first.kit"]].concat(),
    );
    let ran = fixture.run("outhaul", 1, &[&kit[..], &GOOD].concat());
    assert!(ran.stderr.contains("has a kit already"), "{}", ran.stderr);
    fixture.run(
        "outhaul",
        0,
        &[&kit[..], &GOOD, &["--kit", "first.kit"]].concat(),
    );
    let read = |name: &str| fs::read(fixture.path(name)).unwrap();
    assert_eq!(read("first.kit"), read("stick/edge-9/edge-9.kit"));
    let script = read("stick/edge-9/start.sh");
    // Once more: the script, and with it the number that travels by another way, is the same.
    let json = [&kit[..], &GOOD, &["--output", "json"]].concat();
    let reported = result(&fixture.run("outhaul", 0, &json).stdout);
    assert_eq!(reported["new_kit"], false, "{reported}");
    assert_eq!(reported["bundle"]["number"], 1, "{reported}");
    assert_eq!(read("stick/edge-9/start.sh"), script);
    fixture.run("outhaul", 0, &[&kit[..], &GOOD, &["--again"]].concat());
    assert_ne!(read("first.kit"), read("stick/edge-9/edge-9.kit"));
    let old = [&kit[..], &GOOD, &["--kit", "first.kit"]].concat();
    let ran = fixture.run("outhaul", 1, &old);
    assert!(
        ran.stderr.contains("not the one that counts"),
        "{}",
        ran.stderr
    );
}
