//! Classify: what each folder of a platform repository is, from what is there and both renders.
//!
//! What comes in: the files that are there, and the control plane in both modes. What goes out: one
//! [`Folder`] for each assignment, each cluster type and everything else that lies there. It is pure
//! and knows nothing of other commits: what it cannot explain may still be torn or older.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Folder, Tree, Verdict, Views, evidence, excerpt};
use outhaul_plane::render::{PROMOTED_COMMIT_FILE, Rendering, namespace};
use outhaul_plane::schedule::AssignmentId;

/// What Kalypso calls its files, without the ending.
const FILES: [&str; 3] = ["namespace", "platform-config", "reconciler"];
/// The file in the folder of every cluster type.
const README: &str = "README.md";

/// Every folder, by path.
pub fn classify(there: &Tree, views: &Views) -> Vec<Folder> {
    let (right, compat) = (&views.right.rendering, &views.compat.rendering);
    let mut found: BTreeMap<String, Folder> = BTreeMap::new();
    let mut claimed: BTreeSet<String> = BTreeSet::from([PROMOTED_COMMIT_FILE.to_owned()]);
    for name in right.cluster_types.keys() {
        let path = format!("{name}/{README}");
        found.insert(name.clone(), readme(name, there.get(&path), right));
        claimed.insert(path);
    }
    for id in views.right.schedule.assignments.keys() {
        let path = format!("{}/{}", id.cluster_type, id.target);
        let files = folder(there, &path);
        claimed.extend(files.keys().map(|name| format!("{path}/{name}")));
        let one = assignment(
            id,
            &path,
            &files,
            [written(right, id), written(compat, id)],
            views,
        );
        found.insert(path, one);
    }
    for path in there.keys().filter(|path| !claimed.contains(*path)) {
        let (group, kalypso) = group(path, there, right);
        found.entry(group.clone()).or_insert_with(|| {
            if kalypso {
                Folder::new(&group, Verdict::Unexplained)
                    .because("Kalypso wrote it, and the control plane does not ask for it")
            } else {
                Folder::new(&group, Verdict::Foreign).because("not Kalypso's")
            }
        });
    }
    found.into_values().collect()
}

/// The files below a folder, by their names in it.
pub(crate) fn folder(tree: &Tree, path: &str) -> Tree {
    let start = format!("{path}/");
    tree.range(start.clone()..)
        .take_while(|(name, _)| name.starts_with(&start))
        .map(|(name, bytes)| (name[start.len()..].to_owned(), bytes.clone()))
        .collect()
}

/// What a rendering writes for an assignment; `None` when it is broken.
fn written(rendering: &Rendering, id: &AssignmentId) -> Option<Tree> {
    let group = rendering.cluster_types.get(&id.cluster_type)?;
    Some(group.assignments.get(&id.target)?.files.clone())
}

fn readme(name: &str, there: Option<&Vec<u8>>, right: &Rendering) -> Folder {
    let wanted = right.tree().remove(&format!("{name}/{README}"));
    match there {
        Some(bytes) if Some(bytes) == wanted.as_ref() => Folder::new(name, Verdict::Equal),
        Some(_) => Folder::new(name, Verdict::Unexplained).because("its README.md is another"),
        None => Folder::new(name, Verdict::Unexplained)
            .because("the cluster type is not there: its README.md is missing"),
    }
}

