//! Which generation is served, and what of it.

use std::fs;
use std::process::Command;

use outhaul_serve::digest::Digest;
use outhaul_tests::run;
use serde_json::json;

use crate::site::{INDEX, MANIFEST, Site, program};

const HELLO: &str = "/v2/docker.io/library/hello";

#[test]
fn after_a_switch_the_other_generation_is_served_and_after_a_rollback_the_older_one() {
    let (site, server) = Site::serving(|layout| {
        layout.image("docker.io/library/hello:1", b"old");
    });
    let mut layout = site.layout("2", "images");
    let new = layout.image("docker.io/library/hello:1", b"new");
    layout.write();
    site.catalog("2", &json!({ "layouts": [{ "folder": "images" }] }));
    let served = || {
        let answer = server.get(&format!("{HELLO}/manifests/1"));
        assert_eq!(answer.status, 200);
        answer.header("docker-content-digest").to_owned()
    };
    let old = served();
    let blob = |content: &[u8]| {
        let path = format!("{HELLO}/blobs/{}", Digest::of(content));
        server.get(&path).status
    };
    assert_eq!((blob(b"old"), blob(b"new")), (200, 404));
    site.activate("2");
    assert_eq!(served(), new.to_string());
    assert_eq!((blob(b"old"), blob(b"new")), (404, 200));
    site.activate("1");
    assert_eq!(served(), old);
    assert_eq!((blob(b"old"), blob(b"new")), (200, 404));
}

#[test]
fn while_nothing_is_active_the_answer_says_so_and_later_it_is_served() {
    let site = Site::new();
    let server = site.serve();
    assert_eq!(server.get("/v2/").status, 200);
    let answer = server.get(&format!("{HELLO}/manifests/1"));
    assert_eq!((answer.status, answer.header("retry-after")), (503, "10"));
    assert!(String::from_utf8_lossy(&answer.body).contains("no generation is active yet"));
    let mut layout = site.layout("1", "images");
    layout.image("docker.io/library/hello:1", b"x");
    layout.write();
    site.catalog("1", &json!({ "layouts": [{ "folder": "images" }] }));
    site.activate("1");
    assert_eq!(server.get(&format!("{HELLO}/manifests/1")).status, 200);
}

#[test]
fn a_blob_of_another_repository_is_unknown_even_where_it_lies_in_the_same_layout() {
    let (_site, server) = Site::serving(|layout| {
        layout.image("docker.io/library/hello:1", b"mine");
        layout.image("docker.io/library/other:1", b"theirs");
        layout.blob(b"nobody's");
    });
    let status = |content: &[u8]| {
        let digest = Digest::of(content);
        server.get(&format!("{HELLO}/blobs/{digest}")).status
    };
    assert_eq!(
        (status(b"mine"), status(b"theirs"), status(b"nobody's")),
        (200, 404, 404)
    );
}

#[test]
fn an_index_with_one_platform_left_out_is_served_as_it_is() {
    let mut platform = None;
    let (_site, server) = Site::serving(|layout| {
        let config = layout.descriptor("application/vnd.oci.image.config.v1+json", b"{}");
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [] });
        let there = layout.descriptor(MANIFEST, manifest.to_string().as_bytes());
        let absent = Digest::of(b"arm64").to_string();
        let absent = json!({ "mediaType": MANIFEST, "digest": absent, "size": 5 });
        platform = Some((there["digest"].clone(), absent["digest"].clone()));
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [there, absent] });
        layout.entry(Some("docker.io/library/hello:1"), INDEX, &index);
    });
    let (there, absent) = platform.unwrap();
    let answer = server.get(&format!("{HELLO}/manifests/1"));
    assert_eq!((answer.status, answer.header("content-type")), (200, INDEX));
    let status = |digest: &serde_json::Value| {
        let path = format!("{HELLO}/manifests/{}", digest.as_str().unwrap());
        server.get(&path).status
    };
    assert_eq!((status(&there), status(&absent)), (200, 404));
}

