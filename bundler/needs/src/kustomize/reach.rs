//! What an entry of a kustomization names: a file, a folder, or what is not here.
//!
//! What comes in: an entry, and the folder in whose kustomization it is written. What goes out: the items that it
//! brings, or why nothing can be brought. It reads the repository alone.

use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::yaml::{self, Node};
use outhaul_git::source::SourceError;

use super::files::{self, join};
use super::items::{self, Item};
use super::{Means, Walk, shown};

impl Walk<'_> {
    pub(super) fn unread(&mut self, at: &Location, why: &str) {
        let message = format!("this patch cannot be read: {why}");
        self.gap(
            Means::Broken,
            at.clone(),
            message,
            "fix it, so that `kustomize build` builds it",
        );
    }

    /// A file that is named, with its documents; `None` where there is no such file, which is said.
    pub(super) fn named(
        &mut self,
        folder: &str,
        entry: &str,
        at: &Location,
    ) -> Option<(Arc<SourceFile>, Vec<Node>)> {
        let path = self.inside(folder, entry, at)?;
        match self.files.file(&path) {
            Ok(Some(file)) => {
                self.reached.insert(path.clone());
                let documents = self.documents(&path, &file);
                Some((file, documents))
            }
            Ok(None) => {
                self.missing(entry, &path, at);
                None
            }
            Err(error) => {
                self.unreadable(entry, &error, at);
                None
            }
        }
    }

    pub(super) fn documents(&mut self, path: &str, file: &Arc<SourceFile>) -> Vec<Node> {
        yaml::parse(file).unwrap_or_else(|finding| {
            // What lies below the path is looked at as YAML besides.
            if !self.below.contains(path) {
                let at = finding.location.clone();
                let at = at.unwrap_or_else(|| Location::new(file, 0..1));
                let message = format!("`{}` cannot be read: {}", file.name, finding.message);
                self.gap(
                    Means::Broken,
                    at,
                    message,
                    "fix it, so that `kustomize build` builds it",
                );
            }
            Vec::new()
        })
    }

    pub(super) fn inside(&mut self, folder: &str, entry: &str, at: &Location) -> Option<String> {
        let path = join(folder, entry);
        if path.is_none() {
            let message = format!("`{entry}` leaves the repository");
            self.gap(
                Means::Broken,
                at.clone(),
                message,
                "put what it names into this repository, and name it by its path there",
            );
        }
        path
    }

    pub(super) fn missing(&mut self, entry: &str, path: &str, at: &Location) {
        let message = format!(
            "`{entry}` is not there: this commit has no `{}`, as a file or as a folder with a kustomization",
            shown(path)
        );
        self.gap(
            Means::Broken,
            at.clone(),
            message,
            "commit it, or remove the entry; a symbolic link or a submodule is not followed",
        );
    }

    pub(super) fn unreadable(&mut self, entry: &str, error: &SourceError, at: &Location) {
        let message = format!("`{entry}` cannot be read: {error}");
        self.gap(
            Means::Broken,
            at.clone(),
            message,
            "split what it names into smaller files and folders",
        );
    }

    pub(super) fn remote(&mut self, entry: &str, at: &Location) {
        let message = format!("no bundle brings `{entry}`, from which this kustomization is built");
        let help = "copy it into this repository and name it by its path there: a site without a network cannot \
                    fetch it, and its images do not travel";
        self.gap(Means::Unreachable, at.clone(), message, help);
    }

    /// What a file or folder that is named as a resource brings.
    pub(super) fn resource(&mut self, folder: &str, entry: &str, at: &Location) -> Vec<Item> {
        if entry.contains("://") {
            self.remote(entry, at);
            return Vec::new();
        }
        let is_remote = files::is_remote(entry);
        let path = match join(folder, entry) {
            Some(path) => path,
            None if is_remote => {
                self.remote(entry, at);
                return Vec::new();
            }
            None => {
                self.inside(folder, entry, at);
                return Vec::new();
            }
        };
        match self.files.file(&path) {
            Ok(Some(file)) => {
                self.reached.insert(path.clone());
                let documents = self.documents(&path, &file);
                // What lies below the path is looked at besides.
                if !self.below.contains(&path) {
                    for one in &documents {
                        self.helm.add(&file, one);
                        self.looking.at(&file, one);
                    }
                }
                documents
                    .iter()
                    .flat_map(|one| items::of(&file, one, self.looking.fields))
                    .collect()
            }
            Ok(None) if self.kustomization(&path).is_some() => self.resource_folder(&path),
            Ok(None) if is_remote => {
                self.remote(entry, at);
                Vec::new()
            }
            Ok(None) => {
                self.missing(entry, &path, at);
                Vec::new()
            }
            Err(error) => {
                self.unreadable(entry, &error, at);
                Vec::new()
            }
        }
    }

    pub(super) fn component(
        &mut self,
        folder: &str,
        entry: &str,
        at: &Location,
        items: Vec<Item>,
    ) -> Vec<Item> {
        if entry.contains("://") {
            self.remote(entry, at);
            return items;
        }
        let Some(path) = join(folder, entry) else {
            self.inside(folder, entry, at);
            return items;
        };
        if self.kustomization(&path).is_some() {
            return self.folder(&path, items, None);
        }
        match files::is_remote(entry) {
            true => self.remote(entry, at),
            false => self.missing(entry, &path, at),
        }
        items
    }
}
