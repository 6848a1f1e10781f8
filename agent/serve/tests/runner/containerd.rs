//! containerd on this machine asks the mirror: its configuration written and restored by the program, images pulled by
//! original names and started as containers in a namespace without egress, and the older ones after a rollback.

use std::fs;
use std::path::Path;
use std::process::Command;

use outhaul_serve::digest::Digest;
use outhaul_tests::{
    Ran, available_or_skip, isolated_or_skip, result, run_expecting, run_script, skipped,
};
use serde_json::json;

use crate::peers::without_egress;
use crate::site::{Layout, MANIFEST, Site, program};

const BUSYBOX: &str = "/usr/bin/busybox";
const NAMES: [&str; 2] = [
    "docker.io/library/greeter:1",
    "registry.example.com/team/app:1.2",
];

/// An image whose container can run, with `text` in its file `message`.
fn runnable(layout: &mut Layout, text: &str) {
    let work = tempfile::tempdir().unwrap();
    fs::create_dir_all(work.path().join("rootfs/bin")).unwrap();
    fs::copy(BUSYBOX, work.path().join("rootfs/bin/busybox")).unwrap();
    fs::write(work.path().join("rootfs/message"), format!("{text}\n")).unwrap();
    let mut pack = Command::new("bash");
    pack.args(["-euc", "tar --sort=name --owner=0 --group=0 --mtime=@0 -cf layer.tar -C rootfs . && gzip -nk layer.tar"]);
    let ran = run_script(pack.current_dir(work.path())).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    let plain = fs::read(work.path().join("layer.tar")).unwrap();
    let packed = fs::read(work.path().join("layer.tar.gz")).unwrap();
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": { "Cmd": ["/bin/busybox", "cat", "/message"] },
        "rootfs": { "type": "layers", "diff_ids": [Digest::of(&plain).to_string()] },
    });
    let config = layout.descriptor(
        "application/vnd.oci.image.config.v1+json",
        config.to_string().as_bytes(),
    );
    let layer = layout.descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &packed);
    let manifest =
        json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
    for name in NAMES {
        layout.entry(Some(name), MANIFEST, &manifest);
    }
}

fn settings(site: &Site, listen: &str) {
    let text = format!("[serve]\nlisten = \"{listen}\"\n");
    fs::write(site.root.path().join("agent.toml"), text).unwrap();
}

