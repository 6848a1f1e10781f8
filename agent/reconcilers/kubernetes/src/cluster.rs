//! What can be done with one object of a cluster, and what is still in a namespace.
//!
//! What comes in: keys and objects. What goes out: what the API server made of them. Kinds are looked up once
//! for each [`Cluster`], which is meant to live as long as one piece of work. Applying is server-side apply
//! under our own field manager; a deletion names the very object by its uid. It decides nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use outhaul_http::Method;
use outhaul_kit::percent;
use serde_json::{Value, json};

use crate::FIELD_MANAGER;
use crate::client::{ApiClient, ClientError};
use crate::config::Access;
use crate::manifest::Key;
use crate::status::Reason;

mod managers;

pub use managers::{applied_by_us, is_applied_by_us, other_managers};

/// Objects in one page of a list.
const PAGE: usize = 500;
/// Most objects that are named as still being in a namespace.
const MOST_NAMED: usize = 3;
/// Most objects of one kind that are listed whole.
const MOST_LISTED: usize = 5_000;
/// A list without the objects' contents.
const NAMES_ONLY: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Where the API has a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// `/api/v1`, `/apis/apps/v1`.
    root: String,
    /// `deployments`.
    plural: String,
    kind: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    verbs: Vec<String>,
}

impl Resource {
    /// The version of its group, `v1`.
    pub fn version(&self) -> &str {
        self.root.rsplit('/').next().unwrap_or_default()
    }

    fn list_path(&self, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) if self.namespaced => {
                let namespace = encoded(namespace);
                format!("{}/namespaces/{namespace}/{}", self.root, self.plural)
            }
            _ => format!("{}/{}", self.root, self.plural),
        }
    }

    fn path(&self, key: &Key) -> String {
        let list = self.list_path(key.namespace.as_deref());
        format!("{list}/{}", encoded(&key.name))
    }
}

/// What applying came to.
#[derive(Debug, Clone)]
pub struct Applied {
    /// Whether the object was not there before.
    pub created: bool,
    /// The object as it is now, or as it would be.
    pub value: Value,
}

type Kinds = Rc<Vec<Resource>>;

/// An API server, and what kinds it has.
#[derive(Debug)]
pub struct Cluster {
    client: ApiClient,
    kinds: RefCell<BTreeMap<String, Option<Kinds>>>,
}

impl Cluster {
    /// By `access`; nothing is asked yet. Each request may last `timeout`.
    ///
    /// # Errors
    /// [`ClientError::Access`]
    pub fn new(access: &Access, timeout: Duration) -> Result<Self, ClientError> {
        Ok(Self {
            client: ApiClient::new(access, timeout)?,
            kinds: RefCell::default(),
        })
    }

    /// Has what is needed to ask the server: a program that logs in is asked.
    ///
    /// # Errors
    /// [`ClientError::Access`]
    pub fn log_in(&self) -> Result<(), ClientError> {
        self.client.log_in()
    }

    /// Forgets which kinds there are: new ones were defined.
    pub fn forget_kinds(&self) {
        self.kinds.borrow_mut().clear();
    }

