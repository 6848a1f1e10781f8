//! `outhaul site`: the kit that makes a machine a site.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use outhaul_bundle::Digest;
use outhaul_bundle::name::Name;
use outhaul_signer::durable;
use outhaul_signer::enrol::{self, Kit, KitStream};
use outhaul_signer::fleet::Fleet;
use serde_json::json;

use super::failure::{self, Failure};
use super::key::{fleet_failure, key_failure};
use super::{Format, print_json, say};

/// Enrol sites
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul site enrol press-7 --fleet fleet --environment stage \
                        --cluster-type press --out press-7.kit\n\nThen, on the machine:\n  \
                        outhaul-agent --state /var/lib/outhaul-agent enrol press-7.kit"
)]
pub struct Args {
    #[command(subcommand)]
    command: SiteCommand,
}

#[derive(Debug, Subcommand)]
enum SiteCommand {
    /// Write a kit for a new site: root metadata, stream, hub address, one-time token
    Enrol(EnrolArgs),
}

#[derive(Debug, clap::Args)]
struct EnrolArgs {
    /// The site's name
    site: Name,
    /// The fleet's folder
    #[arg(long, value_name = "DIR")]
    fleet: PathBuf,
    /// The environment that the site belongs to
    #[arg(long, value_name = "NAME")]
    environment: Name,
    /// Its cluster type
    #[arg(long, value_name = "NAME")]
    cluster_type: Name,
    /// Where to write the kit; it holds a token, so it is readable for you only
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let SiteCommand::Enrol(args) = self.command;
        let fleet = Fleet::open(&args.fleet).map_err(fleet_failure)?;
        let (environment, cluster_type) = (args.environment.as_str(), args.cluster_type.as_str());
        let root = fleet.newest_root_bytes().map_err(fleet_failure)?;
        let kit = Kit {
            format: enrol::FORMAT.to_owned(),
            fleet: fleet.id().to_owned(),
            site: args.site.to_string(),
            stream: KitStream {
                role: fleet.role(environment, cluster_type),
                environment: environment.to_owned(),
                cluster_type: cluster_type.to_owned(),
            },
            root: String::from_utf8_lossy(&root).into_owned(),
            hub_url: fleet.hub_url().to_owned(),
            hub_key: fleet.hub_key().to_owned(),
            hub_ca: String::new(),
            token: enrol::new_token().map_err(key_failure)?,
        };
        durable::write(&args.out, &kit.to_bytes(), durable::SECRET_MODE)
            .map_err(|error| Failure::new(failure::ENVIRONMENT, &error))?;
        let token = Digest::of(kit.token.as_bytes());
        if args.output == Format::Json {
            return print_json(&json!({
                "kit": args.out, "site": kit.site, "role": kit.stream.role,
                "token_sha256": token.hex(),
            }));
        }
        say(&format!(
            "kit for `{}` ({environment}/{cluster_type}) in `{}`",
            kit.site,
            args.out.display()
        ));
        say(
            "next: on the machine `outhaul-agent enrol` it; its request comes home with the first \
             reports, and `outhaul-hub site add` approves it",
        );
        Ok(ExitCode::SUCCESS)
    }
}
