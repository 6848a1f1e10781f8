//! How fast `outhaul-mirror` sends a blob of 1 GiB, as a ratio against nginx sending the same file.
//!
//! What comes in: nothing; it makes an image with one layer, and starts the mirror and nginx on this machine, both without TLS.
//! What goes out: the median of the ratios of pairs of downloads, one right after the other, by `curl`; the first download of a
//! blob, which is hashed on its way, apart. Where nginx or curl is not installed: SKIPPED, with the reason.
#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a helper of a test or benchmark that fails ends it"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use outhaul_serve::digest::{Digest, Hasher};
use serde_json::json;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const BYTES: u64 = 1 << 30;
const PIECE: usize = 1 << 20;
const ROUNDS: usize = 9;
/// Ratio that is aimed at.
const AIM: f64 = 0.70;

fn main() {
    // `cargo test --benches` runs this without the flag: nothing to measure then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    for program in ["nginx", "curl"] {
        if !is_there(program) {
            println!("SKIPPED: a blob against nginx: `{program}` is not installed");
            return;
        }
    }
    let site = tempfile::tempdir().unwrap();
    let images = site.path().join("generations/1/images");
    let digest = image(&images);
    activate(site.path());
    let mirror = Mirror::start(site.path());
    let nginx = Nginx::start(&images.join("blobs/sha256"), site.path());
    let ours = format!(
        "{}v2/docker.io/library/large/blobs/{digest}",
        mirror.address
    );
    let theirs = format!("http://{}/{}", nginx.address, digest.hex());

    // Once, so that the file is in memory for both.
    fetch(&theirs);
    let (first, reference) = (fetch(&ours), fetch(&theirs));
    report(
        "first download, hashed on its way",
        first,
        reference,
        reference / first,
    );
    let pairs: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|_| (fetch(&ours), fetch(&theirs)))
        .collect();
    let ratio = median(pairs.iter().map(|(ours, theirs)| theirs / ours));
    let ours = median(pairs.iter().map(|pair| pair.0));
    let theirs = median(pairs.iter().map(|pair| pair.1));
    report(
        &format!("median of {ROUNDS} downloads"),
        ours,
        theirs,
        ratio,
    );
    println!(
        "peak memory of the mirror: {:.1} MiB",
        peak_mib(mirror.child.id())
    );
}

fn report(what: &str, ours: f64, theirs: f64, ratio: f64) {
    let rate = |seconds: f64| (BYTES >> 20) as f64 / seconds;
    println!(
        "a blob of {} MiB, {what}: {:.0} MiB/s; nginx: {:.0} MiB/s; ratio {ratio:.2} (aim {AIM:.2})",
        BYTES >> 20,
        rate(ours),
        rate(theirs),
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn is_there(program: &str) -> bool {
    let mut version = Command::new(program);
    version
        .arg("-V")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    version.status().is_ok()
}

/// Seconds of one download.
fn fetch(url: &str) -> f64 {
    let begun = Instant::now();
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--fail",
        "--noproxy",
        "*",
        "--output",
        "/dev/null",
        url,
    ]);
    assert!(curl.status().unwrap().success(), "{url}");
    begun.elapsed().as_secs_f64()
}

/// An image layout in `folder` with one image, whose one layer has [`BYTES`] that do not compress.
fn image(folder: &Path) -> Digest {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let path = folder.join("large");
    let mut file = fs::File::create(&path).unwrap();
    let (mut hasher, mut state) = (Hasher::default(), 0x9e37_79b9_7f4a_7c15_u64);
    let mut piece = Vec::with_capacity(PIECE);
    for _ in 0..BYTES / PIECE as u64 {
        piece.clear();
        while piece.len() < PIECE {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            piece.extend_from_slice(&state.to_le_bytes());
        }
        hasher.update(&piece);
        file.write_all(&piece).unwrap();
    }
    let large = hasher.finish();
    fs::rename(&path, blobs.join(large.hex())).unwrap();
    let small = |bytes: &[u8]| -> Digest {
        let digest = Digest::of(bytes);
        fs::write(blobs.join(digest.hex()), bytes).unwrap();
        digest
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": { "mediaType": "application/vnd.oci.image.config.v1+json", "digest": small(b"{}").to_string(), "size": 2 },
        "layers": [{
            "mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": large.to_string(), "size": BYTES,
        }],
    });
    let manifest = manifest.to_string();
    let entry = json!({
        "mediaType": MANIFEST, "digest": small(manifest.as_bytes()).to_string(), "size": manifest.len(),
        "annotations": { "org.opencontainers.image.ref.name": "docker.io/library/large:1" },
    });
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry],
    });
    fs::write(folder.join("index.json"), index.to_string()).unwrap();
    let marker = json!({ "imageLayoutVersion": "1.0.0" });
    fs::write(folder.join("oci-layout"), marker.to_string()).unwrap();
    large
}

/// Generation 1 of the site at `root` is what is served.
fn activate(root: &Path) {
    let catalog = json!({ "format": "outhaul-catalog-v1", "layouts": [{ "folder": "images" }] });
    fs::write(root.join("generations/1/catalog.json"), catalog.to_string()).unwrap();
    fs::create_dir(root.join("serve")).unwrap();
    fs::write(root.join("serve/active"), "1\n").unwrap();
}

/// The mirror as it is built for this benchmark.
struct Mirror {
    child: Child,
    /// `http://127.0.0.1:PORT/`
    address: String,
}

impl Mirror {
    fn start(root: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul-mirror"));
        command
            .args(["run", "--plain-http", "--listen", "127.0.0.1:0", "--state"])
            .arg(root)
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut address = String::new();
        let printed = child.stdout.take().unwrap();
        BufReader::new(printed).read_line(&mut address).unwrap();
        let address = format!("{}/", address.trim().trim_end_matches('/'));
        Self { child, address }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn peak_mib(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kib: f64 = line
        .split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kib / 1024.0
}

/// nginx in the foreground, as it is packaged, with `sendfile`.
struct Nginx {
    child: Child,
    address: String,
}

impl Nginx {
    fn start(files: &Path, folder: &Path) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let (folder, files) = (folder.join("nginx"), files.display());
        fs::create_dir(&folder).unwrap();
        let at = folder.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("  {kind}_temp_path {at}/{kind};\n"))
            .concat();
        // `user` counts only for root, who owns the file.
        let config = format!(
            "daemon off;\nuser root;\nworker_processes auto;\npid {at}/pid;\nerror_log {at}/error.log;\n\
             events {{ worker_connections 256; }}\nhttp {{\n  access_log off;\n  sendfile on;\n  tcp_nopush on;\n{temporary}  \
             server {{ listen {address}; root {files}; }}\n}}\n"
        );
        let path = folder.join("nginx.conf");
        fs::write(&path, config).unwrap();
        let mut command = Command::new("nginx");
        command
            .arg("-e")
            .arg(folder.join("error.log"))
            .arg("-c")
            .arg(&path);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        while TcpStream::connect(&address).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "nginx ended");
            std::thread::yield_now();
        }
        Self { child, address }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers end with it when it is asked, and outlive it when it is killed.
        let mut ask = Command::new("kill");
        let _ = ask.arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}
