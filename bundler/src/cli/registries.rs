//! What a command that asks registries understands of them: their mirrors and authorities.
//!
//! What comes in: `--registry-mirror` and `--registry-ca`, and other options that name an authority's file. What goes out: [`RegistryHosts`]
//! and a client, or a usage error; each file is read when the command line is, before anything else is done. It asks nobody.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use outhaul_http::Authority;
use outhaul_kit::text::chain;
use outhaul_registry::RegistryHosts;

use super::failure::{self, Failure};
use crate::registries::UserClient;

/// By which authorities registries are known.
#[derive(Debug, clap::Args)]
pub struct AuthorityArgs {
    /// The certificate of the authority that a registry's is from, in PEM: `registry.example:5000=ca.pem` (may be given more than
    /// once); for that host it is the only one that is trusted
    #[arg(long = "registry-ca", value_name = "HOST[:PORT]=FILE", value_parser = host_authority)]
    registry_cas: Vec<String>,
}

/// Where registries are asked.
#[derive(Debug, clap::Args)]
pub struct RegistryArgs {
    /// Ask this mirror for the images of a registry before the registry itself: `docker.io=registry.example:5000/dockerhub` (may be
    /// given more than once; those of one registry are asked in order)
    #[arg(long = "registry-mirror", value_name = "REGISTRY=HOST[:PORT][/PATH]")]
    registry_mirrors: Vec<String>,
    #[command(flatten)]
    authorities: AuthorityArgs,
}

impl RegistryArgs {
    /// A client that asks as was typed.
    ///
    /// # Errors
    /// [`Failure`] for a value that is not one, and for a file that cannot be used.
    pub fn client(&self) -> Result<UserClient, Failure> {
        self.authorities.with(&self.registry_mirrors)
    }
}

impl AuthorityArgs {
    /// A client that asks no mirrors.
    ///
    /// # Errors
    /// As [`RegistryArgs::client`].
    pub fn client(&self) -> Result<UserClient, Failure> {
        self.with(&[])
    }

    fn with(&self, mirrors: &[String]) -> Result<UserClient, Failure> {
        let hosts = RegistryHosts::read(mirrors, &self.registry_cas)
            .map_err(|error| Failure::say(failure::USAGE, error.to_string()))?;
        UserClient::open(hosts).map_err(|error| Failure::of(&error))
    }
}

/// Whether `text` is `HOST=FILE` with an authority in that file.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn host_authority(text: &str) -> Result<String, String> {
    let all = [text.to_owned()];
    let read = RegistryHosts::read(&[], &all).map_err(|error| error.to_string());
    read.map(|_| text.to_owned())
}

/// Whether `file` holds an authority.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn authority(file: &Path) -> Result<(), String> {
    let read = Authority::File(file).pem();
    read.map(drop).map_err(|error| chain(&error))
}

/// The value of an option that names the file of an authority.
pub(crate) fn authority_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| authority(&path).map(|()| path))
}
