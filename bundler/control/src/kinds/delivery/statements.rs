//! `vex` of a `DeliveryPolicy`: statements about exploitability that travel with each bundle, as text in the control plane.
//!
//! What comes in: the field. What goes out: documents of `OpenVEX` by their names, as they are written. The hub reads them with the
//! same crate; what they mean for a bundle is decided there.

use std::collections::BTreeMap;

use super::named_json::{self, NamedJson};
use crate::kinds::fields::{FieldReader, Fields};
use crate::kinds::shape::Shape;
use crate::model::Spanned;

pub(super) const FIELD: &str = "vex";
const STATEMENTS: NamedJson = NamedJson {
    field: FIELD,
    one: "document",
    help: "copy a whole document of OpenVEX 0.2 below `json: |`, such as `vexctl create` writes; it names products by their package \
           URLs, and says why a product is not affected",
    problem,
};

pub(super) fn shape() -> Shape {
    named_json::shape(
        (
            "What its file in the bundle is called: `NAME.openvex.json`.",
            "team-a",
        ),
        (
            "The text of a document in the form of OpenVEX.",
            r#"{"@context": "https://openvex.dev/ns/v0.2.0", "author": "team-a", "timestamp": "2026-11-01T00:00:00Z", "statements": [{"vulnerability": {"name": "CVE-2026-1"}, "products": [{"@id": "pkg:oci/app"}], "status": "fixed"}]}"#,
        ),
    )
}

/// The documents; `None` when they are not there, or unsound, which was reported then.
pub(super) fn read(
    reader: &mut FieldReader<'_>,
    spec: &Fields<'_>,
) -> Option<Spanned<BTreeMap<String, String>>> {
    let found = STATEMENTS.read(reader, spec)?;
    let texts = found.value.into_iter();
    Some(Spanned {
        value: texts.map(|(name, json)| (name, json.value)).collect(),
        location: found.location,
    })
}

fn problem(json: &str) -> Option<String> {
    match outhaul_vex::read(json.as_bytes()) {
        Err(error) => Some(format!("cannot be read: {error}")),
        Ok(statements) if statements.is_empty() => Some("has no statement".to_owned()),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn what_the_hub_could_not_read_does_not_travel() {
        let document = |statements: &str| {
            format!(
                r#"{{"@context":"https://openvex.dev/ns/v0.2.0","author":"a","timestamp":"2026-11-01T00:00:00Z","statements":[{statements}]}}"#
            )
        };
        let stated = r#"{"vulnerability":{"name":"CVE-1"},"products":[{"@id":"pkg:oci/a"}],"status":"not_affected"}"#;
        let reason = stated.replace("}]", "}],\"justification\":\"component_not_present\"");
        assert_eq!(problem(&document(&reason)), None, "{reason}");
        for (text, words) in [
            ("{".to_owned(), "cannot be read"),
            ("{\"openapi\": 3}".to_owned(), "not a document"),
            (document(stated), "without a justification"),
            (document(""), "no statement"),
        ] {
            let found = problem(&text).unwrap_or_default();
            assert!(found.contains(words), "{text}: {found}");
        }
    }
}
