//! What is in an image: the packages that its layers install, as a bill of materials.
//!
//! What comes in: manifests, configs and layers, as bytes and streams. What goes out: per platform the packages of dpkg and
//! apk, and one `CycloneDX` document per image. What is not read (databases of rpm, packages of languages) is in
//! the document as such. It opens no file, asks nobody, and runs nothing.

mod apk;
mod contents;
mod document;
mod dpkg;
mod layer;
mod lines;
mod manifest;
mod package;
mod release;

pub use contents::Contents;
pub use document::{Image, document};
pub use layer::{LayerError, LayerFacts};
pub use manifest::{ManifestError, Platform, platforms};
pub use package::{Package, PackageKind};
