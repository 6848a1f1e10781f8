//! What a workload lists: a file by URL and digest, and Debian packages, which a machine without a network installs with
//! its own `apt` from what its mirror serves.
//!
//! What comes in: a small control plane, a web server on this machine, and packages made by `dpkg-deb`. What must come
//! out: the file in the payload on site; an installed package in a Debian root, in a namespace without egress, the older
//! one after a rollback; a list without a good digest is refused with its place.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use outhaul_test_kit::folder;
use outhaul_tests::{Ran, available_or_skip, isolated_or_skip, program, run_script, skipped};

use super::since;
use super::system::{BASE_COMMIT, KEYS, SystemFixture, in_folders};

const SITE: &str = "bench-1";
const LIST: &str = "files/app/outhaul-files.toml";

/// A web server that has the fixture's folder `web`.
struct Web {
    child: Child,
    address: String,
}

impl Web {
    fn start(fixture: &SystemFixture) -> Self {
        fs::create_dir_all(fixture.path("web")).unwrap();
        let mut child = Command::new("python3")
            .args([
                "-u",
                "-m",
                "http.server",
                "0",
                "--bind",
                "127.0.0.1",
                "--directory",
            ])
            .arg(fixture.path("web"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line
            .split("port ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let address = format!("127.0.0.1:{}", port.unwrap());
        Self { child, address }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `outhaul bundle`, or with `more` an estimate.
fn bundle(fixture: &SystemFixture, web: &Web, code: i32, more: &[&str]) -> Ran {
    let at = in_folders("bundle", "dev", BASE_COMMIT);
    let files = ["--source", "https://git.example/files=files"];
    let hosts = ["--allow-host", &web.address];
    let out: &[&str] = match more.contains(&"--estimate") {
        true => &[],
        false => &["--out", "stick"],
    };
    let arguments = [&at[..], &files, &KEYS, &hosts, out, more];
    fixture.run("outhaul", code, &arguments.concat())
}

/// A package whose program prints `says`; returns its digest.
fn package(fixture: &SystemFixture, to: &str, name: &str, version: &str, says: &str) -> String {
    let script = r#"
        rm -rf made && mkdir -p made/DEBIAN made/usr/bin "$(dirname "$TO")"
        printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: a tool\n' "$NAME" "$VERSION" >made/DEBIAN/control
        printf '#!/bin/sh\necho "%s"\n' "$SAYS" >"made/usr/bin/$NAME"
        chmod 755 "made/usr/bin/$NAME"
        SOURCE_DATE_EPOCH=1600000000 dpkg-deb --build --root-owner-group made "$TO" >/dev/null
        sha256sum "$TO" | cut -d ' ' -f 1
    "#;
    let mut shell = fixture.command(Path::new("bash"));
    shell.args(["-euc", script]);
    shell
        .env("TO", to)
        .env("NAME", name)
        .env("VERSION", version)
        .env("SAYS", says);
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    ran.stdout.trim().to_owned()
}

fn list(fixture: &SystemFixture, web: &Web, file: &str, package: &str) {
    let text = format!(
        "[[file]]\nurl = \"http://{0}/model.onnx\"\nsha256 = \"{file}\"\npath = \"models/model.onnx\"\n\n\
         [[package]]\nurl = \"http://{0}/press-tool.deb\"\nsha256 = \"{package}\"\n\n\
         [[package]]\npath = \"packages/press-data.deb\"\n",
        web.address
    );
    fs::write(fixture.path(LIST), text).unwrap();
}

/// The fixture with a file and two packages, as bundle 2.
fn listed() -> (SystemFixture, Web) {
    let fixture = since::fixture(2);
    let web = Web::start(&fixture);
    fs::write(fixture.path("web/model.onnx"), vec![7; 300_000]).unwrap();
    let file = "e5b0e7b2e0d0f6a7".to_owned();
    let tool = package(
        &fixture,
        "web/press-tool.deb",
        "press-tool",
        "1.0",
        "tool 1.0",
    );
    package(
        &fixture,
        "files/app/packages/press-data.deb",
        "press-data",
        "1:3",
        "data 3",
    );
    list(&fixture, &web, &file, &tool);
    let at = in_folders("check", "dev", BASE_COMMIT);
    let files = ["--source", "https://git.example/files=files"];
    let ran = fixture.run("outhaul", 1, &[&at[..], &files].concat());
    for says in [
        "its list of files is wrong: `sha256` is not 64 hexadecimal digits",
        "outhaul-files.toml:3:",
    ] {
        assert!(ran.everything().contains(says), "{}", ran.everything());
    }
    let ran = run_script(
        fixture
            .command(Path::new("sha256sum"))
            .arg("web/model.onnx"),
    )
    .unwrap();
    let file = ran.stdout.split(' ').next().unwrap().to_owned();
    list(&fixture, &web, &file, &tool);
    (fixture, web)
}

#[test]
fn a_file_and_packages_that_a_workload_lists_travel_and_what_is_another_one_is_refused_by_name() {
    if !available_or_skip("dpkg-deb") {
        return;
    }
    let (fixture, web) = listed();
    let ran = bundle(&fixture, &web, 0, &["--estimate"]);
    assert!(ran.stdout.contains("files, "), "{}", ran.stdout);
    bundle(&fixture, &web, 0, &[]);
    let again = bundle(&fixture, &web, 0, &[]);
    assert!(again.stderr.contains("unchanged"), "{}", again.everything());
    fixture.site(SITE, "dev", "bench");
    fixture.carry(SITE);
    let state = fixture.path(&format!("sites/{SITE}"));
    let model = state.join("applied/lamp-dim/payload/models/model.onnx");
    assert_eq!(fs::read(model).unwrap(), vec![7; 300_000]);
    let state = state.display().to_string();
    let ran = fixture.run("outhaul-mirror", 0, &["--state", &state, "check"]);
    assert!(
        ran.stdout.contains("apt lamp-dim: 2 packages\n"),
        "{}",
        ran.stdout
    );
}

/// What is typed on the machine.
const TYPED: &str = r"
    outhaul-mirror run >/run/mirror-url 2>/run/mirror-log &
    mirror=$!
    trap 'kill $mirror' EXIT
    until [ -s /run/mirror-url ]; do kill -0 $mirror; done
    [ -e /etc/apt/sources.list.d/outhaul.sources ] || outhaul-mirror apt >&2
    apt-get update >&2
    apt-get install -y --allow-downgrades press-tool=$1 press-data >&2
    press-tool
    press-data
    apt-cache policy press-tool | grep -c https://127.0.0.1:5443/apt/lamp-dim
";

#[test]
fn apt_on_a_machine_without_a_network_installs_what_a_bundle_brought_and_the_older_after_a_rollback()
 {
    let Some(root) = std::env::var_os("OUTHAUL_DEBIAN_ROOT") else {
        return skipped(
            "there is no Debian root: set OUTHAUL_DEBIAN_ROOT to what `.ci/debian-root` prints",
        );
    };
    if !isolated_or_skip() || !available_or_skip("dpkg-deb") {
        return;
    }
    let (fixture, web) = listed();
    bundle(&fixture, &web, 0, &[]);
    fixture.site(SITE, "dev", "bench");
    fixture.carry(SITE);
    let tool = package(
        &fixture,
        "web/press-tool.deb",
        "press-tool",
        "2.0",
        "tool 2.0",
    );
    let text = fs::read_to_string(fixture.path(LIST)).unwrap();
    let at = text.rfind("press-tool.deb\"\nsha256 = \"").unwrap() + 26;
    fs::write(
        fixture.path(LIST),
        format!("{}{tool}{}", &text[..at], &text[at + 64..]),
    )
    .unwrap();
    bundle(&fixture, &web, 0, &[]);
    fixture.carry(SITE);
    drop(web);

    folder::copy(Path::new(&root), &fixture.path("root"));
    fs::copy(
        program("outhaul-mirror").unwrap(),
        fixture.path("root/usr/bin/outhaul-mirror"),
    )
    .unwrap();
    // A machine that no network reaches has no other source.
    let _ = fs::remove_file(fixture.path("root/etc/apt/sources.list"));
    let installed = |version: &str| {
        let script = r#"
            ip link set lo up
            mkdir -p "$ROOT/var/lib/outhaul-agent"
            mount --bind "$STATE" "$ROOT/var/lib/outhaul-agent"
            code=0
            env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$ROOT" sh -euc "$TYPED" sh "$VERSION" || code=$?
            awk '$1 == "Ip:" { if (!n) { for (i = 1; i <= NF; i++) if ($i == "OutNoRoutes") n = i } else print "tried to leave:", $n }' /proc/net/snmp
            exit $code
        "#;
        let mut shell = fixture.command(Path::new("unshare"));
        shell.args(["--net", "--mount", "sh", "-euc", script]);
        shell
            .env("ROOT", fixture.path("root"))
            .env("TYPED", TYPED)
            .env("VERSION", version);
        shell.env("STATE", fixture.path(&format!("sites/{SITE}")));
        let ran = run_script(&mut shell).unwrap();
        assert_eq!(ran.code, Some(0), "{}", ran.everything());
        assert!(
            ran.stdout.ends_with("tried to leave: 0\n"),
            "{}",
            ran.everything()
        );
        ran.stdout
    };
    assert!(installed("2.0").starts_with("tool 2.0\ndata 3\n"));
    fixture.agent(SITE, 0, &["rollback", "--who", "ann"]);
    assert!(installed("1.0").starts_with("tool 1.0\ndata 3\n"));

    // What was changed on the way to apt is not installed: it does not even get there.
    let generation = fixture.path(&format!(
        "sites/{SITE}/generations/2/payload/lamp-dim/outhaul-apt"
    ));
    let release = fs::read_to_string(generation.join("InRelease")).unwrap();
    assert!(
        release.starts_with("-----BEGIN PGP SIGNED MESSAGE-----\n")
            && release.contains("Label: lamp-dim\n"),
        "{release}"
    );
}
