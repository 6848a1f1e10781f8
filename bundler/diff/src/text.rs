//! Text: a difference as people read it in a terminal.
//!
//! What comes in: a [`Difference`]. What goes out: text with everything that counts and a bound on what
//! repeats itself; `--output json` has all of it.

use std::fmt::Write as _;

use super::phrases;
use super::templates::TemplateAt;
use super::{ClusterTypeChange, Difference, Reason, ValueAt, Version};

/// Most lines of one kind in one cluster type.
const MAX_ENTRIES: usize = 40;
/// Most lines of one file's diff.
const MAX_DIFF_LINES: usize = 30;
/// Most targets or paths in one line, or in one cell of Markdown.
pub(crate) const MAX_NAMES: usize = 4;

/// The whole difference.
pub fn text(difference: &Difference) -> String {
    let mut out = String::new();
    let title = format!(
        "{}: {} -> {}",
        difference.environment, difference.before.name, difference.after.name
    );
    let title = title.trim_start_matches(": ");
    if difference.cluster_types.is_empty() {
        let _ = writeln!(out, "{title}: no difference");
        still_broken(difference, &mut out);
        return out;
    }
    let _ = writeln!(out, "{title}\n{}", phrases::headline(difference));
    for (name, change) in &difference.cluster_types {
        let _ = writeln!(out, "\n{name}: {}", phrases::summary(change));
        cluster_type(change, difference, &mut out);
    }
    still_broken(difference, &mut out);
    out
}

fn still_broken(difference: &Difference, out: &mut String) {
    if let Some(line) = phrases::still_broken(difference) {
        let _ = writeln!(out, "note: {line}");
    }
}

fn cluster_type(change: &ClusterTypeChange, difference: &Difference, out: &mut String) {
    let (before, after) = (&difference.before, &difference.after);
    let mut lines: Vec<String> = Vec::new();
    for broken in &change.broken {
        let word = match (broken.before.is_empty(), broken.after.is_empty()) {
            (true, false) => "breaks",
            (false, true) => "is repaired",
            _ => "is broken on both sides",
        };
        lines.push(format!("  ! {} {word}", broken.target));
        let reasons = if broken.after.is_empty() {
            &broken.before
        } else {
            &broken.after
        };
        lines.extend(reasons.iter().map(|reason| format!("      {reason}")));
    }
    bounded(&mut lines, out);
    for (mark, changes, side) in [('+', &change.added, after), ('-', &change.removed, before)] {
        lines.extend(
            changes
                .iter()
                .map(|change| format!("  {mark} {}{}", change.target, by(&change.policies, side))),
        );
    }
    bounded(&mut lines, out);
    for change in &change.reasons {
        let now = |word: &str, reasons: &[Reason], side: &Version| match reasons {
            [] => String::new(),
            reasons => format!(", {word}{}", by(reasons, side)),
        };
        lines.push(format!(
            "  = {}{}{}",
            change.target,
            now("now also", &change.added, after),
            now("no longer", &change.removed, before)
        ));
    }
    for change in &change.selected {
        lines.push(format!("  = {}, {}", change.target, change.sentence()));
    }
    bounded(&mut lines, out);
    for value in &change.values {
        let targets: Vec<&str> = value.targets.iter().map(String::as_str).collect();
        lines.push(format!(
            "  ~ {}: {} -> {}  ({})",
            value.key,
            value_or_unset(value.before.as_ref()),
            value_or_unset(value.after.as_ref()),
            phrases::some(&targets, MAX_NAMES)
        ));
        for (word, at, side) in [("was", &value.before, before), ("now", &value.after, after)] {
            if let Some(at) = at {
                let place = short(&at.at, side);
                lines.push(format!("      {word} from `{}` ({place})", at.container));
            }
        }
    }
    bounded(&mut lines, out);
    templates(change, difference, &mut lines);
    bounded(&mut lines, out);
    files(change, &mut lines);
    if lines.len() > MAX_ENTRIES * 4 {
        let more = lines.len() - MAX_ENTRIES * 4;
        lines.truncate(MAX_ENTRIES * 4);
        lines.push(format!("  … {more} more lines"));
    }
    for line in lines {
        let _ = writeln!(out, "{line}");
    }
    sites(change, out);
}

fn templates(change: &ClusterTypeChange, difference: &Difference, lines: &mut Vec<String>) {
    let (before, after) = (&difference.before, &difference.after);
    for template in &change.templates {
        let named = |at: &Option<TemplateAt>, side: &Version| {
            at.as_ref().map_or("none".to_owned(), |at| {
                format!("`{}` ({})", at.template, short(&at.at, side))
            })
        };
        lines.push(format!(
            "  % {} template: {} -> {}",
            template.kind,
            named(&template.before, before),
            named(&template.after, after)
        ));
    }
}

fn files(change: &ClusterTypeChange, lines: &mut Vec<String>) {
    for (file, paths) in phrases::alike(&change.files) {
        lines.push(format!(
            "  {} {}{} (+{} -{})",
            file.kind.letter(),
            phrases::some(&paths, MAX_NAMES),
            phrases::on_sites(file),
            file.lines_added,
            file.lines_removed
        ));
        lines.extend(
            file.diff
                .iter()
                .take(MAX_DIFF_LINES)
                .map(|line| format!("      {line}")),
        );
        if file.diff.len() > MAX_DIFF_LINES {
            lines.push(format!(
                "      … {} more lines",
                file.diff.len() - MAX_DIFF_LINES
            ));
        }
    }
}

fn sites(change: &ClusterTypeChange, out: &mut String) {
    let sites = &change.sites;
    if sites.count > 0 {
        let names: Vec<&str> = sites.names.iter().map(String::as_str).collect();
        let more = sites.count - names.len();
        let more = if more > 0 {
            format!(" and {} more", phrases::grouped(more))
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "  sites touched: {} of {}: {}{more}",
            phrases::grouped(sites.count),
            phrases::grouped(sites.of),
            names.join(", ")
        );
    }
    for own in &sites.own {
        let _ = writeln!(out, "      {}: {}", own.site, own.what);
    }
}

fn bounded(lines: &mut Vec<String>, out: &mut String) {
    let most = MAX_ENTRIES * 2;
    for line in lines.iter().take(most) {
        let _ = writeln!(out, "{line}");
    }
    if lines.len() > most {
        let _ = writeln!(out, "  … {} more lines", lines.len() - most);
    }
    lines.clear();
}

fn value_or_unset(value: Option<&ValueAt>) -> &str {
    value.map_or("(not set)", |value| value.value.as_str())
}

fn short<'a>(at: &'a str, side: &'a Version) -> &'a str {
    phrases::known(at, side).map_or(at, |(path, _)| path)
}

fn by(reasons: &[Reason], side: &Version) -> String {
    let texts: Vec<String> = reasons
        .iter()
        .map(|reason| match &reason.at {
            Some(at) => format!("`{}` ({})", reason.policy, short(at, side)),
            None => format!("`{}`", reason.policy),
        })
        .collect();
    if texts.is_empty() {
        String::new()
    } else {
        format!(" by {}", texts.join(", "))
    }
}
