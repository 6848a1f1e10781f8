//! `outhaul-hub waive`: lets gates go on without one site, until a moment.

use serde_json::json;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::state::Hub;
use crate::store::Waiver;
use crate::time::{self, DAY_MS};

/// A waiver is for a time; whoever needs longer should revoke the site.
const LONGEST_MS: i64 = 366 * DAY_MS;

/// Let gates go on without one site for a time, on record
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub waive --site drone-17 --until 14d \
                        --reason \"in dock\" --by alice --state hub"
)]
pub(crate) struct Args {
    /// The site
    #[arg(long, value_name = "NAME")]
    site: String,
    /// When it ends: `2026-12-24`, `2026-12-24T18:00:00Z`, `36h` or `14d`
    #[arg(long, value_name = "WHEN")]
    until: String,
    /// Why
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    reason: String,
    /// Who gives it
    #[arg(long, value_name = "WHO", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    by: String,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = Hub::open(&common.state)?;
    let now_ms = time::now_ms();
    let usage = |problem: String, help: &str| HubError::Usage {
        problem,
        help: help.to_owned(),
    };
    let until_ms = time::parse(&args.until, now_ms)
        .map_err(|problem| usage(problem, "name the time at which the waiver ends"))?;
    if until_ms <= now_ms || until_ms - now_ms > LONGEST_MS {
        let problem = format!("a waiver cannot end {}", time::rfc3339(until_ms));
        return Err(usage(
            problem,
            "choose a date in the future, within 366 days",
        ));
    }
    let waiver = Waiver {
        id: 0,
        site: args.site.clone(),
        until_ms,
        reason: args.reason.clone(),
        granted_by: args.by.clone(),
        granted_ms: now_ms,
    };
    let id = hub.store.write(|session| {
        if session.site(&args.site)?.is_none() {
            let problem = format!("no site `{}` is registered", args.site);
            return Err(usage(problem, "`outhaul-hub sites` lists them"));
        }
        Ok(session.add_waiver(&waiver)?)
    })?;
    let until = time::rfc3339(until_ms);
    match common.output {
        Output::Json => print::json(&json!({ "id": id, "site": args.site, "until": until })),
        Output::Text => print::data(&format!("site `{}` is waived until {until}", args.site)),
    }
    Ok(0)
}
