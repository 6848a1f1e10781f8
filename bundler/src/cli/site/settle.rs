//! `outhaul site settle`: orders that sites report to have carried out, or to refuse, travel no longer.

use std::path::PathBuf;

use outhaul_signer::fleet::Fleet;
use outhaul_signer::media;
use serde_json::json;

use super::site_failure;
use crate::cli::failure::{self, Failure};
use crate::cli::key::fleet_failure;
use crate::cli::{Exit, Format, data, print_json, say};
use outhaul_ship::sites::{Settled, Sites};

/// Largest file of reports, in bytes: what an agent writes at most.
const MAX_REPORTS_BYTES: u64 = 16 * 1024 * 1024;

/// Drop orders that sites report to have carried out
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul site settle stick/reports/*.reports --fleet fleet")]
pub(super) struct Args {
    /// Files of reports; only lines that an approved key of their site signed count
    #[arg(required = true, value_name = "REPORTS")]
    files: Vec<PathBuf>,
    /// The fleet's folder
    #[arg(long, value_name = "DIR")]
    fleet: PathBuf,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let fleet = Fleet::open(&self.fleet).map_err(fleet_failure)?;
        let sites = Sites::of(&fleet);
        let mut settled = Vec::new();
        let mut unread: Option<Failure> = None;
        for file in &self.files {
            let bytes = match media::read_file(file, MAX_REPORTS_BYTES) {
                Ok(bytes) => bytes,
                // What the other files settle is settled, and said.
                Err(error) => {
                    unread = Some(match unread {
                        None => Failure::file(&error),
                        Some(failure) => failure.and(&error),
                    });
                    continue;
                }
            };
            for line in bytes.split(|byte| *byte == b'\n') {
                settled.extend(sites.settle(line).map_err(site_failure)?);
            }
        }
        if self.output == Format::Json {
            let rows: Vec<_> = settled
                .iter()
                .map(|one| {
                    json!({
                        "site": one.site, "order": one.number, "what": one.what,
                        "refused": one.refused,
                    })
                })
                .collect();
            print_json(&json!(rows))?;
            return unread.map_or_else(|| Ok(exit_code(&settled)), Err);
        }
        for one in &settled {
            let (word, why) = match &one.refused {
                None => ("done", String::new()),
                Some(why) => ("refused for good", format!(" ({why})")),
            };
            data(&format!(
                "order {} for `{}` is {word}: {}{why}",
                one.number, one.site, one.what
            ));
        }
        if let Some(failure) = unread {
            return Err(failure);
        }
        if settled.is_empty() {
            say("no order is done that was not known to be");
        }
        Ok(exit_code(&settled))
    }
}

fn exit_code(settled: &[Settled]) -> Exit {
    if settled.iter().any(|one| one.refused.is_some()) {
        return Exit::from(failure::REFUSED);
    }
    Exit::SUCCESS
}
