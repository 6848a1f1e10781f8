//! `outhaul site enrol`: the kit that makes a machine a site.
//!
//! What comes in: a fleet, a site's name and its stream. What goes out: the kit as a file, and what to do with it. What is in a kit, and
//! when there may be a second one, [`outhaul_sites`] decides.

use outhaul_kit::text::{self, json_path};
use std::path::{Path, PathBuf};

use outhaul_bundle::index::Stream;
use outhaul_bundle::name::Name;
use outhaul_signer::durable;
use outhaul_signer::enrol::Kit;
use outhaul_signer::fleet::Fleet;
use serde_json::json;

use super::plane::PlaneArgs;
use crate::cli::failure::{self, Failure};
use crate::cli::key::fleet_failure;
use crate::cli::{Exit, Output, print_json, say};
use outhaul_sites::{NewKit, Sites, authority};

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
    /// Write a new kit for a site that has one: this invalidates its earlier kit, its approved key and its orders
    #[arg(long)]
    pub(super) again: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let mut there = None;
        let kit = |bytes: &[u8]| {
            there = Kit::from_bytes(bytes).ok();
            there.is_some()
        };
        crate::cli::places::file(&self.out, "a kit", kit)?;
        let fleet = Fleet::open(&self.enrolment.fleet).map_err(fleet_failure)?;
        if let Some(there) = there {
            refuse_kit_of_other(&there, &self.out, self.enrolment.site.as_str(), fleet.id())?;
        }
        let before = Sites::of(&fleet).find(self.enrolment.site.as_str())?;
        let new = self.enrolment.new_kit(&fleet)?;
        let kit = &new.kit;
        Sites::of(&fleet).enrol(&new, |bytes| {
            durable::write(&self.out, bytes, durable::SECRET_MODE)
                .map_err(|error| Failure::new(failure::ENVIRONMENT, &error))
        })?;
        if self.enrolment.again {
            for line in new.changes_since(before.as_ref()) {
                say(&line);
            }
        }
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

/// A kit is replaced by another one of its own site alone: of any other, its token may be nowhere else.
pub(super) fn refuse_kit_of_other(
    there: &Kit,
    out: &Path,
    site: &str,
    fleet: &str,
) -> Result<(), Failure> {
    if (there.site.as_str(), there.fleet.as_str()) == (site, fleet) {
        return Ok(());
    }
    let of = match there.fleet == fleet {
        true => String::new(),
        false => format!(" of fleet {}", text::printable(&there.fleet)),
    };
    let (out, stream) = (text::path(out), &there.stream);
    let whose = format!(
        "`{}`{of} ({}/{})",
        text::printable(&there.site),
        text::printable(&stream.environment),
        text::printable(&stream.cluster_type)
    );
    Err(Failure::say(
        failure::REFUSED,
        format!("`{out}` is the kit of site {whose}, and would be replaced; nothing was written"),
    )
    .help("name another file, or move that kit to the machine that it is for first"))
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

impl Enrolment {
    /// The stream that the site is to follow.
    pub(super) fn stream(&self, sites: &Sites<'_>) -> Result<Stream, Failure> {
        Ok(sites.stream(&self.environment, &self.cluster_type)?)
    }

    /// A new kit.
    pub(super) fn new_kit(&self, fleet: &Fleet) -> Result<NewKit, Failure> {
        let sites = Sites::of(fleet);
        let stream = self.stream(&sites)?;
        let (environment, cluster_type) = (self.environment.as_str(), self.cluster_type.as_str());
        let role = stream.role.as_str();
        self.plane.check(fleet, role, environment, cluster_type)?;
        // Before anything else of it is said.
        sites.refuse_second_kit(&self.site, self.again)?;
        if fleet.hub_url().is_empty() {
            say(
                "warning: this fleet names no hub, so the kit names none: the site's reports travel by stick alone\n\
                 help: where there is a hub, `outhaul key set-hub` first, and write the kit again with `--again`",
            );
        }
        let hub_ca = self.hub_ca.as_deref().map(authority).transpose()?;
        let hub_ca = hub_ca.unwrap_or_default();
        Ok(sites.new_kit(&self.site, stream, hub_ca, self.again)?)
    }
}
