//! What a bundle costs a site from the stick to applied files: time, syncs, bytes written, disk and memory.
//!
//! What comes in: nothing; it makes a fleet, sites with the folder reconciler, and bundles: 2,000 files of 2 KiB, one file of 1 GiB, 100 files of
//! 1 MiB, 50,000 files of 2 KiB. What goes out: the median of the ratios of pairs, an `import` by the real agent right before
//! a `tar x` of the same files and a `sync` of the file system; the calls that sync, where `strace` is installed; what lies on the
//! disk as a multiple of the content; the peak memory. The folder for all of it is `OUTHAUL_BENCH_FOLDER`, or a temporary one.
#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a helper of a test or benchmark that fails ends it"
)]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outhaul_test_kit::{Centre, Draft, Load};

const ROUNDS: usize = 5;
/// Name, files, and bytes of each.
const SHAPES: [(&str, usize, usize); 4] = [
    ("2000 files of 2 KiB", 2000, 2048),
    ("1 file of 1 GiB", 1, 1 << 30),
    ("100 files of 1 MiB", 100, 1 << 20),
    ("50000 files of 2 KiB", 50_000, 2048),
];
/// Calls that make something durable.
const SYNCS: &str = "fsync,fdatasync,sync,syncfs,sync_file_range";

fn main() {
    // `cargo test --benches` runs this without the flag: nothing to measure then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let agent = agent();
    // Words that name shapes; without one, all of them.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.starts_with(word));
    for (name, files, bytes) in SHAPES.into_iter().filter(|(name, ..)| wanted(name)) {
        measure(&agent, name, files, bytes);
    }
}

fn measure(agent: &Path, name: &str, files: usize, bytes: usize) {
    let folder = match std::env::var_os("OUTHAUL_BENCH_FOLDER") {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let folder = folder.unwrap();
    let centre = Centre::new();
    let (plain, bundle) = publish(&centre, folder.path(), files, bytes);
    let content = (files * bytes) as f64;
    let (mut ratios, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    let mut last = None;
    for round in 0..ROUNDS {
        let site = Site::new(agent, &centre, &folder.path().join(format!("site-{round}")));
        sync(folder.path());
        let begun = Instant::now();
        let peak = peak_kib(site.import(&bundle).spawn().unwrap());
        let mine = begun.elapsed().as_secs_f64();
        let used = (
            site.blocks("blobs"),
            site.blocks("generations"),
            site.blocks("applied"),
        );
        site.remove();
        let out = folder.path().join("tar");
        fs::create_dir(&out).unwrap();
        sync(folder.path());
        let begun = Instant::now();
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(&plain).arg("-C").arg(&out);
        assert!(tar.status().unwrap().success());
        sync(folder.path());
        let other = begun.elapsed().as_secs_f64();
        fs::remove_dir_all(&out).unwrap();
        ratios.push(mine / other);
        ours.push(mine);
        theirs.push(other);
        last = Some((peak, used));
    }
    let (peak, (blobs, generation, applied)) = last.unwrap();
    println!(
        "{name}: import and apply {:.2} s; tar x and sync {:.2} s; ratio {:.2} (aim 2.00 for small files); peak memory {:.1} MiB",
        median(ours),
        median(theirs),
        median(ratios),
        peak as f64 / 1024.0,
    );
    println!(
        "{name}: on disk {:.2} x content by the file system's count: blobs {:.2}, generation {:.2}, applied {:.2}",
        (blobs + generation + applied) / content,
        blobs / content,
        generation / content,
        applied / content,
    );
    let site = Site::new(agent, &centre, &folder.path().join("site-traced"));
    match syncs(&site.import(&bundle), &folder.path().join("trace")) {
        Some(syncs) => println!("{name}: {syncs} calls that sync"),
        None => println!("{name}: SKIPPED: the calls that sync: `strace` is not installed"),
    }
}

struct Site {
    agent: PathBuf,
    state: PathBuf,
}

impl Site {
    fn new(agent: &Path, centre: &Centre, state: &Path) -> Self {
        let site = Self {
            agent: agent.to_owned(),
            state: state.to_owned(),
        };
        let mut enrol = site.command();
        assert!(
            enrol
                .arg("enrol")
                .arg(centre.kit("drone-7"))
                .status()
                .unwrap()
                .success()
        );
        site
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.agent);
        command.arg("--state").arg(&self.state);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn import(&self, bundle: &Path) -> Command {
        let mut command = self.command();
        command.arg("import").arg(bundle);
        command
    }

    /// Bytes on the disk below a folder of the state; a file with several names counts once. What files share counts in each.
    fn blocks(&self, folder: &str) -> f64 {
        fn all(folder: &Path, sum: &mut f64) {
            for entry in fs::read_dir(folder)
                .into_iter()
                .flatten()
                .map(Result::unwrap)
            {
                let meta = fs::symlink_metadata(entry.path()).unwrap();
                match meta.is_dir() {
                    true => all(&entry.path(), sum),
                    false => *sum += meta.blocks() as f64 * 512.0 / meta.nlink() as f64,
                }
            }
        }
        let mut sum = 0.0;
        all(&self.state.join(folder), &mut sum);
        sum
    }

    fn remove(self) {
        fs::remove_dir_all(&self.state).unwrap();
    }
}

/// Runs a command under `strace` and counts its calls that sync; `None` without `strace`.
fn syncs(command: &Command, log: &Path) -> Option<usize> {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-e", &format!("trace={SYNCS}"), "-o"])
        .arg(log);
    strace.arg(command.get_program()).args(command.get_args());
    let mut child = strace
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    assert!(child.wait().unwrap().success());
    let text = fs::read_to_string(log).unwrap();
    // A call that another thread interrupted has two lines.
    Some(
        text.lines()
            .filter(|line| line.contains('(') && !line.contains("resumed>"))
            .count(),
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn sync(folder: &Path) {
    let mut sync = Command::new("sync");
    assert!(sync.arg("-f").arg(folder).status().unwrap().success());
}

/// The agent of this build, or the one that `OUTHAUL_BENCH_AGENT` names, to compare two.
fn agent() -> PathBuf {
    let named = std::env::var_os("OUTHAUL_BENCH_AGENT");
    named
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_outhaul-agent").into())
        .into()
}

/// Waits for `child`, which must apply the bundle; the largest memory that it was seen with, in KiB.
fn peak_kib(mut child: Child) -> u64 {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let seen = fs::read_to_string(&status).ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
            line.split_ascii_whitespace().nth(1)?.parse().ok()
        });
        peak = peak.max(seen.unwrap_or(0));
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(ended.success(), "the agent did not apply the bundle");
            return peak;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An archive of the files, and the bundle that brings them.
fn publish(centre: &Centre, folder: &Path, files: usize, bytes: usize) -> (PathBuf, PathBuf) {
    let mut load = Load::new("app");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for at in 0..files {
        let mut content = Vec::with_capacity(bytes);
        while content.len() < bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            content.extend_from_slice(&state.to_le_bytes());
        }
        load.payload
            .push((format!("d{:03}/f{at:05}", at % 500), content));
    }
    let from = folder.join("from");
    for (path, content) in &load.payload {
        let path = from.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let plain = folder.join("plain.tar");
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(&plain).arg("-C").arg(&from).arg(".");
    assert!(tar.status().unwrap().success());
    fs::remove_dir_all(from).unwrap();
    let bundle = centre.publish(&Draft::new([load]));
    (plain, bundle)
}
