//! The database of dpkg: `var/lib/dpkg/status`, and the files of `status.d`.
//!
//! What comes in: its text. What goes out: the packages that are installed. The format is that of deb-control(5) and
//! dpkg(1): paragraphs of fields; `Status` has three words, of which the last tells the state, and is missing in
//! `status.d`. An entry without a proper name or version is counted.

use std::io::{self, Read};

use super::lines::each_line;
use super::package::{Package, PackageKind, Status, is_plain};

#[derive(Default)]
struct Paragraph {
    name: String,
    version: String,
    architecture: String,
    source: String,
    state: Option<String>,
    is_any: bool,
}

/// Reads a database.
///
/// # Errors
/// What the stream failed with.
pub fn read(from: impl Read) -> io::Result<Status> {
    let mut status = Status::default();
    let mut open = Paragraph::default();
    each_line(from, |line| {
        if line.trim().is_empty() {
            std::mem::take(&mut open).end(&mut status);
            return;
        }
        open.is_any = true;
        // Lines that begin with a space belong to the field before; none that is read here has them.
        let Some((field, value)) = line
            .split_once(':')
            .filter(|_| !line.starts_with([' ', '\t']))
        else {
            return;
        };
        let value = value.trim().to_owned();
        match field.to_ascii_lowercase().as_str() {
            "package" => open.name = value,
            "version" => open.version = value,
            "architecture" => open.architecture = value,
            "source" => open.source = value,
            "status" => open.state = value.split_whitespace().nth(2).map(str::to_owned),
            _ => {}
        }
    })?;
    open.end(&mut status);
    Ok(status)
}

impl Paragraph {
    fn end(self, status: &mut Status) {
        let is_removed = matches!(
            self.state.as_deref(),
            Some("config-files" | "not-installed")
        );
        if !self.is_any || is_removed {
            return;
        }
        let all = [&self.name, &self.version, &self.architecture];
        if !all.into_iter().all(|text| is_plain(text)) {
            status.unreadable += 1;
            return;
        }
        let source = match self.source.split_once('(') {
            Some((name, version)) => (name.trim(), version.trim_end_matches(')').trim()),
            None => (self.source.as_str(), self.version.as_str()),
        };
        let source = (is_plain(source.0) && is_plain(source.1))
            .then(|| (source.0.to_owned(), source.1.to_owned()));
        status.packages.push(Package {
            kind: PackageKind::Deb,
            source,
            name: self.name,
            version: self.version,
            architecture: self.architecture,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Package: libssl3
Status: install ok installed
Architecture: amd64
Source: openssl
Version: 3.0.11-1~deb12u2
Description: toolkit
 Version: not this

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1

Package: libgcc-s1
Status: install ok installed
Architecture: amd64
Source: gcc-12 (12.2.0-14)
Version: 12.2.0-14+b1

Package: half
Status: install ok installed
";

    #[test]
    fn installed_packages_and_their_sources_are_read() {
        let status = read(STATUS.as_bytes()).unwrap();
        let [ssl, gcc] = &status.packages[..] else {
            panic!("{status:?}")
        };
        assert_eq!(
            (ssl.name.as_str(), ssl.version.as_str()),
            ("libssl3", "3.0.11-1~deb12u2")
        );
        let source = ("openssl".to_owned(), "3.0.11-1~deb12u2".to_owned());
        assert_eq!(ssl.source, Some(source));
        assert_eq!(
            gcc.source,
            Some(("gcc-12".to_owned(), "12.2.0-14".to_owned()))
        );
        assert_eq!(status.unreadable, 1);
    }

    #[test]
    fn a_file_of_an_image_without_a_shell_has_no_status() {
        let text = "Package: tzdata\nVersion: 2024a-0+deb12u1\nArchitecture: all\n";
        let status = read(text.as_bytes()).unwrap();
        assert_eq!(status.packages.len(), 1);
        assert_eq!(status.packages[0].source, None);
    }
}
