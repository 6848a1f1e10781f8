//! `outhaul-hub explanation`: an explanation that is on record is removed by its digest.
//!
//! What comes in: the digest, as the pages and `GET /api/v1/explanations` show it, and who removes it. What goes out: what it was, and an
//! entry on record. It removes nothing else, and no bundle, report or decision ever.

use outhaul_bundle::name::Name;
use outhaul_kit::text;
use serde_json::json;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::explanations;
use crate::time;

/// Explanations of renderings that are on record
///
/// `outhaul-hub import explanation` takes one in, `outhaul explain --whole --send` sends one. Nobody signs them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ExplanationCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ExplanationCommand {
    /// Remove one by its digest, on record: one that is forged, or in the way of others
    ///
    /// The pages that explain and `GET /api/v1/explanations` show digests, and who sent each. One that is needed is sent again by
    /// `outhaul explain --whole --send`. To keep its sender out: `outhaul-hub token revoke NAME`; what that token sent gives way to
    /// anybody's then.
    #[command(after_help = "Example:\n  outhaul-hub explanation remove \
                      sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae --by alice --state hub")]
    Remove(One),
}

#[derive(Debug, clap::Args)]
struct One {
    /// The digest of the document
    #[arg(value_name = "DIGEST")]
    digest: String,
    /// Who removes it; on record
    #[arg(long, value_name = "NAME")]
    by: Name,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let ExplanationCommand::Remove(One { digest, by }) = &args.command;
    let mut hub = print::open(common)?;
    let now_ms = time::now_ms();
    let entry = |what: String| {
        super::token::entry("explanation remove", format!("{what} by `{by}`"), now_ms)
    };
    let Some(one) = explanations::remove(&mut hub.store, digest, entry)? else {
        return Err(HubError::Usage {
            problem: format!("no explanation `{}` is on record", text::printable(digest)),
            help: "the pages that explain and `GET /api/v1/explanations` show whole digests, such as `sha256:2c26b…`; nothing was changed"
                .to_owned(),
        });
    };
    match common.output {
        Output::Json => print::json(&json!({
            "digest": one.digest, "environment": one.environment, "sent_by": one.sent_by, "removed": true,
        })),
        Output::Text => print::data(&format!(
            "explanation {} of {} removed, which `{}` sent",
            one.digest, one.environment, one.sent_by
        )),
    }
    Ok(0)
}
