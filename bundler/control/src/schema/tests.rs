//! Schemas and readers: they know the same fields, and refuse the same objects.
//!
//! From each schema an object with every field is made; then it is broken in one place after another,
//! and both have to notice.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::diagnostic::{Diagnostics, Severity, SourceFile};
use crate::kinds::read_file;

/// An object, or part of one, with every field that its schema knows.
fn sample(schema: &Value) -> Value {
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(value) = schema.get("examples") {
        return value[0].clone();
    }
    if let Some(value) = schema.get("enum") {
        return value[0].clone();
    }
    if let Some(first) = schema.get("anyOf").filter(|_| schema.get("type").is_none()) {
        return sample(&first[1]);
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let field = |(name, shape): (&String, &Value)| (name.clone(), sample(shape));
        return Value::Object(properties.iter().map(field).collect());
    }
    if let Some(item) = schema.get("items") {
        return json!([sample(item)]);
    }
    match schema.get("additionalProperties") {
        Some(values) if values.is_object() => json!({"zone": sample(values)}),
        _ if schema["type"] == "string" => json!("north"),
        _ if schema["type"] == "boolean" => json!(true),
        // What is taken and ignored.
        _ => json!({"anything": 1}),
    }
}

/// A container that says that it is one.
fn whole(kind: &KindSchema) -> Value {
    let mut value = sample(kind.schema());
    if kind.name == "ConfigMap" {
        value["metadata"]["labels"] = json!({"platform-config": "true", "zone": "north"});
    }
    value
}

fn read(value: &Value) -> Diagnostics {
    let file = Arc::new(SourceFile {
        name: "x.yaml".into(),
        text: value.to_string(),
    });
    let mut findings = Diagnostics::new();
    read_file(&file, &mut findings);
    findings
}

fn validator(schema: &Value) -> jsonschema::Validator {
    jsonschema::draft202012::new(schema).unwrap()
}

/// Every place of `value`, with the part of the schema that is for it.
fn places(value: &Value, schema: &Value, at: &str, found: &mut Vec<(String, Value)>) {
    found.push((at.to_owned(), schema.clone()));
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let part = schema
                    .get("properties")
                    .and_then(|properties| properties.get(name))
                    .or_else(|| schema.get("additionalProperties"));
                if let Some(part) = part.filter(|part| part.is_object()) {
                    places(value, part, &format!("{at}/{name}"), found);
                }
            }
        }
        Value::Array(items) => {
            for (n, value) in items.iter().enumerate() {
                let item = &schema["items"];
                // Of alternatives, the sample is the second.
                let item = match item.get("anyOf") {
                    Some(all) if item.get("type").is_none() => &all[1],
                    _ => item,
                };
                places(value, item, &format!("{at}/{n}"), found);
            }
        }
        _ => {}
    }
}

fn all_places(kind: &KindSchema) -> (Value, Vec<(String, Value)>) {
    let value = whole(kind);
    let mut found = Vec::new();
    places(&value, kind.schema(), "", &mut found);
    (value, found)
}

#[test]
fn every_kind_has_its_own_name_in_order() {
    for group in [KALYPSO, OUTHAUL] {
        let of = kinds::all().filter(|kind| kind.api_version == group);
        let names: Vec<&str> = of.map(|kind| kind.name).collect();
        assert!(names.len() > 7 && names.is_sorted(), "{names:?}");
        assert_eq!(BTreeSet::from_iter(&names).len(), names.len());
    }
}

#[test]
fn an_object_with_every_field_is_taken_by_both() {
    for kind in kinds() {
        let value = whole(&kind);
        let findings = read(&value);
        assert!(!findings.has_errors(), "{}: {findings}", kind.id());
        let validator = validator(&kind.document());
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|e| e.to_string())
            .collect();
        assert_eq!(errors, [""; 0], "{}: {value:#}", kind.id());
    }
}

#[test]
fn readers_and_schemas_know_the_same_fields_everywhere() {
    let mut probed = 0;
    for kind in kinds() {
        let validator = validator(&kind.document());
        let (value, places) = all_places(&kind);
        for (at, schema) in places {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                continue;
            };
            let mut broken = value.clone();
            broken.pointer_mut(&at).unwrap()["qqqqqqqqqqqqqqqqqqqqqqqqqqqq"] = json!(1);
            let place = format!("{}{at}", kind.id());
            assert!(
                !validator.is_valid(&broken),
                "{place}: the schema takes any field"
            );
            let findings = read(&broken);
            let finding = findings
                .iter()
                .find(|finding| finding.code == "unknown-field")
                .unwrap_or_else(|| panic!("{place}: the reader takes any field"));
            // `known: `a`, `b``
            let help = finding.help.as_deref().unwrap();
            let known: BTreeSet<&str> = help.split('`').skip(1).step_by(2).collect();
            let properties: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
            assert_eq!(known, properties, "{place}: reader and schema differ");
            probed += 1;
        }
    }
    assert!(probed > 60, "{probed}");
}

