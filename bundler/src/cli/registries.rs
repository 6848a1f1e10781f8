//! What a command that pulls images understands of registries: their mirrors and authorities.
//!
//! What comes in: `--registry-mirror` and `--registry-ca`. What goes out: [`RegistryHosts`], or a usage error. It opens nothing.

use outhaul_registry::RegistryHosts;

use super::failure::{self, Failure};

/// Where registries are asked.
#[derive(Debug, clap::Args)]
pub struct RegistryArgs {
    /// Ask this mirror for the images of a registry before the registry itself: `docker.io=registry.example:5000/dockerhub` (may be
    /// given more than once; those of one registry are asked in order)
    #[arg(long = "registry-mirror", value_name = "REGISTRY=HOST[:PORT][/PATH]")]
    registry_mirrors: Vec<String>,
    /// The certificate of the authority that a registry's is from, in PEM: `registry.example:5000=ca.pem` (may be given more than
    /// once); for that host it is the only one that is trusted
    #[arg(long = "registry-ca", value_name = "HOST[:PORT]=FILE")]
    registry_cas: Vec<String>,
}

impl RegistryArgs {
    /// What was typed, as values.
    ///
    /// # Errors
    /// [`Failure`] for one that is not one.
    pub fn parse(&self) -> Result<RegistryHosts, Failure> {
        RegistryHosts::parse(&self.registry_mirrors, &self.registry_cas)
            .map_err(|error| Failure::say(failure::USAGE, error.to_string()))
    }
}
