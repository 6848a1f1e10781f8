//! A bare machine without a network becomes a site from one stick, with one command.
//!
//! What comes in: a Debian root folder (`OUTHAUL_DEBIAN_ROOT`, which `.ci/debian-root` makes), the packages as
//! `cargo xtask deb` writes them, and a fleet with a bundle. What must come out: a compliant report at a real hub, no
//! packet that left, and for every stick that is not as the centre wrote it a refusal before anything is installed.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_tests::{Ran, isolated_or_skip, program, result, run_script, skipped};

use super::since;
use super::system::{SystemFixture, copy, files_below};

/// The stick, as the machine sees it.
const STICK: &str = "/media/stick";

/// A machine that has nothing but Debian, and the centre that a stick comes from.
pub struct Bare {
    pub fixture: SystemFixture,
}

impl Bare {
    #[track_caller]
    pub fn or_skip() -> Option<Self> {
        let Some(root) = std::env::var_os("OUTHAUL_DEBIAN_ROOT") else {
            skipped(
                "there is no Debian root: set OUTHAUL_DEBIAN_ROOT to what `.ci/debian-root` prints",
            );
            return None;
        };
        if !isolated_or_skip() {
            return None;
        }
        let fixture = since::fixture(2);
        let mut command = Command::new("cp");
        command.args(["-a", "--reflink=auto"]);
        command.arg(root).arg(fixture.path("root"));
        assert!(command.status().unwrap().success());
        let bare = Self { fixture };
        fs::create_dir(bare.inside(STICK)).unwrap();
        Some(bare)
    }

    /// A path on the machine, as seen from here.
    pub fn inside(&self, path: &str) -> PathBuf {
        self.fixture.path("root").join(path.trim_start_matches('/'))
    }

    /// The packages of this build, with Debian's own part of the version.
    pub fn packages(&self, names: &[&str], revision: u32) {
        let mut command = self.fixture.command(&program("xtask").unwrap());
        command.args(["deb", "packages", "--compression", "none", "--programs"]);
        command.arg(program("xtask").unwrap().parent().unwrap());
        command.args(["--revision", &revision.to_string()]);
        for name in names {
            command.args(["--only", name]);
        }
        let ran = outhaul_tests::run(&mut command).unwrap();
        assert_eq!(ran.code, Some(0), "{}", ran.everything());
    }

    /// `outhaul site kit` for a site; returns what it printed.
    fn kit(&self, site: &str, code: i32, more: &[&str]) -> Ran {
        let package = format!("packages/{}", self.package("outhaul-agent", 1));
        let stream = ["--environment", "dev", "--cluster-type", "bench"];
        let arguments = [
            &[
                "site",
                "kit",
                site,
                "--fleet",
                "fleet",
                "--stick",
                "stick",
                "--package",
                &package,
            ][..],
            &stream,
            more,
        ];
        self.fixture.run("outhaul", code, &arguments.concat())
    }

    /// The file name of a package for this machine.
    pub fn package(&self, name: &str, revision: u32) -> String {
        let native = Command::new("dpkg")
            .arg("--print-architecture")
            .output()
            .unwrap();
        let native = String::from_utf8(native.stdout).unwrap();
        format!(
            "{name}_{}-{revision}_{}.deb",
            env!("CARGO_PKG_VERSION"),
            native.trim()
        )
    }

    /// Types `command` on the machine, as root, with `stick` plugged in: what it printed, and that nothing left.
    #[track_caller]
    pub fn types(&self, stick: &str, mount: &str, code: i32, command: &str) -> Ran {
        let script = format!(
            r#"
            mount --bind "$STICK" "$ROOT{STICK}"
            {mount}
            code=0
            env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$ROOT" sh -c "$TYPED" || code=$?
            awk '$1 == "Ip:" {{ if (!n) {{ for (i = 1; i <= NF; i++) {{ if ($i == "OutNoRoutes") n = i; if ($i == "OutRequests") m = i }} }} else print "packets out:", $n + $m }}' /proc/net/snmp >&2
            exit $code
            "#
        );
        let mut shell = self.fixture.command(Path::new("unshare"));
        shell
            .args(["--net", "--mount", "sh", "-euc", &script])
            .env("STICK", self.fixture.path(stick))
            .env("ROOT", self.fixture.path("root"))
            .env("TYPED", command);
        let ran = run_script(&mut shell).unwrap();
        assert_eq!(ran.code, Some(code), "{}", ran.everything());
        assert!(ran.stderr.ends_with("packets out: 0\n"), "{}", ran.stderr);
        ran
    }

