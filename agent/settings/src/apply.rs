//! The reconcilers of this site: which one applies, and what the state folder does for it.
//!
//! What comes in: what a stream is rendered for, and the site's settings. What goes out: a [`Reconciler`], by
//! the contract in `outhaul_reconcilers::reconciler`. It applies nothing by itself.

use std::path::PathBuf;
use std::rc::Rc;

use outhaul_bundle::index::Assignment;
use outhaul_bundle::{Digest, Index, Limits};
use outhaul_reconcilers::ansible::Ansible;
use outhaul_reconcilers::folder::Folder;
use outhaul_reconcilers::hook::Hook;
use outhaul_reconcilers::remote::Remote;
use outhaul_reconcilers::sealed::{Keys, SealedError};
use outhaul_reconcilers::settings::ReconcilerChoice;
use outhaul_reconcilers::{
    ApplyError, Desired, Reconciler, ReconcilerContext, ansible, folder, hook,
};
#[cfg(feature = "kubernetes")]
use outhaul_reconcilers::{kubernetes, zarf};

use crate::config::AgentConfig;
use outhaul_content::generation;
use outhaul_kit::durable::{self, FileError};
use outhaul_site::secrets::Secrets;
use outhaul_site::state_folder::StateFolder;

/// What the state folder is to reconcilers.
#[derive(Debug)]
pub struct Context(pub StateFolder);

impl ReconcilerContext for Context {
    fn keys(&self) -> Result<Box<dyn Keys>, SealedError> {
        Ok(Box::new(Secrets::load(&self.0.identities())?))
    }

    fn earlier(&self, generation: u64, assignment: &str, site: &str) -> Option<Desired> {
        let limits = Limits::default();
        let path = self.0.generation(generation).join("index.json");
        let bytes = durable::read(&path, limits.max_index_bytes).ok()?;
        let site = site.parse().ok()?;
        let index = Index::from_bytes(&bytes, &limits).ok()?.for_site(&site);
        generation::desired(&self.0, &index, &site)
            .into_iter()
            .find(|desired| desired.assignment.name.as_str() == assignment)
    }

    fn index(&self, generation: u64) -> Result<Digest, FileError> {
        let path = self.0.generation(generation).join("index.json");
        let bytes = durable::read(&path, Limits::default().max_index_bytes)?;
        Ok(Digest::of(&bytes))
    }

    fn kept(&self, assignment: &str) -> PathBuf {
        self.0.root().join("kept").join(assignment)
    }

    fn marks(&self, generation: u64) -> PathBuf {
        generation::marks(&self.0, generation)
    }

    fn ansible(&self) -> PathBuf {
        self.0.root().join("ansible")
    }

    fn hook(&self, name: &str) -> PathBuf {
        self.0.root().join("hook").join(name)
    }
}

/// The folder reconciler of a site with these settings.
pub fn folder(config: &AgentConfig, state_folder: &StateFolder) -> Folder {
    let target = config.folder.target.clone();
    Folder::new(
        target.unwrap_or_else(|| state_folder.default_target()),
        Rc::new(Context(state_folder.clone())),
    )
    .reading_all_every(config.drift_read())
}

/// Argo CD on the cluster of a site with these settings.
#[cfg(feature = "kubernetes")]
pub fn argocd(config: &AgentConfig, state_folder: &StateFolder) -> kubernetes::Kubernetes {
    kubernetes::Kubernetes::argocd(
        &config.kubernetes,
        &config.argocd,
        Rc::new(Context(state_folder.clone())),
    )
}

/// Flux on the cluster of a site with these settings. What the mirror made for its clients is trusted where
/// nothing else is named.
#[cfg(feature = "kubernetes")]
pub fn flux(config: &AgentConfig, state_folder: &StateFolder) -> kubernetes::Kubernetes {
    let mut flux = config.flux.clone();
    flux.ca = authority(flux.ca, flux.mirror.as_deref(), state_folder);
    kubernetes::Kubernetes::flux(
        &config.kubernetes,
        &flux,
        Rc::new(Context(state_folder.clone())),
    )
}

/// Rancher Fleet on the cluster of a site with these settings, as [`flux`].
#[cfg(feature = "kubernetes")]
pub fn fleet(config: &AgentConfig, state_folder: &StateFolder) -> kubernetes::Kubernetes {
    let mut fleet = config.fleet.clone();
    fleet.ca = authority(fleet.ca, fleet.mirror.as_deref(), state_folder);
    kubernetes::Kubernetes::fleet(
        &config.kubernetes,
        &fleet,
        Rc::new(Context(state_folder.clone())),
    )
}

/// The authority that is named, or else the one that the mirror made.
#[cfg(feature = "kubernetes")]
fn authority(
    named: Option<PathBuf>,
    mirror: Option<&str>,
    state_folder: &StateFolder,
) -> Option<PathBuf> {
    let own = || state_folder.root().join("serve/tls/ca.pem");
    named.or_else(|| {
        mirror
            .filter(|at| outhaul_kit::url::is_https(at))
            .map(|_| own())
    })
}

