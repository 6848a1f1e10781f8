//! A real containerd gets images that came as twins, and starts containers of them.
//!
//! What comes in: a generation's image layout with busybox in an image of which the upper layer is there only as its archive, and a containerd with
//! separate folders and socket, started for the test. What must come out: the image by its name and digest, and what is in the new layer out of a
//! container; after a failure, no name that was not there before. Nothing serves a layer: whatever is pulled fails.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::index::Content;
use outhaul_bundle::index::served::{Image, Served};
use outhaul_bundle::{Digest, Index};
use outhaul_containerd::settings::Settings;
use outhaul_containerd::{ContainerdError, ImportResult, bring, names_of, release};
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_tests::{available_or_skip, isolated_or_skip, skipped};
use serde_json::json;

const BUSYBOX: &str = "/usr/bin/busybox";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const LIST: &str = "application/vnd.oci.image.index.v1+json";
const NAME: &str = "registry.example/team/app:1";

struct Containerd {
    child: Child,
    folder: tempfile::TempDir,
}

impl Containerd {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let config = format!(
            "version = 2\nroot = {:?}\nstate = {:?}\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = {:?}\n",
            at("root"),
            at("state"),
            at("containerd.sock"),
        );
        fs::write(folder.path().join("config.toml"), config).unwrap();
        let child = Command::new("containerd")
            .arg("--config")
            .arg(folder.path().join("config.toml"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut started = Self { child, folder };
        while started.ctr(&["version"]).0 != Some(0) {
            let log = fs::read_to_string(started.folder.path().join("log")).unwrap();
            assert!(
                started.child.try_wait().unwrap().is_none(),
                "it ended: {log}"
            );
        }
        started
    }

    fn settings(&self) -> Settings {
        Settings {
            twins: true,
            address: self.folder.path().join("containerd.sock"),
            snapshotter: Some("native".to_owned()),
            ..Settings::default()
        }
    }

    fn ctr(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let ran = Command::new("ctr")
            .arg("--address")
            .arg(self.folder.path().join("containerd.sock"))
            .args(["--namespace", "k8s.io"])
            .args(arguments)
            .output()
            .unwrap();
        let said = [ran.stdout, ran.stderr].concat();
        (
            ran.status.code(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    }

    fn names(&self) -> Vec<String> {
        let (_, said) = self.ctr(&["images", "ls", "--quiet"]);
        said.lines().map(str::to_owned).collect()
    }

    fn pinned(&self) -> Vec<String> {
        let filter = "labels.\"io.cri-containerd.pinned\"==pinned";
        let (_, said) = self.ctr(&["images", "ls", "--quiet", filter]);
        let mut names: Vec<_> = said.lines().map(str::to_owned).collect();
        names.sort();
        names
    }

    /// Runs a container of an image: how it ended, and what it printed.
    fn run(&self, image: &str) -> (Option<i32>, String) {
        // runc has the containers of all tests in one place.
        let one = self.folder.path().file_name().unwrap().to_string_lossy();
        let one = one.trim_start_matches('.');
        let native = ["--snapshotter", "native", image, one];
        self.ctr(&[&["run", "--rm", "--net-host"][..], &native].concat())
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A generation that serves one image: busybox, and above it `message`, of which the layout has only the archive.
struct Generation {
    folder: tempfile::TempDir,
    index: Index,
    archive: Digest,
}

impl Generation {
    fn new(message: &str) -> Self {
        Self::of(archive("message", message.as_bytes()))
    }

    /// With these bytes as the archive of the upper layer.
    fn of(top: Vec<u8>) -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self::for_machine(architecture, top)
    }

    fn for_machine(architecture: &str, top: Vec<u8>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let blobs = folder.path().join("images/blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        let put = |bytes: &[u8]| {
            let digest = Digest::of(bytes);
            fs::write(blobs.join(digest.hex()), bytes).unwrap();
            let size = bytes.len() as u64;
            Content { digest, size }
        };
        let base = archive("bin/busybox", &fs::read(BUSYBOX).unwrap());
        let base_layer = put(&base);
        // What a registry has are other bytes, which are not here.
        let layer = [b"compressed ", &top[..]].concat();
        let layer = Content {
            digest: Digest::of(&layer),
            size: layer.len() as u64,
        };
        let config = json!({
            "architecture": architecture, "os": "linux",
            "config": { "Cmd": ["/bin/busybox", "cat", "/message"] },
            "rootfs": { "type": "layers", "diff_ids": [Digest::of(&base).to_string(), Digest::of(&top).to_string()] },
        });
        let config = put(config.to_string().as_bytes());
        let listed = |media_type: &str, content: Content| json!({ "mediaType": media_type, "digest": content.digest.to_string(), "size": content.size });
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": listed("application/vnd.oci.image.config.v1+json", config),
            "layers": [
                listed("application/vnd.oci.image.layer.v1.tar", base_layer),
                listed("application/vnd.oci.image.layer.v1.tar+zstd", layer),
            ],
        });
        let manifest = put(manifest.to_string().as_bytes());
        let archive = put(&top).digest;
        let mut index = FakeBundle::new(2, &[("a", b"a")]).unwrap().index;
        index.served = Served {
            images: vec![Image {
                name: NAME.to_owned(),
                media_type: MANIFEST.to_owned(),
                manifest,
                blobs: vec![config, base_layer, layer],
            }],
            repositories: Vec::new(),
        };
        Self {
            folder,
            index,
            archive,
        }
    }

    fn layout(&self) -> PathBuf {
        self.folder.path().join("images")
    }

    fn bring(&self, settings: &Settings) -> Result<Vec<String>, ContainerdError> {
        let (layout, work) = (self.layout(), self.folder.path());
        let ImportResult { names, mut failed } = bring(
            settings,
            &self.index,
            (&layout, work),
            &Heartbeat::default(),
        )?;
        failed.pop().map_or(Ok(names), Err)
    }

    fn by_digest(&self) -> String {
        format!(
            "registry.example/team/app@{}",
            self.index.served.images[0].manifest.digest
        )
    }

    fn archive(&self) -> PathBuf {
        self.folder
            .path()
            .join("images/blobs/sha256")
            .join(self.archive.hex())
    }
}

fn archive(path: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o755);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, path, bytes).unwrap();
    archive.into_inner().unwrap()
}

