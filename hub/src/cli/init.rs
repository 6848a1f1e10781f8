//! `outhaul-hub init`: makes a hub's state for one fleet.

use std::path::PathBuf;

use outhaul_signer::durable;
use serde_json::json;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::state::Hub;

/// Far more than root metadata has.
const MAX_ROOT_BYTES: u64 = 512 * 1024;

/// Make a hub for one fleet: its store and its key
///
/// The fleet's first root metadata is the beginning of all trust: bundles are believed from it on.
/// Prints the hub's public key, which goes into the kits of new sites.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub init --state hub --root fleet/metadata/1.root.json"
)]
pub(crate) struct Args {
    /// The fleet's first root metadata
    #[arg(long, value_name = "FILE")]
    root: PathBuf,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let root = durable::read(&args.root, MAX_ROOT_BYTES)?;
    let hub = Hub::init(&common.state, &root)?;
    let pem = hub.public_key_pem();
    match common.output {
        Output::Json => print::json(&json!({
            "fleet": hub.fleet(), "key_id": hub.key_id(), "public_key": pem,
            "state": common.state,
        })),
        Output::Text => {
            print::data(pem.trim_end());
            print::talk(&format!(
                "Made a hub for fleet `{}` in `{}`. Above is its public key.",
                hub.fleet(),
                common.state.display()
            ));
        }
    }
    Ok(0)
}
