//! What an import refused, and whether an earlier one refused the same bytes for the same.
//!
//! What comes in: the refusals of one file, and the file. What goes out: the same, those of before marked as known,
//! and the new ones on record. A file is known by the digest of its bytes, never by its name. It decides about no
//! content, and removes nothing from a stick.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::Path;

use outhaul_bundle::digest::Hasher;
use outhaul_kit::durable::{self, FileError};
use outhaul_kit::text;
use serde::Serialize;
use serde_json::json;

use super::Imported;
use crate::error::HubError;
use crate::state::Hub;
use crate::store::{IngestRefusal, StoreError};

/// The rule of what is not a regular file, or cannot be read.
const UNUSABLE: &str = "unusable-entry";
/// The rule of a file of reports without a byte.
pub(super) const EMPTY: &str = "empty-file";
/// Rules about what a person can fix, on the stick or at this hub: these refusals are shown as open until someone did.
const OPEN: [&str; 5] = ["too-many", "unknown-site", "other-key", EMPTY, UNUSABLE];
/// Bytes of a file that make its digest, beside its size: all of a file of reports, and of a bundle more than a hub
/// reads.
const MAX_HASHED: u64 = 1 << 30;
/// Refusals of one path that are put on record; all are named in the answer.
const MAX_RECORDED: usize = 1_000;

/// A file that was refused, or those lines of one that are refused for the same reason and site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedFile {
    /// The file.
    pub file: String,
    /// The first line, for reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// How many lines, for reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// The last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<u64>,
    /// The site that they claim to be from, where they claim one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The rule.
    pub rule: String,
    /// What was expected and found.
    pub reason: String,
    /// Whether an earlier import refused these bytes for the same: it was reported then, and nothing new came.
    pub known: bool,
    /// Whether it is a matter of trust.
    #[serde(skip)]
    pub is_trust: bool,
}

impl RefusedFile {
    /// A whole file.
    pub(super) fn whole(path: &Path, rule: &str, reason: String, is_trust: bool) -> Self {
        Self {
            file: text::path(path),
            line: None,
            lines: None,
            last_line: None,
            site: None,
            rule: rule.to_owned(),
            reason,
            known: false,
            is_trust,
        }
    }

    /// What cannot be opened.
    pub(super) fn unusable(error: &FileError) -> Self {
        Self::whole(&error.path, UNUSABLE, error.source.to_string(), false)
    }

    /// What an import ends with for it. What was refused before and is unchanged is not reported again: whoever transports the stick
    /// was reported, and a file that nobody removes must not hide what a later visit brings.
    pub fn exit_code(&self) -> u8 {
        match (self.known, self.is_trust) {
            (true, _) => 0,
            (false, true) => 4,
            (false, false) => 1,
        }
    }
}

/// What was refused of one file, by its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefusedBytes {
    /// Digest and size.
    digest: String,
    /// The rules, sites and lines.
    what: String,
    /// Which of the import's refusals these are.
    places: Range<usize>,
}

impl RefusedBytes {
    /// The refusals from place `from` on, which are those of one file; `None` where there is none, or one that stays
    /// new.
    ///
    /// # Errors
    /// [`FileError`] when the file cannot be read again.
    pub(super) fn of(
        all: &[RefusedFile],
        from: usize,
        mut file: File,
        path: &Path,
    ) -> Result<Option<Self>, FileError> {
        let refused = &all[from..];
        let is_open = |one: &RefusedFile| OPEN.contains(&one.rule.as_str());
        let size = file.metadata().map_err(durable::at("look at", path))?.len();
        // All files without a byte are one by their bytes.
        if size == 0 || refused.is_empty() || refused.iter().any(is_open) {
            return Ok(None);
        }
        let what = refused
            .iter()
            .map(|one| json!([one.rule, one.site, one.line, one.last_line, one.lines]));
        Ok(Some(Self {
            digest: digest(&mut file).map_err(durable::at("read", path))?,
            what: json!(what.collect::<Vec<_>>()).to_string(),
            places: from..all.len(),
        }))
    }
}

fn digest(file: &mut File) -> std::io::Result<String> {
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = Hasher::new();
    let mut left = file.take(MAX_HASHED);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match left.read(&mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Ok(format!("{}/{size}", hasher.finish().0))
}

/// Marks what an earlier import refused of the same bytes as known, and puts the rest of what was refused from place
/// `from` on on record, the first [`MAX_RECORDED`]; what could not be opened is not. One transaction: a stick full of
/// forgeries would keep the store busy one by one.
///
/// # Errors
/// [`HubError`] when the store fails.
pub(super) fn record(
    hub: &mut Hub,
    done: &mut Imported,
    from: usize,
    now_ms: i64,
) -> Result<(), HubError> {
    if done.refused.len() == from {
        return Ok(());
    }
    let files = std::mem::take(&mut done.refused_bytes);
    let (refused, first) = (&mut done.refused, &mut done.refused_first);
    hub.store
        .write(|session| {
            let mut left = MAX_RECORDED;
            for file in files {
                let before = session.refused_before(&file.digest)?;
                let known =
                    before.as_deref() == Some(file.what.as_str()) && !first.contains(&file.digest);
                if !known {
                    first.insert(file.digest.clone());
                }
                if !known && left > 0 {
                    session.remember_refused(&file.digest, &file.what, now_ms)?;
                    left -= 1;
                }
                for one in &mut refused[file.places] {
                    one.known = known;
                }
            }
            session.forget_refused()?;
            let is_new = |one: &&RefusedFile| !one.known && one.rule != UNUSABLE;
            for one in refused[from..].iter().filter(is_new).take(MAX_RECORDED) {
                session.add_refusal(&IngestRefusal {
                    at_ms: now_ms,
                    source: text::file_name(Path::new(&one.file)),
                    site: one.site.clone(),
                    rule: one.rule.clone(),
                    message: one.reason.clone(),
                    times: one.lines.unwrap_or(1),
                    first_ms: now_ms,
                })?;
            }
            Ok(())
        })
        .map_err(|error: StoreError| error.into())
}
