//! `outhaul-hub acks`: writes acknowledgements onto a stick that could not be written before.

use std::path::PathBuf;

use outhaul_kit::failure::FailureClass;
use outhaul_kit::text;
use serde_json::json;

use super::import::ACKS_LATER;
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
    let written = import::write_acks(&mut hub, &args.folder, None, time::now_ms())?;
    let import::WrittenAcks { files, failed } = written;
    match common.output {
        Output::Json => print::json(&json!({ "acks": files, "failed": failed })),
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
    for problem in &failed {
        print::talk(&format!("error: not written: {}", text::printable(problem)));
    }
    if failed.is_empty() {
        return Ok(0);
    }
    print::talk(&format!("help: {ACKS_LATER}"));
    Ok(FailureClass::Environment.code())
}
