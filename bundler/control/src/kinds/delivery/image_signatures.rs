//! `imageSignatures` of a `DeliveryPolicy`: which images must be signed, and by whom.
//!
//! What comes in: the field, and the trusted roots of the policy. What goes out: its entries, each with keys, identities or both, or with
//! none where such images may be unsigned. That a key is one that can verify is found where images are collected; here it has to look
//! like one. An identity that strangers fit is refused.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::{Diagnostic, Location};
use crate::kinds::fields::{FieldReader, Fields};
use crate::kinds::shape::{Shape, list, may, must, object, pattern, some};
use crate::model::{
    CarriedRoot, ImageSignatures, SignatureRule, SignerIdentity, Spanned, bad_issuer, bad_subject,
    broad_subject, never_fits, unknown_to,
};
use crate::yaml::{Node, YamlValue};
use outhaul_kit::private_keys;
use serde_json::json;

use super::{named_json, trusted_roots};

const FIELD: &str = "imageSignatures";
const PEM: &str = "-----BEGIN PUBLIC KEY-----";

pub(super) fn shape() -> Shape {
    let entry = object(vec![
        must(
            "images",
            "Whole names of images, with `*` for any run of characters.",
            // Part of what `never_fits` refuses: a name without a tag or without a registry.
            pattern(
                r"^\S*(\*[^/\s]*|/[^/\s]*[:@][^/\s]*)$",
                "registry.example/press/*",
            ),
        ),
        may(
            "keys",
            "Public keys in PEM (ECDSA on P-256, as `cosign public-key` writes it), of which one may have signed; an empty list, and no identities: they may be unsigned.",
            list(pattern("^\\s*-----BEGIN PUBLIC KEY-----", PEM)),
        ),
        may(
            "identities",
            "Who may have signed without a key pair, as certificates of the trusted root name them.",
            some(object(vec![
                must(
                    "issuer",
                    "The URL of who knows the subject.",
                    pattern(
                        "^https?://[^*\\s]+$",
                        "https://token.actions.githubusercontent.com",
                    ),
                ),
                must(
                    "subject",
                    "Who signs, with `*` for any run of characters: behind a URL's host and first part, or before the `@` of one domain.",
                    pattern(
                        "^\\S+$",
                        "https://github.com/press/app/.github/workflows/release.yml@refs/tags/*",
                    ),
                ),
            ])),
        ),
        may(
            "trustedRoot",
            "The name of the trusted root, in `trustedRoots`, that the certificates of identities are verified with.",
            pattern(named_json::NAME, "sigstore"),
        ),
    ]);
    let array = |name: &str| json!({"required": [name], "properties": {name: {"type": "array"}}});
    let together = json!({"identities": ["trustedRoot"], "trustedRoot": ["identities"]});
    some(
        entry
            .with("anyOf", json!([array("keys"), array("identities")]))
            .with("dependentRequired", together),
    )
}

/// That a policy has roots where an entry names one, as a rule of its schema.
pub(super) fn roots_where_named() -> serde_json::Value {
    let names_one = json!({"type": "array", "contains": {"required": ["trustedRoot"]}});
    json!([{
        "if": {"required": [FIELD], "properties": {FIELD: names_one}},
        "then": {"required": [trusted_roots::FIELD]},
    }])
}

/// The entries; `None` when they are not there, or unsound, which was reported then. Roots that none of them names are reported, too.
pub(super) fn read(
    reader: &mut FieldReader<'_>,
    spec: &Fields<'_>,
    roots: Option<&Spanned<BTreeMap<String, CarriedRoot>>>,
) -> Option<Spanned<ImageSignatures>> {
    if roots.is_none() && spec.field(trusted_roots::FIELD).is_some() {
        // What is wrong with the roots was reported: which of them entries name is not known.
        return None;
    }
    let entries = entries(reader, spec, roots);
    let used: BTreeSet<&str> = entries
        .iter()
        .flat_map(|entries| &entries.value.0)
        .filter_map(|rule| rule.root.as_ref())
        .map(|root| root.name.as_str())
        .collect();
    // Where entries are unsound, which roots they name is not known.
    let is_known = entries.is_some() || spec.field(FIELD).is_none();
    for root in roots.iter().flat_map(|roots| roots.value.values()) {
        if is_known && !used.contains(root.name.as_str()) {
            let message = format!(
                "no entry of `{FIELD}` in this policy has `trustedRoot: {}`",
                root.name
            );
            let finding = Diagnostic::warning("no-effect", message).at(&root.json.location);
            reader.report(
                finding.help("name it in the entry with `identities` that it is for, or remove it"),
            );
        }
    }
    entries
}

