//! `Acknowledgement` (our group): that a large removal is meant.
//!
//! What comes in: the object's fields. What goes out: an [`Acknowledgement`]. Its code is of one
//! list of assignments, so that it cannot let another removal through.

use super::super::diagnostic::Diagnostic;
use super::super::model::Acknowledgement;
use super::OUTHAUL;
use super::fields::{FieldReader, Fields};
use super::metadata::Metadata;
use super::shape::{KindSchema, LABELS, kind, must, object, pattern, text};

/// Hexadecimal digits of a code.
pub const CODE_DIGITS: usize = 16;

pub(super) fn described() -> KindSchema {
    kind(
        OUTHAUL,
        "Acknowledgement",
        "Confirms one large removal: permits one list of assignments and no other.",
        LABELS,
        object(vec![
            must(
                "removal",
                "The code that the refusal printed, in quotation marks.",
                pattern(&format!("^[0-9a-f]{{{CODE_DIGITS}}}$"), "0123456789abcdef"),
            ),
            must("reason", "Why they are to go.", text("the line was closed")),
        ]),
    )
}

pub(super) fn read(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<Acknowledgement> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let removal = reader.text(&spec, "removal");
    let reason = reader.text(&spec, "reason");
    let (metadata, removal, reason) = (metadata?, removal?, reason?);
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if removal.value.len() != CODE_DIGITS || !removal.value.chars().all(is_hex) {
        let code = Diagnostic::error(
            "acknowledgement",
            format!("`{}` is not the code of a removal", removal.value),
        );
        reader.report(code.at(&removal.location).help(format!(
            "copy the {CODE_DIGITS} digits that the refusal printed, in quotation marks"
        )));
        return None;
    }
    Some(Acknowledgement {
        name: metadata.name,
        removal: removal.value,
        reason: reason.value,
        location: metadata.location,
    })
}
