//! What Zarf keeps of a deployed package: a Secret in the namespace `zarf` of the cluster.
//!
//! What comes in: the cluster and a package's name. What goes out: whose package it is, the state of its components, and its charts. It
//! changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul_bundle::report::StepResult;
use outhaul_kubernetes::{ClientError, Cluster, Key};
use serde::Deserialize;
use serde_json::Value;

use super::READY_MADE;

use crate::error::ApplyError;
use crate::kubernetes::ownership::{ANNOTATION, Owner, SITE_ANNOTATION};
use crate::outcome::step;

/// Where Zarf keeps its state.
const NAMESPACE: &str = "zarf";
/// What a package was made of, as a digest.
pub const CONTENT: &str = "outhaul.dev/content";

/// What is said of files that a package wrote.
pub const STAYS: &str = "files that it wrote on this host stay: Zarf does not remove them";

/// Whose a deployed package is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was made for this assignment on this site.
    Ours,
    /// It was made for another assignment, or by another site's agent.
    Others,
    /// It came ready-made, from whomever.
    Unknown,
}

/// A deployed package.
#[derive(Debug, Default)]
pub struct DeployedPackage {
    owner: Option<Owner>,
    /// What it was made of.
    pub content: Option<String>,
    components: Vec<Component>,
    /// The files that it writes on a host.
    files: BTreeSet<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StoredPackage {
    data: Definition,
    deployed_components: Option<Vec<Component>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Definition {
    metadata: Metadata,
    components: Option<Vec<DefinedComponent>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DefinedComponent {
    files: Option<Vec<DefinedFile>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DefinedFile {
    target: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Component {
    name: String,
    status: String,
    installed_charts: Option<Vec<Chart>>,
}

/// A chart that Zarf installed for a package.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Chart {
    /// The namespace of its release.
    pub namespace: String,
    /// The name of its release.
    pub chart_name: String,
}

/// The package of that name; `None` when none is deployed.
///
/// # Errors
/// [`ApplyError::Cluster`]
pub fn read(cluster: &Cluster, name: &str) -> Result<Option<DeployedPackage>, ApplyError> {
    let key = Key {
        group: String::new(),
        kind: "Secret".to_owned(),
        namespace: Some(NAMESPACE.to_owned()),
        name: format!("zarf-package-{name}"),
    };
    let found = |cluster: &Cluster| -> Result<Option<Value>, ClientError> {
        match cluster.resource("", "v1", "Secret")? {
            Some(resource) => cluster.get(&resource, &key),
            None => Ok(None),
        }
    };
    let Some(secret) = found(cluster)? else {
        return Ok(None);
    };
    let text = secret["data"]["data"].as_str().unwrap_or_default();
    let bytes = STANDARD.decode(text).unwrap_or_default();
    let written: StoredPackage =
        serde_json::from_slice(&bytes).map_err(|error| ApplyError::Cluster {
            problem: format!("what Zarf keeps of the package `{name}` cannot be read: {error}"),
            help: format!(
                "see whether this Zarf is one that this agent knows; a damaged record is made again: `kubectl --namespace {NAMESPACE} \
                 delete secret zarf-package-{name}`, then `outhaul-agent apply`"
            ),
        })?;
    let mut annotations = written.data.metadata.annotations.unwrap_or_default();
    let components = written.data.components.unwrap_or_default();
    Ok(Some(DeployedPackage {
        owner: annotations.remove(ANNOTATION).map(|assignment| Owner {
            assignment,
            site: annotations.remove(SITE_ANNOTATION),
        }),
        content: annotations.remove(CONTENT),
        files: components
            .into_iter()
            .flat_map(|one| one.files.unwrap_or_default())
            .map(|file| file.target)
            .collect(),
        components: written.deployed_components.unwrap_or_default(),
    }))
}

impl DeployedPackage {
    /// Whose it is, as far as it says.
    pub fn origin(&self, owner: &Owner) -> Origin {
        match &self.owner {
            None => Origin::Unknown,
            Some(found) if found == owner => Origin::Ours,
            Some(_) => Origin::Others,
        }
    }

    /// Whose it is, in words; `None` where it does not say.
    pub fn owner_text(&self) -> Option<String> {
        let owner = self.owner.as_ref()?;
        let site = owner.site.as_deref().unwrap_or("unknown");
        Some(format!(
            "is that of `{}` on the site `{site}`",
            owner.assignment
        ))
    }

    /// Whether it is the one that is known by `content`. One that came ready-made says nothing, and no other may be in its place
    /// that does.
    pub fn is_made_of(&self, content: &str) -> bool {
        match &self.content {
            Some(found) => found == content,
            None => content.starts_with(READY_MADE),
        }
    }

    /// Files that it wrote on this host and that `definition` does not write any more.
    pub fn files_without(&self, definition: &Value) -> Vec<String> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let components = list(&definition["components"]).into_iter();
        let files = components.flat_map(|component| list(&component["files"]));
        let wanted: BTreeSet<String> = files
            .filter_map(|file| file["target"].as_str().map(str::to_owned))
            .collect();
        self.files.difference(&wanted).cloned().collect()
    }

    /// Its charts, in the order in which they were installed.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.components
            .iter()
            .flat_map(|component| component.installed_charts.iter().flatten())
    }

    /// A step for each component.
    pub fn steps(&self) -> Vec<StepResult> {
        let one = |component: &Component| match component.is_done() {
            true => step(&component.name, "changed", ""),
            false => step(&component.name, "failed", component.status.as_str()),
        };
        self.components.iter().map(one).collect()
    }

    /// What is not deployed as a whole.
    pub fn unfinished(&self) -> Option<String> {
        let open = self.components.iter().find(|one| !one.is_done())?;
        Some(format!(
            "Zarf reports of its component `{}`: {}",
            open.name, open.status
        ))
    }

    /// What of it Zarf does not remove.
    pub fn what_stays(&self) -> &'static str {
        match self.files.is_empty() {
            true => "",
            false => STAYS,
        }
    }
}

impl Component {
    fn is_done(&self) -> bool {
        self.status == "Succeeded"
    }
}