    /// Where the API has a kind; `None` when it has not.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn resource(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<Option<Resource>, ClientError> {
        let root = match group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        let kinds = self.kinds_at(&root)?;
        let mut known = kinds.iter().flat_map(|kinds| kinds.iter());
        Ok(known.find(|known| known.kind == kind).cloned())
    }

    /// Where the API has a kind of whichever version; `None` when it has not.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn resource_of(&self, key: &Key) -> Result<Option<Resource>, ClientError> {
        if key.group.is_empty() {
            return self.resource("", "v1", &key.kind);
        }
        let Some(group) = self.client.get(&format!("/apis/{}", key.group))? else {
            return Ok(None);
        };
        let preferred = group["preferredVersion"]["version"].as_str();
        let versions = group["versions"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let others = versions
            .iter()
            .filter_map(|version| version["version"].as_str());
        for version in preferred.into_iter().chain(others) {
            if let Some(found) = self.resource(&key.group, version, &key.kind)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn kinds_at(&self, root: &str) -> Result<Option<Kinds>, ClientError> {
        if let Some(known) = self.kinds.borrow().get(root) {
            return Ok(known.clone());
        }
        let found = self
            .client
            .get(root)?
            .map(|list| Rc::new(resources(root, &list)));
        self.kinds
            .borrow_mut()
            .insert(root.to_owned(), found.clone());
        Ok(found)
    }

    /// An object; `None` when it is not there.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn get(&self, resource: &Resource, key: &Key) -> Result<Option<Value>, ClientError> {
        self.client.get(&resource.path(key))
    }

    /// Applies `object`, or asks what applying it would do. `force` takes fields over from other managers.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn apply(
        &self,
        resource: &Resource,
        key: &Key,
        object: &Value,
        force: bool,
        dry_run: bool,
    ) -> Result<Applied, ClientError> {
        let dry = if dry_run { "&dryRun=All" } else { "" };
        let path = format!(
            "{}?fieldManager={FIELD_MANAGER}&fieldValidation=Strict&force={force}{dry}",
            resource.path(key)
        );
        // JSON is YAML, which is what the server takes here.
        let body = object.to_string();
        let kind = "application/apply-patch+yaml";
        let (code, value) = self
            .client
            .send(Method::PATCH, &path, kind, body.as_bytes())?;
        Ok(Applied {
            created: code == 201,
            value,
        })
    }

    /// Sets one annotation, which is not a part of what is applied: whoever sets it later is in nobody's way.
    /// `false`: the object is not there any more.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn annotate(
        &self,
        resource: &Resource,
        key: &Key,
        annotation: &str,
        value: &str,
    ) -> Result<bool, ClientError> {
        let change = json!({"metadata": {"annotations": {annotation: value}}}).to_string();
        let path = format!("{}?fieldManager={FIELD_MANAGER}", resource.path(key));
        let kind = "application/merge-patch+json";
        match self
            .client
            .send(Method::PATCH, &path, kind, change.as_bytes())
        {
            Ok(_) => Ok(true),
            Err(ClientError::Refused(refusal)) if refusal.reason == Reason::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes the object `key` if it is still the one with `uid`. `false`: it was not there any more.
    ///
    /// # Errors
    /// [`ClientError`]; with [`Reason::Conflict`] another object has its name by now.
    pub fn delete(&self, resource: &Resource, key: &Key, uid: &str) -> Result<bool, ClientError> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": uid}, "propagationPolicy": "Background",
        })
        .to_string();
        let sent = self.client.send(
            Method::DELETE,
            &resource.path(key),
            "application/json",
            options.as_bytes(),
        );
        match sent {
            Ok(_) => Ok(true),
            Err(ClientError::Refused(refusal)) if refusal.reason == Reason::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Some of what is left in `namespace` and would be removed with it. What every namespace has, what belongs
    /// to another object, and what is being removed does not count.
    ///
    /// # Errors
    /// [`ClientError`]; a part of the API that does not answer is one.
    pub fn left_in(&self, namespace: &str) -> Result<Vec<String>, ClientError> {
        let mut left = Vec::new();
        let mut roots = vec!["/api/v1".to_owned()];
        let groups = self.client.get("/apis")?.unwrap_or_default();
        for group in groups["groups"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
        {
            if let Some(version) = group["preferredVersion"]["groupVersion"].as_str() {
                roots.push(format!("/apis/{version}"));
            }
        }
        for root in roots {
            let kinds = self.kinds_at(&root)?.unwrap_or_default();
            let can =
                |resource: &&Resource, verb: &str| resource.verbs.iter().any(|known| known == verb);
            for resource in kinds
                .iter()
                .filter(|resource| {
                    resource.namespaced && can(resource, "list") && can(resource, "delete")
                })
                .filter(|resource| {
                    !matches!(
                        resource.kind.as_str(),
                        "Event" | "Endpoints" | "EndpointSlice"
                    )
                })
            {
                let path = resource.list_path(Some(namespace));
                self.each(&path, &mut |item| {
                    if counts(&resource.kind, item) {
                        let name = item["metadata"]["name"].as_str().unwrap_or_default();
                        left.push(format!("{} {name}", resource.kind));
                    }
                    left.len() < MOST_NAMED
                })?;
                if left.len() >= MOST_NAMED {
                    return Ok(left);
                }
            }
        }
        Ok(left)
    }

    /// Whether there are objects of the kind that the `definition` defines.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn has_objects(&self, definition: &Value) -> Result<bool, ClientError> {
        let spec = &definition["spec"];
        let versions = spec["versions"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let served = versions.iter().find(|version| version["served"] == true);
        let (Some(group), Some(version), Some(plural)) = (
            spec["group"].as_str(),
            served.and_then(|version| version["name"].as_str()),
            spec["names"]["plural"].as_str(),
        ) else {
            return Ok(false);
        };
        let mut any = false;
        let [group, version, plural] = [group, version, plural].map(encoded);
        self.each(&format!("/apis/{group}/{version}/{plural}"), &mut |_| {
            any = true;
            false
        })?;
        Ok(any)
    }

    /// Every object of a kind, in `namespace` or in all; `None` when the API has no such kind. Of very many the first 5,000.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn list(
        &self,
        group: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Result<Option<Vec<Value>>, ClientError> {
        let any = Key {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: String::new(),
        };
        let Some(resource) = self.resource_of(&any)? else {
            return Ok(None);
        };
        let mut all = Vec::new();
        self.each_of(
            &resource.list_path(namespace),
            "application/json",
            &mut |item| {
                // A list names the kind of its items once, for all of them. What is not an object is none of them.
                if let Some(fields) = item.as_object() {
                    let mut item = fields.clone();
                    item.insert("kind".into(), kind.into());
                    all.push(Value::Object(item));
                }
                all.len() < MOST_LISTED
            },
        )?;
        Ok(Some(all))
    }

    /// The objects of a kind in `namespace` that have all these labels, by name only: neither their content nor their status.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn labelled(
        &self,
        group: &str,
        kind: &str,
        namespace: &str,
        labels: &[(&str, &str)],
    ) -> Result<Vec<(Key, Value)>, ClientError> {
        let key = |name: &str| Key {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
        };
        let Some(resource) = self.resource_of(&key(""))? else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        self.each(&resource.list_path(Some(namespace)), &mut |item| {
            let metadata = &item["metadata"];
            let fits = |(label, value): &(&str, &str)| metadata["labels"][*label] == **value;
            if labels.iter().all(fits) {
                let name = metadata["name"].as_str().unwrap_or_default();
                all.push((key(name), item.clone()));
            }
            all.len() < MOST_LISTED
        })?;
        Ok(all)
    }

    /// Gives every item of a list to `look`, by name only, until it answers no.
    fn each(&self, path: &str, look: &mut dyn FnMut(&Value) -> bool) -> Result<(), ClientError> {
        self.each_of(path, NAMES_ONLY, look)
    }

    /// Gives every item of a list to `look`, page by page, until it answers no.
    fn each_of(
        &self,
        path: &str,
        form: &str,
        look: &mut dyn FnMut(&Value) -> bool,
    ) -> Result<(), ClientError> {
        let mut more = String::new();
        loop {
            let page = self
                .client
                .read(&format!("{path}?limit={PAGE}{more}"), form)?;
            let Some(page) = page else {
                return Ok(());
            };
            for item in page["items"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default()
            {
                if !look(item) {
                    return Ok(());
                }
            }
            match page["metadata"]["continue"].as_str() {
                Some(next) if !next.is_empty() => more = format!("&continue={}", encoded(next)),
                _ => return Ok(()),
            }
        }
    }
}

fn resources(root: &str, list: &Value) -> Vec<Resource> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = list["resources"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    all.iter()
        .map(|entry| Resource {
            root: root.to_owned(),
            plural: text(&entry["name"]),
            kind: text(&entry["kind"]),
            namespaced: entry["namespaced"] == true,
            verbs: entry["verbs"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default()
                .iter()
                .map(text)
                .collect(),
        })
        // A slash: a part of an object, such as its status. Anything else than a word is ignored.
        .filter(|resource| {
            let word = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
            !resource.plural.is_empty() && resource.plural.bytes().all(word)
        })
        .collect()
}

/// Whether someone would miss this object of a namespace that is removed.
fn counts(kind: &str, item: &Value) -> bool {
    let metadata = &item["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let everywhere = match kind {
        "ServiceAccount" => name == "default",
        "ConfigMap" => name == "kube-root-ca.crt",
        "Secret" => metadata["annotations"]["kubernetes.io/service-account.name"] == "default",
        _ => false,
    };
    let owned = metadata["ownerReferences"]
        .as_array()
        .is_some_and(|owners| !owners.is_empty());
    !everywhere && !owned && metadata["deletionTimestamp"].is_null()
}

fn encoded(text: &str) -> String {
    percent::encoded(text).to_string()
}
