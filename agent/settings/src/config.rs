//! `agent.toml`: what a site's owner may set. Everything has a default; the file may be missing.
//!
//! What comes in: text of `<state>/agent.toml`. What goes out: a [`AgentConfig`] with every value in range.
//! [`parse`] is pure and [`load`] reads the one file. It holds no key and nothing that could switch
//! verification off.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outhaul_bundle::Digest;
use outhaul_kit::text;
use outhaul_reconcilers::settings::{
    AnsibleConfig, ApplyConfig, ArgoCdConfig, FleetConfig, FluxConfig, FolderConfig, HookConfig,
    KubernetesConfig, ReconcilerChoice, ZarfConfig,
};
use serde::Deserialize;

use outhaul_pace::PullLimits;

use outhaul_asking::settings::{AtDeadline, DelayConfig, HealthConfig};
use outhaul_site::windows::MaintenanceConfig;

use outhaul_kit::durable::{self, FileError};

mod observe;

pub use observe::ObserveConfig;

/// Who may write a file beside its owner and its group.
const BY_ANYBODY: u32 = 0o002;
/// Largest `agent.toml` in bytes.
pub(crate) const MAX_CONFIG_BYTES: u64 = 256 * 1024;

/// Everything that may be set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentConfig {
    /// Which reconciler applies; `auto` takes the one that the stream names.
    pub reconciler: ReconcilerChoice,
    /// Folders that `run` watches for bundles, mounts below them included.
    pub watch: Vec<PathBuf>,
    /// Whether `run` writes reports to a watched medium that has a `reports` folder.
    pub export_to_media: bool,
    /// When a person has to say yes before a bundle is applied.
    pub approval: Approval,
    /// A bundle that removes more than this share of what is applied, in percent, waits for a person.
    pub max_removal_percent: u8,
    /// Seconds between two looks for drift, 10 to 604,800. 0: never.
    pub drift_s: u64,
    /// Seconds after which a look for drift reads every byte again, whatever times and sizes say, 0 to 2,592,000. 0: at each look.
    pub drift_read_s: u64,
    /// Seconds after which a look that found what the last one found is reported again, 0 to 86,400. 0: at each look.
    pub unchanged_s: u64,
    /// Most reports that wait for the hub, 20 to 1,000,000.
    pub outbox_max: u64,
    /// What happens when a deadline passes.
    pub at_deadline: AtDeadline,
    /// Bundles that stay whole on disk: the active one and those before it, 2 to 10. A rollback goes to them.
    pub keep_generations: usize,
    /// Space that stays free on the state's file system, in MiB.
    pub min_free_mb: u64,
    /// Who may delay what waits, and for how long.
    pub delay: DelayConfig,
    /// When what is new may be applied.
    pub maintenance: MaintenanceConfig,
    /// What counts as this site's health.
    pub health: HealthConfig,
    /// Who applies: this process, or a helper with its own rights.
    pub apply: ApplyConfig,
    /// The folder reconciler's settings.
    pub folder: FolderConfig,
    /// The Ansible reconciler's settings.
    pub ansible: AnsibleConfig,
    /// The Kubernetes reconciler's settings.
    pub kubernetes: KubernetesConfig,
    /// Where the cluster's Argo CD fetches.
    pub argocd: ArgoCdConfig,
    /// Where the cluster's Flux fetches.
    pub flux: FluxConfig,
    /// Where the cluster's Rancher Fleet fetches what bundles bring.
    pub fleet: FleetConfig,
    /// The Zarf reconciler's settings.
    pub zarf: ZarfConfig,
    /// The hook program's settings.
    pub hook: HookConfig,
    /// The platform repository that the cluster follows by itself.
    pub observe: ObserveConfig,
    /// Where `outhaul-mirror` serves what bundles bring.
    pub serve: outhaul_serve::settings::Settings,
    /// Whether and where images that came as twins are brought into containerd.
    pub containerd: outhaul_containerd::settings::Settings,
    /// Where a connected site pulls from.
    pub repository: RepositoryConfig,
    /// Where a connected site reports to.
    pub hub: HubConfig,
    /// How it shows that the machine's clock is right.
    pub clock: ClockConfig,
}

/// When a person has to say yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// Only for a bundle that removes a lot.
    #[default]
    Removals,
    /// For every bundle.
    Always,
}

/// `[repository]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RepositoryConfig {
    /// Where `metadata/`, `targets/` and `blobs/` lie. `http://` is for this very host only.
    pub url: Option<String>,
    /// Seconds between two polls, 5 to 604,800; each is jittered by a tenth.
    pub poll_s: u64,
    /// PEM file with the certificate authority to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// With a trusted clock, a bundle from here must not have been issued longer ago, in hours.
    pub max_issued_age_h: Option<u64>,
    /// Most KiB of blobs in a second, 1 to 10,000,000.
    pub max_kib_per_s: Option<u64>,
    /// Most MiB of blobs in a day of UTC, 1 to 100,000,000.
    pub max_mib_per_day: Option<u64>,
}

