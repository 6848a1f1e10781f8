//! `metadata`: the name and the labels that every object has.
//!
//! What comes in: an object's fields. What goes out: a name that is safe as part of a path, and
//! labels with their places. Whatever else Kubernetes keeps there is accepted and means nothing here.

use std::collections::BTreeMap;

use super::super::diagnostic::{Diagnostic, Location};
use super::super::model::Spanned;
use super::fields::{FieldReader, Fields};

pub(super) struct Metadata {
    pub name: String,
    pub labels: BTreeMap<String, Spanned<String>>,
    /// Where the name is written: what a message about the whole object points at.
    pub location: Location,
}

impl Metadata {
    pub(super) fn read(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<Self> {
        let fields = reader.section(object, "metadata")?;
        let labels = reader.text_map(&fields, "labels").unwrap_or_default();
        let name = reader.text(&fields, "name")?;
        check_name(reader, &name.value, &name.location).then_some(())?;
        Some(Self {
            name: name.value,
            labels,
            location: name.location,
        })
    }
}

/// [`is_name`]; reports it if not.
pub(super) fn check_name(reader: &mut FieldReader<'_>, name: &str, location: &Location) -> bool {
    let sound = is_name(name);
    if !sound {
        reader.report(
            Diagnostic::error("bad-name", format!("`{name}` is not a name"))
                .at(location)
                .help("use lower-case letters, digits, `-` and `.`, at most 253, first and last a letter or digit"),
        );
    }
    sound
}

/// Whether `name` is one that Kubernetes and every file system take.
pub(super) fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    bytes.len() <= 253
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(inner)
        && !name.contains("..")
}