#[test]
fn check_lists_what_is_served_and_names_what_is_not() {
    let (site, _server) = Site::serving(|layout| {
        layout.image("docker.io/library/hello:1", b"x");
        layout.image("2.0", b"nameless");
        let damaged = layout.image("docker.io/library/damaged:1", b"y");
        fs::write(layout.path(&damaged), b"{}").unwrap();
    });
    let check = |more: &[&str]| {
        let mut command = Command::new(program());
        command
            .args(["check", "--state"])
            .arg(site.root.path())
            .args(more);
        run(&mut command).unwrap()
    };
    let found = check(&[]);
    assert_eq!(found.code, Some(1), "{}", found.everything());
    assert_eq!(found.stdout, "image docker.io/library/hello: 1\n");
    assert!(
        found.stderr.contains("tag `2.0` has no image name"),
        "{}",
        found.stderr
    );
    assert!(
        found.stderr.contains("the stored bytes of sha256:"),
        "{}",
        found.stderr
    );
    let found = check(&["--output", "json"]);
    let envelope = outhaul_tests::envelope(&found.stdout, found.code).unwrap();
    assert_eq!(envelope["findings"].as_array().unwrap().len(), 2);

    site.activate("9");
    let found = check(&[]);
    assert_eq!(found.code, Some(3), "{}", found.everything());
    site.activate("../etc");
    let found = check(&[]);
    assert_eq!(found.code, Some(2), "{}", found.everything());
    assert!(found.stderr.contains("help: "));
}

#[test]
fn plain_http_is_served_to_this_machine_alone() {
    let site = Site::new();
    let mut command = Command::new(program());
    command.args(["run", "--plain-http", "--listen", "0.0.0.0:0", "--state"]);
    let refused = run(command.arg(site.root.path())).unwrap();
    assert_eq!(refused.code, Some(2), "{}", refused.everything());
    assert!(refused.stderr.contains("`serve.listen` is `0.0.0.0:0`"));
}

#[test]
fn a_mistyped_state_folder_is_named_and_not_made() {
    let site = Site::new();
    let mistyped = site.root.path().join("stat");
    for words in [&["check"][..], &["run", "--listen", "127.0.0.1:0"][..]] {
        let mut command = Command::new(program());
        let refused = run(command.args(words).arg("--state").arg(&mistyped)).unwrap();
        assert_eq!(refused.code, Some(2), "{}", refused.everything());
        assert!(refused.stderr.contains("there is no state folder `"));
        assert!(refused.stderr.contains("help: name the folder that"));
        assert!(!mistyped.exists());
    }
}

/// As a disk that forgets: the manifest is whole, a layer of it is not, and no client would get the image.
#[test]
fn check_reads_every_layer_and_names_the_image_of_one_that_is_damaged_or_gone() {
    for damage in ["altered", "shortened", "removed"] {
        let mut path = None;
        let (site, _server) = Site::serving(|layout| {
            let manifest = layout.image("docker.io/library/hello:1", b"what it holds");
            let text = fs::read(layout.path(&manifest)).unwrap();
            let found: serde_json::Value = serde_json::from_slice(&text).unwrap();
            let layer: Digest =
                Digest::parse(found["layers"][0]["digest"].as_str().unwrap()).unwrap();
            path = Some(layout.path(&layer));
        });
        let path = path.unwrap();
        let mut bytes = fs::read(&path).unwrap();
        match damage {
            "altered" => {
                bytes[0] ^= 1;
                fs::write(&path, bytes).unwrap();
            }
            "shortened" => fs::write(&path, &bytes[1..]).unwrap(),
            _ => fs::remove_file(&path).unwrap(),
        }
        let mut command = Command::new(program());
        let found = run(command.args(["check", "--state"]).arg(site.root.path())).unwrap();
        assert_eq!(found.code, Some(1), "{damage}: {}", found.everything());
        let reported = &found.stderr;
        assert!(
            reported.contains("image docker.io/library/hello: ") && reported.contains("help: "),
            "{damage}: {reported}"
        );
    }
}
