//! Schemas: whether a config is what its schemas say.
//!
//! What comes in: a composed config and the schemas that apply to its assignment: those whose labels
//! match, then the target's own. What goes out: findings at the line of the value that is wrong, each
//! related to the schema that says so. Text becomes a number or a boolean only where the schema
//! declares one: a config's values are text by nature. Remote references are never fetched.

use std::collections::BTreeMap;
use std::sync::Arc;

use outhaul_gocompat::{GoValue, texts};
use serde_json::Value;

use super::{Composed, Mode, layers, secrets::without_secrets};
use crate::inputs::Inputs;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_control::model::{ClusterType, ConfigSchema, DeploymentTarget};

mod accepted;
mod budget;
mod coerce;
pub mod compat;
mod keywords;
mod unknown_keywords;

/// The schemas of a control plane, each parsed once.
#[derive(Debug)]
pub struct Schemas<'a> {
    labelled: Vec<&'a ConfigSchema>,
    parsed: BTreeMap<&'a str, Parsed>,
    mode: Mode,
}

/// A schema, ready to be used, or why it is not one.
#[derive(Debug, Clone)]
struct Parsed(Arc<Result<(Value, jsonschema::Validator), String>>);

/// A schema that applies to an assignment.
#[derive(Debug, Clone, Copy)]
pub struct Applied<'a> {
    /// Its JSON text.
    pub text: &'a str,
    /// Where it is written.
    pub location: &'a Location,
}

impl<'a> Schemas<'a> {
    /// Every schema of `control_plane`.
    pub fn of(control_plane: Inputs<'a>, mode: Mode) -> Self {
        let labelled: Vec<_> = control_plane.schemas.values().collect();
        let own = control_plane
            .targets
            .values()
            .flat_map(|target| &target.config_schemas);
        let texts = labelled.iter().map(|schema| &schema.schema).chain(own);
        let parsed = texts
            .map(|text| (text.value.as_str(), parse(&text.value)))
            .collect();
        Self {
            labelled,
            parsed,
            mode,
        }
    }

