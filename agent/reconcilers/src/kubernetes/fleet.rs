//! Rancher Fleet: its objects are applied as any others, and then Fleet does the work and the agent reads what it says.
//!
//! What comes in: `Bundle`, `GitRepo` and whatever else a stream renders, and the workload's own files. What goes out:
//! Fleet's verdicts, word for word. A `Bundle` that names no resources gets the workload's files, so that nothing is fetched
//! on a site without a network; a `GitRepo` is fetched by Fleet, from this site's mirror where `[fleet]` says so. It renders
//! nothing, fetches nothing and repeats nothing of what Fleet does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul_bundle::fleet::{MAX_RESOURCES_BYTES, OPTIONS, is_options};
use outhaul_kubernetes::{ClientError, Cluster, Health, Key, Object, fleet, health};
use serde_json::{Value, json};

use super::controller::ManifestController;
use super::objects::{DesiredObjects, PayloadUse};
use super::original;
use crate::error::ApplyError;
use crate::settings::FleetConfig;

/// Its name in the index and the inventory.
pub const KIND: &str = "fleet";

/// Where Helm records a release, by the labels of its Secrets.
const HELM: (&str, &str) = ("owner", "helm");

const SEE_PODS: &str = "`kubectl get pods --all-namespaces --selector 'app in (fleet-controller, fleet-agent)'` shows \
                        whether Fleet's controller and its agent run";

/// Fleet on this site's cluster.
#[derive(Debug)]
pub struct Fleet {
    config: FleetConfig,
}

impl Fleet {
    /// With the site's settings.
    pub fn new(config: &FleetConfig) -> Self {
        Self {
            config: config.clone(),
        }
    }

    /// What Fleet made of the object `key`.
    fn made_of(cluster: &Cluster, key: &Key) -> Result<Vec<Value>, ClientError> {
        let Some(kind) = fleet::makes(key) else {
            return Ok(Vec::new());
        };
        // A bundle's deployments are in a namespace for each cluster.
        let namespace = key.namespace.as_deref().filter(|_| kind == "Bundle");
        let all = cluster.list(fleet::GROUP, kind, namespace)?;
        let mut all = all.unwrap_or_default();
        all.retain(|one| fleet::is_made_by(one, key));
        Ok(all)
    }
}

impl ManifestController for Fleet {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn payload(&self) -> PayloadUse {
        PayloadUse::HandedOn
    }

    /// Puts the workload's files into the one bundle that names no resources.
    fn hand_on(&self, all: &mut DesiredObjects) -> Result<(), String> {
        let files = std::mem::take(&mut all.payload);
        let is_open = |object: &Object| {
            object.key.group == fleet::GROUP
                && object.key.kind == "Bundle"
                && object.value["spec"]["resources"].is_null()
        };
        let mut open = all
            .objects
            .iter_mut()
            .filter(|wanted| is_open(&wanted.object));
        let Some(wanted) = open.next().filter(|_| !files.is_empty()) else {
            return Ok(());
        };
        if let Some(other) = open.next() {
            return Err(format!(
                "{}: `{}` and `{}` name no `resources`: only one of them can have the workload's files",
                other.object.place, wanted.object.key, other.object.key
            ));
        }
        let key = wanted.object.key.clone();
        if files.iter().any(|(name, _)| is_options(name)) {
            return Err(format!(
                "the workload has a `{OPTIONS}`, which only Fleet's own reader of git understands: write its content into the \
                 `{key}` of the template, and take the file out"
            ));
        }
        let bytes: usize = files.iter().map(|(_, text)| text.len()).sum();
        if bytes as u64 > MAX_RESOURCES_BYTES {
            return Err(format!(
                "`{key}`: the workload's files have {bytes} bytes, and a bundle may have {MAX_RESOURCES_BYTES}: let Fleet fetch \
                 them (`GitRepo`), or make them fewer"
            ));
        }
        let resources: Vec<Value> = files
            .iter()
            .map(|(name, text)| json!({"name": name, "content": text.as_str()}))
            .collect();
        let Some(fields) = wanted.object.value.as_object_mut() else {
            return Ok(());
        };
        let spec = fields.entry("spec").or_insert_with(|| json!({}));
        if let Some(spec) = spec.as_object_mut() {
            wanted.note = format!("with the {} files of the workload", resources.len());
            spec.insert("resources".into(), resources.into());
        }
        Ok(())
    }

    fn watches(&self, key: &Key) -> bool {
        fleet::is_fleet(key)
    }

