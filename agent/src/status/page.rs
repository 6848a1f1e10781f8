//! The status as one page that a browser opens from a file.
//!
//! What comes in: how the site stands. What goes out: HTML without scripts, links and anything that is loaded. A file
//! and not a listener: the agent opens no port; `outhaul-mirror page` serves the file to browsers of this machine. It is as
//! old as it says.

use std::fmt::Write as _;
use std::path::Path;

use outhaul_host::page_place;

use super::Status;
use super::brief::{self, at};
use crate::agent::Agent;
use crate::durable;
use crate::error::AgentError;

const STYLE: &str = "body{font:16px/1.5 sans-serif;margin:2em auto;max-width:60em;padding:0 1em}\
    h1{font-size:1.6em}table{border-collapse:collapse}td,th{border:1px solid #999;padding:.3em .6em;text-align:left}\
    ol{background:#ffc;padding:1em 2.5em}";

/// Writes the page where `outhaul-mirror page` finds it; the browser asks for it again by itself.
///
/// # Errors
/// [`AgentError`] of the memory or the disk.
pub fn keep(agent: &Agent) -> Result<(), AgentError> {
    let path = outhaul_serve::settings::page_file(agent.state_folder.root());
    if let Some(folder) = path.parent() {
        durable::make_folder(folder)?;
    }
    let html = html(&super::of_site(agent)?);
    let again = html.replacen(
        "<title>",
        "<meta http-equiv=\"refresh\" content=\"30\"><title>",
        1,
    );
    Ok(durable::write(&path, again.as_bytes(), 0o600)?)
}

/// How every page begins.
const BEGINNING: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"generator\" content=\"outhaul-agent status\"><title>";
/// How the pages of versions before began, which say by their style alone whose they are.
const BEGINNING_BEFORE: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>";

/// Refuses a place for the page where something else is, or that is the site's own folder.
///
/// # Errors
/// As [`page_place::refuse`].
pub fn may_be_at(path: &Path, state: &Path) -> Result<(), AgentError> {
    let is_own = |start: &str| {
        start.starts_with(BEGINNING)
            || (start.starts_with(BEGINNING_BEFORE) && start.contains(STYLE))
    };
    page_place::refuse(path, state, is_own)
}

/// The page of a site that cannot be read: what was there before would go on saying that all is well.
pub fn unreadable(why: &str, help: &str) -> String {
    let mut page = format!(
        "{BEGINNING}This site cannot be read</title><style>{STYLE}</style>\n<h1>This site cannot be read</h1>\n<p><strong>{}</strong></p>\n",
        escaped(why)
    );
    let _ = writeln!(page, "<h2>What to do next</h2>");
    list(&mut page, "ol", help.lines().map(str::to_owned));
    let _ = writeln!(
        page,
        "<p>This page does not know what runs. <code>outhaul-agent status</code> prints what is true now.</p></html>"
    );
    page
}

/// The page.
pub fn html(status: &Status) -> String {
    let mut page = String::new();
    let title = format!(
        "{} ({}/{})",
        status.site, status.environment, status.cluster_type
    );
    let _ = write!(
        page,
        "{BEGINNING}{title}</title><style>{STYLE}</style>\n\
         <h1>{title}</h1>\n<p><strong>{}</strong></p>\n<p>{}</p>\n",
        escaped(&status.headline()),
        escaped(&brief::enrolment(status)),
        title = escaped(&title),
    );
    let _ = writeln!(page, "<h2>What to do next</h2>");
    if status.next.is_empty() {
        let _ = writeln!(page, "<p>No action needed.</p>");
    } else {
        list(&mut page, "ol", status.next.iter().cloned());
    }
    let attention = status.attention.iter().map(|one| one.message.clone());
    let hold = brief::hold(status);
    let waits: Vec<String> = attention
        .chain(hold)
        .chain(brief::held(status))
        .chain(status.trouble.clone())
        .collect();
    if !waits.is_empty() {
        let _ = writeln!(page, "<h2>What waits, failed or differs</h2>");
        list(&mut page, "ul", waits);
    }
    if !status.steps.is_empty() {
        let _ = writeln!(page, "<h2>The unfinished work</h2>");
        let steps = status.steps.iter();
        let rows = steps.map(|step| [step.assignment.clone(), step.progress.label().to_owned()]);
        table(&mut page, ["Assignment", "Progress"], rows);
    }
    let _ = writeln!(page, "<h2>What runs</h2>");
    let rows = status.assignments.iter().map(|assignment| {
        let name = assignment.name.to_string();
        [name, status.word(assignment), assignment.message.clone()]
    });
    table(&mut page, ["Assignment", "State", "Message"], rows);
    let _ = writeln!(page, "<h2>Bundles</h2>");
    let rows = status.generations.iter().map(|generation| {
        let disk = if generation.on_disk { "yes" } else { "no" };
        let number = generation.number.to_string();
        [
            number,
            generation.state.to_owned(),
            disk.to_owned(),
            generation.note.clone(),
        ]
    });
    table(&mut page, ["Number", "State", "On disk", "Note"], rows);
    let _ = writeln!(page, "<h2>Sticks, reports, time</h2>");
    let media = status.media.iter().rev();
    let media = media.map(|visit| format!("{} ({}): {}", visit.place, at(visit.at_ms), visit.text));
    let refused = status.refusals.iter().rev();
    let refused =
        refused.map(|refused| format!("refused: {} ({})", refused.text, at(refused.at_ms)));
    let rest = [
        format!(
            "reports: {} waiting, {} made, {} acknowledged",
            status.reports_waiting, status.reports_last, status.reports_acknowledged
        ),
        brief::time(status),
        format!("clock: {} ({})", status.clock.now, status.clock.why),
    ];
    list(&mut page, "ul", media.chain(refused).chain(rest));
    let _ = writeln!(
        page,
        "<p>Written at {} by this machine's clock. <code>outhaul-agent status</code> prints what is true now.</p></html>",
        escaped(&status.clock.now)
    );
    page
}

fn list(page: &mut String, kind: &str, lines: impl IntoIterator<Item = String>) {
    let _ = writeln!(page, "<{kind}>");
    for line in lines {
        let _ = writeln!(page, "<li>{}</li>", escaped(&line));
    }
    let _ = writeln!(page, "</{kind}>");
}

fn table<const N: usize>(
    page: &mut String,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let _ = write!(page, "<table><tr>");
    for cell in head {
        let _ = write!(page, "<th>{cell}</th>");
    }
    let _ = writeln!(page, "</tr>");
    for row in rows {
        let _ = write!(page, "<tr>");
        for cell in &row {
            let _ = write!(page, "<td>{}</td>", escaped(cell));
        }
        let _ = writeln!(page, "</tr>");
    }
    let _ = writeln!(page, "</table>");
}

/// Text that quotes untrusted parties, as text.
fn escaped(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    for c in outhaul_kit::text::printable_lines(text).chars() {
        match c {
            '&' => made.push_str("&amp;"),
            '<' => made.push_str("&lt;"),
            '>' => made.push_str("&gt;"),
            '"' => made.push_str("&quot;"),
            '\'' => made.push_str("&#39;"),
            other => made.push(other),
        }
    }
    made
}
