//! What manifests need from a network: images, and the sources that Flux, Argo CD and Fleet fetch.
//!
//! What comes in: the text of a file, rendered or a workload's own. What goes out: each image of a container and
//! each source of a reconciler with its place, and what Kustomize puts in the place of an image. It is pure: it
//! reads no file and opens nothing. What should be YAML by its name and is not is stated.

use std::collections::BTreeSet;
use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::model::ImageField;
use outhaul_control::yaml::{self, Node, YamlValue};
use outhaul_kit::commit_id::typed_commit_id;

use crate::fields::{self, Kinds, Seen};
use crate::name::parts;
use crate::possible::{self, Possible};
use crate::pull_policy::always;
use crate::unread::{NAMES, Unread, is_manifest, is_text};

pub(crate) mod helm;

pub use helm::{Helm, Release};

/// What of a git repository a reconciler asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// Its default branch.
    Head,
    /// A branch.
    Branch(String),
    /// A tag.
    Tag(String),
    /// A branch or a tag.
    Named(String),
    /// A commit, on a branch where one is named.
    Commit(String, Option<String>),
    /// A range of versions, or another way to name a commit that cannot be pinned here.
    Other(String),
}

/// What something on site wants to fetch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// An image, as it is written.
    Image(String),
    /// A git repository.
    Repository(String, Revision),
    /// An artifact or a chart in a registry.
    Artifact {
        /// The URL of its source, as it is written.
        url: String,
        /// Its name, as that of an image.
        name: String,
        /// What a release gives to it, where it is a chart of one.
        release: Option<Release>,
    },
    /// A chart of a chart repository.
    Chart {
        /// The repository's URL, as it is written.
        url: String,
        /// The chart's name.
        chart: String,
        /// Its version, as it is written; empty for none.
        version: String,
        /// The name under which it travels, as that of an image.
        name: String,
        /// What a release gives to it.
        release: Option<Release>,
    },
    /// A registry, a chart repository, a bucket.
    Source(String),
    /// What no file here describes, in words.
    Unknown(String),
}

impl Need {
    /// As it is written: the image, or the URL.
    pub fn text(&self) -> &str {
        match self {
            Self::Image(text)
            | Self::Repository(text, _)
            | Self::Artifact { url: text, .. }
            | Self::Chart { url: text, .. }
            | Self::Source(text)
            | Self::Unknown(text) => text,
        }
    }
}

/// What Kustomize makes of the images of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Substitution {
    /// The image's name, without a tag.
    pub name: String,
    /// The name in its place.
    pub new_name: Option<String>,
    /// The tag in the place of its own.
    pub new_tag: Option<String>,
    /// The digest in the place of its tag.
    pub digest: Option<String>,
    /// What is put after its tag, where neither of both is given.
    pub tag_suffix: Option<String>,
}

impl Substitution {
    /// `image` as Kustomize writes it; `None` when it is another one.
    pub fn of(&self, image: &str) -> Option<String> {
        let (name, tag, digest) = parts(image);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.{}-".contains(c);
        // Kustomize knows no image by a tag with other characters, such as those of a variable.
        if name != self.name || !tag.unwrap_or_default().chars().all(is_plain) {
            return None;
        }
        let suffixed = match (tag, &self.tag_suffix) {
            (tag, Some(suffix)) => Some(format!("{}{suffix}", tag.unwrap_or_default())),
            _ => None,
        };
        let name = self.new_name.as_deref().unwrap_or(name);
        let (tag, digest) = match (&self.new_tag, &self.digest) {
            (None, None) if suffixed.is_some() => (suffixed.as_deref(), None),
            (None, None) => (tag, digest),
            (tag, digest) => (tag.as_deref(), digest.as_deref()),
        };
        let tag = tag.map_or_else(String::new, |tag| format!(":{tag}"));
        let digest = digest.map_or_else(String::new, |digest| format!("@{digest}"));
        Some(format!("{name}{tag}{digest}"))
    }
}