#[test]
fn a_container_starts_from_an_image_of_the_mirror_and_after_a_rollback_from_the_older_one() {
    if !isolated_or_skip() || !available_or_skip("containerd") || !available_or_skip("runc") {
        return;
    }
    if !Path::new(BUSYBOX).exists() {
        return skipped("`busybox-static` is not installed");
    }
    let site = Site::new();
    for (generation, text) in [("1", "from generation 1"), ("2", "from generation 2")] {
        let mut layout = site.layout(generation, "images");
        runnable(&mut layout, text);
        layout.write();
        site.catalog(generation, &json!({ "layouts": [{ "folder": "images" }] }));
    }
    site.activate("2");
    settings(&site, "127.0.0.1:443");
    let script = r#"
        cat >config.toml <<CONF
version = 2
root = "$PWD/root"
state = "$PWD/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "$PWD/containerd.sock"
[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "$PWD/certs.d"
CONF
        # What an administrator had: a cache of the site that is no longer there.
        mkdir -p certs.d/docker.io
        echo '[host."https://cache.site.invalid"]' >certs.d/docker.io/hosts.toml
        "$SERVE" --state "$ROOT" enable --certs-dir certs.d --config config.toml
        containerd --config config.toml >containerd.log 2>&1 &
        containerd=$!
        trap 'kill $server $containerd; wait $containerd || true' EXIT
        ctr() { command ctr --address "$PWD/containerd.sock" "$@"; }
        until ctr version >/dev/null 2>&1; do kill -0 $containerd; done
        started() {
            ctr images pull --hosts-dir "$PWD/certs.d" --snapshotter native "$1" >pull.log
            ctr run --rm --snapshotter native "$1" "$2"
        }
        for name in $NAMES; do started "$name" one; done
        # The agent rolls back: it names the generation before.
        echo 1 >"$ROOT/serve/active"
        for name in $NAMES; do started "$name" two; done
        kill $containerd
        wait $containerd || true
        trap 'kill $server' EXIT
        "$SERVE" disable --certs-dir certs.d
        test "$(cat certs.d/docker.io/hosts.toml)" = '[host."https://cache.site.invalid"]'
        test "$(find certs.d -type f)" = certs.d/docker.io/hosts.toml
    "#;
    let names = NAMES.join(" ");
    let said = without_egress(&site, script, &[("NAMES", Path::new(&names))]);
    let newer = "from generation 2\n".repeat(2);
    assert!(
        said.contains(&format!("{newer}{}", "from generation 1\n".repeat(2))),
        "{said}"
    );
}

/// Runs a command of the program on `certs.d` of a site.
fn mirror(site: &Site, code: i32, arguments: &[&str]) -> Ran {
    let mut command = Command::new(program());
    command.arg("--state").arg(site.root.path()).args(arguments);
    command
        .arg("--certs-dir")
        .arg(site.root.path().join("certs.d"));
    run_expecting(&mut command, code).unwrap()
}

fn with_authority() -> Site {
    let site = Site::new();
    let tls = site.root.path().join("serve/tls");
    fs::create_dir_all(&tls).unwrap();
    fs::write(tls.join("ca.pem"), "a certificate").unwrap();
    site
}

#[test]
fn what_containerd_lacks_is_a_finding_with_what_to_add_and_its_own_configuration_is_not_written() {
    let site = with_authority();
    let config = site.root.path().join("config.toml");
    fs::write(&config, "version = 2\n").unwrap();
    let arguments = ["enable", "--config", config.to_str().unwrap()];
    let ran = mirror(&site, 1, &arguments);
    assert!(ran.stdout.starts_with("written    "), "{}", ran.stdout);
    assert!(
        ran.stderr.contains("`config_path` is not set"),
        "{}",
        ran.stderr
    );
    assert_eq!(fs::read_to_string(&config).unwrap(), "version = 2\n");
    // What it says is what is missing.
    let (_, add) = ran.stderr.split_once("[plugins.").unwrap();
    fs::write(&config, format!("version = 2\n[plugins.{add}")).unwrap();
    let ran = mirror(&site, 0, &[&arguments[..], &["--output", "json"]].concat());
    let reported = result(&ran.stdout);
    assert_eq!(reported["config"]["reads_folder"], true);
    assert_eq!(reported["files"][0]["what"], "unchanged");
    assert_eq!(reported["url"], "https://127.0.0.1:5443");
    let ran = mirror(&site, 0, &["disable"]);
    assert!(ran.stdout.starts_with("removed    "), "{}", ran.stdout);
    let ran = mirror(&site, 0, &["disable"]);
    assert_eq!(ran.stdout, "the mirror is not enabled there\n");
    assert!(!site.root.path().join("certs.d").exists());
}

#[test]
fn before_the_mirror_ever_ran_and_with_a_port_that_changes_nothing_is_written() {
    let site = Site::new();
    let ran = mirror(&site, 2, &["enable"]);
    assert!(
        ran.stderr.contains("the mirror has never run"),
        "{}",
        ran.stderr
    );
    let site = with_authority();
    settings(&site, "127.0.0.1:0");
    let ran = mirror(&site, 2, &["enable"]);
    assert!(ran.stderr.contains("port 0"), "{}", ran.stderr);
    // On every address: this machine reaches it on its own.
    settings(&site, "0.0.0.0:6443");
    fs::create_dir_all(site.root.path().join("certs.d/quay.io")).unwrap();
    fs::write(
        site.root.path().join("certs.d/quay.io/hosts.toml"),
        "server = ",
    )
    .unwrap();
    let ran = mirror(&site, 2, &["enable"]);
    assert!(
        ran.stderr.contains("quay.io/hosts.toml") && ran.stderr.contains("help: "),
        "{}",
        ran.stderr
    );
    let names: Vec<_> = fs::read_dir(site.root.path().join("certs.d"))
        .unwrap()
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
}
