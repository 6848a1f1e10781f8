//! `os-release`: which distribution an image is made of.
//!
//! What comes in: its text (os-release(5)). What goes out: `ID` and `VERSION_ID`, where they are written as they should
//! be.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};

use super::lines::each_line;
use super::package::is_plain;

/// A distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// `debian`, `alpine`, `ubuntu` …
    pub id: String,
    /// `12`, `3.19.1` …; empty where it has none.
    pub version: String,
}

/// Reads the file; `None` when it names no distribution.
///
/// # Errors
/// What the stream failed with.
pub fn read(from: impl Read) -> io::Result<Option<Release>> {
    let mut release = Release::default();
    each_line(from, |line| {
        let Some((name, value)) = line.split_once('=') else {
            return;
        };
        let value = value.trim().trim_matches(['"', '\'']);
        if !is_plain(value) {
            return;
        }
        match name.trim() {
            "ID" => release.id = value.to_ascii_lowercase(),
            "VERSION_ID" => value.clone_into(&mut release.version),
            _ => {}
        }
    })?;
    Ok((!release.id.is_empty()).then_some(release))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_allowed_and_other_fields_are_not_read() {
        let text = "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\nVERSION_ID=\"12\"\n";
        let release = read(text.as_bytes()).unwrap().unwrap();
        assert_eq!(
            (release.id.as_str(), release.version.as_str()),
            ("debian", "12")
        );
        assert_eq!(read(&b"NAME=x\nID=a b\n"[..]).unwrap(), None);
    }
}
