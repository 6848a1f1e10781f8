//! The control plane as a value: everything that one render of one environment depends on.
//!
//! What comes in: objects that the loader typed. What goes out: plain data that `schedule`, `compose`
//! and `render` are functions of. Every object remembers where it was written. Nothing in it reads a
//! file, and two loads of the same snapshot are equal.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::name::Name;

use super::diagnostic::{Diagnostics, Location};

mod delivery;
mod image_fields;
mod image_signatures;
mod policy;
mod site_values;

pub use delivery::{
    Bootstrap, Charts, DeliveryPolicy, Drift, EXPIRES_DAYS, EXPIRES_DAYS_DEFAULT, Encryption,
    HOOK_MINUTES, HOOK_MINUTES_DEFAULT, Images, MAX_REMOVAL_PERCENT_DEFAULT, PromotionHook,
    PromotionHooks, PromotionPolicy, Transport,
};
pub use image_fields::{FieldStep, ImageField};
pub use image_signatures::{
    CarriedRoot, ImageSignatures, SignatureRule, SignerIdentity, bad_issuer, bad_subject,
    broad_subject, never_fits, unknown_to,
};
pub use policy::{Effect, Placement, Preference, SchedulingPolicy, Spread, Taint, Toleration};
pub use site_values::OpenValues;

pub mod composition;

pub use composition::CompositionPolicy;

/// Labels: sorted, so that whatever lists them lists them alike.
pub type Labels = BTreeMap<String, String>;

/// One environment of a control plane, at one snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ControlPlane {
    /// The environment's name.
    pub environment: String,
    /// The commit of the promoted content, when it has one: what `Promoted_Commit_Id` says.
    pub promoted_commit: Option<String>,
    /// Cluster types by name.
    pub cluster_types: BTreeMap<String, ClusterType>,
    /// This environment's deployment targets by full name (`<workload>-<target>`).
    pub targets: BTreeMap<String, DeploymentTarget>,
    /// Deployment targets of other environments, by `<environment>/<name>`: for explanations only.
    pub other_targets: BTreeMap<String, DeploymentTarget>,
    /// Scheduling policies of both groups by name.
    pub policies: BTreeMap<String, SchedulingPolicy>,
    /// Taints by name.
    pub taints: BTreeMap<String, Taint>,
    /// Delivery policies by name.
    pub deliveries: BTreeMap<String, DeliveryPolicy>,
    /// Promotion policies by name.
    pub promotions: BTreeMap<String, PromotionPolicy>,
    /// Templates of both groups by name.
    pub templates: BTreeMap<String, Template>,
    /// Config containers by name, which is their order of precedence.
    pub configs: BTreeMap<String, ConfigContainer>,
    /// How they are composed, when it is not as Kalypso does.
    pub composition: Option<CompositionPolicy>,
    /// Config schemas by name.
    pub schemas: BTreeMap<String, ConfigSchema>,
    /// Workload registrations by name.
    pub registrations: BTreeMap<String, WorkloadRegistration>,
    /// Base repositories by name.
    pub base_repos: BTreeMap<String, BaseRepo>,
    /// Those of them that the environment itself names, and not content that is promoted.
    pub own_bases: BTreeSet<String>,
    /// Where the rendered platform goes, by name.
    pub gitops_repos: BTreeMap<String, GitOpsRepo>,
    /// Environments that the promoted content declares, by name.
    pub environments: BTreeMap<String, Environment>,
    /// Sites by name.
    pub sites: BTreeMap<String, Site>,
    /// What sites may set, by name.
    pub site_values: BTreeMap<String, OpenValues>,
    /// Acknowledged removals by name.
    pub acknowledgements: BTreeMap<String, Acknowledgement>,
    /// Workload registrations whose repository cannot be read or holds a mistake, by name. Nothing of
    /// them is among the targets: what ran of them stays as it was.
    pub lost: BTreeMap<String, UnreadableRegistration>,
    /// Warnings and notes of the load.
    pub findings: Diagnostics,
}

/// A workload registration that cannot be followed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnreadableRegistration {
    /// The workspace (team) that owns it.
    pub workspace: String,
    /// Why.
    pub findings: Diagnostics,
}

impl ControlPlane {
    /// What is wrong with the workloads that cannot be read.
    pub fn lost_findings(&self) -> Diagnostics {
        let mut all = Diagnostics::new();
        for lost in self.lost.values() {
            all.append(lost.findings.clone());
        }
        all
    }
}

