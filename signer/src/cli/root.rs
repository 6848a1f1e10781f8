//! `outhaul-signer root`: who signs the root metadata.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use outhaul_signer::ceremony::{Ceremony, RootChange};
use outhaul_signer::media;
use outhaul_signer::metadata::Holder;
use outhaul_signer::{Fleet, PublicKey};
use serde_json::json;

use super::{CommandOutcome, Common, Failure, Result};

/// Change who signs the root metadata, and how many must.
///
/// When signatures are missing, a request is written; `countersign` it where the other keys are, put
/// the answers beside it, and `root finish`.
///
/// Example: `outhaul-signer --passphrase-file pass root ./fleet add-key vault-b.pub`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The fleet's folder
    folder: PathBuf,
    #[command(subcommand)]
    change: Change,
}

#[derive(Debug, Subcommand)]
enum Change {
    /// Add a root key that was made elsewhere
    #[command(
        after_help = "Example:\n  outhaul-signer --passphrase-file pass root ./fleet add-key vault-b.pub"
    )]
    AddKey {
        /// Its public half, PEM
        public: PathBuf,
        #[command(flatten)]
        called: Called,
    },
    /// Publish a change that waited for signatures
    #[command(after_help = "Example:\n  outhaul-signer --passphrase-file pass root ./fleet finish")]
    Finish,
    /// Say what a root key is called and who holds it
    #[command(
        after_help = "Example:\n  outhaul-signer --passphrase-file pass root ./fleet name-key 3f9ac2 --name vault-b --holder 'Ana Lima'"
    )]
    NameKey {
        /// Its id, or the beginning of it
        id: String,
        #[command(flatten)]
        called: Called,
    },
    /// Remove a root key
    #[command(
        after_help = "Example:\n  outhaul-signer --passphrase-file pass root ./fleet remove-key 3f9ac2"
    )]
    RemoveKey {
        /// Its id, or the beginning of it
        id: String,
    },
    /// Only give the root metadata a later expiry
    #[command(after_help = "Example:\n  outhaul-signer --passphrase-file pass root ./fleet renew")]
    Renew,
    /// Say how many root keys must sign
    #[command(
        after_help = "Example:\n  outhaul-signer --passphrase-file pass root ./fleet threshold 2"
    )]
    Threshold {
        /// 1 to the number of root keys
        count: usize,
    },
}

/// What co-signers read beside a key's id.
#[derive(Debug, Default, clap::Args)]
pub struct Called {
    /// What the key is called [default for `add-key`: its file's name]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Who holds it
    #[arg(long, value_name = "TEXT")]
    holder: Option<String>,
}

impl Called {
    /// As given, or after the file of the key.
    pub fn or_file(self, path: &Path) -> Holder {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Holder {
            name: self.name.unwrap_or_else(|| stem.into_owned()),
            holder: self.holder.unwrap_or_default(),
        }
    }
}

impl Args {
    pub fn run(self, common: &Common) -> Result {
        let fleet = Fleet::open(&self.folder)?;
        let secret = common.secret()?;
        let changes = match self.change {
            Change::AddKey { public, called } => {
                let key = read_public(&public)?;
                let called = called.or_file(&public);
                let id = key.id();
                vec![
                    RootChange::AddRootKey(key),
                    RootChange::NameKey { id, called },
                ]
            }
            Change::NameKey { id, called } => {
                let called = Holder {
                    name: called.name.unwrap_or_default(),
                    holder: called.holder.unwrap_or_default(),
                };
                vec![RootChange::NameKey { id, called }]
            }
            Change::Finish => {
                let done = fleet.finish_root(common.sign_at(&fleet)?, &secret)?;
                // Where a change begins, answers to the request before it still lie there, and nobody asks about them.
                if let Ceremony::Waiting { others, .. } = &done {
                    for (answer, why) in others {
                        super::say(&format!(
                            "`{}` does not answer this request: {why}",
                            answer.display()
                        ));
                    }
                }
                return Ok(print_done(common, &done));
            }
            Change::RemoveKey { id } => vec![RootChange::RemoveRootKey(id)],
            Change::Renew => vec![RootChange::Renew],
            Change::Threshold { count } => vec![RootChange::Threshold(count)],
        };
        Ok(print_done(
            common,
            &fleet.change_root(&changes, common.sign_at(&fleet)?, &secret)?,
        ))
    }
}

/// A public key from a PEM file.
pub fn read_public(path: &Path) -> std::result::Result<PublicKey, Failure> {
    let bytes = media::read_file(path, crate::key::MAX_KEY_BYTES)?;
    Ok(PublicKey::from_pem(&String::from_utf8_lossy(&bytes))?)
}

/// Prints where a change of the root stands.
pub fn print_done(common: &Common, state: &Ceremony) -> CommandOutcome {
    match state {
        Ceremony::Done { version } => {
            let text = format!("root version {version} is published");
            common.print(&text, &json!({"state": "done", "version": version}));
            CommandOutcome::Done
        }
        Ceremony::Waiting {
            request,
            version,
            found,
            ..
        } => {
            let path = request.display();
            let text = format!("root version {version} waits: {found} signed; request {path}");
            let state = json!({
                "state": "waiting", "version": version, "found": found, "request": request,
            });
            common.print(&text, &state);
            let passphrase = common.passphrase_option();
            super::say(&format!(
                "help: `outhaul-signer countersign {path} --root 1.root.json --key KEY.pem` where another \
                 key is, put the answer beside the request, then `outhaul-signer{passphrase} root FLEET finish`"
            ));
            CommandOutcome::Waiting
        }
    }
}
