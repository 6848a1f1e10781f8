//! `outhaul-hub lost`: the signed text of a report is gone, and no backup has it.
//!
//! What comes in: a report, who states it and why. What goes out: one entry more on record; the report's number is no longer kept, and
//! backups and exports are made again. It removes no report that has its text, and none that a site's present state rests on.

use outhaul_bundle::name::Name;
use outhaul_kit::text::one_full_line;
use serde_json::json;

use super::{Common, Output, print};
use crate::acting::usage;
use crate::error::HubError;
use crate::store::{AccessEntry, LostText};
use crate::time;

/// State that the signed text of a report is lost, on record
///
/// A backup, an audit export and a move refuse a report on record whose signed text is missing in the database, or is not that of the
/// report, and name it: import the file or stick that brought it once more, or bring it back from a backup of the server. Where nothing
/// has it, say so here: the number of the report is then one that is no longer kept,
/// the entry stays in the audit export under your name, and a decision that rests on the report cannot be recomputed. The newest
/// report of a site, and one that its present state rests on, stay until the site has reported again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub lost --site drone-17 --epoch e-51c2 --number 12 --by alice --reason \
                        \"the disk of the database server failed\" --state hub"
)]
pub(crate) struct Args {
    /// The site
    #[arg(long, value_name = "SITE")]
    site: Name,
    /// The numbering of the report, as the refused command names it
    #[arg(long, value_name = "NUMBERING")]
    epoch: Name,
    /// The number of the report
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    number: u64,
    /// Why
    #[arg(long, value_name = "TEXT", value_parser = one_full_line)]
    reason: String,
    /// Who states it
    #[arg(long, value_name = "WHO", value_parser = one_full_line)]
    by: String,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    print::clock(&mut hub)?;
    let now_ms = time::now_ms();
    let (site, number) = (args.site.as_str(), args.number);
    let by = args.by.trim();
    let id = hub.store.write(|session| {
        let report = (site, args.epoch.as_str(), number);
        let problem = match session.record_lost_text(report, (by, &args.reason), now_ms)? {
            LostText::Recorded(id) => {
                session.add_access(&entry(args, by, now_ms))?;
                return Ok::<_, HubError>(id);
            }
            LostText::NoReport => format!("report {number} of site `{site}` is not on record"),
            LostText::IsThere => {
                format!("the signed text of report {number} of site `{site}` is in the database")
            }
            LostText::StateRestsOnIt => {
                return Err(HubError::Refused {
                    problem: format!(
                        "the present state of site `{site}` rests on report {number}, whose signed text is missing"
                    ),
                    help: "repeat the command when the site has reported again; nothing was changed".to_owned(),
                });
            }
        };
        let help = "the command that was refused names the report; nothing was changed";
        Err(usage(problem, help))
    })?;
    match common.output {
        Output::Json => print::json(&json!({
            "id": id, "kind": "lost", "site": site, "epoch": args.epoch.as_str(), "number": number, "by": by,
        })),
        Output::Text => print::data(&format!(
            "the signed text of report {number} of site `{site}` is lost (number {id} on record)"
        )),
    }
    Ok(0)
}

fn entry(args: &Args, by: &str, now_ms: i64) -> AccessEntry {
    AccessEntry {
        at_ms: now_ms,
        who: by.to_owned(),
        how: "command line".to_owned(),
        action: "lost".to_owned(),
        detail: format!("report {} of site {}", args.number, args.site),
        allowed: true,
        ..Default::default()
    }
}
