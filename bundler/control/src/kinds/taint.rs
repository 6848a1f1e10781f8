//! `Taint` (our group): keeps policies away from cluster types.
//!
//! What comes in: the object's fields. What goes out: a [`Taint`]. It is a separate object because a
//! Kalypso cluster type has no field for it, and one taint often means several cluster types.

use super::super::diagnostic::Diagnostic;
use super::super::model::{Effect, Taint};
use super::super::selector::{Operator, Requirement};
use super::OUTHAUL;
use super::fields::{FieldReader, Fields};
use super::label_selector;
use super::metadata::Metadata;
use super::shape::{
    KindSchema, LABEL_NAME, LABEL_VALUE, LABELS, kind, may, must, object, one_of, pattern, selected,
};
use outhaul_kit::suggest::did_you_mean;

pub(super) fn described() -> KindSchema {
    kind(
        OUTHAUL,
        "Taint",
        "Keeps policies away from cluster types; Kalypso's policies too, which tolerate nothing.",
        LABELS,
        object(vec![
            must(
                "clusterTypeSelector",
                "Which cluster types it is on.",
                selected(),
            ),
            must(
                "key",
                "Its key, which tolerations name.",
                pattern(LABEL_NAME, "dedicated"),
            ),
            may("value", "Its value.", pattern(LABEL_VALUE, "ml")),
            must(
                "effect",
                "`NoSchedule` keeps away, `PreferNoSchedule` is taken last by policies that limit how many they take.",
                one_of(&Effect::ALL.map(Effect::as_str)),
            ),
        ]),
    )
}

pub(super) fn read(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<Taint> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let cluster_types = label_selector::section(reader, &spec, "clusterTypeSelector");
    let key = reader.text(&spec, "key");
    let value = reader.optional_text(&spec, "value");
    let written = reader.text(&spec, "effect");
    let effect = written.and_then(|written| {
        let found = Effect::ALL
            .into_iter()
            .find(|e| e.as_str() == written.value);
        if found.is_none() {
            let message = format!("unknown taint effect `{}`", written.value);
            reader.report(
                Diagnostic::error("bad-value", message)
                    .at(&written.location)
                    .help(did_you_mean(
                        &written.value,
                        &Effect::ALL.map(Effect::as_str),
                    )),
            );
        }
        found
    });
    let (key, metadata) = (key?, metadata?);
    let value = value.map(|value| value.value).unwrap_or_default();
    // A taint's key and value follow the rules of a label's.
    if let Err(error) = Requirement::new(&key.value, Operator::Equals, [value.clone()]) {
        reader.report(Diagnostic::error("bad-value", error.to_string()).at(&key.location));
        return None;
    }
    Some(Taint {
        name: metadata.name,
        cluster_types: cluster_types?,
        key: key.value,
        value,
        effect: effect?,
        location: metadata.location,
    })
}
