//! Argo CD: its objects are applied as any others, and then Argo CD does the work and the agent reads what it says.
//!
//! What comes in: `Application`, `ApplicationSet`, `AppProject` and whatever else a stream renders. What goes out:
//! Argo CD's verdicts, word for word. The workload's own manifests are not applied: Argo CD fetches them, from this
//! site's mirror where `[argocd]` says so. It renders nothing, fetches nothing and repeats nothing of what Argo CD
//! does, and it registers no certificate with it.

use outhaul_bundle::Digest;
use outhaul_kubernetes::{ClientError, Cluster, Health, Key, Object, argocd, cluster, health};
use serde_json::Value;

use super::controller::ManifestController;
use super::objects::{DesiredObjects, PayloadUse};
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

    fn payload(&self) -> PayloadUse {
        PayloadUse::Fetched
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
                   DeliveryPolicy); the agent tries again automatically"
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

    fn made(
        &self,
        cluster: &Cluster,
        key: &Key,
        uid: &str,
    ) -> Result<Vec<(Key, Value)>, ClientError> {
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
            // Argo CD writes annotations and finalizers of its own beside those that were applied.
            let applied = &cluster::applied_by_us(&object)["f:metadata"];
            // What asks the controller to look comes and goes.
            let asked =
                |name: &String| [argocd::REQUEST, argocd::REQUEST_OF_SET].contains(&name.as_str());
            let annotations = metadata["annotations"].as_object();
            let annotations: Vec<_> = annotations
                .into_iter()
                .flatten()
                .filter(|(name, _)| !asked(name))
                .filter(|(name, _)| !applied["f:annotations"][format!("f:{name}")].is_null())
                .collect();
            let finalizers = metadata["finalizers"].as_array();
            let finalizers: Vec<_> = finalizers
                .into_iter()
                .flatten()
                .filter(|name| !applied["f:finalizers"][format!("v:{name}")].is_null())
                .collect();
            let meant = (
                &object["spec"],
                &metadata["labels"],
                annotations,
                finalizers,
            );
            Digest::of(serde_json::json!(meant).to_string().as_bytes())
        })
    }

    fn nothing_to_fetch_from(&self) -> Option<ApplyError> {
        original::silent_mirror(self.config.mirror.as_deref()?)
    }

    fn health(&self, cluster: &Cluster, key: &Key, found: &Value) -> Result<Health, ClientError> {
        Ok(match (argocd::is_argocd(key), is_set(key)) {
            (_, true) => argocd::health_of_set(found, &self.applications_of(cluster, key, found)?),
            (true, false) => argocd::health(found),
            (false, false) => health::health(found),
        })
    }

    fn status_text(
        &self,
        cluster: &Cluster,
        key: &Key,
        found: &Value,
    ) -> Result<String, ClientError> {
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
            help: format!("{SEE_PODS}; start what does not; the agent tries again automatically"),
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
    ) -> Result<Vec<Value>, ClientError> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What an `Application` means, with these annotations and finalizers, and with what of them was applied.
    fn meaning(annotations: &Value, finalizers: &Value, applied: &Value, spec: &Value) -> Digest {
        let key = Key {
            group: argocd::GROUP.into(),
            kind: "Application".into(),
            namespace: Some("argocd".into()),
            name: "hello".into(),
        };
        let object = json!({"kind": "Application", "spec": spec, "metadata": {
            "annotations": annotations, "finalizers": finalizers, "managedFields": [
                {"manager": "argocd-application-controller", "operation": "Update", "fieldsV1": {}},
                {"manager": outhaul_kubernetes::FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:metadata": applied}}]}});
        let argo = ArgoCd::new(&ArgoCdConfig::default());
        argo.meaning(&key, &object).unwrap()
    }

    #[test]
    fn what_argo_cd_writes_beside_what_was_applied_changes_no_meaning() {
        let cascade = "resources-finalizer.argocd.argoproj.io";
        let applied = json!({"f:annotations": {"f:team": {}},
            "f:finalizers": {".": {}, format!("v:\"{cascade}\""): {}}});
        let spec = json!({"syncPolicy": {"automated": {}}});
        let ours = (json!({"team": "a"}), json!([cascade]));
        let before = meaning(&ours.0, &ours.1, &applied, &spec);
        let written = (
            json!({"team": "a", "notified.notifications.argoproj.io": "[]"}),
            json!([cascade, "post-delete-finalizer.argocd.argoproj.io"]),
        );
        assert_eq!(
            meaning(&written.0, &written.1, &applied, &spec),
            before,
            "Argo CD's own"
        );
        // What was applied counts: the value, the finalizer, and that someone took one over.
        let changed = json!({"team": "b"});
        assert_ne!(meaning(&changed, &ours.1, &applied, &spec), before);
        assert_ne!(meaning(&ours.0, &json!([]), &applied, &spec), before);
        let taken = json!({"f:finalizers": applied["f:finalizers"].clone()});
        assert_ne!(meaning(&changed, &ours.1, &taken, &spec), before);
        let by_hand = json!({"syncPolicy": {}});
        assert_ne!(meaning(&ours.0, &ours.1, &applied, &by_hand), before);
    }
}
