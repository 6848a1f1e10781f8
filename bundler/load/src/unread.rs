//! What is not read, and what is read that nobody fixed: symbolic links, edits that are not committed, a
//! base that is missing or follows a branch.
//!
//! What comes in: opened sources, and what was read of them. What goes out: a finding for each, with the
//! cause and not what follows from it. It changes nothing about what is read.

use std::collections::BTreeMap;

use super::{LoadRequest, MAIN, Origin};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::BaseRepo;
use outhaul_git::source::{GitReference, Opened};
use outhaul_kit::format_count::format_count;

/// Files that are named before the rest is counted.
const MAX_NAMED: usize = 5;

/// Links among the files of a control plane; in the repository of a team only those that would be read,
/// since links are common in source code.
pub(super) fn links(opened: &Opened, paths: &[String], of_a_team: bool) -> Vec<Diagnostic> {
    let matters = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let yaml = name.ends_with(".yaml") || name.ends_with(".yml");
        // A link to a folder mostly has no ending.
        yaml || (!of_a_team && !name.trim_start_matches('.').contains('.'))
    };
    let found = paths.iter().filter(matters).map(|path| {
        let message = format!(
            "`{}` is a symbolic link or a submodule: it is not read",
            opened.file_name(path)
        );
        Diagnostic::warning("link", message)
            .help("put the files themselves there, name their repository in a BaseRepo, or list the link in \
                   `.sourceignore`")
    });
    found.collect()
}

/// Working copies with edits that are not in what was read of them.
pub fn uncommitted<'o>(
    opened: impl Iterator<Item = (&'o GitReference, &'o Opened)>,
) -> Vec<Diagnostic> {
    let mut found = BTreeMap::new();
    for (reference, opened) in opened {
        let Some(folder) = opened.repository_folder() else {
            continue;
        };
        if !found.contains_key(folder)
            && let Some(edits) = opened.uncommitted(reference, MAX_NAMED)
        {
            found.insert(folder, edits);
        }
    }
    let edited = found.into_iter().map(|(folder, (files, count))| {
        let mut named: Vec<String> = files.iter().map(|file| format!("`{file}`")).collect();
        if count > files.len() {
            named.push(format!("{} more", count - files.len()));
        }
        let message = format!(
            "`{}` has edits in {} that are not committed, and not read: {}",
            folder.display(),
            format_count(count, "file", "files"),
            named.join(", ")
        );
        Diagnostic::warning("uncommitted", message)
            .help("commit them; `outhaul check --working-copy` checks them as they are")
    });
    edited.collect()
}

/// Cluster types without a single template and without a workload: the base is what is missing, and not
/// each template.
pub(super) fn missing_base(
    plane: &ControlPlane,
    request: &LoadRequest,
    findings: &mut Diagnostics,
) {
    let Some(cluster_type) = plane.cluster_types.values().next() else {
        return;
    };
    // What could not be read is the cause then, and was reported.
    if findings.has_errors() || !plane.registrations.is_empty() || !plane.templates.is_empty() {
        return;
    }
    let name = &plane.environment;
    let finding = match (plane.base_repos.values().next(), &request.from) {
        (Some(base), _) => Diagnostic::error(
            "missing-base",
            format!(
                "the base of environment `{name}` has no template and no workload registration"
            ),
        )
        .at(&base.at.path_at)
        .label("nothing of a control plane is there")
        .help("check `path`, `branch` and `commit` of the BaseRepo"),
        (
            None,
            Origin::Folders {
                base_dir: Some(dir),
                ..
            },
        ) => Diagnostic::error(
            "missing-base",
            format!(
                "`{}` has no template and no workload registration",
                dir.display()
            ),
        )
        .help("give the folder that holds them: `--base-dir DIR`"),
        (None, from) => Diagnostic::error(
            "missing-base",
            format!("environment `{name}` has no base: no BaseRepo names the repository of its templates"),
        )
        .at(&cluster_type.reconciler.location)
        .label("this template is missing, and all others")
        .help(match from {
            Origin::Folders { .. } => {
                "give the folder with them, `--base-dir DIR`, or write a BaseRepo"
            }
            Origin::Repository { .. } => {
                "write a BaseRepo called `main` with `repo`, `branch`, `path` and `commit`"
            }
        }),
    };
    findings.push(finding);
}

/// A base that follows a branch: what is based on it changes without a change of the environment.
pub(super) fn unpinned(base: &BaseRepo) -> Diagnostic {
    let message = format!(
        "BaseRepo `{}` has no commit: it follows branch `{}`, so every change there is in effect at once",
        base.name, base.at.branch
    );
    let finding = Diagnostic::warning("unpinned-base", message).at(&base.location);
    finding.help(match base.name.as_str() {
        MAIN => "write the `commit` that is meant; `outhaul promote` moves it",
        _ => "write the `commit` that is meant",
    })
}
