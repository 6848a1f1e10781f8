//! That a stream exists, before a site is made to follow it.
//!
//! What comes in: a fleet, a stream, and the control plane when it is at hand. What goes out: nothing, or
//! the refusal with the names that there are. A stream that the fleet has shipped to exists; of any other
//! only the control plane can tell.

use outhaul_signer::fleet::Fleet;

use crate::cli::failure::{self, Failure};
use crate::cli::sources::SourceArgs;
use outhaul_kit::suggest::did_you_mean;
use outhaul_load::scheduler::Schedulers;
use outhaul_load::{LoadRequest, Origin};

/// Where the control plane is.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PlaneArgs {
    /// The control plane's repository (URL or folder), which says whether there is such an environment and
    /// cluster type; not needed for a stream that has a bundle
    #[arg(long, value_name = "URL|DIR")]
    control_plane: Option<String>,
    #[command(flatten)]
    sources: SourceArgs,
}

impl PlaneArgs {
    /// Refuses an environment or cluster type that does not exist.
    pub(in crate::cli) fn check(
        &self,
        fleet: &Fleet,
        role: &str,
        environment: &str,
        cluster_type: &str,
    ) -> Result<(), Failure> {
        let Some(url) = &self.control_plane else {
            let shipped = fleet
                .latest(role)
                .map_err(crate::cli::key::fleet_failure)?
                .is_some();
            if shipped {
                return Ok(());
            }
            let message = format!(
                "this fleet has shipped nothing to {environment}/{cluster_type} yet, so this command cannot know that it exists"
            );
            return Err(Failure::say(failure::USAGE, message)
                .help("give `--control-plane URL|DIR`; nothing was written"));
        };
        let (sources, cache) = self.sources.parse()?;
        let request = LoadRequest {
            environment: environment.to_owned(),
            from: Origin::Repository {
                url: url.clone(),
                branch: None,
            },
            sources,
            cache,
            schedulers: Schedulers::default(),
        };
        let nothing = "nothing was written";
        let listed = outhaul_load::environments(&request)
            .map_err(|findings| Failure::findings(&findings).help(nothing))?;
        let unknown = |what: &str, name: &str, known: &[&String]| {
            let message = format!("there is no {what} `{name}` in `{url}`");
            Failure::say(failure::USAGE, message)
                .help(format!("{}; {nothing}", did_you_mean(name, known)))
        };
        if !listed.iter().any(|known| known.name == environment) {
            let known: Vec<&String> = listed.iter().map(|known| &known.name).collect();
            return Err(unknown("environment", environment, &known));
        }
        // A workload that cannot be read takes no cluster type away.
        let (plane, _, findings) = outhaul_load::load_partly(&request);
        if plane.cluster_types.contains_key(cluster_type) {
            return Ok(());
        }
        if plane.cluster_types.is_empty() && findings.has_errors() {
            return Err(Failure::findings(&findings).help(nothing));
        }
        let known: Vec<&String> = plane.cluster_types.keys().collect();
        let what = format!("cluster type of environment `{environment}` called");
        Err(unknown(&what, cluster_type, &known))
    }
}
