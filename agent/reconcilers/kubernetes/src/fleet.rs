//! How Rancher Fleet's own objects do, by what Fleet says of them.
//!
//! What comes in: a `Bundle` or a `GitRepo` as the API server gives it, and what Fleet made of it: the `BundleDeployment`s of a
//! bundle, one for each cluster, and the bundles of a repository. What goes out: a [`Health`] in Fleet's own words. What Fleet
//! has said of an older generation of the object, or of an older content, is not its verdict; of a `GitRepo` that follows a branch it
//! may be of an older commit, because nothing in the object says which one is meant. It is pure.

use serde_json::Value;

use crate::Health;
use crate::health::condition;
use crate::manifest::Key;
use crate::omitted;

/// The group of Fleet's kinds.
pub const GROUP: &str = "fleet.cattle.io";
/// The labels by which a `BundleDeployment` says of which bundle it is: its namespace, and its name.
const OF_BUNDLE: [&str; 2] = [
    "fleet.cattle.io/bundle-namespace",
    "fleet.cattle.io/bundle-name",
];
/// The label by which a bundle says of which repository it is.
const OF_REPOSITORY: &str = "fleet.cattle.io/repo-name";

/// Whether `key` is an object that Fleet looks at and that streams bring.
pub fn is_fleet(key: &Key) -> bool {
    key.group == GROUP && ["Bundle", "GitRepo"].contains(&key.kind.as_str())
}

/// Whether Fleet is asked to leave `object` alone.
pub fn is_paused(object: &Value) -> bool {
    object["spec"]["paused"] == true
}

/// The kind of what Fleet makes of an object of `key`'s kind.
pub fn makes(key: &Key) -> Option<&'static str> {
    match key.kind.as_str() {
        "Bundle" if is_fleet(key) => Some("BundleDeployment"),
        "GitRepo" if is_fleet(key) => Some("Bundle"),
        _ => None,
    }
}

/// Whether `found`, of the kind that [`makes`] names, was made of `key`.
pub fn is_made_by(found: &Value, key: &Key) -> bool {
    let labels = &found["metadata"]["labels"];
    let namespace = key.namespace.as_deref().unwrap_or_default();
    match key.kind.as_str() {
        "Bundle" => labels[OF_BUNDLE[0]] == namespace && labels[OF_BUNDLE[1]] == *key.name,
        _ => labels[OF_REPOSITORY] == *key.name && found["metadata"]["namespace"] == namespace,
    }
}

/// The verdict on `object`, of which Fleet made `made`: that of the worst of them.
pub fn health(object: &Value, made: &[Value]) -> Health {
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return Health::Waiting("it is being removed".into());
    }
    if is_paused(object) {
        return Health::Ready;
    }
    let status = &object["status"];
    let own = condition(status, "Ready", "False");
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    let seen = status["observedGeneration"].as_i64();
    if seen.is_none_or(|seen| seen < generation) {
        // What it stumbles over keeps it from saying that it has seen the object.
        return match own.filter(|said| said.starts_with("Error")) {
            Some(said) => Health::Failing(said),
            None => Health::Silent("no controller of Fleet has processed it yet".into()),
        };
    }
    if let Some(said) = condition(status, "Stalled", "True") {
        return Health::Failing(said);
    }
    if made.is_empty() {
        return match own {
            Some(said) => Health::Failing(said),
            None => Health::Waiting(match object["kind"] == "Bundle" {
                true => {
                    "Fleet deploys it to no cluster: none that it knows fits its `targets`".into()
                }
                false => "Fleet has made no bundle of it yet".into(),
            }),
        };
    }
    let mut worst = Health::Ready;
    for one in made {
        let verdict = match one["kind"] == "Bundle" {
            true => health_of_bundle(one),
            false => deployment(one),
        };
        if rank(&verdict) > rank(&worst) {
            worst = verdict;
        }
    }
    // Fleet sums up a moment later. What someone changed, and Fleet leaves as it is, keeps nothing waiting.
    match own.filter(|_| worst == Health::Ready && !made.iter().any(is_modified)) {
        // Without the content of what was changed, which may be a secret.
        Some(said) => Health::Waiting(said.split(" {").next().unwrap_or_default().to_owned()),
        None => worst,
    }
}

fn rank(health: &Health) -> u8 {
    match health {
        Health::Ready => 0,
        Health::Waiting(_) => 1,
        Health::Failing(_) => 2,
        Health::Silent(_) => 3,
        Health::Failed(_) => 4,
    }
}

