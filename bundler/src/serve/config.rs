//! The service's configuration: one TOML file, read once.
//!
//! What comes in: the file. What goes out: a [`ServeConfig`] in which every value can be used, or what is
//! wrong with it, and where. A word that is not known is an error. Secrets are not in it: it names the
//! files that hold them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::ServeError;
use outhaul_control::model::EXPIRES_DAYS;
use outhaul_http::Authority;
use outhaul_kit::failure::Classified as _;
use outhaul_kit::text::chain;
use outhaul_load::program::Programs;
use outhaul_registry::RegistryHosts;
use outhaul_remote::forge::ForgeKind;

/// Largest file in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// Shortest and longest time between two rounds, in seconds.
const INTERVAL: std::ops::RangeInclusive<u64> = 5..=7 * 86_400;

/// What the service does.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServeConfig {
    /// The folder that remembers what was done.
    pub state: PathBuf,
    /// The control plane's repository, a URL or folder.
    pub control_plane: String,
    /// The branch with the environments; without it `main`.
    pub control_plane_branch: Option<String>,
    /// `URL=DIR` for the local folders of repositories.
    #[serde(default)]
    pub sources: Vec<String>,
    /// `HOST` or `HOST:PORT` for hosts of this machine, or without encryption, that control planes and
    /// workloads may name.
    #[serde(default)]
    pub allow_hosts: Vec<String>,
    /// `NAME=PROGRAM` for policies that name a scheduler.
    #[serde(default)]
    pub schedulers: Vec<String>,
    /// Where repositories are fetched to; without it `cache` in the state folder.
    pub cache: Option<PathBuf>,
    /// Where `/hook`, `/status` and `/healthz` are answered; without it nowhere.
    pub listen: Option<SocketAddr>,
    /// The file with the secret of `/hook`; without it there is no hook.
    pub webhook_secret_file: Option<PathBuf>,
    /// Time between two rounds, such as `30s`, `5m` or `1h`: 5 seconds to 7 days.
    #[serde(default = "five_minutes", deserialize_with = "interval")]
    pub interval: Duration,
    /// The chain, when it is to be followed.
    pub promote: Option<PromoteConfig>,
    /// The environments, in the order in which they are looked at.
    #[serde(rename = "environment", default)]
    pub environments: Vec<EnvironmentConfig>,
}

/// `[promote]`: the chain.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromoteConfig {
    /// The hub whose gates decide.
    #[serde(default, deserialize_with = "hub")]
    pub hub: Option<String>,
    /// The certificate of its authority, when it is a private one.
    #[serde(default, deserialize_with = "authority")]
    pub hub_ca: Option<PathBuf>,
    /// The environment that follows its base branch without a gate.
    pub first: Option<String>,
    /// `NAME=PROGRAM` for hooks that promotion policies name.
    #[serde(default)]
    pub hooks: Vec<String>,
}

/// `[[environment]]`: one of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentConfig {
    /// Its name.
    pub name: String,
    /// Where its bundles go.
    pub bundle: Option<BundleConfig>,
    /// Where its tree is committed.
    pub git: Option<GitConfig>,
}

/// `[environment.bundle]`: who signs, and where bundles go.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleConfig {
    /// The fleet's folder.
    pub fleet: PathBuf,
    /// The file with the passphrase of its keys; without it `OUTHAUL_PASSPHRASE`, then the systemd
    /// credential `outhaul-passphrase`.
    pub passphrase_file: Option<PathBuf>,
    /// The folder for bundle files.
    pub out: PathBuf,
    /// The folder in which they are unpacked for sites that pull.
    pub publish: Option<PathBuf>,
    /// Days until a bundle may no longer be installed, within [`EXPIRES_DAYS`]; without it as policies say, or 180.
    pub expires_days: Option<u32>,
    /// `REGISTRY=HOST[:PORT][/PATH]` for mirrors that are asked for images before their registries.
    #[serde(default, deserialize_with = "mirrors")]
    pub registry_mirrors: RegistryHosts,
    /// `HOST[:PORT]=FILE` for registries whose certificates are from a private authority.
    #[serde(default, deserialize_with = "authorities")]
    pub registry_cas: RegistryHosts,
    /// `NAME=PROGRAM` for scanners that delivery policies name.
    #[serde(default, deserialize_with = "programs")]
    pub scanners: Programs,
}

/// `[environment.git]`: a platform repository.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitConfig {
    /// Its URL, or a folder here; without it what the control plane's `GitOpsRepo` names.
    pub to: Option<String>,
    /// The `GitOpsRepo`, when the control plane has several.
    pub gitops_repo: Option<String>,
    /// Its branch; default: the `GitOpsRepo`'s, or the environment's name.
    pub branch: Option<String>,
    /// The folder below its root; default: the `GitOpsRepo`'s.
    pub path: Option<String>,
    /// Open or update a pull request instead of pushing to the branch.
    #[serde(default)]
    pub pull_request: bool,
    /// The forge; without it by the repository's host.
    #[serde(default, deserialize_with = "kind")]
    pub forge: Option<ForgeKind>,
    /// The forge's API, when it is not at its usual place.
    pub api: Option<String>,
    /// The project there, `OWNER/NAME`, when it is not what the URL says.
    pub project: Option<String>,
    /// The file with the token; without it `OUTHAUL_FORGE_TOKEN`, or systemd's credential `forge-token`.
    pub token_file: Option<PathBuf>,
    /// The certificate of the forge's authority, when it is a private one.
    #[serde(default, deserialize_with = "authority")]
    pub forge_ca: Option<PathBuf>,
}

