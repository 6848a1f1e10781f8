//! What a site's owner may set for its reconcilers: sections of `agent.toml`, as values.
//!
//! What comes in: the keys of a section. What goes out: its settings, each with a default, and the first value
//! that is out of its range. It reads no file.

use outhaul_kit::url::UrlParts;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

mod choice;
mod hook;

pub use choice::ReconcilerChoice;
pub use hook::HookConfig;

/// A value out of its range: its key, the value, and what is allowed.
pub type OutOfRange = (&'static str, String, &'static str);

/// `[apply]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApplyConfig {
    /// The socket of the apply helper. Without it, this process applies by itself.
    pub helper: Option<PathBuf>,
    /// Seconds without a heartbeat after which the helper is given up, 5 to 3600.
    pub silence_s: u64,
}

impl Default for ApplyConfig {
    fn default() -> Self {
        Self {
            helper: None,
            silence_s: 60,
        }
    }
}

/// `[folder]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FolderConfig {
    /// The folder that k3s, Quadlet or a script watches. Without it, `<state>/applied`.
    pub target: Option<PathBuf>,
}

/// `[ansible]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnsibleConfig {
    /// The program, by name or path.
    pub playbook_program: PathBuf,
    /// The Python that runs modules. Without it, the first of the usual ones that works.
    pub python: Option<PathBuf>,
    /// Longest run of one playbook in seconds, 1 to 86,400.
    pub timeout_s: u64,
    /// The file with the password of vaults that are this site's.
    pub vault_password_file: Option<PathBuf>,
    /// Variables of this site's own, given to every playbook; `outhaul_*` cannot be set here.
    pub vars: BTreeMap<String, String>,
}

/// `[kubernetes]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KubernetesConfig {
    /// The kubeconfig. Without it, the service account of the pod that the agent runs in.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it. Without it, its current one.
    pub context: Option<String>,
    /// Longest answer of the API server in seconds, 1 to 100.
    pub timeout_s: u64,
    /// Seconds that what was applied may take to be ready, 1 to 86,400; a template may say otherwise.
    pub wait_s: u64,
    /// Names of `CustomResourceDefinition`s that are removed while there are objects of their kind, which go with them. Without it, none is.
    pub remove_definitions: Vec<String>,
}

/// `[flux]`: where the cluster's Flux fetches what bundles bring.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FluxConfig {
    /// The address of `outhaul-mirror` as the cluster reaches it. Without it, sources are applied as rendered.
    pub mirror: Option<String>,
    /// The certificate authority that Flux is to trust there. Without it, the mirror's own in the state folder.
    pub ca: Option<PathBuf>,
}

/// `[fleet]`: where the cluster's Rancher Fleet fetches what bundles bring.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetConfig {
    /// The address of `outhaul-mirror` as the cluster reaches it. Without it, repositories are applied as rendered.
    pub mirror: Option<String>,
    /// The certificate authority that Fleet is to trust there. Without it, the mirror's own in the state folder.
    pub ca: Option<PathBuf>,
}

/// `[argocd]`: where the cluster's Argo CD fetches what bundles bring.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArgoCdConfig {
    /// The address of `outhaul-mirror` as the cluster reaches it. Without it, sources are applied as rendered.
    pub mirror: Option<String>,
}

/// `[zarf]`: the command that deploys packages to the cluster of `[kubernetes]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZarfConfig {
    /// The program, by name or path.
    pub program: PathBuf,
    /// Whether the cluster pulls images by their own names, from the site's mirror. Otherwise Zarf pushes those that a package
    /// brings into its own registry, which `zarf init` has set up.
    pub connected: bool,
    /// Longest run of the command in seconds, 1 to 86,400.
    pub timeout_s: u64,
    /// Seconds that what was deployed may take to be ready, 1 to 86,400.
    pub wait_s: u64,
}

impl Default for ZarfConfig {
    fn default() -> Self {
        Self {
            program: "zarf".into(),
            connected: true,
            timeout_s: 3600,
            wait_s: 900,
        }
    }
}

impl ZarfConfig {
    /// The first value that is out of its range: its key, the value, and what is allowed.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        let seconds = [
            ("zarf.timeout_s", self.timeout_s),
            ("zarf.wait_s", self.wait_s),
        ];
        let wrong = seconds
            .into_iter()
            .find(|(_, found)| !(1..=86_400).contains(found));
        wrong.map(|(key, found)| (key, found.to_string(), "1 to 86400"))
    }
}

