//! Rancher Fleet's `Bundle`s: whether a site's agent can put a workload's files into the one that names no resources.
//!
//! What comes in: the rendered files of an assignment, and what is known of the workload's files. What goes out: where the `Bundle`
//! is that would get them, and a finding for files that no agent hands on. The agent refuses the same on site, where the author of
//! the workload is far away. What is in the files only Fleet can say.

use std::sync::Arc;

use outhaul_bundle::fleet::MAX_RESOURCES_BYTES;
use outhaul_control::diagnostic::{Diagnostic, Location, SourceFile};
use outhaul_control::yaml::{self, Node, YamlValue};

const API: &str = "fleet.cattle.io/";

/// Where the first `Bundle` without resources is: the agent puts the workload's files into it.
pub fn open(files: &[Arc<SourceFile>]) -> Option<Location> {
    for file in files.iter().filter(|file| file.text.contains(API)) {
        // What is no YAML is reported with the assignment.
        for node in yaml::parse(file).unwrap_or_default() {
            let text = |key: &str| node.field(key).and_then(Node::as_str).unwrap_or_default();
            let resources = node.field("spec").and_then(|spec| spec.field("resources"));
            let is_open = resources.is_none_or(|all| matches!(all.value, YamlValue::Null));
            if text("kind") == "Bundle" && text("apiVersion").starts_with(API) && is_open {
                let start = node.span.start;
                return Some(Location::new(file, start..start + 1));
            }
        }
    }
    None
}

/// The finding for a workload of `target` that has a file at `path` which no agent hands on.
pub fn options(target: &str, path: &str) -> Diagnostic {
    Diagnostic::error(
        "fleet-options",
        format!("`{target}` has `{path}`, which only Fleet's own reader of git understands: every site would refuse it"),
    )
    .help("write its content into the `Bundle` of the template, and take the file out; or let Fleet fetch the repository (`rancher-fleet`)")
}

/// The finding for a workload of `target` whose files are too large for one `Bundle`.
pub fn too_large(target: &str) -> Diagnostic {
    Diagnostic::error(
        "fleet-too-large",
        format!(
            "the files of `{target}` have more than {MAX_RESOURCES_BYTES} bytes, the most that one `Bundle` of Fleet gets: every site would refuse it"
        ),
    )
    .help("let Fleet fetch the repository (`rancher-fleet`), or split the files among deployment targets")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_without_resources_gets_the_files_and_another_does_not() {
        let of = |text: &str| {
            let file = SourceFile {
                name: "a.yaml".to_owned(),
                text: text.to_owned(),
            };
            open(&[Arc::new(file)]).is_some()
        };
        let bundle = "apiVersion: fleet.cattle.io/v1alpha1\nkind: Bundle\nspec:\n";
        assert!(of(&format!("a: b\n---\n{bundle}  targets: []\n")));
        assert!(of(&format!("{bundle}  resources:\n")));
        assert!(!of(&format!("{bundle}  resources: []\n")));
        assert!(!of(
            &format!("{bundle}  a: b\n").replace("Bundle", "GitRepo")
        ));
        assert!(!of("apiVersion: v1\nkind: Bundle\n# fleet.cattle.io/\n"));
    }
}
