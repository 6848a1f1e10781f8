//! What a site serves, from the centre on: images are pulled, and a repository that Flux is asked to fetch
//! is cloned on site, from `outhaul-mirror`, by their original names, at their original digests and commits.
//!
//! What comes in: `examples/cluster`, whose stores get a template of Flux in the place of plain manifests. All
//! programs are real; on site they run in a network namespace without a way out, and the kernel counts what
//! tried to leave.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use outhaul_tests::{available_or_skip, isolated_or_skip, program, run_script};

use super::cluster::{SITE, follow_the_example};
use super::system::{SystemFixture, TO_STICK};

mod charts;
mod damage;
mod followed;
mod keyless;
mod layers;
mod lost;
mod materials;
mod mirrored;
mod platforms;
mod signed;
mod twins;
mod unnamed;

const URL: &str = "https://git.store.example/stock-report-manifests";

/// The template of Flux, applied by the folder reconciler: no Flux runs in a test.
fn with_flux(fixture: &SystemFixture) {
    let template = outhaul_tests::workspace_root().join("bundler/plane/templates/flux-git.yaml");
    let text = fs::read_to_string(template).unwrap();
    let text = text.replace("reconciler: flux\n", "reconciler: folder\n");
    fixture.on_branch("control-plane", "main", |folder| {
        fs::write(folder.join("templates/flux-git.yaml"), &text).unwrap();
    });
    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("cluster-types/store.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("reconciler: kubernetes", "reconciler: flux-git");
        let text = text.replace("reconciler: folder", "reconciler: flux-git");
        fs::write(path, text).unwrap();
    });
}

/// Runs `script`, which starts a mirror as process `$server`, where there is no network; the kernel counts what tried to leave.
#[track_caller]
fn in_namespace(fixture: &SystemFixture, script: &str, programs: &[(&str, &Path)]) -> String {
    let around = format!(
        r#"
        ip link set lo up
        trap 'kill $server' EXIT
        {script}
        awk '$1 == "Ip:" {{ if (!n) {{ for (i = 1; i <= NF; i++) if ($i == "OutNoRoutes") n = i }} else print "tried to leave:", $n }}' /proc/net/snmp
        "#
    );
    let mut shell = fixture.command(Path::new("unshare"));
    shell
        .args([
            "--net", "--mount", "bash", "-euo", "pipefail", "-c", &around,
        ])
        .env("MIRROR", program("outhaul-mirror").unwrap())
        .env("STATE", fixture.path(&format!("sites/{SITE}")));
    for (name, program) in programs {
        shell.env(name, program);
    }
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    assert!(ran.stdout.contains("tried to leave: 0\n"), "{}", ran.stdout);
    ran.stdout
}

/// Pulls the image `name` from a mirror at the address of `registry`, as several clients do; `then` runs in the folder
/// `copy` of its blobs. What it printed comes after the digest.
#[track_caller]
fn pull(
    fixture: &SystemFixture,
    registry: &Registry,
    (crane, name): (&Path, &str),
    digest: &str,
    then: &str,
) -> String {
    let script = format!(
        r#"
        "$CRANE" digest "$NAME"
        "$CRANE" validate --remote "$NAME"
        skopeo copy --quiet --src-tls-verify=false "docker://$NAME" dir:copy
        for blob in $(ls copy | grep -E '^[0-9a-f]{{64}}$'); do echo "$blob  copy/$blob"; done | sha256sum --check --quiet
        {then}
        "#
    );
    let listen = registry.address.replace("localhost", "127.0.0.1");
    let programs = [("CRANE", crane), ("NAME", Path::new(name))];
    let pulled = at_plain_mirror(fixture, &listen, &script, &programs);
    assert!(pulled.starts_with(&format!("{digest}\n")), "{pulled}");
    assert!(pulled.contains("PASS"), "{pulled}");
    pulled
}

/// Runs `script` on site: beside `outhaul-mirror` on 443, which has the names of the servers, without a network.
#[track_caller]
fn on_site(fixture: &SystemFixture, script: &str, programs: &[(&str, &Path)]) -> String {
    let hosts = "127.0.0.1 localhost git.store.example registry.store.example\n";
    fs::write(fixture.path("hosts"), hosts).unwrap();
    let around = format!(
        r#"
        mount --bind hosts /etc/hosts
        exec 3< <("$MIRROR" run --state "$STATE" --listen 127.0.0.1:443 --name git.store.example --name registry.store.example)
        server=$!
        read -r url <&3
        test "$url" = https://127.0.0.1:443/
        export SSL_CERT_FILE=$STATE/serve/tls/ca.pem GIT_SSL_CAINFO=$STATE/serve/tls/ca.pem
        {script}
        "#
    );
    in_namespace(fixture, &around, programs)
}

/// Clones a branch as Flux does, and prints the commit, what it has, and whether git finds a fault.
const CLONE: &str = r"
    git clone --quiet --depth 1 --branch dev https://git.store.example/stock-report-manifests clone
    git -C clone rev-parse HEAD
    git -C clone fsck --strict
    ls clone
