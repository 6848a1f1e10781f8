//! Files that someone took for a bundle, a kit or a backup: one of these for another, requests, reports and acknowledgements, and files of
//! anything else.
//!
//! What comes in: an open file that is not meant as a slip. What goes out: what it is and which command takes it,
//! or nothing. What begins as a bundle is one, also when it is damaged: its reader says what is wrong with it. It reads the first bytes only, trusts none of them, and does not change the file.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, ENROLMENT_PAYLOAD_TYPE, PAYLOAD_TYPE};
use outhaul_kit::text::{self, quoted};
use outhaul_signer::enrol;
use outhaul_site::backup;

use crate::error::AgentError;

/// The name of a bundle's first member begins so.
const FIRST_MEMBER: &[u8] = b"metadata/";
/// Where a tar archive says that it is one.
const TAR_MAGIC_AT: usize = 257;
/// These files differ in their first bytes.
const PREFIX_BYTES: usize = 1024;

/// One of Outhaul's files, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    Bundle,
    Kit,
    Request,
    Acknowledgements,
    Reports,
    Backup,
}

impl FileKind {
    fn of(first: &[u8]) -> Option<Self> {
        if first.starts_with(FIRST_MEMBER) {
            return Some(Self::Bundle);
        }
        if first.starts_with(backup::MAGIC) {
            return Some(Self::Backup);
        }
        if first.first() != Some(&b'{') {
            return None;
        }
        let text = String::from_utf8_lossy(first);
        let known = [
            (enrol::FORMAT, Self::Kit),
            (ENROLMENT_PAYLOAD_TYPE, Self::Request),
            (ACK_PAYLOAD_TYPE, Self::Acknowledgements),
            (PAYLOAD_TYPE, Self::Reports),
        ];
        let found = known.into_iter().find(|(mark, _)| text.contains(mark));
        found.map(|(_, kind)| kind)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bundle => "a bundle",
            Self::Kit => "a kit, which makes a machine a site",
            Self::Request => "an enrolment request, which a site writes for the centre",
            Self::Acknowledgements => "a file of acknowledgements",
            Self::Reports => "a file of reports, which a site writes for the hub",
            Self::Backup => "a backup of a site, which holds its keys",
        }
    }

    /// Which command takes the file at `path`.
    fn taken(self, path: &Path) -> String {
        let typed = quoted(path);
        match self {
            Self::Bundle => {
                format!("a site that is enrolled takes it with `outhaul-agent import {typed}`")
            }
            Self::Kit => format!("`outhaul-agent enrol {typed}` enrols with it"),
            Self::Request => {
                "carry it to the centre: `outhaul site approve` and `outhaul-hub site add` accept it".to_owned()
            }
            Self::Acknowledgements => {
                "name the stick's folder with `outhaul-agent import` instead: acknowledgements are read from its `acks` folder".to_owned()
            }
            Self::Reports => "carry it to the hub: `outhaul-hub import` imports it".to_owned(),
            Self::Backup => format!(
                "`outhaul-agent --state DIR restore {typed}`, with an empty or new folder, makes that the site again, when the machine of the backup will never \
                 run again"
            ),
        }
    }
}

/// The error for the file at `path` that is another of Outhaul's files than a bundle.
///
/// # Errors
/// [`AgentError::Usage`]: what it is, and which command takes it.
pub fn refuse_other_file(path: &Path, file: &File) -> Result<(), AgentError> {
    let name = text::file_name(path);
    let Some(first) = beginning(file) else {
        return Ok(());
    };
    match FileKind::of(&first) {
        Some(FileKind::Bundle) => Ok(()),
        Some(kind) => Err(AgentError::Usage {
            message: format!("`{name}` is {}, not a bundle", kind.name()),
            help: format!("{}; bundles are named `*.outhaul`", kind.taken(path)),
        }),
        None => refuse_no_bundle(&name, &first),
    }
}

/// The error for the file at `path` that is no kit.
///
/// # Errors
/// [`AgentError::Usage`]: what it is, and which command takes it.
pub fn refuse_no_kit(path: &Path, file: &File) -> Result<(), AgentError> {
    let kit = "a kit is named `SITE.kit` (`outhaul site enrol` at the centre writes it)";
    refuse_other(path, file, (FileKind::Kit, "a kit", kit))
}

/// The error for the file at `path` that is no backup.
///
/// # Errors
/// [`AgentError::Usage`]: what it is, and which command takes it.
pub fn refuse_no_backup(path: &Path, file: &File) -> Result<(), AgentError> {
    let backup = "a backup is what `outhaul-agent backup --to FILE` wrote on the machine that the site was on";
    refuse_other(path, file, (FileKind::Backup, "a backup", backup))
}

fn refuse_other(
    path: &Path,
    file: &File,
    (wanted, called, about): (FileKind, &str, &str),
) -> Result<(), AgentError> {
    let Some(first) = beginning(file) else {
        return Ok(());
    };
    let shown = text::path(path);
    let (message, help) = match (FileKind::of(&first), kind_of(&first)) {
        (Some(kind), _) if kind != wanted => (
            format!(
                "`{shown}` is {}, not {called}; nothing was changed",
                kind.name()
            ),
            format!("{}; {about}", kind.taken(path)),
        ),
        (None, Some(kind)) => (
            format!("`{shown}` is not {called}: it is {kind}; nothing was changed"),
            about.to_owned(),
        ),
        // What is damaged of one is said by its reader.
        _ => return Ok(()),
    };
    Err(AgentError::Usage { message, help })
}

/// An unreadable file is reported by the next reader.
fn beginning(file: &File) -> Option<Vec<u8>> {
    let mut first = vec![0u8; PREFIX_BYTES];
    let count = file.read_at(&mut first, 0).ok()?;
    first.truncate(count);
    Some(first)
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
    instead(name, &beginning(file)?)
}

/// What people also have on sticks, by its first bytes.
fn kind_of(first: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 10] = [
        (backup::MAGIC, "a backup of a site, which holds its keys"),
        (b"-----BEGIN ", "a key or a certificate (PEM)"),
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
