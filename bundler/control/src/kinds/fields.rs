//! Fields of one object: typed, with their places, and nothing overlooked.
//!
//! What comes in: [`Node`]s. What goes out: typed values with their places; findings go to the list
//! of the load. A value of the wrong type is never converted: a number where text is wanted is an
//! error that says to quote it, as Kubernetes would refuse it too.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::super::diagnostic::{Diagnostic, Diagnostics, Location, SourceFile};
use super::super::model::Spanned;
use super::super::yaml::{MapEntry, Node, YamlValue};
use super::shape::Shape;
use outhaul_kit::suggest::{did_you_mean, nearest};

/// Reads fields of one file and collects what is wrong with them.
#[derive(Debug)]
pub struct FieldReader<'a> {
    file: &'a Arc<SourceFile>,
    findings: &'a mut Diagnostics,
}

/// A map whose keys were checked.
#[derive(Debug)]
pub(super) struct Fields<'n> {
    /// What it is, for people: `ClusterType.spec`.
    pub what: String,
    /// The map.
    pub node: &'n Node,
    /// What is described of it.
    pub shape: &'static Shape,
    /// Its keys that were reported, as unknown or as written without a value.
    reported: Vec<&'n str>,
}

impl<'a> FieldReader<'a> {
    /// A reader of `file`.
    pub fn new(file: &'a Arc<SourceFile>, findings: &'a mut Diagnostics) -> Self {
        Self { file, findings }
    }

    /// The place of a value.
    pub fn location(&self, node: &Node) -> Location {
        Location::new(self.file, node.span.clone())
    }

    /// The place of these bytes.
    pub(super) fn place(&self, span: Range<usize>) -> Location {
        Location::new(self.file, span)
    }

