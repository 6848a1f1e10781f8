//! `trustedRoots` of a `DeliveryPolicy`: what certificates of identities are verified with, as text in the control plane.
//!
//! What comes in: the field. What goes out: its roots by their names. A root is pinned by the commit that it is in, and nothing fetches
//! another one. That it can verify is found where images are collected and by `check`; here it has to look like one.

use std::collections::BTreeMap;

use crate::diagnostic::Diagnostic;
use crate::kinds::fields::{Fields, Reader};
use crate::kinds::shape::{Shape, must, object, pattern, some};
use crate::model::{CarriedRoot, Spanned};

pub(super) const FIELD: &str = "trustedRoots";
/// What a root may be called.
pub(super) const NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.trustedroot";
const HELP: &str = "copy a whole `trusted_root.json` below `json: |`: what `cosign trusted-root create` writes for an own instance; of \
                    Sigstore's, what its TUF repository has (`cosign initialize` brings it)";

pub(super) fn shape() -> Shape {
    some(object(vec![
        must(
            "name",
            "What `trustedRoot` of `imageSignatures` calls it.",
            pattern(NAME, "sigstore"),
        ),
        must(
            "json",
            "The text of a `trusted_root.json` of Sigstore.",
            pattern(
                r"^\s*\{",
                r#"{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#,
            ),
        ),
    ]))
}

/// The roots; `None` when they are not there, or unsound, which was reported then.
pub(super) fn read(
    reader: &mut Reader<'_>,
    spec: &Fields<'_>,
) -> Option<Spanned<BTreeMap<String, CarriedRoot>>> {
    let node = spec.field(FIELD)?;
    let location = reader.location(node);
    let mut roots = BTreeMap::new();
    for (at, item) in reader.list(spec, FIELD).iter().enumerate() {
        let what = format!("{}.{FIELD}[{at}]", spec.what);
        let fields = reader.map(item, &what, spec.shape.field(FIELD).item())?;
        let name = reader.text(&fields, "name")?;
        let json = reader.text(&fields, "json")?;
        let problem = match serde_json::from_str::<serde_json::Value>(&json.value) {
            Err(error) => Some(format!("is not JSON: {error}")),
            Ok(value) => {
                let kind = value["mediaType"].as_str().unwrap_or_default();
                (!kind.starts_with(MEDIA_TYPE))
                    .then(|| format!("is no trusted root: its `mediaType` is `{kind}`"))
            }
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let unsound = match problem {
            Some(problem) => Some((format!("`{what}.json` {problem}"), &json.location, HELP)),
            None if !name.value.chars().all(plain)
                || name.value.starts_with('-')
                || name.value.ends_with('-') =>
            {
                Some((
                    format!("`{}` cannot be the name of a root", name.value),
                    &name.location,
                    "write small letters, digits and `-`, such as `sigstore`",
                ))
            }
            None if roots.contains_key(&name.value) => Some((
                format!("`{}` is the name of two roots", name.value),
                &name.location,
                "give each its own name",
            )),
            None => None,
        };
        if let Some((message, at, help)) = unsound {
            reader.report(Diagnostic::error("bad-value", message).at(at).help(help));
            return None;
        }
        let name = name.value;
        roots.insert(name.clone(), CarriedRoot { name, json });
    }
    if roots.is_empty() {
        let message = format!("`{}.{FIELD}` has no entry", spec.what);
        let finding = Diagnostic::error("bad-value", message).at(&location);
        reader.report(
            finding.help("give a root with its `name` and its `json`, or leave the field out"),
        );
        return None;
    }
    Some(Spanned {
        value: roots,
        location,
    })
}