impl RepositoryConfig {
    /// How fast and how much is pulled.
    pub fn pull_limits(&self) -> PullLimits {
        PullLimits {
            max_kib_per_s: self.max_kib_per_s,
            max_mib_per_day: self.max_mib_per_day,
        }
    }
}

/// `[hub]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HubConfig {
    /// The hub's URL. Without it, the one of the enrolment kit.
    pub url: Option<String>,
    /// PEM file with the certificate authority to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// Seconds between two attempts to send, 5 to 604,800; each is jittered by a tenth.
    pub send_s: u64,
}

/// `[clock]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClockConfig {
    /// A file that is there as long as something trustworthy has set the clock in this boot. By default
    /// that of systemd-timesyncd; another time service can make one of its own. A trusted clock only
    /// ever refuses more.
    pub synchronized: PathBuf,
}

impl Default for ClockConfig {
    fn default() -> Self {
        Self {
            synchronized: "/run/systemd/timesync/synchronized".into(),
        }
    }
}

impl AgentConfig {
    /// After how long a look for drift reads every byte.
    pub fn drift_read(&self) -> Duration {
        Duration::from_secs(self.drift_read_s)
    }
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            reconciler: ReconcilerChoice::Auto,
            watch: Vec::new(),
            export_to_media: true,
            approval: Approval::Removals,
            max_removal_percent: 30,
            drift_s: 900,
            drift_read_s: outhaul_reconcilers::marks::FULL_READ.as_secs(),
            unchanged_s: 3600,
            outbox_max: 10_000,
            at_deadline: AtDeadline::Ask,
            keep_generations: 2,
            min_free_mb: 64,
            delay: DelayConfig::default(),
            maintenance: MaintenanceConfig::default(),
            health: HealthConfig::default(),
            apply: ApplyConfig::default(),
            folder: FolderConfig::default(),
            ansible: AnsibleConfig::default(),
            kubernetes: KubernetesConfig::default(),
            argocd: ArgoCdConfig::default(),
            flux: FluxConfig::default(),
            fleet: FleetConfig::default(),
            zarf: ZarfConfig::default(),
            hook: HookConfig::default(),
            observe: ObserveConfig::default(),
            serve: outhaul_serve::settings::Settings::default(),
            containerd: outhaul_containerd::settings::Settings::default(),
            repository: RepositoryConfig::default(),
            hub: HubConfig::default(),
            clock: ClockConfig::default(),
        }
    }
}

impl Default for RepositoryConfig {
    fn default() -> Self {
        Self {
            url: None,
            poll_s: 300,
            ca: None,
            max_issued_age_h: None,
            max_kib_per_s: None,
            max_mib_per_day: None,
        }
    }
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            url: None,
            ca: None,
            send_s: 60,
        }
    }
}

/// Why `agent.toml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Not TOML, or a key that does not exist.
    #[error("{path}:{line}:{column}: {problem}")]
    Malformed {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the parser said.
        problem: String,
    },
    /// A link that leads to nothing: what someone set is not there.
    #[error(
        "`{path}` is a link to `{to}`, which is not there: what is set for this site cannot be read"
    )]
    Dangling {
        /// The link.
        path: String,
        /// Where it leads.
        to: String,
    },
    /// Someone else may change it, and it names programs that are started and files that are written.
    #[error(
        "`{path}` is not followed: it {problem}; look at its content, then `chown {own} {typed}` and `chmod go-w {typed}`", typed = outhaul_kit::text::quoted(path)
    )]
    OfOthers {
        /// The file.
        path: String,
        /// Who may.
        problem: String,
        /// The agent's user.
        own: u32,
    },
    /// A value out of its range.
    #[error("{path}: `{key}` is {found}, it must be {expected}")]
    OutOfRange {
        /// The file.
        path: String,
        /// The key.
        key: &'static str,
        /// The value.
        found: String,
        /// What is allowed.
        expected: &'static str,
    },
}

/// What tells one content of the file at `path` from another, in 32 digits; a file that is not there is an empty one. `None` where it cannot
/// be read.
pub fn mark(path: &Path) -> Option<String> {
    let bytes = durable::read_if_present(path, MAX_CONFIG_BYTES).ok()?;
    Some(mark_of(&bytes.unwrap_or_default()))
}

fn mark_of(bytes: &[u8]) -> String {
    let mut digits = Digest::of(bytes).hex();
    digits.truncate(32);
    digits
}

/// The mark of a file that is not there.
pub fn mark_of_none() -> String {
    mark_of(b"")
}

/// Reads `<state>/agent.toml`; without the file, the defaults.
///
/// # Errors
/// [`ConfigError`] with file, line and column.
pub fn load(path: &Path) -> Result<AgentConfig, ConfigError> {
    let Some(bytes) = durable::read_if_present(path, MAX_CONFIG_BYTES)? else {
        return match fs::read_link(path) {
            Ok(to) => Err(ConfigError::Dangling {
                path: text::path(path),
                to: text::path(&to),
            }),
            Err(_) => Ok(AgentConfig::default()),
        };
    };
    let own = rustix::process::geteuid().as_raw();
    let found = fs::metadata(path).map_err(durable::at("look at", path))?;
    if let Some(problem) = of_others(found.uid(), found.mode(), own) {
        let path = path.display().to_string();
        return Err(ConfigError::OfOthers { path, problem, own });
    }
    parse(
        &String::from_utf8_lossy(&bytes),
        &path.display().to_string(),
    )
}

