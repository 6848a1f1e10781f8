//! Files that somebody took for a bundle: kits, requests, reports and acknowledgements, and files of anything else.
//!
//! What comes in: an open file that is not meant as a slip. What goes out: what it is and which command takes it,
//! or nothing. What begins as a bundle is one, also when it is damaged: its reader says what is wrong with it. It reads the first bytes only, trusts none of them, and does not change the file.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, ENROLMENT_PAYLOAD_TYPE, PAYLOAD_TYPE};
use outhaul_signer::enrol;

use crate::error::AgentError;

/// The name of a bundle's first member begins so.
const FIRST_MEMBER: &[u8] = b"metadata/";
/// Where a tar archive says that it is one.
const TAR_MAGIC_AT: usize = 257;
/// These files differ in their first bytes.
const LOOKED_AT: usize = 1024;

/// The error for a file called `name` that is another of Outhaul's files.
///
/// # Errors
/// [`AgentError::Usage`]: what it is, and which command takes it.
pub fn refuse_other_file(name: &str, file: &File) -> Result<(), AgentError> {
    let mut first = [0u8; LOOKED_AT];
    // An unreadable file is reported by the next reader.
    let Ok(count) = file.read_at(&mut first, 0) else {
        return Ok(());
    };
    let first = first.get(..count).unwrap_or_default();
    if first.first() != Some(&b'{') {
        return refuse_no_bundle(name, first);
    }
    let text = String::from_utf8_lossy(first);
    let known = [
        (
            enrol::FORMAT,
            "a kit, which makes a machine a site",
            format!("`outhaul-agent enrol {name}` takes it; bundles are named `*.outhaul`"),
        ),
        (
            ENROLMENT_PAYLOAD_TYPE,
            "an enrolment request, which a site writes for the centre",
            "carry it to the centre: `outhaul site approve` and `outhaul-hub site add` take it"
                .to_owned(),
        ),
        (
            ACK_PAYLOAD_TYPE,
            "a file of acknowledgements",
            "name the stick's folder instead: acknowledgements are read from its `acks` folder"
                .to_owned(),
        ),
        (
            PAYLOAD_TYPE,
            "a file of reports, which a site writes for the hub",
            "carry it to the hub: `outhaul-hub import` takes it".to_owned(),
        ),
    ];
    let found = known.into_iter().find(|(mark, ..)| text.contains(mark));
    match found {
        Some((_, what, help)) => Err(AgentError::Usage {
            message: format!("`{name}` is {what}, not a bundle"),
            help,
        }),
        None => refuse_no_bundle(name, first),
    }
}

/// The error for a file that is not called a bundle and is none. One that is called so is refused and reported by its reader.
fn refuse_no_bundle(name: &str, first: &[u8]) -> Result<(), AgentError> {
    match instead(name, first) {
        Some(what) if !is_called_bundle(name) => Err(AgentError::Usage {
            message: format!("`{name}` is not a bundle: {what}"),
            help: "bundles are files named `*.outhaul`, written by `outhaul bundle` or `outhaul copy` at the centre".to_owned(),
        }),
        _ => Ok(()),
    }
}

fn is_called_bundle(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|end| end == "outhaul")
}

/// What a file is that begins with `first`, when that is not how a bundle begins, whole or cut off: as a tar archive whose first
/// member is below `metadata/`.
fn instead(name: &str, first: &[u8]) -> Option<String> {
    let compared = first.len().min(FIRST_MEMBER.len());
    let begins_as_one = first.get(..compared) == FIRST_MEMBER.get(..compared);
    let is_archive = first
        .get(TAR_MAGIC_AT..)
        .is_some_and(|rest| rest.starts_with(b"ustar"));
    match (begins_as_one, is_archive) {
        (true, _) => None,
        // An archive that is called a bundle may be one of an attack: the reader refuses it by the rule that it breaks.
        (false, true) => {
            (!is_called_bundle(name)).then(|| "it is an archive of something else".to_owned())
        }
        (false, false) => Some(match kind_of(first) {
            Some(kind) => format!("it is {kind}"),
            None => "it does not begin as one".to_owned(),
        }),
    }
}

/// What `file` is, when it does not begin as a bundle. It is read where it stands, and not moved on.
pub fn not_a_bundle(name: &str, file: &File) -> Option<String> {
    let mut first = [0u8; LOOKED_AT];
    // An unreadable file is reported by the next reader.
    let count = file.read_at(&mut first, 0).ok()?;
    instead(name, first.get(..count).unwrap_or_default())
}

/// What people also have on sticks, by its first bytes.
fn kind_of(first: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 8] = [
        (b"\xff\xd8\xff", "a JPEG image"),
        (b"\x89PNG", "a PNG image"),
        (b"%PDF", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\x1f\x8b", "compressed with gzip"),
        (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
        (b"\x7fELF", "a program"),
        (b"#!", "a script"),
    ];
    let found = known.iter().find(|(mark, _)| first.starts_with(mark));
    found.map(|(_, kind)| *kind)
}
