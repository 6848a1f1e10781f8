//! Site values: which values of an assignment belong to its sites, and the file with the centre's.
//!
//! What comes in: the `SiteValues` objects of a control plane, an assignment and its composed config. What goes out: the
//! declaration that travels in the signed index, and the text of the file with a line for each key; or a finding at the
//! key that cannot be opened: one that the config does not have, that is sealed or structured, whose present value is not
//! allowed, or whose rule lets in what the workload's schema refuses. It is pure.

use std::collections::BTreeMap;

use outhaul_bundle::index::site_values::{Allowed, Rule, SiteValues, ValueError};
use outhaul_gocompat::GoValue;
use outhaul_seal::marker;

use crate::compose::schema::Schemas;
use crate::compose::{Composed, Mode};
use crate::inputs::Inputs;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::{ClusterType, DeploymentTarget, OpenValues, Spanned};

/// The code of its findings.
const CODE: &str = "site-values";

/// What is open in the assignments of a control plane.
#[derive(Debug)]
pub struct Opener<'a> {
    objects: Vec<&'a OpenValues>,
    /// Only where something is open.
    schemas: Option<Schemas<'a>>,
}

/// What is open in one assignment.
#[derive(Debug, Clone)]
pub struct OpenedValues<'a> {
    /// As it travels.
    pub declared: SiteValues,
    keys: BTreeMap<&'a str, &'a Spanned<Rule>>,
}

impl<'a> Opener<'a> {
    /// For a control plane.
    pub fn new(plane: Inputs<'a>, mode: Mode) -> Self {
        let objects: Vec<&OpenValues> = plane.site_values.values().collect();
        let schemas = (!objects.is_empty()).then(|| Schemas::of(plane, mode));
        Self { objects, schemas }
    }

