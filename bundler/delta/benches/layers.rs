//! `cargo xtask bench layers`: patches of rebuilt layers against the whole layers that others carry.
//!
//! What comes in: pairs of old and new versions of Debian packages, as `apt-get download` gives them, each unpacked to the
//! tar archive that a layer with it is. What goes out: per pair and in all the bytes of the patch against the layer as gzip
//! carries it, and against the same tar in zstd, and how fast a patch is applied: of layers that are not compressed, and of layers in
//! gzip, of which the same bytes must come out, and as twins of layers in zstd, of which the archives must come out. Without a network it says so and measures nothing.

#![expect(clippy::cast_precision_loss, reason = "ratios for people")]

use std::fs::{self, File};
use std::io::{self, Cursor, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use outhaul_bundle::Digest;
use outhaul_bundle::index::{Blob, Content, Encoding};
use outhaul_bundle::patch::{Patch, PatchError, PatchSources, Source, View};
use outhaul_delta::{New, Old, Plain, patch};

const PACKAGES: [&str; 14] = [
    "bind9",
    "git",
    "libc6",
    "libcurl4",
    "libpython3.11-stdlib",
    "libssl3",
    "libxml2",
    "nginx-core",
    "nodejs",
    "openjdk-17-jre-headless",
    "openssh-server",
    "perl-base",
    "postgresql-15",
    "python3.11-minimal",
];

struct Sources<'a>(&'a [Old]);

impl PatchSources for Sources<'_> {
    fn read(&mut self, source: &Source, offset: u64, buffer: &mut [u8]) -> Result<(), PatchError> {
        for old in self.0.iter().filter(|old| old.source == *source) {
            let bytes = old.bytes.read(offset, buffer.len() as u64);
            buffer.copy_from_slice(&bytes.map_err(PatchError::Read)?);
        }
        Ok(())
    }
}

/// Bytes of all pairs together.
#[derive(Default)]
struct Total {
    pairs: u32,
    gzip: u64,
    zstd: u64,
    patch: u64,
    made: u64,
    applying: Duration,
    at_least_six: u32,
}

fn main() -> io::Result<()> {
    let kept = std::env::var_os("OUTHAUL_LAYERS").map(PathBuf::from);
    let temporary = tempfile::tempdir()?;
    let folder = kept.unwrap_or_else(|| temporary.path().to_owned());
    let mut pairs = Vec::new();
    for package in PACKAGES {
        match pair(package, &folder)? {
            Some(archives) => pairs.push((package, archives)),
            None => println!("SKIPPED {package}: two versions of it cannot be had here"),
        }
    }
    println!("layers that are not compressed, against gzip -6:");
    all(&pairs, None)?;
    for writer in Writer::all(temporary.path())? {
        if writer.is_twin {
            println!("twins of layers by {}:", writer.name);
            all(&pairs, Some(&writer))?;
            continue;
        }
        println!(
            "layers in gzip, by {}, and the same bytes again:",
            writer.name
        );
        all(&pairs, Some(&writer))?;
    }
    Ok(())
}

/// Every pair, and the sum.
fn all(pairs: &[(&str, [Vec<u8>; 2])], writer: Option<&Writer>) -> io::Result<()> {
    let mut total = Total::default();
    for (package, [old, new]) in pairs {
        measure((package, old, new), writer, &mut total)?;
    }
    if total.pairs == 0 {
        return Ok(());
    }
    let times = |whole: u64| whole as f64 / total.patch as f64;
    println!(
        "{} pairs: patches of {} bytes in place of {} (as carried) and {} (zstd -9): {:.1} and {:.1} times smaller; {} of {} pairs \
         at least 6 times smaller than what is carried; applied at {:.0} MB/s of what is made",
        total.pairs,
        total.patch,
        total.gzip,
        total.zstd,
        times(total.gzip),
        times(total.zstd),
        total.at_least_six,
        total.pairs,
        total.made as f64 / 1e6 / total.applying.as_secs_f64(),
    );
    Ok(())
}

/// The two newest versions of a package, as archives.
fn pair(package: &str, folder: &Path) -> io::Result<Option<[Vec<u8>; 2]>> {
    let listed = Command::new("apt-cache")
        .args(["madison", package])
        .output();
    let Ok(listed) = listed else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut versions: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split('|').nth(1).map(str::trim))
        .collect();
    versions.dedup();
    // The newest comes first.
    let [new, .., old] = versions.as_slice() else {
        return Ok(None);
    };
    let mut found = Vec::new();
    for version in [old, new] {
        let below = folder.join(format!("{package}_{}", version.replace([':', '/'], "_")));
        fs::create_dir_all(&below)?;
        if deb_in(&below)?.is_none() {
            let wanted = format!("{package}={version}");
            let done = Command::new("apt-get")
                .args(["download", "-q", &wanted])
                .current_dir(&below)
                .output()?;
            if !done.status.success() {
                return Ok(None);
            }
        }
        let Some(deb) = deb_in(&below)? else {
            return Ok(None);
        };
        let archive = Command::new("dpkg-deb")
            .arg("--fsys-tarfile")
            .arg(&deb)
            .output()?;
        if !archive.status.success() {
            return Ok(None);
        }
        found.push(archive.stdout);
    }
    Ok(found.try_into().ok())
}

fn deb_in(folder: &Path) -> io::Result<Option<PathBuf>> {
    let paths = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    Ok(paths
        .into_iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "deb")))
}

