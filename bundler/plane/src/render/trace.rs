//! Trace: which lines of which templates one value of the platform config reaches.
//!
//! What comes in: a pair with its composed config, and a key. What goes out: the template lines that
//! name the key, that take the whole config, or whose output was seen to change when the value was
//! altered. For the last, every template line is marked and the pair is rendered twice; what cannot
//! be rendered with another value is reported by its text alone. Nothing of it reaches a rendered file.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_gocompat::{GoMap, GoValue, TemplateData};
use serde::Serialize;

use super::engine::{Engines, Shared};
use super::place;
use crate::compose::{Composed, Mode};
use crate::inputs::Inputs;
use crate::templates;
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::Location;
use outhaul_control::model::{ClusterType, DeploymentTarget, Spanned, Template, TemplateType};

pub mod references;

use references::{Names, References};

/// How a template line comes to depend on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It names the key.
    Named,
    /// It takes the whole `ConfigData`.
    Whole,
    /// What it gives changes with the value.
    Output,
}

impl How {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Named => "names it",
            Self::Whole => "iterates ConfigData",
            Self::Output => "its output changes with the value",
        }
    }
}

/// One template line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The template's name.
    pub template: String,
    /// What the template is for.
    pub kind: TemplateType,
    /// Where the line is.
    pub location: Location,
    /// Why it is listed.
    pub how: How,
    /// Whether its output was seen to change with the value.
    pub changes: bool,
}

/// What one key reaches.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// The lines, in the order of the templates.
    pub lines: Vec<Line>,
    /// Whether another value could be tried. When not, only the text of the templates counts.
    pub tried: bool,
}

/// The lines that the value of `key` reaches for one pair.
pub fn trace(
    plane: &ControlPlane,
    cluster_type: &ClusterType,
    target: &DeploymentTarget,
    composed: &Composed,
    key: &str,
    mode: Mode,
) -> Trace {
    let named: Vec<(TemplateType, &Spanned<String>)> =
        templates::of_assignment(&plane.deliveries, cluster_type, Some(&target.name)).collect();
    let mut marked = ControlPlane {
        environment: plane.environment.clone(),
        ..ControlPlane::default()
    };
    for (_, name) in &named {
        if let Some(template) = plane.templates.get(&name.value) {
            marked
                .templates
                .insert(name.value.clone(), with_marks(template));
        }
    }
    let engines = Engines::new(Inputs::of(&marked), mode);
    let data = |values: &GoValue| TemplateData {
        deployment_target_name: target.name.clone(),
        namespace: format!(
            "{}-{}-{}",
            plane.environment, cluster_type.name, target.name
        ),
        environment: plane.environment.clone(),
        workspace: target.workspace.clone(),
        workload: target.workload.clone(),
        labels: Some(target.labels.clone()),
        manifests: target.manifests.clone(),
        cluster_type: cluster_type.name.clone(),
        config_data: values.clone(),
    };
    let mut trace = Trace {
        lines: Vec::new(),
        tried: true,
    };
    for (kind, name) in named {
        let Some(template) = plane.templates.get(&name.value) else {
            continue;
        };
        let render = |values: &GoValue| {
            let text = engines
                .render(name, kind, data(values).view(), &mut Shared::default())
                .ok()?;
            Some(by_line(&text))
        };
        let others = others(&composed.values, key);
        let changed: Option<BTreeSet<(usize, usize)>> = render(&composed.values).and_then(|now| {
            // The first value that the template takes.
            let other = others.iter().find_map(&render)?;
            let all: BTreeSet<(usize, usize)> = now.keys().chain(other.keys()).copied().collect();
            Some(
                all.into_iter()
                    .filter(|line| now.get(line) != other.get(line))
                    .collect(),
            )
        });
        trace.tried &= changed.is_some();
        let changed = changed.unwrap_or_default();
        lines(template, kind, key, &changed, &mut trace.lines);
    }
    trace
}

