//! Patches, charts and plugins of a kustomization, as far as images go.
//!
//! What comes in: a kustomization, and the items that it patches. What goes out: the images that patches set, in the
//! place of those of the same container where that is certain, else beside them; and what runs a program or fetches a
//! chart. It applies no patch to an object.

use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::model::ImageField;
use outhaul_control::yaml::{self, Node, YamlValue};

use super::items::{self, Item};
use super::looking::Looking;
use super::{Means, Walk, files, list, strings, text};
use crate::manifest::{self, Need, Substitution};
use crate::{Unread, fields};

/// Transformers of Kustomize itself that touch no image.
const HARMLESS: [&str; 12] = [
    "AnnotationsTransformer",
    "ConfigMapGenerator",
    "HashTransformer",
    "IAMPolicyGenerator",
    "LabelTransformer",
    "NamespaceTransformer",
    "PrefixSuffixTransformer",
    "PrefixTransformer",
    "ReplicaCountTransformer",
    "SecretGenerator",
    "SuffixTransformer",
    "ValueAddTransformer",
];

/// One patch.
pub(super) struct Patch {
    file: Arc<SourceFile>,
    documents: Vec<Node>,
    /// Where the text is written, when it is not a separate file.
    at: Option<Location>,
    /// Whether it says what it patches, so that its own name is not it.
    is_targeted: bool,
    /// The kind that it patches, where it says one.
    kind: Option<String>,
}

impl Patch {
    /// A patch that is written in another file, at `at`.
    pub(super) fn inline(patch: &str, at: &Location, is_targeted: bool) -> Result<Self, String> {
        let file = Arc::new(SourceFile {
            // Its own name would make it a kustomization.
            name: format!("{} (inline)", at.file.name),
            text: patch.to_owned(),
        });
        let documents = yaml::parse(&file).map_err(|finding| finding.message)?;
        Ok(Self {
            file,
            documents,
            at: Some(at.clone()),
            is_targeted,
            kind: None,
        })
    }

    /// The same, for what `target` selects.
    fn for_target(mut self, target: Option<&Node>) -> Self {
        let kind = target.and_then(|target| text(target, "kind"));
        // It may be a regular expression.
        let kind = kind.filter(|kind| kind.chars().all(char::is_alphanumeric));
        self.kind = kind.map(str::to_owned);
        self
    }

    /// Looks for what it sets besides images of containers.
    fn look(&self, looking: &mut Looking<'_>) {
        for document in &self.documents {
            let (at, kind) = (self.at.as_ref(), self.kind.as_deref());
            looking.document(&self.file, document, at, kind);
        }
    }

    /// Adds the images that it sets.
    pub(super) fn apply(&self, items: &mut Vec<Item>, fields: &[ImageField]) {
        for document in &self.documents {
            let mut own = match &document.value {
                YamlValue::Sequence(operations) => operations
                    .iter()
                    .flat_map(|one| self.operation(one, fields))
                    .collect(),
                _ => items::of(&self.file, document, fields),
            };
            for item in &mut own {
                if let Some(at) = &self.at {
                    item.at = at.clone();
                }
                if self.is_targeted {
                    item.container = None;
                }
            }
            items.retain(|item| {
                let is_same = |other: &Item| other.container == item.container;
                item.container.is_none() || !own.iter().any(is_same)
            });
            items.extend(own);
        }
    }

    /// What an operation of JSON Patch sets; what was there before may stay elsewhere.
    fn operation(&self, operation: &Node, fields: &[ImageField]) -> Vec<Item> {
        let path = text(operation, "path").unwrap_or_default();
        let Some(value) = operation.field("value") else {
            return Vec::new();
        };
        let is_listed = path.contains("/containers") || path.contains("/initContainers");
        let last = path.rsplit('/').next().unwrap_or_default();
        if let (Some(image), "image" | "reference") = (value.as_str(), last) {
            return vec![Item {
                need: Need::Image(image.to_owned()),
                at: Location::new(&self.file, value.span.clone()),
                is_listed,
                container: None,
            }];
        }
        let mut found = Vec::new();
        manifest::images(&self.file, value, &mut found);
        let kind = self.kind.as_deref();
        let in_fields = fields::in_operation((path, value), kind, fields).into_iter();
        let in_fields = in_fields.filter(|(_, field, _)| !field.ignored);
        let nodes = in_fields.flat_map(|(.., nodes)| nodes);
        let more = nodes.filter_map(|node| {
            let at = Location::new(&self.file, node.span.clone());
            Some((fields::image(node)?, at))
        });
        manifest::add_images(&mut found, more.collect());
        let inner = items::of(&self.file, value, &[]);
        let is_inner = |at: &Location| {
            let same = inner.iter().find(|item| item.at.span == at.span);
            same.is_some_and(|item| item.is_listed)
        };
        let item = |(need, at): (Need, Location)| Item {
            is_listed: is_listed || is_inner(&at),
            need,
            at,
            container: None,
        };
        found.into_iter().map(item).collect()
    }
}

