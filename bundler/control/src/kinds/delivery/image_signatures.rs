//! `imageSignatures` of a `DeliveryPolicy`: which images must be signed, and by whom.
//!
//! What comes in: the field. What goes out: its entries, each with keys, or with none where such images may be unsigned.
//! That a key is one that can verify is found where images are collected; here it has to look like one.

use crate::diagnostic::Diagnostic;
use crate::kinds::fields::{Fields, Reader};
use crate::kinds::shape::{Shape, list, must, object, pattern, some};
use crate::model::{ImageSignatures, SignatureRule, Spanned, never_fits};
use crate::yaml::Value;

const FIELD: &str = "imageSignatures";
const PEM: &str = "-----BEGIN PUBLIC KEY-----";

pub(super) fn shape() -> Shape {
    some(object(vec![
        must(
            "images",
            "Whole names of images, with `*` for any run of characters.",
            // What `never_fits` refuses, but for a scheme.
            pattern(
                r"^\S*(\*[^/\s]*|/[^/\s]*[:@][^/\s]*)$",
                "registry.example/press/*",
            ),
        ),
        must(
            "keys",
            "Public keys in PEM (ECDSA on P-256, as `cosign public-key` writes it), of which one must have signed; an empty list: they may be unsigned.",
            list(pattern("^\\s*-----BEGIN PUBLIC KEY-----", PEM)),
        ),
    ]))
}

/// The entries; `None` when they are not there, or unsound, which was reported then.
pub(super) fn read(reader: &mut Reader<'_>, spec: &Fields<'_>) -> Option<Spanned<ImageSignatures>> {
    let node = spec.field(FIELD)?;
    let location = reader.location(node);
    let items = match &node.value {
        // Nothing behind the name would switch it off without a word.
        Value::Null => &[],
        _ => reader.list(spec, FIELD),
    };
    let mut rules = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let what = format!("{}.{FIELD}[{at}]", spec.what);
        let fields = reader.map(item, &what, spec.shape.field(FIELD).item())?;
        let images = reader.text(&fields, "images")?;
        if let Some(problem) = never_fits(&images.value) {
            let message = format!("`{}` in `{what}` fits no image: {problem}", images.value);
            let finding = Diagnostic::error("bad-value", message).at(&images.location);
            reader.report(finding.help("write whole names, such as `registry.example/press/*`"));
            return None;
        }
        let before: Option<&SignatureRule> = rules
            .iter()
            .find(|rule: &&SignatureRule| rule.images == "*");
        if before.is_some() {
            let message = format!("`{what}` never counts: `*` before it is for every image");
            let finding = Diagnostic::error("bad-value", message).at(&images.location);
            reader.report(
                finding.help("the first entry that fits counts: put the one with `*` last"),
            );
            return None;
        }
        if fields.field("keys").is_none() {
            reader.text(&fields, "keys");
            return None;
        }
        let keys = reader.texts(&fields, "keys");
        let is_whole = match fields.field("keys").map(|node| &node.value) {
            Some(Value::Sequence(items)) => items.len() == keys.len(),
            _ => false,
        };
        // What is no text, or no list, was reported.
        if !is_whole {
            return None;
        }
        let mut findings = Vec::new();
        for key in keys.iter().filter(|key| !key.value.trim().starts_with(PEM)) {
            let message = format!("a key of `{what}` is not a public key in PEM");
            let help = format!("copy what `cosign public-key` prints, from `{PEM}` on");
            let finding = Diagnostic::error("bad-value", message);
            findings.push(finding.at(&key.location).help(help));
        }
        if !findings.is_empty() {
            for finding in findings {
                reader.report(finding);
            }
            return None;
        }
        rules.push(SignatureRule {
            images: images.value,
            keys,
        });
    }
    if rules.is_empty() {
        let message = format!("`{}.{FIELD}` has no entry", spec.what);
        let finding = Diagnostic::error("bad-value", message).at(&location);
        reader.report(
            finding.help("write which `images` are signed by which `keys`, or leave the field out"),
        );
        return None;
    }
    Some(Spanned {
        value: ImageSignatures(rules),
        location,
    })
}
