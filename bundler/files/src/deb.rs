//! Debian packages: name, version and architecture, read from the package itself.
//!
//! What comes in: the bytes of a `.deb` as a stream. What goes out: a [`Package`]. It reads the `ar`
//! members up to the control archive, unpacks at most 4 MiB of that, and of that only the file
//! `control`. Nothing is written anywhere, and the package's own data is not looked at.

use std::collections::BTreeMap;
use std::io::{self, Read};

pub mod fake;

/// Most `ar` members before the control archive.
const MAX_MEMBERS: usize = 4;
/// Largest control archive, packed and unpacked, in bytes. Real ones have some 100 KiB.
const MAX_ARCHIVE_BYTES: u64 = 4 * 1024 * 1024;
/// Largest `control` file in bytes.
const MAX_CONTROL_BYTES: u64 = 256 * 1024;
/// Most files of a control archive that are looked at.
const MAX_FILES: usize = 64;
/// Longest field that is kept, in bytes.
const MAX_FIELD_BYTES: usize = 256;
/// Memory that xz may ask for, in KiB: enough for its strongest level, whose dictionary has 64 MiB.
const XZ_MEMORY_KIB: u32 = 96 * 1024;

/// What a package says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `amd64`, `arm64`, `all` …
    pub architecture: String,
    /// Name and version of the source that it was built from: advisories are about that.
    pub source: (String, String),
    /// `debian`, `ubuntu` or whose it says it is; `None` when it cannot be known.
    pub vendor: Option<String>,
}

impl Package {
    /// The package URL; `None` without a vendor, which it needs.
    pub fn purl(&self) -> Option<String> {
        let vendor = self.vendor.as_ref()?;
        // Of the characters that a version may have, these mean something in a URL.
        let version = self.version.replace('+', "%2B").replace(':', "%3A");
        Some(format!(
            "pkg:deb/{vendor}/{}@{version}?arch={}",
            self.name, self.architecture
        ))
    }
}

/// Why bytes are not a package that can be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DebError {
    /// The bytes could not be read, or the archive in it not be unpacked.
    #[error("its control archive cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Not a package.
    #[error("it is not a Debian package: {problem}")]
    Malformed {
        /// What is wrong.
        problem: &'static str,
    },
}

fn malformed<T>(problem: &'static str) -> Result<T, DebError> {
    Err(DebError::Malformed { problem })
}

/// Reads what the package in `from` says of itself.
///
/// # Errors
/// [`DebError`] when it is not a package or larger than any real one in a part that must be read.
pub fn read(from: impl Read) -> Result<Package, DebError> {
    read_with_control(from).map(|(package, _)| package)
}

/// The same, with the text of its `control` file.
///
/// # Errors
/// As [`read`].
pub fn read_with_control(mut from: impl Read) -> Result<(Package, String), DebError> {
    let mut magic = [0; 8];
    from.read_exact(&mut magic)?;
    if &magic != b"!<arch>\n" {
        return malformed("it does not begin as an `ar` archive");
    }
    for at in 0..MAX_MEMBERS {
        let (name, size) = member(&mut from)?;
        if at == 0 && name != "debian-binary" {
            return malformed("its first member is not `debian-binary`");
        }
        if let Some(compression) = name.strip_prefix("control.tar") {
            if size > MAX_ARCHIVE_BYTES {
                return malformed("its control archive is too large");
            }
            let control = control(from.take(size), compression)?;
            return Ok((package(&control)?, control));
        }
        if size > MAX_ARCHIVE_BYTES {
            return malformed("a large member stands before its control archive");
        }
        let padded = size + size % 2;
        if io::copy(&mut from.by_ref().take(padded), &mut io::sink())? != padded {
            return malformed("it is truncated");
        }
    }
    malformed("it has no control archive")
}

/// Name and size of the next `ar` member.
fn member(from: &mut impl Read) -> Result<(String, u64), DebError> {
    let mut header = [0; 60];
    from.read_exact(&mut header)?;
    let field = |part: &[u8]| str::from_utf8(part).map(|text| text.trim_end().to_owned());
    let (Ok(name), Ok(size)) = (field(&header[..16]), field(&header[48..58])) else {
        return malformed("a member's header is not text");
    };
    let Ok(size) = size.parse() else {
        return malformed("a member's size is not a number");
    };
    if &header[58..] != b"`\n" {
        return malformed("a member's header does not end as it should");
    }
    Ok((name.trim_end_matches('/').to_owned(), size))
}