    /// What is open in the assignment of `target` on `cluster_type`.
    ///
    /// # Errors
    /// A finding where two objects contradict each other.
    pub fn of(
        &self,
        cluster_type: &ClusterType,
        target: &DeploymentTarget,
    ) -> Result<Option<OpenedValues<'a>>, Diagnostics> {
        let mut opened: Option<(OpenedValues<'a>, &'a OpenValues)> = None;
        let here = self.objects.iter().copied().filter(|object| {
            object.targets.matches(&target.labels)
                && object.cluster_types.matches(&cluster_type.labels)
        });
        for object in here {
            let form = object.form;
            let (found, first) = opened.get_or_insert_with(|| {
                let declared = SiteValues {
                    form,
                    keys: BTreeMap::new(),
                };
                (
                    OpenedValues {
                        declared,
                        keys: BTreeMap::new(),
                    },
                    object,
                )
            });
            let contradicts = |what: String| {
                Diagnostic::error(
                    CODE,
                    format!(
                        "site values `{}` and `{}` contradict each other for `{}` on `{}`: {what}",
                        first.name, object.name, target.name, cluster_type.name
                    ),
                )
            };
            if found.declared.form != form {
                let finding = contradicts("`form`".to_owned())
                    .at(&object.location)
                    .related(&first.location, "and this")
                    .help("make them equal, or narrow a selector so that they do not meet");
                return Err(finding.into());
            }
            for (key, rule) in &object.keys {
                if let Some(other) = found.keys.insert(key, rule)
                    && other.value != rule.value
                {
                    let finding = contradicts(format!("`{key}`"))
                        .at(&rule.location)
                        .related(&other.location, "and this")
                        .help("open a key once, or with equal rules");
                    return Err(finding.into());
                }
                found.declared.keys.insert(key.clone(), rule.value.clone());
            }
            if let Some(problem) = found.declared.problem() {
                return Err(contradicts(problem).at(&object.location).into());
            }
        }
        Ok(opened.map(|(opened, _)| opened))
    }

    /// The name and the text of the file with the centre's values.
    ///
    /// # Errors
    /// A finding for every key that cannot be open.
    pub fn file(
        &self,
        opened: &OpenedValues<'_>,
        (cluster_type, target): (&ClusterType, &'a DeploymentTarget),
        namespace: &str,
        composed: &Composed,
    ) -> Result<(&'static str, String), Diagnostics> {
        let mut findings = Diagnostics::new();
        let mut values = BTreeMap::new();
        for (key, rule) in &opened.keys {
            match text(composed, key).and_then(|value| {
                rule.value
                    .check(key, &value)
                    .map_err(|error| (error.to_string(), "change the value or the rule"))?;
                Ok(value)
            }) {
                Ok(value) => drop(values.insert((*key).to_owned(), value)),
                Err((what, help)) => {
                    let title = format!("assignment `{}` on `{}`", target.name, cluster_type.name);
                    findings.push(
                        Diagnostic::error(CODE, format!("{title}: {what}"))
                            .at(&rule.location)
                            .help(help),
                    );
                }
            }
        }
        if findings.is_empty() {
            self.against_schemas(opened, (cluster_type, target), composed, &mut findings);
        }
        if !findings.is_empty() {
            return Err(findings);
        }
        let file = opened.declared.form.file();
        let text = opened.declared.file(namespace, &values);
        let broken =
            |error: ValueError| Diagnostics::from(Diagnostic::error(CODE, error.to_string()));
        Ok((file, text.map_err(broken)?))
    }

    /// Every value that a rule lets in must be one that the workload's schema takes. Of numbers the two ends are tried, of
    /// choices each; free text cannot be tried and is left to the rule.
    fn against_schemas(
        &self,
        opened: &OpenedValues<'_>,
        (cluster_type, target): (&ClusterType, &'a DeploymentTarget),
        composed: &Composed,
        findings: &mut Diagnostics,
    ) {
        let Some(schemas) = &self.schemas else { return };
        let applied = schemas.applying(cluster_type, target);
        if applied.is_empty() {
            return;
        }
        for (key, rule) in &opened.keys {
            for value in ends(&rule.value) {
                let mut tried = composed.clone();
                if !put(&mut tried, key, &value) {
                    continue;
                }
                let Err(refused) = schemas.check(&applied, &tried) else {
                    continue;
                };
                let why = refused
                    .iter()
                    .next()
                    .map(|one| one.message.clone())
                    .unwrap_or_default();
                findings.push(
                    Diagnostic::error(
                        CODE,
                        format!(
                            "a site could set `{key}` to `{value}`, which the schema of `{}` refuses: {why}",
                            target.name
                        ),
                    )
                    .at(&rule.location)
                    .help("open no more than the schema takes"),
                );
                break;
            }
        }
    }
}

/// The values at the ends of what is allowed.
fn ends(rule: &Rule) -> Vec<String> {
    match &rule.allowed {
        Allowed::Boolean => vec!["false".to_owned(), "true".to_owned()],
        Allowed::Integer { minimum, maximum } => vec![minimum.to_string(), maximum.to_string()],
        Allowed::Enum(choices) => choices.iter().cloned().collect(),
        Allowed::Text { .. } => Vec::new(),
    }
}

/// The centre's value as text, or why a site cannot set it and what to do.
fn text(composed: &Composed, key: &str) -> Result<String, (String, &'static str)> {
    let value = composed.values.as_map().and_then(|map| map.get(key));
    match value {
        None | Some(GoValue::Null) => Err((
            format!("`{key}` is open to its sites and has no value in its platform config"),
            "give it one in a config container: sites that set nothing use it",
        )),
        Some(GoValue::Str(text)) if text.contains(marker::OPENING) => Err((
            format!("`{key}` is open to its sites and its value is sealed"),
            "a sealed value belongs to the centre: close the key, or leave the value in the clear",
        )),
        Some(GoValue::Str(text)) => Ok(text.to_string()),
        Some(GoValue::Bool(value)) => Ok(value.to_string()),
        Some(GoValue::Int(value)) => Ok(value.to_string()),
        Some(GoValue::Uint(value)) => Ok(value.to_string()),
        Some(_) => Err((
            format!(
                "`{key}` is open to its sites and its value is not a text, whole number or boolean"
            ),
            "open single values only",
        )),
    }
}

/// Puts a value in the place of another one; `false` when there is none.
fn put(composed: &mut Composed, key: &str, value: &str) -> bool {
    let GoValue::Map(map) = &mut composed.values else {
        return false;
    };
    map.get(key).is_some() && map.insert(key, GoValue::from(value)).is_some()
}

#[cfg(test)]
mod tests;
