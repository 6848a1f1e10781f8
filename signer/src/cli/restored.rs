//! `outhaul-signer restored`: a fleet's folder came back from a backup.

use std::fmt::Write as _;
use std::path::PathBuf;

use outhaul_kit::console;
use outhaul_signer::Fleet;
use serde_json::json;

use super::{CommandOutcome, Common, Result};

/// Let a fleet that was restored from a backup sign above everything that it signed before.
///
/// A copy does not know which versions and numbers were used after it was made, and sites refuse a second
/// publication under any of them. This leaves out so many of each; nothing is signed by it, and no
/// passphrase is needed. The next `outhaul bundle --renew` is what sites take.
///
/// Example: `outhaul-signer restored ./fleet`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The fleet's folder
    folder: PathBuf,
    /// How many version numbers to skip: more than bundles, slips and changes of keys since the backup
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    by: u64,
}

impl Args {
    pub fn run(self, common: &Common) -> Result {
        let fleet = Fleet::open(&self.folder)?;
        let next = fleet.leave_out(self.by)?;
        let mut text = format!("{} versions and numbers are left out", self.by);
        for (role, number) in &next {
            let stream = fleet.streams().get(role);
            let name = stream.map_or_else(
                || role.clone(),
                |stream| format!("{}/{}", stream.environment, stream.cluster_type),
            );
            let _ = write!(text, "\n{name}: the next bundle is number {number}");
        }
        console::message(
            "next: `outhaul bundle --renew` for every stream; sites that took a newer bundle take that one",
        );
        common.print(&text, &json!({"left_out": self.by, "next": next}));
        Ok(CommandOutcome::Done)
    }
}
