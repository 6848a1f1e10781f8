//! Images in fields of custom resources that a delivery policy names.
//!
//! What comes in: an object and the fields. What goes out: the image at each of them, with its place, which fields no object of
//! their kind has, and which kinds there are. It is pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::model::{FieldStep, ImageField};
use outhaul_control::yaml::{Node, YamlValue};

/// By the place of a field in its list: whether any object of its kind has it.
pub(crate) type Seen = BTreeMap<usize, bool>;

/// API version and kind of the objects that were read for fields.
pub(crate) type Kinds = BTreeSet<(String, String)>;

/// Adds the kinds of `document`, where someone asks for fields: a kind that is misspelt there is compared with them.
pub(crate) fn add_kinds(document: &Node, fields: &[ImageField], kinds: &mut Kinds) {
    if fields.is_empty() {
        return;
    }
    for object in objects(document) {
        let own = |key: &str| object.field(key).and_then(Node::as_str).map(str::to_owned);
        kinds.extend(own("apiVersion").zip(own("kind")));
    }
}

/// The object, or the objects of a list of some kind.
pub(crate) fn objects(document: &Node) -> Vec<&Node> {
    let kind = document.field("kind").and_then(Node::as_str);
    let items = document.field("items").map(|node| &node.value);
    match (kind.is_some_and(|kind| kind.ends_with("List")), items) {
        (true, Some(YamlValue::Sequence(items))) if !items.is_empty() => {
            items.iter().flat_map(objects).collect()
        }
        _ => vec![document],
    }
}

/// The images of `document` in these fields, each once; notes which of the fields it has.
pub(crate) fn images(
    file: &Arc<SourceFile>,
    document: &Node,
    fields: &[ImageField],
    seen: &mut Seen,
) -> Vec<(String, Location)> {
    let mut found = Vec::new();
    for object in objects(document) {
        for (number, field, nodes) in named(object, fields) {
            let images = nodes.iter().filter_map(|node| {
                let at = Location::new(file, node.span.clone());
                Some((image(node)?, at))
            });
            let images: Vec<_> = images.collect();
            *seen.entry(number).or_default() |= match field.ignored {
                true => !nodes.is_empty(),
                false => !images.is_empty(),
            };
            if !field.ignored {
                found.extend(images);
            }
        }
    }
    found
}

/// Each field that objects of this kind have, with its number and the values at its path.
pub(crate) fn named<'n, 'f>(
    object: &'n Node,
    fields: &'f [ImageField],
) -> Vec<(usize, &'f ImageField, Vec<&'n Node>)> {
    let own = |key: &str| object.field(key).and_then(Node::as_str);
    let (Some(api_version), Some(kind)) = (own("apiVersion"), own("kind")) else {
        return Vec::new();
    };
    let fields = fields.iter().enumerate();
    fields
        .filter(|(_, field)| field.is_of(api_version, kind))
        .map(|(number, field)| (number, field, at(object, &field.path)))
        .collect()
}

/// Each field of objects of `kind`, or of any where it is not known, in which an operation of JSON Patch at `pointer` sets something:
/// with its number and the parts of `value` at its path.
pub(crate) fn in_operation<'n, 'f>(
    (pointer, value): (&str, &'n Node),
    kind: Option<&str>,
    fields: &'f [ImageField],
) -> Vec<(usize, &'f ImageField, Vec<&'n Node>)> {
    let own = steps_of(pointer);
    let named = fields.iter().enumerate().filter_map(|(number, field)| {
        let is_of = kind.is_none_or(|kind| kind == field.kind);
        let (above, below) = field
            .path
            .split_at_checked(own.len())
            .filter(|_| is_of && !own.is_empty())?;
        let mut steps = above.iter().zip(&own);
        let is_at = steps.all(|(step, own)| match step {
            FieldStep::Key(key) => key == own,
            FieldStep::Each => true,
        });
        is_at.then(|| (number, field, at(value, below)))
    });
    named.collect()
}

/// The steps of a JSON pointer.
pub(crate) fn steps_of(pointer: &str) -> Vec<String> {
    let steps = pointer.split('/').skip(1);
    steps
        .map(|step| step.replace("~1", "/").replace("~0", "~"))
        .collect()
}

fn at<'n>(object: &'n Node, path: &[FieldStep]) -> Vec<&'n Node> {
    let mut nodes = vec![object];
    for step in path {
        nodes = nodes
            .into_iter()
            .flat_map(|node| match (step, &node.value) {
                (FieldStep::Key(key), YamlValue::Mapping(_)) => {
                    node.field(key).into_iter().collect::<Vec<_>>()
                }
                (FieldStep::Each, YamlValue::Sequence(items)) => items.iter().collect(),
                (FieldStep::Each, YamlValue::Mapping(entries)) => {
                    entries.iter().map(|entry| &entry.value).collect()
                }
                _ => Vec::new(),
            })
            .collect();
    }
    nodes
}

/// A value as an image: a text, or a map of its parts.
pub(crate) fn image(node: &Node) -> Option<String> {
    match node.as_str() {
        Some(text) => (!text.is_empty()).then(|| text.to_owned()),
        None => composed(node),
    }
}

/// The image that a map with `repository` is.
pub(crate) fn composed(node: &Node) -> Option<String> {
    let own = |key: &str| match node.field(key).map(|node| &node.value) {
        // A tag without quotes is one, too.
        Some(YamlValue::String(text) | YamlValue::Number(text)) if !text.is_empty() => {
            Some(text.as_str())
        }
        _ => None,
    };
    let repository = own("repository")?;
    let registry = own("registry").map_or(String::new(), |registry| {
        format!("{}/", registry.trim_end_matches('/'))
    });
    let tag = own("tag").map_or(String::new(), |tag| format!(":{tag}"));
    let digest = own("digest").map_or(String::new(), |digest| format!("@{digest}"));
    Some(format!("{registry}{repository}{tag}{digest}"))
}
