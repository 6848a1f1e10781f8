//! Argo CD: its objects are applied as any others, and then Argo CD does the work and the agent reads what it says.
//!
//! What comes in: `Application`, `ApplicationSet`, `AppProject` and whatever else a stream renders. What goes out:
//! Argo CD's verdicts, word for word. The workload's own manifests are not applied: Argo CD fetches them, from this
//! site's mirror where `[argocd]` says so. It renders nothing, fetches nothing and repeats nothing of what Argo CD
//! does, and it registers no certificate with it.

use outhaul_bundle::Digest;
use outhaul_kubernetes::{Cluster, Health, Key, Object, Trouble, argocd, health};
use serde_json::Value;

use super::controller::ManifestController;
use super::objects::DesiredObjects;
use super::original;
use super::ownership::uid_of;
use crate::error::ApplyError;
use crate::settings::ArgoCdConfig;

mod sources;

/// Its name in the index and the inventory.
pub const KIND: &str = "argocd";

const SEE_PODS: &str = "`kubectl get pods --all-namespaces --selector app.kubernetes.io/part-of=argocd` shows \
                        whether Argo CD's controllers run";

/// Argo CD on this site's cluster.
#[derive(Debug)]
pub struct ArgoCd {
    config: ArgoCdConfig,
}

impl ArgoCd {
    /// With the site's settings.
    pub fn new(config: &ArgoCdConfig) -> Self {
        Self {
            config: config.clone(),
        }
    }
}

impl ManifestController for ArgoCd {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn applies_payload(&self) -> bool {
        false
    }

    fn watches(&self, key: &Key) -> bool {
        argocd::is_argocd(key)
    }

    fn missing(&self, object: &Object) -> Option<ApplyError> {
        let Key { group, kind, .. } = &object.key;
        (group == argocd::GROUP).then(|| ApplyError::Cluster {
            problem: format!(
                "this cluster has no Argo CD that knows `{kind}`: its API has no `{group}` with it"
            ),
            help: "install Argo CD with its application controller and its repository server (docs/operator.md, \
                   \"A cluster with Argo CD\"), or let the centre send it with the bundle (`bootstrap` of a \
                   DeliveryPolicy); the agent tries again by itself"
                .into(),
        })
    }

    fn adapt(&self, all: &mut DesiredObjects) -> Result<(), ApplyError> {
        let Some(mirror) = &self.config.mirror else {
            return Ok(());
        };
        for wanted in &mut all.objects {
            let object = &mut wanted.object;
            if !argocd::is_argocd(&object.key) {
                continue;
            }
            let Some(spec) = object.value.get_mut("spec") else {
                continue;
            };
            let reported = match object.key.kind.as_str() {
                "ApplicationSet" => sources::point_set_to(mirror, spec),
                _ => sources::point_to(mirror, spec),
            };
            for reported in reported {
                if !wanted.note.is_empty() {
                    wanted.note.push_str("; ");
                }
                wanted.note += &reported;
            }
        }
        Ok(())
    }

    fn request(&self, key: &Key) -> Option<&'static str> {
        argocd::request(key)
    }

    fn made(&self, cluster: &Cluster, key: &Key, uid: &str) -> Result<Vec<(Key, Value)>, Trouble> {
        if !is_set(key) {
            return Ok(Vec::new());
        }
        let all = cluster.list(argocd::GROUP, "Application", key.namespace.as_deref())?;
        let all = all.unwrap_or_default().into_iter();
        let made = all.filter(|application| argocd::is_made_by(application, uid));
        Ok(made
            .map(|application| {
                let name = application["metadata"]["name"].as_str().unwrap_or_default();
                let key = Key {
                    group: argocd::GROUP.to_owned(),
                    kind: "Application".to_owned(),
                    namespace: key.namespace.clone(),
                    name: name.to_owned(),
                };
                (key, application)
            })
            .collect())
    }

    fn as_written(&self, key: &Key, object: Value) -> Value {
        match argocd::is_argocd(key) {
            true => argocd::as_written(&object),
            false => object,
        }
    }

    fn meaning(&self, key: &Key, object: &Value) -> Option<Digest> {
        argocd::is_argocd(key).then(|| {
            let object = argocd::as_written(object);
            let metadata = &object["metadata"];
            // What asks the controller to look comes and goes.
            let asked =
                |name: &String| [argocd::REQUEST, argocd::REQUEST_OF_SET].contains(&name.as_str());
            let annotations = metadata["annotations"].as_object();
            let annotations: Vec<_> = annotations
                .into_iter()
                .flatten()
                .filter(|(name, _)| !asked(name))
                .collect();
            let meant = (
                &object["spec"],
                &metadata["labels"],
                annotations,
                &metadata["finalizers"],
            );
            Digest::of(serde_json::json!(meant).to_string().as_bytes())
        })
    }

    fn nothing_to_fetch_from(&self) -> Option<ApplyError> {
        original::silent_mirror(self.config.mirror.as_deref()?)
    }

    fn health(&self, cluster: &Cluster, key: &Key, found: &Value) -> Result<Health, Trouble> {
        Ok(match (argocd::is_argocd(key), is_set(key)) {
            (_, true) => argocd::health_of_set(found, &self.applications_of(cluster, key, found)?),
            (true, false) => argocd::health(found),
            (false, false) => health::health(found),
        })
    }

    fn status_text(&self, cluster: &Cluster, key: &Key, found: &Value) -> Result<String, Trouble> {
        Ok(match (argocd::is_argocd(key), is_set(key)) {
            (_, true) => {
                argocd::status_text_of_set(found, &self.applications_of(cluster, key, found)?)
            }
            (true, false) => argocd::status_text(found),
            (false, false) => String::new(),
        })
    }

    fn remains_after(&self, found: &Value) -> Option<String> {
        argocd::remains_after(found)
    }

    fn not_responding(&self, why: &str) -> ApplyError {
        ApplyError::Cluster {
            problem: format!("Argo CD does not answer: {why}"),
            help: format!("{SEE_PODS}; start what does not; the agent tries again by itself"),
        }
    }
}

impl ArgoCd {
    /// The applications that the `ApplicationSet` `found` made.
    fn applications_of(
        &self,
        cluster: &Cluster,
        key: &Key,
        found: &Value,
    ) -> Result<Vec<Value>, Trouble> {
        let made = self.made(cluster, key, uid_of(found))?;
        Ok(made
            .into_iter()
            .map(|(_, application)| application)
            .collect())
    }
}

fn is_set(key: &Key) -> bool {
    argocd::is_argocd(key) && key.kind == "ApplicationSet"
}
