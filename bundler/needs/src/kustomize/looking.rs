//! What a build has besides images of containers: what looks like one, and fields that are configured to hold one.
//!
//! What comes in: the objects that are reached, patches, and what generators are given. What goes out: what was found in them, each once, up
//! to a bound. It is pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::model::ImageField;
use outhaul_control::yaml::{Node, YamlValue};

use super::{list, strings, text};
use crate::fields::{self, Kinds, Seen};
use crate::manifest::{self, is_kustomization};
use crate::possible::{Possible, in_value, possible};
use crate::pull_policy::always;

/// Most that is kept of what looks like an image.
pub(super) const MAX_FOUND: usize = 10_000;

pub(super) struct Looking<'a> {
    pub(super) fields: &'a [ImageField],
    pub(super) found: Vec<Possible>,
    /// File, place, field and image of each: a base is reached as often as it is named.
    known: BTreeSet<(String, usize, String, String)>,
    /// The first that was not kept.
    pub(super) left_out: Option<Location>,
    /// By file, place and image: a base is reached as often as it is named, and one place may stand for several containers.
    pub(super) always: BTreeMap<(String, usize, String), (String, Location)>,
    pub(super) seen: Seen,
    pub(super) kinds: Kinds,
}

impl<'a> Looking<'a> {
    pub(super) fn for_fields(fields: &'a [ImageField]) -> Self {
        Self {
            fields,
            found: Vec::new(),
            known: BTreeSet::new(),
            left_out: None,
            always: BTreeMap::new(),
            seen: Seen::new(),
            kinds: Kinds::new(),
        }
    }

    /// Looks at one document of a file.
    pub(super) fn at(&mut self, file: &Arc<SourceFile>, document: &Node) {
        match is_kustomization(file, document) {
            true => self.literals(file, document),
            false => self.document(file, document, None, None),
        }
    }

    /// Looks at an object, or at the operations of a patch for objects of `kind`; what is found is at `at` where that is another place.
    pub(super) fn document(
        &mut self,
        file: &Arc<SourceFile>,
        document: &Node,
        at: Option<&Location>,
        kind: Option<&str>,
    ) {
        if let YamlValue::Sequence(operations) = &document.value {
            for one in operations.iter().filter(|one| one.field("op").is_some()) {
                self.operation(file, one, at, kind);
            }
            return;
        }
        let mut found: Vec<(_, Location)> = Vec::new();
        manifest::images(file, document, &mut found);
        let mut pulled = Vec::new();
        always(file, document, &mut pulled);
        for (image, policy) in pulled {
            let policy = at.cloned().unwrap_or(policy);
            let key = (policy.file.name.clone(), policy.span.start, image.clone());
            self.always.entry(key).or_insert((image, policy));
        }
        fields::add_kinds(document, self.fields, &mut self.kinds);
        let more = fields::images(file, document, self.fields, &mut self.seen);
        manifest::add_images(&mut found, more);
        let known = found.iter().map(|(_, at)| at.span.start).collect();
        self.add(possible(file, document, self.fields, &known), at);
    }

    fn operation(
        &mut self,
        file: &Arc<SourceFile>,
        operation: &Node,
        at: Option<&Location>,
        kind: Option<&str>,
    ) {
        let (pointer, value) = (text(operation, "path"), operation.field("value"));
        let (Some(pointer), Some(value)) = (pointer, value) else {
            return;
        };
        let steps = fields::steps_of(pointer);
        let called = steps.last().map_or("", String::as_str);
        if matches!(called, "image" | "reference") && value.as_str().is_some() {
            return;
        }
        let mut found: Vec<(_, Location)> = Vec::new();
        manifest::images(file, value, &mut found);
        let mut known: BTreeSet<usize> = found.iter().map(|(_, at)| at.span.start).collect();
        for (number, _, nodes) in fields::in_operation((pointer, value), kind, self.fields) {
            *self.seen.entry(number).or_default() |= !nodes.is_empty();
            known.extend(nodes.iter().map(|node| node.span.start));
        }
        let mut path = String::new();
        for step in &steps {
            match step.parse::<usize>().is_ok() || step == "-" {
                true => path.push_str("[*]"),
                false => path = crate::possible::below(&path, step),
            }
        }
        self.add(in_value(file, (&path, called), value, &known), at);
    }

    /// Looks at the literals that a kustomization gives to its generators of a `ConfigMap`.
    pub(super) fn literals(&mut self, file: &Arc<SourceFile>, document: &Node) {
        for generator in list(document, "configMapGenerator") {
            for (literal, node) in strings(generator, "literals") {
                let (key, value) = literal.split_once('=').unwrap_or(("", literal));
                let value = Node {
                    value: YamlValue::String(value.to_owned()),
                    ..node.clone()
                };
                let path = "configMapGenerator[*].literals[*]";
                let none = BTreeSet::new();
                self.add(in_value(file, (path, key), &value, &none), None);
            }
        }
    }

    fn add(&mut self, found: Vec<Possible>, at: Option<&Location>) {
        for mut one in found {
            if let Some(at) = at {
                one.at = at.clone();
            }
            let (name, start) = (one.at.file.name.clone(), one.at.span.start);
            let key = (name, start, one.field.clone(), one.image.clone());
            if self.known.contains(&key) {
                continue;
            }
            if self.found.len() >= MAX_FOUND {
                self.left_out.get_or_insert(one.at);
                return;
            }
            self.known.insert(key);
            self.found.push(one);
        }
    }
}
