//! `SiteValues` (our group): which values of some assignments the sites may set themselves.
//!
//! What comes in: the object's fields. What goes out: a [`OpenValues`] whose rules are those of the bundle's format, so that
//! a site checks a value by the very same code. Which values the keys have at the centre is found when
//! an assignment is rendered.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::index::site_values::{
    self, Allowed, Form, MAX_VALUE_BYTES, PatternError, Rule,
};
use serde_json::json;

use super::super::diagnostic::Diagnostic;
use super::super::model::{OpenValues, Spanned};
use super::super::yaml::YamlValue;
use super::OUTHAUL;
use super::fields::{FieldReader, Fields};
use super::label_selector;
use super::metadata::Metadata;
use super::shape::{
    Field, KindSchema, LABELS, Shape, kind, may, must, object, one_of, pattern, selected, some,
    text, whole,
};

/// The lists of keys, by what their values may be.
const LISTS: [&str; 4] = ["integers", "texts", "enums", "booleans"];

pub(super) fn described() -> KindSchema {
    let most = u32::try_from(MAX_VALUE_BYTES).unwrap_or(u32::MAX);
    let number = |example: i64| json!({"type": "integer", "examples": [example]});
    let keys = |example: &'static str, more: Vec<Field>| -> Shape {
        let name = pattern("^[A-Za-z_][A-Za-z0-9_]{0,62}$", example);
        let mut fields = vec![
            must("key", "The key of the platform config.", name),
            may(
                "about",
                "What it is for, shown on site.",
                text("Width of the paper"),
            ),
        ];
        fields.extend(more);
        some(object(fields))
    };
    let integers = vec![
        must("minimum", "The least value.", number(-40)),
        must("maximum", "The greatest value.", number(110)),
    ];
    let texts = vec![
        may(
            "maxLength",
            "Most characters; default 256.",
            whole(1..=most),
        ),
        may(
            "pattern",
            "What all of it must be like: characters and classes such as `[A-Z0-9]`, each perhaps with `?`, `+`, `*` or `{1,8}`; no groups, no alternatives.",
            text("[A-Z]{1,4}-[0-9]+"),
        ),
    ];
    let enums = vec![must(
        "values",
        "The values that it may have.",
        some(text("left")),
    )];
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
            may(
                "integers",
                "Keys whose values are whole numbers.",
                keys("LABEL_WIDTH_MM", integers),
            ),
            may(
                "texts",
                "Keys whose values are text of one line.",
                keys("LINE", texts),
            ),
            may(
                "enums",
                "Keys whose values are one of a few.",
                keys("TRAY", enums),
            ),
            may(
                "booleans",
                "Keys whose values are `true` or `false`.",
                keys("CUT", Vec::new()),
            ),
        ]),
    )
}

pub(super) fn read(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<OpenValues> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let targets = label_selector::section(reader, &spec, "deploymentTargetSelector");
    let cluster_types = label_selector::section(reader, &spec, "clusterTypeSelector");
    if spec.field("form").is_none() {
        reader.text(&spec, "form");
    }
    let form = reader.choice(&spec, "form", Form::ALL, Form::as_str);
    let keys = keys(reader, &spec);
    let metadata = metadata?;
    Some(OpenValues {
        targets: targets?,
        cluster_types: cluster_types?,
        form: form?.value,
        keys: keys?,
        name: metadata.name,
        location: metadata.location,
    })
}

