//! `reconciler` of `agent.toml`: one of the agent's own, or the name of one that a hook program is.
//!
//! What comes in: a word. What goes out: a [`ReconcilerChoice`]; a word that is not a name is refused. Whether a
//! program is set for a name is checked with the whole file.

use outhaul_bundle::name::Name;
use serde::Deserialize;

/// Which reconciler applies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum ReconcilerChoice {
    /// The one that the stream names.
    #[default]
    Auto,
    /// `ansible-playbook` on this host.
    Ansible,
    /// Argo CD on a cluster.
    ArgoCd,
    /// Rancher Fleet on a cluster.
    Fleet,
    /// Flux on a cluster.
    Flux,
    /// A watched folder.
    Folder,
    /// The API server of a cluster.
    Kubernetes,
    /// Zarf, which deploys packages to a cluster.
    Zarf,
    /// The hook program, whatever a stream is rendered for.
    Hook,
    /// The hook program, for streams that are rendered for this name.
    Named(Name),
}

impl ReconcilerChoice {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Auto => "auto",
            Self::Ansible => "ansible",
            Self::ArgoCd => "argocd",
            Self::Fleet => "fleet",
            Self::Flux => "flux",
            Self::Folder => "folder",
            Self::Kubernetes => "kubernetes",
            Self::Zarf => "zarf",
            Self::Hook => "hook",
            Self::Named(name) => name.as_str(),
        }
    }
}

impl TryFrom<String> for ReconcilerChoice {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let own = [
            Self::Auto,
            Self::Ansible,
            Self::ArgoCd,
            Self::Fleet,
            Self::Flux,
            Self::Folder,
            Self::Kubernetes,
            Self::Zarf,
            Self::Hook,
        ];
        match own.into_iter().find(|own| own.as_str() == word) {
            Some(own) => Ok(own),
            None => match word.parse() {
                Ok(name) => Ok(Self::Named(name)),
                Err(_) => Err(format!("`{word}` is not the name of a reconciler")),
            },
        }
    }
}
