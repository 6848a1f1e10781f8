//! Images in the values of a chart.
//!
//! What comes in: values as JSON, a release's over the chart's own. What goes out: each image with the path of its
//! value, and the paths of what is switched off. It is pure, and knows shapes, not charts.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Deepest nesting that is looked at.
const MAX_DEPTH: usize = 32;

/// A place in values.
pub(crate) type Path = Vec<String>;

/// What has the shape of images.
#[derive(Debug, Default)]
pub(crate) struct Shaped {
    /// The image at each place, or why it is not known.
    pub(crate) images: Vec<(Path, Result<String, String>)>,
    /// Maps that are switched off (`enabled: false`) and hold images.
    pub(crate) off: Vec<Path>,
}

/// The images of `values`; an image without a tag is of `application`, the version that its chart installs. `skipped` are
/// the keys of charts below.
pub(crate) fn images(
    values: &Value,
    application: Option<&str>,
    skipped: &BTreeSet<&str>,
) -> Shaped {
    let mut walk = Walk {
        application,
        registry: text(values.get("global"), "imageRegistry"),
        shaped: Shaped::default(),
    };
    if let Value::Object(fields) = values {
        for (key, value) in fields {
            if key != "global" && !skipped.contains(key.as_str()) {
                walk.field(fields, key, value, &mut Vec::new());
            }
        }
    }
    walk.shaped
}

struct Walk<'a> {
    application: Option<&'a str>,
    /// The registry of all images.
    registry: Option<String>,
    shaped: Shaped,
}

impl Walk<'_> {
    fn field(&mut self, within: &Map<String, Value>, key: &str, value: &Value, path: &mut Path) {
        if path.len() >= MAX_DEPTH {
            return;
        }
        path.push(key.to_owned());
        match value {
            Value::Object(fields) => self.map(key, fields, path),
            Value::Array(items) => {
                for item in items {
                    if let Value::Object(fields) = item {
                        self.map("", fields, path);
                    }
                }
            }
            Value::String(image) if is_image(key) && !image.is_empty() => {
                let found = self.whole(within, image);
                self.shaped.images.push((path.clone(), found));
            }
            _ => {}
        }
        path.pop();
    }

    fn map(&mut self, key: &str, fields: &Map<String, Value>, path: &mut Path) {
        if fields.get("enabled") == Some(&Value::Bool(false)) {
            let before = self.shaped.images.len();
            self.fields(key, fields, path);
            if self.shaped.images.len() > before {
                self.shaped.images.truncate(before);
                self.shaped.off.push(path.clone());
            }
            return;
        }
        self.fields(key, fields, path);
    }

    fn fields(&mut self, key: &str, fields: &Map<String, Value>, path: &mut Path) {
        if let Some(found) = self.shape(key, fields) {
            self.shaped.images.push((path.clone(), found));
            return;
        }
        for (key, value) in fields {
            self.field(fields, key, value, path);
        }
    }

    /// The image that a map is, or why it is not known; `None` for one that is not an image.
    fn shape(&self, key: &str, fields: &Map<String, Value>) -> Option<Result<String, String>> {
        let own = |key: &str| fields.get(key).and_then(scalar);
        let parts = ["tag", "digest", "registry", "pullPolicy", "imagePullPolicy"];
        let has_part = parts.iter().any(|part| fields.contains_key(*part));
        let is_named = is_image(key) && has_part;
        let repository = match (own("repository"), is_named) {
            (Some(repository), _) if has_part || is_image(key) => repository,
            (None, true) => own("name").or_else(|| own("image"))?,
            _ => return None,
        };
        if repository.is_empty() || repository.contains("://") {
            return None;
        }
        let registry = self.registry.clone().or_else(|| own("registry"));
        let registry = registry.filter(|registry| !registry.is_empty());
        let name = match registry {
            Some(registry) => format!("{}/{repository}", registry.trim_end_matches('/')),
            None => repository,
        };
        let tag = own("tag").filter(|tag| !tag.is_empty());
        let digest = own("digest").or_else(|| own("sha"));
        let digest = digest.filter(|digest| !digest.is_empty());
        Some(self.joined(name, tag, digest))
    }

    fn joined(
        &self,
        name: String,
        tag: Option<String>,
        digest: Option<String>,
    ) -> Result<String, String> {
        let has_own = name.contains('@')
            || name
                .rsplit('/')
                .next()
                .is_some_and(|last| last.contains(':'));
        let tag = match (tag, has_own || digest.is_some()) {
            (Some(tag), _) => format!(":{tag}"),
            (None, true) => String::new(),
            // As `helm create` writes it: the version of what the chart installs.
            (None, false) => match self.application {
                Some(application) => format!(":{application}"),
                None => {
                    return Err(format!(
                        "names `{name}` without a tag, and the chart has no `appVersion`"
                    ));
                }
            },
        };
        let digest = digest.map(|digest| match digest.contains(':') {
            true => format!("@{digest}"),
            false => format!("@sha256:{digest}"),
        });
        let image = format!("{name}{tag}{}", digest.unwrap_or_default());
        plain(image)
    }

    /// An image that is one text, with the tag beside it where it has none.
    fn whole(&self, within: &Map<String, Value>, image: &str) -> Result<String, String> {
        let has_tag = image.contains('@')
            || image
                .rsplit('/')
                .next()
                .is_some_and(|last| last.contains(':'));
        let beside = ["tag", "imageTag"].iter();
        let beside = beside
            .filter_map(|key| within.get(*key).and_then(scalar))
            .find(|tag| !tag.is_empty());
        match beside.filter(|_| !has_tag) {
            Some(tag) => plain(format!("{image}:{tag}")),
            None => plain(image.to_owned()),
        }
    }
}

/// Whether a field is called as images are.
fn is_image(key: &str) -> bool {
    key == "image" || key.ends_with("Image")
}

fn plain(image: String) -> Result<String, String> {
    match image.contains("{{") || image.contains(char::is_whitespace) {
        true => Err(format!("is `{image}`, which only Helm can fill in")),
        false => Ok(image),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn text(value: Option<&Value>, key: &str) -> Option<String> {
    let text = value?.get(key).and_then(scalar);
    text.filter(|text| !text.is_empty())
}
