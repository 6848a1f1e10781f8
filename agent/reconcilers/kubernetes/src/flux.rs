//! How Flux's own objects do, by what Flux says of them.
//!
//! What comes in: an object of Flux as the API server gives it, and the source that it is made from. What goes
//! out: a [`Health`] in Flux's own words. What Flux has said of an older generation of the object, before it was
//! asked to look again, or of an older artifact, is not its verdict. It is pure.

use serde_json::Value;

use crate::Health;
use crate::health::{self, condition};
use crate::manifest::Key;

/// The annotation by which Flux is asked to look at once, and not at its next interval.
pub const REQUEST: &str = "reconcile.fluxcd.io/requestedAt";
/// The kinds that Flux's controllers look at and speak of in conditions, with their groups.
const KINDS: [(&str, &str); 7] = [
    (SOURCE, "Bucket"),
    (SOURCE, "GitRepository"),
    (SOURCE, "HelmChart"),
    (SOURCE, "HelmRepository"),
    (SOURCE, "OCIRepository"),
    (KUSTOMIZE, "Kustomization"),
    (HELM, "HelmRelease"),
];
/// The group of what Flux fetches from.
pub const SOURCE: &str = "source.toolkit.fluxcd.io";
/// The group of what Flux applies as it is.
pub const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io";
/// The group of what Flux installs as charts.
pub const HELM: &str = "helm.toolkit.fluxcd.io";

/// Whether `key` is an object that a controller of Flux looks at.
pub fn is_flux(key: &Key) -> bool {
    KINDS.contains(&(key.group.as_str(), key.kind.as_str()))
}

/// Whether Flux is asked to leave `object` alone.
pub fn is_suspended(object: &Value) -> bool {
    object["spec"]["suspend"] == true
}

/// Whether Flux has looked at `object` since it was asked last. What it leaves alone answers nothing.
pub fn has_answered(object: &Value) -> bool {
    let requested = &object["metadata"]["annotations"][REQUEST];
    requested.is_null() || object["status"]["lastHandledReconcileAt"] == *requested
}

/// The source that `object` is made from.
pub fn source_of(object: &Value) -> Option<Key> {
    let reference = match object["kind"].as_str()? {
        "Kustomization" | "HelmChart" => &object["spec"]["sourceRef"],
        "HelmRelease" => match chart_of(object) {
            Some(chart) => return Some(chart),
            None => &object["spec"]["chartRef"],
        },
        _ => return None,
    };
    let namespace = reference["namespace"].as_str();
    let kind = reference["kind"].as_str()?;
    KINDS.contains(&(SOURCE, kind)).then_some(())?;
    Some(Key {
        group: SOURCE.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace
            .or(object["metadata"]["namespace"].as_str())
            .map(ToOwned::to_owned),
        name: reference["name"].as_str()?.to_owned(),
    })
}

/// The `HelmChart` that Flux made for the `HelmRelease` `object`, which names none by itself.
pub fn chart_of(object: &Value) -> Option<Key> {
    (object["kind"] == "HelmRelease").then_some(())?;
    let (namespace, name) = object["status"]["helmChart"].as_str()?.split_once('/')?;
    Some(Key {
        group: SOURCE.to_owned(),
        kind: "HelmChart".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    })
}

/// What Flux says that someone changed in what the `HelmRelease` `object` installed, where Flux is to report it and
/// not to put it back.
pub fn drifted(object: &Value) -> Option<String> {
    let spec = &object["spec"];
    let reports = object["kind"] == "HelmRelease"
        && spec["driftDetection"]["mode"] == "warn"
        && !is_suspended(object);
    reports.then(|| condition(&object["status"], "Drifted", "True"))?
}

/// What Flux says of `object` now, word for word: that it is ready, and by which revision.
pub fn status_text(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array();
    let mut ready = conditions
        .into_iter()
        .flatten()
        .filter(|condition| condition["type"] == "Ready");
    let said = ready.next().and_then(|ready| ready["message"].as_str());
    said.unwrap_or_default().to_owned()
}