    /// The schemas that apply to a pair.
    pub fn applying(
        &self,
        cluster_type: &ClusterType,
        target: &'a DeploymentTarget,
    ) -> Vec<Applied<'a>> {
        let matching = self.labelled.iter().filter(|schema| {
            let labels = schema
                .labels
                .iter()
                .map(|(k, v)| (k.as_str(), v.value.as_str()));
            layers::applies(labels, cluster_type, target, self.mode.compat)
        });
        matching
            .map(|schema| &schema.schema)
            .chain(&target.config_schemas)
            .map(|spanned| Applied {
                text: &spanned.value,
                location: &spanned.location,
            })
            .collect()
    }

    /// Every schema that is not one, and every word in one that checks nothing; used or not.
    pub fn lints(&self, control_plane: Inputs<'_>, findings: &mut Diagnostics) {
        let own = control_plane.targets.values();
        let own = own.flat_map(|target| &target.config_schemas);
        for spanned in self.labelled.iter().map(|schema| &schema.schema).chain(own) {
            match self
                .parsed
                .get(spanned.value.as_str())
                .map(|parsed| &*parsed.0)
            {
                Some(Err(problem)) => findings.push(
                    Diagnostic::error("bad-schema", format!("not a JSON schema: {problem}"))
                        .at(&spanned.location),
                ),
                Some(Ok((document, _))) => {
                    let unknown = unknown_keywords::find(document);
                    findings.extend(
                        unknown
                            .into_iter()
                            .map(|unknown| lint(unknown, &spanned.location)),
                    );
                }
                None => {}
            }
        }
    }

    /// Checks a config.
    ///
    /// # Errors
    /// Every violation, and every schema that is not one.
    pub fn check(&self, applied: &[Applied<'_>], composed: &Composed) -> Result<(), Diagnostics> {
        let mut findings = Diagnostics::new();
        if self.mode.compat {
            return self.compat_check(applied, composed);
        }
        if !applied.is_empty() {
            findings.extend(keys_without_text(composed));
        }
        for schema in applied {
            let Some(parsed) = self.parsed.get(schema.text) else {
                continue;
            };
            match &*parsed.0 {
                Err(problem) => findings.push(
                    Diagnostic::error("bad-schema", format!("not a JSON schema: {problem}"))
                        .at(schema.location),
                ),
                Ok((document, validator)) => {
                    let values = to_json(&composed.values);
                    if let Err(problem) = budget::check(document, &values) {
                        let message = format!("a schema that is not tried: {problem}");
                        findings.push(Diagnostic::error("bad-schema", message).at(schema.location));
                        continue;
                    }
                    let values = coerce::toward(values, document);
                    findings.extend(violations(validator, &values, schema, composed));
                }
            }
        }
        if findings.is_empty() {
            Ok(())
        } else {
            Err(findings)
        }
    }

    /// Kalypso's own lines, at the values that they are about.
    fn compat_check(
        &self,
        applied: &[Applied<'_>],
        composed: &Composed,
    ) -> Result<(), Diagnostics> {
        let mut findings = Diagnostics::new();
        for schema in applied {
            let document = self.parsed.get(schema.text).map(|parsed| &*parsed.0);
            let tried = match document {
                Some(Ok((document, _))) => budget::check(document, &to_json(&composed.values)),
                _ => Ok(()),
            };
            let lines = match tried.and_then(|()| compat::errors(&composed.values, schema.text)) {
                Ok(lines) => lines,
                Err(problem) => vec![problem],
            };
            findings.extend(lines.iter().map(|line| {
                let line = line.trim_end().trim_start_matches("- ");
                let key = line.split([':', '.']).next().unwrap_or_default();
                let place = composed
                    .provenance
                    .get(key)
                    .and_then(super::Provenance::location);
                let message = format!(
                    "config data validation failed: {}",
                    line.replace("(root): ", "")
                );
                Diagnostic::error("schema", message)
                    .at(place.unwrap_or(schema.location))
                    .related(schema.location, "by this schema")
            }));
        }
        if findings.is_empty() {
            Ok(())
        } else {
            Err(findings)
        }
    }
}

/// The values of a config with a key that JSON does not have: no schema says anything about those.
fn keys_without_text(composed: &Composed) -> Vec<Diagnostic> {
    fn has_one(value: &GoValue) -> bool {
        match value {
            GoValue::List(items) => items.iter().any(has_one),
            GoValue::Map(map) => map.iter().any(|(key, value)| match key {
                GoValue::Null => true,
                GoValue::Float(number) => !number.is_finite() || has_one(value),
                _ => has_one(value),
            }),
            _ => false,
        }
    }
    let GoValue::Map(map) = &composed.values else {
        return Vec::new();
    };
    let finding = |(key, _): (&GoValue, &GoValue)| {
        let key = key.as_str().unwrap_or_default();
        let message = format!(
            "`{key}` has a key that is null, infinite or no number: no schema can check it"
        );
        let finding = Diagnostic::error("schema", message).help("put the key into quotes");
        let provenance = composed.provenance.get(key);
        finding.at_any(provenance.and_then(super::Provenance::location))
    };
    let with_one = map.iter().filter(|(_, value)| has_one(value));
    with_one.map(finding).collect()
}

fn lint(unknown: unknown_keywords::UnknownKeyword, location: &Location) -> Diagnostic {
    let unknown_keywords::UnknownKeyword { word, within, help } = unknown;
    let place = if within.is_empty() {
        String::new()
    } else {
        format!(" in `{within}`")
    };
    let message =
        format!("`{word}`{place} checks nothing: not a keyword of JSON Schema drafts 4, 6 and 7");
    let finding = Diagnostic::warning("schema-word", message).at(location);
    match help {
        Some(help) => finding.help(help),
        None => finding,
    }
}

fn violations(
    validator: &jsonschema::Validator,
    values: &Value,
    schema: &Applied<'_>,
    composed: &Composed,
) -> Vec<Diagnostic> {
    validator
        .iter_errors(values)
        .map(|error| {
            let pointer = error.instance_path().to_string();
            let key = pointer
                .split('/')
                .nth(1)
                .map(|key| key.replace("~1", "/").replace("~0", "~"));
            let place = key
                .as_ref()
                .and_then(|key| composed.provenance.get(key)?.location());
            let what = match &key {
                Some(_) => format!(
                    "`{}`: {error}",
                    pointer.trim_start_matches('/').replace('/', ".")
                ),
                None => error.to_string(),
            };
            let what = without_secrets(&what, values);
            let message = format!("the platform config breaks its schema: {what}");
            match place {
                Some(place) => Diagnostic::error("schema", message)
                    .at(place)
                    .related(schema.location, "by this schema"),
                None => Diagnostic::error("schema", message)
                    .at(schema.location)
                    .label("required by this schema"),
            }
        })
        .collect()
}

/// Refuses what would have to be fetched: a render never depends on a server.
struct NoNetwork;

impl jsonschema::Retrieve for NoNetwork {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("`{uri}` would have to be fetched; put it into `definitions`").into())
    }
}

fn parse(text: &str) -> Parsed {
    let made = serde_json::from_str::<Value>(text)
        .map_err(|error| error.to_string())
        .and_then(|document| {
            let draft = compat::draft(&document)?;
            let options = jsonschema::options()
                // What Kalypso's validator takes a schema without `$schema` for.
                .with_draft(jsonschema::Draft::Draft7)
                .with_retriever(NoNetwork)
                .with_pattern_options(jsonschema::PatternOptions::regex())
                .should_validate_formats(true)
                .should_ignore_unknown_formats(true);
            let options = compat::FORMATS.iter().fold(options, |options, format| {
                options.with_format(*format, |text| compat::is_format(format, text))
            });
            let validator = options
                .build(&accepted::accepted(&document, draft))
                .map_err(|error| error.to_string())?;
            Ok((document, validator))
        });
    Parsed(Arc::new(made))
}

/// The config as JSON, which is what a schema is about.
pub fn to_json(value: &GoValue) -> Value {
    match value {
        GoValue::Null => Value::Null,
        GoValue::Bool(value) => Value::Bool(*value),
        GoValue::Int(number) => (*number).into(),
        GoValue::Uint(number) => (*number).into(),
        GoValue::Float(number) => {
            serde_json::Number::from_f64(*number).map_or(Value::Null, Value::Number)
        }
        GoValue::Str(text) => Value::String(text.to_string()),
        GoValue::Time(text) => Value::String(text.clone()),
        GoValue::Bytes(bytes) => Value::String(String::from_utf8_lossy(bytes).into_owned()),
        GoValue::List(items) => items.iter().map(to_json).collect(),
        GoValue::Map(map) => {
            let text = |key: &GoValue| match key {
                GoValue::Str(text) => text.to_string(),
                GoValue::Float(number) => texts::json_number(*number),
                other => to_json(other).to_string(),
            };
            Value::Object(
                map.iter()
                    .map(|(key, value)| (text(key), to_json(value)))
                    .collect(),
            )
        }
    }
}
