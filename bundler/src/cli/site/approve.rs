//! `outhaul site approve`: a site's key is its own.

use std::path::PathBuf;
use std::process::ExitCode;

use outhaul_signer::durable;
use outhaul_signer::envelope::MAX_ENVELOPE_BYTES;
use outhaul_signer::fleet::Fleet;
use serde_json::json;

use super::{site_failure, stream};
use crate::cli::failure::{self, Failure};
use crate::cli::key::fleet_failure;
use crate::cli::{Format, data, print_json, say};
use crate::sites::Sites;

/// Approve the key of a site's request: the next bundle of its stream says so
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul site approve stick/requests/press-7.request --fleet fleet"
)]
pub(super) struct Args {
    /// The request, as `outhaul-agent export` put it on a stick
    request: PathBuf,
    /// The fleet's folder
    #[arg(long, value_name = "DIR")]
    fleet: PathBuf,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let fleet = Fleet::open(&self.fleet).map_err(fleet_failure)?;
        let bytes = durable::read(&self.request, MAX_ENVELOPE_BYTES as u64)
            .map_err(|error| Failure::new(failure::ENVIRONMENT, &error))?;
        let (site, key) = Sites::of(&fleet).approve(&bytes).map_err(site_failure)?;
        if self.output == Format::Json {
            return print_json(&json!({
                "site": site.site, "fingerprint": key.id(), "seal_key": site.seal_key,
                "order": site.last_order,
            }));
        }
        data(&format!(
            "site `{}` of {} is approved\nfingerprint {}",
            site.site,
            stream(&site),
            key.id()
        ));
        say(
            "compare the fingerprint with the one that `outhaul-agent status` shows on the machine; the \
             next bundle of its stream tells the site, and a hub that gets that bundle",
        );
        Ok(ExitCode::SUCCESS)
    }
}
