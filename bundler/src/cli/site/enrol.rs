//! `outhaul site enrol`: the kit that makes a machine a site.
//!
//! What comes in: a fleet, a site's name and its stream. What goes out: the kit as a file, and a record of the site with
//! the kit's id in the fleet. It writes no second kit for a site unless that is asked for.

use outhaul_kit::text::json_path;
use std::path::PathBuf;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Stream;
use outhaul_bundle::name::Name;
use outhaul_signer::durable;
use outhaul_signer::enrol::{self, Kit, KitStream};
use outhaul_signer::fleet::Fleet;
use serde_json::json;

use super::plane::PlaneArgs;
use super::site_failure;
use crate::cli::failure::{self, Failure};
use crate::cli::key::{fleet_failure, key_failure};
use crate::cli::{Exit, Output, print_json, say};
use outhaul_kit::format_count::format_count;
use outhaul_sites::{SiteRecord, Sites};

/// Largest file of certificates, in bytes.
const MAX_CA_BYTES: u64 = 256 * 1024;

/// Write a kit for a new site: root metadata, stream, hub address, one-time token
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul site enrol press-7 --fleet fleet --control-plane control-plane \
                        --environment stage --cluster-type press --out press-7.kit"
)]
pub(super) struct Args {
    #[command(flatten)]
    enrolment: Enrolment,
    /// Where to write the kit; it holds a token, so it is readable for you only
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// Which site, of which stream.
#[derive(Debug, clap::Args)]
pub(super) struct Enrolment {
    /// The site's name
    pub(super) site: Name,
    /// The fleet's folder
    #[arg(long, value_name = "DIR")]
    pub(super) fleet: PathBuf,
    /// The environment that the site belongs to
    #[arg(long, value_name = "NAME")]
    pub(super) environment: Name,
    /// Its cluster type
    #[arg(long, value_name = "NAME")]
    pub(super) cluster_type: Name,
    #[command(flatten)]
    plane: PlaneArgs,
    /// The certificate authority of the hub and the repository, where it is your own
    #[arg(long, value_name = "FILE")]
    hub_ca: Option<PathBuf>,
    /// Write a new kit for a site that has one: its kit of before, its approved key and its orders are void then
    #[arg(long)]
    pub(super) again: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let fleet = Fleet::open(&self.enrolment.fleet).map_err(fleet_failure)?;
        let new = self.enrolment.new_kit(&fleet)?;
        let kit = &new.kit;
        durable::write(&self.out, &kit.to_bytes(), durable::SECRET_MODE)
            .map_err(|error| Failure::new(failure::ENVIRONMENT, &error))?;
        self.enrolment.record(&fleet, &new)?;
        if self.output == Output::Json {
            return print_json(&json!({
                "kit": json_path(&self.out), "site": kit.site, "role": kit.stream.role,
                "kit_id": kit.id(),
            }));
        }
        say(&format!(
            "kit for `{}` ({}/{}) in `{}`",
            kit.site,
            kit.stream.environment,
            kit.stream.cluster_type,
            self.out.display()
        ));
        say(
            "next: on the machine `outhaul-agent enrol` it, which prints the fingerprint of its key; its \
             request is sent with the first reports, `outhaul site approve` and `outhaul-hub site \
             add` approve it by that fingerprint",
        );
        expected(kit);
        Ok(Exit::SUCCESS)
    }
}

/// How a hub takes the request of this kit by itself.
pub(super) fn expected(kit: &Kit) {
    say(&format!(
        "a hub takes the request of this very kit without asking, once, after `outhaul-hub site \
         expect {} --kit {}`",
        kit.site,
        kit.id()
    ));
}

/// A kit that no file and no record has yet.
#[derive(Debug)]
pub(super) struct NewKit {
    pub(super) kit: Kit,
    stream: Stream,
}

impl Enrolment {
    /// A new kit.
    pub(super) fn new_kit(&self, fleet: &Fleet) -> Result<NewKit, Failure> {
        let (environment, cluster_type) = (self.environment.as_str(), self.cluster_type.as_str());
        let mut earlier_roots = fleet.root_chain().map_err(fleet_failure)?;
        let root = earlier_roots.pop().unwrap_or_default();
        let role = fleet.role(environment, cluster_type);
        self.plane.check(fleet, &role, environment, cluster_type)?;
        if let Some(before) = Sites::of(fleet)
            .find(self.site.as_str())
            .map_err(site_failure)?
            && !self.again
        {
            return Err(enrolled_before(&before));
        }
        if fleet.hub_url().is_empty() {
            say(
                "warning: this fleet names no hub, so the kit names none: the site's reports travel by stick alone\n\
                 help: where there is a hub, `outhaul key set-hub` first, and write the kit again with `--again`",
            );
        }
        let kit = Kit {
            format: enrol::FORMAT.to_owned(),
            fleet: fleet.id().to_owned(),
            site: self.site.to_string(),
            stream: KitStream {
                role: role.clone(),
                environment: environment.to_owned(),
                cluster_type: cluster_type.to_owned(),
            },
            root,
            earlier_roots,
            hub_url: fleet.hub_url().to_owned(),
            hub_key: fleet.hub_key().to_owned(),
            hub_ca: self.hub_ca()?,
            token: enrol::new_token().map_err(key_failure)?,
        };
        let stream = Stream {
            role: role
                .parse()
                .map_err(|error| Failure::new(failure::INTERNAL, &error))?,
            environment: self.environment.clone(),
            cluster_type: self.cluster_type.clone(),
        };
        Ok(NewKit { kit, stream })
    }

    /// Remembers a kit that was written.
    pub(super) fn record(&self, fleet: &Fleet, new: &NewKit) -> Result<(), Failure> {
        Sites::of(fleet)
            .enrolled(&self.site, new.stream.clone(), kit_id(&new.kit)?)
            .map_err(site_failure)?;
        Ok(())
    }

    fn hub_ca(&self) -> Result<String, Failure> {
        let Some(path) = &self.hub_ca else {
            return Ok(String::new());
        };
        let bytes = durable::read(path, MAX_CA_BYTES)
            .map_err(|error| Failure::new(failure::ENVIRONMENT, &error))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text.contains("-----BEGIN CERTIFICATE-----") {
            return Ok(text);
        }
        let message = format!("`{}` holds no certificate", path.display());
        Err(Failure::say(failure::USAGE, message)
            .help("give a PEM file with the authority's certificate; nothing was written"))
    }
}

/// What a second kit would make void.
fn enrolled_before(site: &SiteRecord) -> Failure {
    let stream = format!("{}/{}", site.stream.environment, site.stream.cluster_type);
    let mut void = vec![format!(
        "its previous kit ({}), on whatever stick that is",
        site.enrolment.short()
    )];
    if !site.public_keys.is_empty() {
        void.push("the key that was approved for it".to_owned());
    }
    if !site.orders.is_empty() {
        void.push(format_count(
            site.orders.len(),
            "order to it",
            "orders to it",
        ));
    }
    let message = format!(
        "`{}` has a kit already, for {stream}; another one invalidates: {}",
        site.site,
        void.join("; ")
    );
    Failure::say(failure::REFUSED, message).help(
        "enrol the machine with the kit that there is; if that is lost, or the machine was replaced, give `--again`",
    )
}

fn kit_id(kit: &Kit) -> Result<Digest, Failure> {
    Digest::from_hex(&kit.id()).map_err(|error| Failure::new(failure::INTERNAL, &error))
}
