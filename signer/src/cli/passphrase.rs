//! `outhaul-signer passphrase`: another passphrase, or today's strength, for keys that there are.

use outhaul_kit::text::json_path;
use std::path::PathBuf;

use outhaul_kit::interrupt;
use outhaul_signer::key::Cost;
use outhaul_signer::{Fleet, Secret, SigningKey};
use serde_json::json;

use super::{CommandOutcome, Common, Failure, Result};

/// Encrypt keys again: with another passphrase, and as strongly as new keys are.
///
/// Every key is opened before the first is written, and each file is replaced whole. Keys of an earlier
/// version rest weaker (`status` reports it); with the same passphrase in both places this only makes them
/// stronger. Copies elsewhere stay as they are.
///
/// Example: `outhaul-signer --passphrase-file old passphrase --new-passphrase-file new ./fleet`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A fleet's folder, or one key's `.pem`
    path: PathBuf,
    /// File with the new passphrase (mode 0600); without it, it is asked for at the terminal
    #[arg(long, value_name = "FILE")]
    new_passphrase_file: Option<PathBuf>,
}

impl Args {
    pub fn run(self, common: &Common) -> Result {
        let old = common.secret()?;
        let keys = if self.path.is_dir() {
            let entries = Fleet::open(&self.path)?.ring().entries()?;
            let mut keys = Vec::new();
            for entry in entries.into_iter().filter(|entry| entry.present) {
                let name = entry.private.file_name().unwrap_or_default();
                let root = name.to_string_lossy().starts_with("root-");
                let cost = if root { Cost::root() } else { Cost::daily() };
                let key = entry.open(&old)?;
                keys.push((entry.private, key, cost));
            }
            keys
        } else {
            let key = SigningKey::load(&self.path, &old)?;
            vec![(self.path.clone(), key, Cost::root())]
        };
        let new = match self.new_passphrase_file.as_deref() {
            Some(file) => {
                let new = Secret::from_sources(Some(file), &[], Secret::CREDENTIAL)?;
                new.refuse_weak()?;
                new
            }
            None => Secret::asked()?,
        };
        if keys.is_empty() {
            return Err(Failure::Usage("there is no private key here".to_owned()));
        }
        let _whole = interrupt::finishing();
        let mut written = Vec::new();
        for (path, key, cost) in keys {
            key.save_at(&path, &new, cost)?;
            written.push(path);
        }
        let text = match written.len() {
            1 => "1 key is encrypted again".to_owned(),
            count => format!("{count} keys are encrypted again"),
        };
        common.print(
            &text,
            &json!({"keys": written.iter().map(|path| json_path(path)).collect::<Vec<_>>()}),
        );
        Ok(CommandOutcome::Done)
    }
}
