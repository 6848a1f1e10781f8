//! How fast the real agent takes a bundle in, as a ratio against `sha256sum` of the same bytes.
//!
//! What comes in: nothing; it makes a fleet, a site that asks before it applies, and bundles of 256 MiB and
//! 2 GiB of content that does not compress. What goes out: the speed of `outhaul-agent import` up to the
//! question (verified, staged, synced to disk), the ratio, and the agent's peak memory for both sizes.
#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a helper of a test or benchmark that fails ends it"
)]

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::index::{Assignment, Blob, Content, Encoding, File as Listed, Index};
use outhaul_bundle::{BlobSource, Digest};
use outhaul_test_kit::Centre;

const ROUNDS: usize = 3;
const MIB: u64 = 1 << 20;
/// Size of one content.
const PIECE: u64 = 64 * MIB;
const SIZES: [u64; 2] = [256 * MIB, 2048 * MIB];

/// Contents as files that are named by their digests.
struct Folder(PathBuf);

impl BlobSource for Folder {
    fn open(&mut self, blob: &Blob) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(File::open(self.0.join(blob.digest.hex()))?))
    }
}

fn main() {
    // `cargo test --benches` runs this without the flag: nothing to measure then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let agent = agent();
    let mut reported = Vec::new();
    for size in SIZES {
        let centre = Centre::new();
        let (kit, bundle) = publish(&centre, size);
        let (mut ours, mut theirs, mut peak) = (Vec::new(), Vec::new(), 0);
        for round in 0..ROUNDS {
            let state = centre.folder().join(format!("state-{round}"));
            let command = || {
                let mut command = Command::new(&agent);
                command.arg("--state").arg(&state).stdout(Stdio::null());
                command
            };
            assert!(command().arg("enrol").arg(&kit).status().unwrap().success());
            std::fs::write(state.join("agent.toml"), "approval = \"always\"\n").unwrap();
            let begun = Instant::now();
            let mut child = command().arg("import").arg(&bundle).spawn().unwrap();
            peak = peak.max(peak_kib(&mut child));
            ours.push(begun.elapsed());
            std::fs::remove_dir_all(&state).unwrap();
            let begun = Instant::now();
            let mut sum = Command::new("sha256sum");
            assert!(
                sum.arg(&bundle)
                    .stdout(Stdio::null())
                    .status()
                    .unwrap()
                    .success()
            );
            theirs.push(begun.elapsed());
        }
        let (ours, theirs) = (best(&ours), best(&theirs));
        reported.push(format!(
            "import of {} MiB by the agent: {:.0} MiB/s; sha256sum: {:.0} MiB/s; ratio {:.2} (aim 0.80); \
             peak memory {:.1} MiB (aim 64)",
            size / MIB,
            (size / MIB) as f64 / ours.as_secs_f64(),
            (size / MIB) as f64 / theirs.as_secs_f64(),
            theirs.as_secs_f64() / ours.as_secs_f64(),
            peak as f64 / 1024.0,
        ));
    }
    for line in reported {
        println!("{line}");
    }
}

/// The agent as it is released.
fn agent() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args([
        "build",
        "--release",
        "--quiet",
        "--locked",
        "--package",
        "outhaul-agent",
        "--bin",
        "outhaul-agent",
    ]);
    assert!(build.status().unwrap().success());
    let bench = std::env::current_exe().unwrap();
    bench.ancestors().nth(2).unwrap().join("outhaul-agent")
}

fn best(times: &[Duration]) -> Duration {
    times.iter().min().copied().unwrap()
}

/// Waits for `child`, which must find the bundle good; the largest memory that it was seen with, in KiB.
fn peak_kib(child: &mut Child) -> u64 {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let seen = std::fs::read_to_string(&status).ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
            line.split_ascii_whitespace().nth(1)?.parse().ok()
        });
        peak = peak.max(seen.unwrap_or(0));
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(ended.success(), "the agent refused the bundle");
            return peak;
        }
        std::thread::yield_now();
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A fleet's first bundle of `size` bytes, and the kit of a site that takes it.
fn publish(centre: &Centre, size: u64) -> (PathBuf, PathBuf) {
    let mut blobs = Folder(centre.folder().join("blobs"));
    std::fs::create_dir(&blobs.0).unwrap();
    let index = index(centre, size, &blobs.0);
    let path = centre.folder().join("large.outhaul");
    let out = io::BufWriter::new(File::create(&path).unwrap());
    centre.write(out, &index, &mut blobs).flush().unwrap();
    std::fs::remove_dir_all(&blobs.0).unwrap();
    (centre.kit("drone-7"), path)
}

fn index(centre: &Centre, size: u64, blobs: &Path) -> Index {
    let fake = FakeBundle::new(1, &[]).unwrap().index;
    let mut files = Vec::new();
    let mut listed = Vec::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for at in 0..size / PIECE {
        let mut bytes = Vec::with_capacity(usize::try_from(PIECE).unwrap());
        for _ in 0..PIECE / 8 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        let digest = Digest::of(&bytes);
        std::fs::write(blobs.join(digest.hex()), &bytes).unwrap();
        listed.push(Blob {
            digest,
            size: PIECE,
            encoding: Encoding::Identity,
            contents: vec![Content {
                digest,
                size: PIECE,
            }],
            sealed: None,
        });
        files.push(Listed {
            path: format!("image-{at:03}.tar.gz").parse().unwrap(),
            content: digest,
            size: PIECE,
            executable: false,
        });
    }
    let assignment = Assignment {
        files: Vec::new(),
        payload: files,
        ..fake.assignments[0].clone()
    };
    Index {
        fleet: centre.fleet.id().parse().unwrap(),
        stream: centre.stream("dev", "drone"),
        assignments: vec![assignment],
        blobs: listed,
        ..fake
    }
}