/// What one file needs.
#[derive(Debug, Clone, Default)]
pub struct Needs {
    /// Images and sources, in order of their places.
    pub all: Vec<(Need, Location)>,
    /// What Kustomize replaces.
    pub substitutions: Vec<Substitution>,
    /// Charts, and where charts come from.
    pub helm: Helm,
    /// What looks like an image elsewhere in it.
    pub possible: Vec<Possible>,
    /// Images that the node asks for at each start of a container, with the place of the policy that says so.
    pub always: Vec<(String, Location)>,
    /// By its number, each of the fields that were asked for whose kind it has objects of: whether any of these has it.
    pub fields: Seen,
    /// API version and kind of its objects, where fields were asked for.
    pub kinds: Kinds,
    /// Why it is not read, where it should be YAML by its name.
    pub unread: Option<Unread>,
}

impl Needs {
    /// What the file `name` with these bytes needs.
    pub fn of(name: &str, bytes: &[u8]) -> Self {
        Self::with(name, bytes, &[])
    }

    /// The same, with images in `fields` of custom resources.
    pub fn with(name: &str, bytes: &[u8], fields: &[ImageField]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let name = name.to_owned();
        let file = Arc::new(SourceFile { name, text });
        let mut needs = Self::of_file(&file, fields);
        if is_manifest(&file.name) && !is_text(bytes) {
            needs.unread = Some(Unread::encoding(&file));
        }
        needs
    }

    /// What `file` needs.
    fn of_file(file: &Arc<SourceFile>, fields: &[ImageField]) -> Self {
        let mut needs = Self::default();
        let words = ["image", "Image", "url", "repoURL", "repo", "chart"];
        // Where fields are asked for, all kinds are to be known: one may be misspelt.
        let kind = (!fields.is_empty()).then_some("kind");
        let has_word = words
            .into_iter()
            .chain(kind)
            .any(|word| file.text.contains(word));
        // A key may be written with escapes.
        if !has_word && !file.text.contains('\\') && !possible::is_in(&file.text) {
            return needs;
        }
        let documents = yaml::parse(file).unwrap_or_else(|finding| {
            // What need not be YAML names nothing.
            if is_manifest(&file.name) {
                needs.unread = Some(Unread::syntax(file, *finding));
            }
            Vec::new()
        });
        for document in documents {
            if is_kustomization(file, &document) {
                needs.substitutions.extend(substitutions(&document));
                continue;
            }
            let mut found = Vec::new();
            images(file, &document, &mut found);
            always(file, &document, &mut needs.always);
            fields::add_kinds(&document, fields, &mut needs.kinds);
            let more = fields::images(file, &document, fields, &mut needs.fields);
            add_images(&mut found, more);
            let known = found.iter().map(|(_, at)| at.span.start).collect();
            needs
                .possible
                .extend(possible::possible(file, &document, fields, &known));
            sources(file, &document, &mut found);
            needs.all.extend(found);
            needs.helm.add(file, &document);
        }
        needs
    }
}

/// What several files of one folder need, with Kustomize's images in the place of those that it replaces.
pub fn together(files: Vec<Needs>) -> Vec<(Need, Location)> {
    let (mut all, helm) = without_charts(files);
    all.extend(helm.needs());
    all
}

/// The same, with what it has of charts still apart: what they are from may be described elsewhere.
pub fn without_charts(files: Vec<Needs>) -> (Vec<(Need, Location)>, Helm) {
    let mut substitutions = Vec::new();
    let mut all = Vec::new();
    let mut helm = Helm::default();
    for needs in files {
        substitutions.extend(needs.substitutions);
        all.extend(needs.all);
        helm.append(needs.helm);
    }
    substitutions.sort();
    substitutions.dedup();
    let mut replaced = Vec::new();
    for (need, at) in all {
        let Need::Image(image) = &need else {
            replaced.push((need, at));
            continue;
        };
        let others: Vec<String> = substitutions.iter().filter_map(|s| s.of(image)).collect();
        if others.is_empty() {
            replaced.push((need, at));
        } else {
            // Several overlays may each have their own.
            let others = others
                .into_iter()
                .map(|image| (Need::Image(image), at.clone()));
            replaced.extend(others);
        }
    }
    (replaced, helm)
}

