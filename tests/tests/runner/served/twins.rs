//! A rebuilt image whose layer is zstd, as a copy with a twin for a site that has the image before; a container of the site's real containerd runs it.
//!
//! What comes in: two images of a real registry, whose one layer is busybox and the documents of this workspace in zstd, of which one differs; and the
//! real programs with a containerd that was started for the test. What must come out: a copy that is a fraction of the layer, the image in
//! containerd under its original name and digest without any layer pulled, and a container with what is new; elsewhere a refusal by name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use outhaul_test_kit::folder::paths;
use outhaul_tests::{
    Ran, available_or_skip, isolated_or_skip, run_script, skipped, workspace_root,
};

use super::{Registry, at_plain_mirror, crane_or_skip, with_image};
use crate::cluster::{SITE, follow_the_example};
use crate::system::{SystemFixture, TO_STICK};

const BUSYBOX: &str = "/usr/bin/busybox";

/// A containerd with separate folders and socket; it ends with its value.
struct Containerd {
    child: Child,
    socket: PathBuf,
}

impl Containerd {
    fn start(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let socket = folder.join("containerd.sock");
        let at = |name: &str| folder.join(name).display().to_string();
        let config = format!(
            "version = 2\nroot = \"{}\"\nstate = \"{}\"\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = \"{}\"\n",
            at("root"),
            at("state"),
            at("containerd.sock"),
        );
        fs::write(folder.join("config.toml"), config).unwrap();
        let mut child = Command::new("containerd")
            .arg("--config")
            .arg(folder.join("config.toml"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let answers = |socket: &Path| {
            let mut version = Command::new("ctr");
            version.arg("--address").arg(socket).arg("version");
            version.output().unwrap().status.success()
        };
        while !answers(&socket) {
            let ended = child.try_wait().unwrap();
            let log = fs::read_to_string(folder.join("log")).unwrap();
            assert!(ended.is_none(), "containerd ended: {log}");
        }
        Self { child, socket }
    }

    fn ctr(&self, fixture: &SystemFixture, script: &str) -> Ran {
        let mut shell = fixture.command(Path::new("bash"));
        let script = format!(
            r#"ctr() {{ command ctr --address "$SOCKET" --namespace k8s.io "$@"; }}
            {script}"#
        );
        shell.args(["-euc", &script]).env("SOCKET", &self.socket);
        run_script(&mut shell).unwrap()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Pushes an image whose one layer, in zstd, holds busybox, the documents and `text`; its digest.
fn push(fixture: &SystemFixture, crane: &Path, name: &str, text: &str) -> String {
    let script = r#"
        rm -rf rootfs && mkdir -p rootfs/bin rootfs/usr/share
        cp /usr/bin/busybox rootfs/bin/busybox
        cp -r "$DOCS" rootfs/usr/share/docs
        find rootfs -name '*.png' -delete
        echo "$TEXT" >>rootfs/usr/share/docs/glossary.md
        echo "$TEXT" >rootfs/message
        tar --sort=name --owner=0 --group=0 --mtime=@0 -cf layer.tar -C rootfs .
        zstd -q -f layer.tar -o layer.tar.zst
        "$CRANE" append --oci-empty-base -f layer.tar.zst -t "$NAME" >/dev/null 2>&1
        "$CRANE" mutate --entrypoint /bin/busybox,cat,/message --set-platform "linux/$(uname -m | sed -e s/x86_64/amd64/ -e s/aarch64/arm64/)" \
            -t "$NAME" "$NAME" >/dev/null 2>&1
        "$CRANE" digest "$NAME"
    "#;
    let mut shell = fixture.command(Path::new("bash"));
    shell
        .args(["-euc", script])
        .env("CRANE", crane)
        .env("DOCS", workspace_root().join("docs"))
        .env("NAME", name)
        .env("TEXT", text);
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    ran.stdout.trim().to_owned()
}

fn configure(fixture: &SystemFixture, text: &str) {
    fs::write(fixture.path(&format!("sites/{SITE}/agent.toml")), text).unwrap();
}

/// Checks that a copy with a twin is reported as one, by its line `seen`, by what reads its file, and by its name, so that the copy without a
/// twin is another file.
fn told_for_whom_it_is(fixture: &SystemFixture, copy: &[&str], seen: &str) {
    assert!(
        seen.contains("whose agent takes twins for containerd (1 layer as a twin)")
            && seen.contains(".since1.twins.outhaul"),
        "{seen}"
    );
    let file = fs::read_dir(fixture.path("small")).unwrap().next().unwrap();
    let file = file.unwrap().path().display().to_string();
    for command in ["inspect", "verify"] {
        let seen = fixture.run("outhaul", 0, &[command, &file, "--fleet", "fleet"]);
        let seen = seen.everything();
        let words = "takes twins for containerd (1 layer as a twin)";
        assert!(seen.contains(words), "{command}: {seen}");
    }
    let plain = fixture.run("outhaul", 0, copy).everything();
    assert!(!plain.contains("twins for containerd"), "{plain}");
    let names = paths(&fixture.path("small"));
    assert_eq!(names.len(), 2, "{names:?}");
    let plain = names
        .iter()
        .find(|path| !path.display().to_string().ends_with(".twins.outhaul"));
    fs::remove_file(plain.unwrap()).unwrap();
}

#[test]
fn a_rebuilt_zstd_layer_travels_as_a_twin_and_a_container_starts_from_it_without_a_pull() {
    let programs = ["containerd", "runc", "zstd"];
    if !isolated_or_skip() || !programs.iter().all(|one| available_or_skip(one)) {
        return;
    }
    if !Path::new(BUSYBOX).exists() {
        return skipped("`busybox-static` is not installed");
    }
    let Some(crane) = crane_or_skip() else { return };
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    let registry = Registry::start(&crane);
    let name = format!("{}/team/stock-report:1.4.0", registry.address);
    let first = push(&fixture, &crane, &name, "first");
    with_image(&fixture, &name);
    let keys = [&TO_STICK[..], &["--allow-host", &registry.address]].concat();
    fixture.plane(0, "bundle", "dev", &keys);
    fixture.carry(SITE);
    let second = push(&fixture, &crane, &name, "second");
    assert_ne!(first, second);
    let layer = fs::metadata(fixture.path("layer.tar.zst")).unwrap().len();
    fixture.plane(0, "bundle", "dev", &[&keys[..], &["--update"]].concat());

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
    // Without the option the layer is whole, and the reason is stated.
    let seen = fixture.run("outhaul", 0, &copy).everything();
    assert!(
        seen.contains("whole") && !seen.contains("a twin of"),
        "{seen}"
    );
    fs::remove_dir_all(fixture.path("small")).unwrap();
    fs::create_dir_all(fixture.path("small")).unwrap();
    let whole: Vec<&str> = copy
        .iter()
        .copied()
        .take_while(|word| *word != "--since")
        .collect();
    let refused = fixture.run("outhaul", 2, &[&whole[..], &["--twins"]].concat());
    let words = refused.everything();
    assert!(words.contains("add `--since N`"), "{words}");
    let seen = fixture.run("outhaul", 0, &[&copy[..], &["--twins"]].concat());
    let seen = seen.everything();
    let line = seen.lines().find(|line| line.contains(": a twin of "));
    let line = line.unwrap_or_else(|| panic!("{seen}"));
    let (_, rest) = line.split_once(": a twin of ").unwrap();
    let patch: u64 = rest.split(' ').next().unwrap().parse().unwrap();
    println!("layer of {layer} bytes: {line}");
    assert!(patch * 6 < layer, "{line}");
    told_for_whom_it_is(&fixture, &copy, &seen);

    // A site that does not bring images into containerd takes no twin.
    let words = fixture.agent(SITE, 4, &["import", "small"]).everything();
    assert!(
        words.contains("`[containerd]`") && words.contains("without `--twins`"),
        "{words}"
    );

    // Nor is anything applied while containerd is not there: the work waits, with what to do.
    let containerd = fixture.path("containerd");
    let table = format!(
        "[containerd]\ntwins = true\naddress = \"{}\"\nsnapshotter = \"native\"\n",
        containerd.join("containerd.sock").display()
    );
    configure(&fixture, &table);
    let failed = fixture.agent(SITE, 3, &["import", "small"]).everything();
    assert!(
        failed.contains("cannot be brought into containerd"),
        "{failed}"
    );

    let runtime = Containerd::start(&containerd);
    fixture.agent(SITE, 0, &["apply", "--who", "ann"]);
    registry_is_gone(registry, |address| {
        let by_digest = format!("{}@{second}", name.rsplit_once(':').unwrap().0);
        let script = format!(
            "ctr run --rm --snapshotter native --net-host {name} one; ctr run --rm --snapshotter native --net-host {by_digest} two; \
             ctr images check --snapshotter native | sed 's/ .*//'; ctr content ls -q"
        );
        let ran = runtime.ctr(&fixture, &script);
        assert_eq!(ran.code, Some(0), "{}", ran.everything());
        assert!(
            ran.stdout.starts_with("second\nsecond\n"),
            "{}",
            ran.everything()
        );
        assert!(!ran.stdout.contains("twin.outhaul.dev"), "{}", ran.stdout);
        // For another machine the mirror states why it has no such layer.
        let digest = outhaul_bundle::Digest::of(&fs::read(fixture.path("layer.tar.zst")).unwrap());
        let script =
            format!(r#"curl -s "http://{address}/v2/{address}/team/stock-report/blobs/{digest}""#);
        let said = at_plain_mirror(
            &fixture,
            &address.replace("localhost", "127.0.0.1"),
            &script,
            &[],
        );
        assert!(said.contains("came as a twin"), "{said}");
    });
}

/// Ends the centre's registry: what a site does then, it does by itself.
fn registry_is_gone(registry: Registry, then: impl FnOnce(String)) {
    let address = registry.address.clone();
    drop(registry);
    then(address);
}
