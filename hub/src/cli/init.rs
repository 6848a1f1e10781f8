//! `outhaul-hub init`: makes a hub's state for one fleet.

use outhaul_kit::text::json_path;
use outhaul_signer::trust::walk::MAX_ROOT_BYTES;
use std::path::PathBuf;

use outhaul_kit::belongs::Owner;
use outhaul_place::refuse_own_folder;
use outhaul_signer::key::{KeyError, Secret};
use outhaul_signer::media;
use serde_json::json;

use super::database::Database;
use super::{Common, Output, print};
use crate::error::HubError;
use crate::state::{
    Hub, KEY_CREDENTIAL, PASSPHRASE_CREDENTIAL, PASSPHRASE_VARIABLE, StateError, key_credential,
};
use crate::time;

/// Longest reason, in bytes.
const MAX_REASON_BYTES: usize = 500;

/// Make a hub for one fleet: its store and its key
///
/// The fleet's first root metadata is the beginning of all trust: bundles are accepted from it on.
/// Prints the hub's public key, which goes into the kits of new sites. The private key rests encrypted with
/// the passphrase, or is the systemd credential `outhaul-hub.key`; unencrypted only where that is asked for.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub init --state hub --root fleet/metadata/1.root.json \
                        --passphrase-file hub.passphrase"
)]
pub(crate) struct Args {
    /// The fleet's first root metadata
    #[arg(long, value_name = "FILE")]
    root: PathBuf,
    /// Leave the private key unencrypted in the state folder, for this reason, which is put on record
    #[arg(long, value_name = "REASON", value_parser = reason)]
    plain_key: Option<String>,
    /// Begin with nothing where a hub's database is gone: every site has to be registered again, and sites number their
    /// reports again
    #[arg(long)]
    begin_empty: bool,
    /// Keep the data in this PostgreSQL database: `postgres://USER@HOST/NAME`, without a password, which comes from
    /// `$PGPASSWORD`, a file (`?passfile=FILE`, `$PGPASSFILE`, `~/.pgpass`) or the systemd credential
    /// `outhaul-hub.database-password`. Where the database is this hub's already and its `hub.key` lies in the state folder,
    /// the folder becomes that of one more process of the hub
    #[arg(long, value_name = "ADDRESS", env = "OUTHAUL_HUB_DATABASE")]
    database: Option<Database>,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    refuse_own_folder(&common.state, Owner::Hub)?;
    let root = media::read_file(&args.root, MAX_ROOT_BYTES)?;
    let secret = secret(common, args)?;
    let begin_empty = args.begin_empty.then(time::now_ms);
    let server = args.database.as_ref().map(Database::address);
    let server = server.transpose()?;
    let server = server.as_ref();
    let mut hub = Hub::init(&common.state, &root, secret.as_ref(), begin_empty, server)?;
    if let Some(reason) = &args.plain_key {
        hub.note_plain_key(reason)?;
    }
    let key = hub.public_key()?;
    let pem = key.to_pem();
    match common.output {
        Output::Json => print::json(&json!({
            "fleet": hub.fleet(), "key_id": key.id(), "public_key": pem,
            "state": json_path(&common.state), "key_encrypted": secret.is_some(),
            "plain_key": args.plain_key, "database": json_path(hub.store.path()),
        })),
        Output::Text => {
            print::block(pem.trim_end());
            print::talk(&format!(
                "Initialized the hub of fleet `{}` in `{}`. Above is its public key.",
                hub.fleet(),
                common.state.display()
            ));
            if let Some(address) = server {
                print::talk(&format!("Its data is in `{address}`."));
            }
        }
    }
    if args.plain_key.is_some() {
        print::talk(
            "note: the hub's key rests unencrypted in `hub.key`, readable for its owner only; `outhaul-hub \
             key --encrypt --passphrase-file FILE` encrypts it",
        );
    }
    Ok(0)
}

/// The passphrase; `None` where the key comes from elsewhere, or is to rest unencrypted.
fn secret(common: &Common, args: &Args) -> Result<Option<Secret>, HubError> {
    let passphrase = common.passphrase_file.as_deref();
    if args.plain_key.is_some() {
        if passphrase.is_none() {
            return Ok(None);
        }
        return Err(HubError::Usage {
            problem: "`--plain-key` and `--passphrase-file` contradict each other".to_owned(),
            help: "give one of them; nothing was made".to_owned(),
        });
    }
    match Secret::from_sources(passphrase, &[PASSPHRASE_VARIABLE], PASSPHRASE_CREDENTIAL) {
        Ok(secret) => {
            secret.refuse_weak().map_err(StateError::from)?;
            Ok(Some(secret))
        }
        Err(KeyError::NoPassphrase { .. }) if passphrase.is_none() => match key_credential() {
            Some(_) => Ok(None),
            None => Err(HubError::Usage {
                problem: "the hub's key would rest unencrypted; nothing was made".to_owned(),
                help: format!(
                    "give `--passphrase-file FILE`, set `{PASSPHRASE_VARIABLE}`, hand the key over as the \
                     systemd credential `{KEY_CREDENTIAL}`, or say why it may rest unencrypted: \
                     `--plain-key REASON`"
                ),
            }),
        },
        Err(error) => Err(StateError::from(error).into()),
    }
}

fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_REASON_BYTES {
        return Err(format!(
            "say why, in at most {MAX_REASON_BYTES} bytes: who looks at this hub later will want to know"
        ));
    }
    Ok(text.to_owned())
}
