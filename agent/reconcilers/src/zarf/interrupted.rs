//! What a power cut leaves of Helm: a release that is being installed for ever, and keeps every later one out.
//!
//! What comes in: the definition of a package of ours that is not deployed as a whole. What goes out: Helm's record of those of its
//! releases that were cut off while they were installed for the first time is gone, so that the next deployment installs them. The objects
//! stay, with what they have stored since: Helm takes those over that say that they are of a release of that name. A release that was being
//! upgraded is left: Zarf itself takes it back at the next attempt. Releases that are not of the package are not touched.

use std::collections::BTreeSet;

use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kubernetes::{Cluster, Key};
use serde::Deserialize;
use serde_json::Value;

use super::program::Zarf;
use crate::error::ApplyError;
use crate::outcome::Stop;

/// A release, as Helm lists it.
#[derive(Debug, Deserialize)]
struct HelmRelease {
    name: String,
    status: String,
    chart: String,
}

/// A release that a package has, by its own name or by that of the chart which Zarf makes for it.
#[derive(Debug, PartialEq, Eq)]
struct Release {
    namespace: String,
    name: Option<String>,
    chart: Option<String>,
}

/// Forgets what was cut off while it was installed for the first time; says which.
pub fn clear(
    definition: &Value,
    cluster: &Cluster,
    program: &Zarf,
    heartbeat: &Heartbeat,
) -> Result<Vec<String>, Stop> {
    let releases = releases(definition);
    let namespaces: BTreeSet<&str> = releases.iter().map(|one| one.namespace.as_str()).collect();
    let mut cleared = Vec::new();
    for namespace in namespaces {
        let text = program.pending(namespace, heartbeat)?;
        let listed: Vec<HelmRelease> = serde_json::from_str(&text).map_err(|error| {
            Stop::failed(format!("`zarf tools helm list` gave no list: {error}"))
        })?;
        let ours = listed.iter().filter(|one| {
            let is_it = |release: &Release| release.is(namespace, one);
            one.status == "pending-install" && releases.iter().any(is_it)
        });
        for one in ours {
            if forget(cluster, namespace, &one.name)? {
                cleared.push(one.name.clone());
            }
        }
    }
    Ok(cleared)
}

/// Removes Helm's record of the first installation of a release, when it is still under way by that record.
fn forget(cluster: &Cluster, namespace: &str, release: &str) -> Result<bool, ApplyError> {
    let key = Key {
        group: String::new(),
        kind: "Secret".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: format!("sh.helm.release.v1.{release}.v1"),
    };
    let Some(resource) = cluster.resource("", "v1", "Secret")? else {
        return Ok(false);
    };
    let Some(record) = cluster.get(&resource, &key)? else {
        return Ok(false);
    };
    let metadata = &record["metadata"];
    if metadata["labels"]["status"] != "pending-install" {
        return Ok(false);
    }
    let uid = metadata["uid"].as_str().unwrap_or_default();
    Ok(cluster.delete(&resource, &key, uid)?)
}

/// What Helm has of a package. The chart of manifests is called as Zarf 0.84 calls it (`ChartFromZarfManifest`).
fn releases(definition: &Value) -> Vec<Release> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let package = text(&definition["metadata"]["name"]);
    let mut found = Vec::new();
    for component in list(&definition["components"]) {
        let name = text(&component["name"]);
        for chart in list(&component["charts"]) {
            let own = chart["releaseName"].as_str().or(chart["name"].as_str());
            found.push(Release {
                namespace: text(&chart["namespace"]),
                name: own.map(str::to_owned),
                chart: None,
            });
        }
        for manifests in list(&component["manifests"]) {
            let chart = format!("raw-{package}-{name}-{}", text(&manifests["name"]));
            found.push(Release {
                namespace: text(&manifests["namespace"]),
                name: None,
                chart: Some(chart),
            });
        }
    }
    found.retain(|release| !release.namespace.is_empty());
    found
}

impl Release {
    /// Helm lists a chart as `NAME-VERSION`.
    fn is(&self, namespace: &str, listed: &HelmRelease) -> bool {
        let made = self.chart.as_deref();
        let version = made.and_then(|name| listed.chart.strip_prefix(name));
        self.namespace == namespace
            && (self.name.as_deref() == Some(&listed.name)
                || version.is_some_and(|version| version.starts_with("-0.1.")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_a_packages_own_by_its_name_or_its_chart_and_namespace() {
        let definition = serde_json::json!({"metadata": {"name": "shop"}, "components": [{"name": "web",
            "charts": [{"name": "podinfo", "namespace": "a"}, {"name": "x", "releaseName": "db", "namespace": "b"}],
            "manifests": [{"name": "till", "namespace": "a"}, {"name": "no-namespace"}]}]});
        let releases = releases(&definition);
        assert_eq!(releases.len(), 3);
        let is_ours = |namespace: &str, name: &str, chart: &str| {
            let listed = HelmRelease {
                name: name.to_owned(),
                status: "pending-install".to_owned(),
                chart: chart.to_owned(),
            };
            releases.iter().any(|one| one.is(namespace, &listed))
        };
        assert!(is_ours("a", "podinfo", "podinfo-6.0.0"));
        assert!(is_ours("b", "db", "x-1"));
        assert!(is_ours(
            "a",
            "zarf-0123",
            "raw-shop-web-till-0.1.1764302400"
        ));
        assert!(!is_ours(
            "b",
            "zarf-0123",
            "raw-shop-web-till-0.1.1764302400"
        ));
        assert!(!is_ours(
            "a",
            "zarf-0123",
            "raw-shop-web-till-2-0.1.1764302400"
        ));
        assert!(!is_ours("a", "db", "x-1"));
    }
}