fn five_minutes() -> Duration {
    Duration::from_secs(300)
}

fn hub<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(from)?;
    outhaul_remote::hub_url(&text)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

fn programs<'de, D: Deserializer<'de>>(from: D) -> Result<Programs, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    Programs::parse(&texts).map_err(|error| {
        let help = error.help().unwrap_or_default();
        serde::de::Error::custom(format!("{error}; {help}"))
    })
}

fn mirrors<'de, D: Deserializer<'de>>(from: D) -> Result<RegistryHosts, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    RegistryHosts::read(&texts, &[]).map_err(serde::de::Error::custom)
}

fn authorities<'de, D: Deserializer<'de>>(from: D) -> Result<RegistryHosts, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    RegistryHosts::read(&[], &texts).map_err(serde::de::Error::custom)
}

/// The file of an authority, which is read here so that a mistyped one has its place.
fn authority<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    let file = PathBuf::deserialize(from)?;
    Authority::File(&file)
        .pem()
        .map_err(|error| serde::de::Error::custom(chain(&error)))?;
    Ok(Some(file))
}

fn interval<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    seconds(&text)
        .filter(|seconds| INTERVAL.contains(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| {
            serde::de::Error::custom(format!(
                "`{text}` is not a time between 5s and 7d; write it as `30s`, `5m`, `1h` or `1d`"
            ))
        })
}

fn seconds(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let number: u64 = text.get(..text.len() - 1)?.parse().ok()?;
    number.checked_mul(unit)
}

fn kind<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ForgeKind>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

impl ServeConfig {
    /// Reads the file.
    ///
    /// # Errors
    /// [`ServeError`] with file, line and column of what is wrong in it.
    pub fn read(path: &Path) -> Result<Self, ServeError> {
        let bytes = outhaul_signer::durable::read(path, MAX_BYTES)?;
        Self::parse(
            &String::from_utf8_lossy(&bytes),
            &path.display().to_string(),
        )
    }

    /// A configuration from its text; `path` is for messages only.
    ///
    /// # Errors
    /// As [`ServeConfig::read`].
    pub fn parse(text: &str, path: &str) -> Result<Self, ServeError> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let before = text.get(..offset).unwrap_or(text);
            let last = before.rsplit('\n').next().unwrap_or_default();
            ServeError::Config {
                place: format!(
                    "{path}:{}:{}",
                    before.matches('\n').count() + 1,
                    last.chars().count() + 1
                ),
                problem: error.message().to_owned(),
            }
        })?;
        match config.contradiction() {
            None => Ok(config),
            Some(problem) => Err(ServeError::Config {
                place: path.to_owned(),
                problem,
            }),
        }
    }

    fn contradiction(&self) -> Option<String> {
        if self.environments.is_empty() {
            return Some("it has no `[[environment]]`, so there is nothing to do".to_owned());
        }
        if self.webhook_secret_file.is_some() && self.listen.is_none() {
            return Some(
                "`webhook_secret_file` needs `listen`, such as \"127.0.0.1:8480\"".to_owned(),
            );
        }
        let mut names = BTreeSet::new();
        for one in &self.environments {
            let name = &one.name;
            if !names.insert(name) {
                return Some(format!("environment `{name}` is there twice"));
            }
            if one.bundle.is_none() && one.git.is_none() {
                return Some(format!(
                    "environment `{name}` has neither `[environment.bundle]` nor `[environment.git]`"
                ));
            }
            let days = one.bundle.as_ref().and_then(|bundle| bundle.expires_days);
            if days.is_some_and(|days| !EXPIRES_DAYS.contains(&days)) {
                let (least, most) = EXPIRES_DAYS.into_inner();
                return Some(format!(
                    "`expires_days` of environment `{name}` is {least} to {most}"
                ));
            }
        }
        None
    }

    /// Where repositories are fetched to.
    pub fn cache(&self) -> PathBuf {
        let own = || self.state.join("cache");
        self.cache.clone().unwrap_or_else(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "state = \"s\"\ncontrol_plane = \"c\"\ninterval = \"90s\"\n[[environment]]\n\
                         name = \"dev\"\ngit = { to = \"g\" }\n";

    fn refused(text: &str) -> String {
        ServeConfig::parse(text, "serve.toml")
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_word_that_is_not_known_is_an_error_with_its_place() {
        let config = ServeConfig::parse(SOUND, "serve.toml").unwrap();
        assert_eq!(config.interval, Duration::from_secs(90));
        let said = refused(&SOUND.replace("interval =", "intervall ="));
        assert!(said.contains("serve.toml:3:1"), "{said}");
        assert!(said.contains("intervall"), "{said}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (from, to, expected) in [
            ("90s", "4s", "between 5s and 7d"),
            ("90s", "5 minutes", "between 5s and 7d"),
            ("git = { to = \"g\" }", "", "neither"),
            (
                "state =",
                "webhook_secret_file = \"f\"\nstate =",
                "needs `listen`",
            ),
            ("to = \"g\"", "forge = \"cvs\"", "cvs"),
            (
                "state =",
                "promote = { hub = \"https://h.example/login/oidc\" }\nstate =",
                "write `https://h.example`",
            ),
        ] {
            let said = refused(&SOUND.replace(from, to));
            assert!(said.contains(expected), "{to}: {said}");
        }
    }
}
