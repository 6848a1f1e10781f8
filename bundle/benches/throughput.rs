//! How fast bundles are written and read, as ratios against what one would use instead.
//!
//! What comes in: the Rust toolchain's own libraries, real content that every developer has. What goes
//! out: writing a full bundle against `tar | zstd` at the same level; verifying and staging one against
//! `sha256sum` of the same bytes; peak memory. Each pair runs in turns, and the best of three counts.
#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a helper of a benchmark that fails ends it"
)]

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use outhaul_bundle::digest::Hasher;
use outhaul_bundle::encode::{ContentSource, ContentToEncode, LEVEL, encode_blob, plan_blobs};
use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::index::{Blob, Content};
use outhaul_bundle::{BlobSink, BlobSource, BundleReader, Digest, Index, Limits, write_bundle};

const ROUNDS: usize = 3;
/// Size of the bundle that is verified and staged.
const STAGED_BYTES: u64 = 2 << 30;

/// A folder of blobs or contents, each a file that is named by its digest.
#[derive(Clone)]
struct Folder(PathBuf);

impl Folder {
    fn path(&self, digest: Digest) -> PathBuf {
        self.0.join(digest.hex())
    }
}

impl ContentSource for Folder {
    fn open(&mut self, content: &Content) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(File::open(self.path(content.digest))?))
    }
}

impl BlobSource for Folder {
    fn open(&mut self, blob: &Blob) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(File::open(self.path(blob.digest))?))
    }
}

impl BlobSink for Folder {
    fn begin(&mut self, blob: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        Ok(Some(Box::new(File::create(
            self.path(blob.digest).with_extension("tmp"),
        )?)))
    }

    fn commit(&mut self, blob: &Blob) -> io::Result<()> {
        let path = self.path(blob.digest);
        std::fs::rename(path.with_extension("tmp"), path)
    }

    fn discard(&mut self, _: &Blob) {}
}

fn main() {
    // `cargo test --benches` runs this without the flag: nothing to measure then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    // `cargo bench … -- writing` measures that alone.
    let only = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with("--"));
    let folder = std::env::temp_dir().join(format!("outhaul-throughput-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let result = std::panic::catch_unwind(|| {
        for (name, measure) in [("staging", staging as fn(&Path)), ("writing", writing)] {
            if only.as_ref().is_none_or(|only| only == name) {
                measure(&folder);
            }
        }
    });
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(result.is_ok(), "the benchmark failed");
}

/// The shared libraries of the toolchain that compiled this.
fn libraries() -> Vec<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .unwrap();
    let library = Path::new(String::from_utf8(output.stdout).unwrap().trim()).join("lib");
    let mut files: Vec<PathBuf> = std::fs::read_dir(library)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.to_string_lossy().contains(".so"))
        .collect();
    files.sort();
    files
}

fn writing(folder: &Path) {
    let contents = Folder(folder.join("contents"));
    let blobs = Folder(folder.join("blobs"));
    std::fs::create_dir_all(&contents.0).unwrap();
    std::fs::create_dir_all(&blobs.0).unwrap();
    let mut candidates = Vec::new();
    for path in libraries() {
        // Never whole in memory, so that the peak below is the writer's.
        let mut hasher = Hasher::new();
        io::copy(&mut File::open(&path).unwrap(), &mut hasher).unwrap();
        let (digest, size) = hasher.finish();
        std::fs::copy(&path, contents.path(digest)).unwrap();
        let path = path.file_name().unwrap().to_string_lossy().into_owned();
        candidates.push(ContentToEncode { digest, size, path });
    }
    let total: u64 = candidates.iter().map(|candidate| candidate.size).sum();
    let out = folder.join("full.outhaul");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(timed(|| full_bundle(&candidates, &contents, &blobs, &out)));
        theirs.push(timed(|| {
            let mut tar = Command::new("tar")
                .args(["--create", "--file=-", "--directory"])
                .arg(&contents.0)
                .arg(".")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let packed = File::create(folder.join("full.tar.zst")).unwrap();
            let status = Command::new("zstd")
                .args(["--quiet", &format!("-{LEVEL}"), "--stdout"])
                .stdin(tar.stdout.take().unwrap())
                .stdout(packed)
                .status()
                .unwrap();
            assert!(tar.wait().unwrap().success() && status.success());
        }));
    }
    let size = |name: &str| std::fs::metadata(folder.join(name)).unwrap().len();
    println!(
        "write a full bundle of {} MB: {:.0} MB/s; tar | zstd -{LEVEL}: {:.0} MB/s; \
         ratio {:.2} (aim 0.90); sizes {} and {} MB; peak memory {} MiB",
        total / 1_000_000,
        speed(total, best(&ours)),
        speed(total, best(&theirs)),
        best(&theirs).as_secs_f64() / best(&ours).as_secs_f64(),
        size("full.outhaul") / 1_000_000,
        size("full.tar.zst") / 1_000_000,
        peak_mib(),
    );
}

