//! `outhaul-signer revoke`: a stream's key counts no more.

use std::path::PathBuf;

use outhaul_signer::Fleet;
use outhaul_signer::ceremony::StreamChange;
use serde_json::json;

use super::{CommandOutcome, Common, Result};

/// Replace a stream's stolen key, or end the stream.
///
/// The stream's newest bundle is signed again by a new key. Sites learn of it with the next bundle or
/// refresh. If online keys may be stolen too, `rotate` them as well.
///
/// Example: `outhaul-signer --passphrase-file pass revoke ./fleet s-0123456789abcdef`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The fleet's folder
    folder: PathBuf,
    /// The stream's role, as `status` shows it
    role: String,
    /// Give the stream no new key: its sites accept no further bundle
    #[arg(long)]
    end: bool,
}

impl Args {
    pub fn run(self, common: &Common) -> Result {
        let fleet = Fleet::open(&self.folder)?;
        let change = if self.end {
            StreamChange::End
        } else {
            StreamChange::Rekey
        };
        fleet.change_stream(
            &self.role,
            &[change],
            common.sign_at(&fleet)?,
            &common.secret()?,
        )?;
        let what = if self.end { "ended" } else { "has a new key" };
        let text = format!("stream {} {what}", self.role);
        common.print(&text, &json!({"role": self.role, "ended": self.end}));
        Ok(CommandOutcome::Done)
    }
}
