//! A machine that has nothing but Debian and no network, and the centre that its stick comes from.
//!
//! What comes in: a Debian root folder (`OUTHAUL_DEBIAN_ROOT`, which `.ci/debian-root` makes), copied for each machine, and
//! commands that are typed on it in a network namespace of its own. What goes out: what they printed; the kernel counts
//! what tried to leave. Processes see this host's own, and `/proc` is not mounted there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_test_kit::folder;
use outhaul_test_kit::folder::paths;
use outhaul_tests::{Ran, isolated_or_skip, program, run_script, skipped};

use super::since;
use super::system::SystemFixture;

/// The stick, as the machine sees it.
pub const STICK: &str = "/media/stick";

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
        folder::copy(Path::new(&root), &fixture.path("root"));
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
    pub fn kit(&self, site: &str, code: i32, more: &[&str]) -> Ran {
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
    pub fn visit(&self, stick: &str, site: &str, code: i32) -> Ran {
        self.types(stick, "", code, &format!("sh {STICK}/{site}/start.sh"))
    }

    /// Nothing of Outhaul is on the machine.
    #[track_caller]
    pub fn is_untouched(&self) {
        let ours = |path: &Path| path.to_string_lossy().contains("outhaul");
        let root = self.fixture.path("root");
        let below = |path: PathBuf| path.strip_prefix(&root).unwrap().to_owned();
        for folder in ["usr/bin", "usr/lib/systemd", "var/lib", "var/tmp", "etc"] {
            let files = paths(&root.join(folder)).into_iter().map(below);
            let found: Vec<PathBuf> = files.filter(|path| ours(path)).collect();
            assert!(found.is_empty(), "{found:?}");
        }
    }

    pub fn hub(&self, arguments: &[&str]) -> Ran {
        let all = [&["--state", "hub"][..], arguments].concat();
        self.fixture.run("outhaul-hub", 0, &all)
    }
}
