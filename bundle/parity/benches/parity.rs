//! How fast parity is computed and lost parts are made again, as ratios against `par2`, or `cp` and `sync` where that is
//! not installed.
//!
//! What comes in: nothing; it makes eight parts of 64 MiB that do not compress. What goes out: the rates of encoding two
//! parity parts and of making two lost parts again, from files to files that are synced, the bytes of parity, and the peak
//! memory of this process for both.
#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a helper of a benchmark that fails ends it"
)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use outhaul_bundle::digest::Hasher;
use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::index::{Blob, Content, Encoding};
use outhaul_bundle::{Index, Parity, Volume};
use outhaul_parity::{BlobBytes, BlobPresence, ParityBytes, RebuildSink, encode, plan, rebuild};

const ROUNDS: usize = 3;
const PARTS: usize = 8;
const PARITY: usize = 2;
const PART: u64 = 64 << 20;

fn main() {
    // `cargo test --benches` runs this without the flag: nothing to measure then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("outhaul-parity-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let done = std::panic::catch_unwind(|| measure(&folder));
    std::fs::remove_dir_all(&folder).unwrap();
    done.unwrap();
}

fn measure(folder: &Path) {
    let index = index(folder);
    let volume = Volume::plan(0, &index, PART + 32 * 1024).unwrap().remove(0);
    let set = Parity::of_cut(&volume, PARITY).remove(0);
    assert_eq!(set.parts(), PARTS);
    let lost = [1, 5];
    let (mut encoding, mut making) = (Vec::new(), Vec::new());
    let (mut theirs, mut theirs_making) = (Vec::new(), Vec::new());
    let has_par2 = Command::new("par2")
        .arg("-V")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    for _ in 0..ROUNDS {
        encoding.push(timed(|| write_parity(folder, &index, &set)));
        making.push(timed(|| make(folder, &index, &set, &lost)));
        if has_par2 {
            theirs.push(timed(|| {
                par2(
                    folder,
                    &["c", "-q", "-q", "-s1048576", "-n1", "-r25"],
                    &index,
                );
            }));
            for at in lost {
                std::fs::remove_file(part(folder, at)).unwrap();
            }
            theirs_making.push(timed(|| par2(folder, &["r", "-q", "-q"], &index)));
            for name in std::fs::read_dir(folder).unwrap() {
                let path = name.unwrap().path();
                if path.extension().is_some_and(|ending| ending == "par2") {
                    std::fs::remove_file(path).unwrap();
                }
            }
        } else {
            theirs.push(timed(|| copy(folder, 0..PARTS)));
            theirs_making.push(timed(|| copy(folder, 0..PARTS)));
        }
    }
    let bytes = PART * PARTS as u64;
    let against = match has_par2 {
        true => "`par2`",
        false => "`cp` and `sync`",
    };
    let parity = set.layout(&index).bytes() * PARITY as u64;
    println!(
        "parity of {PARTS} parts of {} MiB: {PARITY} parity parts, {} MiB ({:.1} %)",
        PART >> 20,
        parity >> 20,
        100.0 * parity as f64 / bytes as f64
    );
    for (what, ours, theirs) in [
        ("encoding", encoding, theirs),
        ("making 2 parts again", making, theirs_making),
    ] {
        let (ours, theirs) = (best(&ours), best(&theirs));
        println!(
            "{what}: {:.0} MB/s, {:.2} of {against} ({:.0} MB/s)",
            bytes as f64 / ours.as_secs_f64() / 1e6,
            theirs.as_secs_f64() / ours.as_secs_f64(),
            bytes as f64 / theirs.as_secs_f64() / 1e6,
        );
    }
    println!("peak memory: {} MiB", peak_kib() >> 10);
}

fn part(folder: &Path, at: usize) -> PathBuf {
    folder.join(format!("part{at}"))
}

