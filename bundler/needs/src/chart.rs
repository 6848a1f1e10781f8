//! Which images a chart needs: out of its default values, a release's own, and its templates.
//!
//! What comes in: the archive of a chart, and what a release gives it. What goes out: images, and in words each place
//! of which it is not known which image it needs. It runs no template: an image is found where values have one of the
//! shapes that charts use (`image.repository`, `tag`, `digest`, `registry`), and where a template writes it as it is.

mod archive;
mod templates;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use outhaul_control::model::ImageField;
use serde_json::Value as Json;

pub use archive::Chart;

use crate::manifest::{Need, Needs, Release, shown_image, together};
use crate::possible;
use crate::values::merged;

/// Images of a chart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChartImages {
    /// As a container runtime takes them.
    pub images: BTreeSet<String>,
    /// What is not known, each in one sentence.
    pub unknown: BTreeSet<String>,
    /// What is not known whatever the chart makes.
    outside: BTreeSet<String>,
    /// Whole names of images anywhere in values, each with its place in words.
    alike: BTreeSet<(String, String)>,
}

impl ChartImages {
    /// What the chart makes takes the place of what its templates could: of the images of its values those stay that are
    /// written in it anywhere, such as in an argument of an operator.
    /// `fields` are those of custom resources that hold images.
    pub fn as_rendered(&mut self, text: &[u8], fields: &[ImageField]) {
        let mut needs = Needs::with("rendered", text, fields);
        let possible = std::mem::take(&mut needs.possible);
        let rendered = together(vec![needs]);
        let text = String::from_utf8_lossy(text);
        self.images.retain(|image| text.contains(image.as_str()));
        for (need, _) in rendered {
            if let Need::Image(image) = need {
                self.images.insert(image);
            }
        }
        self.unknown = self.outside.clone();
        for one in possible {
            if self.images.contains(&one.image) {
                continue;
            }
            let of = one
                .object
                .map_or_else(String::new, |(_, kind)| format!(" of its `{kind}`"));
            self.unknown
                .insert(looks_like(&one.image, &format!("`{}`{of}", one.field)));
        }
    }
}

fn looks_like(image: &str, at: &str) -> String {
    let image = shown_image(image);
    format!("`{image}` in {at} looks like an image, and is not known to be one: it does not travel")
}

/// The images of a chart with the values of a release.
pub fn images(chart: &Chart, release: Option<&Release>) -> ChartImages {
    let mut found = ChartImages::default();
    let own = release.map(|release| release.values.as_str());
    let own = own.filter(|own| !own.is_empty());
    let own: Json = own
        .and_then(|own| serde_json::from_str(own).ok())
        .unwrap_or_default();
    let tests = release.is_some_and(|release| release.tests);
    of_chart(chart, &own, tests, "", &mut found);
    for what in release.map_or(&[][..], |release| &release.elsewhere) {
        let what = format!("{what} may name other images: they are not read here");
        found.outside.insert(what);
    }
    found.unknown.extend(found.outside.clone());
    for (image, at) in std::mem::take(&mut found.alike) {
        if !found.images.contains(&image) {
            found.unknown.insert(looks_like(&image, &at));
        }
    }
    found
}

/// `given` are the values that the release, or the chart above, has for this one.
fn of_chart(chart: &Chart, given: &Json, tests: bool, above: &str, found: &mut ChartImages) {
    let place = match above {
        "" => String::new(),
        above => format!("subchart `{above}`: "),
    };
    let all = merged(chart.values.clone(), given);
    for problem in &chart.problems {
        found.unknown.insert(format!("{place}{problem}"));
    }
    let below = chart.charts.iter().map(|one| (names_of(chart, one), one));
    let below: Vec<(Vec<Dependency>, &Chart)> = below.collect();
    let skipped: BTreeSet<&str> = below
        .iter()
        .flat_map(|(names, _)| names.iter().map(|one| one.key.as_str()))
        .collect();
    let shaped = values::images(&all, chart.app_version.as_deref(), &skipped);
    for (path, image) in &shaped.images {
        match image {
            Ok(image) => {
                found.images.insert(image.clone());
            }
            Err(problem) => {
                let path = path.join(".");
                found
                    .unknown
                    .insert(format!("{place}`{path}` of its values {problem}"));
            }
        }
    }
    for path in &shaped.off {
        let path = path.join(".");
        found.unknown.insert(format!(
            "{place}the images of `{path}` are left out, since `{path}.enabled` is false"
        ));
    }
    if let Json::Object(fields) = &all {
        for (key, value) in fields {
            if !skipped.contains(key.as_str()) {
                whole_names(value, &place, key, found);
            }
        }
    }
    let known = templates::images(chart, &shaped, tests);
    found.images.extend(known.images);
    let unknown = known.unknown.into_iter();
    found
        .unknown
        .extend(unknown.map(|what| format!("{place}{what}")));
    for (names, one) in below {
        for name in names.iter().filter(|name| name.is_on(&all)) {
            let mut given = all.get(&name.key).cloned().unwrap_or_default();
            if let Some(global) = all.get("global") {
                let global = BTreeMap::from([("global", global)]);
                given = merged(given, &serde_json::json!(global));
            }
            of_chart(one, &given, tests, &name.key, found);
        }
    }
}

/// Notes the whole names of images in the texts of `value`.
fn whole_names(value: &Json, place: &str, path: &str, found: &mut ChartImages) {
    match value {
        Json::String(text) => {
            let at = format!("{place}`{path}` of its values");
            let names = possible::whole_names(text).map(|name| (name.to_owned(), at.clone()));
            found.alike.extend(names);
        }
        Json::Array(items) => {
            let path = format!("{path}[*]");
            for item in items {
                whole_names(item, place, &path, found);
            }
        }
        Json::Object(fields) => {
            for (key, value) in fields {
                whole_names(value, place, &format!("{path}.{key}"), found);
            }
        }
        _ => {}
    }
}

/// How a chart names one below it.
struct Dependency {
    /// The key of its values.
    key: String,
    condition: Option<String>,
}

impl Dependency {
    /// Whether its condition holds: the first of its paths that values have.
    fn is_on(&self, all: &Json) -> bool {
        let paths = self.condition.as_deref().unwrap_or_default();
        let mut paths = paths.split(',').map(str::trim);
        let found = paths.find_map(|path| {
            let mut at = all;
            for key in path.split('.') {
                at = at.get(key)?;
            }
            at.as_bool()
        });
        found.unwrap_or(true)
    }
}

fn names_of(chart: &Chart, below: &Chart) -> Vec<Dependency> {
    let listed = chart.dependencies.iter();
    let listed: Vec<Dependency> = listed
        .filter(|one| one.name == below.name)
        .map(|one| Dependency {
            key: one.alias.clone().unwrap_or_else(|| one.name.clone()),
            condition: one.condition.clone(),
        })
        .collect();
    match listed.is_empty() {
        false => listed,
        true => vec![Dependency {
            key: below.name.clone(),
            condition: None,
        }],
    }
}

#[cfg(test)]
mod tests;
