//! `outhaul site approve`: a site's key is its own.
//!
//! What comes in: a request and the fingerprint that someone compared. What goes out: an order that
//! travels with the next bundle. Without a fingerprint it shows what the request is and approves nothing.

use std::path::PathBuf;

use outhaul_bundle::report::MAX_ENROLMENT_REQUEST_BYTES;
use outhaul_signer::fleet::Fleet;
use outhaul_signer::media;
use serde_json::json;

use crate::cli::failure::Failure;
use crate::cli::key::fleet_failure;
use crate::cli::{Exit, Output, data, print_json, say};
use outhaul_sites::{Approval, Sites};

/// Approve the key of a site's request: the next bundle of its stream brings the approval
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul site approve stick/requests/press-7.request --fleet fleet\n\nIt \
                        shows the fingerprint of the request's key and changes nothing. Compare it with \
                        what `outhaul-agent enrol` or `status` shows on the machine, then name it:\n  \
                        outhaul site approve stick/requests/press-7.request --fleet fleet \
                        --fingerprint 8eb0f2a93a0b77c1"
)]
pub(super) struct Args {
    /// The request, as `outhaul-agent export` put it on a stick
    request: PathBuf,
    /// The fleet's folder
    #[arg(long, value_name = "DIR")]
    fleet: PathBuf,
    /// Fingerprint of the key to approve, as the machine shows it: all of it, or its first 16 digits
    #[arg(long, value_name = "HEX")]
    fingerprint: Option<String>,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let fleet = Fleet::open(&self.fleet).map_err(fleet_failure)?;
        let bytes = media::read_file(&self.request, MAX_ENROLMENT_REQUEST_BYTES as u64)
            .map_err(|error| Failure::file(&error))?;
        let Approval {
            site,
            key,
            known,
            revoked_by,
        } = Sites::of(&fleet).approve_request(&bytes, self.fingerprint.as_deref())?;
        if let Some(order) = revoked_by {
            say(&format!(
                "site `{}` stays revoked by order {order}: its reports count, and it installs nothing new; `outhaul site \
                 enrol` writes the kit with which it comes back",
                site.site
            ));
        }
        if self.output == Output::Json {
            return print_json(&json!({
                "site": site.site, "fingerprint": key.id(), "seal_key": site.seal_key,
                "known": known, "order": site.last_order,
            }));
        }
        data(&format!(
            "site `{}` of {} is approved{}\nfingerprint {}",
            site.site,
            site.stream_name(),
            if known { " (as before)" } else { "" },
            key.id()
        ));
        say(
            "the next bundle of its stream brings it to the site, and to a hub that gets that bundle",
        );
        Ok(Exit::SUCCESS)
    }
}
