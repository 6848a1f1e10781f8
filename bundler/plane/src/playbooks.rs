//! Playbooks: those of a workload's own manifests that rendered files run.
//!
//! What comes in: the rendered files of an assignment. What goes out: the playbooks that they import from
//! `outhaul_payload`, the folder with the workload's manifests on site. Without such a playbook Ansible fails on every
//! site, where nobody can put it there. It opens no repository.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_control::diagnostic::Diagnostic;
use outhaul_control::model::DeploymentTarget;

/// What the agent calls the folder of an assignment's manifests.
const PAYLOAD: &str = "outhaul_payload";
/// How one playbook runs another.
const IMPORT: &str = "import_playbook:";

/// The playbooks that `files` import out of the workload's manifests, as paths in them.
pub fn imported(files: &BTreeMap<String, Vec<u8>>) -> BTreeSet<String> {
    let texts = files.values().map(|bytes| String::from_utf8_lossy(bytes));
    texts
        .flat_map(|text| text.lines().filter_map(path).collect::<Vec<_>>())
        .collect()
}

/// The path below the payload that one line imports: `… import_playbook: "{{ outhaul_payload }}/site.yaml"`.
fn path(line: &str) -> Option<String> {
    let (before, value) = line.split_once(IMPORT)?;
    if before.trim_start().starts_with('#') {
        return None;
    }
    let (_, rest) = value.split_once(PAYLOAD)?;
    let (_, rest) = rest.split_once("}}")?;
    let path = rest
        .split(['"', '\'', ' ', '#'])
        .next()?
        .trim_start_matches('/');
    // Another variable in it is filled in on site.
    (!path.is_empty() && !path.contains('{')).then(|| path.to_owned())
}

/// Why `files` of an assignment of `target` cannot run: they import a playbook, and there are no manifests.
pub(crate) fn without_payload(
    target: &DeploymentTarget,
    files: &BTreeMap<String, Vec<u8>>,
) -> Option<Diagnostic> {
    let repo = target.manifests.as_ref().and_then(|all| all.get("repo"));
    if repo.is_some_and(|repo| !repo.trim().is_empty()) {
        return None;
    }
    imported(files).into_iter().next().map(|path| {
        let message = format!(
            "`{}` runs the playbook `{path}` of its manifests, and it names no repository of manifests",
            target.name
        );
        missing(message).at(&target.location)
    })
}

/// A playbook that is not there.
pub fn missing(message: String) -> Diagnostic {
    Diagnostic::error("missing-playbook", message).help(
        "write `repo`, `branch` and `path` below `manifests`, and put the playbook into that folder",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn playbooks_of_the_payload_are_found_in_rendered_files() {
        let text = "- name: a\n  ansible.builtin.import_playbook: \"{{ outhaul_payload }}/site.yaml\"\n\
                    # import_playbook: \"{{ outhaul_payload }}/old.yaml\"\n\
                    - import_playbook: '{{outhaul_payload}}/deep/er.yml' # why\n\
                    - import_playbook: other.yaml\n\
                    - import_playbook: \"{{ outhaul_payload }}/{{ kind }}.yaml\"\n";
        let files = BTreeMap::from([("reconciler.yaml".to_owned(), text.as_bytes().to_vec())]);
        let found: Vec<_> = imported(&files).into_iter().collect();
        assert_eq!(found, ["deep/er.yml", "site.yaml"]);
    }
}