/// An image's name as it is written, without a password before a host.
pub fn shown_image(image: &str) -> String {
    let digest = image.find("@sha256:").unwrap_or(image.len());
    let (name, digest) = image.split_at(digest);
    match name.rsplit_once('@') {
        Some((_, name)) => format!("…@{name}{digest}"),
        None => image.to_owned(),
    }
}

fn text<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let text = node.field(key).and_then(Node::as_str);
    text.filter(|text| !text.is_empty())
}

pub(crate) fn is_kustomization(file: &SourceFile, document: &Node) -> bool {
    let name = file.name.rsplit(['/', ':']).next().unwrap_or_default();
    match text(document, "kind") {
        Some(kind) => {
            let version = text(document, "apiVersion").unwrap_or_default();
            matches!(kind, "Kustomization" | "Component")
                && (version.is_empty() || version.starts_with("kustomize.config.k8s.io/"))
        }
        None => NAMES.contains(&name),
    }
}

pub(crate) fn substitutions(document: &Node) -> Vec<Substitution> {
    let Some(YamlValue::Sequence(items)) = document.field("images").map(|node| &node.value) else {
        return Vec::new();
    };
    items.iter().filter_map(substitution).collect()
}

/// One entry of `images:`.
pub(crate) fn substitution(node: &Node) -> Option<Substitution> {
    let own = |key: &str| match node.field(key).map(|node| &node.value) {
        // A tag without quotes is one, too.
        Some(YamlValue::String(text) | YamlValue::Number(text)) if !text.is_empty() => {
            Some(text.clone())
        }
        _ => None,
    };
    Some(Substitution {
        name: own("name")?,
        new_name: own("newName"),
        new_tag: own("newTag"),
        digest: own("digest"),
        tag_suffix: own("tagSuffix"),
    })
}

/// Images of containers, wherever a pod's specification is: in a pod, in what makes pods, and in the objects of
/// operators that hold containers.
pub(crate) fn images(file: &Arc<SourceFile>, node: &Node, found: &mut Vec<(Need, Location)>) {
    match &node.value {
        YamlValue::Mapping(entries) => {
            for entry in entries {
                let is_image = match entry.key.as_str() {
                    // A container, not any field that is called `image`.
                    "image" => node.field("name").is_some(),
                    // A volume that is an image.
                    "reference" => node.field("pullPolicy").is_some() || entries.len() == 1,
                    _ => false,
                };
                match entry.value.as_str() {
                    Some(image) if is_image && !image.is_empty() => {
                        let at = Location::new(file, entry.value.span.clone());
                        if entry.key == "image" || image.contains(['/', ':']) {
                            found.push((Need::Image(image.to_owned()), at));
                        }
                    }
                    _ => images(file, &entry.value, found),
                }
            }
        }
        YamlValue::Sequence(items) => items.iter().for_each(|item| images(file, item, found)),
        _ => {}
    }
}

/// Adds images of fields of custom resources; a container's may be named by one of them again.
pub(crate) fn add_images(found: &mut Vec<(Need, Location)>, more: Vec<(String, Location)>) {
    let mut known: BTreeSet<usize> = found.iter().map(|(_, at)| at.span.start).collect();
    for (image, at) in more {
        if known.insert(at.span.start) {
            found.push((Need::Image(image), at));
        }
    }
}