/// What lets someone else than root and the agent's user `own` change a file. A group is the owner's choice.
fn of_others(owner: u32, mode: u32, own: u32) -> Option<String> {
    if owner != 0 && owner != own {
        return Some(format!(
            "belongs to user {owner}, who is neither root nor the agent's user {own}"
        ));
    }
    (mode & BY_ANYBODY != 0)
        .then(|| format!("may be written by anybody (mode {:o})", mode & 0o7777))
}

/// A config from its text; `path` is for messages only.
///
/// # Errors
/// [`ConfigError`] with file, line and column.
#[expect(clippy::too_many_lines, reason = "one line for each setting")]
pub fn parse(text: &str, path: &str) -> Result<AgentConfig, ConfigError> {
    let config: AgentConfig = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let before = text.get(..offset).unwrap_or(text);
        ConfigError::Malformed {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before
                .rsplit('\n')
                .next()
                .map_or(0, |line| line.chars().count())
                + 1,
            problem: error.message().to_owned(),
        }
    })?;
    let wrong = |key, found: String, expected| {
        Err(ConfigError::OutOfRange {
            path: path.to_owned(),
            key,
            found,
            expected,
        })
    };
    let week = 604_800;
    if config.drift_s != 0 && !(10..=week).contains(&config.drift_s) {
        return wrong("drift_s", config.drift_s.to_string(), "0, or 10 to 604800");
    }
    if config.drift_read_s > 2_592_000 {
        let found = config.drift_read_s.to_string();
        return wrong("drift_read_s", found, "0 to 2592000");
    }
    if config.unchanged_s > 86_400 {
        return wrong("unchanged_s", config.unchanged_s.to_string(), "0 to 86400");
    }
    if config.max_removal_percent > 100 {
        return wrong(
            "max_removal_percent",
            config.max_removal_percent.to_string(),
            "0 to 100",
        );
    }
    if !(2..=10).contains(&config.keep_generations) {
        return wrong(
            "keep_generations",
            config.keep_generations.to_string(),
            "2 to 10",
        );
    }
    if !(20..=1_000_000).contains(&config.outbox_max) {
        return wrong("outbox_max", config.outbox_max.to_string(), "20 to 1000000");
    }
    let of_waits = config
        .delay
        .out_of_range()
        .or_else(|| config.maintenance.out_of_range())
        .or_else(|| config.health.out_of_range());
    if let Some((key, found, expected)) = of_waits {
        return wrong(key, found, expected);
    }
    if let Some((key, found, expected)) = config.apply.out_of_range() {
        return wrong(key, found, expected);
    }
    let of_reconcilers = config
        .ansible
        .out_of_range()
        .or_else(|| config.kubernetes.out_of_range())
        .or_else(|| config.argocd.out_of_range())
        .or_else(|| config.flux.out_of_range())
        .or_else(|| config.fleet.out_of_range())
        .or_else(|| config.zarf.out_of_range())
        .or_else(|| config.hook.out_of_range(&config.reconciler))
        .or_else(|| config.folder.out_of_range())
        .or_else(|| config.observe.out_of_range());
    if let Some((key, found, expected)) = of_reconcilers {
        return wrong(key, found, expected);
    }
    if let Some((key, found, expected)) = config.serve.out_of_range() {
        return wrong(key, found, expected);
    }
    if let Some((key, found, expected)) = config.containerd.out_of_range() {
        return wrong(key, found, expected);
    }
    if let Some((key, found, expected)) = config.repository.pull_limits().out_of_range() {
        return wrong(key, found, expected);
    }
    if !(5..=week).contains(&config.repository.poll_s) {
        return wrong(
            "repository.poll_s",
            config.repository.poll_s.to_string(),
            "5 to 604800",
        );
    }
    if !(5..=week).contains(&config.hub.send_s) {
        return wrong("hub.send_s", config.hub.send_s.to_string(), "5 to 604800");
    }
    let urls = [
        ("repository.url", &config.repository.url),
        ("hub.url", &config.hub.url),
    ];
    for (key, url) in urls
        .into_iter()
        .filter_map(|(key, url)| Some((key, url.as_ref()?)))
    {
        if let Err(expected) = outhaul_http::check_url(url) {
            return wrong(key, format!("`{url}`"), expected);
        }
    }
    if !config.clock.synchronized.is_absolute() {
        let found = format!("`{}`", config.clock.synchronized.display());
        return wrong(
            "clock.synchronized",
            found,
            "an absolute path, such as \"/run/chrony/synchronized\"",
        );
    }
    Ok(config)
}

#[cfg(test)]
mod tests;
