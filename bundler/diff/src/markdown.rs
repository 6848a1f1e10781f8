//! Markdown: differences to be pasted into a pull request, in the dialect that forges show.
//!
//! What comes in: the [`Difference`] of each environment. What goes out: one heading and one line per
//! environment, and a section per cluster type that opens when it is asked for. What it is given it
//! shows as text, never as markup; places in a repository on GitHub become links. The whole is kept
//! below what a comment may hold; what is left out is counted.

use crate::text::MAX_NAMES;
use outhaul_kit::bounds::MAX_FORGE_TEXT_BYTES;
use std::fmt::Write as _;

use super::phrases;
use super::templates::TemplateAt;
use super::{ClusterTypeChange, Difference, Reason, ValueAt, Version};

/// Most rows of one table.
const MAX_ROWS: usize = 40;
/// Most lines of one file's diff.
const MAX_DIFF_LINES: usize = 40;
/// Most diffs in one cluster type.
const MAX_DIFFS: usize = 12;

/// Room for the line that says what was left out, in bytes.
const LEFT_OUT_BYTES: usize = 160;

/// Every environment.
pub fn markdown(differences: &[Difference]) -> String {
    markdown_within(differences, MAX_FORGE_TEXT_BYTES)
}

/// As [`markdown`], in `max_bytes` at most.
pub fn markdown_within(differences: &[Difference], max_bytes: usize) -> String {
    let max_bytes = max_bytes.saturating_sub(LEFT_OUT_BYTES);
    let mut out = String::new();
    let mut left_out = 0;
    for difference in differences {
        let title = heading(difference);
        if out.len() + title.len() > max_bytes {
            left_out += 1 + difference.cluster_types.len();
            continue;
        }
        out.push_str(&title);
        for (name, change) in &difference.cluster_types {
            let section = section(name, change, difference);
            if out.len() + section.len() > max_bytes {
                left_out += 1;
            } else {
                out.push_str(&section);
            }
        }
    }
    if left_out > 0 {
        let _ = writeln!(
            out,
            "\n**{} left out**, because a comment has a limit; `outhaul diff --output json` has all.",
            phrases::count(left_out, "section was", "sections were")
        );
    }
    out
}

fn heading(difference: &Difference) -> String {
    let environment = match difference.environment.as_str() {
        "" => String::new(),
        name => format!("{}: ", code(name)),
    };
    let title = format!(
        "### {environment}{} → {}\n\n",
        code(&difference.before.name),
        code(&difference.after.name)
    );
    let note = phrases::still_broken(difference)
        .map_or_else(String::new, |line| format!("{}.\n\n", html(&line)));
    if difference.cluster_types.is_empty() {
        return format!("{title}No difference: the rendered platform stays as it is.\n\n{note}");
    }
    format!("{title}**{}.**\n\n{note}", phrases::headline(difference))
}

fn section(name: &str, change: &ClusterTypeChange, difference: &Difference) -> String {
    let mut out = format!(
        "<details><summary><b>{}</b>: {}</summary>\n\n",
        html(name),
        phrases::summary(change)
    );
    let before = |at: &str| place(at, &difference.before);
    let after = |at: &str| place(at, &difference.after);
    broken(change, &mut out);
    let mut rows = Vec::new();
    for (mark, changes, at) in [
        ("added", &change.added, &after as &dyn Fn(&str) -> String),
        ("removed", &change.removed, &before),
    ] {
        rows.extend(
            changes
                .iter()
                .map(|c| format!("| {mark} | {} | {} |", code(&c.target), by(&c.policies, at))),
        );
    }
    for c in &change.reasons {
        let mut texts = Vec::new();
        if !c.added.is_empty() {
            texts.push(format!("now also {}", by(&c.added, &after)));
        }
        if !c.removed.is_empty() {
            texts.push(format!("no longer {}", by(&c.removed, &before)));
        }
        rows.push(format!(
            "| other policies | {} | {} |",
            code(&c.target),
            texts.join("; ")
        ));
    }
    for c in &change.selected {
        rows.push(format!(
            "| other sites | {} | {} |",
            code(&c.target),
            html(&c.sentence())
        ));
    }
    table(
        "| | assignment | policy |\n| --- | --- | --- |",
        &rows,
        &mut out,
    );
    let rows: Vec<String> = change
        .values
        .iter()
        .map(|value| {
            let targets: Vec<String> = value.targets.iter().map(|t| code(t)).collect();
            let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
            format!(
                "| {} | {} | {} | {} |",
                code(&value.key),
                value_and_place(value.before.as_ref(), &before),
                value_and_place(value.after.as_ref(), &after),
                phrases::some(&targets, MAX_NAMES)
            )
        })
        .collect();
    table(
        "| value | before | after | of |\n| --- | --- | --- | --- |",
        &rows,
        &mut out,
    );
    let rows: Vec<String> = change
        .templates
        .iter()
        .map(|template| {
            let named = |at: &Option<TemplateAt>, place: &dyn Fn(&str) -> String| {
                at.as_ref().map_or("none".to_owned(), |at| {
                    format!("{} ({})", code(&at.template), place(&at.at))
                })
            };
            let (old, new) = (
                named(&template.before, &before),
                named(&template.after, &after),
            );
            format!("| {} | {old} | {new} |", template.kind)
        })
        .collect();
    table(
        "| template | before | after |\n| --- | --- | --- |",
        &rows,
        &mut out,
    );
    files(change, &mut out);
    sites(change, &mut out);
    out.push_str("</details>\n\n");
    out
}