    fn missing(&self, object: &Object) -> Option<ApplyError> {
        let Key { group, kind, .. } = &object.key;
        (group == fleet::GROUP).then(|| ApplyError::Cluster {
            problem: format!(
                "this cluster has no Fleet that knows `{kind}`: its API has no `{group}` with it"
            ),
            help: "install Fleet with its controller and its agent (docs/operator.md, \"A cluster with Fleet\"), or let \
                   the centre send it with the bundle (`bootstrap` of a DeliveryPolicy); the agent tries again automatically"
                .into(),
        })
    }

    fn adapt(&self, all: &mut DesiredObjects) -> Result<(), ApplyError> {
        for wanted in &mut all.objects {
            let object = &mut wanted.object;
            if !fleet::is_fleet(&object.key) {
                continue;
            }
            let Some(spec) = object.value["spec"].as_object_mut() else {
                continue;
            };
            // Who pauses it by hand changes a field of ours then, and it is seen.
            spec.entry("paused").or_insert(Value::Bool(false));
            let address = match (
                &self.config.mirror,
                spec.get("repo").and_then(Value::as_str),
            ) {
                (Some(mirror), Some(repo)) => original::address(repo, mirror),
                _ => None,
            };
            if let Some(address) = address {
                let before = spec.insert("repo".into(), address.clone().into());
                let before = before.as_ref().and_then(Value::as_str).unwrap_or_default();
                if !wanted.note.is_empty() {
                    wanted.note.push_str("; ");
                }
                wanted.note += &format!("`{before}` is fetched from {address}");
                // What opens the original is of no use here, and is not sent to another server.
                spec.remove("clientSecretName");
                if let Some(authority) = original::authority(self.config.ca.as_deref(), "fleet")? {
                    spec.insert("caBundle".into(), STANDARD.encode(authority).into());
                }
            }
        }
        Ok(())
    }

    fn made(
        &self,
        cluster: &Cluster,
        key: &Key,
        _uid: &str,
    ) -> Result<Vec<(Key, Value)>, ClientError> {
        let Some(kind) = fleet::makes(key) else {
            return Ok(Vec::new());
        };
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let made = Self::made_of(cluster, key)?.into_iter();
        Ok(made
            .map(|one| {
                let key = Key {
                    group: fleet::GROUP.to_owned(),
                    kind: kind.to_owned(),
                    namespace: text(&one["metadata"]["namespace"]),
                    name: text(&one["metadata"]["name"]).unwrap_or_default(),
                };
                (key, one)
            })
            .collect())
    }

