//! What composing and rendering read of a control plane: these fields, and no others.
//!
//! What comes in: a [`ControlPlane`]. What goes out: [`Inputs`], the only view of it that the two stages
//! have. The keys of a cached rendering are made from the same value, field by field, so that whatever a
//! stage can newly read does not compile before the keys contain it.

use std::collections::BTreeMap;

use outhaul_control::ControlPlane;
use outhaul_control::model::{
    ClusterType, CompositionPolicy, ConfigContainer, ConfigSchema, DeliveryPolicy,
    DeploymentTarget, OpenValues, Site, Template,
};

/// The part of a control plane that decides what an assignment's files contain.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The environment's name.
    pub environment: &'a str,
    /// Cluster types by name.
    pub cluster_types: &'a BTreeMap<String, ClusterType>,
    /// Deployment targets by name.
    pub targets: &'a BTreeMap<String, DeploymentTarget>,
    /// Templates by name.
    pub templates: &'a BTreeMap<String, Template>,
    /// Config containers by name.
    pub configs: &'a BTreeMap<String, ConfigContainer>,
    /// How they are composed, when it is not as Kalypso does.
    pub composition: Option<&'a CompositionPolicy>,
    /// Config schemas by name.
    pub schemas: &'a BTreeMap<String, ConfigSchema>,
    /// Sites by name.
    pub sites: &'a BTreeMap<String, Site>,
    /// What sites may set, by name.
    pub site_values: &'a BTreeMap<String, OpenValues>,
    /// Delivery policies by name: only what of them names a template is read.
    pub deliveries: &'a BTreeMap<String, DeliveryPolicy>,
}

impl<'a> Inputs<'a> {
    /// What of `plane` is read.
    pub fn of(plane: &'a ControlPlane) -> Self {
        Self {
            environment: &plane.environment,
            cluster_types: &plane.cluster_types,
            targets: &plane.targets,
            templates: &plane.templates,
            configs: &plane.configs,
            composition: plane.composition.as_ref(),
            schemas: &plane.schemas,
            sites: &plane.sites,
            site_values: &plane.site_values,
            deliveries: &plane.deliveries,
        }
    }
}
