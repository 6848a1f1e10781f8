//! `outhaul-hub key`: the public key that signs acknowledgements.

use serde_json::json;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::state::Hub;

/// Print the hub's public key
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-hub key --state hub > hub.pem")]
pub(crate) struct Args {}

pub(super) fn run(common: &Common, _args: &Args) -> Result<u8, HubError> {
    let hub = Hub::open(&common.state)?;
    let pem = hub.public_key_pem();
    match common.output {
        Output::Json => print::json(&json!({
            "fleet": hub.fleet(), "key_id": hub.key_id(), "public_key": pem,
        })),
        Output::Text => print::data(pem.trim_end()),
    }
    Ok(0)
}