/// A bundle that Fleet made of a repository, by its own sum.
fn health_of_bundle(bundle: &Value) -> Health {
    match condition(&bundle["status"], "Ready", "False") {
        Some(said) => Health::Waiting(said),
        None => Health::Ready,
    }
}

/// One `BundleDeployment`, in the order of Fleet's own states.
fn deployment(found: &Value) -> Health {
    let (spec, status) = (&found["spec"], &found["status"]);
    let said = |name: &str| condition(status, name, "False");
    let at = text(&found["metadata"]["namespace"]);
    if spec["deploymentID"].is_null() || status["appliedDeploymentID"] != spec["deploymentID"] {
        return match said("Deployed") {
            Some(said) => Health::Failing(said),
            None => Health::Silent(format!("no agent of Fleet has applied it for `{at}` yet")),
        };
    }
    if let Some(said) = said("Installed").or_else(|| said("Deployed")) {
        return Health::Failing(said);
    }
    let words = || {
        let said = modified(found).or_else(|| said("Ready"));
        said.unwrap_or_else(|| "it is not ready according to Fleet".into())
    };
    if status["ready"] != true {
        return Health::Waiting(words());
    }
    if spec["stagedDeploymentID"] != spec["deploymentID"] {
        return Health::Waiting(format!(
            "OutOfSync: Fleet holds a newer content back from `{at}`"
        ));
    }
    match is_modified(found) && spec["correctDrift"]["enabled"] == true {
        true => Health::Waiting(words()),
        false => Health::Ready,
    }
}

/// Whether someone changed what Fleet applied, by its own look.
fn is_modified(deployment: &Value) -> bool {
    let status = &deployment["status"];
    deployment["kind"] == "BundleDeployment"
        && status["ready"] == true
        && status["nonModified"] != true
        && status["appliedDeploymentID"] == deployment["spec"]["deploymentID"]
}

/// What Fleet says that someone changed, where it leaves that as it is.
pub fn drifted(made: &[Value]) -> Option<String> {
    let mut changed = made.iter().filter(|one| is_modified(one));
    let found = changed.find(|one| one["spec"]["correctDrift"]["enabled"] != true)?;
    Some(modified(found).unwrap_or_else(|| "Modified".to_owned()))
}

/// What someone changed of `deployment`, as Fleet says it, without the content, which may be a secret.
fn modified(deployment: &Value) -> Option<String> {
    let all = deployment["status"]["modifiedStatus"].as_array()?;
    let one = |found: &Value| {
        let is = |name: &str| found[name] == true;
        let what = match (is("missing"), is("exist"), is("delete")) {
            (true, true, _) => "is not owned by us",
            (true, false, _) => "missing",
            (false, _, true) => "extra",
            (false, _, false) => "modified",
        };
        let place = [&found["namespace"], &found["name"]].map(text);
        let place = place.join("/");
        let kind = text(&found["kind"]).to_lowercase();
        let place = place.trim_start_matches('/');
        format!("{kind}.{} {place} {what}", text(&found["apiVersion"]))
    };
    let all: Vec<String> = all.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// What Fleet says of `object` now: on how many clusters it is ready, and what it deployed there.
pub fn status_text(object: &Value, made: &[Value]) -> String {
    let summary = &object["status"]["summary"];
    let number = |name: &str| summary[name].as_u64().unwrap_or(0);
    let mut lines = vec![format!(
        "{}/{} ready",
        number("ready"),
        number("desiredReady")
    )];
    lines.extend(made.iter().filter_map(|one| {
        let release = one["status"]["release"].as_str()?;
        Some(format!("release {release}"))
    }));
    lines.join("; ")
}

/// The namespace and the name of the Helm release that `deployment` is.
pub fn release_of(deployment: &Value) -> Option<(&str, &str)> {
    let release = deployment["status"]["release"].as_str()?;
    // With its revision behind it.
    let release = release.split(':').next().unwrap_or(release);
    release.split_once('/')
}

/// `object` as Fleet writes it back whole: without fields of its `spec` that are empty or `false`.
pub fn as_written(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(spec) = object.get_mut("spec") {
        omitted::leave_out_empty(spec, &[]);
    }
    object
}

/// What stays on the cluster when `object` is deleted, and why.
pub fn remains_after(object: &Value) -> Option<String> {
    let keeps = object["spec"]["keepResources"] == true;
    keeps.then(|| "it sets `keepResources`: the objects that Fleet created are kept".into())
}

/// Why an object of Fleet that is deleted is still there, in Fleet's words where it said some.
pub fn keeps(object: &Value) -> Option<String> {
    condition(&object["status"], "Ready", "False")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
