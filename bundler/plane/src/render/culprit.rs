//! The name that a Jinja template gets nothing for, where an error only says that something is undefined.
//!
//! What comes in: a template, its data, and where in its text the engine stopped. What goes out: the name in
//! that action which the data does not have, with its place and the nearest one that it has; nothing where
//! every name is there. It reads what the template says of its names and evaluates nothing.

use std::ops::Range;

use minijinja::{Environment, Template, Value};

use outhaul_kit::suggest::did_you_mean;

/// A name that is not there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Culprit {
    /// Where it stands in the template's text: a byte offset.
    pub(super) at: usize,
    /// What is wrong, without the template.
    pub(super) message: String,
    /// What to do.
    pub(super) help: String,
}

pub(super) fn find(
    template: &Template<'_, '_>,
    environment: &Environment<'_>,
    context: &Value,
    fields: &[&str],
    stopped: usize,
) -> Option<Culprit> {
    let text = template.source();
    let action = action(text, stopped)?;
    let is_global = |name: &str| environment.globals().any(|(global, _)| global == name);
    let mut found: Vec<Culprit> = Vec::new();
    for name in template.undeclared_variables(true) {
        let root = name.split('.').next().unwrap_or_default();
        let Some(at) = position(text, &action, &name) else {
            continue;
        };
        if !fields.contains(&root) {
            if !is_global(root) {
                found.push(Culprit {
                    at,
                    message: format!("templates have no field `{root}`"),
                    help: did_you_mean(root, fields),
                });
            }
            continue;
        }
        found.extend(missing(context, &name, at));
    }
    found.into_iter().min_by_key(|culprit| culprit.at)
}

/// The first part of `name` that the data does not have.
fn missing(context: &Value, name: &str, at: usize) -> Option<Culprit> {
    let mut value = context.clone();
    for (depth, part) in name.split('.').enumerate() {
        let inner = value.get_attr(part).unwrap_or_default();
        if !inner.is_undefined() {
            value = inner;
            continue;
        }
        let path: Vec<&str> = name.split('.').take(depth + 1).collect();
        let known: Vec<String> = value
            .try_iter()
            .map(|keys| keys.map(|key| key.to_string()).collect())
            .unwrap_or_default();
        let help = match path.as_slice() {
            ["ConfigData", key] => format!(
                "set it in a config that applies (`outhaul explain --key {key}`), or write `{} | default(…)`; {}",
                path.join("."),
                did_you_mean(part, &known)
            ),
            _ => did_you_mean(part, &known),
        };
        return Some(Culprit {
            at,
            message: format!("`{}` is not set", path.join(".")),
            help,
        });
    }
    None
}

/// The `{{ … }}` or `{% … %}` in which the engine stopped.
fn action(text: &str, stopped: usize) -> Option<Range<usize>> {
    let before = text.get(..stopped)?;
    let start = before.rfind("{{").max(before.rfind("{%"))?;
    let rest = text.get(stopped..)?;
    let ends = ["}}", "%}"].into_iter().filter_map(|end| rest.find(end));
    let end = ends.min().unwrap_or(rest.len());
    Some(start..stopped + end)
}

/// Where `name` stands as a whole word.
fn position(text: &str, action: &Range<usize>, name: &str) -> Option<usize> {
    let within = text.get(action.clone())?;
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    within.match_indices(name).find_map(|(at, _)| {
        let before = within[..at].chars().next_back();
        let after = within[at + name.len()..].chars().next();
        let whole = !before.is_some_and(|c| part(c) || matches!(c, '"' | '\''))
            && !after.is_some_and(|c| c.is_alphanumeric() || c == '_');
        whole.then_some(action.start + at)
    })
}
