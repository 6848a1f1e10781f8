//! `outhaul site approve`: a site's key is its own.
//!
//! What comes in: a request and the fingerprint that somebody compared. What goes out: an order that
//! travels with the next bundle. Without a fingerprint it shows what the request is and approves nothing.

use std::path::PathBuf;

use outhaul_bundle::Instruction;
use outhaul_signer::envelope::MAX_ENVELOPE_BYTES;
use outhaul_signer::fleet::Fleet;
use outhaul_signer::media;
use serde_json::json;

use super::{site_failure, stream};
use crate::cli::failure::{self, Failure};
use crate::cli::key::fleet_failure;
use crate::cli::{Exit, Output, data, print_json, say};
use outhaul_sites::{EnrolmentCandidate, Sites};

/// Approve the key of a site's request: the next bundle of its stream says so
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
        let bytes = media::read_file(&self.request, MAX_ENVELOPE_BYTES as u64)
            .map_err(|error| Failure::file(&error))?;
        let sites = Sites::of(&fleet);
        let candidate = sites.candidate(&bytes).map_err(site_failure)?;
        let Some(fingerprint) = &self.fingerprint else {
            return Err(self.unnamed(&candidate));
        };
        candidate.named(fingerprint).map_err(site_failure)?;
        let (key, known) = (candidate.key.clone(), candidate.known);
        let mut orders = candidate.site.orders.iter();
        if let Some(order) = orders.find(|order| order.what == Instruction::Revoke) {
            say(&format!(
                "site `{}` stays revoked by order {}: its reports count, and it installs nothing new; `outhaul site \
                 enrol` writes the kit with which it comes back",
                order.site, order.number
            ));
        }
        let site = sites.approve(candidate).map_err(site_failure)?;
        if self.output == Output::Json {
            return print_json(&json!({
                "site": site.site, "fingerprint": key.id(), "seal_key": site.seal_key,
                "known": known, "order": site.last_order,
            }));
        }
        data(&format!(
            "site `{}` of {} is approved{}\nfingerprint {}",
            site.site,
            stream(&site),
            if known { " (as before)" } else { "" },
            key.id()
        ));
        say("the next bundle of its stream tells the site, and a hub that gets that bundle");
        Ok(Exit::SUCCESS)
    }

    /// What the request is, for the person who has to compare before anything is approved.
    fn unnamed(&self, candidate: &EnrolmentCandidate) -> Failure {
        let site = &candidate.site;
        let message = format!(
            "the request of site `{}` of {} was not approved: no fingerprint was named\n  fingerprint \
             {}\n  seal for    {}",
            site.site,
            stream(site),
            candidate.key.id(),
            candidate.seal_key
        );
        Failure::say(failure::USAGE, message).help(format!(
            "compare it with the fingerprint that `outhaul-agent status` shows on the machine; if it is \
             the same, repeat with `--fingerprint {}`; if it is not, somebody else wrote this request: \
             write a new kit with `outhaul site enrol {}`; nothing was changed",
            candidate.key.id(),
            site.site
        ))
    }
}
