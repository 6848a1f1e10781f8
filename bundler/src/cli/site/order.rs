//! `outhaul site move|rekey|revoke`: orders that travel in the bundles of the site's stream.

use std::path::PathBuf;

use outhaul_bundle::name::Name;
use outhaul_signer::fleet::Fleet;
use serde_json::json;

use super::plane::PlaneArgs;
use crate::cli::failure::Failure;
use crate::cli::key::fleet_failure;
use crate::cli::{Exit, Output, data, print_json, say};
use outhaul_sites::{SiteError, SiteRecord, Sites};

/// Order a site by name
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The site
    site: Name,
    /// The fleet's folder
    #[arg(long, value_name = "DIR")]
    fleet: PathBuf,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// Order a site to follow another stream
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul site move press-7 --to stage/press-hall-2 --fleet fleet \
                        --control-plane control-plane"
)]
pub(super) struct MoveArgs {
    #[command(flatten)]
    common: Args,
    /// The stream to follow
    #[arg(long, value_name = "ENVIRONMENT/CLUSTER_TYPE")]
    to: String,
    #[command(flatten)]
    plane: PlaneArgs,
}

impl Args {
    pub(super) fn run(
        self,
        word: &str,
        give: impl FnOnce(&Sites<'_>, &Name) -> Result<SiteRecord, SiteError>,
    ) -> Result<Exit, Failure> {
        let fleet = Fleet::open(&self.fleet).map_err(fleet_failure)?;
        let before = Sites::of(&fleet).one(self.site.as_str())?;
        let site = give(&Sites::of(&fleet), &self.site)?;
        if self.output == Output::Json {
            return print_json(&json!({
                "site": site.site, "order": site.last_order, "what": word,
                "travels_with": before.stream_name(),
            }));
        }
        data(&format!(
            "order {} for `{}`: {word}",
            site.last_order, site.site
        ));
        say(&format!(
            "it travels signed in every bundle of {} until the site reports that it is done; make one \
             now with `outhaul bundle`",
            before.stream_name()
        ));
        Ok(Exit::SUCCESS)
    }
}

impl MoveArgs {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let fleet = Fleet::open(&self.common.fleet).map_err(fleet_failure)?;
        let to = Sites::of(&fleet).destination(self.common.site.as_str(), &self.to)?;
        let (environment, cluster_type) = (to.environment.as_str(), to.cluster_type.as_str());
        let role = to.role.as_str();
        self.plane.check(&fleet, role, environment, cluster_type)?;
        let word = format!("move to {}", self.to);
        self.common
            .run(&word, |sites, name| sites.relocate(name.as_str(), to))
    }
}
