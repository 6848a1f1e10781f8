//! A rebuilt image whose layers are gzip, as a copy for a site that has the image before.
//!
//! What comes in: two images of a real registry, whose one layer is the documents of this workspace in GNU gzip, of which one
//! differs and every time of a file; and the real programs. What must come out: a copy that is a fraction of the layer,
//! and on site the second image under its original name and digest, pulled by skopeo without a network.

use std::fs;
use std::path::Path;

use outhaul_tests::{available_or_skip, isolated_or_skip, run_script, workspace_root};

use super::{Registry, crane_or_skip, pull, with_image};
use crate::cluster::{SITE, follow_the_example};
use crate::system::{SystemFixture, TO_STICK};

/// Pushes an image whose one layer holds the documents and `text`, written at `at_s`; its digest.
fn push(fixture: &SystemFixture, crane: &Path, name: &str, text: &str, at_s: u32) -> String {
    let script = r#"
        rm -rf rootfs && mkdir -p rootfs/usr/share
        cp -r "$DOCS" rootfs/usr/share/docs
        find rootfs -name '*.png' -delete
        echo "$TEXT" >>rootfs/usr/share/docs/glossary.md
        tar --sort=name --owner=0 --group=0 --mtime="@$AT" -czf layer.tar.gz -C rootfs .
        "$CRANE" append --oci-empty-base -f layer.tar.gz -t "$NAME" >/dev/null 2>&1
        "$CRANE" digest "$NAME"
    "#;
    let mut shell = fixture.command(Path::new("bash"));
    shell
        .args(["-euc", script])
        .env("CRANE", crane)
        .env("DOCS", workspace_root().join("docs"))
        .env("NAME", name)
        .env("TEXT", text)
        .env("AT", at_s.to_string());
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    ran.stdout.trim().to_owned()
}

#[test]
fn a_rebuilt_layer_in_gzip_travels_as_what_changed_and_is_pulled_by_its_digest() {
    if !isolated_or_skip() || !available_or_skip("skopeo") {
        return;
    }
    let Some(crane) = crane_or_skip() else { return };
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    let registry = Registry::start(&crane);
    let name = format!("{}/team/stock-report:1.4.0", registry.address);
    let first = push(&fixture, &crane, &name, "first", 1);
    with_image(&fixture, &name);
    let keys = [&TO_STICK[..], &["--allow-host", &registry.address]].concat();
    fixture.plane(0, "bundle", "dev", &keys);
    fixture.carry(SITE);
    let second = push(&fixture, &crane, &name, "second", 2);
    assert_ne!(first, second);
    let layer = fs::metadata(fixture.path("layer.tar.gz")).unwrap().len();
    let update = [&keys[..], &["--update"]].concat();
    fixture.plane(0, "bundle", "dev", &update);

    fs::create_dir_all(fixture.path("small")).unwrap();
    let copy = [
        "copy",
        "--fleet",
        "fleet",
        "--environment",
        "dev",
        "--to",
        "small",
        "--since",
        "1",
    ];
    let seen = fixture.run("outhaul", 0, &copy);
    let seen = seen.everything();
    let line = seen.lines().find(|line| line.contains("files in gzip"));
    let line = line.unwrap_or_else(|| panic!("{seen}"));
    let (_, rest) = line.split_once(": a patch of ").unwrap();
    let patch: u64 = rest.split(' ').next().unwrap().parse().unwrap();
    println!("layer of {layer} bytes: {line}");
    assert!(patch * 6 < layer, "{line}");

    fixture.agent(SITE, 0, &["import", "small"]);
    let glossary =
        r#"tar -xOf "copy/$(ls -S copy | head -n 1)" ./usr/share/docs/glossary.md | tail -n 1"#;
    let pulled = pull(&fixture, &registry, (&crane, &name), &second, glossary);
    assert!(pulled.contains("second\n"), "{pulled}");
}
