//! Files that a hub does not take, by what they are: a site's backup, a kit, acknowledgements, a slip.
//!
//! What comes in: an open file whose name is of none of the four kinds. What goes out: what it is, and which program takes it. It reads
//! the first bytes only, of envelopes the first line, and trusts none of them.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use outhaul_bundle::SITE_BACKUP_MAGIC;
use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, ENROLMENT_PAYLOAD_TYPE, PAYLOAD_TYPE};
use outhaul_kit::text::{self, quoted};
use outhaul_signer::enrol;
use outhaul_signer::envelope::{Envelope, EnvelopeLine, MAX_ENVELOPE_BYTES, next_line};
use outhaul_signer::slip;

use crate::error::HubError;

/// What a file is that is none of the four kinds.
const NO_SORT: &str = "not a bundle, request, report file or bill of materials (`*.outhaul`, `*.request`, `*.reports`, \
                       `*.cdx.json`)";
const EXPECTED: &str =
    "expected `*.outhaul`, `*.request`, `*.reports` or `*.cdx.json`, or a folder with some";
/// Backups, slips and kits differ in their first bytes; an envelope has its type behind its payload.
const LOOKED_AT: usize = 1024;

/// What the file at `path` is, and which program takes it; `None` for one of nobody's.
fn known(path: &Path, file: &File) -> Option<(&'static str, String)> {
    let mut first = vec![0; LOOKED_AT];
    let read = file.read_at(&mut first, 0).ok()?;
    first.truncate(read);
    let typed = quoted(path);
    if first.starts_with(SITE_BACKUP_MAGIC) {
        let how = format!(
            "`outhaul-agent --state DIR restore {typed}` on a new machine of that site takes it, when the machine of the backup will never run again"
        );
        return Some(("a backup of a site, which holds its keys", how));
    }
    let text = String::from_utf8_lossy(&first);
    if text.trim_start().starts_with(slip::PREFIX) {
        let how = format!("`outhaul-agent import {typed}` on the site takes it");
        return Some(("a slip, which is for sites", how));
    }
    if !text.starts_with('{') {
        return None;
    }
    if text.contains(enrol::FORMAT) {
        let how = format!("`outhaul-agent enrol {typed}` on that machine takes it");
        return Some(("a kit, which makes a machine a site", how));
    }
    let renamed = |ending: &str| format!("name it `*.{ending}` and import it again");
    match first_envelope(file)?.payload_type() {
        ENROLMENT_PAYLOAD_TYPE => Some(("an enrolment request", renamed("request"))),
        PAYLOAD_TYPE => Some(("a file of reports", renamed("reports"))),
        ACK_PAYLOAD_TYPE => Some((
            "a file of acknowledgements, which a hub writes for a site",
            "the site reads it from the `acks` folder of a stick: `outhaul-agent import FOLDER`"
                .to_owned(),
        )),
        _ => None,
    }
}

/// The envelope in the first line of a file that was not read yet.
fn first_envelope(file: &File) -> Option<Envelope> {
    let mut bytes = BufReader::new(file.take(MAX_ENVELOPE_BYTES as u64 + 1));
    match next_line(&mut bytes).ok()?? {
        EnvelopeLine::Whole(line) => Envelope::from_json(&line).ok(),
        EnvelopeLine::TooLong => None,
    }
}

/// Why the file at `path` is not imported, among others.
pub(super) fn problem(path: &Path, file: &File) -> String {
    match known(path, file) {
        Some((name, how)) => format!("{name}: {how}"),
        None => NO_SORT.to_owned(),
    }
}

/// The same as an error.
pub(super) fn refusal(path: &Path, file: &File) -> HubError {
    let shown = text::path(path);
    let (problem, help) = match known(path, file) {
        Some((name, how)) => (format!("`{shown}` is {name}"), how),
        None => (
            format!("`{shown}` is not a bundle, request, report file or bill of materials"),
            EXPECTED.to_owned(),
        ),
    };
    HubError::Usage { problem, help }
}