/// The text of `control` in the archive.
fn control<'a>(packed: impl Read + 'a, compression: &str) -> Result<String, DebError> {
    let unpacked: Box<dyn Read + 'a> = match compression {
        "" => Box::new(packed),
        ".gz" => Box::new(flate2::read::GzDecoder::new(packed)),
        ".xz" => Box::new(lzma_rust2::XzReader::new_mem_limit(
            packed,
            false,
            XZ_MEMORY_KIB,
        )),
        ".zst" => {
            let mut decoder = zstd::Decoder::new(packed)?;
            decoder.window_log_max(23)?;
            Box::new(decoder)
        }
        _ => return malformed("its control archive is compressed in an unknown way"),
    };
    let mut archive = tar::Archive::new(unpacked.take(MAX_ARCHIVE_BYTES));
    for entry in archive.entries()?.take(MAX_FILES) {
        let entry = entry?;
        if matches!(&*entry.path_bytes(), b"./control" | b"control") {
            let mut text = String::new();
            entry.take(MAX_CONTROL_BYTES).read_to_string(&mut text)?;
            return Ok(text);
        }
    }
    malformed("its control archive has no `control`")
}

fn package(control: &str) -> Result<Package, DebError> {
    let mut fields = BTreeMap::new();
    for line in control.lines().take_while(|line| !line.is_empty()) {
        // Lines that begin with a space belong to the field before; none that is read here has them.
        if let Some((name, value)) = line.split_once(':')
            && !line.starts_with([' ', '\t'])
        {
            fields
                .entry(name.to_ascii_lowercase())
                .or_insert_with(|| value.trim());
        }
    }
    let field = |name: &str, allowed: &[u8]| {
        let value = fields.get(name).copied().unwrap_or_default();
        let fits = |b: u8| b.is_ascii_alphanumeric() || allowed.contains(&b);
        let good = (1..=MAX_FIELD_BYTES).contains(&value.len()) && value.bytes().all(fits);
        good.then(|| value.to_owned())
    };
    let (Some(name), Some(version), Some(architecture)) = (
        field("package", b"+-."),
        field("version", b"+-.:~"),
        field("architecture", b"-"),
    ) else {
        return malformed("its `control` lacks a proper name, version or architecture");
    };
    let maintainer = fields.get("maintainer").copied().unwrap_or_default();
    let vendor = match field("origin", b"-") {
        Some(origin) => Some(origin.to_ascii_lowercase()),
        None if version.contains("ubuntu") || maintainer.contains("ubuntu.com>") => {
            Some("ubuntu".to_owned())
        }
        None if maintainer.contains("debian.org>") => Some("debian".to_owned()),
        None => None,
    };
    let source = source(
        fields.get("source").copied().unwrap_or_default(),
        (&name, &version),
    );
    Ok(Package {
        name,
        version,
        architecture,
        source,
        vendor,
    })
}