fn lines(
    template: &Template,
    kind: TemplateType,
    key: &str,
    changed: &BTreeSet<(usize, usize)>,
    into: &mut Vec<Line>,
) {
    for (at, manifest) in template.manifests.iter().enumerate() {
        let references = References::of(&manifest.value);
        let mut found: BTreeMap<usize, (How, usize)> = BTreeMap::new();
        for reference in &references.all {
            let how = match &reference.names {
                Names::Key(name) if name == key => How::Named,
                Names::Key(_) => continue,
                Names::Whole => How::Whole,
            };
            let entry = found
                .entry(reference.line)
                .or_insert((how, reference.column));
            *entry = (*entry).min((how, reference.column));
        }
        for (_, line) in changed.iter().filter(|(manifest, _)| *manifest == at) {
            found.entry(*line).or_insert((How::Output, 1));
        }
        for (line, (how, column)) in found {
            into.push(Line {
                template: template.name.clone(),
                kind,
                location: place::inside(&manifest.location, line, column),
                how,
                changes: changed.contains(&(at, line)),
            });
        }
    }
}

/// Characters that no control plane holds: Unicode's private use.
const MARK: char = '\u{F8A0}';
const END: char = '\u{F8A1}';

/// The template with a mark before every line that begins outside of an action.
fn with_marks(template: &Template) -> Template {
    let mut template = template.clone();
    for (at, manifest) in template.manifests.iter_mut().enumerate() {
        let open = References::of(&manifest.value).lines_inside;
        let mut text = String::new();
        for (line, content) in manifest.value.split_inclusive('\n').enumerate() {
            if !open.contains(&(line + 1)) {
                text.push_str(&format!("{MARK}{at}:{}{END}", line + 1));
            }
            text.push_str(content);
        }
        manifest.value = text;
    }
    template
}

/// What each template line gave: by manifest and line.
fn by_line(text: &str) -> BTreeMap<(usize, usize), Vec<String>> {
    let mut all: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    for part in text.split(MARK).skip(1) {
        let Some((mark, content)) = part.split_once(END) else {
            continue;
        };
        let numbers = mark.split_once(':');
        let numbers = numbers.and_then(|(at, line)| Some((at.parse().ok()?, line.parse().ok()?)));
        if let Some(place) = numbers {
            all.entry(place).or_default().push(content.to_owned());
        }
    }
    all
}

/// The config with other values of one key, likely ones first.
fn others(values: &GoValue, key: &str) -> Vec<GoValue> {
    let Some(map) = values.as_map() else {
        return Vec::new();
    };
    let Some(value) = map.get(key) else {
        return Vec::new();
    };
    let with = |other: GoValue| {
        let mut changed: GoMap = map.clone();
        changed.insert(key, other);
        GoValue::Map(changed)
    };
    [
        altered(value, "8"),
        altered(value, "true"),
        altered(value, "x-other-x"),
    ]
    .into_iter()
    .filter(|other| other != value)
    .map(with)
    .collect()
}

/// Every leaf replaced: numbers by another number, booleans turned round, other text by `text`, unless
/// it looks like a number or a boolean and must stay one.
fn altered(value: &GoValue, text: &str) -> GoValue {
    match value {
        GoValue::Bool(truth) => GoValue::Bool(!truth),
        GoValue::Int(number) => GoValue::Int(number.wrapping_add(1)),
        GoValue::Uint(number) => GoValue::Uint(number.wrapping_add(1)),
        GoValue::Float(number) => GoValue::Float(number + 1.0),
        GoValue::List(items) => GoValue::List(items.iter().map(|v| altered(v, text)).collect()),
        GoValue::Map(map) => {
            let mut changed = map.clone();
            for value in changed.entries.values_mut() {
                *value = altered(value, text);
            }
            GoValue::Map(changed)
        }
        GoValue::Str(now) => GoValue::from(match &**now {
            "true" => "false".to_owned(),
            "false" => "true".to_owned(),
            now if now.parse::<f64>().is_ok() && text != "8" => format!("1{now}"),
            now if now.parse::<f64>().is_ok() => "8".into(),
            // Text that is not a number is most likely taken as text.
            _ => "x-other-x".to_owned(),
        }),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