fn broken(change: &ClusterTypeChange, out: &mut String) {
    for broken in change.broken.iter().take(MAX_ROWS) {
        let word = match (broken.before.is_empty(), broken.after.is_empty()) {
            (true, false) => "breaks",
            (false, true) => "is repaired",
            _ => "is broken on both sides",
        };
        let reasons = if broken.after.is_empty() {
            &broken.before
        } else {
            &broken.after
        };
        let _ = writeln!(out, "- **{} {word}**", code(&broken.target));
        for reason in reasons.iter().take(MAX_ROWS) {
            let _ = writeln!(out, "  - {}", code(reason));
        }
    }
    if !change.broken.is_empty() {
        out.push('\n');
    }
}

fn files(change: &ClusterTypeChange, out: &mut String) {
    let groups = phrases::alike(&change.files);
    let rows: Vec<String> = groups
        .iter()
        .map(|(file, paths)| {
            let paths: Vec<String> = paths.iter().map(|path| code(path)).collect();
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let kind = match file.kind {
                super::files::FileKind::Added => "added",
                super::files::FileKind::Changed => "changed",
                super::files::FileKind::Removed => "removed",
            };
            let lines = format!("+{} −{}", file.lines_added, file.lines_removed);
            let sites = html(&phrases::on_sites(file));
            format!(
                "| {kind} | {}{sites} | {lines} |",
                phrases::some(&paths, MAX_NAMES)
            )
        })
        .collect();
    table("| | file | lines |\n| --- | --- | --- |", &rows, out);
    let mut drawn = 0;
    for (file, paths) in groups.iter().filter(|(file, _)| !file.diff.is_empty()) {
        drawn += 1;
        if drawn > MAX_DIFFS {
            continue;
        }
        // A fence that nothing inside can end.
        let longest = file
            .diff
            .iter()
            .map(|line| backticks(line))
            .max()
            .unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let more = match paths.len() {
            1 => String::new(),
            many => format!(" and {} more", phrases::grouped(many - 1)),
        };
        let _ = writeln!(
            out,
            "{fence}diff\n--- {}{more}",
            paths.first().unwrap_or(&"")
        );
        for line in file.diff.iter().take(MAX_DIFF_LINES) {
            let _ = writeln!(out, "{line}");
        }
        if file.diff.len() > MAX_DIFF_LINES {
            let _ = writeln!(out, "… {} more lines", file.diff.len() - MAX_DIFF_LINES);
        }
        let _ = writeln!(out, "{fence}\n");
    }
    if drawn > MAX_DIFFS {
        let _ = writeln!(out, "… and {} more diffs.\n", drawn - MAX_DIFFS);
    }
}

fn sites(change: &ClusterTypeChange, out: &mut String) {
    let sites = &change.sites;
    if sites.count == 0 {
        return;
    }
    let names: Vec<String> = sites.names.iter().map(|name| code(name)).collect();
    let more = sites.count - names.len();
    let more = if more > 0 {
        format!(" and {} more", phrases::grouped(more))
    } else {
        String::new()
    };
    let (count, of) = (phrases::grouped(sites.count), phrases::grouped(sites.of));
    let _ = writeln!(
        out,
        "Sites touched: {count} of {of}: {}{more}.\n",
        names.join(", ")
    );
    for own in &sites.own {
        let _ = writeln!(out, "- {}: {}", code(&own.site), html(&own.what));
    }
    if !sites.own.is_empty() {
        out.push('\n');
    }
}

fn table(head: &str, rows: &[String], out: &mut String) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "{head}");
    for row in rows.iter().take(MAX_ROWS) {
        let _ = writeln!(out, "{row}");
    }
    out.push('\n');
    if rows.len() > MAX_ROWS {
        let _ = writeln!(
            out,
            "… and {} more.\n",
            phrases::grouped(rows.len() - MAX_ROWS)
        );
    }
}

fn value_and_place(value: Option<&ValueAt>, at: &dyn Fn(&str) -> String) -> String {
    value.map_or("not set".into(), |value| {
        format!(
            "{} from {} ({})",
            code(&value.value),
            code(&value.container),
            at(&value.at)
        )
    })
}

fn by(reasons: &[Reason], place: &dyn Fn(&str) -> String) -> String {
    let texts: Vec<String> = reasons
        .iter()
        .map(|reason| match &reason.at {
            Some(at) => format!("{} ({})", code(&reason.policy), place(at)),
            None => code(&reason.policy),
        })
        .collect();
    texts.join(", ")
}

/// A place without the repository and commit that the reader knows; on GitHub as a link.
fn place(at: &str, version: &Version) -> String {
    let Some((path, source)) = phrases::known(at, version) else {
        return code(at);
    };
    let (file, line) = path.rsplit_once(':').unwrap_or((path, "1"));
    let repo = source.repo.trim_end_matches('/').trim_end_matches(".git");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    if repo.starts_with("https://github.com/") && repo.chars().chain(file.chars()).all(plain) {
        let commit = &source.commit;
        return format!("[{}]({repo}/blob/{commit}/{file}#L{line})", code(path));
    }
    code(path)
}

fn backticks(text: &str) -> usize {
    let runs = text.split(|c| c != '`');
    runs.map(str::len).max().unwrap_or(0)
}

/// Text as it is, also in a table: a bar would end the cell.
fn code(text: &str) -> String {
    let text = phrases::plain(text).replace('|', "\\|").replace('\n', " ");
    let fence = "`".repeat(backticks(&text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{pad}{text}{pad}{fence}")
}

fn html(text: &str) -> String {
    phrases::plain(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
