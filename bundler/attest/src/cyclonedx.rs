//! What all bills of materials of Outhaul have in common: the envelope of `CycloneDX` 1.6.
//!
//! What comes in: the component that a bill is of, and those in it. What goes out: the document's bytes, the same for the same
//! components. It holds no time and no serial number.

use outhaul_bundle::Digest;
use serde_json::{Value, json};

/// The document of `component`, which has `components`. A list that is `incomplete` says so of the component.
pub(crate) fn document(component: Value, components: Vec<Value>, incomplete: bool) -> Vec<u8> {
    let tool =
        json!({"type": "application", "name": "outhaul", "version": env!("CARGO_PKG_VERSION")});
    let reference = component["bom-ref"].clone();
    let mut document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"tools": {"components": [tool]}, "component": component},
        "components": components,
    });
    if incomplete {
        document["compositions"] = json!([{"aggregate": "incomplete", "assemblies": [reference]}]);
    }
    bytes(&document)
}

/// A document as it is written: one line.
pub(crate) fn bytes(document: &Value) -> Vec<u8> {
    let mut bytes = document.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// A property, by a name of ours.
pub(crate) fn property(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

/// The hashes of a content.
pub(crate) fn hashes(digest: &Digest) -> Value {
    json!([{"alg": "SHA-256", "content": digest.hex()}])
}
