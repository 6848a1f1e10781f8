//! `outhaul-signer init`: a new fleet.

use outhaul_kit::text::json_path;
use std::path::PathBuf;

use outhaul_kit::belongs::Owner;
use outhaul_place::refuse_own_folder;
use outhaul_signer::hub_url::hub_url;
use outhaul_signer::{Fleet, InitOptions};
use serde_json::json;

use super::{CommandOutcome, Common, Result};

/// Make a fleet: its keys and its first metadata.
///
/// Example: `outhaul-signer --passphrase-file pass init ./fleet --root-keys 3 --root-threshold 2`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The fleet's folder
    folder: PathBuf,
    /// Root keys to make; carry all but one to other places
    #[arg(long, default_value_t = 1)]
    root_keys: usize,
    /// Root keys that must sign a change of keys
    #[arg(long, default_value_t = 1)]
    root_threshold: usize,
    /// Days until the root metadata expires
    #[arg(long, default_value_t = 730)]
    root_days: u32,
    /// Days until the list of streams expires
    #[arg(long, default_value_t = 730)]
    targets_days: u32,
    /// Where the hub is
    #[arg(long, value_name = "URL", value_parser = hub_url)]
    hub_url: Option<String>,
}

impl Args {
    pub fn run(self, common: &Common) -> Result {
        refuse_own_folder(&self.folder, Owner::Fleet)?;
        let mut options = InitOptions::new(common.new_secret()?, common.now());
        options.root_keys = self.root_keys;
        options.root_threshold = self.root_threshold;
        options.root_days = self.root_days;
        options.targets_days = self.targets_days;
        options.hub_url = self.hub_url.unwrap_or_default();
        let fleet = Fleet::init(&self.folder, options)?;
        let folder = self.folder.display();
        let text = format!("fleet {} in {folder}", fleet.id());
        common.print(
            &text,
            &json!({"fleet": fleet.id(), "folder": json_path(&self.folder)}),
        );
        super::say(&format!(
            "keys are in {folder}/keys, encrypted; keep copies of the root keys elsewhere"
        ));
        Ok(CommandOutcome::Done)
    }
}
