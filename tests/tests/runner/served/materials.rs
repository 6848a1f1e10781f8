//! What an image holds, from its layers to a bill of materials in the bundle.
//!
//! What comes in: an image of a real registry, made of the package database and `os-release` of a real Debian, with a layer on top;
//! and what dpkg itself says of that database. What must come out: a signed document with the same packages, which a
//! scanner is given, which stays the same blob while the image does, and which names what is not known.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use outhaul_tests::{available_or_skip, run_script};
use serde_json::Value;

use super::{Registry, crane_or_skip, with_image};
use crate::cluster::{SITE, follow_the_example};
use crate::system::{SystemFixture, TO_STICK};

/// Pushes an image with the databases of `root`; on top a layer with `note`, which removes the documentation. Its digest.
fn push(fixture: &SystemFixture, (crane, root): (&Path, &Path), name: &str, note: &str) -> String {
    let script = r#"
        tar --owner=0 --group=0 --mtime=@0 -czf base.tar.gz -C "$ROOT" ./etc/os-release ./usr/lib/os-release ./var/lib/dpkg/status
        rm -rf top && mkdir -p top/usr/share top/app
        touch top/usr/share/.wh.doc
        echo "$NOTE" >top/app/note
        tar --sort=name --owner=0 --group=0 --mtime=@0 -czf top.tar.gz -C top .
        "$CRANE" append --oci-empty-base -f base.tar.gz -f top.tar.gz -t "$NAME" >/dev/null 2>&1
        "$CRANE" mutate --set-platform linux/amd64 -t "$NAME" "$NAME" >/dev/null 2>&1
        "$CRANE" digest "$NAME"
    "#;
    let mut shell = fixture.command(Path::new("bash"));
    shell
        .args(["-euc", script])
        .env("CRANE", crane)
        .env("ROOT", root)
        .env("NAME", name)
        .env("NOTE", note);
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    ran.stdout.trim().to_owned()
}

fn document(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap()
}

/// What dpkg says is installed: name, version, architecture.
fn installed(fixture: &SystemFixture, root: &Path) -> BTreeSet<String> {
    let admin = root.join("var/lib/dpkg");
    let mut query = fixture.command(Path::new("dpkg-query"));
    query.arg(format!("--admindir={}", admin.display())).args([
        "-W",
        "-f",
        "${db:Status-Status} ${Package} ${Version} ${Architecture}\n",
    ]);
    let ran = run_script(&mut query).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    let lines = ran.stdout.lines();
    lines
        .filter_map(|line| line.strip_prefix("installed "))
        .map(str::to_owned)
        .collect()
}

fn listed(document: &Value) -> BTreeSet<String> {
    let components = document["components"].as_array().unwrap().iter();
    let packages = components.filter(|one| one["type"] == "library");
    let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    packages
        .map(|one| {
            let purl = text(one, "purl");
            assert!(purl.contains("&distro=debian-12"), "{purl}");
            let (_, rest) = purl.split_once("?arch=").unwrap();
            let (architecture, _) = rest.split_once('&').unwrap();
            format!(
                "{} {} {architecture}",
                text(one, "name"),
                text(one, "version")
            )
        })
        .collect()
}

/// The example, whose policy has each bundle scanned by a program that keeps what it reads; the option that names it.
fn with_scanner(fixture: &SystemFixture) -> String {
    let scanner = fixture.path("scanner");
    fs::write(&scanner, "#!/bin/sh\ncat >scanned.json\necho scanned\n").unwrap();
    fs::set_permissions(&scanner, PermissionsExt::from_mode(0o755)).unwrap();
    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("delivery/cluster.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{}\n  scan: packages\n", text.trim_end())).unwrap();
    });
    format!("packages={}", scanner.display())
}

