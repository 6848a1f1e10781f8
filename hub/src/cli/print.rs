//! Printing: data to stdout, talk to stderr, tables for people.
//!
//! What comes in: text, or values for JSON. What goes out: the same without anything hidden, through
//! [`outhaul_kit::console`]. It decides nothing.

use outhaul_kit::console;
use outhaul_kit::text;
use serde::Serialize;

use super::Common;
use crate::clock;
use crate::state::{Hub, StateError};
use crate::store::StoreError;
use crate::time;

/// A line of talk on stderr.
pub(super) fn talk(text: &str) {
    console::message(&text::printable_lines(text));
}

/// A line of data on stdout. What would end the line, or act on a terminal, is written out.
pub(super) fn data(text: &str) {
    console::data(&text::printable(text));
}

/// Several lines of this program's own on stdout, such as a key.
pub(super) fn block(text: &str) {
    console::data(&text::printable_lines(text));
}

/// The result as JSON, for the envelope on stdout.
pub(super) fn json<T: Serialize>(value: &T) {
    match serde_json::to_value(value) {
        Ok(value) => console::result(value),
        Err(error) => console::fail(
            5,
            &format!("error: the result cannot be written as JSON: {error}"),
        ),
    }
}

/// Rows under a heading, columns as wide as their widest cell.
pub(super) fn table(heading: &[&str], rows: &[Vec<String>]) {
    let shown = |cell: &String| text::printable(cell).into_owned();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(shown).collect())
        .collect();
    let mut widths: Vec<usize> = heading.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (cell, width) in cells.zip(&widths) {
            text.push_str(cell);
            let padding = width + 2 - cell.chars().count().min(*width);
            text.extend(std::iter::repeat_n(' ', padding));
        }
        data(text.trim_end());
    };
    line(&mut heading.iter().copied());
    for row in &rows {
        line(&mut row.iter().map(String::as_str));
    }
}

/// Says on stderr, and in the envelope, that not all is listed, and what lists the rest.
pub(super) fn rest(listed: usize, count: u64, how: &str) {
    if count > listed as u64 {
        console::left_out(count - listed as u64);
        talk(&format!(
            "note: {listed} of {count}, the newest; {how} lists more"
        ));
    }
}

/// Opens the hub, and says on stderr where its database is damaged and is only read.
pub(super) fn open(common: &Common) -> Result<Hub, StateError> {
    let hub = Hub::open(&common.state)?;
    if let Some(problem) = hub.store.damage() {
        talk(&format!(
            "warning: the hub's database is damaged and is only read: {problem}; what can be read is shown, and what cannot is missing from it. \
             Nothing is imported, and every gate is closed. Bring the hub back from a backup: `outhaul-hub restore BACKUP --state DIR` \
             (docs/runbooks/hub-lost.md)"
        ));
    }
    Ok(hub)
}

/// Opens the hub with its key, for what is signed of its record as a whole: nothing is, where the database is damaged.
pub(super) fn open_signing(common: &Common) -> Result<Hub, StateError> {
    let mut hub = Hub::open_signing(&common.state, common.passphrase_file.as_deref())?;
    hub.store.refuse_damaged()?;
    Ok(hub)
}

/// Says on stderr what is odd about this machine's clock, for whoever reads or makes entries by it.
pub(super) fn clock(hub: &mut Hub) -> Result<(), StoreError> {
    let told = match clock::check(&mut hub.store, time::now_ms()) {
        // What cannot be read says nothing of the clock, and keeps nobody from the rest.
        Err(error) if error.is_damage() => None,
        told => told?,
    };
    if let Some(odd) = told {
        talk(&format!("note: {}", odd.text));
    }
    Ok(())
}

/// `1 report`, `2 reports`.
pub(super) fn count(number: u64, what: &str) -> String {
    if number == 1 {
        format!("1 {what}")
    } else {
        format!("{number} {what}s")
    }
}

/// `report 2`, `reports 2, 4–6`.
pub(super) fn reports(runs: &[(u64, u64)]) -> String {
    let run = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}–{last}"),
    };
    let one = matches!(runs, [(first, last)] if first == last);
    let word = if one { "report" } else { "reports" };
    let runs: Vec<_> = runs.iter().map(run).collect();
    format!("{word} {}", runs.join(", "))
}

/// `1 request waits`, `2 requests wait`.
pub(super) fn waits(number: u64) -> String {
    let verb = if number == 1 { "waits" } else { "wait" };
    format!("{} {verb}", count(number, "request"))
}
