//! How Argo CD's own objects do, by what Argo CD says of them.
//!
//! What comes in: an `Application`, or an `ApplicationSet` with the applications that it made, as the API server gives
//! them. What goes out: a [`Health`] in Argo CD's own words. These kinds have no observed generation: whether Argo CD's verdict is about what is asked
//! for now is seen by the request, which it takes away when it has looked, and by the source that it says it
//! compared with. It is pure.

use serde_json::Value;

use crate::Health;
use crate::health::condition;
use crate::manifest::Key;
use crate::omitted;

/// The group of Argo CD's kinds.
pub const GROUP: &str = "argoproj.io";
/// The annotation by which Argo CD is asked to look at once, whatever its value; it removes it then.
pub const REQUEST: &str = "argocd.argoproj.io/refresh";
/// The same of an `ApplicationSet`: its generators run at once, past what the repository server has cached.
pub const REQUEST_OF_SET: &str = "argocd.argoproj.io/application-set-refresh";
/// How many applications of a set are named.
const MAX_NAMED: usize = 10;
/// With this finalizer, and whatever follows its name, what an `Application` made goes with it.
const CASCADE: &str = "resources-finalizer.argocd.argoproj.io";
/// What says of a source which content it is.
const SOURCE_FIELDS: [&str; 4] = ["repoURL", "path", "chart", "targetRevision"];

/// Whether `key` is an object that a controller of Argo CD looks at.
pub fn is_argocd(key: &Key) -> bool {
    key.group == GROUP && ["Application", "ApplicationSet"].contains(&key.kind.as_str())
}

/// The annotation by which an object of `key`'s kind is asked for attention.
pub fn request(key: &Key) -> Option<&'static str> {
    match key.kind.as_str() {
        "Application" if is_argocd(key) => Some(REQUEST),
        "ApplicationSet" if is_argocd(key) => Some(REQUEST_OF_SET),
        _ => None,
    }
}

/// Whether the `ApplicationSet` with `uid` made `application`, and has not let it go.
pub fn is_made_by(application: &Value, uid: &str) -> bool {
    let owners = application["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["uid"] == uid && owner["kind"] == "ApplicationSet")
}

/// The verdict on `object`, of an `ApplicationSet` without what it made.
pub fn health(object: &Value) -> Health {
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return Health::Waiting("it is being removed".into());
    }
    match object["kind"] == "ApplicationSet" {
        true => set(object),
        false => application(object),
    }
}

/// The verdict on an `ApplicationSet` and the applications that it made: that of the worst of them.
pub fn health_of_set(set: &Value, made: &[Value]) -> Health {
    let own = health(set);
    if own != Health::Ready {
        return own;
    }
    let verdicts = made.iter().map(|application| {
        let name = application["metadata"]["name"].as_str().unwrap_or_default();
        let say = |why: String| format!("`Application {name}`, which it made: {why}");
        match health(application) {
            Health::Ready => Health::Ready,
            Health::Waiting(why) => Health::Waiting(say(why)),
            Health::Failing(why) => Health::Failing(say(why)),
            Health::Silent(why) => Health::Silent(say(why)),
            Health::Failed(why) => Health::Failed(say(why)),
        }
    });
    let rank = |health: &Health| match health {
        Health::Ready => 0,
        Health::Waiting(_) => 1,
        Health::Failing(_) => 2,
        Health::Silent(_) => 3,
        Health::Failed(_) => 4,
    };
    // Of several that are alike the first is named.
    let mut worst = Health::Ready;
    for verdict in verdicts {
        if rank(&verdict) > rank(&worst) {
            worst = verdict;
        }
    }
    worst
}

fn application(object: &Value) -> Health {
    let (spec, status) = (&object["spec"], &object["status"]);
    if !object["metadata"]["annotations"][REQUEST].is_null() {
        return Health::Silent("Argo CD has not answered the request to look at it".into());
    }
    let error = error(status);
    if status["sync"]["comparedTo"].is_null() && error.is_none() {
        return Health::Silent("no controller of Argo CD has processed it yet".into());
    }
    let compared = &status["sync"]["comparedTo"];
    if error.is_none() && sources(spec) != sources(compared) {
        return Health::Waiting("Argo CD has not compared it with its present source yet".into());
    }
    let run = &status["operationState"];
    let said = run["message"].as_str().unwrap_or_default();
    let phase = run["phase"].as_str().unwrap_or_default();
    if !object["operation"].is_null() || matches!(phase, "Running" | "Terminating") {
        let under_way = match said.is_empty() {
            true => "its sync is under way".to_owned(),
            false => said.to_owned(),
        };
        return match run["retryCount"].as_u64() {
            Some(1..) => Health::Failing(under_way),
            _ => Health::Waiting(under_way),
        };
    }
    let sync = status["sync"]["status"].as_str().unwrap_or("Unknown");
    if sync == "Synced" {
        return of_health(status);
    }
    if matches!(phase, "Failed" | "Error") && is_of_this(status) {
        return Health::Failed(error.unwrap_or_else(|| format!("sync {phase}: {said}")));
    }
    match error {
        Some(error) => Health::Failing(error),
        None if spec["syncPolicy"]["automated"].is_null() => Health::Waiting(format!(
            "it is {sync}, and has no `syncPolicy.automated`: it has to be synced by hand"
        )),
        None => Health::Waiting(format!("it is {sync}")),
    }
}

