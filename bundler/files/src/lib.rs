//! Files and Debian packages that a workload lists, and the flat apt repository that is made of the packages.
//!
//! ```text
//! outhaul-files.toml ─▶ list            what travels, by URL or path, each with its digest
//! a .deb             ─▶ deb             name, version, architecture, and the text of its control file
//! packages           ─▶ apt             Packages, Release; the catalog that a site's mirror reads
//! ```
//!
//! What comes in: bytes. What goes out: values and text. It reads no file, opens no connection and holds no key.

pub mod apt;
pub mod deb;
pub mod list;

pub use list::{FileList, ListProblem};
