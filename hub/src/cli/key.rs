//! `outhaul-hub key`: the public key that signs acknowledgements.

use outhaul_signer::key::Secret;
use serde_json::json;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::state::{PASSPHRASE_CREDENTIAL, PASSPHRASE_VARIABLE, StateError};

/// Print the hub's public key, or encrypt the private one
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outhaul-hub key --state hub > hub.pem\n  outhaul-hub key --encrypt \
                        --passphrase-file hub.passphrase --state hub"
)]
pub(crate) struct Args {
    /// Encrypt the private key in the state folder with the passphrase
    #[arg(long)]
    encrypt: bool,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    if args.encrypt {
        let file = common.passphrase_file.as_deref();
        let secret = Secret::from_sources(file, &[PASSPHRASE_VARIABLE], PASSPHRASE_CREDENTIAL)
            .map_err(StateError::from)?;
        secret.refuse_weak().map_err(StateError::from)?;
        hub.encrypt_key(&secret)?;
        print::talk(
            "The hub's key is encrypted; `serve`, `import` and `acks` need the passphrase.",
        );
    }
    let key = hub.public_key()?;
    match common.output {
        Output::Json => print::json(&json!({
            "fleet": hub.fleet(), "key_id": key.id(), "public_key": key.to_pem(),
            "plain_key": hub.plain_key()?,
        })),
        Output::Text => print::block(key.to_pem().trim_end()),
    }
    Ok(0)
}