/// That the removal of a certain list of assignments is meant.
#[derive(Debug, Clone, PartialEq)]
pub struct Acknowledgement {
    /// Its name.
    pub name: String,
    /// The code of the list, as the refusal printed it.
    pub removal: String,
    /// Why it is meant, for people.
    pub reason: String,
    /// Where it is written.
    pub location: Location,
}

/// A group of clusters or hosts with the same workloads and the same reconciler.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterType {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Name of the template that makes the reconciler's manifests, and where it is written.
    pub reconciler: Spanned<String>,
    /// Name of the template that makes the namespace, and where it is written.
    pub namespace_service: Spanned<String>,
    /// Name of the template that makes the platform config; absent means no config file.
    pub config_type: Option<Spanned<String>>,
    /// Where it is written.
    pub location: Location,
}

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it is written.
    pub location: Location,
}

/// One named way to run a workload in one environment.
#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentTarget {
    /// The full name: `<workload>-<target>`.
    pub name: String,
    /// The name as the workload has it.
    pub short_name: String,
    /// The workload's name.
    pub workload: String,
    /// The registration that brought it.
    pub registration: String,
    /// The workspace (team) that owns it.
    pub workspace: String,
    /// The environment it is for.
    pub environment: String,
    /// Where that is written.
    pub environment_at: Location,
    /// Labels as templates and policies see them.
    pub labels: Labels,
    /// Where its manifests lie (`repo`, `branch`, `path` by convention); absent as in the workload.
    pub manifests: Option<BTreeMap<String, String>>,
    /// Where its `manifests.storage` is written, when it is.
    pub storage_at: Option<Location>,
    /// Its own JSON schemas, then those of its workload.
    pub config_schemas: Vec<Spanned<String>>,
    /// Where it is written.
    pub location: Location,
}

/// What a template is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TemplateType {
    /// The reconciler's manifests.
    Reconciler,
    /// The namespace's manifests.
    Namespace,
    /// The platform config.
    Config,
}

impl TemplateType {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reconciler => "reconciler",
            Self::Namespace => "namespace",
            Self::Config => "config",
        }
    }
}

/// The language of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Go text/template with Kalypso's functions (Kalypso's group).
    Go,
    /// Jinja (our group).
    Jinja,
}

/// The label by which a template of Kalypso's group, which has no field for it, says what its result is for.
pub(crate) const RECONCILER_LABEL: &str = "outhaul.dev/reconciler";

/// What makes desired state real on site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReconcilerKind {
    /// Playbooks that the agent runs on the host itself.
    Ansible,
    /// Argo CD.
    ArgoCd,
    /// Rancher Fleet.
    Fleet,
    /// Flux.
    Flux,
    /// Files that something on site watches.
    Folder,
    /// Manifests that the agent applies to the cluster itself.
    Kubernetes,
    /// Zarf.
    Zarf,
    /// Any other: on site, a hook program of this name.
    Other(Name),
}

impl ReconcilerKind {
    /// Every kind that Outhaul has a template for.
    pub const KNOWN: [Self; 7] = [
        Self::Ansible,
        Self::ArgoCd,
        Self::Fleet,
        Self::Flux,
        Self::Folder,
        Self::Kubernetes,
        Self::Zarf,
    ];

    /// The kind that is called `name`; none when it cannot be a name.
    pub fn named(name: &str) -> Option<Self> {
        let known = Self::KNOWN.into_iter().find(|known| known.as_str() == name);
        known.or_else(|| name.parse().ok().map(Self::Other))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(name) => name.as_str(),
            Self::Ansible => "ansible",
            Self::ArgoCd => "argocd",
            Self::Fleet => "fleet",
            Self::Flux => "flux",
            Self::Folder => "folder",
            Self::Kubernetes => "kubernetes",
            Self::Zarf => "zarf",
        }
    }
}

/// How an assignment becomes manifests.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// Its name.
    pub name: String,
    /// Its language.
    pub language: Language,
    /// What it is for.
    pub kind: TemplateType,
    /// `sh` gives files that end in `.sh`; anything else gives `.yaml`. In our own group the text
    /// itself is the ending.
    pub content_type: Option<Spanned<String>>,
    /// What makes its manifests real, when it says so; see [`Template::reconciler_kind`].
    pub reconciler: Option<ReconcilerKind>,
    /// The texts, one per manifest.
    pub manifests: Vec<Spanned<String>>,
    /// Where it is written.
    pub location: Location,
}

