//! `imageSignatures` of a `DeliveryPolicy`: which images must be signed, and by whom.
//!
//! What comes in: the field. What goes out: its entries, each with keys, or with the word that such images may be unsigned.
//! That a key is one that can verify is found where images are collected; here it has to look like one.

use crate::diagnostic::Diagnostic;
use crate::kinds::fields::{Fields, Reader};
use crate::kinds::shape::{Shape, list, may, must, object, one_of, some, text};
use crate::model::{ImageSignatures, SignatureRule, Spanned};

const FIELD: &str = "imageSignatures";
const ALLOWED: &str = "allowed";
const PEM: &str = "-----BEGIN PUBLIC KEY-----";

pub(super) fn shape() -> Shape {
    some(object(vec![
        must(
            "images",
            "Whole names of images, with `*` for any run of characters.",
            text("registry.example/press/*"),
        ),
        may(
            "keys",
            "Public keys in PEM (ECDSA on P-256, as `cosign public-key` writes it): one of them must have signed.",
            list(text(PEM)),
        ),
        may(
            "unsigned",
            "Such images may be unsigned; instead of `keys`.",
            one_of(&[ALLOWED]),
        ),
    ]))
}

/// The entries; `None` when they are not there, or unsound, which was reported then.
pub(super) fn read(reader: &mut Reader<'_>, spec: &Fields<'_>) -> Option<Spanned<ImageSignatures>> {
    let node = spec.field(FIELD)?;
    let location = reader.location(node);
    let items = reader.list(spec, FIELD);
    let mut rules = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let what = format!("{}.{FIELD}[{at}]", spec.what);
        let fields = reader.map(item, &what, spec.shape.field(FIELD).item())?;
        let images = reader.text(&fields, "images")?;
        let keys = reader.texts(&fields, "keys");
        let written = reader.list(&fields, "keys").len();
        let unsigned = match fields.field("unsigned") {
            None => false,
            Some(_) => {
                reader.choice(&fields, "unsigned", [ALLOWED], |word| word)?;
                true
            }
        };
        let problem = match (keys.is_empty(), unsigned) {
            _ if keys.len() != written => return None,
            (true, false) => Some("names no key, so that nothing would be let through"),
            (false, true) => Some("has keys, and allows what is unsigned"),
            _ => None,
        };
        let mut findings = Vec::new();
        if let Some(problem) = problem {
            let help = "give the `keys` of which one must have signed, or `unsigned: allowed`";
            let finding = Diagnostic::error("bad-value", format!("`{what}` {problem}"));
            findings.push(finding.at(&images.location).help(help));
        }
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
