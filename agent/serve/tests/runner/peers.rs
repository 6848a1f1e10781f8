//! Real clients pull by original names, in a network namespace without egress: skopeo, crane, regctl, helm,
//! containerd. What tried to leave is counted by the kernel: packets without a route.

use std::fs;
use std::path::Path;
use std::process::Command;

use outhaul_tests::{available_or_skip, isolated_or_skip, run_expecting, run_script};
use serde_json::json;

use crate::git::client_or_skip;
use crate::site::{Layout, Site, program};

/// Makes a layout as it travels: built by crane, written by skopeo, under `docker.io/library/hello:1`.
fn image(site: &Site, crane: &Path) {
    let folder = site.folder("1");
    let script = r#"
        mkdir rootfs && echo hello >rootfs/hello
        tar --sort=name --owner=0 --group=0 --mtime=@0 -czf layer.tar.gz -C rootfs .
        "$CRANE" append --oci-empty-base -f layer.tar.gz -t docker.io/library/hello:1 -o image.tar
        skopeo copy --quiet docker-archive:image.tar oci:images:docker.io/library/hello:1
    "#;
    let mut shell = Command::new("bash");
    shell
        .args(["-euc", script])
        .current_dir(&folder)
        .env("CRANE", crane);
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
}

/// Runs `script` in a network and mount namespace of its own, with only a loopback, beside a server on 443
/// that clients find under the names of the registries. Fails when a packet tried to leave.
#[track_caller]
pub fn without_egress(site: &Site, script: &str, programs: &[(&str, &Path)]) -> String {
    let work = tempfile::tempdir().unwrap();
    fs::write(
        work.path().join("hosts"),
        "127.0.0.1 localhost registry.example index.docker.io github.com\n\
         ::1 localhost registry.example index.docker.io github.com\n",
    )
    .unwrap();
    let around = format!(
        r#"
        ip link set lo up
        mount --bind hosts /etc/hosts
        exec 3< <("$SERVE" run --state "$ROOT" --listen 127.0.0.1:443 --name registry.example --name index.docker.io --name github.com)
        server=$!
        trap 'kill $server' EXIT
        read -r url <&3
        test "$url" = https://127.0.0.1:443/
        export SSL_CERT_FILE=$ROOT/serve/tls/ca.pem
        {script}
        # What tried to leave: there is no route, so the kernel counts each packet.
        awk '$1 == "Ip:" {{ if (!n) {{ for (i = 1; i <= NF; i++) if ($i == "OutNoRoutes") n = i }} else print "tried to leave:", $n }}' /proc/net/snmp
        awk '$1 == "Ip6OutNoRoutes" {{ print "tried to leave (IPv6):", $2 }}' /proc/net/snmp6
        "#
    );
    let mut shell = Command::new("unshare");
    shell
        .args([
            "--net", "--mount", "bash", "-euo", "pipefail", "-c", &around,
        ])
        .current_dir(work.path())
        .env("SERVE", program())
        .env("ROOT", site.root.path())
        .env("HOME", work.path())
        .env("XDG_RUNTIME_DIR", work.path());
    for (name, program) in programs {
        shell.env(name, program);
    }
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    assert!(
        ran.stdout.contains("tried to leave: 0\n"),
        "{}",
        ran.everything()
    );
    assert!(
        ran.stdout.contains("tried to leave (IPv6): 0\n"),
        "{}",
        ran.everything()
    );
    ran.stdout
}

