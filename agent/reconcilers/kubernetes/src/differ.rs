//! What differs between an object and what it should be.
//!
//! What comes in: the object as it is, and as the API server says that it would be after applying. What goes
//! out: the paths of the fields that differ, never their values, which may be secret. What the server keeps
//! for itself is left out. It is pure.

use serde_json::Value;

/// Most paths that are named.
const MOST: usize = 8;
/// What the server sets again with every change, or what is not ours to set.
const SERVERS: [&str; 4] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "creationTimestamp",
];

/// The fields that applying would change, sorted: `.spec.replicas`. The last one is `…` when there are more.
pub fn differing(found: &Value, wanted: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    walk(&known(found), &known(wanted), String::new(), &mut paths);
    if paths.len() > MOST {
        paths.truncate(MOST);
        paths.push("…".into());
    }
    paths
}

fn known(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| !SERVERS.contains(&name.as_str()));
    }
    object
}

fn walk(found: &Value, wanted: &Value, at: String, paths: &mut Vec<String>) {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            let mut names: Vec<_> = found.keys().chain(wanted.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let of = |map: &serde_json::Map<String, Value>| {
                    map.get(name).cloned().unwrap_or_default()
                };
                let step = match name.contains(['.', '/']) {
                    true => format!("{at}[{name}]"),
                    false => format!("{at}.{name}"),
                };
                walk(&of(found), &of(wanted), step, paths);
            }
        }
        (Value::Array(found), Value::Array(wanted)) if found.len() == wanted.len() => {
            for (place, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                walk(found, wanted, format!("{at}[{place}]"), paths);
            }
        }
        _ if found == wanted => {}
        _ => paths.push(at),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_named_and_the_servers_own_fields_are_not() {
        let found = json!({"metadata": {"name": "a", "resourceVersion": "7", "labels": {"app.kubernetes.io/x": "1"}},
            "spec": {"replicas": 5, "list": [{"a": 1}, {"a": 2}], "same": true}, "status": {"x": 1}});
        let wanted = json!({"metadata": {"name": "a", "resourceVersion": "9", "labels": {"app.kubernetes.io/x": "2"}},
            "spec": {"replicas": 3, "list": [{"a": 1}, {"a": 3}], "same": true, "new": [1]}});
        assert_eq!(
            differing(&found, &wanted),
            [
                ".metadata.labels[app.kubernetes.io/x]",
                ".spec.list[1].a",
                ".spec.new",
                ".spec.replicas"
            ]
        );
        assert!(differing(&found, &found).is_empty());
    }
}
