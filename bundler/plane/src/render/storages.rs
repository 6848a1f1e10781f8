//! Storages: where a deployment target's manifests lie, as far as its words alone show that nobody could fetch them.
//!
//! What comes in: a deployment target. What goes out: why no assignment of it can be made: a `storage` that is
//! nearly one that is known, `storage: git` without a repository or branch, a password, what git takes for something else than an address.
//! Another word is its team's own: nothing here knows every storage. It opens no repository.

use std::collections::BTreeMap;

use outhaul_control::diagnostic::Diagnostic;
use outhaul_control::model::DeploymentTarget;
use outhaul_kit::suggest::nearest;
use outhaul_kit::url_secrets::has_secret;

/// What manifests are kept in.
const KNOWN: [&str; 3] = ["git", "helm", "oci"];
/// What `storage: git` needs beside it.
const NEEDED: [&str; 2] = ["repo", "branch"];

/// What is wrong with the storage of `target`; `None` when its words hold together.
pub(super) fn problem(target: &DeploymentTarget) -> Option<Diagnostic> {
    let manifests = target.manifests.as_ref()?;
    let value = |key: &str| manifests.get(key).map_or("", |text| text.trim());
    let at = target.storage_at.as_ref().unwrap_or(&target.location);
    let name = &target.name;
    if let Some((what, help)) = forbidden(manifests) {
        let message = format!("the manifests of `{name}`: {what}");
        let finding = Diagnostic::error("forbidden-source", message);
        return Some(finding.at(at).help(help));
    }
    let storage = manifests.get("storage")?;
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

/// What of an address is refused whatever opens it, on site or here: all that is rendered is published.
fn forbidden(manifests: &BTreeMap<String, String>) -> Option<(String, &'static str)> {
    if let Some((key, _)) = manifests.iter().find(|(_, text)| has_secret(text)) {
        return Some((
            format!(
                "`{key}` holds a password or token, which would be published with everything made from it"
            ),
            "remove it from the URL, change it at the server, and give it to git's credential helper",
        ));
    }
    let value = |key: &str| manifests.get(key).map_or("", |text| text.trim());
    if !matches!(value("storage"), "" | "git") {
        return None;
    }
    let (repo, branch, path) = (value("repo"), value("branch"), value("path"));
    let scheme = repo.split(['/', '[', ' ']).next().unwrap_or_default();
    if repo.starts_with('-') || branch.starts_with('-') {
        let help = "write the URL of a repository, and the name of a branch";
        return Some((
            "git would take its `repo` or `branch` for an option".to_owned(),
            help,
        ));
    }
    if scheme.contains("::") {
        let help = "use an https://, ssh:// or git@host:path URL";
        return Some((format!("`{repo}` has git start a program"), help));
    }
    if path.split('/').any(|part| part == "..") {
        let help = "write the folder's path from the root of its repository";
        return Some((format!("path `{path}` leaves its repository"), help));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::forbidden;

    #[test]
    fn what_no_site_and_no_centre_may_open_is_refused_and_a_password_is_not_said() {
        let of = |key: &str, text: &str| forbidden(&[(key.to_owned(), text.to_owned())].into());
        for (key, text) in [
            ("repo", "https://u:secret@git.example/x"),
            ("repo", "https://ghp_secret@git.example/x"),
            ("chart", "oci://u:secret@git.example/x?a=b"),
            ("repo", "ssh://a@b:secret@git.example/x"),
            ("repo", "ext::sh -c id"),
            ("repo", "--upload-pack=id"),
            ("branch", "--upload-pack=id"),
            ("path", "a/../.."),
        ] {
            let (what, _) = of(key, text).unwrap_or_else(|| panic!("{text}"));
            assert!(!what.contains("secret"), "{what}");
        }
        for (key, text) in [
            ("repo", "https://git.example:8443/a@b:c"),
            ("repo", "ssh://git@git.example:22/x"),
            ("repo", "git@git.example:x"),
            ("repo", "https://org@dev.azure.com/x"),
            ("repo", "ssh://git@[2001:db8::1]/x"),
            ("path", "./a..b/"),
        ] {
            assert_eq!(of(key, text), None, "{text}");
        }
    }
}