    /// Adds a finding.
    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.findings.push(diagnostic);
    }

    /// `node` as a map that has no other keys than `shape` describes.
    pub(super) fn map<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        shape: &'static Shape,
    ) -> Option<Fields<'n>> {
        self.map_hinting(node, what, shape, |_| None)
    }

    /// The same; `hint` knows what to do about some of the keys that are not known.
    fn map_hinting<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        shape: &'static Shape,
        hint: impl Fn(&str) -> Option<String>,
    ) -> Option<Fields<'n>> {
        let known = shape.names();
        let mut reported = Vec::new();
        let YamlValue::Mapping(entries) = &node.value else {
            self.wrong_type(node, what, "a map");
            return None;
        };
        for entry in entries
            .iter()
            .filter(|entry| !known.contains(&entry.key.as_str()))
        {
            let location = Location::new(self.file, entry.key_span.clone());
            self.report(
                Diagnostic::error("unknown-field", format!("unknown field `{}`", entry.key))
                    .at(&location)
                    .label(format!("not a field of `{what}`"))
                    .help(hint(&entry.key).unwrap_or_else(|| did_you_mean(&entry.key, &known))),
            );
            reported.push(entry.key.as_str());
        }
        let empty = |entry: &&MapEntry| {
            entry.value.value == YamlValue::Null
                && known.contains(&entry.key.as_str())
                && shape.refuses_null(&entry.key)
        };
        for entry in entries.iter().filter(empty) {
            self.without_value(what, shape, entry);
            reported.push(entry.key.as_str());
        }
        Some(Fields {
            what: what.into(),
            node,
            shape,
            reported,
        })
    }

    /// A field of ours without a value: it must not count as one that was left out.
    fn without_value(&mut self, what: &str, shape: &Shape, entry: &MapEntry) {
        let key = &entry.key;
        let instead = shape.field(key).instead_of_null();
        let help = match shape.requires(key) {
            true => format!("write {instead} behind `{key}:`"),
            false => format!("write {instead} behind `{key}:`, or remove the line"),
        };
        let location = Location::new(self.file, entry.key_span.clone());
        self.report(
            Diagnostic::error("null-field", format!("`{what}.{key}` has no value"))
                .at(&location)
                .label("nothing, or `null`, is written behind it")
                .help(help),
        );
    }

    /// As [`Self::section`], with a hint about some of the keys that are not known.
    pub(super) fn section_hinting<'n>(
        &mut self,
        fields: &Fields<'n>,
        key: &str,
        hint: impl Fn(&str) -> Option<String>,
    ) -> Option<Fields<'n>> {
        let node = self.present(fields, key)?;
        self.map_hinting(
            node,
            &format!("{}.{key}", fields.what),
            fields.shape.field(key),
            hint,
        )
    }

    /// The map under `key`, which must be there.
    pub(super) fn section<'n>(&mut self, fields: &Fields<'n>, key: &str) -> Option<Fields<'n>> {
        self.section_hinting(fields, key, |_| None)
    }

    /// The text under `key`, which must be there and not empty.
    pub(super) fn text(&mut self, fields: &Fields<'_>, key: &str) -> Option<Spanned<String>> {
        let node = self.present(fields, key)?;
        let text = self.as_text(node, &format!("{}.{key}", fields.what))?;
        if text.value.trim().is_empty() {
            let location = text.location.clone();
            self.report(
                Diagnostic::error("missing-field", format!("`{}.{key}` is empty", fields.what))
                    .at(&location),
            );
            return None;
        }
        Some(text)
    }

    /// The text under `key`, when it is there.
    pub(super) fn optional_text(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
    ) -> Option<Spanned<String>> {
        let node = fields.field(key)?;
        self.as_text(node, &format!("{}.{key}", fields.what))
    }

    /// The whole number under `key`, when it is there.
    pub(super) fn integer(&mut self, fields: &Fields<'_>, key: &str) -> Option<Spanned<u32>> {
        let node = fields.field(key)?;
        let range = fields.shape.field(key).bounds();
        let what = format!("{}.{key}", fields.what);
        let YamlValue::Number(written) = &node.value else {
            self.wrong_type(node, &what, "a whole number");
            return None;
        };
        let location = self.location(node);
        match written.parse::<u32>() {
            Ok(value) if range.contains(&value) => Some(Spanned { value, location }),
            _ => {
                self.report(
                    Diagnostic::error("bad-value", format!("`{what}` cannot be {written}"))
                        .at(&location)
                        .help(format!(
                            "write a whole number from {} to {}",
                            range.start(),
                            range.end()
                        )),
                );
                None
            }
        }
    }

    /// The one of `all` whose name is the text under `key`, when that is there.
    pub(super) fn choice<T: Copy, const N: usize>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        all: [T; N],
        name: fn(T) -> &'static str,
    ) -> Option<Spanned<T>> {
        let written = self.optional_text(fields, key)?;
        let found = all.into_iter().find(|one| name(*one) == written.value);
        let Some(value) = found else {
            self.report(
                Diagnostic::error(
                    "bad-value",
                    format!("`{}.{key}` cannot be `{}`", fields.what, written.value),
                )
                .at(&written.location)
                .help(did_you_mean(&written.value, &all.map(name))),
            );
            return None;
        };
        Some(Spanned {
            value,
            location: written.location,
        })
    }

    /// The list under `key`; empty when it is not there.
    pub(super) fn list<'n>(&mut self, fields: &Fields<'n>, key: &str) -> &'n [Node] {
        match fields.field(key) {
            None => &[],
            Some(Node {
                value: YamlValue::Sequence(items),
                ..
            }) => items,
            Some(other) => {
                self.wrong_type(other, &format!("{}.{key}", fields.what), "a list");
                &[]
            }
        }
    }

    /// The texts of the list under `key`.
    pub(super) fn texts(&mut self, fields: &Fields<'_>, key: &str) -> Vec<Spanned<String>> {
        let what = format!("{}.{key}", fields.what);
        let items = self.list(fields, key);
        items
            .iter()
            .enumerate()
            .filter_map(|(at, item)| self.as_text(item, &format!("{what}[{at}]")))
            .collect()
    }

    /// The map of texts under `key`; `None` when it is not there.
    pub(super) fn text_map(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
    ) -> Option<BTreeMap<String, Spanned<String>>> {
        let node = fields.field(key)?;
        let what = format!("{}.{key}", fields.what);
        let YamlValue::Mapping(entries) = &node.value else {
            self.wrong_type(node, &what, "a map");
            return None;
        };
        let mut map = BTreeMap::new();
        for entry in entries {
            if let Some(text) = self.as_text(&entry.value, &format!("{what}.{}", entry.key)) {
                map.insert(entry.key.clone(), text);
            }
        }
        Some(map)
    }

    /// `node` as text.
    pub(super) fn as_text(&mut self, node: &Node, what: &str) -> Option<Spanned<String>> {
        match &node.value {
            YamlValue::String(text) => Some(Spanned {
                value: text.clone(),
                location: self.location(node),
            }),
            _ => {
                self.wrong_type(node, what, "text");
                None
            }
        }
    }

    fn present<'n>(&mut self, fields: &Fields<'n>, key: &str) -> Option<&'n Node> {
        if let Some(node) = fields.field(key) {
            return Some(node);
        }
        // It was misspelt or has no value, which is one mistake and reported already.
        if fields
            .reported
            .iter()
            .any(|reported| *reported == key || nearest(reported, &[key]).is_some())
        {
            return None;
        }
        let start = fields.node.span.start;
        let location = Location::new(self.file, start..start + 1);
        self.report(
            Diagnostic::error(
                "missing-field",
                format!("`{}.{key}` is missing", fields.what),
            )
            .at(&location)
            .label("in this object"),
        );
        None
    }

    fn wrong_type(&mut self, node: &Node, what: &str, wanted: &str) {
        let location = self.location(node);
        let mut diagnostic =
            Diagnostic::error("wrong-type", format!("`{what}` must be {wanted}")).at(&location);
        diagnostic = diagnostic.label(format!("this is {}", node.kind()));
        let scalar = matches!(node.value, YamlValue::Bool(_) | YamlValue::Number(_));
        if wanted == "text" && scalar {
            let written = self.file.text.get(node.span.clone()).unwrap_or_default();
            diagnostic = diagnostic.help(format!("quote it: \"{written}\""));
        }
        self.report(diagnostic);
    }
}

impl<'n> Fields<'n> {
    /// The value under `key`; `None` when it is not there or nothing.
    pub(super) fn field(&self, key: &str) -> Option<&'n Node> {
        self.node
            .field(key)
            .filter(|node| node.value != YamlValue::Null)
    }

    /// Whether a field is written without a value, which was reported then.
    pub(super) fn has_field_without_value(&self) -> bool {
        let known = self.shape.names();
        self.reported.iter().any(|key| known.contains(key))
    }
}

/// Values without their places.
pub(super) fn values(map: &BTreeMap<String, Spanned<String>>) -> BTreeMap<String, String> {
    map.iter()
        .map(|(key, spanned)| (key.clone(), spanned.value.clone()))
        .collect()
}
