//! `outhaul site close-orders`: orders that sites report to have carried out, or to refuse, travel no longer.
//!
//! What comes in: files of reports, and the fleet's folder. What goes out: the fleet's record without these orders, each of them by name, and
//! what keeps others open. It believes no report that no approved key of its site signed.

use std::path::PathBuf;

use outhaul_bundle::Instruction;
use outhaul_kit::format_count::format_count;
use outhaul_signer::fleet::Fleet;
use serde_json::json;

use crate::cli::failure::{self, Failure};
use crate::cli::key::fleet_failure;
use crate::cli::{Exit, Output, data, print_json, say};
use outhaul_sites::{ClosedOrder, ClosedOrders, Sites};

/// Close orders that sites report to have carried out, or to refuse: they travel no longer
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul site close-orders stick/reports/*.reports --fleet fleet"
)]
pub(super) struct Args {
    /// Files of reports; only lines that an approved key of their site signed count
    #[arg(required = true, value_name = "REPORTS")]
    files: Vec<PathBuf>,
    /// The fleet's folder
    #[arg(long, value_name = "DIR")]
    fleet: PathBuf,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let fleet = Fleet::open(&self.fleet).map_err(fleet_failure)?;
        let done = Sites::of(&fleet).close_orders(&self.files);
        let ClosedOrders {
            closed,
            unknown,
            no_reports,
            unread,
            stopped,
        } = &done;
        for (file, lines) in no_reports {
            say(&format!(
                "warning: {} of `{}` {} no signed report of a site: it was not read",
                format_count(*lines, "line", "lines"),
                file.display(),
                if *lines == 1 { "is" } else { "are" }
            ));
        }
        say_unknown(unknown);
        let exit = match done.needs_person() {
            true => Exit::from(failure::REFUSED),
            false => Exit::SUCCESS,
        };
        let wrong = unread.iter().fold(None, |wrong: Option<Failure>, error| {
            Some(match wrong {
                None => Failure::file(error),
                Some(failure) => failure.and(error),
            })
        });
        let wrong = match (wrong, stopped) {
            (wrong, None) => wrong,
            (None, Some(error)) => Some(Failure::of(error)),
            (Some(failure), Some(error)) => Some(failure.and(error)),
        };
        if self.output == Output::Json {
            let rows: Vec<_> = closed
                .iter()
                .map(|one| {
                    json!({
                        "site": one.site, "order": one.number, "what": one.what,
                        "refused": one.refused,
                    })
                })
                .collect();
            print_json(&json!(rows))?;
            return wrong.map_or_else(|| Ok(exit), Err);
        }
        for one in closed {
            let (word, why) = match &one.refused {
                None if one.what == Instruction::Revoke.as_str() => (
                    "done",
                    "; every bundle repeats it until the site is enrolled again".to_owned(),
                ),
                None => ("done", String::new()),
                Some(why) => ("refused for good", format!(" ({why})")),
            };
            data(&format!(
                "order {} for `{}` is {word}: {}{why}",
                one.number, one.site, one.what
            ));
        }
        if let Some(failure) = wrong {
            return Err(failure);
        }
        if closed.is_empty() && unknown.is_empty() {
            say("no report in these files is about an order that is still open");
        }
        Ok(exit)
    }
}

/// Reports that would close an order if anybody knew the key that signed them.
fn say_unknown(unknown: &[ClosedOrder]) {
    for one in unknown {
        say(&format!(
            "order {} for `{}` stays open: a report states that it is done, and no approved key of `{}` signed that \
             report",
            one.number, one.site, one.site
        ));
    }
    if !unknown.is_empty() {
        say(
            "help: the site may have made itself a new key: compare the fingerprint with what `outhaul-agent status` \
             shows on the machine, approve its request from the stick with `outhaul site approve`, and run this command again",
        );
    }
}