/// `None` when any of them is unsound.
fn keys(
    reader: &mut FieldReader<'_>,
    spec: &Fields<'_>,
) -> Option<BTreeMap<String, Spanned<Rule>>> {
    let mut keys: BTreeMap<String, Spanned<Rule>> = BTreeMap::new();
    let mut sound = true;
    for list in LISTS {
        let Some(node) = spec.field(list) else {
            continue;
        };
        let items = reader.list(spec, list);
        if items.is_empty() {
            let location = reader.location(node);
            let finding = Diagnostic::error(
                "missing-field",
                format!("`{}.{list}` names no key", spec.what),
            );
            reader.report(
                finding
                    .at(&location)
                    .help("name at least one, or leave it out"),
            );
            sound = false;
        }
        for (at, item) in items.iter().enumerate() {
            let what = format!("{}.{list}[{at}]", spec.what);
            let fields = reader.map(item, &what, spec.shape.field(list).item());
            let Some((key, rule)) = fields.and_then(|fields| one(reader, &fields, list)) else {
                sound = false;
                continue;
            };
            if let Some(first) = keys.get(&key.value) {
                let message = format!("key `{}` is opened twice", key.value);
                let finding = Diagnostic::error("bad-value", message).at(&key.location);
                reader.report(finding.related(&first.location, "and here"));
                sound = false;
                continue;
            }
            keys.insert(
                key.value,
                Spanned {
                    value: rule,
                    location: key.location,
                },
            );
        }
    }
    if !sound {
        return None;
    }
    let most = site_values::MAX_KEYS;
    if keys.is_empty() || keys.len() > most {
        let location = reader.location(spec.node);
        let message = format!("{} keys are open, 1 to {most} may be", keys.len());
        let help = "list keys under `integers`, `texts`, `enums` or `booleans`";
        reader.report(
            Diagnostic::error("bad-value", message)
                .at(&location)
                .help(help),
        );
        return None;
    }
    Some(keys)
}

fn one(
    reader: &mut FieldReader<'_>,
    fields: &Fields<'_>,
    list: &str,
) -> Option<(Spanned<String>, Rule)> {
    let key = reader.text(fields, "key");
    let about = match fields.field("about") {
        None => None,
        Some(_) => Some(reader.text(fields, "about")?),
    };
    let allowed = match list {
        "integers" => {
            let (minimum, maximum) = (
                bound(reader, fields, "minimum"),
                bound(reader, fields, "maximum"),
            );
            Allowed::Integer {
                minimum: minimum?,
                maximum: maximum?,
            }
        }
        "enums" => {
            if fields.field("values").is_none() {
                reader.text(fields, "values");
                return None;
            }
            let written = reader.list(fields, "values").len();
            let values = reader.texts(fields, "values");
            if values.len() != written {
                return None;
            }
            let values: BTreeSet<String> = values.into_iter().map(|one| one.value).collect();
            Allowed::Enum(values)
        }
        "texts" => {
            let most = match fields.field("maxLength") {
                None => u32::try_from(MAX_VALUE_BYTES).unwrap_or(u32::MAX),
                Some(_) => reader.integer(fields, "maxLength")?.value,
            };
            let pattern = match fields.field("pattern") {
                None => None,
                Some(_) => Some(like(reader, fields)?),
            };
            Allowed::Text {
                max_length: most,
                pattern,
            }
        }
        _ => Allowed::Boolean,
    };
    let key = key?;
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

fn like(reader: &mut FieldReader<'_>, fields: &Fields<'_>) -> Option<site_values::Pattern> {
    let written = reader.text(fields, "pattern")?;
    match written.value.parse() {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            let error: PatternError = error;
            reader.report(Diagnostic::error("bad-value", error.to_string()).at(&written.location));
            None
        }
    }
}

/// A whole number that may be negative, which must be there.
fn bound(reader: &mut FieldReader<'_>, fields: &Fields<'_>, name: &str) -> Option<i64> {
    let node = fields.field(name);
    let written = match node.map(|node| &node.value) {
        Some(YamlValue::Number(written)) => written.parse::<i64>().ok(),
        _ => None,
    };
    if written.is_none() {
        let location = reader.location(node.unwrap_or(fields.node));
        let message = format!("`{}.{name}` must be a whole number", fields.what);
        let help = "an integer has a least and a greatest value: `minimum: 20`, `maximum: 110`";
        reader.report(
            Diagnostic::error("bad-value", message)
                .at(&location)
                .help(help),
        );
    }
    written
}
