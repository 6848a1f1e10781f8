//! `SiteValues` (our group): which values of some assignments the sites may set themselves.
//!
//! What comes in: the object's fields. What goes out: a [`OpenValues`] whose rules are those of the bundle's format, so that
//! a site judges a value by the very same code. Which values the keys have at the centre is found when
//! an assignment is rendered.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::index::site_values::{self, Allowed, Form, MAX_VALUE_BYTES, Rule};
use serde_json::json;

use super::super::diagnostic::Diagnostic;
use super::super::model::{OpenValues, Spanned};
use super::super::yaml::Value;
use super::OUTHAUL;
use super::fields::{Fields, Reader};
use super::label_selector;
use super::metadata::Metadata;
use super::shape::{
    KindSchema, LABELS, kind, list, may, must, object, one_of, pattern, selected, some, text, whole,
};

/// What a value may be, as a control plane writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Text,
    Integer,
    Boolean,
    Enum,
}

impl Type {
    const ALL: [Self; 4] = [Self::Boolean, Self::Enum, Self::Integer, Self::Text];

    fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Enum => "enum",
        }
    }

    /// The fields that mean something for it.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Text => &["maxLength", "pattern"],
            Self::Integer => &["minimum", "maximum"],
            Self::Boolean => &[],
            Self::Enum => &["values"],
        }
    }
}

pub(super) fn described() -> KindSchema {
    let number = || json!({"type": "integer", "examples": [20]});
    let most = u32::try_from(MAX_VALUE_BYTES).unwrap_or(u32::MAX);
    let key = object(vec![
        must(
            "key",
            "The key of the platform config.",
            pattern("^[A-Za-z_][A-Za-z0-9_]{0,62}$", "LABEL_WIDTH_MM"),
        ),
        may(
            "about",
            "What it is for, shown on site.",
            text("Width of the paper"),
        ),
        must(
            "type",
            "What the value may be.",
            one_of(&Type::ALL.map(Type::as_str)),
        ),
        may("minimum", "The least, of an integer.", number()),
        may("maximum", "The most, of an integer.", number()),
        may(
            "maxLength",
            "Most characters, of text; default 256.",
            whole(1..=most),
        ),
        may(
            "pattern",
            "What all of a text must be like: characters and classes such as `[A-Z0-9]`, each perhaps with `?`, `+`, `*` or `{1,8}`; no groups, no alternatives.",
            text("[A-Z]{1,4}-[0-9]+"),
        ),
        may("values", "The values, of an enum.", list(text("left"))),
    ]);
    kind(
        OUTHAUL,
        "SiteValues",
        "Which values of some assignments belong to the sites: a person on site sets them within these rules, and the next bundle keeps them.",
        LABELS,
        object(vec![
            must(
                "deploymentTargetSelector",
                "Of which deployment targets.",
                selected(),
            ),
            must("clusterTypeSelector", "On which cluster types.", selected()),
            must(
                "form",
                "How the values are written beside the assignment's other files: `env` as `site-values.env`, `vars` (for Ansible) and `configmap` (for Kubernetes) as `site-values.yaml`.",
                one_of(&Form::ALL.map(Form::as_str)),
            ),
            must("keys", "The open keys.", some(key)),
        ]),
    )
}

pub(super) fn read(reader: &mut Reader<'_>, object: &Fields<'_>) -> Option<OpenValues> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let targets = label_selector::section(reader, &spec, "deploymentTargetSelector");
    let cluster_types = label_selector::section(reader, &spec, "clusterTypeSelector");
    let form = reader.choice(&spec, "form", Form::ALL, Form::as_str);
    let keys = keys(reader, &spec);
    Some(OpenValues {
        targets: targets?,
        cluster_types: cluster_types?,
        form: form?.value,
        keys: keys?,
        name: metadata.as_ref()?.name.clone(),
        location: metadata?.location,
    })
}

