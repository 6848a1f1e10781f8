//! `outhaul-hub import explanation`: what a rendering was made of, as `outhaul explain --whole` wrote it, comes into the hub.

use std::path::PathBuf;

use outhaul_bundle::hub_api::{
    ExplanationError, MAX_EXPLANATION_BYTES, MAX_EXPLANATION_FILE_BYTES, PlatformExplanation,
    RecordedExplanation,
};
use outhaul_bundle::name::Name;
use outhaul_kit::durable;

use super::token::note;
use super::{Common, Output, print};
use crate::error::HubError;
use crate::explanations;
use crate::store::{Sender, StoreError};
use crate::time;
use crate::view::explained;

/// Take in what a rendering was made of, for the pages that explain
///
/// From a file that `outhaul explain --whole --output json` wrote. Nobody signs it: it is named here and not found in a folder, because
/// a stick from a site must not explain anything, and the pages show who brought it: `NAME (command line)`. No gate and no site reads it.
/// There is always room for it: where as many are on record as are kept, the oldest gives way. `outhaul-hub explanation remove` removes
/// one by its digest.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul explain --environment dev --control-plane control-plane --whole --output json > dev.json\n  \
                  outhaul-hub import explanation dev.json --by alice --state hub"
)]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Who brings it; on record
    #[arg(long, value_name = "NAME")]
    by: Name,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let refused = |problem: String| HubError::Usage {
        problem: format!("`{}` was not imported: {problem}", args.file.display()),
        help: "`outhaul explain --whole --output json` writes such a file".to_owned(),
    };
    let bytes = durable::read(&args.file, MAX_EXPLANATION_FILE_BYTES as u64)?;
    let document = PlatformExplanation::read(&bytes).map_err(|error| refused(error.to_string()))?;
    let packed = explained::packed(&document)?.map_err(|error| refused(error.to_string()))?;
    if packed.bytes() > MAX_EXPLANATION_BYTES as u64 {
        return Err(refused(ExplanationError::TooLarge.to_string()));
    }
    let (by, now_ms) = (explanations::by_hand(args.by.as_str()), time::now_ms());
    let sender = Sender {
        name: &by,
        is_admin: true,
    };
    let done = hub.store.write(|session| {
        let done = explanations::put(&packed, session, sender, now_ms)?;
        if let Ok(done) = &done {
            let detail = format!("{} by `{}`", explanations::entry_of(done), args.by);
            note(session, "explanation import", detail, now_ms)?;
        }
        Ok::<_, StoreError>(done)
    })?;
    let done = done.map_err(|full| HubError::Usage {
        problem: format!("`{}` was not imported: {}", args.file.display(), full.text),
        help: "`outhaul-hub prune --older-than 180d --by NAME` removes those that no bundle needs which runs".to_owned(),
    })?;
    match common.output {
        Output::Json => print::json(&done),
        Output::Text => text(&done),
    }
    Ok(0)
}

fn text(done: &RecordedExplanation) {
    let row = &done.explanation;
    print::data(&format!(
        "explanation of {} {}: {} of snapshot {}; {}",
        row.environment,
        row.digest,
        print::count(row.assignments, "assignment"),
        row.snapshot,
        if done.new {
            "on record"
        } else {
            "already known"
        }
    ));
    if done.others > 0 {
        print::talk(&format!(
            "warning: {} of the same snapshot with other content on record: the pages show the one that came last, and that there are others",
            print::count(done.others, "explanation")
        ));
    }
    if done.removed > 0 {
        print::talk(&format!(
            "{} gave way to it",
            print::count(done.removed, "older explanation")
        ));
    }
}
