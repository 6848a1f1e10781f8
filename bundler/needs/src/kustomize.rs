//! What a Kustomize build reaches: the files of a target's path, and the bases, components and patches beside it.
//!
//! What comes in: a repository at one commit, a path in it, and what rendered objects add to the build. What goes
//! out: each image and source that is built, after the `images:` of every kustomization on the way, and each thing
//! that cannot be followed, with its place. Where it is not certain whether an image is replaced, both are there.
//! It builds nothing, asks no network, never leaves the repository, and is bounded in folders, files and depth.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::model::ImageField;
use outhaul_control::yaml::{self, Node, YamlValue};
use outhaul_git::source::{OpenedSource, SourceError, normal_path};

use crate::manifest::{Helm, Need, Substitution, is_kustomization, substitutions};
use crate::possible::Possible;
use crate::unread::NAMES;

mod empty;
mod files;
mod gap;
mod items;
mod looking;
mod patch;
mod reach;
mod rendered;
mod unread;

pub use gap::{Gap, Means};
pub use rendered::{Build, alike, builds};

use files::{Files, join, parent};
use items::Item;
use looking::Looking;

/// Deepest chain of bases that is followed.
const MAX_BASES: usize = 64;
/// Most kustomizations in one build, each as often as it is reached.
const MAX_VISITS: usize = 5_000;
/// Most images and sources at one place of a build.
const MAX_ITEMS: usize = 100_000;

/// What a path needs.
#[derive(Debug, Default)]
pub struct Followed {
    /// Images and sources, with their places.
    pub needs: Vec<(Need, Location)>,
    /// Charts, and where charts come from: what rendered files have of them belongs to it.
    pub helm: Helm,
    /// What looks like an image elsewhere.
    pub possible: Vec<Possible>,
    /// Images that the node asks for at each start of a container, with the place of the policy that says so.
    pub always: Vec<(String, Location)>,
    /// By its number, each of the fields that were asked for whose kind there are objects of: whether any of these has it.
    pub fields: BTreeMap<usize, bool>,
    /// API version and kind of the objects, where fields were asked for.
    pub kinds: BTreeSet<(String, String)>,
    /// What could not be followed.
    pub gaps: Vec<Gap>,
}

/// What `path` of `opened` needs, when `builds` build it too.
///
/// # Errors
/// [`SourceError`] when the path cannot be read.
pub fn follow(
    opened: &OpenedSource,
    path: &str,
    builds: &[Build],
    fields: &[ImageField],
) -> Result<Followed, SourceError> {
    let path = normal_path(path)?;
    let mut files = Files::new(opened);
    let mut below = files.seed(&path)?;
    let mut walk = Walk {
        files,
        below: BTreeSet::new(),
        built: BTreeMap::new(),
        reached: BTreeSet::new(),
        stack: Vec::new(),
        visits: 0,
        helm: Helm::default(),
        looking: Looking::for_fields(fields),
        gaps: Vec::new(),
    };
    let mut items = Vec::new();
    let own: Vec<&Build> = builds.iter().filter(|one| one.is_of(&opened.url)).collect();
    let mut roots: Vec<(String, Option<&Build>)> = Vec::new();
    for build in &own {
        match build.path.as_deref().map(normal_path) {
            Some(Ok(root)) => roots.push((root, Some(build))),
            Some(Err(_)) | None => roots.push((path.clone(), Some(build))),
        }
    }
    for (root, build) in &roots {
        let is_below = path.is_empty() || *root == path || root.starts_with(&format!("{path}/"));
        match (is_below, build) {
            (true, _) | (_, None) => {}
            (false, Some(build)) => match walk.files.seed(root) {
                Ok(more) => below.extend(more),
                Err(error) => walk.unreadable(root, &error, &build.at),
            },
        }
    }
    below.sort_by(|a, b| a.0.cmp(&b.0));
    below.dedup_by(|a, b| a.0 == b.0);
    walk.below = below.iter().map(|(path, _)| path.clone()).collect();
    if roots.is_empty() {
        roots.push((path.clone(), None));
    }
    for (root, build) in &roots {
        items.extend(walk.root(root, *build));
        if build.is_none_or(|build| build.components.is_empty()) {
            walk.say_empty(root);
        }
    }
    items.extend(walk.fleet(&below));
    // What no kustomization names may be applied all the same.
    let mut rest = Vec::new();
    let mut everywhere = Vec::new();
    for (path, file) in &below {
        for document in walk.whole(path, file) {
            walk.helm.add(file, &document);
            walk.looking.at(file, &document);
            if is_kustomization(file, &document) {
                everywhere.extend(substitutions(&document));
            } else if !walk.reached.contains(path) {
                rest.extend(items::of(file, &document, fields));
            }
        }
    }
    everywhere.sort();
    everywhere.dedup();
    let mut rest = items::each(rest, &everywhere);
    match own.as_slice() {
        [] => {}
        builds => {
            let before = std::mem::take(&mut rest);
            for build in builds {
                let built = items::replaced(before.clone(), &build.images);
                rest.extend(walk.filled(built, build));
            }
        }
    }
    items.extend(rest);
    if let Some(at) = walk.looking.left_out.take() {
        let message = format!(
            "more than {} texts of this build look like images: those from here on are not named",
            looking::MAX_FOUND
        );
        let help = "split it among several deployment targets, or name the fields in `imageFields` of a delivery policy";
        walk.gap(Means::Images, at, message, help);
    }
    let items = items::once(items);
    let needs = items.into_iter().map(|item| (item.need, item.at)).collect();
    let Walk {
        helm,
        looking,
        gaps,
        ..
    } = walk;
    Ok(Followed {
        needs,
        helm,
        possible: looking.found,
        always: looking.always.into_values().collect(),
        fields: looking.seen,
        kinds: looking.kinds,
        gaps,
    })
}