/// `None` when any of them is unsound.
fn keys(reader: &mut Reader<'_>, spec: &Fields<'_>) -> Option<BTreeMap<String, Spanned<Rule>>> {
    let mut keys: BTreeMap<String, Spanned<Rule>> = BTreeMap::new();
    let items = reader.list(spec, "keys");
    let mut sound = !items.is_empty();
    if items.is_empty() {
        let location = reader.location(spec.node);
        let finding = Diagnostic::error("missing-field", "`SiteValues.spec.keys` names no key");
        reader.report(
            finding
                .at(&location)
                .help("name at least one key with its `type`"),
        );
    }
    for (at, item) in items.iter().enumerate() {
        let what = format!("{}.keys[{at}]", spec.what);
        let fields = reader.map(item, &what, spec.shape.field("keys").item());
        let Some((key, rule)) = fields.and_then(|fields| one(reader, &fields)) else {
            sound = false;
            continue;
        };
        if keys.len() == site_values::MAX_KEYS {
            let most = site_values::MAX_KEYS;
            reader.report(
                Diagnostic::error("bad-value", format!("more than {most} keys"))
                    .at(&key.location)
                    .help("what so many sites set so much of is better a `Site`'s own config"),
            );
            return None;
        }
        if let Some(first) = keys.get(&key.value) {
            reader.report(
                Diagnostic::error("bad-value", format!("key `{}` is opened twice", key.value))
                    .at(&key.location)
                    .related(&first.location, "and here"),
            );
            sound = false;
            continue;
        }
        let location = key.location;
        keys.insert(
            key.value,
            Spanned {
                value: rule,
                location,
            },
        );
    }
    sound.then_some(keys)
}

fn one(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<(Spanned<String>, Rule)> {
    let key = reader.text(fields, "key");
    let about = reader.optional_text(fields, "about");
    let kind = match fields.field("type") {
        None => {
            reader.text(fields, "type");
            None
        }
        Some(_) => reader.choice(fields, "type", Type::ALL, Type::as_str),
    };
    let (key, kind) = (key?, kind?);
    if !site_values::is_key(&key.value) {
        reader.report(
            Diagnostic::error("bad-value", format!("`{}` cannot be set by a site", key.value))
                .at(&key.location)
                .help("a key is letters, digits and `_`, not first a digit, at most 63: the name of a variable"),
        );
        return None;
    }
    // A bound of another type would be one that nobody keeps.
    let idle = ["minimum", "maximum", "maxLength", "pattern", "values"]
        .into_iter()
        .find(|name| fields.field(name).is_some() && !kind.value.fields().contains(name));
    if let Some(name) = idle {
        let node = fields.field(name).map_or(fields.node, |node| node);
        let location = reader.location(node);
        let kind = kind.value.as_str();
        let finding = Diagnostic::error(
            "bad-value",
            format!("`{name}` means nothing for `type: {kind}`"),
        );
        reader.report(
            finding
                .at(&location)
                .help("leave it out, or change the type"),
        );
        return None;
    }
    let allowed = match kind.value {
        Type::Boolean => Allowed::Boolean,
        Type::Enum => {
            let values: BTreeSet<String> = reader
                .texts(fields, "values")
                .into_iter()
                .map(|one| one.value)
                .collect();
            Allowed::Enum(values)
        }
        Type::Integer => Allowed::Integer {
            minimum: bound(reader, fields, "minimum")?,
            maximum: bound(reader, fields, "maximum")?,
        },
        Type::Text => {
            let most = match fields.field("maxLength") {
                None => u32::try_from(MAX_VALUE_BYTES).unwrap_or(u32::MAX),
                Some(_) => reader.integer(fields, "maxLength")?.value,
            };
            let pattern = match reader.optional_text(fields, "pattern") {
                None => None,
                Some(written) => match written.value.parse() {
                    Ok(pattern) => Some(pattern),
                    Err(error) => {
                        let error: site_values::PatternError = error;
                        reader.report(
                            Diagnostic::error("bad-value", error.to_string()).at(&written.location),
                        );
                        return None;
                    }
                },
            };
            Allowed::Text {
                max_length: most,
                pattern,
            }
        }
    };
    let about = about.map(|about| about.value).unwrap_or_default();
    let rule = Rule { about, allowed };
    let declared = site_values::SiteValues {
        form: Form::Env,
        keys: BTreeMap::from([(key.value.clone(), rule.clone())]),
    };
    if let Some(problem) = declared.problem() {
        reader.report(Diagnostic::error("bad-value", problem).at(&key.location));
        return None;
    }
    Some((key, rule))
}

/// A whole number that may be negative, which must be there.
fn bound(reader: &mut Reader<'_>, fields: &Fields<'_>, name: &str) -> Option<i64> {
    let node = fields.field(name);
    let written = match node.map(|node| &node.value) {
        Some(Value::Number(written)) => written.parse::<i64>().ok(),
        _ => None,
    };
    if written.is_none() {
        let location = reader.location(node.unwrap_or(fields.node));
        let finding = Diagnostic::error(
            "bad-value",
            format!("`{}.{name}` must be a whole number", fields.what),
        );
        reader.report(
            finding
                .at(&location)
                .help("an integer has a least and a most: `minimum: 20`, `maximum: 110`"),
        );
    }
    written
}
