//! `labelSelector`: what Kubernetes would accept, each requirement with its place.
//!
//! What comes in: the map that holds it. What goes out: a [`Selector`], or `None` when something is
//! wrong with it, with findings for each mistake: an unsound selector must not match everything.

use super::super::diagnostic::{Diagnostic, Location};
use super::super::model::Spanned;
use super::super::selector::{Operator, Requirement, Selector, SelectorError};
use super::super::yaml::YamlValue;
use super::fields::{FieldReader, Fields};
use outhaul_kit::suggest::did_you_mean;

/// The section `key` of `parent` with nothing but a `labelSelector`.
pub(super) fn section(
    reader: &mut FieldReader<'_>,
    parent: &Fields<'_>,
    key: &str,
) -> Option<Selector> {
    let fields = reader.section(parent, key)?;
    selector(reader, &fields)
}

/// The `labelSelector` of `parent`; without one everything matches.
pub(super) fn selector(reader: &mut FieldReader<'_>, parent: &Fields<'_>) -> Option<Selector> {
    let Some(node) = parent.field("labelSelector") else {
        return Some(Selector::default());
    };
    let what = format!("{}.labelSelector", parent.what);
    let fields = reader.map(node, &what, parent.shape.field("labelSelector"))?;
    let mut sound = true;
    let mut requirements = Vec::new();
    if fields.field("matchLabels").is_some() {
        match reader.text_map(&fields, "matchLabels") {
            None => sound = false,
            Some(labels) => {
                for (key, value) in labels {
                    let made = Requirement::new(&key, Operator::Equals, [value.value]);
                    sound &= add(reader, &mut requirements, made, &value.location);
                }
            }
        }
        if let Some(YamlValue::Mapping(entries)) = fields.field("matchLabels").map(|n| &n.value) {
            sound &= requirements.len() == entries.len();
        }
    }
    for (at, node) in reader.list(&fields, "matchExpressions").iter().enumerate() {
        let what = format!("{what}.matchExpressions[{at}]");
        let Some(expression) =
            reader.map(node, &what, fields.shape.field("matchExpressions").item())
        else {
            sound = false;
            continue;
        };
        let key = reader.text(&expression, "key");
        let operator = reader.text(&expression, "operator");
        let values = reader.texts(&expression, "values");
        let (Some(key), Some(operator)) = (key, operator) else {
            sound = false;
            continue;
        };
        let Some(known) = operator_of(reader, &operator) else {
            sound = false;
            continue;
        };
        // What is not a list was reported, and that it is empty would be said of nothing.
        let listed = expression.field("values").map(|node| &node.value);
        if listed.is_some_and(|value| !matches!(value, YamlValue::Sequence(_))) {
            sound = false;
            continue;
        }
        let made = Requirement::new(&key.value, known, values.into_iter().map(|v| v.value));
        sound &= add(reader, &mut requirements, made, &key.location);
    }
    sound.then_some(Selector { requirements })
}

fn operator_of(reader: &mut FieldReader<'_>, operator: &Spanned<String>) -> Option<Operator> {
    let known = Operator::parse(&operator.value);
    if known.is_none() {
        reader.report(
            Diagnostic::error(
                "bad-selector",
                format!("unknown operator `{}`", operator.value),
            )
            .at(&operator.location)
            .help(did_you_mean(&operator.value, &Operator::NAMES)),
        );
    }
    known
}

fn add(
    reader: &mut FieldReader<'_>,
    requirements: &mut Vec<Requirement>,
    made: Result<Requirement, SelectorError>,
    location: &Location,
) -> bool {
    match made {
        Ok(mut requirement) => {
            requirement.location = Some(location.clone());
            requirements.push(requirement);
            true
        }
        Err(error) => {
            reader.report(Diagnostic::error("bad-selector", error.to_string()).at(location));
            false
        }
    }
}