    /// Starts the script of `site` on a stick.
    #[track_caller]
    fn visit(&self, stick: &str, site: &str, code: i32) -> Ran {
        self.types(stick, "", code, &format!("sh {STICK}/{site}/start.sh"))
    }

    /// Nothing of Outhaul is on the machine.
    #[track_caller]
    fn is_untouched(&self) {
        let ours = |path: &Path| path.to_string_lossy().contains("outhaul");
        let root = self.fixture.path("root");
        let below = |path: PathBuf| path.strip_prefix(&root).unwrap().to_owned();
        for folder in ["usr/bin", "usr/lib/systemd", "var/lib", "var/tmp", "etc"] {
            let files = files_below(&root.join(folder)).into_iter().map(below);
            let found: Vec<PathBuf> = files.filter(|path| ours(path)).collect();
            assert!(found.is_empty(), "{found:?}");
        }
    }

    fn hub(&self, arguments: &[&str]) -> Ran {
        let all = [&["--state", "hub"][..], arguments].concat();
        self.fixture.run("outhaul-hub", 0, &all)
    }
}

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
    let made = bare.kit("edge-9", 0, &["--settings", "settings.toml"]);

    // The number that travels by another way is that of the script.
    let (number, script) = made.stdout.trim().split_once("  ").unwrap();
    assert_eq!(script, "edge-9/start.sh");
    let typed = format!("cd {STICK} && sha256sum edge-9/start.sh");
    let ran = bare.types("stick", "", 0, &typed);
    assert_eq!(ran.stdout, format!("{number}  edge-9/start.sh\n"));
    let page = fs::read_to_string(fixture.path("stick/START-HERE.txt")).unwrap();
    assert!(page.contains("edge-9/start.sh"), "{page}");
    assert!(!page.contains("SITES"), "{page}");

    let ran = bare.visit("stick", "edge-9", 0);
    assert!(ran.stdout.contains("bundle 1 is active"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\ndone: "), "{}", ran.stdout);
    let applied = bare.inside("/srv/applied");
    assert!(!files_below(&applied).is_empty());

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

#[test]
fn a_stick_that_is_not_as_the_centre_wrote_it_installs_nothing() {
    let Some(bare) = Bare::or_skip() else { return };
    let fixture = &bare.fixture;
    bare.packages(&["outhaul-agent"], 1);
    bare.kit("edge-9", 0, &[]);
    let package = bare.package("outhaul-agent", 1);
    let kit = "edge-9.kit";

    /// A stick, what is done to it, the exit code, and what is named.
    type Case<'a> = (&'a str, Box<dyn Fn(&Path) + 'a>, i32, &'a str);
    let cases: Vec<Case<'_>> = vec![
        (
            "byte-of-package",
            Box::new(|own| flip(&own.join(&package), 5000)),
            4,
            &package,
        ),
        (
            "longer-package",
            Box::new(|own| append(&own.join(&package))),
            4,
            &package,
        ),
        (
            "byte-of-kit",
            Box::new(|own| flip(&own.join(kit), 300)),
            4,
            kit,
        ),
        (
            "link",
            Box::new(|own| replaced(&own.join(kit), |path| symlink("/etc/passwd", path).unwrap())),
            4,
            kit,
        ),
        (
            "fifo",
            Box::new(|own| replaced(&own.join(kit), fifo)),
            4,
            kit,
        ),
        (
            "folder",
            Box::new(|own| replaced(&own.join(kit), |path| fs::create_dir(path).unwrap())),
            4,
            kit,
        ),
        (
            "missing-package",
            Box::new(|own| fs::remove_file(own.join(&package)).unwrap()),
            3,
            &package,
        ),
        (
            "missing-kit",
            Box::new(|own| fs::remove_file(own.join(kit)).unwrap()),
            3,
            kit,
        ),
    ];
    for (stick, change, code, named) in cases {
        copy(&fixture.path("stick"), &fixture.path(stick));
        change(&fixture.path(stick).join("edge-9"));
        let ran = bare.visit(stick, "edge-9", code);
        assert!(
            ran.stderr.contains("error: nothing was installed"),
            "{stick}: {}",
            ran.stderr
        );
        assert!(ran.stderr.contains(named), "{stick}: {}", ran.stderr);
        bare.is_untouched();
    }

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
    let full = "mount -t tmpfs -o size=64k tmpfs \"$ROOT/var/tmp\"";
    let ran = bare.types("stick", full, 3, &start);
    assert!(
        ran.stderr.contains("No space left on device"),
        "{}",
        ran.stderr
    );
    bare.is_untouched();

    // Of a machine that no package is for, nothing is tried.
    let other = format!("outhaul-agent_{}-1_s390x.deb", env!("CARGO_PKG_VERSION"));
    fs::rename(
        fixture.path("packages").join(&package),
        fixture.path(&other),
    )
    .unwrap();
    let stream = [
        "--environment",
        "dev",
        "--cluster-type",
        "bench",
        "--package",
        &other,
    ];
    fs::create_dir(fixture.path("foreign")).unwrap();
    let arguments = [
        &[
            "site", "kit", "edge-7", "--fleet", "fleet", "--stick", "foreign",
        ][..],
        &stream,
    ];
    fixture.run("outhaul", 0, &arguments.concat());
    let ran = bare.visit("foreign", "edge-7", 3);
    assert!(
        ran.stderr
            .contains("the stick has no package for it, only: outhaul-agent"),
        "{}",
        ran.stderr
    );
    bare.is_untouched();
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

#[test]
fn what_cannot_be_put_on_a_stick_is_refused_at_the_centre() {
    let fixture = since::fixture(2);
    let private = fs::Permissions::from_mode(0o600);
    for (name, bytes) in [
        ("outhaul-agent_1_amd64.deb", &b"!<arch>\n"[..]),
        ("outhaul-hub_1_amd64.deb", b"!<arch>\n"),
        ("agent.deb", b"!<arch>\n"),
        ("outhaul-agent_2_amd64.deb", b"PK"),
        ("bad.toml", b"[folder\n"),
    ] {
        fs::write(fixture.path(name), bytes).unwrap();
        fs::set_permissions(fixture.path(name), private.clone()).unwrap();
    }
    let good = ["--package", "outhaul-agent_1_amd64.deb", "--stick", "stick"];
    let tries: [(&[&str], i32, &str); 6] = [
        (
            &["--package", "outhaul-hub_1_amd64.deb", "--stick", "stick"],
            2,
            "none of the packages is the agent's",
        ),
        (
            &["--package", "agent.deb", "--stick", "stick"],
            2,
            "has no name of a Debian package",
        ),
        (
            &["--package", "outhaul-agent_2_amd64.deb", "--stick", "stick"],
            2,
            "is no Debian package",
        ),
        (
            &[&good[..], &["--package", "./outhaul-agent_1_amd64.deb"]].concat(),
            2,
            "is given twice",
        ),
        (
            &[&good[..], &["--settings", "bad.toml"]].concat(),
            2,
            "bad.toml",
        ),
        (
            &[
                "--package",
                "outhaul-agent_1_amd64.deb",
                "--stick",
                "nowhere",
            ],
            3,
            "nowhere",
        ),
    ];
    let at = [
        "site",
        "kit",
        "edge-9",
        "--fleet",
        "fleet",
        "--environment",
        "dev",
        "--cluster-type",
        "bench",
    ];
    for (more, code, says) in tries {
        let ran = fixture.run("outhaul", code, &[&at[..], more].concat());
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
        assert!(files_below(&fixture.path("stick")).is_empty());
        assert!(!fixture.path("fleet/sites/edge-9.json").exists());
    }

    // A kit that was written before is put on the stick; one that counts no longer is not.
    let enrol = [
        "site",
        "enrol",
        "edge-9",
        "--fleet",
        "fleet",
        "--environment",
        "dev",
        "--cluster-type",
        "bench",
    ];
    fixture.run(
        "outhaul",
        0,
        &[&enrol[..], &["--out", "first.kit"]].concat(),
    );
    let ran = fixture.run("outhaul", 1, &[&at[..], &good].concat());
    assert!(ran.stderr.contains("has a kit already"), "{}", ran.stderr);
    fixture.run(
        "outhaul",
        0,
        &[&at[..], &good, &["--kit", "first.kit"]].concat(),
    );
    let same = |one: &str, other: &str| {
        fs::read(fixture.path(one)).unwrap() == fs::read(fixture.path(other)).unwrap()
    };
    assert!(same("first.kit", "stick/edge-9/edge-9.kit"));
    let script = fs::read(fixture.path("stick/edge-9/start.sh")).unwrap();
    // Once more: the kit on the stick is kept, and the script with its digest is the same.
    fixture.run("outhaul", 0, &[&at[..], &good].concat());
    assert_eq!(
        fs::read(fixture.path("stick/edge-9/start.sh")).unwrap(),
        script
    );
    fixture.run("outhaul", 0, &[&at[..], &good, &["--again"]].concat());
    assert!(!same("first.kit", "stick/edge-9/edge-9.kit"));
    let ran = fixture.run(
        "outhaul",
        1,
        &[&at[..], &good, &["--kit", "first.kit"]].concat(),
    );
    assert!(
        ran.stderr.contains("not the one that counts"),
        "{}",
        ran.stderr
    );
}
