//! `outhaul-signer stream`: which signatures a stream needs.

use std::path::PathBuf;

use outhaul_signer::Fleet;
use outhaul_signer::ceremony::StreamChange;
use serde_json::json;

use super::root::{self, Called};
use super::{CommandOutcome, Common, Failure, Result};

/// Change which signatures a stream needs.
///
/// With a threshold of 2, every bundle of the stream is countersigned: `outhaul bundle` writes a request,
/// and with the answer beside the request `outhaul bundle` again ships the very bundle that was signed.
/// Raising it asks the new key to sign the published bundle once more: run the same command again with
/// the answer beside the request. A key is called after its file.
///
/// Example: `outhaul-signer --passphrase-file pass stream ./fleet s-0123456789abcdef --add-key
/// auditor.pub --threshold 2`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The fleet's folder
    folder: PathBuf,
    /// The stream's role, as `status` shows it
    role: String,
    /// Add a key that was made elsewhere: its public key, PEM
    #[arg(long, value_name = "FILE")]
    add_key: Vec<PathBuf>,
    /// Remove a key: its id, or the beginning of it
    #[arg(long, value_name = "ID")]
    remove_key: Vec<String>,
    /// How many of its keys must sign
    #[arg(long, value_name = "COUNT")]
    threshold: Option<usize>,
}

impl Args {
    pub fn run(self, common: &Common) -> Result {
        let mut changes = Vec::new();
        for path in &self.add_key {
            let key = root::read_public(path)?;
            let id = key.id();
            let called = Called::default().or_file(path);
            changes.push(StreamChange::AddKey(key));
            changes.push(StreamChange::NameKey { id, called });
        }
        // A lower threshold first, so that a key may go with it in one step.
        changes.extend(self.threshold.map(StreamChange::Threshold));
        changes.extend(self.remove_key.iter().cloned().map(StreamChange::RemoveKey));
        if changes.is_empty() {
            return Err(Failure::Usage(
                "say what to change, see `--help`".to_owned(),
            ));
        }
        let fleet = Fleet::open(&self.folder)?;
        fleet.change_stream(
            &self.role,
            &changes,
            common.sign_at(&fleet)?,
            &common.secret()?,
        )?;
        common.print(
            &format!("stream {} is changed", self.role),
            &json!({"role": self.role}),
        );
        Ok(CommandOutcome::Done)
    }
}
