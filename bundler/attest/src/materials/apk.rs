//! The database of apk: `lib/apk/db/installed`.
//!
//! What comes in: its text. What goes out: the packages that are installed. The format is that of apk-tools: one letter, a
//! colon and a value a line, an empty line after each package: `P` name, `V` version, `A` architecture, `o` the package
//! whose recipe it was built from. An entry without a proper name or version is counted.

use std::io::{self, Read};

use super::lines::each_line;
use super::package::{Package, PackageKind, Status, is_plain};

#[derive(Default)]
struct Entry {
    name: String,
    version: String,
    architecture: String,
    origin: String,
    is_any: bool,
}

/// Reads a database.
///
/// # Errors
/// What the stream failed with.
pub fn read(from: impl Read) -> io::Result<Status> {
    let mut status = Status::default();
    let mut open = Entry::default();
    each_line(from, |line| {
        if line.is_empty() {
            std::mem::take(&mut open).end(&mut status);
            return;
        }
        open.is_any = true;
        let Some((field, value)) = line.split_once(':') else {
            return;
        };
        let value = value.trim_end().to_owned();
        match field {
            "P" => open.name = value,
            "V" => open.version = value,
            "A" => open.architecture = value,
            "o" => open.origin = value,
            _ => {}
        }
    })?;
    open.end(&mut status);
    Ok(status)
}

impl Entry {
    fn end(self, status: &mut Status) {
        if !self.is_any {
            return;
        }
        let all = [&self.name, &self.version, &self.architecture];
        if !all.into_iter().all(|text| is_plain(text)) {
            status.unreadable += 1;
            return;
        }
        let has_source = is_plain(&self.origin) && self.origin != self.name;
        status.packages.push(Package {
            kind: PackageKind::Apk,
            source: has_source.then(|| (self.origin, self.version.clone())),
            name: self.name,
            version: self.version,
            architecture: self.architecture,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_packages_and_their_origins_are_read() {
        let text = "C:Q1x=\nP:libcrypto3\nV:3.1.4-r5\nA:x86_64\no:openssl\nF:lib\nR:libcrypto.so.3\n\
            \nP:musl\nV:1.2.4-r2\nA:x86_64\no:musl\n\nV:1\n";
        let status = read(text.as_bytes()).unwrap();
        let [crypto, musl] = &status.packages[..] else {
            panic!("{status:?}")
        };
        let source = ("openssl".to_owned(), "3.1.4-r5".to_owned());
        assert_eq!(crypto.source, Some(source));
        assert_eq!(
            (musl.source.as_ref(), musl.version.as_str()),
            (None, "1.2.4-r2")
        );
        assert_eq!(status.unreadable, 1);
    }
}