/// Parts of one blob each.
fn index(folder: &Path) -> Index {
    let mut index = FakeBundle::new(1, &[]).unwrap().index;
    index.blobs = (0..PARTS)
        .map(|at| {
            let mut file = BufWriter::new(File::create(part(folder, at)).unwrap());
            let mut hasher = Hasher::new();
            let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(at as u64 + 1);
            for _ in 0..PART / 8 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                file.write_all(&state.to_le_bytes()).unwrap();
                hasher.update(&state.to_le_bytes());
            }
            file.into_inner().unwrap().sync_all().unwrap();
            let (digest, size) = hasher.finish();
            Blob {
                digest,
                size,
                encoding: Encoding::Identity,
                contents: vec![Content { digest, size }],
                sealed: None,
            }
        })
        .collect();
    index
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn best(all: &[Duration]) -> Duration {
    all.iter().min().copied().unwrap_or_default()
}

struct Files(Vec<File>);

impl BlobBytes for Files {
    fn read(&mut self, place: usize, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0[place].read_exact_at(buffer, offset)
    }
}

impl ParityBytes for Files {
    fn read(&mut self, part: usize, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0[part - 1].read_exact_at(buffer, offset)
    }
}

fn opened(folder: &Path) -> Files {
    Files(
        (0..PARTS)
            .map(|at| File::open(part(folder, at)).unwrap())
            .collect(),
    )
}

fn parity(folder: &Path, part: usize) -> PathBuf {
    folder.join(format!("parity{part}"))
}

fn write_parity(folder: &Path, index: &Index, set: &Parity) {
    let create = |part| File::create(parity(folder, part)).unwrap();
    let mut out: Vec<File> = (1..=PARITY).map(create).collect();
    encode(index, set, &mut opened(folder), &mut |part, bytes| {
        out[part - 1].write_all(bytes)
    })
    .unwrap();
    for file in out {
        file.sync_all().unwrap();
    }
}

struct Made<'a> {
    folder: &'a Path,
    index: &'a Index,
    begun: BTreeMap<usize, (File, Hasher)>,
}

impl RebuildSink for Made<'_> {
    fn write(&mut self, place: usize, bytes: &[u8]) -> io::Result<()> {
        let folder = self.folder;
        let begin = || {
            let file = File::create(folder.join(format!("made{place}"))).unwrap();
            (file, Hasher::new())
        };
        let (file, hasher) = self.begun.entry(place).or_insert_with(begin);
        hasher.update(bytes);
        file.write_all(bytes)
    }

    fn end(&mut self, place: usize) -> io::Result<()> {
        let (file, hasher) = self.begun.remove(&place).unwrap();
        assert_eq!(hasher.finish().0, self.index.blobs[place].digest);
        file.sync_all()
    }
}

fn make(folder: &Path, index: &Index, set: &Parity, lost: &[usize]) {
    let standing = |place| match lost.contains(&place) {
        true => BlobPresence::Missing,
        false => BlobPresence::Here,
    };
    let steps = plan(&set.layout(index), &standing, PARITY).unwrap();
    let have: Vec<usize> = (1..=PARITY).collect();
    let mut kept = Files(
        have.iter()
            .map(|at| File::open(parity(folder, *at)).unwrap())
            .collect(),
    );
    let mut sink = Made {
        folder,
        index,
        begun: BTreeMap::new(),
    };
    let mut here = opened(folder);
    rebuild(index, set, &steps, &have, (&mut here, &mut kept), &mut sink).unwrap();
}

fn par2(folder: &Path, how: &[&str], index: &Index) {
    let mut command = Command::new("par2");
    command.args(how).arg(folder.join("set.par2"));
    if how[0] == "c" {
        command.args((0..index.blobs.len()).map(|at| part(folder, at)));
    }
    assert!(command.stdout(Stdio::null()).status().unwrap().success());
    sync();
}

fn copy(folder: &Path, parts: std::ops::Range<usize>) {
    for at in parts {
        let mut command = Command::new("cp");
        let to = folder.join(format!("copy{at}"));
        assert!(
            command
                .arg(part(folder, at))
                .arg(to)
                .status()
                .unwrap()
                .success()
        );
    }
    sync();
}

fn sync() {
    assert!(Command::new("sync").status().unwrap().success());
}

/// The most memory that this process had.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let digits: String = line
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap_or(0)
}