fn assignment(
    id: &AssignmentId,
    path: &str,
    there: &Tree,
    [right, compat]: [Option<Tree>; 2],
    views: &Views,
) -> Folder {
    if there.is_empty() {
        return missing(id, path, right.is_some(), views);
    }
    let mut one = Folder::new(path, Verdict::Differs);
    let mut found = evidence::Evidence::new();
    let older = older_namespace(id, views);
    let renamed = |tree: &Tree| tree_with(tree, &older.0, &older.1);
    if right.as_ref().is_some_and(|right| holds(there, right)) {
        // Equal, apart from what is left over.
    } else if let Some(same) = compat.as_ref().filter(|compat| holds(there, compat)) {
        one.compat = true;
        found = evidence::of(id, &only(there, same), right.as_ref(), views);
        if found.is_empty() {
            one.reasons.push(
                "`--compat` writes it as it is; it is not known which defect that is".to_owned(),
            );
        }
    } else if let Some(tree) = [right.as_ref(), compat.as_ref()]
        .into_iter()
        .flatten()
        .find(|tree| holds(there, &renamed(tree)))
    {
        one.older_namespace = true;
        one.compat = Some(tree) != right.as_ref();
        if one.compat {
            found = evidence::of(id, &only(there, tree), right.as_ref(), views);
        }
        one.reasons.push(format!(
            "namespace `{}` follows the rule from before 2023-10-03; now it is `{}`",
            older.1, older.0
        ));
    } else {
        one.verdict = Verdict::Unexplained;
        if right.is_none() {
            let findings = views.right.rendering.failures.get(id);
            let first = findings.and_then(|findings| findings.iter().next());
            one.reasons
                .extend(first.map(|finding| finding.message.clone()));
        }
    }
    let known = right.as_ref().or(compat.as_ref());
    let more = there
        .keys()
        .filter(|name| known.is_some_and(|known| !known.contains_key(*name)));
    let more: Vec<String> = more
        .filter(|name| {
            !compat
                .as_ref()
                .is_some_and(|compat| one.compat && compat.contains_key(*name))
        })
        .map(|name| format!("`{name}`"))
        .collect();
    if !more.is_empty() && one.verdict == Verdict::Differs {
        found.insert(14, format!("{} left over from before", more.join(", ")));
    }
    for (number, reason) in found {
        one.defects.push(number);
        one.reasons.push(format!("defect {number}: {reason}"));
    }
    if one.verdict == Verdict::Differs && one.reasons.is_empty() {
        one.verdict = Verdict::Equal;
        return one;
    }
    one.diff = excerpt::of(there, &right.unwrap_or_default());
    one
}

fn missing(id: &AssignmentId, path: &str, rendered: bool, views: &Views) -> Folder {
    let found = evidence::of_missing(id, views);
    if found.is_empty() {
        return Folder::new(path, Verdict::Unexplained).because("it is not there");
    }
    let mut one = Folder::new(path, Verdict::Missing);
    one.defects = found.keys().copied().collect();
    one.reasons.extend(
        found
            .iter()
            .map(|(number, reason)| format!("defect {number}: {reason}")),
    );
    if !rendered {
        one.reasons
            .push("Outhaul does not write it either until that is fixed".to_owned());
    }
    one
}

/// Whether every file that is written is there, byte for byte; more may be there.
pub(crate) fn holds(there: &Tree, written: &Tree) -> bool {
    written
        .iter()
        .all(|(name, bytes)| there.get(name) == Some(bytes))
}

/// The files of `there` that `written` has too.
fn only(there: &Tree, written: &Tree) -> Tree {
    let both = there.iter().filter(|(name, _)| written.contains_key(*name));
    both.map(|(name, bytes)| (name.clone(), bytes.clone()))
        .collect()
}

/// The namespace of an assignment, and what it was before Kalypso's rule changed.
fn older_namespace(id: &AssignmentId, views: &Views) -> (String, String) {
    let plane = &views.right.control_plane;
    let environment = &plane.environment;
    let workspace = plane
        .targets
        .get(&id.target)
        .map_or("", |target| &target.workspace);
    (
        namespace::whole(environment, &id.cluster_type, &id.target),
        format!("{environment}-{workspace}-{}", id.target),
    )
}

fn tree_with(tree: &Tree, from: &str, to: &str) -> Tree {
    let replaced = |bytes: &Vec<u8>| match std::str::from_utf8(bytes) {
        Ok(text) => text.replace(from, to).into_bytes(),
        Err(_) => bytes.clone(),
    };
    tree.iter()
        .map(|(name, bytes)| (name.clone(), replaced(bytes)))
        .collect()
}

/// The folder that a file which nothing claims belongs to, and whether Kalypso wrote that.
fn group(path: &str, there: &Tree, right: &Rendering) -> (String, bool) {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [top, ..] if top.starts_with('.') => ((*top).to_owned(), false),
        [file] => ((*file).to_owned(), false),
        [top, second, ..] => {
            let name = format!("{top}/{second}");
            let inside = folder(there, &name);
            let ours = |file: &String| {
                let stem = file.rsplit_once('.').map_or("", |(stem, _)| stem);
                FILES.contains(&stem)
            };
            let kalypso = inside.keys().any(ours);
            let is_readme = parts.len() == 2 && *second == README;
            let of_a_type = is_readme && has_assignments(top, there);
            if of_a_type {
                ((*top).to_owned(), true)
            } else if kalypso || right.cluster_types.contains_key(*top) {
                (name, kalypso)
            } else {
                ((*top).to_owned(), false)
            }
        }
        [] => (path.to_owned(), false),
    }
}

/// Whether a folder looks like a cluster type's: with assignments in it.
fn has_assignments(top: &str, there: &Tree) -> bool {
    folder(there, top).keys().any(|path| {
        path.split('/')
            .nth(1)
            .is_some_and(|file| file.starts_with("reconciler."))
    })
}
