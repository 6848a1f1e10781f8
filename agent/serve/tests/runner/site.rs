//! A folder with what a site serves, and the program that serves it.
//!
//! What comes in: blobs and manifests. What goes out: image layouts, catalogs, and a running `outhaul-mirror`
//! that ends with its value.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use outhaul_serve::digest::Digest;
use serde_json::{Value, json};

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The program under test.
pub fn program() -> &'static str {
    env!("CARGO_BIN_EXE_outhaul-mirror")
}

/// The root folder of a site.
#[derive(Debug)]
pub struct Site {
    pub root: tempfile::TempDir,
}

impl Site {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { root }
    }

    pub fn folder(&self, generation: &str) -> PathBuf {
        let folder = self.root.path().join("generations").join(generation);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// An empty layout of a generation.
    pub fn layout(&self, generation: &str, name: &str) -> Layout {
        Layout::new(&self.folder(generation).join(name))
    }

    pub fn catalog(&self, generation: &str, content: &Value) {
        let mut content = content.clone();
        content["format"] = json!("outhaul-catalog-v1");
        let file = self.folder(generation).join("catalog.json");
        fs::write(file, content.to_string()).unwrap();
    }

    pub fn activate(&self, generation: &str) {
        let folder = self.root.path().join("serve");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("new"), format!("{generation}\n")).unwrap();
        fs::rename(folder.join("new"), folder.join("active")).unwrap();
    }

    pub fn serve(&self) -> Server {
        Server::start(self.root.path())
    }

    /// Generation `1` with one layout, active, served.
    pub fn serving(fill: impl FnOnce(&mut Layout)) -> (Self, Server) {
        let site = Self::new();
        let mut layout = site.layout("1", "images");
        fill(&mut layout);
        layout.write();
        site.catalog("1", &json!({ "layouts": [{ "folder": "images" }] }));
        site.activate("1");
        let server = site.serve();
        (site, server)
    }
}

/// An image layout being written.
#[derive(Debug)]
pub struct Layout {
    pub folder: PathBuf,
    entries: Vec<Value>,
}

impl Layout {
    pub fn new(folder: &Path) -> Self {
        fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
        let entries = Vec::new();
        Self {
            folder: folder.to_owned(),
            entries,
        }
    }

    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join("blobs/sha256").join(digest.hex())
    }

    pub fn blob(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        fs::write(self.path(&digest), bytes).unwrap();
        digest
    }

    /// A descriptor of a new blob.
    pub fn descriptor(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = self.blob(bytes).to_string();
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    }

    /// An image with one layer.
    pub fn image(&mut self, name: &str, layer: &[u8]) -> Digest {
        let config = self.descriptor("application/vnd.oci.image.config.v1+json", b"{}");
        let layer = self.descriptor("application/vnd.oci.image.layer.v1.tar+gzip", layer);
        let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
        self.entry(Some(name), MANIFEST, &manifest)
    }

    /// An entry of `index.json`.
    pub fn entry(&mut self, name: Option<&str>, media_type: &str, manifest: &Value) -> Digest {
        let bytes = manifest.to_string();
        let mut descriptor = self.descriptor(media_type, bytes.as_bytes());
        if let Some(name) = name {
            descriptor["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
        }
        self.entries.push(descriptor);
        Digest::of(bytes.as_bytes())
    }

    pub fn write(&self) {
        let marker = json!({ "imageLayoutVersion": "1.0.0" }).to_string();
        fs::write(self.folder.join("oci-layout"), marker).unwrap();
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": self.entries });
        fs::write(self.folder.join("index.json"), index.to_string()).unwrap();
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// `127.0.0.1:PORT`
    pub address: String,
    pub log: tempfile::NamedTempFile,
}

impl Server {
    pub fn start(root: &Path) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut child = Command::new(program())
            .args(["run", "--plain-http", "--listen", "127.0.0.1:0", "--state"])
            .arg(root)
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://");
        let address = address.trim_end_matches('/').to_owned();
        assert!(
            !address.is_empty(),
            "{}",
            fs::read_to_string(log.path()).unwrap()
        );
        Self {
            child,
            address,
            log,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
