//! `outhaul-hub init`: makes a hub's state for one fleet.

use std::path::PathBuf;

use outhaul_signer::durable;
use outhaul_signer::key::{KeyError, Secret};
use serde_json::json;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::state::{Hub, PASSPHRASE_CREDENTIAL, PASSPHRASE_VARIABLE, StateError};

/// Far more than root metadata has.
const MAX_ROOT_BYTES: u64 = 512 * 1024;

/// Make a hub for one fleet: its store and its key
///
/// The fleet's first root metadata is the beginning of all trust: bundles are believed from it on.
/// Prints the hub's public key, which goes into the kits of new sites. With a passphrase the private key
/// rests encrypted.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub init --state hub --root fleet/metadata/1.root.json \
                        --passphrase-file hub.passphrase"
)]
pub(crate) struct Args {
    /// The fleet's first root metadata
    #[arg(long, value_name = "FILE")]
    root: PathBuf,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let root = durable::read(&args.root, MAX_ROOT_BYTES)?;
    let sources = [PASSPHRASE_VARIABLE];
    let passphrase = common.passphrase_file.as_deref();
    let secret = match Secret::from_sources(passphrase, &sources, PASSPHRASE_CREDENTIAL) {
        Ok(secret) => {
            secret.refuse_weak().map_err(StateError::from)?;
            Some(secret)
        }
        // None was given, which is allowed and said.
        Err(KeyError::NoPassphrase { .. }) if passphrase.is_none() => None,
        Err(error) => return Err(StateError::from(error).into()),
    };
    let mut hub = Hub::init(&common.state, &root, secret.as_ref())?;
    let key = hub.public_key()?;
    let pem = key.to_pem();
    match common.output {
        Output::Json => print::json(&json!({
            "fleet": hub.fleet(), "key_id": key.id(), "public_key": pem,
            "state": common.state, "key_encrypted": secret.is_some(),
        })),
        Output::Text => {
            print::block(pem.trim_end());
            print::talk(&format!(
                "Made a hub for fleet `{}` in `{}`. Above is its public key.",
                hub.fleet(),
                common.state.display()
            ));
        }
    }
    if secret.is_none() {
        print::talk(
            "note: the hub's key rests unencrypted in `hub.key`, readable for its owner only; `outhaul-hub \
             key --encrypt --passphrase-file FILE` encrypts it",
        );
    }
    Ok(0)
}
