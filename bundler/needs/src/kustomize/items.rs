//! Images and sources on their way through a build.
//!
//! What comes in: an object, and the `images:` of a kustomization. What goes out: what the object names, and what it
//! is after a substitution. It reads no file.

use std::collections::BTreeSet;
use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::model::ImageField;
use outhaul_control::yaml::{Node, YamlValue};

use super::{list, text};
use crate::fields::{self, Seen};
use crate::manifest::{self, Need, Substitution};

/// The container of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Container {
    /// API group, kind, namespace and name of the object.
    object: (String, String, String, String),
    list: String,
    name: String,
}

/// An image or a source, at one place of the build.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) need: Need,
    pub(super) at: Location,
    /// Whether every Kustomize replaces it: it is an image of `containers` or `initContainers`.
    pub(super) is_listed: bool,
    /// Whose it is, so that a patch may take its place.
    pub(super) container: Option<Container>,
}

/// What a document names.
pub(super) fn of(file: &Arc<SourceFile>, document: &Node, fields: &[ImageField]) -> Vec<Item> {
    let is_list = text(document, "kind").is_some_and(|kind| kind.ends_with("List"));
    let items = list(document, "items");
    if is_list && !items.is_empty() {
        return items
            .iter()
            .flat_map(|item| of(file, item, fields))
            .collect();
    }
    if manifest::is_kustomization(file, document) {
        return Vec::new();
    }
    let mut found = Vec::new();
    manifest::images(file, document, &mut found);
    let more = fields::images(file, document, fields, &mut Seen::new());
    manifest::add_images(&mut found, more);
    manifest::sources(file, document, &mut found);
    let mut listed = Vec::new();
    if text(document, "kind") != Some("CustomResourceDefinition") {
        containers(document, &mut listed);
    }
    let own = |key: &str| text(document, key).unwrap_or_default();
    let metadata = document.field("metadata");
    let meta = |key: &str| {
        metadata
            .and_then(|node| text(node, key))
            .unwrap_or_default()
    };
    let group = own("apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    let object = [group, own("kind"), meta("namespace"), meta("name")].map(str::to_owned);
    let [group, kind, namespace, name] = object;
    let object = (group, kind, namespace, name);
    let item = |(need, at): (Need, Location)| {
        let of = listed.iter().find(|(start, ..)| *start == at.span.start);
        let container = of.map(|(_, list, name)| Container {
            object: object.clone(),
            list: list.clone(),
            name: name.clone(),
        });
        Item {
            need,
            is_listed: container.is_some(),
            at,
            container,
        }
    };
    found.into_iter().map(item).collect()
}

/// The images of `containers` and `initContainers`, by where they begin, with the list and the container's name.
fn containers(node: &Node, found: &mut Vec<(usize, String, String)>) {
    match &node.value {
        YamlValue::Mapping(entries) => {
            for entry in entries {
                if let ("containers" | "initContainers", YamlValue::Sequence(items)) =
                    (entry.key.as_str(), &entry.value.value)
                {
                    for item in items {
                        let name = text(item, "name").unwrap_or_default().to_owned();
                        if let Some(image) = item.field("image") {
                            found.push((image.span.start, entry.key.clone(), name));
                        }
                    }
                }
                containers(&entry.value, found);
            }
        }
        YamlValue::Sequence(items) => items.iter().for_each(|item| containers(item, found)),
        _ => {}
    }
}

/// Substitutions under another key than `images`.
pub(super) fn listed(document: &Node, key: &str) -> Vec<Substitution> {
    let items = list(document, key).iter();
    items.filter_map(manifest::substitution).collect()
}

/// `items` after one kustomization: each of its substitutions sees what the one before it made.
pub(super) fn replaced(mut items: Vec<Item>, substitutions: &[Substitution]) -> Vec<Item> {
    for one in substitutions {
        let mut both = Vec::new();
        for item in &mut items {
            let Need::Image(image) = &item.need else {
                continue;
            };
            let Some(image) = one.of(image).filter(|other| other != image) else {
                continue;
            };
            if !item.is_listed {
                both.push(item.clone());
            }
            // Kustomize 5.7 puts a suffix after a tag twice where two of its rules find the field.
            let is_suffix = one.tag_suffix.is_some() && one.new_tag.is_none();
            let again = one.of(&image).filter(|_| is_suffix && one.digest.is_none());
            both.extend(again.map(|image| Item {
                need: Need::Image(image),
                ..item.clone()
            }));
            item.need = Need::Image(image);
        }
        items.extend(both);
    }
    once(items)
}

/// `items` where any one of several kustomizations may be built: each has its own substitution.
pub(super) fn each(items: Vec<Item>, substitutions: &[Substitution]) -> Vec<Item> {
    let mut all = Vec::new();
    for item in items {
        let others: Vec<String> = match &item.need {
            Need::Image(image) => substitutions
                .iter()
                .filter_map(|one| one.of(image))
                .collect(),
            _ => Vec::new(),
        };
        if others.is_empty() || !item.is_listed {
            all.push(item.clone());
        }
        all.extend(others.into_iter().map(|image| Item {
            need: Need::Image(image),
            ..item.clone()
        }));
    }
    all
}

/// Each once.
pub(super) fn once(items: Vec<Item>) -> Vec<Item> {
    let mut seen = BTreeSet::new();
    let mut is_first = |item: &Item| {
        let file = Arc::as_ptr(&item.at.file) as usize;
        seen.insert((
            item.need.clone(),
            file,
            item.at.span.start,
            item.container.clone(),
        ))
    };
    items.into_iter().filter(|item| is_first(item)).collect()
}