/// All that the bundler does with contents: plan, encode, index, tar.
fn full_bundle(candidates: &[ContentToEncode], contents: &Folder, blobs: &Folder, out: &Path) {
    let mut index = FakeBundle::new(1, &[]).unwrap().index;
    for plan in plan_blobs(candidates) {
        let temporary = blobs.0.join("tmp");
        let file = BufWriter::with_capacity(1 << 20, File::create(&temporary).unwrap());
        let (blob, file) = encode_blob(&plan, &mut contents.clone(), file).unwrap();
        drop(file);
        std::fs::rename(&temporary, blobs.path(blob.digest)).unwrap();
        index.blobs.push(blob);
    }
    write(&index, blobs, out);
}

fn write(index: &Index, blobs: &Folder, out: &Path) {
    let file = File::create(out).unwrap();
    write_bundle(file, &[], &index.to_bytes(), index, &mut blobs.clone()).unwrap();
}

fn staging(folder: &Path) {
    let layers = Folder(folder.join("layers"));
    let staged = Folder(folder.join("staged"));
    std::fs::create_dir_all(&layers.0).unwrap();
    std::fs::create_dir_all(&staged.0).unwrap();
    let bundle = folder.join("staged.outhaul");
    let mut index = FakeBundle::new(1, &[]).unwrap().index;
    let mut total = 0;
    'filled: for round in 0u32.. {
        for path in libraries() {
            // Another content each time round.
            let file = File::open(&path).unwrap();
            let mut hasher = Hasher::new();
            io::copy(&mut file.chain(&round.to_le_bytes()[..]), &mut hasher).unwrap();
            let (digest, size) = hasher.finish();
            std::fs::copy(&path, layers.path(digest)).unwrap();
            let mut end = File::options()
                .append(true)
                .open(layers.path(digest))
                .unwrap();
            end.write_all(&round.to_le_bytes()).unwrap();
            let contents = vec![Content { digest, size }];
            let encoding = outhaul_bundle::index::Encoding::Identity;
            index.blobs.push(Blob {
                digest,
                size,
                encoding,
                contents,
                sealed: None,
            });
            total += size;
            if total >= STAGED_BYTES {
                break 'filled;
            }
        }
    }
    write(&index, &layers, &bundle);
    std::fs::remove_dir_all(&layers.0).unwrap();
    let bytes = index.to_bytes();
    let expected = Content {
        digest: Digest::of(&bytes),
        size: bytes.len() as u64,
    };
    let before = peak_mib();
    let (mut ours, mut verified, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(timed(|| {
            let quiet = Stdio::null();
            assert!(
                Command::new("sha256sum")
                    .arg(&bundle)
                    .stdout(quiet)
                    .status()
                    .unwrap()
                    .success()
            );
        }));
        verified.push(timed(|| read(&bundle, &expected, &mut Nowhere)));
        ours.push(timed(|| read(&bundle, &expected, &mut staged.clone())));
        for entry in std::fs::read_dir(&staged.0).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    std::fs::remove_file(&bundle).unwrap();
    println!(
        "verify and stage {} MB: {:.0} MB/s (verify alone {:.0} MB/s); sha256sum: {:.0} MB/s; \
         ratio {:.2} (aim 0.80); memory {} MiB more than before",
        total / 1_000_000,
        speed(total, best(&ours)),
        speed(total, best(&verified)),
        speed(total, best(&theirs)),
        best(&theirs).as_secs_f64() / best(&ours).as_secs_f64(),
        peak_mib() - before,
    );
}

fn read(bundle: &Path, expected: &Content, sink: &mut dyn BlobSink) {
    let mut reader = BundleReader::new(File::open(bundle).unwrap(), Limits::default());
    reader.read_metadata().unwrap();
    let (index, _) = reader.read_index(expected).unwrap();
    reader.read_blobs(&index, sink).unwrap();
}

/// A store that has everything already.
struct Nowhere;

impl BlobSink for Nowhere {
    fn begin(&mut self, _: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        Ok(None)
    }

    fn commit(&mut self, _: &Blob) -> io::Result<()> {
        Ok(())
    }

    fn discard(&mut self, _: &Blob) {}
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn best(times: &[Duration]) -> Duration {
    times.iter().min().copied().unwrap()
}

fn speed(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

/// Peak memory of this process so far, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}