fn containerd_or_skip() -> Option<Containerd> {
    if !isolated_or_skip() || !available_or_skip("containerd") || !available_or_skip("runc") {
        return None;
    }
    if !Path::new(BUSYBOX).exists() {
        skipped("`busybox-static` is not installed");
        return None;
    }
    Some(Containerd::start())
}

#[test]
fn a_container_starts_from_an_image_of_which_no_layer_was_pulled() {
    let Some(containerd) = containerd_or_skip() else {
        return;
    };
    let settings = containerd.settings();
    for message in ["the old layer\n", "the new layer\n"] {
        let generation = Generation::new(message);
        assert_eq!(generation.bring(&settings).unwrap(), [NAME]);
        assert_eq!(
            containerd
                .names()
                .iter()
                .filter(|name| name.starts_with("twin."))
                .count(),
            0
        );
        for name in [NAME, &generation.by_digest()] {
            assert_eq!(containerd.run(name), (Some(0), message.to_owned()));
        }
        // The archive is gone from containerd: only what is unpacked is kept.
        let (_, stored) = containerd.ctr(&["content", "ls", "--quiet"]);
        assert!(!stored.contains(&generation.archive.hex()), "{stored}");
        // It is there: nothing is imported again.
        assert_eq!(generation.bring(&settings).unwrap(), Vec::<String>::new());
    }
}

#[test]
fn an_image_stays_pinned_until_no_bundle_of_the_site_needs_it() {
    let Some(containerd) = containerd_or_skip() else {
        return;
    };
    let settings = containerd.settings();
    let (old, new) = (Generation::new("old\n"), Generation::new("new\n"));
    old.bring(&settings).unwrap();
    new.bring(&settings).unwrap();
    let mut all = [NAME.to_owned(), old.by_digest(), new.by_digest()];
    all.sort();
    assert_eq!(containerd.pinned(), all);
    // An import that was cut off left the name of its twin.
    let left = "twin.outhaul.dev/0123:import";
    assert_eq!(containerd.ctr(&["images", "tag", NAME, left]).0, Some(0));
    let kept = names_of(&new.index, &new.layout()).unwrap();
    release(&settings, &kept).unwrap();
    assert_eq!(
        containerd.pinned(),
        kept.iter().cloned().collect::<Vec<_>>()
    );
    assert!(!containerd.names().contains(&left.to_owned()));
    // The earlier image is still there: its name moves back, without an import of what is not here any more.
    fs::remove_file(old.archive()).unwrap();
    assert_eq!(old.bring(&settings).unwrap(), [NAME]);
    assert_eq!(containerd.run(NAME), (Some(0), "old\n".to_owned()));
}