#[test]
fn both_refuse_what_is_missing_and_take_what_is_optional() {
    for kind in kinds() {
        let validator = validator(&kind.document());
        let (value, places) = all_places(&kind);
        for (at, schema) in places {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                continue;
            };
            for name in properties.keys() {
                let mut less = value.clone();
                let part = less.pointer_mut(&at).unwrap().as_object_mut().unwrap();
                part.remove(name);
                let place = format!("{} without {at}/{name}", kind.id());
                // Without these the object is ignored.
                if matches!((at.as_str(), name.as_str()), ("", "apiVersion" | "kind"))
                    || (kind.name == "ConfigMap" && (at == "/metadata" || name == "metadata"))
                {
                    continue;
                }
                let findings = read(&less);
                assert_eq!(
                    validator.is_valid(&less),
                    !findings.has_errors(),
                    "{place}: {findings}"
                );
            }
        }
    }
}

#[test]
fn both_refuse_values_of_another_type() {
    for kind in kinds() {
        let validator = validator(&kind.document());
        let (value, places) = all_places(&kind);
        for (at, schema) in places {
            // What is taken and ignored, what decides whose the object is, and what may be either.
            let free = schema.get("type").is_none();
            if free || (kind.name == "ConfigMap" && at.starts_with("/metadata")) {
                continue;
            }
            for other in [
                json!({"q": [1]}),
                json!([{"q": 1}]),
                json!(true),
                json!(-1),
                json!("!?"),
            ] {
                let mut broken = value.clone();
                *broken.pointer_mut(&at).unwrap() = other.clone();
                let place = format!("{}{at} = {other}", kind.id());
                let findings = read(&broken);
                let errors = findings.count(Severity::Error) > 0;
                // At the root another type is another document.
                if !at.is_empty() {
                    assert_eq!(validator.is_valid(&broken), !errors, "{place}: {findings}");
                }
            }
        }
    }
}

/// `encryption:` with nothing behind it would switch off what it is there for.
#[test]
fn no_field_of_ours_may_be_written_without_a_value() {
    let mut probed = 0;
    for kind in kinds() {
        let ours = kind.api_version == OUTHAUL;
        let validator = validator(&kind.document());
        let (value, places) = all_places(&kind);
        for (at, schema) in places {
            let is_ignored = schema.get("type").is_none()
                && ["enum", "anyOf"]
                    .iter()
                    .all(|rule| schema.get(rule).is_none());
            if at.is_empty() || is_ignored || at == "/metadata" || at == "/metadata/name" {
                continue;
            }
            let mut broken = value.clone();
            *broken.pointer_mut(&at).unwrap() = Value::Null;
            let findings = read(&broken);
            let place = format!("{}{at}: {findings}", kind.id());
            assert_eq!(
                validator.is_valid(&broken),
                !findings.has_errors(),
                "{place}"
            );
            if !ours {
                assert!(
                    findings.iter().all(|finding| finding.code != "null-field"),
                    "{place}"
                );
                continue;
            }
            let errors: Vec<_> = findings
                .iter()
                .filter(|f| f.severity == Severity::Error)
                .collect();
            assert!(!errors.is_empty(), "{place}");
            // A null in a list, or among names that people give, is a value of a wrong type.
            let is_field = !at.ends_with("/0") && !at.ends_with("/zone");
            if is_field {
                let found = errors.iter().find(|error| error.code == "null-field");
                let found = found.unwrap_or_else(|| panic!("{place}"));
                assert!(found.location.is_some() && found.help.is_some(), "{place}");
            }
            probed += 1;
        }
    }
    assert!(probed > 90, "{probed}");
}

#[test]
fn one_schema_judges_every_object_by_what_it_says_it_is() {
    let validator = validator(&combined(&kinds()));
    for kind in kinds() {
        let value = whole(&kind);
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|e| e.to_string())
            .collect();
        assert_eq!(errors, [""; 0], "{}", kind.id());
        let mut broken = value.clone();
        broken["metadata"]["nam"] = json!("x");
        assert!(!validator.is_valid(&broken), "{}", kind.id());
        let list = |value: &Value| json!({"apiVersion": "v1", "kind": "List", "items": [value]});
        assert!(validator.is_valid(&list(&value)), "{}", kind.id());
        assert!(!validator.is_valid(&list(&broken)), "{}", kind.id());
    }
    for foreign in [
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"anything": 1}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": 1}}),
        json!({"a": 1}),
        Value::Null,
    ] {
        assert!(validator.is_valid(&foreign), "{foreign}");
    }
    let unknown = json!({"apiVersion": OUTHAUL, "kind": "Tamplate", "metadata": {"name": "x"}});
    assert!(!validator.is_valid(&unknown));
}

#[test]
fn people_see_each_field_with_what_it_takes() {
    let kinds = kinds();
    let kind = kinds
        .iter()
        .find(|kind| kind.id() == "outhaul.SchedulingPolicy")
        .unwrap();
    let lines: Vec<String> = print::lines(kind)
        .iter()
        .map(|line| format!("{} | {} | {}", line.path, line.takes, line.about))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}