struct Walk<'a> {
    files: Files<'a>,
    /// The manifests below the path, which others look at as YAML.
    below: BTreeSet<String>,
    /// What each folder builds by itself.
    built: BTreeMap<String, Vec<Item>>,
    /// Files that a kustomization names.
    reached: BTreeSet<String>,
    stack: Vec<String>,
    visits: usize,
    helm: Helm,
    looking: Looking<'a>,
    gaps: Vec<Gap>,
}

impl Walk<'_> {
    fn gap(&mut self, means: Means, at: Location, message: String, help: &'static str) {
        let gap = Gap {
            means,
            message,
            at,
            help,
        };
        if !self.gaps.contains(&gap) {
            self.gaps.push(gap);
        }
    }

    /// What a reconciler that is asked to build `root` gets.
    fn root(&mut self, root: &str, build: Option<&Build>) -> Vec<Item> {
        let items = match self.kustomization(root) {
            Some(_) => self.folder(root, Vec::new(), build),
            None => {
                let mut items = Vec::new();
                for folder in self.outermost(root) {
                    items.extend(self.resource_folder(&folder));
                }
                match build {
                    Some(build) => self.extras(items, build),
                    None => items,
                }
            }
        };
        match build {
            Some(build) => self.filled(items, build),
            None => items,
        }
    }

    /// The folders below `root` with a kustomization that no other one below it names.
    fn outermost(&mut self, root: &str) -> Vec<String> {
        let is_below = |folder: &str| {
            root.is_empty() || folder == root || folder.starts_with(&format!("{root}/"))
        };
        let mut folders = BTreeSet::new();
        let mut named = BTreeSet::new();
        for path in self.below.clone() {
            let (folder, name) = parent(&path);
            if !NAMES.contains(&name) || !is_below(folder) {
                continue;
            }
            let Some(file) = self.files.known(&path) else {
                continue;
            };
            for document in yaml::parse(&file).unwrap_or_default() {
                if text(&document, "kind") != Some("Component") {
                    folders.insert(folder.to_owned());
                }
                for key in ["resources", "bases", "components"] {
                    let entries = strings(&document, key).into_iter();
                    let entries = entries.filter_map(|(entry, _)| join(folder, entry));
                    named.extend(entries.filter(|entry| entry != folder));
                }
            }
        }
        folders.difference(&named).cloned().collect()
    }

    fn kustomization(&mut self, folder: &str) -> Option<(String, Arc<SourceFile>)> {
        let names = NAMES.iter();
        names
            .map(|name| join(folder, name).unwrap_or_default())
            .find_map(|path| {
                self.files
                    .file(&path)
                    .ok()
                    .flatten()
                    .map(|file| (path, file))
            })
    }

    /// What a folder that is named as a resource builds.
    fn resource_folder(&mut self, folder: &str) -> Vec<Item> {
        if let Some(built) = self.built.get(folder) {
            return built.clone();
        }
        let built = self.folder(folder, Vec::new(), None);
        self.built.insert(folder.to_owned(), built.clone());
        built
    }

    /// What the kustomization of `folder` makes of `items`, which are there before it.
    fn folder(&mut self, folder: &str, items: Vec<Item>, build: Option<&Build>) -> Vec<Item> {
        let Some((path, file)) = self.kustomization(folder) else {
            return items;
        };
        self.reached.insert(path);
        let start = Location::new(&file, 0..1);
        if self.stack.iter().any(|one| one == folder) {
            let message = format!("the kustomization of `{}` reaches itself", shown(folder));
            self.gap(
                Means::Broken,
                start,
                message,
                "remove one of the references",
            );
            return items;
        }
        self.visits += 1;
        if self.stack.len() >= MAX_BASES || self.visits > MAX_VISITS || items.len() > MAX_ITEMS {
            let message =
                "this build has more kustomizations or images than are followed".to_owned();
            self.gap(
                Means::Broken,
                start,
                message,
                "split it among several deployment targets",
            );
            return items;
        }
        let document = match yaml::parse(&file) {
            Ok(documents) => documents.into_iter().next(),
            Err(finding) => {
                let at = finding.location.clone().unwrap_or(start);
                let message = format!("this kustomization cannot be read: {}", finding.message);
                self.gap(
                    Means::Broken,
                    at,
                    message,
                    "fix it, so that `kustomize build` builds it",
                );
                None
            }
        };
        let Some(document) = document else {
            return items;
        };
        self.stack.push(folder.to_owned());
        let items = self.document(folder, &file, &document, items, build);
        self.stack.pop();
        items::once(items)
    }

    fn document(
        &mut self,
        folder: &str,
        file: &Arc<SourceFile>,
        document: &Node,
        mut items: Vec<Item>,
        build: Option<&Build>,
    ) -> Vec<Item> {
        self.looking.literals(file, document);
        for key in ["resources", "bases"] {
            for (entry, node) in strings(document, key) {
                items.extend(self.resource(folder, entry, &Location::new(file, node.span.clone())));
            }
        }
        let here = |node: &Node| Location::new(file, node.span.clone());
        for (entry, node) in strings(document, "generators") {
            items = self.plugin(folder, entry, &here(node), items);
        }
        for (entry, node) in strings(document, "components") {
            items = self.component(
                folder,
                entry,
                &Location::new(file, node.span.clone()),
                items,
            );
        }
        self.charts(file, document);
        for patch in self.patches(folder, file, document) {
            patch.apply(&mut items, self.looking.fields);
        }
        let own = [
            substitutions(document),
            items::listed(document, "imageTags"),
        ]
        .concat();
        for one in &own {
            if one
                .name
                .contains(['*', '+', '?', '(', '[', '|', '^', '$', '\\'])
            {
                let message = format!(
                    "`{}` is a pattern, and which images it replaces is not known here",
                    one.name
                );
                let at = document.field("images").unwrap_or(document);
                let at = Location::new(file, at.span.clone());
                self.gap(
                    Means::Images,
                    at,
                    message,
                    "name each image in `images:` by itself",
                );
            }
        }
        items = match build {
            Some(build) => self.with_extras(folder, items, &own, build),
            None => items::replaced(items, &own),
        };
        for (entry, node) in strings(document, "transformers") {
            items = self.plugin(folder, entry, &here(node), items);
        }
        for (entry, node) in strings(document, "validators") {
            self.plugin(folder, entry, &here(node), Vec::new());
        }
        items
    }

    /// What a rendered object adds where there is no kustomization: to one that the reconciler makes.
    fn extras(&mut self, items: Vec<Item>, build: &Build) -> Vec<Item> {
        let folder = build
            .path
            .as_deref()
            .and_then(|path| normal_path(path).ok());
        self.with_extras(&folder.unwrap_or_default(), items, &[], build)
    }

    fn with_extras(
        &mut self,
        folder: &str,
        mut items: Vec<Item>,
        own: &[Substitution],
        build: &Build,
    ) -> Vec<Item> {
        for (entry, at) in &build.components {
            items = self.component(folder, entry, at, items);
        }
        for (patch, at, is_targeted) in &build.patches {
            match patch::Patch::inline(patch, at, *is_targeted) {
                Ok(patch) => patch.apply(&mut items, self.looking.fields),
                Err(why) => self.unread(at, &why),
            }
        }
        // A reconciler puts its own in the place of those of the same name; whether all do is not certain.
        let is_other =
            |one: &&Substitution| build.images.iter().all(|other| other.name != one.name);
        let kept: Vec<Substitution> = own.iter().filter(is_other).cloned().collect();
        let mut all = items::replaced(
            items.clone(),
            &[kept.clone(), build.images.clone()].concat(),
        );
        if kept.len() < own.len() {
            all.extend(items::replaced(items, &[own, &build.images].concat()));
        }
        all
    }

    /// With what a reconciler fills in after the build.
    fn filled(&mut self, items: Vec<Item>, build: &Build) -> Vec<Item> {
        let Some(variables) = &build.variables else {
            return items;
        };
        let mut filled = Vec::new();
        for mut item in items {
            let Need::Image(image) = &item.need else {
                filled.push(item);
                continue;
            };
            let (image, is_certain) = variables.fill(image);
            if !is_certain {
                let message = format!(
                    "the image `{}` has a variable whose value only the site knows",
                    item.need.text()
                );
                let help = "give its value in `postBuild.substitute`, or write the image without a variable";
                self.gap(Means::Images, item.at.clone(), message, help);
            }
            if let Some(image) = image {
                item.need = Need::Image(image);
                filled.push(item);
            }
        }
        filled
    }
}

fn shown(path: &str) -> &str {
    match path {
        "" => ".",
        path => path,
    }
}

fn text<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let text = node.field(key).and_then(Node::as_str);
    text.filter(|text| !text.is_empty())
}

/// The items of a list.
fn list<'a>(node: &'a Node, key: &str) -> &'a [Node] {
    match node.field(key).map(|node| &node.value) {
        Some(YamlValue::Sequence(items)) => items,
        _ => &[],
    }
}

/// The texts of a list.
fn strings<'a>(node: &'a Node, key: &str) -> Vec<(&'a str, &'a Node)> {
    let items = list(node, key).iter();
    items
        .filter_map(|item| Some((item.as_str()?, item)))
        .collect()
}

#[cfg(test)]
mod tests;
