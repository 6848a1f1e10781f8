//! What a bundle brings is served under its original name: by `outhaul-mirror`, from the generation that the
//! site needs now.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use outhaul_bundle::Digest;
use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::{run, run_expecting};
use serde_json::json;

use crate::site::Site;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// `outhaul-mirror run` on a site's state folder; ended when dropped.
struct Mirror {
    child: Child,
    url: String,
}

impl Mirror {
    fn start(site: &Site) -> Self {
        let mut child = Command::new(outhaul_tests::program("outhaul-mirror").unwrap())
            .arg("run")
            .arg("--state")
            .arg(site.state())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let url = line.trim().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Self { child, url }
    }

    /// The status, and what came.
    fn get(&self, path: &str) -> (String, String) {
        let mut curl = Command::new("curl");
        let url = format!("{}{path}", self.url);
        let ran = run_expecting(curl.args(["-sS", "-w", "\n%{http_code}", &url]), 0).unwrap();
        let (body, status) = ran.stdout.rsplit_once('\n').unwrap();
        (status.to_owned(), body.to_owned())
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A payload with an image layout: `docker.io/library/hello:1` with one layer.
fn with_image(load: Load, layer: &str) -> Load {
    let digest = |bytes: &[u8]| Digest::of(bytes).to_string();
    let descriptor = |media_type: &str, bytes: &[u8]| json!({ "mediaType": media_type, "digest": digest(bytes), "size": bytes.len() });
    let config = descriptor("application/vnd.oci.image.config.v1+json", b"{}");
    let of_layer = descriptor("application/vnd.oci.image.layer.v1.tar", layer.as_bytes());
    let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [of_layer] });
    let manifest = manifest.to_string();
    let mut entry = descriptor(MANIFEST, manifest.as_bytes());
    entry["annotations"] =
        json!({ "org.opencontainers.image.ref.name": "docker.io/library/hello:1" });
    let index = json!({ "schemaVersion": 2, "manifests": [entry] });
    let blob = |bytes: &[u8]| format!("images/blobs/sha256/{}", Digest::of(bytes).hex());
    load.payload("images/oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#)
        .payload("images/index.json", index.to_string())
        .payload(&blob(b"{}"), "{}")
        .payload(&blob(layer.as_bytes()), layer)
        .payload(&blob(manifest.as_bytes()), &manifest)
}

pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.org",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments);
    let ran = run_expecting(&mut command, 0).unwrap();
    ran.stdout.trim().to_owned()
}

/// A payload with the pack of a repository's newest commit.
pub fn with_repository(load: Load, origin: &Path) -> Load {
    let tip = git(origin, &["rev-parse", "HEAD"]);
    let script = "git rev-list --objects --no-walk HEAD | cut -d' ' -f1 | git pack-objects -q --stdout >.git/out.pack";
    let packed = run(Command::new("sh").args(["-c", script]).current_dir(origin)).unwrap();
    assert_eq!(packed.code, Some(0), "{}", packed.everything());
    let pack = std::fs::read(origin.join(".git/out.pack")).unwrap();
    let description = json!({
        "format": "outhaul-catalog-v1",
        "repositories": [{
            "url": "https://github.com/org/repo", "refs": { "refs/heads/main": tip }, "head": "refs/heads/main",
            "shallow": [tip], "pack": "repo.pack", "digest": Digest::of(&pack).to_string(), "size": pack.len(),
        }],
    });
    load.payload("git/outhaul-catalog.json", description.to_string())
        .payload("git/repo.pack", pack)
}

#[test]
fn what_a_bundle_brings_is_served_and_after_a_rollback_the_older_one() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure("[serve]\nlisten = \"127.0.0.1:0\"\nplain_http = true\n");
    let origin = tempfile::tempdir().unwrap();
    git(origin.path(), &["init", "--quiet"]);
    let commit = |content: &str| {
        std::fs::write(origin.path().join("app.yaml"), content).unwrap();
        git(origin.path(), &["add", "app.yaml"]);
        git(origin.path(), &["commit", "--quiet", "-m", content]);
        git(origin.path(), &["rev-parse", "HEAD"])
    };
    let draft = |layer: &str| {
        let load = Load::new("hello").file("manifest.yaml", format!("layer: {layer}\n"));
        Draft::new([with_repository(with_image(load, layer), origin.path())])
    };
    let mirror = Mirror::start(&site);
    let (status, said) = mirror.get("v2/docker.io/library/hello/tags/list");
    assert!(
        status == "503" && said.contains("no generation is active yet"),
        "{said}"
    );

    let first = commit("first");
    site.take(&centre.publish(&draft("old")));
    let served = || {
        let layer = |content: &str| {
            let digest = Digest::of(content.as_bytes());
            let got = mirror.get(&format!("v2/library/hello/blobs/{digest}?ns=docker.io"));
            (got.0 == "200").then_some(got.1)
        };
        let url = format!("{}github.com/org/repo.git", mirror.url);
        let refs = git(origin.path(), &["ls-remote", &url, "refs/heads/main"]);
        let commit = refs.split('\t').next().unwrap().to_owned();
        (layer("old"), layer("new"), commit)
    };
    let old = (Some("old".to_owned()), None, first.clone());
    assert_eq!(served(), old);
    let work = tempfile::tempdir().unwrap();
    let url = format!("{}github.com/org/repo.git", mirror.url);
    git(
        work.path(),
        &["clone", "--quiet", "--depth", "1", &url, "clone"],
    );
    assert_eq!(
        git(&work.path().join("clone"), &["rev-parse", "HEAD"]),
        first
    );

    let second = commit("second");
    site.take(&centre.publish(&draft("new")));
    assert_eq!(served(), (None, Some("new".to_owned()), second));
    site.ok(&["rollback", "--who", "ann"]);
    assert_eq!(site.active(), Some(1));
    assert_eq!(served(), old);

    // One that brings nothing to serve leaves nothing of the other.
    site.take(&centre.publish(&Draft::hello("one")));
    assert_eq!(mirror.get("v2/docker.io/library/hello/tags/list").0, "503");
}

#[test]
fn a_site_that_is_given_nothing_to_serve_has_no_trace_of_it() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    assert!(!site.state().join("serve").exists());
    assert!(!site.state().join("generations/1/catalog.json").exists());
}

#[test]
fn a_description_that_cannot_be_read_is_named_and_keeps_nothing_from_being_applied() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let load = with_image(Load::new("hello").file("manifest.yaml", "a: b\n"), "x");
    site.take(&centre.publish(&Draft::new([load.payload("outhaul-catalog.json", "{")])));
    let mut check = Command::new(outhaul_tests::program("outhaul-mirror").unwrap());
    let ran = run_expecting(check.args(["check", "--state"]).arg(site.state()), 1).unwrap();
    assert_eq!(ran.stdout, "image docker.io/library/hello: 1\n");
    let named = "not served: `payload/hello/outhaul-catalog.json`: ";
    assert!(ran.stderr.contains(named), "{}", ran.stderr);
}

#[test]
fn a_wrong_line_under_serve_is_named() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure("[serve]\nlisten = \"0.0.0.0:5443\"\nplain_http = true\n");
    let output = site.run(&["status"]);
    crate::site::assert_reports(&output, 2, &["`serve.listen` is `0.0.0.0:5443`"]);
    site.configure("[serve]\nnames = [\"a/b\"]\n");
    let output = site.run(&["status"]);
    crate::site::assert_reports(&output, 2, &["`serve.names` is `a/b`"]);
}
