//! `outhaul-hub prune`: reports that are old enough are removed, those that are still needed are not.
//!
//! What comes in: how old, and who asks. What goes out: an entry on record and what it removed, or with `--dry-run` what it would
//! remove. It works beside a server that takes reports in, and removes nothing that a gate's decision on record rests on.

use std::time::Duration;

use outhaul_kit::text::one_full_line;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::retention::{self, LEAST_DAYS, MOST_DAYS, Removed, Rule};
use crate::store::KeptBecause;
use crate::time;

/// After each transaction, so that reports that come in wait for one at most.
const PAUSE: Duration = Duration::from_millis(2);

/// Remove old reports that nothing rests on any more, on record
///
/// Removed are looks at what runs, steps of bundles that went well, and starts of agents. What a site's present state, a gate's
/// decision on record, a gate's rules or an audit export needs stays, and so do decisions, orders, refusals and losses that
/// sites reported. A report whose number was removed is known when it comes again, and is not counted again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outhaul-hub prune --older-than 180d --dry-run --state hub\n  outhaul-hub prune --older-than 180d \
                        --by alice --state hub"
)]
pub(crate) struct Args {
    /// Remove reports that were received longer ago than this, in days: `180d`; at least 7
    #[arg(long, value_name = "DAYS", value_parser = days)]
    older_than: u32,
    /// Who removes them
    #[arg(long, value_name = "WHO", value_parser = one_full_line, required_unless_present = "dry_run")]
    by: Option<String>,
    /// Count what would be removed, and leave it
    #[arg(long)]
    dry_run: bool,
}

fn days(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('d').unwrap_or(text);
    let found = number.parse::<u32>().ok();
    found
        .filter(|days| (LEAST_DAYS..=MOST_DAYS).contains(days))
        .ok_or_else(|| {
            format!("expected a number of days from {LEAST_DAYS} to {MOST_DAYS}, such as `180d`")
        })
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let rule = Rule {
        pause: PAUSE,
        ..Rule::by_hand(
            args.older_than,
            args.by.as_deref().unwrap_or_default().trim(),
        )
    };
    let done = retention::remove(&mut hub.store, &rule, time::now_ms(), args.dry_run, &|| {
        false
    })
    .map_err(|failed| match failed.done.removal {
        None => failed.error,
        Some(number) => HubError::Removal {
            source: Box::new(failed.error),
            reports: failed.done.reports,
            number,
        },
    })?;
    match common.output {
        Output::Json => print::json(&done),
        Output::Text => text(&rule, &done, args.dry_run),
    }
    Ok(0)
}

fn text(rule: &Rule, done: &Removed, is_trial: bool) {
    let reports = print::count(done.reports, "report");
    let sites = print::count(done.sites, "site");
    let what = rule.text();
    match (is_trial, done.removal) {
        (true, _) => print::data(&format!("{reports} of {sites} would be removed ({what})")),
        (false, None) => print::data(&format!("no report can be removed ({what})")),
        (false, Some(number)) => print::data(&format!(
            "{reports} of {sites} removed ({what}), {} bytes of signed reports; number {number} on record",
            done.bytes
        )),
    }
    if done.explanations > 0 {
        let word = if is_trial {
            "would be removed"
        } else {
            "removed"
        };
        let explanations = print::count(done.explanations, "explanation");
        print::data(&format!(
            "{explanations} {word} that no bundle needs which runs or is the newest of its stream ({what})"
        ));
    }
    for (because, count) in &done.kept {
        let why = match because {
            KeptBecause::Record => {
                "they report a decision, an order, a refusal, a loss or a bundle that failed"
            }
            KeptBecause::State => "the present state rests on them",
            KeptBecause::Decision => "a gate's decision or rule rests on them",
            KeptBecause::Chain => "the order of reports rests on them",
            KeptBecause::Gap => "a report before them is missing",
            KeptBecause::Conflict => "two machines reported with their site's key",
        };
        let reports = print::count(*count, "report");
        print::data(&format!("kept: {reports} as old, because {why}"));
    }
    for site in &done.unconfirmed {
        print::data(&format!(
            "site `{site}`: a numbering stays whole, because some of its reports count by the report after them only"
        ));
    }
    if done.foreign_parts > 0 {
        print::talk(&format!(
            "{} not dropped, because the hub's database user does not own the tables: rows are removed one by one (docs/hub-postgresql.md)",
            print::count(done.foreign_parts, "old partition")
        ));
    }
    if done.removal.is_some() {
        print::talk(
            "the space is used for new reports; `outhaul-hub compact` makes a SQLite file smaller (docs/hub-retention.md)",
        );
    }
}