impl Template {
    /// What makes its manifests real: what it says itself, or what the objects in its text are for.
    /// Kalypso's templates have no field for it. What nothing is known of is put in a folder.
    pub fn reconciler_kind(&self) -> ReconcilerKind {
        if let Some(kind) = &self.reconciler {
            return kind.clone();
        }
        let text = |needle: &str| self.manifests.iter().any(|m| m.value.contains(needle));
        let playbook = self.manifests.iter().any(|manifest| {
            manifest
                .value
                .lines()
                .any(|line| line.starts_with("- hosts:"))
                || (text("\n- name:") && text("\n  hosts:"))
        });
        match () {
            () if text("toolkit.fluxcd.io/") => ReconcilerKind::Flux,
            () if text("argoproj.io/") => ReconcilerKind::ArgoCd,
            () if text("fleet.cattle.io/") => ReconcilerKind::Fleet,
            () if text("kind: ZarfPackageConfig") => ReconcilerKind::Zarf,
            () if playbook => ReconcilerKind::Ansible,
            () => ReconcilerKind::Folder,
        }
    }
}

/// A container of platform config: a labelled `ConfigMap`.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigContainer {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, Spanned<String>>,
    /// Its values, each with its place.
    pub data: BTreeMap<String, Spanned<String>>,
    /// Where it is written.
    pub location: Location,
}

/// A JSON schema for the platform config of what its labels match.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigSchema {
    /// Its name.
    pub name: String,
    /// Its labels, matched as a config container's.
    pub labels: BTreeMap<String, Spanned<String>>,
    /// The schema, as JSON text.
    pub schema: Spanned<String>,
    /// Where it is written.
    pub location: Location,
}

/// One place in a repository.
#[derive(Debug, Clone, PartialEq)]
pub struct RepositoryPath {
    /// The URL, with its place.
    pub repo: Spanned<String>,
    /// The branch.
    pub branch: String,
    /// Where the branch is written.
    pub branch_at: Location,
    /// The path below the root.
    pub path: String,
    /// Where the path is written, or else the URL.
    pub path_at: Location,
}

/// Says where a workload is described.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadRegistration {
    /// Its name.
    pub name: String,
    /// Where the workload's objects lie.
    pub workload: RepositoryPath,
    /// The workspace (team) that owns it.
    pub workspace: String,
    /// Where it is written.
    pub location: Location,
}

/// What is promoted into the environment.
#[derive(Debug, Clone, PartialEq)]
pub struct BaseRepo {
    /// Its name; `main` is the one whose commit is promoted.
    pub name: String,
    /// Where it lies.
    pub at: RepositoryPath,
    /// The commit that it is pinned to.
    pub commit: Option<Spanned<String>>,
    /// Where it is written.
    pub location: Location,
}

/// Where the rendered platform goes.
#[derive(Debug, Clone, PartialEq)]
pub struct GitOpsRepo {
    /// Its name.
    pub name: String,
    /// Where it lies.
    pub at: RepositoryPath,
    /// Where it is written.
    pub location: Location,
}

/// A link of the promotion chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Environment {
    /// Its name.
    pub name: String,
    /// Where what is its own lies.
    pub control_plane: RepositoryPath,
    /// The environment before it in the promotion chain, from its label `outhaul.dev/after`.
    pub after: Option<Spanned<String>>,
    /// Where it is written.
    pub location: Location,
}

/// One physical cluster or host.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Its own labels.
    pub labels: Labels,
    /// Its cluster type, with its place.
    pub cluster_type: Spanned<String>,
    /// The ring in which it is updated.
    pub ring: Option<String>,
    /// Its public key, as PEM text.
    pub public_key: Option<String>,
    /// Where it is written.
    pub location: Location,
}

impl Site {
    /// What it answers to: its labels, its name as `site`, and its ring as `ring`.
    pub fn answers_to(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self
            .labels
            .iter()
            .filter(|(label, _)| *label != "site" && !(*label == "ring" && self.ring.is_some()))
            .map(|(label, value)| (label.as_str(), value.as_str()));
        let ring = self.ring.as_deref().map(|ring| ("ring", ring));
        own.chain([("site", self.name.as_str())]).chain(ring)
    }

    /// The same as labels, for a selector.
    pub fn all_labels(&self) -> Labels {
        let owned = |(label, value): (&str, &str)| (label.to_owned(), value.to_owned());
        self.answers_to().map(owned).collect()
    }
}
