//! Names that cross the gap, parsed once: relative file paths and plain names.
//!
//! What comes in: text that someone else wrote. What goes out: a type that is safe to join to a
//! folder or to print. A [`RelativePath`] never leaves the folder that it is joined to, on any
//! operating system, and a [`Name`] never needs quoting.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// The longest path, in bytes.
pub const MAX_PATH_BYTES: usize = 1024;
/// The longest part of a path, in bytes: what the file systems of sites have.
pub const MAX_PART_BYTES: usize = 255;
/// Most parts of a path. Each file is compared with every folder on its way.
pub const MAX_PATH_PARTS: usize = 64;
/// The longest name, in bytes. Kubernetes allows 253 for most object names.
pub const MAX_NAME_BYTES: usize = 253;

/// A text that is not a name or not a safe relative path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {expected}")]
pub struct NameError {
    found: String,
    expected: &'static str,
}

/// A name of a site, environment, cluster type, role …: 1 to 253 of `A-Z a-z 0-9 . _ -`, starting
/// with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let well_formed = (1..=MAX_NAME_BYTES).contains(&text.len())
            && text.bytes().all(allowed)
            && text.as_bytes()[0].is_ascii_alphanumeric();
        if well_formed {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError {
                found: text.chars().take(80).collect(),
                expected: "a name (1 to 253 of `A-Z a-z 0-9 . _ -`, first a letter or digit)",
            })
        }
    }
}

/// A file's path inside a bundle's tree: `/` between parts, no empty part, no `.` or `..`, no
/// backslash, colon or control character, at most 1,024 bytes and 64 parts of 255 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RelativePath(String);

impl RelativePath {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// This path below `folder`.
    ///
    /// # Errors
    /// [`NameError`] when `folder` is not a safe path or the two together are too long.
    pub fn below(&self, folder: &str) -> Result<Self, NameError> {
        format!("{folder}/{}", self.0).parse()
    }
}

impl FromStr for RelativePath {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        // Colons and backslashes mean something to Windows and to some archive tools.
        let bad_char = |c: char| c.is_control() || matches!(c, '\\' | ':');
        let bad_part = |part: &str| part.is_empty() || part == "." || part == "..";
        let not = |expected| NameError {
            found: text.chars().take(80).collect(),
            expected,
        };
        if text.len() > MAX_PATH_BYTES
            || text.split('/').count() > MAX_PATH_PARTS
            || text.split('/').any(|part| part.len() > MAX_PART_BYTES)
        {
            return Err(not(
                "a path of at most 1,024 bytes and 64 parts of at most 255 bytes",
            ));
        }
        if text.contains(bad_char) || text.split('/').any(bad_part) {
            return Err(not("a relative path that stays inside its folder"));
        }
        Ok(Self(text.to_owned()))
    }
}

macro_rules! text_type {
    ($type:ident) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }
    };
}
text_type!(Name);
text_type!(RelativePath);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_their_folder_are_refused() {
        let bad = [
            "", "/a", "a/", "a//b", ".", "..", "a/../b", "a\\b", "c:/x", "a\0b", "a\nb",
        ];
        for text in bad {
            assert!(text.parse::<RelativePath>().is_err(), "{text:?}");
        }
        assert!(
            "drone/hello-world/reconciler.yaml"
                .parse::<RelativePath>()
                .is_ok()
        );
        assert!("..data/.hidden".parse::<RelativePath>().is_ok());
    }

    #[test]
    fn a_name_that_no_site_could_give_a_file_is_refused() {
        let path = |bytes: usize| format!("a/{}/b", "n".repeat(bytes)).parse::<RelativePath>();
        assert!(path(MAX_PART_BYTES).is_ok());
        let error = path(MAX_PART_BYTES + 1).unwrap_err().to_string();
        assert!(error.contains("255 bytes"), "{error}");
        assert!("ab/".repeat(400).parse::<RelativePath>().is_err());
    }

    #[test]
    fn names_need_no_quoting() {
        assert!("drone-7.line_1".parse::<Name>().is_ok());
        for text in ["", "-a", ".a", "a b", "a/b", "ä"] {
            assert!(text.parse::<Name>().is_err(), "{text:?}");
        }
    }
}
