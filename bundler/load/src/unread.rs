//! What is not read, and what is read that nobody fixed: symbolic links, objects in files and folders that are not read, edits that are
//! not committed, a base that is missing or follows a branch.
//!
//! What comes in: opened sources, and what was read of them. What goes out: a finding for each, with the
//! cause and not what follows from it. It changes nothing about what is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use super::{ENVIRONMENTS, LoadRequest, MAIN, Origin};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, SourceFile};
use outhaul_control::kinds::{self, KALYPSO, OUTHAUL, Object};
use outhaul_control::model::BaseRepo;
use outhaul_git::source::{GitReference, OpenedSource, SourceError, TreeLimits};
use outhaul_kit::format_count::format_count;

/// Files that are named before the rest is counted.
const MAX_NAMED: usize = 5;

/// Whether a file is read, by its ending.
pub(super) fn is_yaml(path: &str) -> bool {
    path.ends_with(".yaml") || path.ends_with(".yml")
}

/// Links among the files of a control plane; in the repository of a team only those that would be read,
/// since links are common in source code.
pub(super) fn links(opened: &OpenedSource, paths: &[String], of_a_team: bool) -> Vec<Diagnostic> {
    let matters = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let yaml = is_yaml(name);
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

/// Most bytes of a file that are looked at.
const LOOKED_AT_BYTES: u64 = 64 << 10;

/// Most files that are passed over because they cannot be read.
const MAX_PASSED_OVER: usize = 8;

/// Of the files `below` that are not read because of their endings, those that hold objects of a control plane. `full` gives a path from
/// the root. One that cannot be read is passed over: nothing depends on it. After too many of them the rest is counted.
pub(super) fn of_our_kinds(
    opened: &OpenedSource,
    path: &str,
    mut below: BTreeSet<String>,
    full: &dyn Fn(&str) -> String,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for passed_over in 0.. {
        if below.is_empty() {
            break;
        }
        if passed_over > MAX_PASSED_OVER {
            found.push(not_looked_at(passed_over + below.len()));
            break;
        }
        let wanted = |path: &str| below.contains(path);
        let mut done = BTreeSet::new();
        let looked =
            opened.each_streamed::<SourceError>(path, &wanted, &TreeLimits::PAYLOAD, &mut |file| {
                let mut start = Vec::new();
                let read = file.content.take(LOOKED_AT_BYTES).read_to_end(&mut start);
                read.map_err(|error| SourceError::Unreadable {
                    path: PathBuf::from(&file.path),
                    error,
                })?;
                let start = String::from_utf8_lossy(&start);
                let group = match is_settings(&file.path) {
                    true => group_of_object(&start),
                    false => group_of(&start),
                };
                if let Some(group) = group {
                    found.push(unread_object(&opened.file_name(&full(&file.path)), group));
                }
                done.insert(file.path);
                Ok(())
            });
        below.retain(|path| !done.contains(path));
        // They come in order: the first that is left is the one that cannot be read.
        if looked.is_ok() || below.pop_first().is_none() {
            break;
        }
    }
    found
}

fn not_looked_at(count: usize) -> Diagnostic {
    let files = format_count(count, "file", "files");
    let message = format!(
        "{files} whose ending is not `.yaml` or `.yml` were not checked: too many of them cannot be read"
    );
    Diagnostic::warning("file-ending", message).help(
        "see that no object of a control plane is in them; what is too large, or is not an object, is listed in `.sourceignore`",
    )
}

/// Whether a file may write about objects without being one, by its ending: settings of any kind.
fn is_settings(path: &str) -> bool {
    [".conf", ".cfg"]
        .iter()
        .any(|end| path.to_ascii_lowercase().ends_with(end))
}

/// The group of the first object in a text that may hold anything else: of a line that states it.
fn group_of_object(start: &str) -> Option<&'static str> {
    let stated = |line: &str| {
        let line = line.trim_start_matches([' ', '-', '{', '"', '\'']);
        named(line.strip_prefix("apiVersion")?)
    };
    start.lines().find_map(stated)
}

fn named(text: &str) -> Option<&'static str> {
    [OUTHAUL, KALYPSO]
        .into_iter()
        .find(|one| text.contains(one))
}

/// The group of the object that a text begins with. A JSON Schema names the groups of the kinds that it is for, and is no object.
fn group_of(start: &str) -> Option<&'static str> {
    let mut version = None;
    let mut json = serde_json::Deserializer::from_str(start);
    let read = json.deserialize_map(TopLevel(&mut version));
    let is_schema = start.contains("\"$schema\"");
    match (version, read) {
        // A list of any kind holds others.
        (Some(version), _) => named(&version).or_else(|| named(start).filter(|_| !is_schema)),
        (None, Ok(())) => None,
        // It is longer than what is looked at.
        (None, Err(error)) if error.is_eof() => None,
        (None, Err(_)) if is_schema => None,
        (None, Err(_)) => named(start),
    }
}

/// Takes the `apiVersion` of a JSON object, also of one that is cut off behind it.
struct TopLevel<'a>(&'a mut Option<String>);

impl<'de> Visitor<'de> for TopLevel<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "apiVersion" {
                *self.0 = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

fn unread_object(name: &str, group: &str) -> Diagnostic {
    let message = format!(
        "`{name}` has an object of `{group}` and is not read: its ending is not `.yaml` or `.yml`"
    );
    Diagnostic::warning("file-ending", message)
        .help("rename it if it is meant (JSON is YAML, too), or list it in `.sourceignore`")
}

/// Objects in the folder of the list of environments, in a place that is read without it: they have no effect. What comes behind a file
/// that cannot be read is not looked at: nothing depends on it here, and whoever reads the list says why it cannot be read.
pub(super) fn beside_the_list(
    opened: &OpenedSource,
    path: &str,
    full: &dyn Fn(&str) -> String,
) -> Vec<Diagnostic> {
    let is_listed = |below: &str| {
        let mut folders = below.rsplit('/').skip(1);
        folders.any(|folder| folder == ENVIRONMENTS) && is_yaml(below)
    };
    let mut files = Vec::new();
    let looked = opened.each::<SourceError>(path, &is_listed, &TreeLimits::YAML, &mut |file| {
        files.push(file);
        Ok(())
    });
    drop(looked);
    let mut found = Vec::new();
    for file in files {
        let name = opened.file_name(&full(&file.path));
        let text = String::from_utf8_lossy(&file.bytes).into_owned();
        let file = Arc::new(SourceFile { name, text });
        let objects = kinds::read_file(&file, &mut Diagnostics::new());
        found.extend(objects.iter().filter_map(in_the_list));
    }
    found
}

/// The finding about an object in the folder of the list of environments that is nothing of the list.
pub(super) fn in_the_list(object: &Object) -> Option<Diagnostic> {
    if matches!(object, Object::Environment(_) | Object::Promotion(_)) {
        return None;
    }
    let message = format!(
        "{} `{}` is not read: `{ENVIRONMENTS}/` lists environments and promotion policies, and nothing else in it has an effect",
        object.kind(),
        object.name()
    );
    let finding = Diagnostic::warning("misplaced-object", message).at(object.location());
    Some(finding.help(
        "move it out of that folder, to the branch of the environment that it is for, or to the base where it is for all",
    ))
}

/// Working copies with edits that are not in what was read of them.
pub fn uncommitted<'o>(
    opened: impl Iterator<Item = (&'o GitReference, &'o OpenedSource)>,
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
