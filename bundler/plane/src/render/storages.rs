//! Storages: where a deployment target's manifests lie, as far as its words alone show that nobody could fetch them.
//!
//! What comes in: a deployment target. What goes out: why no assignment of it can be made: a `storage` that is
//! nearly one that is known, or `storage: git` without a repository or branch. Another word is its team's own:
//! nothing here knows every storage. It opens no repository.

use outhaul_control::diagnostic::Diagnostic;
use outhaul_control::model::DeploymentTarget;
use outhaul_kit::suggest::nearest;

/// What manifests are kept in.
const KNOWN: [&str; 3] = ["git", "helm", "oci"];
/// What `storage: git` needs beside it.
const NEEDED: [&str; 2] = ["repo", "branch"];

/// What is wrong with the storage of `target`; `None` when its words hold together.
pub(super) fn problem(target: &DeploymentTarget) -> Option<Diagnostic> {
    let manifests = target.manifests.as_ref()?;
    let value = |key: &str| manifests.get(key).map_or("", |text| text.trim());
    let storage = manifests.get("storage")?;
    let at = target.storage_at.as_ref().unwrap_or(&target.location);
    let name = &target.name;
    if !KNOWN.contains(&storage.as_str()) {
        let near = nearest(storage, &KNOWN)?;
        let message = format!(
            "the manifests of `{name}` lie in storage `{storage}`, which nothing can fetch"
        );
        let finding = Diagnostic::error("unknown-storage", message).at(at);
        return Some(finding.help(format!("did you mean `{near}`?")));
    }
    if storage != "git" {
        return None;
    }
    let missing: Vec<_> = NEEDED
        .into_iter()
        .filter(|key| value(key).is_empty())
        .map(|key| format!("`{key}`"))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let missing = missing.join(" and ");
    let message = format!("the manifests of `{name}` are in git, and {missing} is missing");
    Some(
        Diagnostic::error("incomplete-storage", message)
            .at(at)
            .label("this needs `repo` and `branch` beside it")
            .help(format!("write {missing} below `manifests`")),
    )
}
