//! Flux: its objects are applied as any others, and then Flux does the work and the agent reads what it says.
//!
//! What comes in: `GitRepository`, `OCIRepository`, `HelmRepository`, `Kustomization`, `HelmRelease` and whatever
//! else a stream renders. What goes out: Flux's verdicts, word for word. The workload's own manifests are
//! not applied: Flux fetches them. It renders nothing, fetches nothing and repeats nothing of what Flux does.

use outhaul_kubernetes::{ClientError, Cluster, Health, Key, Object, Resource, flux};
use serde_json::Value;

use super::controller::ManifestController;
use super::objects::{DesiredObjects, PayloadUse};
use super::original;
use super::ownership::uid_of;
use crate::error::ApplyError;
use crate::settings::FluxConfig;

mod mirror;

/// Its name in the index and the inventory.
pub const KIND: &str = "flux";

const SEE_PODS: &str = "`kubectl get pods --all-namespaces --selector app.kubernetes.io/part-of=flux` shows \
                        whether Flux's controllers run";

/// Flux on this site's cluster.
#[derive(Debug)]
pub struct Flux {
    config: FluxConfig,
}

impl Flux {
    /// With the site's settings.
    pub fn new(config: &FluxConfig) -> Self {
        Self {
            config: config.clone(),
        }
    }
}

impl ManifestController for Flux {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn payload(&self) -> PayloadUse {
        PayloadUse::Fetched
    }

    fn watches(&self, key: &Key) -> bool {
        flux::is_flux(key)
    }

    /// Flux drops old versions of its kinds, and keeps their fields. Fields that are gone with a version are
    /// refused by name.
    fn other_version(
        &self,
        cluster: &Cluster,
        object: &Object,
    ) -> Result<Option<Resource>, ClientError> {
        match flux::is_flux(&object.key) {
            true => cluster.resource_of(&object.key),
            false => Ok(None),
        }
    }

    fn missing(&self, object: &Object) -> Option<ApplyError> {
        let Key { group, kind, .. } = &object.key;
        group.ends_with(".toolkit.fluxcd.io").then(|| ApplyError::Cluster {
            problem: format!(
                "this cluster has no Flux that knows `{kind}`: its API has no `{group}` with it"
            ),
            help: "install Flux with its source-controller, kustomize-controller and, for charts, \
                   helm-controller (docs/operator.md, \"A cluster with Flux\"), or let the centre send it with the bundle \
                   (`bootstrap` of a DeliveryPolicy); the agent tries again automatically"
                .into(),
        })
    }

    fn adapt(&self, all: &mut DesiredObjects) -> Result<(), ApplyError> {
        for wanted in &mut all.objects {
            let object = &mut wanted.object;
            // Who suspends it by hand changes a field of ours then, and it is seen.
            if flux::is_flux(&object.key)
                && let Some(spec) = object.value["spec"].as_object_mut()
            {
                spec.entry("suspend").or_insert(Value::Bool(false));
            }
        }
        mirror::point_to(&self.config, all)
    }

    fn request(&self, key: &Key) -> Option<&'static str> {
        flux::is_flux(key).then_some(flux::REQUEST)
    }

    fn has_answered(&self, found: &Value) -> bool {
        flux::has_answered(found)
    }

    fn nothing_to_fetch_from(&self) -> Option<ApplyError> {
        original::silent_mirror(self.config.mirror.as_deref()?)
    }

    /// The `HelmChart` that a `HelmRelease` made: it looks at its repository by itself, and only when it is asked.
    fn made(
        &self,
        cluster: &Cluster,
        key: &Key,
        uid: &str,
    ) -> Result<Vec<(Key, Value)>, ClientError> {
        if key.group != flux::HELM {
            return Ok(Vec::new());
        }
        let release = look_up(cluster, key)?.filter(|release| uid_of(release) == uid);
        let Some(chart) = release.as_ref().and_then(flux::chart_of) else {
            return Ok(Vec::new());
        };
        let found = look_up(cluster, &chart)?;
        Ok(found.map(|found| (chart, found)).into_iter().collect())
    }

    fn health(&self, cluster: &Cluster, key: &Key, found: &Value) -> Result<Health, ClientError> {
        let from = flux::source_of(found);
        let source = match &from {
            Some(from) => look_up(cluster, from)?,
            None => None,
        };
        let own = flux::health_of(key, found, source.as_ref());
        let (Some(from), Some(source)) = (from, source) else {
            return Ok(own);
        };
        // What Flux said last may be about an older artifact than its source is to have by now.
        let follows = match own {
            Health::Failed(_) => true,
            Health::Ready => is_of_charts(key) && !flux::is_suspended(found),
            _ => false,
        };
        if !follows {
            return Ok(own);
        }
        let why = |why: String| format!("its `{} {}`: {why}", from.kind, from.name);
        Ok(match self.health(cluster, &from, &source)? {
            Health::Waiting(said) => Health::Waiting(why(said)),
            Health::Silent(said) => Health::Silent(why(said)),
            // The chart that Flux made of a release is in no bundle, and is reported nowhere else.
            Health::Failing(said) if own == Health::Ready && from.kind == "HelmChart" => {
                Health::Failing(why(said))
            }
            _ => own,
        })
    }

    fn drifted(
        &self,
        _cluster: &Cluster,
        _key: &Key,
        found: &Value,
    ) -> Result<Option<String>, ClientError> {
        Ok(flux::drifted(found))
    }

    fn status_text(
        &self,
        _cluster: &Cluster,
        key: &Key,
        found: &Value,
    ) -> Result<String, ClientError> {
        Ok(match (flux::is_flux(key), flux::is_suspended(found)) {
            (false, _) => String::new(),
            (true, true) => "the bundle sets `suspend: true`: Flux does not reconcile it".into(),
            (true, false) => flux::status_text(found),
        })
    }

    fn remains_after(&self, found: &Value) -> Option<String> {
        flux::remains_after(found)
    }

    fn not_responding(&self, why: &str) -> ApplyError {
        ApplyError::Cluster {
            problem: format!("Flux does not answer: {why}"),
            help: format!("{SEE_PODS}; start what does not; the agent tries again automatically"),
        }
    }
}

fn look_up(cluster: &Cluster, key: &Key) -> Result<Option<Value>, ClientError> {
    match cluster.resource_of(key)? {
        Some(resource) => cluster.get(&resource, key),
        None => Ok(None),
    }
}

fn is_of_charts(key: &Key) -> bool {
    key.group == flux::HELM || key.kind == "HelmChart"
}
