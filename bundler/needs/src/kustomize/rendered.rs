//! What rendered objects of Flux, Argo CD and Fleet add to a build: images, patches, components, variables.
//!
//! What comes in: the rendered files of an assignment. What goes out: what each such object has its reconciler
//! build. It reads no repository.

use std::collections::BTreeMap;
use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::yaml::{self, Node, YamlValue};
use outhaul_git::source::normal_url;

use super::{list, strings, text};
use crate::manifest::{Substitution, substitution};
use crate::name::parts;

/// What a reconciler is asked to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The repository, where the rendered files say which.
    pub url: Option<String>,
    /// The folder in it.
    pub path: Option<String>,
    pub(super) images: Vec<Substitution>,
    /// Each with whether it says what it patches.
    pub(super) patches: Vec<(String, Location, bool)>,
    pub(super) components: Vec<(String, Location)>,
    pub(super) variables: Option<Variables>,
    /// Where it is written.
    pub(super) at: Location,
}

/// What is filled in after a build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Variables {
    values: BTreeMap<String, String>,
    /// Whether there are others, which only the site knows.
    has_others: bool,
}

impl Build {
    /// Whether it builds what is in the repository at `url`, as far as is known.
    pub fn is_of(&self, url: &str) -> bool {
        let own = self.url.as_deref();
        own.is_none_or(|own| normal_url(own) == normal_url(url))
    }
}

impl Variables {
    /// `text` with its variables filled in, when that can be, and whether that is certain.
    pub(super) fn fill(&self, text: &str) -> (Option<String>, bool) {
        let mut filled = String::new();
        let mut rest = text;
        let mut is_certain = true;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                filled.push_str(before);
                filled.push_str("${");
                rest = after;
                continue;
            }
            filled.push_str(before);
            let Some((inner, after)) = after.split_once('}') else {
                return (None, false);
            };
            rest = after;
            let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, how) = inner.split_at(end.unwrap_or(inner.len()));
            let default = [":=", ":-", "=", "-"];
            let default = default.iter().find_map(|how_so| how.strip_prefix(how_so));
            match (self.values.get(name), default) {
                (Some(value), _) if how.is_empty() || default.is_some() => filled.push_str(value),
                (None, Some(default)) => {
                    filled.push_str(default);
                    is_certain &= !self.has_others;
                }
                (None, None) if how.is_empty() && !self.has_others => {}
                _ => return (None, false),
            }
        }
        filled.push_str(rest);
        (Some(filled), is_certain)
    }
}

/// What `files` have reconcilers build.
pub fn builds<'a>(files: impl Iterator<Item = (&'a String, &'a Vec<u8>)>) -> Vec<Build> {
    let mut documents = Vec::new();
    for (name, bytes) in files {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let words = ["fluxcd", "argoproj", "fleet.cattle"];
        if !words.iter().any(|word| text.contains(word)) && !text.contains("ConfigMap") {
            continue;
        }
        let name = name.clone();
        let file = Arc::new(SourceFile { name, text });
        let parsed = yaml::parse(&file).unwrap_or_default();
        documents.extend(parsed.into_iter().map(|one| (Arc::clone(&file), one)));
    }
    let mut all: Vec<Build> = Vec::new();
    for (file, document) in &documents {
        let version = text(document, "apiVersion").unwrap_or_default();
        let group = version.split('/').next().unwrap_or_default();
        let kind = text(document, "kind").unwrap_or_default();
        let Some(spec) = document.field("spec") else {
            continue;
        };
        match (group, kind) {
            ("kustomize.toolkit.fluxcd.io", "Kustomization") => {
                all.extend(flux(file, spec, &documents));
            }
            ("argoproj.io", "Application") => argo_cd(file, spec, &mut all),
            ("argoproj.io", "ApplicationSet") => {
                let spec = spec.field("template").and_then(|node| node.field("spec"));
                if let Some(spec) = spec {
                    argo_cd(file, spec, &mut all);
                }
            }
            ("fleet.cattle.io", "GitRepo") => {
                let url = text(spec, "repo").map(str::to_owned);
                let paths = strings(spec, "paths").into_iter();
                all.extend(paths.map(|(path, node)| {
                    let at = Location::new(file, node.span.clone());
                    bare(url.clone(), Some(path), at)
                }));
            }
            _ => {}
        }
    }
    all.dedup();
    all
}

/// What of `builds` decides what is followed, so that the same is followed once.
pub fn alike(builds: &[Build]) -> Vec<String> {
    let one = |build: &Build| {
        let patches = build
            .patches
            .iter()
            .map(|(patch, _, targeted)| (patch, targeted));
        let components = build.components.iter().map(|(entry, _)| entry);
        let (patches, components) = (patches.collect::<Vec<_>>(), components.collect::<Vec<_>>());
        let said = (
            &build.url,
            &build.path,
            &build.images,
            patches,
            components,
            &build.variables,
        );
        format!("{said:?}")
    };
    builds.iter().map(one).collect()
}

