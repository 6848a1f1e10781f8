//! `trustedRoots` of a `DeliveryPolicy`: what certificates of identities are verified with, as text in the control plane.
//!
//! What comes in: the field. What goes out: its roots by their names. A root is pinned by the commit that it is in, and nothing fetches
//! another one. That it can verify is found where images are collected and by `check`; here it has to look like one.

use std::collections::BTreeMap;

use outhaul_kit::carried::TRUSTED_ROOT;

use super::named_json::{self, NamedJson};
use crate::kinds::fields::{FieldReader, Fields};
use crate::kinds::shape::Shape;
use crate::model::{CarriedRoot, Spanned};

pub(super) const FIELD: &str = "trustedRoots";
const ROOTS: NamedJson = NamedJson {
    field: FIELD,
    one: "root",
    help: "copy a whole `trusted_root.json` below `json: |`: what `cosign trusted-root create` writes for an own instance; of \
           Sigstore's, what its TUF repository has (`cosign initialize` brings it)",
    problem,
};

pub(super) fn shape() -> Shape {
    named_json::shape(
        (
            "What `trustedRoot` of `imageSignatures` calls it.",
            "sigstore",
        ),
        (
            "The text of a `trusted_root.json` of Sigstore.",
            r#"{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#,
        ),
    )
}

/// The roots; `None` when they are not there, or unsound, which was reported then.
pub(super) fn read(
    reader: &mut FieldReader<'_>,
    spec: &Fields<'_>,
) -> Option<Spanned<BTreeMap<String, CarriedRoot>>> {
    let found = ROOTS.read(reader, spec)?;
    let roots = found.value.into_iter().map(|(name, json)| {
        let root = CarriedRoot {
            name: name.clone(),
            json,
        };
        (name, root)
    });
    Some(Spanned {
        value: roots.collect(),
        location: found.location,
    })
}

fn problem(json: &str) -> Option<String> {
    match serde_json::from_str::<serde_json::Value>(json) {
        Err(error) => Some(format!("is not JSON: {error}")),
        Ok(value) => {
            let kind = value["mediaType"].as_str().unwrap_or_default();
            (!kind.starts_with(TRUSTED_ROOT))
                .then(|| format!("is not a trusted root: its `mediaType` is `{kind}`"))
        }
    }
}
