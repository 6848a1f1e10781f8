//! `outhaul-hub acks`: writes acknowledgements onto a stick that could not be written before.

use std::path::PathBuf;

use serde_json::json;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::{import, time};

/// Write acknowledgements for every site into FOLDER/acks
///
/// A site that reads them forgets the reports that have arrived. `import FOLDER` does this by itself
/// when the folder can be written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-hub acks /media/stick --state hub")]
pub(crate) struct Args {
    /// The stick, or any folder that travels to the sites
    folder: PathBuf,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open_signing(common)?;
    let files = import::write_acks(&mut hub, &args.folder, None, time::now_ms())?;
    match common.output {
        Output::Json => print::json(&json!({ "acks": files })),
        Output::Text => {
            for file in &files {
                print::data(file);
            }
            print::talk(&format!(
                "Wrote {}.",
                print::count(files.len() as u64, "file")
            ));
        }
    }
    Ok(0)
}