fn entries(
    reader: &mut FieldReader<'_>,
    spec: &Fields<'_>,
    roots: Option<&Spanned<BTreeMap<String, CarriedRoot>>>,
) -> Option<Spanned<ImageSignatures>> {
    let node = spec.field(FIELD)?;
    let location = reader.location(node);
    let items = reader.list(spec, FIELD);
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
        // A list that is not there must not switch anything off without a word.
        if fields.field("keys").is_none() && fields.field("identities").is_none() {
            let message = format!("`{what}` names neither `keys` nor `identities`");
            let finding = Diagnostic::error("missing-field", message).at(&images.location);
            reader.report(finding.help(
                "write by whom such images are signed; where they may be unsigned, write `keys: []`",
            ));
            return None;
        }
        let keys = keys(reader, &fields)?;
        let identities = identities(reader, &fields)?;
        let root = root(reader, &fields, (&identities, &images.location), roots)?;
        let rule = SignatureRule {
            images: images.value,
            keys,
            identities,
            root,
        };
        let hiding = rule.hidden_by(&rules).into_iter();
        let hiding: Vec<_> = hiding.map(|one| format!("`{}`", one.images)).collect();
        if !hiding.is_empty() {
            let message = format!(
                "`{what}` never counts: {} before it {} for every image that it is for",
                hiding.join(" and "),
                if hiding.len() == 1 { "is" } else { "are" }
            );
            let finding = Diagnostic::error("bad-value", message).at(&images.location);
            reader.report(finding.help(
                "the first entry that fits counts: put the narrower one first, or remove this one",
            ));
            return None;
        }
        rules.push(rule);
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

/// The keys of an entry; none when there are none.
fn keys(reader: &mut FieldReader<'_>, fields: &Fields<'_>) -> Option<Vec<Spanned<String>>> {
    let keys = reader.texts(fields, "keys");
    let is_whole = match fields.field("keys").map(|node| &node.value) {
        Some(YamlValue::Sequence(items)) => items.len() == keys.len(),
        Some(_) => false,
        None => true,
    };
    // What is no text, or no list, was reported.
    if !is_whole {
        return None;
    }
    let mut findings = Vec::new();
    for key in keys.iter().filter(|key| !key.value.trim().starts_with(PEM)) {
        let message = format!("a key of `{}` is {}", fields.what, other_key(&key.value));
        let help = format!("copy what `cosign public-key` prints, from `{PEM}` on");
        let finding = Diagnostic::error("bad-value", message);
        findings.push(finding.at(&key.location).help(help));
    }
    let is_sound = findings.is_empty();
    for finding in findings {
        reader.report(finding);
    }
    is_sound.then_some(keys)
}

/// What is written in the place of a public key in PEM.
fn other_key(text: &str) -> &'static str {
    let text = text.trim();
    let ssh = ["ssh-", "ecdsa-sha2-", "sk-ssh-", "-----BEGIN SSH2"];
    match () {
        () if private_keys::in_text(text).is_some() => "a private key",
        () if ssh.iter().any(|start| text.starts_with(start)) => {
            "a key of SSH, and no public key in PEM"
        }
        () if text.starts_with("-----BEGIN CERTIFICATE") => {
            "a certificate, and no public key in PEM"
        }
        () if text.starts_with("-----BEGIN RSA PUBLIC") => {
            "a key for RSA, and not for ECDSA on P-256"
        }
        () if text.starts_with("age1") => "a recipient of age, and no key of signatures",
        () => "not a public key in PEM",
    }
}

