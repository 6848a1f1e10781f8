//! An installed package, and what is read of a database of them.
//!
//! What comes in: texts of a database. What goes out: the types that the readers of databases share, and which texts may stand in a
//! document.

use serde::{Deserialize, Serialize};

/// The longest name or version, in bytes.
const MAX_TEXT_BYTES: usize = 256;

/// Which package manager installed a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageKind {
    /// apk.
    Apk,
    /// dpkg.
    Deb,
}

impl PackageKind {
    /// Its name in package URLs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apk => "apk",
            Self::Deb => "deb",
        }
    }
}

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// Its package manager.
    pub kind: PackageKind,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `amd64`, `x86_64`, `all` …
    pub architecture: String,
    /// Name and version of the source that it was built from, where the database names it: advisories are about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<(String, String)>,
}

/// Whether a text of a database is one that may stand in a document: not empty, printable, without spaces.
pub(crate) fn is_plain(text: &str) -> bool {
    (1..=MAX_TEXT_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What was read of a database.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The packages that are installed, as they stand in it.
    pub packages: Vec<Package>,
    /// Entries that could not be read.
    pub unreadable: u64,
}