fn digest_of(site: &Site) -> String {
    let index = fs::read(site.folder("1").join("images/index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    index["manifests"][0]["digest"].as_str().unwrap().to_owned()
}

fn served(crane: &Path) -> Site {
    let site = Site::new();
    image(&site, crane);
    site.catalog("1", &json!({ "layouts": [{ "folder": "images" }] }));
    site.activate("1");
    site
}

#[test]
fn skopeo_pulls_by_the_original_name_through_a_mirror() {
    if !isolated_or_skip() || !available_or_skip("skopeo") {
        return;
    }
    let Some(crane) = client_or_skip("crane") else {
        return;
    };
    let site = served(&crane);
    let script = r#"
        mkdir -p .config/containers
        cat >.config/containers/registries.conf <<'CONF'
[[registry]]
prefix = "docker.io"
location = "docker.io"
[[registry.mirror]]
location = "127.0.0.1:443/docker.io"
CONF
        skopeo inspect --no-tags --format '{{.Digest}}' docker://docker.io/library/hello:1
        skopeo copy --quiet docker://docker.io/library/hello:1 dir:copy
        skopeo copy --quiet "docker://docker.io/library/hello@$(skopeo manifest-digest copy/manifest.json)" oci:again:1
        for blob in $(ls copy | grep -E '^[0-9a-f]{64}$'); do echo "$blob  copy/$blob"; done | sha256sum --check --quiet
    "#;
    let said = without_egress(&site, script, &[]);
    assert!(said.starts_with(&digest_of(&site)), "{said}");
}

#[test]
fn crane_and_regctl_pull_by_the_original_name() {
    if !isolated_or_skip() || !available_or_skip("skopeo") {
        return;
    }
    let Some(crane) = client_or_skip("crane") else {
        return;
    };
    let Some(regctl) = client_or_skip("regctl") else {
        return;
    };
    let site = served(&crane);
    let script = r#"
        "$CRANE" digest docker.io/library/hello:1
        "$CRANE" ls docker.io/library/hello
        "$CRANE" pull docker.io/library/hello:1 image.tar
        "$CRANE" export docker.io/library/hello:1 - | tar -xO hello ./hello 2>/dev/null | head -n 1 || true
        "$CRANE" validate --remote docker.io/library/hello:1
        # By the mirror's own address, with the name behind it.
        "$CRANE" manifest 127.0.0.1:443/docker.io/library/hello:1 >manifest.json
        test -s manifest.json
        ! "$CRANE" push image.tar 127.0.0.1:443/docker.io/library/hello:2 2>push.log
        grep -q 'UNSUPPORTED: this registry is read only' push.log
        "$REGCTL" registry set --skip-check 127.0.0.1:443 --cacert "$(cat "$SSL_CERT_FILE")"
        "$REGCTL" image digest 127.0.0.1:443/docker.io/library/hello:1
        "$REGCTL" image copy 127.0.0.1:443/docker.io/library/hello:1 ocidir://copy:1
        "$REGCTL" tag ls 127.0.0.1:443/docker.io/library/hello
        "$REGCTL" artifact list 127.0.0.1:443/docker.io/library/hello:1
    "#;
    let said = without_egress(&site, script, &[("CRANE", &crane), ("REGCTL", &regctl)]);
    assert_eq!(said.matches(&digest_of(&site)).count(), 3, "{said}");
    assert!(said.contains("\n1\n") && said.contains("PASS"), "{said}");
}

#[test]
fn helm_pulls_a_chart_by_its_original_name() {
    if !isolated_or_skip() {
        return;
    }
    let Some(helm) = client_or_skip("helm") else {
        return;
    };
    let site = Site::new();
    let folder = site.folder("1");
    let mut create = Command::new("bash");
    create
        .args(["-euc", r#""$HELM" create app >/dev/null && "$HELM" package app --version 1.2.3+site >/dev/null"#])
        .env("HELM", &helm)
        .env("HOME", &folder)
        .current_dir(&folder);
    let ran = run_script(&mut create).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    let chart = fs::read(folder.join("app-1.2.3+site.tgz")).unwrap();
    let mut layout = Layout::new(&folder.join("charts"));
    let config = layout.descriptor(
        "application/vnd.cncf.helm.config.v1+json",
        br#"{"name":"app","version":"1.2.3+site","apiVersion":"v2"}"#,
    );
    let content = layout.descriptor(
        "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
        &chart,
    );
    let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [content] });
    // Helm writes `_` for `+` in tags.
    layout.entry(
        Some("registry.example/charts/app:1.2.3_site"),
        crate::site::MANIFEST,
        &manifest,
    );
    layout.write();
    site.catalog("1", &json!({ "layouts": [{ "folder": "charts" }] }));
    site.activate("1");
    let script = r#"
        "$HELM" pull oci://registry.example/charts/app --version 1.2.3+site
        cmp app-1.2.3+site.tgz "$ROOT/generations/1/app-1.2.3+site.tgz"
        "$HELM" template name oci://registry.example/charts/app --version 1.2.3+site | grep '^kind: Deployment'
    "#;
    let said = without_egress(&site, script, &[("HELM", &helm)]);
    assert!(said.starts_with("kind: Deployment\n"), "{said}");
}

#[test]
fn containerd_pulls_by_the_original_name_through_its_mirror_configuration() {
    if !isolated_or_skip() || !available_or_skip("skopeo") || !available_or_skip("containerd") {
        return;
    }
    let Some(crane) = client_or_skip("crane") else {
        return;
    };
    let site = served(&crane);
    let script = r#"
        mkdir -p certs.d/docker.io
        cat >certs.d/docker.io/hosts.toml <<CONF
server = "https://127.0.0.1:443"
[host."https://127.0.0.1:443"]
  capabilities = ["pull", "resolve"]
  ca = "$SSL_CERT_FILE"
CONF
        cat >config.toml <<CONF
version = 2
root = "$PWD/root"
state = "$PWD/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "$PWD/containerd.sock"
CONF
        containerd --config config.toml >containerd.log 2>&1 &
        containerd=$!
        trap 'kill $server $containerd; wait $containerd || true' EXIT
        ctr() { command ctr --address "$PWD/containerd.sock" "$@"; }
        until ctr version >/dev/null 2>&1; do kill -0 $containerd; done
        ctr images pull --hosts-dir "$PWD/certs.d" --snapshotter native docker.io/library/hello:1 >pull.log
        ctr images ls
        ctr content ls -q
        kill $containerd
        wait $containerd || true
        trap 'kill $server' EXIT
    "#;
    let said = without_egress(&site, script, &[]);
    assert!(said.contains("docker.io/library/hello:1"), "{said}");
    assert!(said.contains(&digest_of(&site)), "{said}");
}

/// One address, the forge's own: `git clone https://github.com/org/repo` on a site that no network reaches.
#[test]
fn git_clones_from_the_original_address() {
    if !isolated_or_skip() {
        return;
    }
    let origin = crate::git::Origin::new();
    let site = Site::new();
    let pack = site.folder("1").join("repo.pack");
    let entry = origin.pack(&pack, "https://github.com/org/repo");
    site.catalog("1", &json!({ "repositories": [entry] }));
    site.activate("1");
    let script = r"
        export GIT_SSL_CAINFO=$SSL_CERT_FILE GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
        # Without an address of its own git looks its host's name up.
        export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
        git clone --quiet --depth 1 https://github.com/org/repo.git
        git -C repo rev-parse HEAD
        git -C repo fetch --quiet --depth 1 origin
    ";
    let said = without_egress(&site, script, &[]);
    assert!(said.starts_with(&origin.tip()), "{said}");
}

#[test]
fn the_site_s_authority_is_kept_and_its_key_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new();
    let tls = site.root.path().join("serve/tls");
    let start = || {
        let mut child = Command::new(program())
            .args(["run", "--listen", "127.0.0.1:0", "--state"])
            .arg(site.root.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        assert!(line.starts_with("https://127.0.0.1:"), "{line}");
        let url = format!("{}v2/", line.trim());
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--fail", "--cacert"])
            .arg(tls.join("ca.pem"))
            .arg(&url);
        let ran = run_expecting(&mut curl, 0).unwrap();
        assert_eq!(ran.stdout, "{}");
        let mut without = Command::new("curl");
        let ran = run_expecting(without.args(["-sS", &url]), 60).unwrap();
        assert!(ran.stderr.contains("certificate"), "{}", ran.stderr);
        child.kill().unwrap();
        child.wait().unwrap();
        fs::read(tls.join("ca.pem")).unwrap()
    };
    let first = start();
    assert_eq!(start(), first);
    let mode = fs::metadata(tls.join("ca.key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    // Half an authority is not replaced by another one.
    fs::remove_file(tls.join("ca.key")).unwrap();
    let mut command = Command::new(program());
    let refused = command.args(["run", "--listen", "127.0.0.1:0", "--state"]);
    let ran = run_expecting(refused.arg(site.root.path()), 4).unwrap();
    assert!(
        ran.stderr.contains("the key of `ca.pem` is missing"),
        "{}",
        ran.stderr
    );
}
