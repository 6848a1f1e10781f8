//! Manifests that are not read: what they need is not known, and a reconciler may read them all the same.
//!
//! What comes in: a file's name and bytes, or why it is no YAML. What goes out: whether it should be read, and why it is not, with its
//! place. It reads nothing.

use std::sync::Arc;

use outhaul_control::diagnostic::{Diagnostic, Location, SourceFile};

/// What Kustomize takes for a kustomization.
pub(crate) const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// What to do about one.
pub(crate) const HELP: &str = "correct it, so that every reader of YAML reads the same in it; give what is not a manifest another ending, such as `.tpl`";

/// A manifest that is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// What is wrong with it.
    pub message: String,
    /// Where.
    pub at: Location,
}

impl Unread {
    /// One that is no YAML.
    pub(crate) fn syntax(file: &Arc<SourceFile>, finding: Diagnostic) -> Self {
        let at = finding
            .location
            .unwrap_or_else(|| Location::new(file, 0..0));
        Self::new(file, at, &finding.message)
    }

    /// One in another encoding, which some readers take and others do not.
    pub(crate) fn encoding(file: &Arc<SourceFile>) -> Self {
        Self::new(file, Location::new(file, 0..0), "it is not UTF-8 text")
    }

    fn new(file: &SourceFile, at: Location, why: &str) -> Self {
        let message = format!(
            "`{}` is not read, and so neither are the images in it: {why}",
            file.name
        );
        Self { message, at }
    }

    /// As a finding, of a severity as `new` makes them.
    pub fn finding(&self, new: fn(&'static str, String) -> Diagnostic) -> Diagnostic {
        new("manifest-not-read", self.message.clone())
            .at(&self.at)
            .help(HELP)
    }
}

/// Whether it should be YAML, by its name.
pub(crate) fn is_manifest(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let ends = [".yaml", ".yml", ".json"];
    ends.iter().any(|end| path.ends_with(end)) || NAMES.contains(&name)
}

/// Whether it is text as every reader of YAML takes it.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok()
}
