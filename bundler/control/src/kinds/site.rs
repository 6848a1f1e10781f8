//! `Site` (our group): one physical cluster or host.
//!
//! What comes in: the object's fields. What goes out: a [`Site`]. Whether its cluster type exists is
//! checked when everything is loaded.

use super::super::diagnostic::Diagnostic;
use super::super::model::{Site, Spanned};
use super::OUTHAUL;
use super::fields::{FieldReader, Fields, values};
use super::metadata::Metadata;
use super::shape::{KindSchema, any_text, kind, may, must, object, pattern, text};

/// How a public key begins.
const PEM: &str = "-----BEGIN PUBLIC KEY-----";

pub(super) fn described() -> KindSchema {
    kind(
        OUTHAUL,
        "Site",
        "One physical cluster or host.",
        "Its own labels: config containers that match them compose values for this site alone.",
        object(vec![
            must("clusterType", "Its cluster type.", text("drone")),
            may(
                "ring",
                "The ring in which it is updated.",
                any_text("canary"),
            ),
            may(
                "publicKey",
                "Its public key, as PEM text.",
                pattern("^\\s*-----BEGIN PUBLIC KEY-----", PEM),
            ),
        ]),
    )
}

/// Whether a text is like a public key in PEM.
pub(super) fn is_public_key(text: &str) -> bool {
    text.trim_start().starts_with(PEM)
}

pub(super) fn read(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<Site> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let cluster_type = reader.text(&spec, "clusterType");
    let ring = reader.optional_text(&spec, "ring");
    let public_key = reader.optional_text(&spec, "publicKey");
    let bad = |key: &&Spanned<String>| !is_public_key(&key.value);
    if let Some(key) = public_key.as_ref().filter(bad) {
        let message = format!("`{}.publicKey` is not a public key in PEM", spec.what);
        let finding = Diagnostic::error("bad-value", message).at(&key.location);
        reader.report(finding.help(format!(
            "write the public key from `{PEM}` on, or leave it out"
        )));
    }
    let metadata = metadata?;
    Some(Site {
        name: metadata.name,
        labels: values(&metadata.labels),
        cluster_type: cluster_type?,
        ring: ring.map(|r| r.value),
        public_key: public_key.map(|k| k.value),
        location: metadata.location,
    })
}