/// What Flux, Argo CD and Fleet fetch.
pub(crate) fn sources(file: &Arc<SourceFile>, document: &Node, found: &mut Vec<(Need, Location)>) {
    let group = text(document, "apiVersion").and_then(|version| version.split('/').next());
    let kind = text(document, "kind").unwrap_or_default();
    let Some(spec) = document.field("spec") else {
        return;
    };
    let (key, read): (_, fn(&Node) -> Option<Revision>) = match (group.unwrap_or_default(), kind) {
        ("source.toolkit.fluxcd.io", "GitRepository") => ("url", |node| Some(flux(node))),
        ("source.toolkit.fluxcd.io", "OCIRepository") => {
            found.extend(helm::artifact(file, spec));
            return;
        }
        // With the charts that are asked of it: see `helm`.
        ("source.toolkit.fluxcd.io", "HelmRepository" | "HelmChart") => return,
        ("source.toolkit.fluxcd.io", _) => ("url", |_| None),
        ("argoproj.io", _) => ("repoURL", argo_cd),
        ("fleet.cattle.io", _) => ("repo", |node| Some(fleet(node))),
        _ => return,
    };
    let several = match spec.field("sources").map(|node| &node.value) {
        Some(YamlValue::Sequence(items)) => items.as_slice(),
        _ => &[],
    };
    let places = [Some(spec), spec.field("source")].into_iter().flatten();
    for node in places.chain(several) {
        // With what it gives to the chart: see `helm`.
        if key == "repoURL" && helm::is_argocd_chart(node) {
            continue;
        }
        let Some(at) = node.field(key) else { continue };
        let Some(url) = at.as_str().filter(|url| url.contains(':')) else {
            continue;
        };
        let artifact = match key {
            "repoURL" => helm::argocd_artifact(url, node),
            _ => None,
        };
        let revision = read(node).filter(|_| !url.starts_with("oci://"));
        let repository = revision.map(|revision| Need::Repository(url.to_owned(), revision));
        let need = artifact.or(repository);
        let need = need.unwrap_or_else(|| Need::Source(url.to_owned()));
        found.push((need, Location::new(file, at.span.clone())));
    }
}

fn flux(spec: &Node) -> Revision {
    let Some(reference) = spec.field("ref") else {
        return Revision::Branch("master".to_owned());
    };
    let own = |key: &str| text(reference, key).map(str::to_owned);
    match (own("commit"), own("name"), own("semver"), own("tag")) {
        (Some(id), ..) => Revision::Commit(id, own("branch")),
        (_, Some(name), ..) => named_ref(&name),
        (.., Some(range), _) => Revision::Other(range),
        (.., Some(tag)) => Revision::Tag(tag),
        _ => Revision::Branch(own("branch").unwrap_or_else(|| "master".to_owned())),
    }
}

fn named_ref(name: &str) -> Revision {
    let branch = name.strip_prefix("refs/heads/");
    let tag = name.strip_prefix("refs/tags/");
    match (branch, tag) {
        (Some(branch), _) => Revision::Branch(branch.to_owned()),
        (_, Some(tag)) => Revision::Tag(tag.trim_end_matches("^{}").to_owned()),
        _ => Revision::Other(name.to_owned()),
    }
}

/// `None` for a chart of a chart repository.
fn argo_cd(source: &Node) -> Option<Revision> {
    if text(source, "chart").is_some() {
        return None;
    }
    let revision = text(source, "targetRevision");
    if let Some(id) = revision.and_then(typed_commit_id) {
        return Some(Revision::Commit(id, None));
    }
    Some(match revision {
        None | Some("HEAD") => Revision::Head,
        Some(range) if range.contains(['*', '<', '>', '^', '~', ' ', '|']) => {
            Revision::Other(range.to_owned())
        }
        Some(name) if name.starts_with("refs/") => named_ref(name),
        Some(name) => Revision::Named(name.to_owned()),
    })
}

fn fleet(spec: &Node) -> Revision {
    let branch = text(spec, "branch").map(str::to_owned);
    let revision = text(spec, "revision");
    if let Some(id) = revision.and_then(typed_commit_id) {
        return Revision::Commit(id, branch);
    }
    match revision {
        Some(name) => Revision::Named(name.to_owned()),
        None => Revision::Branch(branch.unwrap_or_else(|| "master".to_owned())),
    }
}

#[cfg(test)]
mod tests;