impl Default for AnsibleConfig {
    fn default() -> Self {
        Self {
            playbook_program: "ansible-playbook".into(),
            python: None,
            timeout_s: 1800,
            vault_password_file: None,
            vars: BTreeMap::new(),
        }
    }
}

impl Default for KubernetesConfig {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            timeout_s: 30,
            wait_s: 300,
            remove_definitions: Vec::new(),
        }
    }
}

impl ApplyConfig {
    /// The first value that is out of its range: its key, the value, and what is allowed.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        if !(5..=3600).contains(&self.silence_s) {
            let found = self.silence_s.to_string();
            return Some(("apply.silence_s", found, "5 to 3600"));
        }
        let relative = self.helper.as_ref().filter(|path| !path.is_absolute())?;
        let found = format!("`{}`", relative.display());
        let expected = "an absolute path, such as \"/run/outhaul/apply.sock\"";
        Some(("apply.helper", found, expected))
    }
}

impl KubernetesConfig {
    /// The first value that is out of its range: its key, the value, and what is allowed.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        // Below the service's watchdog of 120 s.
        if !(1..=100).contains(&self.timeout_s) {
            let found = self.timeout_s.to_string();
            return Some(("kubernetes.timeout_s", found, "1 to 100"));
        }
        if !(1..=86_400).contains(&self.wait_s) {
            return Some(("kubernetes.wait_s", self.wait_s.to_string(), "1 to 86400"));
        }
        let relative = self
            .kubeconfig
            .as_ref()
            .filter(|path| !path.is_absolute())?;
        let found = format!("`{}`", relative.display());
        let expected = "an absolute path, such as \"/etc/rancher/k3s/k3s.yaml\"";
        Some(("kubernetes.kubeconfig", found, expected))
    }
}

/// An address of a mirror that is not one.
fn no_address(key: &'static str, mirror: Option<&String>) -> Option<OutOfRange> {
    let mirror = mirror?;
    let parts = UrlParts::of(mirror).filter(UrlParts::is_web);
    let parts = parts.filter(|parts| parts.user.is_none() && matches!(parts.rest, "" | "/"));
    let fits = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    let place = parts.map(|parts| parts.authority);
    let expected = "a scheme, a host and a port, such as \"https://mirror.site.example:5443\"";
    place
        .is_none_or(|place| place.is_empty() || !place.chars().all(fits))
        .then(|| (key, format!("`{mirror}`"), expected))
}

impl ArgoCdConfig {
    /// The first value that is out of its range: its key, the value, and what is allowed.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        no_address("argocd.mirror", self.mirror.as_ref())
    }
}

impl FluxConfig {
    /// The first value that is out of its range: its key, the value, and what is allowed.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        no_address("flux.mirror", self.mirror.as_ref())
            .or_else(|| no_authority("flux.ca", self.ca.as_ref()))
    }
}

impl FleetConfig {
    /// The first value that is out of its range: its key, the value, and what is allowed.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        no_address("fleet.mirror", self.mirror.as_ref())
            .or_else(|| no_authority("fleet.ca", self.ca.as_ref()))
    }
}

fn no_authority(key: &'static str, path: Option<&PathBuf>) -> Option<OutOfRange> {
    let relative = path.filter(|path| !path.is_absolute())?;
    let found = format!("`{}`", relative.display());
    let expected = "an absolute path, such as \"/var/lib/outhaul-agent/serve/tls/ca.pem\"";
    Some((key, found, expected))
}

impl AnsibleConfig {
    /// Longest run of one playbook.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s)
    }

    /// The first value that is out of its range: its key, the value, and what is allowed.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        let found = self.timeout_s;
        if !(1..=86_400).contains(&found) {
            return Some(("ansible.timeout_s", found.to_string(), "1 to 86400"));
        }
        let relative = self
            .vault_password_file
            .as_ref()
            .filter(|path| !path.is_absolute())?;
        let found = format!("`{}`", relative.display());
        let expected = "an absolute path, such as \"/etc/outhaul/vault-password\"";
        Some(("ansible.vault_password_file", found, expected))
    }
}

impl FolderConfig {
    /// The first value that is out of its range: its key, the value, and what is allowed.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        let relative = self.target.as_ref().filter(|path| !path.is_absolute())?;
        let found = format!("`{}`", relative.display());
        let expected = "an absolute path, such as \"/var/lib/k3s/manifests\"";
        Some(("folder.target", found, expected))
    }
}
