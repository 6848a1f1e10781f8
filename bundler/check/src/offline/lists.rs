//! Lists of files that nobody reads: of another name than `outhaul-files.toml`, or not in the folder of a workload's manifests.
//!
//! What comes in: a workload's repository and the folder of its manifests there. What goes out: a finding for each file that someone may
//! take for its list. It reads names alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use outhaul_control::diagnostic::{Diagnostic, Location, SourceFile};
use outhaul_files::list::FILE;
use outhaul_git::source::{OpenedSource, TreeLimits, normal_url};
use outhaul_kit::suggest::nearest;
use outhaul_load::pipeline::Platform;

/// Of a repository of the URL `repo`, opened, the lists that are not read for the manifests in `folder`; none where its names are not known.
pub(super) fn unread(
    platform: &Platform,
    opened: &OpenedSource,
    (repo, folder): (&str, &str),
) -> Vec<Diagnostic> {
    let Ok(names) = opened.names(".", &TreeLimits::PAYLOAD) else {
        return Vec::new();
    };
    let read = folders_of(platform, repo);
    let folder = plain(folder);
    let files = names.files.iter();
    files
        .filter_map(|path| {
            let help = problem(path, folder, &read)?;
            let file = Arc::new(SourceFile {
                name: opened.file_name(path),
                text: String::new(),
            });
            let message = format!("`{path}` is not read as a list of files");
            let finding = Diagnostic::warning("no-effect", message);
            Some(finding.at(&Location::new(&file, 0..0)).help(help))
        })
        .collect()
}

/// What is to be done with the file at `path`, when it is probably meant as the list of the manifests in `folder`; `read` are the folders in which
/// lists are looked for.
fn problem(path: &str, folder: &str, read: &BTreeSet<String>) -> Option<String> {
    let (place, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_exact = name == FILE;
    let is_below = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        outer.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_near = is_exact || nearest(name, &[FILE]).is_some();
    let is_related = is_below(place, folder) || is_below(folder, place);
    // What lies in the folder of another workload is that workload's.
    let is_of_other = place != folder && read.contains(place);
    let is_read = is_exact && place == folder;
    if !is_near || !is_related || is_of_other || is_read {
        return None;
    }
    let to = match folder {
        "" => FILE.to_owned(),
        folder => format!("{folder}/{FILE}"),
    };
    Some(format!(
        "the list of the manifests in `{}` is `{to}`: rename or move it",
        if folder.is_empty() { "." } else { folder }
    ))
}

/// The folders of the manifests that are in this repository.
fn folders_of(platform: &Platform, repo: &str) -> BTreeSet<String> {
    let repo = normal_url(repo);
    let groups = platform.rendering.cluster_types.values();
    let assignments = groups.flat_map(|group| group.assignments.values());
    let of_it = assignments.filter_map(|assignment| {
        let own = assignment.manifests.get("repo")?;
        let path = assignment.manifests.get("path").map_or("", String::as_str);
        (normal_url(own) == repo).then(|| plain(path).to_owned())
    });
    of_it.collect()
}

/// A folder without `./` before and `/` behind it.
fn plain(folder: &str) -> &str {
    let folder = folder.trim_matches('/');
    let folder = folder.strip_prefix("./").unwrap_or(folder);
    match folder {
        "." => "",
        folder => folder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_another_name_or_in_another_folder_is_named_once_for_its_workload() {
        let read: BTreeSet<String> = ["app".to_owned(), "other/app".to_owned()].into();
        for (path, is_said) in [
            ("app/outhaul-files.toml", false),
            ("app/outhaul-file.toml", true),
            ("app/outhaul-files.yaml", true),
            ("app/outhaul-files.yml", true),
            ("app/Outhaul-Files.toml", true),
            ("app/base/outhaul-files.toml", true),
            ("outhaul-files.toml", true),
            ("outhaul.toml", false),
            ("app/files.yaml", false),
            ("other/app/outhaul-files.toml", false),
            ("other/outhaul-files.toml", false),
            ("apple/outhaul-files.toml", false),
        ] {
            let found = problem(path, "app", &read);
            assert_eq!(found.is_some(), is_said, "{path}: {found:?}");
        }
        let root = problem("sub/outhaul-files.toml", "", &BTreeSet::new()).unwrap();
        assert!(root.contains("is `outhaul-files.toml`"), "{root}");
        assert_eq!(plain("./a/b/"), "a/b");
    }
}
