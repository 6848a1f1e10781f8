//! The audit export: everything that a verifier needs to make each decision again, in one file.
//!
//! What comes in: an open hub with its key. What goes out: lines of JSON, the same for the same record, the last signed
//! by the hub over all before it. It reads one unchanging view of the store, in bounded memory, and changes nothing.

use std::io::Write;

use outhaul_bundle::digest::HashingWriter;
use outhaul_gate::audit::{
    AuditLine, End, FORMAT, FORMAT_3, FORMAT_4, FORMAT_5, FORMAT_6, FORMAT_7,
};
use serde::Serialize;

use crate::error::HubError;
use crate::state::Hub;

/// What an export holds.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Lines, the last one included.
    pub lines: u64,
    /// Decisions with their content.
    pub decisions: u64,
    /// Older closed decisions of which the place in the chain is there.
    pub forgotten: u64,
    /// Approvals, waivers, deferrals and withdrawals.
    pub acts: u64,
    /// Signed reports.
    pub reports: u64,
    /// Reports that are no longer kept.
    pub removed: u64,
    /// The digest of the newest decision.
    pub head: String,
}

/// Writes an export to `out`.
///
/// # Errors
/// [`HubError`] when the store fails or `out` cannot be written.
pub fn export(hub: &mut Hub, out: impl Write) -> Result<Exported, HubError> {
    let (fleet, hub_key) = (hub.fleet().to_owned(), hub.public_key()?.to_pem());
    let mut out = HashingWriter::new(out);
    let mut done = Exported::default();
    let mut acts_head = String::new();
    let mut take = |line: AuditLine| -> Result<(), HubError> {
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        out.write_all(&text).map_err(unwritten)?;
        done.lines += 1;
        match line {
            AuditLine::Decision { chain, .. } => {
                done.decisions += 1;
                done.head = chain.map(|link| link.digest).unwrap_or_default();
            }
            AuditLine::Forgotten { chain, .. } => {
                done.forgotten += 1;
                done.head = chain.digest;
            }
            AuditLine::Act { digest, .. } => {
                done.acts += 1;
                acts_head = digest;
            }
            AuditLine::Report { .. } => done.reports += 1,
            AuditLine::Removed { first, last, .. } => {
                done.removed += last.saturating_sub(first) + 1;
            }
            _ => {}
        }
        Ok(())
    };
    hub.store.read_all(|session| {
        // A verifier of before reads what a hub that removed nothing writes. One that begins to remove meanwhile is not seen here.
        let format = match session.removals(1)?.is_empty() {
            _ if session.has_checks()? => FORMAT_7,
            _ if session.has_lost_texts()? => FORMAT_6,
            _ if session.has_clock_statement()? => FORMAT_5,
            _ if session.has_registered_again()? => FORMAT_4,
            true => FORMAT,
            false => FORMAT_3,
        };
        take(AuditLine::Header {
            format: format.to_owned(),
            fleet,
            hub_key,
        })?;
        session.audit_lines(&mut take)
    })?;
    let (mut out, digest, _) = out.finish();
    let end = End {
        fleet: hub.fleet().to_owned(),
        lines: done.lines,
        digest: digest.to_string(),
        decisions: done.head.clone(),
        acts: acts_head,
    };
    let mut last = hub.sign_export(&end)?.to_json();
    last.push(b'\n');
    out.write_all(&last)
        .and_then(|()| out.flush())
        .map_err(unwritten)?;
    done.lines += 1;
    Ok(done)
}

fn unwritten(source: std::io::Error) -> HubError {
    HubError::Serve {
        doing: "write the export".to_owned(),
        source,
    }
}