/// The verdict on `object`, which is made from `source`.
pub fn health(object: &Value, source: Option<&Value>) -> Health {
    let status = &object["status"];
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return Health::Waiting("it is being removed".into());
    }
    // Flux looks at neither: the one is said to rest, the other only holds an address.
    let holds_an_address = object["kind"] == "HelmRepository" && object["spec"]["type"] == "oci";
    if is_suspended(object) || holds_an_address {
        return Health::Ready;
    }
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    let conditions = status["conditions"].as_array().map(Vec::as_slice);
    let conditions = conditions.unwrap_or_default();
    let is_current = |seen: &Value| seen.as_i64().is_some_and(|seen| seen >= generation);
    let about_this = |name: &str| {
        let mut all = conditions.iter();
        all.any(|found| found["type"] == name && is_current(&found["observedGeneration"]))
    };
    let observed = is_current(&status["observedGeneration"]);
    if !observed && !about_this("Ready") && !about_this("Reconciling") {
        return Health::Silent("no controller of Flux has processed it yet".into());
    }
    let answered = has_answered(object);
    if answered
        && about_this("Stalled")
        && let Some(said) = condition(status, "Stalled", "True")
    {
        // It may have given up an older chart than the one that its source has now.
        if object["kind"] == "HelmRelease"
            && let Some(why) = source.and_then(|source| behind(object, source))
        {
            return Health::Waiting(why);
        }
        // What it stumbled over is said elsewhere than that it has given up.
        let cause = condition(status, "Ready", "False").filter(|cause| *cause != said);
        return Health::Failed(cause.map_or(said.clone(), |cause| format!("{said}; {cause}")));
    }
    if about_this("Ready")
        && let Some(said) = condition(status, "Ready", "False")
    {
        return Health::Failing(said);
    }
    let under_way =
        condition(status, "Reconciling", "True").or_else(|| condition(status, "Ready", "Unknown"));
    match under_way {
        Some(said) => return Health::Waiting(said),
        None if !answered => {
            return Health::Silent("Flux has not answered the request to look at it".into());
        }
        None => {}
    }
    if condition(status, "Ready", "True").is_none() {
        return Health::Waiting("it is not Ready yet".into());
    }
    match source.and_then(|source| behind(object, source)) {
        Some(why) => Health::Waiting(why),
        None => Health::Ready,
    }
}

/// Why `object` is not what its source has now.
fn behind(object: &Value, source: &Value) -> Option<String> {
    let fetched = source["status"]["artifact"]["revision"].as_str()?;
    let status = &object["status"];
    let attempted = status["lastAttemptedRevision"].as_str();
    let (has, is_current) = match (object["kind"].as_str()?, source["kind"].as_str()) {
        ("Kustomization", _) => {
            let applied = status["lastAppliedRevision"].as_str()?;
            (applied, applied == fetched)
        }
        ("HelmChart", _) => {
            let seen = status["observedSourceArtifactRevision"].as_str()?;
            (seen, seen == fetched)
        }
        ("HelmRelease", Some("HelmChart")) => (attempted?, attempted? == fetched),
        // The version of an artifact may stay, with another chart behind it.
        ("HelmRelease", Some("OCIRepository")) => {
            let digest = status["lastAttemptedRevisionDigest"].as_str()?;
            (digest, fetched.ends_with(digest))
        }
        _ => return None,
    };
    (!is_current).then(|| format!("it has applied {has}, and its source has {fetched}"))
}

/// What stays on the cluster when `object` is deleted, and why.
pub fn remains_after(object: &Value) -> Option<String> {
    let is = |kind: &str| object["kind"] == kind;
    if !is("Kustomization") && !is("HelmRelease") {
        return None;
    }
    if is_suspended(object) {
        return Some("it is suspended: the objects that Flux created are kept".into());
    }
    (is("Kustomization") && object["spec"]["prune"] != true)
        .then(|| "it does not set `prune: true`: the objects that Flux created are kept".into())
}

/// Why an object of Flux that is deleted is still there, in Flux's words where it said some.
pub fn keeps(object: &Value) -> Option<String> {
    condition(&object["status"], "Ready", "False")
}

/// A verdict on any object: Flux's own by this module, others by theirs.
pub fn health_of(key: &Key, object: &Value, source: Option<&Value>) -> Health {
    match is_flux(key) {
        true => health(object, source),
        false => health::health(object),
    }
}

#[cfg(test)]
mod tests;
