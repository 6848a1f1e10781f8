//! Report: what an import found, for people and for programs, and what to do next.
//!
//! What comes in: a [`ImportReport`] for each environment. What goes out: lines, JSON, the exit code's reason
//! ([`is_explained`]), and advice that names the switches to use. It decides nothing.

use std::collections::BTreeSet;

use serde_json::json;

use crate::{Folder, ImportReport, Verdict};

/// Whether everything is equal or has a reason.
pub fn is_explained(reports: &[ImportReport]) -> bool {
    reports
        .iter()
        .all(|report| report.count(Verdict::Unexplained) == 0)
}

/// For people.
pub fn text(reports: &[ImportReport]) -> Vec<String> {
    let mut lines = Vec::new();
    for report in reports {
        lines.push(title(report));
        let width = report
            .folders
            .iter()
            .map(|folder| folder.path.len())
            .max()
            .unwrap_or(0);
        for folder in &report.folders {
            let defects: Vec<String> = folder.defects.iter().map(u8::to_string).collect();
            let defects = match defects.len() {
                0 => String::new(),
                1 => format!("  defect {}", defects[0]),
                _ => format!("  defects {}", defects.join(", ")),
            };
            let line = format!(
                "  {:<11}  {:<width$}{defects}",
                folder.verdict.as_str(),
                folder.path
            );
            lines.push(line.trim_end().to_owned());
            lines.extend(
                folder
                    .reasons
                    .iter()
                    .map(|reason| format!("               {reason}")),
            );
            lines.extend(
                folder
                    .diff
                    .iter()
                    .map(|line| format!("               {line}")),
            );
        }
        lines.push(format!("  {}", counts(report)));
        lines.push(String::new());
    }
    lines.push("next:".to_owned());
    lines.extend(next(reports).into_iter().map(|step| format!("- {step}")));
    lines
}

fn title(report: &ImportReport) -> String {
    let place = &report.platform;
    let short = |commit: &str| commit.get(..8).unwrap_or(commit).to_owned();
    let branch = place
        .branch
        .as_ref()
        .map_or(String::new(), |name| format!(", branch {name}"));
    let at = match &place.branch {
        Some(_) => format!(" at {}", short(&place.commit)),
        None => String::new(),
    };
    let says = match (&report.recorded, &report.pinned) {
        (None, None) => "records no commit".to_owned(),
        (Some(is), Some(pinned)) if is == pinned => {
            format!("records {}, as the control plane does", short(is))
        }
        (is, pinned) => {
            let name =
                |commit: &Option<String>| commit.as_deref().map_or("no commit".to_owned(), short);
            format!(
                "records {}, the control plane pins {}",
                name(is),
                name(pinned)
            )
        }
    };
    format!("{}: {}{branch}{at}; {says}", report.environment, place.repo)
}

fn counts(report: &ImportReport) -> String {
    let counted: Vec<String> = Verdict::ALL
        .into_iter()
        .map(|verdict| (report.count(verdict), verdict))
        .filter(|(count, _)| *count > 0)
        .map(|(count, verdict)| format!("{count} {}", verdict.as_str()))
        .collect();
    format!("{} folders: {}", report.folders.len(), counted.join(", "))
}

/// What to do, most important first.
fn next(reports: &[ImportReport]) -> Vec<String> {
    let all: Vec<&Folder> = reports.iter().flat_map(|report| &report.folders).collect();
    let of = |verdict: Verdict| {
        all.iter()
            .filter(|folder| folder.verdict == verdict)
            .count()
    };
    let mut steps = Vec::new();
    let mut step = |count: usize, text: String| {
        if count > 0 {
            steps.push(text);
        }
    };
    let unexplained = of(Verdict::Unexplained);
    step(
        unexplained,
        format!(
            "{unexplained} without a reason: look at what they hold before anything is replaced; \
             `--history N` looks further back, `outhaul explain TARGET CLUSTER-TYPE` says what is meant"
        ),
    );
    let torn = of(Verdict::Torn);
    step(
        torn,
        format!(
            "{torn} torn (defect 4): the first render replaces them with what the pinned commit says"
        ),
    );
    let older = of(Verdict::Older);
    step(
        older,
        format!(
            "{older} older: merge what Kalypso still proposes, or expect the first render to bring them up to date"
        ),
    );
    let compat = all.iter().filter(|folder| folder.compat).count();
    let defects: BTreeSet<u8> = all
        .iter()
        .filter(|folder| folder.compat)
        .flat_map(|folder| &folder.defects)
        .copied()
        .collect();
    let defects: Vec<String> = defects.iter().map(u8::to_string).collect();
    step(
        compat,
        format!(
            "{compat} need `--compat` (of `render`, `publish git` and `bundle`) to stay as they are (defects {}); without it they \
             change as shown, which is meant to be better",
            if defects.is_empty() {
                "unknown".to_owned()
            } else {
                defects.join(", ")
            }
        ),
    );
    let renamed = all.iter().filter(|folder| folder.older_namespace).count();
    step(
        renamed,
        format!(
            "{renamed} have a namespace from before 2023-10-03, which no option keeps: plan them as moves"
        ),
    );
    let left = all
        .iter()
        .filter(|folder| folder.defects.contains(&14))
        .count();
    step(
        left,
        format!("{left} hold files left over, which nothing needs: `git rm` them"),
    );
    let missing = of(Verdict::Missing);
    step(
        missing,
        format!("{missing} missing: Outhaul adds what Kalypso could not write"),
    );
    let foreign = of(Verdict::Foreign);
    step(
        foreign,
        format!("{foreign} foreign: they stay, because Outhaul removes only what it wrote"),
    );
    let equal = of(Verdict::Equal);
    if equal == all.len() {
        steps.push("everything is equal: `outhaul publish git --adopt` takes over without an option, and changes nothing".into());
    } else if unexplained + torn + older + compat + renamed + left + missing == 0 {
        steps.push(
            "`outhaul publish git --adopt` takes over without an option, and changes nothing"
                .into(),
        );
    }
    steps
}

/// For programs.
pub fn json(reports: &[ImportReport]) -> serde_json::Value {
    let environments: Vec<_> = reports
        .iter()
        .map(|report| {
            let counts: serde_json::Map<String, serde_json::Value> = Verdict::ALL
                .into_iter()
                .map(|verdict| (verdict.as_str().to_owned(), report.count(verdict).into()))
                .collect();
            let folders: Vec<_> = report
                .folders
                .iter()
                .map(|folder| {
                    json!({
                        "path": folder.path,
                        "verdict": folder.verdict.as_str(),
                        "defects": folder.defects,
                        "compat": folder.compat,
                        "older_namespace": folder.older_namespace,
                        "reasons": folder.reasons,
                        "commit": folder.commit,
                        "diff": folder.diff,
                    })
                })
                .collect();
            json!({
                "environment": report.environment,
                "platform": report.platform,
                "recorded_commit": report.recorded,
                "pinned_commit": report.pinned,
                "counts": counts,
                "folders": folders,
            })
        })
        .collect();
    json!({
        "environments": environments,
        "explained": is_explained(reports),
        "next": next(reports),
    })
}