/// The reconciler for a stream that is rendered for `kind`.
///
/// A folder or a hook may take what is rendered for another reconciler: it hands the files on.
///
/// # Errors
/// [`ApplyError::Unknown`] and [`ApplyError::Mismatch`].
pub fn reconciler(
    kind: &str,
    config: &AgentConfig,
    state_folder: &StateFolder,
) -> Result<Box<dyn Reconciler>, ApplyError> {
    let site = || -> Rc<dyn ReconcilerContext> { Rc::new(Context(state_folder.clone())) };
    let folder = || -> Box<dyn Reconciler> { Box::new(folder(config, state_folder)) };
    let ansible = || -> Box<dyn Reconciler> { Box::new(Ansible::new(&config.ansible, site())) };
    let hook =
        |name: &str| -> Box<dyn Reconciler> { Box::new(Hook::new(name, &config.hook, site())) };
    let local: Box<dyn Reconciler> = match (&config.reconciler, kind) {
        (ReconcilerChoice::Folder, _) | (ReconcilerChoice::Auto, "folder") => folder(),
        (ReconcilerChoice::Auto | ReconcilerChoice::Ansible, "ansible") => ansible(),
        #[cfg(feature = "kubernetes")]
        (ReconcilerChoice::Auto | ReconcilerChoice::Kubernetes, kubernetes::KIND) => {
            Box::new(kubernetes::Kubernetes::new(&config.kubernetes, site()))
        }
        #[cfg(feature = "kubernetes")]
        (ReconcilerChoice::Auto | ReconcilerChoice::ArgoCd, kubernetes::argocd::KIND) => {
            Box::new(argocd(config, state_folder))
        }
        #[cfg(feature = "kubernetes")]
        (ReconcilerChoice::Auto | ReconcilerChoice::Fleet, kubernetes::fleet::KIND) => {
            Box::new(fleet(config, state_folder))
        }
        #[cfg(feature = "kubernetes")]
        (ReconcilerChoice::Auto | ReconcilerChoice::Flux, kubernetes::flux::KIND) => {
            Box::new(flux(config, state_folder))
        }
        #[cfg(feature = "kubernetes")]
        (ReconcilerChoice::Auto | ReconcilerChoice::Zarf, zarf::KIND) => {
            Box::new(zarf::Zarf::new(&config.zarf, &config.kubernetes, site()))
        }
        (ReconcilerChoice::Hook, _) => hook(hook::KIND),
        (ReconcilerChoice::Named(name), kind) if name.as_str() == kind => hook(kind),
        (
            site @ (ReconcilerChoice::Ansible
            | ReconcilerChoice::ArgoCd
            | ReconcilerChoice::Fleet
            | ReconcilerChoice::Flux
            | ReconcilerChoice::Kubernetes
            | ReconcilerChoice::Zarf
            | ReconcilerChoice::Named(_)),
            stream,
        ) => {
            let (stream, site) = (stream.to_owned(), site.as_str().to_owned());
            return Err(ApplyError::Mismatch { stream, site });
        }
        (ReconcilerChoice::Auto, other) if config.hook.program.is_some() => hook(other),
        (ReconcilerChoice::Auto, other) => {
            return Err(ApplyError::Unknown {
                kind: other.to_owned(),
            });
        }
    };
    match &config.apply.helper {
        None => Ok(local),
        Some(socket) => Ok(Box::new(Remote::new(
            local,
            socket.clone(),
            &config.apply,
            site(),
        ))),
    }
}

/// The settings by which what brings the stream's reconciler is applied. Who hands every file on, a folder or a hook,
/// hands on these, too.
pub fn for_bootstrap(config: &AgentConfig) -> AgentConfig {
    let reconciler = match &config.reconciler {
        all @ (ReconcilerChoice::Folder | ReconcilerChoice::Hook) => all.clone(),
        _ => ReconcilerChoice::Auto,
    };
    AgentConfig {
        reconciler,
        ..config.clone()
    }
}

/// The reconciler for one assignment of `index`.
///
/// # Errors
/// As [`reconciler`].
pub fn for_assignment(
    index: &Index,
    assignment: &Assignment,
    config: &AgentConfig,
    state_folder: &StateFolder,
) -> Result<Box<dyn Reconciler>, ApplyError> {
    match &assignment.bootstrap {
        Some(kind) => reconciler(kind.as_str(), &for_bootstrap(config), state_folder),
        None => reconciler(index.reconciler.kind.as_str(), config, state_folder),
    }
}

/// The settings by which an item of the inventory is taken back by the reconciler `kind` that made it, whatever
/// the site is set to now.
pub fn for_items_of(kind: &str, config: &AgentConfig) -> AgentConfig {
    let own = [
        folder::KIND,
        ansible::KIND,
        "kubernetes",
        "argocd",
        "fleet",
        "flux",
        "zarf",
        hook::KIND,
    ];
    let choice = match &config.reconciler {
        // What another hook made is not given to this one.
        named @ ReconcilerChoice::Named(_) if !own.contains(&kind) => named.clone(),
        _ => ReconcilerChoice::Auto,
    };
    AgentConfig {
        reconciler: choice,
        ..config.clone()
    }
}