/// By what Argo CD says of the objects that it applied.
fn of_health(status: &Value) -> Health {
    let found = &status["health"];
    let state = found["status"].as_str().unwrap_or("Unknown");
    let reported = match found["message"].as_str() {
        Some(message) if !message.is_empty() => format!("{state}: {message}"),
        _ => format!("what it applied is {state}"),
    };
    match state {
        "Healthy" | "Suspended" => Health::Ready,
        "Degraded" => Health::Failing(reported),
        _ => Health::Waiting(reported),
    }
}

/// Whether the sync that ended is of the revision that Argo CD found last.
fn is_of_this(status: &Value) -> bool {
    let (found, synced) = (&status["sync"], &status["operationState"]["syncResult"]);
    found["revision"] == synced["revision"] && found["revisions"] == synced["revisions"]
}

/// What is fetched: of `spec`, or of what it was compared to.
fn sources(of: &Value) -> Vec<[&str; 4]> {
    let all = of["sources"].as_array().map(Vec::as_slice);
    let all = all.unwrap_or_default().iter();
    let single = (!of["source"].is_null()).then_some(&of["source"]);
    all.chain(single)
        .map(|source| SOURCE_FIELDS.map(|field| source[field].as_str().unwrap_or_default()))
        .collect()
}

/// The first error among the conditions, as Argo CD's message. Warnings are none.
fn error(status: &Value) -> Option<String> {
    let conditions = status["conditions"].as_array()?;
    conditions.iter().find_map(|condition| {
        let kind = condition["type"].as_str()?;
        let message = condition["message"].as_str().unwrap_or_default();
        kind.ends_with("Error")
            .then(|| format!("{kind}: {message}"))
    })
}

/// An `ApplicationSet`: whether it made the applications that it asks for. Its controller takes the request away when it
/// has made them, and leaves it when it failed.
fn set(object: &Value) -> Health {
    let status = &object["status"];
    if let Some(said) = condition(status, "ErrorOccurred", "True") {
        return Health::Failing(said);
    }
    if !object["metadata"]["annotations"][REQUEST_OF_SET].is_null() {
        return Health::Silent(
            "Argo CD's ApplicationSet controller has not answered the request to look at it".into(),
        );
    }
    if condition(status, "ResourcesUpToDate", "True").is_some() {
        return Health::Ready;
    }
    match condition(status, "ResourcesUpToDate", "False") {
        Some(said) => Health::Waiting(said),
        None => {
            Health::Silent("Argo CD's ApplicationSet controller has not processed it yet".into())
        }
    }
}

/// What Argo CD says of an `ApplicationSet` and of each application that it made.
pub fn status_text_of_set(set: &Value, made: &[Value]) -> String {
    let mut lines = vec![status_text(set)];
    lines.push(match made.len() {
        0 => "it made no application".to_owned(),
        1 => "1 application".to_owned(),
        many => format!("{many} applications"),
    });
    lines.extend(made.iter().take(MAX_NAMED).map(|application| {
        let name = application["metadata"]["name"].as_str().unwrap_or_default();
        format!("`{name}`: {}", status_text(application))
    }));
    lines.retain(|line| !line.is_empty());
    lines.join("; ")
}

/// What Argo CD says of `object` now: what it synced to, how that does, and how its last sync ended.
pub fn status_text(object: &Value) -> String {
    let status = &object["status"];
    if object["kind"] == "ApplicationSet" {
        return condition(status, "ResourcesUpToDate", "True").unwrap_or_default();
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let sync = &status["sync"];
    let mut reported = text(&sync["status"]);
    let revisions: Vec<String> = match sync["revisions"].as_array() {
        Some(all) => all.iter().map(text).collect(),
        None => vec![text(&sync["revision"])],
    };
    let revisions: Vec<_> = revisions
        .into_iter()
        .filter(|one| !one.is_empty())
        .collect();
    if !revisions.is_empty() {
        reported += &format!(" to {}", revisions.join(", "));
    }
    for more in [
        &status["health"]["status"],
        &status["operationState"]["message"],
    ] {
        if let Some(more) = more.as_str().filter(|more| !more.is_empty()) {
            reported += &format!("; {more}");
        }
    }
    reported
}

/// `object` as Argo CD writes it back whole: without fields of its `spec` that are empty or `false`, which mean the
/// same when they are left out. Only `enabled` is true where it is not said.
pub fn as_written(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(spec) = object.get_mut("spec") {
        // An empty `automated` switches automated sync on.
        omitted::leave_out_empty(spec, &["automated", "enabled"]);
    }
    object
}

/// What stays on the cluster when `object` is deleted, and why.
pub fn remains_after(object: &Value) -> Option<String> {
    match object["kind"].as_str()? {
        "Application" => {
            let finalizers = object["metadata"]["finalizers"].as_array();
            let mut finalizers = finalizers.into_iter().flatten().filter_map(Value::as_str);
            (!finalizers.any(|one| one.starts_with(CASCADE))).then(|| {
                format!(
                    "it has no finalizer `{CASCADE}`: the objects that Argo CD created are kept"
                )
            })
        }
        "ApplicationSet" => (object["spec"]["syncPolicy"]["preserveResourcesOnDeletion"] == true)
            .then(|| {
                "it sets `preserveResourcesOnDeletion`: its applications are removed, and the objects that these created are kept"
                    .to_owned()
            }),
        _ => None,
    }
}

/// Why an object of Argo CD that is deleted is still there, in its words where it said some.
pub fn keeps(object: &Value) -> Option<String> {
    error(&object["status"])
}

#[cfg(test)]
mod tests;