#[test]
fn an_images_packages_are_in_the_bundle_as_dpkg_lists_them_and_a_scanner_reads_them() {
    if !available_or_skip("dpkg-query") {
        return;
    }
    let Some(root) = std::env::var_os("OUTHAUL_DEBIAN_ROOT").map(PathBuf::from) else {
        outhaul_tests::skipped(
            "there is no Debian root: set OUTHAUL_DEBIAN_ROOT to what `.ci/debian-root` prints",
        );
        return;
    };
    let Some(crane) = crane_or_skip() else { return };
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    let registry = Registry::start(&crane);
    let name = format!("{}/team/stock-report:1.4.0", registry.address);
    let digest = push(&fixture, (&crane, &root), &name, "first");
    with_image(&fixture, &name);
    let scanner = with_scanner(&fixture);
    let keys = [
        &TO_STICK[..],
        &["--allow-host", &registry.address, "--scanner", &scanner],
    ]
    .concat();
    fixture.plane(0, "bundle", "dev", &keys);
    let file = "stick/dev-store-1.outhaul";
    let verify = ["verify", file, "--fleet", "fleet", "--attestations", "said"];
    let said = fixture.run("outhaul", 0, &verify);
    assert!(
        said.stdout.contains("attestations: 3 files written"),
        "{}",
        said.stdout
    );
    let folder = fixture.path("said");
    let of_image = format!("image-{}.cdx.json", digest.strip_prefix("sha256:").unwrap());
    let materials = document(&folder, &of_image);
    let expected = installed(&fixture, &root);
    assert!(expected.len() > 50, "{expected:?}");
    assert_eq!(listed(&materials), expected);
    assert_eq!(materials["metadata"]["component"]["name"], name);

    // The bundle's own names the assignment that needs it, and the document.
    let own = document(&folder, "sbom.cdx.json");
    let containers = own["components"].as_array().unwrap().iter();
    let container = containers.filter(|one| one["type"] == "container");
    let container: Vec<_> = container.map(Value::to_string).collect();
    assert_eq!(container.len(), 1, "{container:?}");
    assert!(
        container[0].contains("stock-report-nightly"),
        "{container:?}"
    );
    assert!(container[0].contains(&of_image), "{container:?}");
    let scanned = document(&fixture.path("."), "scanned.json");
    assert_eq!(
        listed(&scanned),
        expected,
        "the scanner reads what images hold"
    );

    // A change beside the image: its bill of materials is the same blob, which a copy for whoever has it leaves out.
    let blob = |file: &str| {
        let reported = fixture.run("outhaul", 0, &["inspect", file, "--output", "json"]);
        let reported = outhaul_tests::result(&reported.stdout);
        let all = reported["index"]["attestations"]
            .as_array()
            .unwrap()
            .clone();
        let one = all.into_iter().find(|one| one["path"] == of_image.as_str());
        one.unwrap()["content"].clone()
    };
    fixture.on_branch("manifests", "dev", |folder| {
        fs::write(folder.join("notes.md"), "second\n").unwrap();
    });
    fixture.plane(0, "bundle", "dev", &keys);
    assert_eq!(blob(file), blob("stick/dev-store-2.outhaul"));

    // A layer on top is unpacked, the one below is known: what is kept of layers is all that is read of it.
    let other = push(&fixture, (&crane, &root), &name, "second");
    assert_ne!(digest, other);
    fixture.plane(0, "bundle", "dev", &[&keys[..], &["--update"]].concat());
    let verify = [
        "verify",
        "stick/dev-store-3.outhaul",
        "--fleet",
        "fleet",
        "--attestations",
        "next",
    ];
    fixture.run("outhaul", 0, &verify);
    those_of_one_bundle_stay(&fixture, &verify[..5]);
    fixture.run("outhaul", 0, &verify);
    let of_other = format!("image-{}.cdx.json", other.strip_prefix("sha256:").unwrap());
    assert_eq!(
        listed(&document(&fixture.path("next"), &of_other)),
        expected
    );
    who_is_affected(&fixture);
    statements_travel(&fixture, &keys);
}

/// The attestations of one bundle do not take the place of another's in the folder `said`.
fn those_of_one_bundle_stay(fixture: &SystemFixture, verify: &[&str]) {
    let bill = fixture.path("said/sbom.cdx.json");
    let before = fs::read(&bill).unwrap();
    let refused = fixture.run("outhaul", 2, &[verify, &["said"]].concat());
    let printed = refused.everything();
    assert!(printed.contains("nothing was written"), "{printed}");
    assert_eq!(fs::read(&bill).unwrap(), before);
}

/// An advisory about Debian's `apt`, in the form in which osv.dev has them.
fn advisory(id: &str, release: &str, fixed: &str) -> String {
    format!(
        r#"{{"id":"{id}","modified":"2026-11-20T00:00:00Z","upstream":["CVE-2026-1"],"details":"apt - security update",
            "affected":[{{"package":{{"ecosystem":"Debian:{release}","name":"apt"}},
            "ranges":[{{"type":"ECOSYSTEM","events":[{{"introduced":"0"}},{{"fixed":"{fixed}"}}]}}]}}]}}"#
    )
}

