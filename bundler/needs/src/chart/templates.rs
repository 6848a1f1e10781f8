//! Images in the templates of a chart.
//!
//! What comes in: the texts of templates, and the images that values have. What goes out: the images that a template writes
//! as they are, and each line with an image of which values have no known one. It fills in no template.

use std::collections::{BTreeMap, BTreeSet};

use super::archive::Chart;
use super::values::Shaped;

/// Most names of templates that one line is followed through.
const MAX_FOLLOWED: usize = 8;

/// What templates have.
#[derive(Debug, Default)]
pub(super) struct InTemplates {
    pub(super) images: BTreeSet<String>,
    pub(super) unknown: BTreeSet<String>,
}

/// The images in the templates of `chart`, of which `shaped` are those in values. Those of its tests count where
/// `tests` are run.
pub(super) fn images(chart: &Chart, shaped: &Shaped, tests: bool) -> InTemplates {
    let mut found = InTemplates::default();
    let defined = defined(chart);
    for (path, text) in &chart.templates {
        if path.starts_with("templates/tests/") && !tests {
            continue;
        }
        for (line, number) in text.lines().zip(1..) {
            let Some(value) = image(line) else { continue };
            if !value.contains("{{") {
                let value = value.trim_matches(['"', '\'']);
                if !value.is_empty() && !value.contains([' ', '{', '$']) {
                    found.images.insert(value.to_owned());
                }
                continue;
            }
            let mut paths = BTreeSet::new();
            follow(value, &defined, &mut paths, 0);
            if !paths.iter().any(|path| is_known(path, shaped)) {
                let value: String = value.chars().take(120).collect();
                found.unknown.insert(format!(
                    "which image `{value}` is ({path}, line {number}) is not known from its values"
                ));
            }
        }
    }
    found
}

/// The value of `image:` in a line, without a comment.
fn image(line: &str) -> Option<&str> {
    let line = line.trim().trim_start_matches("- ").trim_start();
    let value = line.strip_prefix("image:")?.trim();
    let value = value.split(" #").next().unwrap_or(value).trim();
    (!value.is_empty() && !value.starts_with('#')).then_some(value)
}

/// What `define` names, each with its text.
fn defined(chart: &Chart) -> BTreeMap<&str, &str> {
    let mut all = BTreeMap::new();
    for text in chart.templates.values() {
        let mut parts = text.split("define \"");
        parts.next();
        for part in parts {
            if let Some((name, body)) = part.split_once('"') {
                all.insert(name, body);
            }
        }
    }
    all
}

/// The paths of values that an expression names, itself or through what it includes.
fn follow<'a>(
    text: &'a str,
    defined: &BTreeMap<&'a str, &'a str>,
    paths: &mut BTreeSet<&'a str>,
    depth: usize,
) {
    let path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '-';
    for part in text.split(".Values.").skip(1) {
        let end = part.find(|c| !path(c)).unwrap_or(part.len());
        paths.insert(part[..end].trim_end_matches(['.', '-']));
    }
    if depth >= MAX_FOLLOWED {
        return;
    }
    for word in ["include \"", "template \""] {
        for part in text.split(word).skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            if let Some(body) = defined.get(name) {
                follow(body, defined, paths, depth + 1);
            }
        }
    }
}

/// Whether values have an image at a path, below it, or above it; or what it names is switched off.
fn is_known(path: &str, shaped: &Shaped) -> bool {
    let wanted: Vec<&str> = path.split('.').collect();
    let meets = |place: &Vec<String>| {
        let mut both = place.iter().zip(&wanted);
        both.all(|(one, other)| one == other)
    };
    let found = shaped.images.iter();
    let mut found = found.map(|(place, _)| place).chain(&shaped.off);
    found.any(meets)
}