/// Who compresses a layer.
struct Writer {
    name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
    /// Whether patches make the archives in the place of its layers.
    is_twin: bool,
}

impl Writer {
    /// GNU gzip, and Go's own as `BuildKit` and containerd use it, where there is a Go.
    fn all(folder: &Path) -> io::Result<Vec<Self>> {
        let mut all = vec![Self {
            name: "gzip -6",
            program: "gzip".into(),
            arguments: &["-n", "-6"],
            is_twin: false,
        }];
        all.push(Self {
            name: "zstd -3",
            program: "zstd".into(),
            arguments: &["-q", "-c", "-3"],
            is_twin: true,
        });
        fs::write(folder.join("main.go"), GO)?;
        let program = folder.join("gogzip");
        let built = Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg("main.go")
            .current_dir(folder)
            .env("GO111MODULE", "off")
            .output();
        match built {
            Ok(done) if done.status.success() => all.push(Self {
                name: "Go's compress/gzip",
                program,
                arguments: &[],
                is_twin: false,
            }),
            _ => println!("SKIPPED Go's compress/gzip: there is no Go here"),
        }
        Ok(all)
    }

    fn compress(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut input = tempfile::tempfile()?;
        input.write_all(bytes)?;
        input.seek(SeekFrom::Start(0))?;
        let done = Command::new(&self.program)
            .args(self.arguments)
            .stdin(input)
            .output()?;
        match done.status.success() {
            true => Ok(done.stdout),
            false => Err(io::Error::other(format!("{} failed", self.name))),
        }
    }
}

const GO: &str = r#"package main

import (
	"compress/gzip"
	"io"
	"os"
)

func main() {
	w := gzip.NewWriter(os.Stdout)
	if _, err := io.Copy(w, os.Stdin); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
}
"#;

fn measure(
    (package, old, new): (&str, &[u8], &[u8]),
    writer: Option<&Writer>,
    total: &mut Total,
) -> io::Result<()> {
    let compress = |bytes: &[u8]| match writer {
        Some(writer) => writer.compress(bytes),
        None => {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
            gzip.write_all(bytes)?;
            gzip.finish()
        }
    };
    let zstd = zstd::encode_all(new, 9)?.len() as u64;
    let carried = compress(new)?;
    let gzip = carried.len() as u64;
    let started = Instant::now();
    // Of a layer in gzip the text is compared, and corrections make the same file of it.
    let is_twin = writer.is_some_and(|writer| writer.is_twin);
    let (layer, view, corrections) = match writer {
        Some(_) if is_twin => (
            carried.as_slice(),
            View::Unpacked(old.len() as u64),
            Vec::new(),
        ),
        Some(_) => {
            let open = &mut || Ok(Cursor::new(&carried));
            let split = outhaul_gzip::split(open, &mut io::sink(), gzip / 4);
            let corrections = split.map_err(|error| io::Error::other(error.to_string()))?;
            (
                carried.as_slice(),
                View::Inflated(old.len() as u64),
                corrections,
            )
        }
        None => (new, View::Contents, Vec::new()),
    };
    let olds = [Old {
        source: Source {
            blob: Digest::of(old),
            view,
        },
        bytes: plain(old)?,
    }];
    let mut bytes = Vec::new();
    let text = plain(new)?;
    let target = match writer {
        Some(_) if is_twin => New::Twin(&text, Digest::of(new)),
        Some(_) => New::Gzip(&text, &corrections),
        None => New::Plain(&text),
    };
    let made = patch(target, &olds, u64::MAX, &mut bytes)?;
    let making = started.elapsed();
    let size = made.map_or(0, |(size, _)| size);
    let digest = Digest::of(layer);
    let content = Content {
        digest,
        size: layer.len() as u64,
    };
    let blob = Blob {
        digest,
        size: layer.len() as u64,
        encoding: Encoding::Identity,
        contents: vec![content],
        sealed: None,
    };
    let started = Instant::now();
    let mut input = Cursor::new(&bytes);
    let mut out = tempfile::tempfile()?;
    Patch::read(&mut input, size)
        .and_then(|patch| {
            let twin = patch.twin(&blob)?;
            let made = twin.as_ref().unwrap_or(&blob);
            patch.apply(made, &mut input, &mut Sources(&olds), &mut out)
        })
        .map_err(|error| io::Error::other(error.to_string()))?;
    let applying = started.elapsed();
    let times = gzip as f64 / size as f64;
    let corrected = match writer {
        Some(writer) if !writer.is_twin => {
            format!(" ({} of corrections before compression)", corrections.len())
        }
        _ => String::new(),
    };
    println!(
        "{package}: {} bytes of tar, {gzip} compressed, {zstd} in zstd, a patch of {size}{corrected}: {times:.1} times smaller than \
         that, {:.1} than zstd; made in {:.1} s",
        new.len(),
        zstd as f64 / size as f64,
        making.as_secs_f64(),
    );
    total.pairs += 1;
    total.gzip += gzip;
    total.zstd += zstd;
    total.patch += size;
    total.made += new.len() as u64;
    total.applying += applying;
    total.at_least_six += u32::from(times >= 6.0);
    Ok(())
}

fn plain(bytes: &[u8]) -> io::Result<Plain> {
    let mut file: File = tempfile::tempfile()?;
    file.write_all(bytes)?;
    Plain::new(file)
}