    /// Fleet lets a bundle go first, and then uninstalls its Helm release.
    fn outlasting(
        &self,
        cluster: &Cluster,
        key: &Key,
        found: &Value,
    ) -> Result<Vec<(Key, Value)>, ClientError> {
        if fleet::makes(key) != Some("BundleDeployment") || fleet::remains_after(found).is_some() {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        for one in Self::made_of(cluster, key)? {
            if let Some((namespace, name)) = fleet::release_of(&one) {
                let labels = [HELM, ("name", name)];
                all.extend(cluster.labelled("", "Secret", namespace, &labels)?);
            }
        }
        Ok(all)
    }

    fn as_written(&self, key: &Key, object: Value) -> Value {
        match fleet::is_fleet(key) {
            true => fleet::as_written(&object),
            false => object,
        }
    }

    fn nothing_to_fetch_from(&self) -> Option<ApplyError> {
        original::silent_mirror(self.config.mirror.as_deref()?)
    }

    fn health(&self, cluster: &Cluster, key: &Key, found: &Value) -> Result<Health, ClientError> {
        Ok(match fleet::is_fleet(key) {
            true => fleet::health(found, &Self::made_of(cluster, key)?),
            false => health::health(found),
        })
    }

    fn drifted(
        &self,
        cluster: &Cluster,
        key: &Key,
        _found: &Value,
    ) -> Result<Option<String>, ClientError> {
        Ok(fleet::drifted(&Self::made_of(cluster, key)?))
    }

    fn status_text(
        &self,
        cluster: &Cluster,
        key: &Key,
        found: &Value,
    ) -> Result<String, ClientError> {
        Ok(match (fleet::is_fleet(key), fleet::is_paused(found)) {
            (false, _) => String::new(),
            (true, true) => "the bundle sets `paused: true`: Fleet does not deploy it".into(),
            (true, false) => fleet::status_text(found, &Self::made_of(cluster, key)?),
        })
    }

    fn remains_after(&self, found: &Value) -> Option<String> {
        fleet::remains_after(found)
    }

    fn not_responding(&self, why: &str) -> ApplyError {
        ApplyError::Cluster {
            problem: format!("Fleet does not answer: {why}"),
            help: format!("{SEE_PODS}; start what does not; the agent tries again automatically"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use outhaul_bundle::Digest;
    use zeroize::Zeroizing;

    use super::*;
    use crate::kubernetes::objects::DesiredObject;

    fn wanted(kind: &str, name: &str, spec: &Value) -> DesiredObject {
        let value = json!({"apiVersion": "fleet.cattle.io/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": "fleet-local"}, "spec": spec});
        DesiredObject {
            object: Object {
                key: Key {
                    group: fleet::GROUP.into(),
                    kind: kind.into(),
                    namespace: Some("fleet-local".into()),
                    name: name.into(),
                },
                version: "v1alpha1".into(),
                value,
                place: format!("{name}.yaml"),
            },
            content: Digest::of(b""),
            note: String::new(),
        }
    }

    fn all(objects: Vec<DesiredObject>, files: &[(&str, &str)]) -> DesiredObjects {
        let owned =
            |(name, text): &(&str, &str)| ((*name).to_owned(), Zeroizing::new((*text).to_owned()));
        DesiredObjects {
            objects,
            payload: files.iter().map(owned).collect(),
            ..DesiredObjects::default()
        }
    }

    fn handed_on(mut all: DesiredObjects) -> Result<DesiredObjects, String> {
        Fleet::new(&FleetConfig::default())
            .hand_on(&mut all)
            .map(|()| all)
    }

    #[test]
    fn the_one_bundle_without_resources_gets_the_workloads_files() {
        let full = json!({"resources": [{"name": "own.yaml", "content": "a: b"}]});
        let files = [
            ("app/map.yaml", "kind: ConfigMap\n"),
            ("notes.txt", "read me"),
        ];
        let objects = vec![
            wanted("Bundle", "full", &full),
            wanted("Bundle", "open", &json!({"targets": []})),
        ];
        let done = handed_on(all(objects, &files)).unwrap();
        assert_eq!(done.objects[0].object.value["spec"], full);
        let open = &done.objects[1];
        assert_eq!(
            open.object.value["spec"]["resources"],
            json!([{"name": "app/map.yaml", "content": "kind: ConfigMap\n"}, {"name": "notes.txt", "content": "read me"}])
        );
        assert_eq!(open.note, "with the 2 files of the workload");
        // Nothing is made up where there is nothing.
        let empty = handed_on(all(vec![wanted("Bundle", "open", &json!({}))], &[])).unwrap();
        assert!(empty.objects[0].object.value["spec"]["resources"].is_null());
        let repository = vec![wanted(
            "GitRepo",
            "a",
            &json!({"repo": "https://git.example/a"}),
        )];
        let fetched = handed_on(all(repository, &files)).unwrap();
        assert!(fetched.objects[0].object.value["spec"]["resources"].is_null());
    }

    #[test]
    fn files_that_cannot_be_handed_on_are_an_error_and_not_left_out() {
        let open = || vec![wanted("Bundle", "a", &json!({}))];
        let options = handed_on(all(open(), &[("app/fleet.yaml", "namespace: x\n")]));
        assert!(options.unwrap_err().contains("`fleet.yaml`"));
        let two = vec![
            wanted("Bundle", "a", &json!({})),
            wanted("Bundle", "b", &json!({})),
        ];
        let refused = handed_on(all(two, &[("a.yaml", "a: b")])).unwrap_err();
        assert!(refused.contains("only one of them"), "{refused}");
        let large = "x".repeat(usize::try_from(MAX_RESOURCES_BYTES).unwrap() + 1);
        let refused = handed_on(all(open(), &[("a.yaml", &large)])).unwrap_err();
        assert!(refused.contains("1000001 bytes"), "{refused}");
    }

    #[test]
    fn a_repository_is_fetched_from_the_mirror_and_pausing_is_seen() {
        let spec = json!({"repo": "https://github.com/org/repo", "clientSecretName": "key"});
        let mut objects = all(vec![wanted("GitRepo", "a", &spec)], &[]);
        let config = FleetConfig {
            mirror: Some("http://mirror.site.example:5080".into()),
            ca: None::<PathBuf>,
        };
        Fleet::new(&config).adapt(&mut objects).unwrap();
        let one = &objects.objects[0];
        let address = "http://mirror.site.example:5080/github.com/org/repo";
        assert_eq!(
            one.object.value["spec"],
            json!({"repo": address, "paused": false})
        );
        assert_eq!(
            one.note,
            format!("`https://github.com/org/repo` is fetched from {address}")
        );
    }
}