const VEX: &str = r#"{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://example.org/1","author":"Team A",
    "timestamp":"2026-11-21T00:00:00Z","version":1,"statements":[{"vulnerability":{"name":"CVE-2026-1"},
    "products":[{"@id":"pkg:oci/stock-report","subcomponents":[{"@id":"pkg:deb/debian/apt"},{"@id":"pkg:deb/debian/libapt-pkg6.0"}]}],
    "status":"not_affected","justification":"vulnerable_code_not_in_execute_path"}]}"#;

fn hub(fixture: &SystemFixture, code: i32, arguments: &[&str]) -> String {
    let arguments = [arguments, &["--state", "hub"]].concat();
    fixture.run("outhaul-hub", code, &arguments).stdout
}

/// What the stick brought home is what a hub answers from: before, a bundle on record whose site never reported.
fn who_is_affected(fixture: &SystemFixture) {
    let hub = |code: i32, arguments: &[&str]| hub(fixture, code, arguments);
    let import = |name: &str, text: &str| {
        fs::write(fixture.path(name), text).unwrap();
        hub(0, &["advisories", "import", name, "--by", "ann"])
    };
    hub(0, &["import", "stick"]);
    import("old.json", &advisory("DSA-1-1", "12", "1.0"));
    let never = hub(1, &["advisories", "show", "DSA-1-1"]);
    assert!(never.contains("it never reported"), "{never}");
    fixture.carry(SITE);
    fixture.home(SITE);
    let fixed = hub(0, &["advisories", "show", "DSA-1-1"]);
    assert!(
        fixed.contains("0 sites affected, 0 unknown, 1 not affected"),
        "{fixed}"
    );
    // Of another release nobody knows.
    import("other.json", &advisory("DSA-1-1", "11", "1.0"));
    let other = hub(1, &["advisories", "show", "CVE-2026-1"]);
    assert!(
        other.contains("the advisory does not cover that release"),
        "{other}"
    );
    import("new.json", &advisory("DSA-2-1", "12", "99"));
    let affected = hub(1, &["advisories", "show", "CVE-2026-1"]);
    assert!(
        affected.contains("1 site affected, 0 unknown, 0 not affected"),
        "{affected}"
    );
    assert!(affected.contains("(source apt "), "{affected}");
    assert!(
        affected.contains("for stock-report-nightly; fixed in 99"),
        "{affected}"
    );
    import("team.vex.json", VEX);
    let cleared = hub(0, &["advisories", "show", "DSA-2-1"]);
    assert!(cleared.contains("`not_affected` by Team A"), "{cleared}");
}

/// Statements that a policy makes travel clear what is in the bundle that carries them, once the site runs it.
fn statements_travel(fixture: &SystemFixture, keys: &[&str]) {
    let imported = outhaul_bundle::Digest::of(VEX.as_bytes()).to_string();
    hub(
        fixture,
        0,
        &["advisories", "remove", &imported, "--by", "ann"],
    );
    let show = ["advisories", "show", "DSA-2-1"];
    hub(fixture, 1, &show);
    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("delivery/cluster.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let lines = VEX.lines().map(|line| format!("        {line}\n"));
        let vex = lines.collect::<String>();
        let text = format!(
            "{}\n  vex:\n    - name: team-a\n      json: |\n{vex}",
            text.trim_end()
        );
        fs::write(path, text).unwrap();
    });
    fixture.plane(0, "bundle", "dev", keys);
    let verify = [
        "verify",
        "stick/dev-store-4.outhaul",
        "--fleet",
        "fleet",
        "--attestations",
        "stated",
    ];
    fixture.run("outhaul", 0, &verify);
    let carried = fs::read_to_string(fixture.path("stated/team-a.openvex.json")).unwrap();
    assert_eq!(carried, format!("{VEX}\n"));
    // The hub has the bundle, and the site still runs the one before.
    hub(fixture, 0, &["import", "stick"]);
    hub(fixture, 1, &show);
    fixture.carry(SITE);
    fixture.home(SITE);
    let cleared = hub(fixture, 0, &show);
    assert!(
        cleared.contains("`not_affected` by Team A since 2026-11-21T00:00:00Z, in the bundle: "),
        "{cleared}"
    );
    // What is said again is another bundle, and the same is the same one.
    let again = fixture.plane(0, "bundle", "dev", keys);
    assert!(
        again.everything().contains("unchanged"),
        "{}",
        again.everything()
    );
}
