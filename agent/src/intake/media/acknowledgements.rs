//! Acknowledgements on a medium.
//!
//! What comes in: a medium, and which site this is. What goes out: reports that the hub has are gone; what of the file cannot be used is
//! refused, and the rest counts. It writes nothing to the medium.

use std::path::{Path, PathBuf};

use outhaul_kit::media::{self, Bounds, Media};
use outhaul_kit::text;

use super::Findings;
use crate::acks;
use crate::agent::Agent;
use crate::durable::FileError;
use crate::error::AgentError;

/// What is looked at for acknowledgements whose name has other letters.
const ACKS_BOUNDS: Bounds = Bounds {
    depth: 1,
    entries: 10_000,
    kept: 2_000,
};
/// Largest file of acknowledgements, in bytes.
const MAX_ACKS_BYTES: u64 = 16 * 1024 * 1024;

/// Where acknowledgements for `site` lie on a medium.
pub fn acks_of(site: &str) -> PathBuf {
    Path::new("acks").join(format!("{site}.acks"))
}

/// Takes acknowledgements for this site from `acks/` on a medium. What of them cannot be used is refused
/// in `findings`; the others count.
///
/// # Errors
/// [`AgentError::File`] for what lies there and cannot be used, or [`AgentError`] of the store.
pub fn take_acks(
    agent: &mut Agent,
    media: &Media,
    findings: &mut Findings,
) -> Result<(), AgentError> {
    let own = acks_of(agent.site.name.as_str());
    let Some((path, bytes)) = acks_on(media, &own)? else {
        return Ok(());
    };
    let (envelopes, problem) = acks::usable(&agent.site, &bytes);
    if let Some((rule, problem)) = problem {
        let message = match envelopes.is_empty() {
            true => format!(
                "acknowledgements of reports: {problem}; the reports that they are of stay here and go again"
            ),
            false => format!(
                "acknowledgements of reports: a part of the file cannot be used: {problem}; the others count, and reports that \
                 none of them is of stay here and go again"
            ),
        };
        let rule = match envelopes.is_empty() {
            true => rule,
            false => "damaged-acks-in-part",
        };
        let name = text::path(&path);
        findings
            .refused
            .push(AgentError::refused(&name, rule, message));
    }
    if !envelopes.is_empty() {
        findings.acknowledged = Some(acks::accept(agent, &envelopes)?);
    }
    Ok(())
}

/// The file of acknowledgements `own`, whatever letters a FAT stick made of its name.
fn acks_on(media: &Media, own: &Path) -> Result<Option<(PathBuf, Vec<u8>)>, FileError> {
    if let Some(bytes) = media.read(own, MAX_ACKS_BYTES)? {
        return Ok(Some((own.to_owned(), bytes)));
    }
    let is_own = |path: &PathBuf| path.as_os_str().eq_ignore_ascii_case(own);
    let found = media.files(ACKS_BOUNDS, |name| media::is_named(Path::new(name), "acks"))?;
    let Some(path) = found.files.into_iter().find(is_own) else {
        return Ok(None);
    };
    let bytes = media.read(&path, MAX_ACKS_BYTES)?;
    Ok(bytes.map(|bytes| (path, bytes)))
}