impl Walk<'_> {
    /// The patches of a kustomization, in the order in which they are applied.
    pub(super) fn patches(
        &mut self,
        folder: &str,
        file: &Arc<SourceFile>,
        document: &Node,
    ) -> Vec<Patch> {
        let mut patches = Vec::new();
        let here = |node: &Node| Location::new(file, node.span.clone());
        for (entry, node) in strings(document, "patchesStrategicMerge") {
            patches.extend(self.either(folder, entry, &here(node)));
        }
        for key in ["patches", "patchesJson6902"] {
            for node in list(document, key) {
                let is_targeted = node.field("target").is_some();
                if let Some(at) = node.field("path")
                    && let Some(entry) = at.as_str()
                {
                    let patch = self.patch_file(folder, entry, &here(at), is_targeted);
                    patches.extend(patch.map(|patch| patch.for_target(node.field("target"))));
                }
                if let Some(at) = node.field("patch")
                    && let Some(patch) = at.as_str()
                {
                    match Patch::inline(patch, &here(at), is_targeted) {
                        Ok(patch) => patches.push(patch.for_target(node.field("target"))),
                        Err(why) => self.unread(&here(at), &why),
                    }
                }
            }
        }
        for patch in &patches {
            patch.look(&mut self.looking);
        }
        for node in list(document, "replacements") {
            let (mut replacements, mut at) = (vec![node.clone()], here(node));
            if let Some(path) = node.field("path")
                && let Some(entry) = path.as_str()
            {
                let Some((file, documents)) = self.named(folder, entry, &here(path)) else {
                    continue;
                };
                replacements = documents;
                at = Location::new(&file, 0..1);
            }
            if replacements.iter().any(sets_image) {
                let message =
                    "a replacement writes to `image`, and with what is known only when it is built"
                        .to_owned();
                let help = "write the image in `images:` or in a patch, so that it travels";
                self.gap(Means::Images, at, message, help);
            }
        }
        patches
    }

    /// A file, or a patch itself.
    fn either(&mut self, folder: &str, entry: &str, at: &Location) -> Option<Patch> {
        let is_file = files::join(folder, entry)
            .and_then(|path| self.files.file(&path).ok().flatten())
            .is_some();
        let is_text = entry.contains('\n') || entry.contains(": ");
        match (is_file, is_text) {
            (false, true) => match Patch::inline(entry, at, false) {
                Ok(patch) => Some(patch),
                Err(why) => {
                    self.unread(at, &why);
                    None
                }
            },
            _ => self.patch_file(folder, entry, at, false),
        }
    }

    fn patch_file(
        &mut self,
        folder: &str,
        entry: &str,
        at: &Location,
        is_targeted: bool,
    ) -> Option<Patch> {
        if entry.contains("://") {
            self.remote(entry, at);
            return None;
        }
        let (file, documents) = self.named(folder, entry, at)?;
        Some(Patch {
            file,
            documents,
            at: None,
            is_targeted,
            kind: None,
        })
    }

    /// Charts that Kustomize fetches.
    pub(super) fn charts(&mut self, file: &Arc<SourceFile>, document: &Node) {
        for key in ["helmCharts", "helmChartInflationGenerator"] {
            for node in list(document, key) {
                let name = text(node, "name").or_else(|| text(node, "chartName"));
                self.chart(name.unwrap_or("?"), Location::new(file, node.span.clone()));
            }
        }
    }

    fn chart(&mut self, name: &str, at: Location) {
        let message = format!("no bundle brings what the chart `{name}` makes, or its images");
        let help = "commit what `helm template` makes of it, and name that in `resources:`";
        self.gap(Means::Unreachable, at, message, help);
    }

    /// What a generator or a transformer makes of `items`.
    pub(super) fn plugin(
        &mut self,
        folder: &str,
        entry: &str,
        at: &Location,
        mut items: Vec<Item>,
    ) -> Vec<Item> {
        let mut all = Vec::new();
        if entry.contains('\n') {
            match Patch::inline(entry, at, true) {
                Ok(inline) => all.push((inline.file, inline.documents, Some(at.clone()))),
                Err(why) => self.unread(at, &why),
            }
        } else if files::join(folder, entry).is_some_and(|path| self.kustomization(&path).is_some())
        {
            let message = format!("the plugins that `{entry}` builds are not searched");
            let help =
                "name the files of plugins themselves, so that the images that they set travel";
            self.gap(Means::Images, at.clone(), message, help);
            items.extend(self.resource(folder, entry, at));
        } else if let Some((file, documents)) = self.named(folder, entry, at) {
            all.push((file, documents, None));
        }
        for (file, documents, inline) in all {
            for document in documents {
                let at = inline.clone();
                let at = at.unwrap_or_else(|| {
                    Location::new(&file, document.span.start..document.span.start + 1)
                });
                self.one_plugin(folder, &document, &at, &mut items);
            }
        }
        items
    }

    fn one_plugin(&mut self, folder: &str, plugin: &Node, at: &Location, items: &mut Vec<Item>) {
        let kind = text(plugin, "kind").unwrap_or_default();
        let is_builtin = text(plugin, "apiVersion") == Some("builtin");
        match kind {
            _ if !is_builtin => {
                let message = format!(
                    "`{kind}` is a separate program, and the images that it writes are not known here"
                );
                let help = "commit what it makes, and name that in `resources:`: a site may not have the program, \
                            and its images do not travel";
                self.gap(Means::Unreachable, at.clone(), message, help);
            }
            "HelmChartInflationGenerator" => {
                self.chart(text(plugin, "name").unwrap_or("?"), at.clone());
            }
            "ImageTagTransformer" => {
                let one = plugin.field("imageTag").and_then(manifest::substitution);
                let one: Vec<Substitution> = one.into_iter().collect();
                // It may say itself which fields it replaces.
                items.extend(items::replaced(items.clone(), &one));
            }
            "PatchTransformer" | "PatchJson6902Transformer" | "PatchStrategicMergeTransformer" => {
                let mut patches = Vec::new();
                let mut paths: Vec<&str> = text(plugin, "path").into_iter().collect();
                paths.extend(strings(plugin, "paths").into_iter().map(|(path, _)| path));
                for path in paths {
                    patches.extend(self.patch_file(folder, path, at, true));
                }
                for key in ["patch", "patches", "jsonOp"] {
                    let Some(patch) = text(plugin, key) else {
                        continue;
                    };
                    match Patch::inline(patch, at, true) {
                        Ok(patch) => patches.push(patch),
                        Err(why) => self.unread(at, &why),
                    }
                }
                for patch in patches {
                    patch.apply(items, self.looking.fields);
                }
            }
            kind if HARMLESS.contains(&kind) => {}
            kind => {
                let message = format!("what `{kind}` makes of images is not known here");
                let help = "write images in `images:` or in a patch, so that they travel";
                self.gap(Means::Images, at.clone(), message, help);
            }
        }
    }

    /// What the `fleet.yaml` files of Rancher Fleet build besides.
    pub(super) fn fleet(&mut self, below: &[(String, Arc<SourceFile>)]) -> Vec<Item> {
        let mut found = Vec::new();
        let is_fleet = |path: &str| matches!(files::parent(path).1, "fleet.yaml" | "fleet.yml");
        for (path, file) in below.iter().filter(|(path, _)| is_fleet(path)) {
            let folder = files::parent(path).0;
            let documents = match yaml::parse(file) {
                Ok(documents) => documents,
                // A template of a chart is no YAML before it is rendered.
                Err(_) if self.chart_of(path).is_some() && file.text.contains("{{") => continue,
                Err(finding) => {
                    let Unread { message, at } = Unread::syntax(file, *finding);
                    let help = "fix it: Rancher Fleet does not read it either, and deploys nothing from this folder";
                    self.gap(Means::Broken, at, message, help);
                    continue;
                }
            };
            for document in documents {
                if !matches!(document.value, YamlValue::Mapping(_) | YamlValue::Null) {
                    let at = Location::new(file, document.span.clone());
                    let message = format!(
                        "this is {}, and Rancher Fleet reads a map in `fleet.yaml`: it deploys nothing from this folder",
                        document.kind()
                    );
                    let help = "write its fields, such as `helm:`; where another program reads this file, there is nothing to do";
                    self.gap(Means::Nothing, at, message, help);
                    continue;
                }
                let targets = list(&document, "targetCustomizations").iter();
                for part in std::iter::once(&document).chain(targets) {
                    if let Some(at) = part.field("kustomize").and_then(|node| node.field("dir"))
                        && let Some(entry) = at.as_str()
                    {
                        let at = Location::new(file, at.span.clone());
                        found.extend(self.resource(folder, entry, &at));
                    }
                    let Some(helm) = part.field("helm") else {
                        continue;
                    };
                    let chart = text(helm, "chart").unwrap_or_default();
                    if text(helm, "repo").is_some() || chart.contains("://") {
                        self.chart(chart, Location::new(file, helm.span.clone()));
                    }
                }
            }
        }
        found
    }
}

/// Whether a replacement writes to an image.
fn sets_image(node: &Node) -> bool {
    match &node.value {
        YamlValue::Mapping(entries) => entries.iter().any(|entry| match entry.key.as_str() {
            "source" => false,
            _ => sets_image(&entry.value),
        }),
        YamlValue::Sequence(items) => items.iter().any(sets_image),
        YamlValue::String(path) => path.contains(".image") || path.contains("ontainers"),
        _ => false,
    }
}