#[test]
fn a_name_that_an_image_of_the_running_bundle_has_stays_with_it_when_an_import_fails() {
    let Some(containerd) = containerd_or_skip() else {
        return;
    };
    let settings = containerd.settings();
    let (old, new) = (Generation::new("old\n"), Generation::new("new\n"));
    old.bring(&settings).unwrap();
    let before = containerd.names();
    // An archive that has its digest and is none: containerd takes it in, and fails to unpack it.
    let broken = Generation::of(b"this is no archive".repeat(64));
    let left = "twin.outhaul.dev/0123:import";
    assert_eq!(containerd.ctr(&["images", "tag", NAME, left]).0, Some(0));
    let error = broken.bring(&settings).unwrap_err();
    assert!(error.to_string().contains("containerd"), "{error}");
    assert_eq!(containerd.names(), before);
    assert_eq!(containerd.run(NAME), (Some(0), "old\n".to_owned()));
    assert_eq!(new.bring(&settings).unwrap(), [NAME]);
    assert_eq!(containerd.run(NAME), (Some(0), "new\n".to_owned()));
}

#[test]
fn two_images_of_one_name_and_an_image_for_another_machine_are_errors_of_the_bundle() {
    let settings = Settings {
        ctr: "/nowhere/ctr".into(),
        ..Settings::default()
    };
    let mut generation = Generation::new("one\n");
    let other = Generation::new("two\n");
    let from = other.layout().join("blobs/sha256");
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = generation.layout().join("blobs/sha256");
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    let images = &mut generation.index.served.images;
    images.extend(other.index.served.images.clone());
    let error = generation.bring(&settings).unwrap_err();
    assert!(matches!(error, ContainerdError::Twice { .. }), "{error}");
    assert!(error.is_of_the_bundle());

    // One of several manifests, for another machine.
    let mut generation = Generation::for_machine("another", archive("message", b"one"));
    let image = &mut generation.index.served.images[0];
    let list = json!({ "schemaVersion": 2, "mediaType": LIST, "manifests": [
        { "mediaType": MANIFEST, "digest": image.manifest.digest.to_string(), "size": image.manifest.size },
    ]})
    .to_string();
    image.blobs.push(image.manifest);
    image.media_type = LIST.to_owned();
    image.manifest = Content {
        digest: Digest::of(list.as_bytes()),
        size: list.len() as u64,
    };
    let path = image.manifest.digest.hex();
    fs::write(generation.layout().join("blobs/sha256").join(path), list).unwrap();
    let Some(containerd) = containerd_or_skip() else {
        return;
    };
    let error = generation.bring(&containerd.settings()).unwrap_err();
    assert!(
        matches!(error, ContainerdError::OtherMachine { .. }),
        "{error}"
    );
    assert_eq!(containerd.names(), Vec::<String>::new());
}

#[test]
fn a_failed_import_leaves_no_name_behind() {
    let Some(containerd) = containerd_or_skip() else {
        return;
    };
    let settings = containerd.settings();
    let generation = Generation::new("the new layer\n");
    let sound = fs::read(generation.archive()).unwrap();
    // Damaged on the disk: it is seen while it is copied.
    let mut bent = sound.clone();
    bent[600] ^= 1;
    fs::write(generation.archive(), bent).unwrap();
    let error = generation.bring(&settings).unwrap_err();
    assert!(error.to_string().contains("do not match it"), "{error}");
    assert_eq!(containerd.names(), Vec::<String>::new());
    fs::remove_file(generation.archive()).unwrap();
    let error = generation.bring(&settings).unwrap_err();
    assert!(matches!(error, ContainerdError::Lacking { .. }), "{error}");
    // containerd does not unpack with a snapshotter that it does not have.
    fs::write(generation.archive(), sound).unwrap();
    let wrong = Settings {
        snapshotter: Some("nobody".to_owned()),
        ..settings.clone()
    };
    let error = generation.bring(&wrong).unwrap_err();
    assert!(error.to_string().contains("cannot be brought"), "{error}");
    assert_eq!(containerd.names(), Vec::<String>::new());
    assert_eq!(generation.bring(&settings).unwrap(), [NAME]);
}
