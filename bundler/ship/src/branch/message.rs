//! What people read of a publication: the commit's message, and a pull request's title and text.
//!
//! What comes in: the plan and what it was made for. What goes out: text; the commit's ends in trailers
//! (`Outhaul-…: …`) that programs may rely on. The same plan gives the same text: no time, no path of
//! this machine.

use outhaul_kit::bounds::MAX_FORGE_TEXT_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use outhaul_bundle::index::Snapshot;

use super::{Desired, plan::CommitChanges};
use outhaul_diff::Difference;
use outhaul_diff::markdown::markdown_within;

/// The trailer that says a commit is Outhaul's, and for which environment.
pub const ENVIRONMENT_TRAILER: &str = "Outhaul-Environment";
/// Most paths that a text lists.
const MAX_LISTED: usize = 50;

/// The commit's message.
pub fn commit(desired: &Desired<'_>, plan: &CommitChanges) -> String {
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
    if let Some(given) = desired.overridden {
        let _ = writeln!(
            text,
            "Outhaul-Override-By: {}\nOuthaul-Override-Reason: {}",
            given.by, given.reason
        );
    }
    text
}

/// The first line, of a commit or a pull request.
pub fn title(desired: &Desired<'_>, plan: &CommitChanges) -> String {
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

/// A pull request's text, in Markdown: what changes with its provenance where `change` knows, or a table
/// of the files and why that is all; and the commits. At most [`MAX_FORGE_TEXT_BYTES`]; what is left out is reported.
pub fn body(
    desired: &Desired<'_>,
    plan: &CommitChanges,
    change: &Result<Difference, String>,
) -> String {
    let mut end = String::new();
    for (title, paths) in [
        (
            "Changed by hand before, now as rendered again",
            &plan.by_hand,
        ),
        ("Left as it was, because it cannot be rendered", &kept(plan)),
    ] {
        if !paths.is_empty() {
            let _ = writeln!(end, "\n{title}:\n");
            list(&mut end, "- ", paths);
        }
    }
    if let Some(given) = desired.overridden {
        // Nothing in it is markup.
        let reported = given.to_string().replace('`', "\"").replace('<', "&lt;");
        let _ = writeln!(end, "\n**The {reported}**");
    }
    commits(&mut end, desired.snapshot);
    let mut text = format!("What `{}` renders to now.\n", desired.environment);
    match change {
        Ok(difference) => {
            text.push('\n');
            let room = MAX_FORGE_TEXT_BYTES.saturating_sub(text.len() + end.len());
            let reported = markdown_within(std::slice::from_ref(difference), room);
            text.push_str(reported.trim_end());
            text.push('\n');
        }
        Err(why) => {
            files(&mut text, plan);
            if !why.is_empty() {
                // Nothing in it is markup.
                let why = why
                    .replace('\n', " ")
                    .replace('`', "\"")
                    .replace('<', "&lt;");
                let _ = writeln!(
                    text,
                    "\nWhich values and policies are behind it is not shown: {why}."
                );
            }
        }
    }
    text.push_str(&end);
    cut(text)
}

/// The table of what changes, by cluster type, and the files.
fn files(text: &mut String, plan: &CommitChanges) {
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
    let rows = rows.iter().filter(|(group, _)| !group.starts_with('.'));
    for (group, [added, changed, removed]) in rows.clone().take(MAX_LISTED) {
        let _ = writeln!(text, "| `{group}` | {added} | {changed} | {removed} |");
    }
    let more = rows.count().saturating_sub(MAX_LISTED);
    if more > 0 {
        let _ = writeln!(text, "\nand {more} more cluster types");
    }
    for (title, paths) in [
        ("Added", &plan.added),
        ("Changed", &plan.changed),
        ("Removed", &plan.removed),
    ] {
        if !paths.is_empty() {
            let _ = writeln!(text, "\n{title}:\n");
            list(text, "- ", paths);
        }
    }
}

/// From which commits it was rendered.
fn commits(text: &mut String, snapshot: &Snapshot) {
    let _ = writeln!(text, "\nRendered from snapshot `{}`:\n", snapshot.digest);
    let all = [&snapshot.environment, &snapshot.base]
        .into_iter()
        .chain(&snapshot.workloads);
    for source in all.clone().take(MAX_LISTED) {
        let repo = match source.repo.as_str() {
            "" => String::new(),
            repo => format!(" of {repo}"),
        };
        let _ = writeln!(text, "- `{}`: `{}`{repo}", source.name, source.commit);
    }
    let more = all.count().saturating_sub(MAX_LISTED);
    if more > 0 {
        let _ = writeln!(
            text,
            "- and {more} more, all of them in `{}` of the branch",
            super::RECORD_PATH
        );
    }
}

/// Whole lines of `text`, as many as a forge takes.
fn cut(text: String) -> String {
    if text.len() <= MAX_FORGE_TEXT_BYTES {
        return text;
    }
    let mut kept = String::new();
    for line in text.split_inclusive('\n') {
        if kept.len() + line.len() > MAX_FORGE_TEXT_BYTES {
            break;
        }
        kept.push_str(line);
    }
    let lines = text.lines().count() - kept.lines().count();
    let _ = writeln!(
        kept,
        "\n**{lines} lines left out**, because a pull request's text has a limit."
    );
    kept
}

fn kept(plan: &CommitChanges) -> BTreeSet<String> {
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

#[cfg(test)]
mod tests;
