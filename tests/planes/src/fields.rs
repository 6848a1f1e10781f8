//! Entries of `imageFields`, for tests of what reads manifests.
//!
//! What comes in: an API version, a kind, the path of a field. What goes out: the entry, at a place that its text makes its own.

use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::model::ImageField;

/// An entry of `imageFields`; `ignored` where what looks like an image there is none.
///
/// # Panics
/// When `path` is not the path of a field.
pub fn image_field(api_version: &str, kind: &str, path: &str, ignored: bool) -> ImageField {
    let file = SourceFile {
        name: format!("policy-{kind}-{path}.yaml"),
        text: String::new(),
    };
    ImageField {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        written: path.to_owned(),
        path: ImageField::steps(path).unwrap(),
        ignored,
        location: Location::new(&Arc::new(file), 0..0),
    }
}
