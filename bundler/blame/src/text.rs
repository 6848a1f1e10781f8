//! A blame as people read it.
//!
//! What comes in: faults, and what was found of each. What goes out: text. It is pure.

use std::fmt::Write as _;

use outhaul_bundle::hub_api::{FaultKind, SiteFault, SiteFaults, SiteLook};

use crate::{Blame, Cause, CommitCause};
use outhaul_diff::ValueChange;
use outhaul_kit::format_count::format_count;
use outhaul_kit::text::is_hidden;

/// Values shown of one commit.
const VALUES_SHOWN: usize = 8;
/// Characters shown of a subject.
const SUBJECT_SHOWN: usize = 100;
/// Causes shown; all of them are in the JSON.
const CAUSES_SHOWN: usize = 10;

/// What a site or a person wrote, as part of a line: it makes no lines of its own.
fn line(text: &str) -> String {
    let words = text.split(|letter: char| letter.is_whitespace() || letter.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Every fault of a site, with its causes.
pub fn text(told: &SiteFaults, answers: &[(&SiteFault, Blame)]) -> String {
    let mut out = String::new();
    let place = line(&format!(
        "{} ({}/{})",
        told.site, told.environment, told.cluster_type
    ));
    if answers.is_empty() {
        let _ = match told.reports_read {
            0 => writeln!(out, "{place}: it never reported, so nothing is known"),
            read => writeln!(
                out,
                "{place}: its newest reports show no fault ({} read)",
                format_count(
                    usize::try_from(read).unwrap_or(usize::MAX),
                    "report",
                    "reports"
                )
            ),
        };
        return out;
    }
    for (fault, blame) in answers {
        let _ = writeln!(out, "{place}: {}", headline(fault));
        for detail in &fault.bad.details {
            let _ = writeln!(
                out,
                "  `{}` {}: {}",
                line(&detail.assignment),
                line(&detail.status),
                line(&detail.message)
            );
            for step in detail.steps.iter().take(VALUES_SHOWN) {
                let _ = writeln!(out, "    {}", line(step));
            }
        }
        let _ = writeln!(out, "  last well:      {}", last_well(told, fault));
        let _ = writeln!(out, "  not well since: {}", look(&fault.bad));
        if fault.left {
            let _ = writeln!(
                out,
                "  now:            the site left it and runs an older bundle"
            );
        }
        let _ = writeln!(out, "  between:        {}", between(fault, blame));
        if !fault.no_longer_kept.is_empty() {
            let _ = writeln!(
                out,
                "  no longer kept: {}: it may have broken before the report that is named",
                numbers(&fault.no_longer_kept)
            );
        }
        for act in &fault.acts {
            let _ = writeln!(
                out,
                "  on site:        report {}, {}: {}",
                act.report,
                act.at,
                line(&act.text)
            );
        }
        if !blame.assignments.is_empty() {
            let _ = writeln!(
                out,
                "  looked at:      {}",
                line(&blame.assignments.join(", "))
            );
        }
        out.push('\n');
        for cause in blame.causes.iter().take(CAUSES_SHOWN) {
            self::cause(&mut out, cause);
        }
        if let Some(rest @ [next, ..]) = blame.causes.get(CAUSES_SHOWN..) {
            let _ = writeln!(
                out,
                "        and {} more, each with {} % or less (`--output json` has them)",
                rest.len(),
                next.confidence
            );
        }
        if blame.causes.is_empty() {
            out.push_str("  no cause can be named\n");
        }
        if let Some(why) = &blame.incomplete {
            let _ = writeln!(out, "  not all commits were searched: {}", line(why));
        }
        for note in &blame.notes {
            let _ = writeln!(out, "  note: {}", line(note));
        }
        out.push('\n');
    }
    out
}

fn headline(fault: &SiteFault) -> String {
    let bundle = fault.bad.bundle;
    let names = line(&fault.assignments.join(", "));
    let message = match line(&fault.bad.message).as_str() {
        "" => String::new(),
        message => format!(": {message}"),
    };
    match fault.kind {
        FaultKind::Bundle if fault.left => format!("bundle {bundle} was left again{message}"),
        FaultKind::Bundle => format!("bundle {bundle} failed{message}"),
        FaultKind::Failed => format!("{names} of bundle {bundle} failed{message}"),
        FaultKind::Drifted => {
            format!("{names} of bundle {bundle} is not as it was applied{message}")
        }
        FaultKind::Unknown => format!("bundle {bundle} is not well{message}"),
    }
}

fn look(look: &SiteLook) -> String {
    let clock = match look.clock_trusted {
        true => "",
        false => " (by the site's clock, which nothing confirmed)",
    };
    format!(
        "report {}, {}{clock}: bundle {}",
        look.report, look.at, look.bundle
    )
}

fn last_well(told: &SiteFaults, fault: &SiteFault) -> String {
    match &fault.good {
        Some(good) => look(good),
        None if told.older_unread => format!(
            "not in the newest {} reports; older ones were not read",
            told.reports_read
        ),
        None if !fault.no_longer_kept.is_empty() => {
            "in none of the reports that the hub still keeps; older ones were removed by its rule"
                .to_owned()
        }
        None => "in no report".to_owned(),
    }
}

fn between(fault: &SiteFault, blame: &Blame) -> String {
    let mut parts: Vec<String> = blame
        .commits
        .iter()
        .map(|(source, count)| {
            format!(
                "{} of `{}`",
                format_count(*count, "commit", "commits"),
                line(source)
            )
        })
        .collect();
    if parts.is_empty() {
        let is_known = blame.incomplete.is_none() && fault.good.is_some();
        let text = match is_known {
            true => "no commits",
            false => "which commits is not known",
        };
        parts.push(text.to_owned());
    }
    parts.push(match fault.acts.len() {
        0 => "the site reports nothing that was done there".to_owned(),
        many => format!("{} on site", format_count(many, "act", "acts")),
    });
    parts.join(", ")
}

/// `report 3`, `reports 3, 5 to 9`.
fn numbers(ranges: &[(u64, u64)]) -> String {
    let one = |(from, to): &(u64, u64)| match from == to {
        true => from.to_string(),
        false => format!("{from} to {to}"),
    };
    let word = match ranges {
        [(from, to)] if from == to => "report",
        _ => "reports",
    };
    let all: Vec<String> = ranges.iter().map(one).collect();
    format!("{word} {}", all.join(", "))
}

fn cause(out: &mut String, cause: &Cause) {
    let share = match cause.confidence {
        0 => "<1".to_owned(),
        share => share.to_string(),
    };
    let _ = writeln!(out, "{share:>4} %  {}", line(&cause.text));
    if let Some(commit) = &cause.commit {
        let branch = commit
            .branch
            .as_ref()
            .map(|branch| format!(", branch `{}`", line(branch)))
            .unwrap_or_default();
        let _ = writeln!(
            out,
            "        {}, {}, {}{branch}",
            line(&commit.author),
            line(&commit.at),
            line(&commit.repo)
        );
        if commit.is_merge {
            out.push_str("        a merge commit: the change is in the branch that it merged\n");
        }
        for name in &commit.removed {
            let _ = writeln!(
                out,
                "        {} does not come to this site any more",
                line(name)
            );
        }
        for policy in &commit.policies {
            let at = policy.at.as_deref().map(place).unwrap_or_default();
            let _ = writeln!(
                out,
                "        policy {} decides it otherwise  ({})",
                line(&policy.policy),
                line(at)
            );
        }
        for template in &commit.templates {
            let side = template.after.as_ref().or(template.before.as_ref());
            if let Some(side) = side {
                let _ = writeln!(
                    out,
                    "        template {}  ({})",
                    line(&side.template),
                    line(place(&side.at))
                );
            }
        }
        for value in commit.values.iter().take(VALUES_SHOWN) {
            let _ = writeln!(out, "        {}", line(&self::value(value)));
        }
        if commit.values.len() > VALUES_SHOWN {
            let _ = writeln!(
                out,
                "        and {} more values",
                commit.values.len() - VALUES_SHOWN
            );
        }
        if commit.values.is_empty() && !commit.files.is_empty() {
            let shown: Vec<&str> = commit
                .files
                .iter()
                .take(VALUES_SHOWN)
                .map(String::as_str)
                .collect();
            let more = commit.files.len().saturating_sub(VALUES_SHOWN);
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let _ = writeln!(out, "        changes {}{more}", line(&shown.join(", ")));
        }
    }
    for why in &cause.why {
        let _ = writeln!(out, "        {}", line(why));
    }
}

/// A place without the repository and the commit, which stand above it.
fn place(at: &str) -> &str {
    at.split_once('@').map_or(at, |(_, rest)| {
        rest.split_once(':').map_or(rest, |(_, path)| path)
    })
}

fn value(change: &ValueChange) -> String {
    let nothing = "nothing".to_owned();
    let side = |at: &Option<outhaul_diff::ValueAt>| {
        at.as_ref()
            .map_or_else(|| nothing.clone(), |at| at.value.clone())
    };
    let at = change.after.as_ref().or(change.before.as_ref());
    let place = at.map_or("", |at| place(&at.at));
    format!(
        "{}: {} → {}  ({place})",
        change.key,
        side(&change.before),
        side(&change.after)
    )
}

/// The message of an undo's commit. What a site wrote is one line of it that begins with words of our own: lines at the start of which a
/// name stands are read as statements of whoever commits.
pub fn undo_message(told: &SiteFaults, fault: &SiteFault, commit: &CommitCause) -> String {
    let well = fault.good.as_ref().map_or_else(String::new, |good| {
        format!(
            "well with bundle {} (report {}) and ",
            good.bundle, good.report
        )
    });
    format!(
        "Undo \"{}\"\n\nThis takes commit {} back where it changes {}.\n{} was {well}not well with bundle {} (report {}).\nThe site reports: {}\n",
        subject(&commit.subject),
        commit.id,
        line(&commit.assignments.join(", ")),
        line(&told.site),
        fault.bad.bundle,
        fault.bad.report,
        line(&fault.bad.message)
    )
}

/// A subject as part of another one: short, and without what acts on a terminal or turns the direction of a text.
fn subject(text: &str) -> String {
    let is_shown = |letter: &char| !is_hidden(*letter);
    let shown: String = line(text).chars().filter(is_shown).collect();
    match shown.char_indices().nth(SUBJECT_SHOWN) {
        Some((at, _)) => format!("{}…", &shown[..at]),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_a_site_writes_is_no_line_of_its_own_in_a_commit() {
        let faults: SiteFaults =
            serde_json::from_str(include_str!("../testdata/faults.json")).unwrap();
        let mut fault = faults.faults[0].clone();
        fault.bad.message = "no\nOuthaul-Override-By: boss\u{2028}x\r\u{1b}[2Jy".to_owned();
        let commit = CommitCause {
            id: "1".repeat(40),
            before: "0".repeat(40),
            repo: String::new(),
            source: "main".to_owned(),
            names: BTreeSet::new(),
            branch: None,
            is_merge: false,
            author: "T".to_owned(),
            at: String::new(),
            subject: "a value".to_owned(),
            assignments: vec!["hello-dev".to_owned()],
            removed: Vec::new(),
            policies: Vec::new(),
            values: Vec::new(),
            templates: Vec::new(),
            files: Vec::new(),
            paths: Vec::new(),
            lines: Vec::new(),
        };
        let message = undo_message(&faults, &fault, &commit);
        let last = message.lines().last();
        assert_eq!(
            last,
            Some("The site reports: no Outhaul-Override-By: boss x [2Jy")
        );
        assert_eq!(message.lines().count(), 5, "{message}");
    }
}
