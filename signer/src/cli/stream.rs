//! `outhaul-signer stream`: whose signatures a stream needs.

use std::path::PathBuf;

use outhaul_signer::Fleet;
use outhaul_signer::ceremony::StreamChange;
use serde_json::json;

use super::{Common, Failure, Outcome, Result, root};

/// Change whose signatures a stream needs.
///
/// With a threshold of 2, every bundle of the stream is countersigned: signing it writes a request, and
/// signing it again, with the answer beside the request, makes the bundle.
///
/// Example: `outhaul-signer --passphrase-file pass stream ./fleet s-0123456789abcdef --add-key
/// auditor.pub --threshold 2`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The fleet's folder
    folder: PathBuf,
    /// The stream's role, as `status` shows it
    role: String,
    /// A further key, made elsewhere: its public half, PEM
    #[arg(long, value_name = "FILE")]
    add_key: Vec<PathBuf>,
    /// A key less: its id, or the beginning of it
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
            changes.push(StreamChange::AddKey(root::read_public(path)?));
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
        fleet.change_stream(&self.role, &changes, common.now(), &common.secret()?)?;
        common.print(
            &format!("stream {} is changed", self.role),
            &json!({"role": self.role}),
        );
        Ok(Outcome::Done)
    }
}