";

#[test]
fn a_repository_that_flux_is_to_fetch_is_cloned_on_site_at_its_commit_and_travels_once() {
    if !isolated_or_skip() || !available_or_skip("git") {
        return;
    }
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    with_flux(&fixture);
    // History does not travel, and the repository's other branches do not.
    fixture.on_branch("manifests", "dev", |folder| {
        fs::write(folder.join("notes.md"), "second\n").unwrap();
    });
    let commit = fixture.git("manifests", &["rev-parse", "dev"]);
    fixture.bundle("dev");
    let shown = fixture.run("outhaul", 0, &["inspect", "stick/dev-store-1.outhaul"]);
    let line = format!("  repository  {URL}: refs/heads/dev at {}", &commit[..15]);
    assert!(shown.stdout.contains(&line), "{}", shown.stdout);
    // Once: in the pack, and not as files besides.
    assert!(
        shown.stdout.contains("payload of 0 files"),
        "{}",
        shown.stdout
    );
    fixture.carry(SITE);
    let said = on_site(&fixture, CLONE, &[]);
    assert!(said.starts_with(&format!("{commit}\n")), "{said}");
    assert!(said.contains("notes.md\nreport.yaml\n"), "{said}");
    let applied = fixture.applied(SITE, "stock-report-nightly/reconciler.yaml");
    assert!(applied.contains(URL), "{applied}");

    // Another machine writes the same bytes: here, a clone whose git packed everything in its own way.
    fixture.git("manifests", &["gc", "--quiet", "--aggressive"]);
    let again = [
        "--renew",
        "--fleet",
        "fleet",
        "--passphrase-file",
        "passphrase",
        "--out",
        "other",
    ];
    fixture.plane(0, "bundle", "dev", &again);
    let pack = |file: &str| {
        let reported = fixture.run("outhaul", 0, &["inspect", file, "--output", "json"]);
        let reported = outhaul_tests::result(&reported.stdout);
        reported["index"]["served"]["repositories"][0]["pack"].clone()
    };
    assert_eq!(
        pack("stick/dev-store-1.outhaul"),
        pack("other/dev-store-2.outhaul")
    );

    // The next commit: the site's reconciler fetches it as from the original.
    fixture.on_branch("manifests", "dev", |folder| {
        fs::write(folder.join("notes.md"), "third\n").unwrap();
    });
    let commit = fixture.git("manifests", &["rev-parse", "dev"]);
    fs::remove_dir_all(fixture.path("clone")).unwrap();
    fixture.bundle("dev");
    fixture.carry(SITE);
    let said = on_site(&fixture, CLONE, &[]);
    assert!(said.starts_with(&format!("{commit}\n")), "{said}");
    // What was signed renders to it again.
    let verify = [
        "stick/dev-store-3.outhaul",
        "--fleet",
        "fleet",
        "--snapshot",
    ];
    fixture.plane(0, "verify", "dev", &verify);
}

/// crane, which builds images, and is a registry.
#[track_caller]
fn crane_or_skip() -> Option<PathBuf> {
    let folder = std::env::var_os("OUTHAUL_OCI_CLIENTS").map(PathBuf::from);
    let crane = folder.map(|folder| folder.join("crane"));
    let found = crane.filter(|crane| crane.is_file());
    if found.is_none() {
        outhaul_tests::skipped(
            "`crane` is not here: set OUTHAUL_OCI_CLIENTS (`.ci/programs/build cluster`)",
        );
    }
    found
}

/// A registry at the centre; it ends with its value.
struct Registry {
    child: Child,
    address: String,
}

