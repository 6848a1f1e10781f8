//! Builds that make no object at all.
//!
//! What comes in: the folder of a kustomization. What goes out: whether nothing that it names, in whatever depth, is an
//! object. What cannot be read, is remote, or is made by a generator may be one: only what is certain counts.

use super::MAX_BASES;
use std::collections::BTreeSet;

use outhaul_control::diagnostic::Location;
use outhaul_control::yaml;

use super::files::join;
use super::{Means, Walk, list, shown, strings};

/// What brings objects that are not followed one by one.
const MAKERS: [&str; 7] = [
    "generators",
    "configMapGenerator",
    "secretGenerator",
    "helmCharts",
    "helmChartInflationGenerator",
    "components",
    "transformers",
];

impl Walk<'_> {
    /// Says when the kustomization of `root` makes nothing: sites that apply it remove all that they have.
    pub(super) fn say_empty(&mut self, root: &str) {
        let Some((_, file)) = self.kustomization(root) else {
            return;
        };
        if !self.makes_nothing(root, &mut BTreeSet::new(), 0) {
            return;
        }
        let message = format!(
            "the kustomization of `{}` makes no object: a site that applies it removes everything that it applied of it \
             before",
            shown(root)
        );
        let at = Location::new(&file, 0..1);
        let help = "name the manifests in `resources`; where the workload is to go, withdraw its assignment instead";
        self.gap(Means::Nothing, at, message, help);
    }

    fn makes_nothing(&mut self, folder: &str, seen: &mut BTreeSet<String>, depth: usize) -> bool {
        if depth > MAX_BASES {
            return false;
        }
        if !seen.insert(folder.to_owned()) {
            return true;
        }
        let Some((_, file)) = self.kustomization(folder) else {
            return false;
        };
        let Ok(documents) = yaml::parse(&file) else {
            return false;
        };
        for document in &documents {
            if MAKERS
                .iter()
                .any(|key| document.field(key).is_some() && !list(document, key).is_empty())
            {
                return false;
            }
            let named: Vec<String> = ["resources", "bases"]
                .iter()
                .flat_map(|key| strings(document, key))
                .map(|(entry, _)| entry.to_owned())
                .collect();
            for entry in named {
                let Some(path) = join(folder, &entry) else {
                    return false;
                };
                let is_empty = match self.files.file(&path) {
                    // A file without a document.
                    Ok(Some(file)) => {
                        yaml::parse(&file).is_ok_and(|documents| documents.is_empty())
                    }
                    Ok(None) if self.kustomization(&path).is_some() => {
                        self.makes_nothing(&path, seen, depth + 1)
                    }
                    _ => false,
                };
                if !is_empty {
                    return false;
                }
            }
        }
        true
    }
}
