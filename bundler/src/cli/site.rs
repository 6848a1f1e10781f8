//! `outhaul site`: who the fleet's sites are, and what single ones are asked to do.

use std::path::PathBuf;

use clap::Subcommand;
use outhaul_signer::fleet::Fleet;
use serde_json::json;

use super::failure::{self, Failure};
use super::key::fleet_failure;
use super::{Exit, Output, data, print_json, say};
use outhaul_sites::readers::sealable;
use outhaul_sites::{SiteError, SiteRecord, Sites};

mod approve;
mod close_orders;
mod enrol;
mod kit;
mod order;
mod plane;

/// Enrol sites, approve their keys, and order single ones to move, to change keys, or to stop
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul site enrol press-7 --fleet fleet --control-plane control-plane \
                        --environment stage --cluster-type press --out press-7.kit\n\nThen, on the machine:\n  \
                        outhaul-agent --state /var/lib/outhaul-agent enrol press-7.kit\n\nAnd when \
                        its request has reached the centre:\n  outhaul site approve stick/requests/press-7.request \
                        --fleet fleet --fingerprint 8eb0f2a93a0b77c1"
)]
pub struct Args {
    #[command(subcommand)]
    command: SiteCommand,
}

#[derive(Debug, Subcommand)]
enum SiteCommand {
    /// Approve the key of a site's request: the next bundle of its stream brings the approval
    Approve(approve::Args),
    /// Write a kit for a new site: root metadata, stream, hub address, one-time token
    Enrol(enrol::Args),
    /// Put everything on a stick that makes a bare machine a site: packages, kit, bundle, and one script to start
    Kit(Box<kit::Args>),
    /// List the sites, their keys and the orders that travel
    List(ListArgs),
    /// Order a site to follow another stream
    Move(order::MoveArgs),
    /// Order a site to make itself a new key
    #[command(after_help = "Example:\n  outhaul site rekey press-7 --fleet fleet")]
    Rekey(order::Args),
    /// Revoke a site: it installs nothing new; the running bundle is not affected
    #[command(after_help = "Example:\n  outhaul site revoke press-7 --fleet fleet")]
    Revoke(order::Args),
    /// Close orders that sites report to have carried out, or to refuse: they travel no longer
    #[command(alias = "settle")]
    CloseOrders(close_orders::Args),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outhaul site list --fleet fleet\n  outhaul site list --fleet fleet \
                        --recipients > sites.keys"
)]
struct ListArgs {
    /// The fleet's folder
    #[arg(long, value_name = "DIR")]
    fleet: PathBuf,
    /// Only `NAME age1...` lines of approved sites: what `outhaul bundle --seal-for` reads
    #[arg(long)]
    recipients: bool,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        match self.command {
            SiteCommand::Approve(args) => args.run(),
            SiteCommand::Enrol(args) => args.run(),
            SiteCommand::Kit(args) => args.run(),
            SiteCommand::List(args) => args.run(),
            SiteCommand::Move(args) => args.run(),
            SiteCommand::Rekey(args) => args.run("rekey", |sites, name| sites.rekey(name.as_str())),
            SiteCommand::Revoke(args) => {
                args.run("revoke", |sites, name| sites.revoke(name.as_str()))
            }
            SiteCommand::CloseOrders(args) => args.run(),
        }
    }
}

impl ListArgs {
    fn run(self) -> Result<Exit, Failure> {
        let fleet = Fleet::open(&self.fleet).map_err(fleet_failure)?;
        let sites = Sites::of(&fleet).all()?;
        if self.recipients {
            let readers = sealable(&sites);
            if readers.is_empty() {
                let message = "no site has an approved key to seal for";
                return Err(Failure::say(failure::REFUSED, message)
                    .help("`outhaul site approve` records the key of a site's request"));
            }
            for site in readers {
                data(&format!("{} {}", site.site, site.seal_key));
            }
            return Ok(Exit::SUCCESS);
        }
        if self.output == Output::Json {
            return print_json(&json!(sites.iter().map(as_json).collect::<Vec<_>>()));
        }
        for site in &sites {
            let now = site.orders.iter();
            let mut orders: Vec<_> = now
                .map(|order| format!("{} {}", order.number, order.what.as_str()))
                .collect();
            let before = site.earlier.iter().flat_map(|one| &one.revocations);
            orders.extend(
                before.map(|order| format!("{} revoke (an earlier machine)", order.number)),
            );
            let orders = match orders.len() {
                0 => "no orders travel".to_owned(),
                _ => format!("orders: {}", orders.join(", ")),
            };
            let key = key_id(site).map_or_else(
                || "no key approved yet".to_owned(),
                |id| format!("key {id:.16}"),
            );
            data(&format!(
                "{} {}: {key}; {orders}",
                site.site,
                site.stream_name()
            ));
        }
        if sites.is_empty() {
            say("no site is on record; `outhaul site enrol` writes a kit for one");
        }
        Ok(Exit::SUCCESS)
    }
}

/// The id of the approved key.
fn key_id(site: &SiteRecord) -> Option<String> {
    let pem = site.public_keys.last()?;
    outhaul_signer::PublicKey::from_pem(pem)
        .ok()
        .map(|key| key.id())
}

fn as_json(site: &SiteRecord) -> serde_json::Value {
    json!({
        "site": site.site, "environment": site.stream.environment,
        "cluster_type": site.stream.cluster_type, "role": site.stream.role,
        "key": key_id(site), "seal_key": site.seal_key, "orders": site.orders, "earlier": site.earlier,
    })
}

impl From<SiteError> for Failure {
    fn from(error: SiteError) -> Self {
        Self::of(&error)
    }
}