/// The identities of an entry; none when the field is not there.
fn identities(reader: &mut FieldReader<'_>, fields: &Fields<'_>) -> Option<Vec<SignerIdentity>> {
    let Some(node) = fields.field("identities") else {
        return Some(Vec::new());
    };
    let items: &[Node] = match &node.value {
        YamlValue::Sequence(items) => items,
        _ => {
            reader.list(fields, "identities");
            return None;
        }
    };
    if items.is_empty() {
        let message = format!("`{}.identities` has no entry", fields.what);
        let at = reader.location(node);
        let finding = Diagnostic::error("bad-value", message).at(&at);
        reader.report(finding.help(
            "write who signs such images; where they may be unsigned, write `keys: []` in its place",
        ));
        return None;
    }
    let mut all = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let what = format!("{}.identities[{at}]", fields.what);
        let one = reader.map(item, &what, fields.shape.field("identities").item())?;
        let issuer = reader.text(&one, "issuer")?;
        let subject = reader.text(&one, "subject")?;
        let bad_issuer = bad_issuer(&issuer.value).map(|bad| (bad, &issuer));
        let bad = bad_issuer.or_else(|| bad_subject(&subject.value).map(|bad| (bad, &subject)));
        if let Some(((problem, help), written)) = bad {
            let message = format!("`{}` in `{what}` cannot be used: {problem}", written.value);
            let finding = Diagnostic::error("bad-value", message);
            reader.report(finding.at(&written.location).help(help));
            return None;
        }
        let doubt = match unknown_to(&issuer.value, &subject.value) {
            Some(doubt) => Some(("no-effect", doubt)),
            None => {
                broad_subject(&issuer.value, &subject.value).map(|doubt| ("broad-identity", doubt))
            }
        };
        if let Some((code, (what, help))) = doubt {
            let message = format!("`{}` {what}", subject.value);
            let finding = Diagnostic::warning(code, message);
            reader.report(finding.at(&subject.location).help(help));
        }
        all.push(SignerIdentity { issuer, subject });
    }
    Some(all)
}

/// The root of an entry, which one with identities must have and no other may; `None` when that is not so, which was reported then.
#[expect(clippy::option_option, reason = "read well, or not; there, or not")]
fn root(
    reader: &mut FieldReader<'_>,
    fields: &Fields<'_>,
    (identities, at): (&[SignerIdentity], &Location),
    roots: Option<&Spanned<BTreeMap<String, CarriedRoot>>>,
) -> Option<Option<CarriedRoot>> {
    let name = match fields.field("trustedRoot") {
        Some(_) => Some(reader.text(fields, "trustedRoot")?),
        None => None,
    };
    let known = |name: &str| roots.and_then(|roots| roots.value.get(name));
    let (message, at, help) = match &name {
        None if identities.is_empty() => return Some(None),
        None => (
            format!("`{}` has identities and no `trustedRoot`", fields.what),
            at,
            format!(
                "name the root in `{}` that their certificates are verified with",
                trusted_roots::FIELD
            ),
        ),
        Some(name) if identities.is_empty() => (
            format!(
                "`{}.trustedRoot` is for `identities`, and there are none",
                fields.what
            ),
            &name.location,
            "write who signs such images, or leave it out: keys need no root".to_owned(),
        ),
        Some(name) => match known(&name.value) {
            Some(root) => return Some(Some(root.clone())),
            None => (
                format!("`{}` is not a root of this policy", name.value),
                &name.location,
                format!(
                    "give it in `{}`, with this `name` and its `json`",
                    trusted_roots::FIELD
                ),
            ),
        },
    };
    reader.report(Diagnostic::error("bad-value", message).at(at).help(help));
    None
}

#[cfg(test)]
mod tests;
