//! What people read of a publication: the commit's message, and a pull request's title and text.
//!
//! What comes in: the plan and what it was made for. What goes out: text; the commit's ends in trailers
//! (`Outhaul-…: …`) that programs may rely on. The same plan gives the same text: no time, no path of
//! this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{Desired, plan::Plan};

/// The trailer that says a commit is Outhaul's, and for which environment.
pub const ENVIRONMENT_TRAILER: &str = "Outhaul-Environment";
/// Most paths that a text lists.
const MAX_LISTED: usize = 50;

/// The commit's message.
pub fn commit(desired: &Desired<'_>, plan: &Plan) -> String {
    let mut text = format!("{}\n", title(desired, plan));
    if !plan.by_hand.is_empty() {
        text.push_str("\nChanged by hand before, now as rendered again:\n");
        list(&mut text, "- ", &plan.by_hand);
    }
    let kept = kept(plan);
    if !kept.is_empty() {
        text.push_str("\nLeft as it was, because it cannot be rendered:\n");
        list(&mut text, "- ", &kept);
    }
    let snapshot = desired.snapshot;
    let _ = write!(
        text,
        "\n{ENVIRONMENT_TRAILER}: {}\nOuthaul-Snapshot: {}\nOuthaul-Environment-Commit: {}\nOuthaul-Base-Commit: {}\n",
        desired.environment, snapshot.digest, snapshot.environment.commit, snapshot.base.commit
    );
    if let Some(promoted) = desired.promoted {
        let _ = writeln!(text, "Outhaul-Promoted-Commit: {promoted}");
    }
    text
}

/// The first line, of a commit or a pull request.
pub fn title(desired: &Desired<'_>, plan: &Plan) -> String {
    let files = plan.added.len() + plan.changed.len() + plan.removed.len();
    let types = plan.cluster_types().len();
    let environment = desired.environment;
    if files == 0 {
        return format!("Render {environment}: no file changes, a new record");
    }
    format!(
        "Render {environment}: {} on {}",
        count(files, "file"),
        count(types, "cluster type")
    )
}

/// A pull request's text, in Markdown.
pub fn body(desired: &Desired<'_>, plan: &Plan) -> String {
    let mut text = format!("What `{}` renders to now.\n", desired.environment);
    let mut rows: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for (column, paths) in [&plan.added, &plan.changed, &plan.removed]
        .into_iter()
        .enumerate()
    {
        for path in paths {
            let group = path.split_once('/').map_or("", |(first, _)| first);
            if let Some(cell) = rows.entry(group).or_default().get_mut(column) {
                *cell += 1;
            }
        }
    }
    text.push_str("\n| cluster type | added | changed | removed |\n| --- | ---: | ---: | ---: |\n");
    for (group, [added, changed, removed]) in rows.iter().filter(|(g, _)| !g.starts_with('.')) {
        let _ = writeln!(text, "| `{group}` | {added} | {changed} | {removed} |");
    }
    for (title, paths) in [
        ("Added", &plan.added),
        ("Changed", &plan.changed),
        ("Removed", &plan.removed),
        (
            "Changed by hand before, now as rendered again",
            &plan.by_hand,
        ),
        ("Left as it was, because it cannot be rendered", &kept(plan)),
    ] {
        if !paths.is_empty() {
            let _ = writeln!(text, "\n{title}:\n");
            list(&mut text, "- ", paths);
        }
    }
    let snapshot = desired.snapshot;
    let _ = writeln!(text, "\nRendered from snapshot `{}`:\n", snapshot.digest);
    for source in [&snapshot.environment, &snapshot.base]
        .into_iter()
        .chain(&snapshot.workloads)
    {
        let repo = match source.repo.as_str() {
            "" => String::new(),
            repo => format!(" of {repo}"),
        };
        let _ = writeln!(text, "- `{}`: `{}`{repo}", source.name, source.commit);
    }
    text
}

fn kept(plan: &Plan) -> BTreeSet<String> {
    let kept = plan.isolation.kept.keys();
    kept.map(ToString::to_string).collect()
}

fn list(text: &mut String, bullet: &str, paths: &BTreeSet<String>) {
    for path in paths.iter().take(MAX_LISTED) {
        let _ = writeln!(text, "{bullet}`{path}`");
    }
    if paths.len() > MAX_LISTED {
        let _ = writeln!(text, "{bullet}and {} more", paths.len() - MAX_LISTED);
    }
}

fn count(number: usize, thing: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{s}")
}