/// The field `Source`: a name, and a version where that differs; without the field the package's own.
fn source(field: &str, (name, version): (&str, &str)) -> (String, String) {
    let own = || (name.to_owned(), version.to_owned());
    let is_plain = |text: &str, allowed: &[u8]| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || allowed.contains(&b);
        (1..=MAX_FIELD_BYTES).contains(&text.len()) && text.bytes().all(fits)
    };
    let (source, built) = match field.split_once('(') {
        Some((source, built)) => (source.trim(), built.trim().trim_end_matches(')').trim()),
        None => (field.trim(), version),
    };
    match is_plain(source, b"+-.") && is_plain(built, b"+-.:~") {
        true => (source.to_owned(), built.to_owned()),
        false => own(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::fake::{ar, deb, tar};
    use super::*;

    const CONTROL: &str = "Package: label-printer\nVersion: 1:2.3+dfsg-1~bpo12\nArchitecture: arm64\n\
        Maintainer: A <a@lists.debian.org>\nDescription: prints\n Package: not this\n";

    fn with(archive: &str, bytes: &[u8]) -> Result<Package, DebError> {
        read(&*ar(&[("debian-binary/", b"2.0\n"), (archive, bytes)]))
    }

    #[test]
    fn name_version_architecture_and_vendor_are_read() {
        let package = read(&*deb(CONTROL)).unwrap();
        assert_eq!(package.version, "1:2.3+dfsg-1~bpo12");
        let purl = "pkg:deb/debian/label-printer@1%3A2.3%2Bdfsg-1~bpo12?arch=arm64";
        assert_eq!(package.purl().unwrap(), purl);
    }

    #[test]
    fn the_source_is_the_one_that_it_names_or_the_package_itself() {
        let own = read(&*deb(CONTROL)).unwrap();
        assert_eq!(own.source, (own.name, own.version));
        for (field, name, version) in [
            ("Source: openssl\n", "openssl", "1:2.3+dfsg-1~bpo12"),
            ("Source: gcc-12 (12.2.0-14)\n", "gcc-12", "12.2.0-14"),
            ("Source: a b\n", "label-printer", "1:2.3+dfsg-1~bpo12"),
        ] {
            let package = read(&*deb(&format!("{field}{CONTROL}"))).unwrap();
            assert_eq!(package.source, (name.to_owned(), version.to_owned()));
        }
    }

    #[test]
    fn every_usual_compression_is_read() {
        let plain = tar("./control", CONTROL.as_bytes());
        let zstd = zstd::encode_all(&*plain, 3).unwrap();
        for (name, bytes) in [("control.tar", &plain), ("control.tar.zst", &zstd)] {
            assert_eq!(with(name, bytes).unwrap().name, "label-printer", "{name}");
        }
        // Made with `xz --check=crc32` from `control` alone.
        let xz = include_bytes!("testdata/control.tar.xz");
        assert_eq!(with("control.tar.xz", xz).unwrap().name, "label-printer");
    }

    #[test]
    fn an_unknown_vendor_gives_no_package_url() {
        let other = CONTROL.replace("lists.debian.org", "example.org");
        assert_eq!(read(&*deb(&other)).unwrap().purl(), None);
        let origin = format!("Origin: Raspbian\n{other}");
        assert_eq!(read(&*deb(&origin)).unwrap().vendor.unwrap(), "raspbian");
    }

    #[test]
    fn what_is_no_package_is_reported() {
        let archive = tar("control", CONTROL.as_bytes());
        for (bytes, problem) in [
            (b"!<arch>\n".to_vec(), "cannot be read"),
            (b"PK\x03\x04....".to_vec(), "does not begin"),
            (ar(&[("control.tar", &archive)]), "debian-binary"),
            (
                ar(&[("debian-binary", &b"2.0\n"[..]); 6]),
                "no control archive",
            ),
            (
                deb("Package: a b\nVersion: 1\nArchitecture: all\n"),
                "lacks",
            ),
            (deb("Version: 1\nArchitecture: all\n"), "lacks"),
        ] {
            let reported = read(&*bytes).unwrap_err().to_string();
            assert!(reported.contains(problem), "{reported}");
        }
        let reported = with("control.tar.lz", b"").unwrap_err().to_string();
        assert!(reported.contains("unknown way"), "{reported}");
        assert!(with("control.tar", &tar("other", b"")).is_err());
    }

    #[test]
    fn attack_decompression_bomb() {
        let zeros = vec![0; 64 << 20];
        let bomb = zstd::encode_all(&*zeros, 1).unwrap();
        assert!(with("control.tar.zst", &bomb).is_err());
        let huge = tar("control", &vec![b'x'; 3 << 20]);
        assert!(with("control.tar.zst", &zstd::encode_all(&*huge, 1).unwrap()).is_err());
    }

    #[test]
    fn attack_size_that_is_a_lie() {
        let mut bytes = deb(CONTROL);
        bytes[8 + 48..8 + 58].copy_from_slice(b"9999999999");
        assert!(read(&*bytes).is_err());
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(at in 0usize..2000, with in any::<u8>(), cut in 0usize..4000) {
            let mut bytes = deb(CONTROL);
            let at = at % bytes.len();
            bytes[at] = with;
            bytes.truncate(bytes.len() - cut % bytes.len());
            read(&*bytes).ok();
        }

        #[test]
        fn foreign_control_files_never_panic(text in "\\PC{0,200}") {
            package(&text).ok();
        }
    }
}
