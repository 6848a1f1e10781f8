//! What a template sees as `.`: Kalypso's nine fields, and sets of them.
//!
//! In: what an assignment has. Out: the fields, owned or borrowed; which of them a template reads is a set.
//! It knows no template.

use crate::GoValue;
use std::collections::BTreeMap;

/// What a template sees as `.`: Kalypso's nine fields.
#[derive(Debug, Clone, Default)]
pub struct TemplateData {
    /// `.DeploymentTargetName`.
    pub deployment_target_name: String,
    /// `.Namespace`.
    pub namespace: String,
    /// `.Environment`.
    pub environment: String,
    /// `.Workspace`.
    pub workspace: String,
    /// `.Workload`.
    pub workload: String,
    /// `.Labels`; `None` is Go's nil map.
    pub labels: Option<BTreeMap<String, String>>,
    /// `.Manifests`; `None` is Go's nil map.
    pub manifests: Option<BTreeMap<String, String>>,
    /// `.ClusterType`.
    pub cluster_type: String,
    /// `.ConfigData`; a string map (`Null` is Go's nil map).
    pub config_data: GoValue,
}

/// The same nine fields, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct TemplateView<'a> {
    /// `.DeploymentTargetName`.
    pub deployment_target_name: &'a str,
    /// `.Namespace`.
    pub namespace: &'a str,
    /// `.Environment`.
    pub environment: &'a str,
    /// `.Workspace`.
    pub workspace: &'a str,
    /// `.Workload`.
    pub workload: &'a str,
    /// `.Labels`; `None` is Go's nil map.
    pub labels: Option<&'a BTreeMap<String, String>>,
    /// `.Manifests`; `None` is Go's nil map.
    pub manifests: Option<&'a BTreeMap<String, String>>,
    /// `.ClusterType`.
    pub cluster_type: &'a str,
    /// `.ConfigData`; a string map (`Null` is Go's nil map).
    pub config_data: &'a GoValue,
}

impl TemplateData {
    /// The same, borrowed.
    pub fn view(&self) -> TemplateView<'_> {
        TemplateView {
            deployment_target_name: &self.deployment_target_name,
            namespace: &self.namespace,
            environment: &self.environment,
            workspace: &self.workspace,
            workload: &self.workload,
            labels: self.labels.as_ref(),
            manifests: self.manifests.as_ref(),
            cluster_type: &self.cluster_type,
            config_data: &self.config_data,
        }
    }
}

/// A set of the nine fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields(u16);

impl Fields {
    /// All of them.
    pub const ALL: Self = Self(0x1ff);
    /// What the deployment target alone decides.
    pub const TARGET: Self = Self(0b0_0111_1101);
    /// What the cluster type alone decides.
    pub const CLUSTER_TYPE: Self = Self(0b0_1000_0100);

    /// The field at that position of Go's struct.
    pub(crate) fn at(at: usize) -> Self {
        Self(1 << at)
    }

    /// Both sets.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every field of this set is in the other.
    pub fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}