fn bare(url: Option<String>, path: Option<&str>, at: Location) -> Build {
    Build {
        url,
        path: path.map(str::to_owned),
        images: Vec::new(),
        patches: Vec::new(),
        components: Vec::new(),
        variables: None,
        at,
    }
}

/// `None` for what is not a git repository.
fn flux(
    file: &Arc<SourceFile>,
    spec: &Node,
    documents: &[(Arc<SourceFile>, Node)],
) -> Option<Build> {
    let source = spec.field("sourceRef");
    let kind = source.and_then(|node| text(node, "kind"));
    if kind.is_some_and(|kind| kind != "GitRepository") {
        return None;
    }
    let name = source.and_then(|node| text(node, "name"));
    let is_named = |document: &&(Arc<SourceFile>, Node), kind: &str, name: Option<&str>| {
        let own = document
            .1
            .field("metadata")
            .and_then(|node| text(node, "name"));
        text(&document.1, "kind") == Some(kind) && own == name
    };
    let repository = documents
        .iter()
        .find(|one| is_named(one, "GitRepository", name));
    let url = repository
        .and_then(|(_, one)| one.field("spec"))
        .and_then(|one| text(one, "url"));
    let mut build = bare(
        url.map(str::to_owned),
        text(spec, "path"),
        Location::new(file, spec.span.clone()),
    );
    extend(file, spec, &mut build);
    build.images = list(spec, "images")
        .iter()
        .filter_map(substitution)
        .collect();
    if let Some(after) = spec.field("postBuild") {
        let mut variables = Variables::default();
        for from in list(after, "substituteFrom") {
            let name = text(from, "name");
            let map = documents
                .iter()
                .find(|one| is_named(one, "ConfigMap", name));
            match map.filter(|_| text(from, "kind") == Some("ConfigMap")) {
                Some((_, map)) => values(map.field("data"), &mut variables.values),
                None => variables.has_others = true,
            }
        }
        values(after.field("substitute"), &mut variables.values);
        build.variables = Some(variables);
    }
    Some(build)
}

fn values(node: Option<&Node>, all: &mut BTreeMap<String, String>) {
    let Some(YamlValue::Mapping(entries)) = node.map(|node| &node.value) else {
        return;
    };
    for entry in entries {
        let value = match &entry.value.value {
            YamlValue::String(text) | YamlValue::Number(text) => text.clone(),
            YamlValue::Bool(value) => value.to_string(),
            _ => continue,
        };
        all.insert(entry.key.clone(), value);
    }
}

fn argo_cd(file: &Arc<SourceFile>, spec: &Node, all: &mut Vec<Build>) {
    for source in spec
        .field("source")
        .into_iter()
        .chain(list(spec, "sources"))
    {
        if text(source, "chart").is_some() {
            continue;
        }
        let mut build = bare(
            text(source, "repoURL").map(str::to_owned),
            text(source, "path").filter(|path| !path.contains("{{")),
            Location::new(file, source.span.clone()),
        );
        if let Some(kustomize) = source.field("kustomize") {
            extend(file, kustomize, &mut build);
            let images = strings(kustomize, "images").into_iter();
            build.images = images.map(|(image, _)| set_image(image)).collect();
        }
        all.push(build);
    }
}

/// `name=new:tag`, or `name:tag` alone.
fn set_image(image: &str) -> Substitution {
    let (old, new) = match image.split_once('=') {
        Some((old, new)) => (Some(old), new),
        None => (None, image),
    };
    let (name, tag, digest) = parts(new);
    Substitution {
        name: old.unwrap_or(name).to_owned(),
        new_name: old.map(|_| name.to_owned()),
        new_tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
        tag_suffix: None,
    }
}

fn extend(file: &Arc<SourceFile>, node: &Node, build: &mut Build) {
    let here = |node: &Node| Location::new(file, node.span.clone());
    for (entry, node) in strings(node, "components") {
        build.components.push((entry.to_owned(), here(node)));
    }
    for key in ["patches", "patchesStrategicMerge", "patchesJson6902"] {
        for one in list(node, key) {
            let is_targeted = one.field("target").is_some();
            let at = one.field("patch").unwrap_or(one);
            match at.as_str() {
                Some(patch) => build
                    .patches
                    .push((patch.to_owned(), here(at), is_targeted)),
                // Flux lets patches of these two kinds be written as they are.
                None => {
                    let text = file.text.get(at.span.clone()).unwrap_or_default();
                    build
                        .patches
                        .push((dedented(file, at, text), here(at), is_targeted));
                }
            }
        }
    }
}

/// A part of a file as a separate file: its first line is as far in as the others.
fn dedented(file: &SourceFile, node: &Node, text: &str) -> String {
    let before = file.text.get(..node.span.start).unwrap_or_default();
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count();
    format!("{}{text}", " ".repeat(column))
}