impl Registry {
    fn start(crane: &Path) -> Self {
        let port = outhaul_tests::ports::free_port().unwrap();
        let child = Command::new(crane)
            .args([
                "registry",
                "serve",
                "--address",
                &format!("127.0.0.1:{port}"),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
        let address = format!("localhost:{port}");
        Self { child, address }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Pushes an image whose one layer holds `text` and noise, and returns its digest.
fn push(fixture: &SystemFixture, crane: &Path, name: &str, text: &str) -> String {
    let make = r#"echo "$TEXT" >rootfs/report; head -c 300000 /dev/urandom >rootfs/noise"#;
    push_made(fixture, (crane, name), make, text)
}

/// Pushes an image whose one layer is what `make`, which finds `text` in `$TEXT`, puts into `rootfs`; its digest.
fn push_made(
    fixture: &SystemFixture,
    (crane, name): (&Path, &str),
    make: &str,
    text: &str,
) -> String {
    let script = format!(
        r#"
        mkdir -p rootfs
        {make}
        tar --sort=name --owner=0 --group=0 --mtime=@0 -czf layer.tar.gz -C rootfs .
        "$CRANE" append --oci-empty-base -f layer.tar.gz -t "$NAME" >/dev/null 2>&1
        "$CRANE" digest "$NAME"
        "#
    );
    let mut shell = fixture.command(Path::new("bash"));
    shell
        .args(["-euc", &script])
        .env("CRANE", crane)
        .env("NAME", name)
        .env("TEXT", text);
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    ran.stdout.trim().to_owned()
}

/// The example, whose policy says that images travel, and whose workload needs `image`.
fn with_image(fixture: &SystemFixture, image: &str) {
    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("delivery/cluster.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("images: reference", "images: carry")).unwrap();
        let path = folder.join("cluster-types/store.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("reconciler: kubernetes", "reconciler: folder");
        fs::write(path, text).unwrap();
    });
    let template = outhaul_tests::workspace_root().join("bundler/plane/templates/folder.yaml");
    fixture.on_branch("control-plane", "main", |folder| {
        fs::copy(template, folder.join("templates/folder.yaml")).unwrap();
    });
    fixture.on_branch("manifests", "dev", |folder| {
        let path = folder.join("report.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("registry.store.example/stock-report:1.4.0", image);
        fs::write(path, text).unwrap();
    });
}

#[test]
fn an_image_is_pulled_on_site_by_its_original_name_and_moves_only_when_asked() {
    if !isolated_or_skip() || !available_or_skip("skopeo") {
        return;
    }
    let Some(crane) = crane_or_skip() else { return };
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    let registry = Registry::start(&crane);
    let name = format!("{}/team/stock-report:1.4.0", registry.address);
    let digest = push(&fixture, &crane, &name, "first");
    with_image(&fixture, &name);

    // A host of this machine is not asked because a team's manifest names it.
    let keys = TO_STICK;
    let refused = fixture.plane(1, "bundle", "dev", &keys);
    assert!(refused.stderr.contains(&name), "{}", refused.everything());
    let allowed = [&keys[..], &["--allow-host", &registry.address]].concat();
    fixture.plane(0, "bundle", "dev", &allowed);
    let shown = fixture.run("outhaul", 0, &["inspect", "stick/dev-store-1.outhaul"]);
    assert!(
        shown.stdout.contains(&format!("  image       {name} (")),
        "{}",
        shown.stdout
    );
    let lock = fs::read_to_string(fixture.path("fleet/outhaul.lock")).unwrap();
    assert!(
        lock.contains(&format!("\"{name}\": \"{digest}\"")),
        "{lock}"
    );

    // The tag is another image now: nothing floats, and nothing is pulled again.
    let other = push(&fixture, &crane, &name, "second");
    assert_ne!(digest, other);
    let reported = fixture.plane(0, "bundle", "dev", &allowed);
    assert!(
        reported.stderr.contains("unchanged"),
        "{}",
        reported.everything()
    );

    fixture.carry(SITE);
    let state = fixture.path(&format!("sites/{SITE}"));
    let layer = fs::read_dir(state.join("generations/1/images/blobs/sha256")).unwrap();
    let links = layer.map(|entry| entry.unwrap().metadata().unwrap());
    let links = links.filter(|found| std::os::unix::fs::MetadataExt::nlink(found) == 2);
    assert_eq!(links.count(), 1, "the layer is kept once");
    let report = r#"tar -xOf "copy/$(ls -S copy | head -n 1)" ./report"#;
    let pulled = pull(&fixture, &registry, (&crane, &name), &digest, report);
    assert!(pulled.contains("first\n"), "{pulled}");

    // Asked for, it moves, and says so.
    let update = [&allowed[..], &["--update"]].concat();
    let reported = fixture.plane(0, "bundle", "dev", &update);
    let moved = format!("updated: {name} from {digest} to {other}");
    assert!(
        reported.stderr.contains(&moved),
        "{}",
        reported.everything()
    );
    assert!(fixture.path("stick/dev-store-2.outhaul").is_file());

    // A tag that nobody has is that assignment's failure, by name.
    fixture.on_branch("manifests", "dev", |folder| {
        let path = folder.join("report.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace(":1.4.0", ":9.9.9")).unwrap();
    });
    let reported = fixture.plane(1, "bundle", "dev", &allowed);
    let missing = "has no `team/stock-report:9.9.9`";
    assert!(
        reported.stderr.contains(missing),
        "{}",
        reported.everything()
    );
    assert!(
        reported.stderr.contains("stock-report-nightly"),
        "{}",
        reported.everything()
    );
}

/// Runs `script` on site beside a mirror without TLS at `listen`, the centre's registry's own address.
#[track_caller]
fn at_plain_mirror(
    fixture: &SystemFixture,
    listen: &str,
    script: &str,
    programs: &[(&str, &Path)],
) -> String {
    let around = format!(
        r#"
        exec 3< <("$MIRROR" run --state "$STATE" --plain-http --listen {listen})
        server=$!
        read -r url <&3
        {script}
        "#
    );
    in_namespace(fixture, &around, programs)
}
