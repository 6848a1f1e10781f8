//! Images of several platforms of which a policy has some travel.
//!
//! What comes in: an index of a real registry with three platforms, and policies. What must come out: the index as it is, with what was
//! chosen and nothing else; on site a pull of a chosen platform by the original digest; the name of what an image does not have.

use std::fs;
use std::path::Path;

use outhaul_tests::{isolated_or_skip, run_script};
use serde_json::Value;

use super::{Registry, at_plain_mirror, crane_or_skip, with_image};
use crate::cluster::{SITE, follow_the_example};
use crate::system::SystemFixture;

/// Pushes an index with an image each for amd64, arm64 and arm/v7; its digest.
fn push_index(fixture: &SystemFixture, crane: &Path, name: &str) -> String {
    let script = r#"
        members=()
        for platform in linux/amd64 linux/arm64 linux/arm/v7; do
          rm -rf rootfs && mkdir rootfs
          echo "$platform" >rootfs/report
          head -c 100000 /dev/urandom >rootfs/noise
          tar --sort=name --owner=0 --group=0 --mtime=@0 -czf layer.tar.gz -C rootfs .
          one=${NAME%:*}:${platform//\//-}
          "$CRANE" append --oci-empty-base -f layer.tar.gz -t "$one" >/dev/null 2>&1
          "$CRANE" mutate --set-platform "$platform" -t "$one" "$one" >/dev/null 2>&1
          members+=(-m "$one")
        done
        "$CRANE" index append "${members[@]}" -t "$NAME" >/dev/null 2>&1
        "$CRANE" digest "$NAME"
    "#;
    let mut shell = fixture.command(Path::new("bash"));
    shell
        .args(["-euc", script])
        .env("CRANE", crane)
        .env("NAME", name);
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    ran.stdout.trim().to_owned()
}

fn chosen(fixture: &SystemFixture, platforms: &str) {
    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("delivery/cluster.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| !line.contains("platforms:"));
        let text = lines.collect::<Vec<_>>().join("\n");
        fs::write(path, format!("{}\n{platforms}", text.trim_end())).unwrap();
    });
}

#[test]
fn the_platforms_of_a_policy_travel_below_an_index_that_stays_as_it_is() {
    if !isolated_or_skip() {
        return;
    }
    let Some(crane) = crane_or_skip() else { return };
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    let registry = Registry::start(&crane);
    let name = format!("{}/team/stock-report:1.4.0", registry.address);
    let digest = push_index(&fixture, &crane, &name);
    with_image(&fixture, &name);
    let keys = "--fleet fleet --passphrase-file passphrase --out stick --allow-host";
    let mut arguments: Vec<&str> = keys.split(' ').collect();
    arguments.push(&registry.address);
    let bytes = |number: u32| {
        let file = format!("stick/dev-store-{number}.outhaul");
        fs::metadata(fixture.path(&file)).unwrap().len()
    };
    fixture.plane(0, "bundle", "dev", &arguments);

    chosen(&fixture, "  platforms: [linux/arm64]\n");
    let estimate = fixture.plane(
        0,
        "bundle",
        "dev",
        &[
            "--fleet",
            "fleet",
            "--passphrase-file",
            "passphrase",
            "--estimate",
            "--allow-host",
            &registry.address,
        ],
    );
    assert!(
        estimate.stdout.contains("linux/arm64"),
        "{}",
        estimate.stdout
    );
    assert!(
        !estimate.stdout.contains("linux/amd64"),
        "{}",
        estimate.stdout
    );
    fixture.plane(0, "bundle", "dev", &arguments);
    assert!(bytes(2) + 190_000 < bytes(1), "{} {}", bytes(2), bytes(1));
    let shown = fixture.run(
        "outhaul",
        0,
        &["inspect", "stick/dev-store-2.outhaul", "--output", "json"],
    );
    let shown = outhaul_tests::result(&shown.stdout);
    let image = &shown["index"]["served"]["images"][0];
    assert_eq!(image["manifest"]["digest"], Value::String(digest.clone()));
    // A manifest, its config and its layer.
    assert_eq!(image["blobs"].as_array().unwrap().len(), 3, "{image}");

    fixture.carry(SITE);
    let script = r#"
        "$CRANE" digest "$NAME"
        "$CRANE" export --platform linux/arm64 "$NAME" - | tar -xOf - report
        ! "$CRANE" export --platform linux/amd64 "$NAME" - >other 2>said
        grep -o 'MANIFEST_UNKNOWN' said | head -n 1
    "#;
    let listen = registry.address.replace("localhost", "127.0.0.1");
    let programs = [("CRANE", crane.as_path()), ("NAME", Path::new(&name))];
    let pulled = at_plain_mirror(&fixture, &listen, script, &programs);
    let expected = format!("{digest}\nlinux/arm64\nMANIFEST_UNKNOWN\n");
    assert!(pulled.starts_with(&expected), "{pulled}");

    // One that it has and one that it does not have; and the one that is there is not what the policy says.
    chosen(&fixture, "  platforms: [linux/arm, linux/riscv64]\n");
    let ran = fixture.plane(0, "bundle", "dev", &arguments);
    for words in ["platform-missing", "has no `linux/riscv64`", &name] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.everything());
    }
    chosen(&fixture, "  platforms: [linux/s390x]\n");
    let ran = fixture.plane(1, "bundle", "dev", &arguments);
    let has = "is for none of `linux/s390x`; it has `linux/amd64`, `linux/arm/v7`, `linux/arm64`";
    assert!(ran.stderr.contains(has), "{}", ran.everything());

    // An image without an index is for what its config says.
    let one = format!("{}/team/stock-report:linux-amd64", registry.address);
    fixture.on_branch("manifests", "dev", |folder| {
        let path = folder.join("report.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace(&name, &one)).unwrap();
    });
    let ran = fixture.plane(1, "bundle", "dev", &arguments);
    let other = "is for `linux/amd64`, and not for `linux/s390x`";
    assert!(ran.stderr.contains(other), "{}", ran.everything());
    chosen(&fixture, "  platforms: [linux/amd64]\n");
    fixture.plane(0, "bundle", "dev", &arguments);
}
