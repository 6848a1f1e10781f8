//! Argo CD: its objects are applied as any others, and then Argo CD does the work and the agent reads what it says.
//!
//! What comes in: `Application`, `ApplicationSet`, `AppProject` and whatever else a stream renders. What goes out:
//! Argo CD's verdicts, word for word. The workload's own manifests are not applied: Argo CD fetches them, from this
//! site's mirror where `[argocd]` says so. It renders nothing, fetches nothing and repeats nothing of what Argo CD
//! does, and it registers no certificate with it.

use outhaul_kubernetes::{Cluster, Health, Key, Object, Trouble, argocd, health};
use serde_json::Value;

use super::controller::ManifestController;
use super::objects::DesiredObjects;
use super::original;
use crate::error::ApplyError;
use crate::settings::ArgoCdConfig;

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
            let place = match object.key.kind.as_str() {
                "ApplicationSet" => "/spec/template/spec",
                _ => "/spec",
            };
            let Some(spec) = object.value.pointer_mut(place) else {
                continue;
            };
            for reported in point_to(mirror, spec) {
                if !wanted.note.is_empty() {
                    wanted.note.push_str("; ");
                }
                wanted.note += &reported;
            }
        }
        Ok(())
    }

    fn request(&self, key: &Key) -> Option<&'static str> {
        (argocd::is_argocd(key) && key.kind == "Application").then_some(argocd::REQUEST)
    }

    fn as_written(&self, key: &Key, object: Value) -> Value {
        match argocd::is_argocd(key) {
            true => argocd::as_written(&object),
            false => object,
        }
    }

    fn nothing_to_fetch_from(&self) -> Option<ApplyError> {
        original::silent_mirror(self.config.mirror.as_deref()?)
    }

    fn health(&self, _cluster: &Cluster, key: &Key, found: &Value) -> Result<Health, Trouble> {
        Ok(match argocd::is_argocd(key) {
            true => argocd::health(found),
            false => health::health(found),
        })
    }

    fn status_text(&self, key: &Key, found: &Value) -> String {
        match argocd::is_argocd(key) {
            true => argocd::status_text(found),
            false => String::new(),
        }
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

/// Points every source of an application that the mirror serves to it, and says which.
fn point_to(mirror: &str, spec: &mut Value) -> Vec<String> {
    let mut reported = Vec::new();
    let mut point = |source: &mut Value| {
        let chart = source["chart"].as_str().unwrap_or_default();
        let Some(before) = source["repoURL"].as_str().map(ToOwned::to_owned) else {
            return;
        };
        let address = match (chart, before.starts_with("http")) {
            ("", _) => original::address(&before, mirror),
            (_, true) => original::charts(&before, mirror),
            // A chart of a registry that is written without `oci://`.
            (_, false) => None,
        };
        if let Some(address) = address {
            reported.push(format!("`{before}` is fetched from {address}"));
            source["repoURL"] = address.into();
        }
    };
    // By name of the field: one that is not there must not come to be.
    if let Some(source) = spec.get_mut("source") {
        point(source);
    }
    let sources = spec.get_mut("sources").and_then(Value::as_array_mut);
    sources.into_iter().flatten().for_each(point);
    reported
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_source_that_the_mirror_serves_is_fetched_there() {
        let mut spec = json!({
            "source": {"repoURL": "git@github.com:org/repo.git", "path": "app"},
            "sources": [
                {"repoURL": "oci://ghcr.io/org/app", "targetRevision": "1"},
                {"repoURL": "https://charts.example/a", "chart": "web", "targetRevision": "2"},
                {"repoURL": "ghcr.io/org/charts", "chart": "web", "targetRevision": "2"},
            ],
        });
        let reported = point_to("https://mirror.site.example:5443", &mut spec);
        assert_eq!(
            spec["source"]["repoURL"],
            "https://mirror.site.example:5443/github.com/org/repo.git"
        );
        assert_eq!(
            spec["sources"][0]["repoURL"],
            "oci://mirror.site.example:5443/ghcr.io/org/app"
        );
        assert_eq!(
            spec["sources"][1]["repoURL"],
            "https://mirror.site.example:5443/charts.example/a"
        );
        assert_eq!(spec["sources"][2]["repoURL"], "ghcr.io/org/charts");
        assert_eq!(reported.len(), 3, "{reported:?}");
        let mut one = json!({"source": {"repoURL": "https://github.com/org/repo"}});
        point_to("https://mirror.site.example:5443", &mut one);
        assert_eq!(one.as_object().map(serde_json::Map::len), Some(1), "{one}");
    }
}
