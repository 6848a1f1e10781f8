//! Manifests: what a file asks for, object by object.
//!
//! What comes in: a file's text and its name for messages. What goes out: [`Object`]s that have all that the
//! API server needs to know them by, or one problem with its place. Lists are taken apart. It looks nothing
//! up and changes nothing in an object but what its caller adds.

use std::fmt;

use serde_json::Value;

use crate::yaml::{self, Budget};

/// How an object is known, whichever version of its kind it is written in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The API group; `""` for the core.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace; `None` for what is in none.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl fmt::Display for Key {
    /// `Deployment.apps hello/web`, `Namespace hello`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " {namespace}/{}", self.name),
            None => write!(f, " {}", self.name),
        }
    }
}

impl Key {
    /// What [`Key::fmt`] wrote; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, place) = text.split_once(' ')?;
        let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
        let (namespace, name) = match place.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, place),
        };
        (!kind.is_empty() && !name.is_empty()).then(|| Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace,
            name: name.to_owned(),
        })
    }

    /// Whether it is a namespace.
    pub fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.kind == "Namespace"
    }

    /// Whether it defines a kind.
    pub fn is_definition(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.kind == "CustomResourceDefinition"
    }
}

/// One object that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// How it is known. The namespace is the one that it names itself, until its caller gives it another.
    pub key: Key,
    /// The version of its kind.
    pub version: String,
    /// The whole object.
    pub value: Value,
    /// File and line, for messages.
    pub place: String,
}

impl Object {
    /// Puts it into `namespace`, or into none.
    pub fn put_into(&mut self, namespace: Option<&str>) {
        self.key.namespace = namespace.map(ToOwned::to_owned);
        match namespace {
            Some(namespace) => self.value["metadata"]["namespace"] = namespace.into(),
            None => {
                if let Some(metadata) = self.value["metadata"].as_object_mut() {
                    metadata.remove("namespace");
                }
            }
        }
    }

    /// Adds an annotation.
    ///
    /// # Errors
    /// When the object's annotations are not a map.
    pub fn annotate(&mut self, name: &str, value: &str) -> Result<(), String> {
        let annotations = &mut self.value["metadata"]["annotations"];
        if annotations.is_null() {
            *annotations = Value::Object(serde_json::Map::new());
        }
        let Some(annotations) = annotations.as_object_mut() else {
            return Err(format!(
                "{}: `metadata.annotations` is not a map",
                self.place
            ));
        };
        annotations.insert(name.to_owned(), value.into());
        Ok(())
    }

    /// The kind that a `CustomResourceDefinition` defines, with its group.
    pub fn defines(&self) -> Option<(&str, &str)> {
        if !self.key.is_definition() {
            return None;
        }
        let spec = &self.value["spec"];
        Some((spec["group"].as_str()?, spec["names"]["kind"].as_str()?))
    }
}

/// The objects in `text`, which is called `file` in messages; `budget` bounds the texts that are read with it.
///
/// # Errors
/// One sentence with file and line.
pub fn objects(text: &str, file: &str, budget: &mut Budget) -> Result<Vec<Object>, String> {
    let mut found = Vec::new();
    let documents = yaml::documents_within(text, budget);
    for (line, value) in documents.map_err(|error| format!("`{file}`, {error}"))? {
        take(value, &format!("`{file}`, line {line}"), true, &mut found)?;
    }
    Ok(found)
}

/// Whether `word` may be a name, a group, a version or a kind: a path of the API and a row of the inventory are
/// made of them.
pub fn fits(word: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._:".contains(&b);
    word.bytes().all(allowed) && !matches!(word, "." | "..") && word.len() <= 253
}

fn take(
    value: Value,
    place: &str,
    may_be_list: bool,
    found: &mut Vec<Object>,
) -> Result<(), String> {
    let text = |value: &Value, what: &str| match value {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        _ => Err(format!(
            "{place}: it has no `{what}`, so it is not a Kubernetes object"
        )),
    };
    let api = text(&value["apiVersion"], "apiVersion")?;
    let kind = text(&value["kind"], "kind")?;
    let (group, version) = api.split_once('/').unwrap_or(("", &api));
    if may_be_list && kind == "List" && group.is_empty() {
        let items = match value {
            Value::Object(mut list) => list.remove("items"),
            _ => None,
        };
        let Some(Value::Array(items)) = items else {
            return Err(format!("{place}: this list has no `items`"));
        };
        return items
            .into_iter()
            .try_for_each(|item| take(item, place, false, found));
    }
    if group == "kustomize.config.k8s.io" {
        return Err(format!(
            "{place}: a kustomization is not a manifest; build it (`kustomize build`) and ship what comes out"
        ));
    }
    let name = text(&value["metadata"]["name"], "metadata.name")?;
    let namespace = match &value["metadata"]["namespace"] {
        Value::Null => None,
        Value::String(namespace) if !namespace.is_empty() => Some(namespace.clone()),
        _ => return Err(format!("{place}: `metadata.namespace` is not a name")),
    };
    let words = [
        group,
        version,
        &kind,
        &name,
        namespace.as_deref().unwrap_or("x"),
    ];
    if let Some(word) = words.iter().find(|word| !fits(word)) {
        return Err(format!(
            "{place}: `{}` cannot be a name",
            word.escape_debug()
        ));
    }
    found.push(Object {
        key: Key {
            group: group.to_owned(),
            kind: kind.clone(),
            namespace,
            name,
        },
        version: version.to_owned(),
        place: place.to_owned(),
        value,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        for text in [
            "Namespace hello",
            "Deployment.apps hello/web",
            "ClusterRole.rbac.authorization.k8s.io system:reader",
        ] {
            assert_eq!(Key::parse(text).unwrap().to_string(), text);
        }
        for bad in ["", "Namespace", "Namespace ", " x"] {
            assert_eq!(Key::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn files_become_objects_with_their_places() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n\
                    ---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: hello}\n";
        let found = objects(text, "a.yaml", &mut Budget::default()).unwrap();
        let reported: Vec<_> = found
            .iter()
            .map(|o| format!("{} at {}", o.key, o.place))
            .collect();
        assert_eq!(
            reported,
            [
                "ConfigMap a at `a.yaml`, line 1",
                "Deployment.apps hello/web at `a.yaml`, line 6"
            ]
        );
    }

    #[test]
    fn what_is_no_object_is_refused_with_its_place() {
        let reported = |text: &str| objects(text, "a.yaml", &mut Budget::default()).unwrap_err();
        assert!(reported("replicas: 3\n").contains("line 1: it has no `apiVersion`"));
        assert!(reported("just text\n").contains("no `apiVersion`"));
        assert!(
            reported("apiVersion: v1\nkind: Pod\nmetadata: {generateName: x}\n")
                .contains("metadata.name")
        );
        assert!(
            reported("apiVersion: v1\nkind: Pod\nmetadata: {name: a/../b}\n")
                .contains("cannot be a name")
        );
        assert!(
            reported("apiVersion: v1\nkind: Pod\nmetadata: {name: 3}\n").contains("metadata.name")
        );
        let kustomization =
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []\n";
        assert!(reported(kustomization).contains("kustomize build"));
    }
}
