//! Whether an object does what it is there for, by its own status.
//!
//! What comes in: an object as the API server gives it. What goes out: ready, or not yet, or failed, with the
//! words of whoever wrote the status. An object that says nothing about itself is ready. It is pure.

use serde_json::Value;

/// A verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It does what it is there for.
    Ready,
    /// Not yet, and why.
    Waiting(String),
    /// Its controller looked at it, could not make it so, and tries again; its words.
    Failing(String),
    /// Nobody has processed it yet who should, and what was waited for.
    Silent(String),
    /// It will not, and why.
    Failed(String),
}

/// The verdict on `object`.
pub fn health(object: &Value) -> Health {
    let status = &object["status"];
    let group = object["apiVersion"].as_str().unwrap_or_default();
    let group = group.split_once('/').map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap_or_default();
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return Health::Waiting("it is being removed".into());
    }
    let generation = object["metadata"]["generation"].as_u64().unwrap_or(0);
    let behind = |seen: &Value| seen.as_u64().is_some_and(|seen| seen < generation);
    let unseen = status["observedGeneration"].is_null() || behind(&status["observedGeneration"]);
    let unseen =
        || unseen.then(|| Health::Waiting("its controller has not processed it yet".into()));
    match (group, kind) {
        ("apps", "Deployment") => unseen().unwrap_or_else(|| deployment(object)),
        ("apps", "StatefulSet" | "ReplicaSet") => unseen().unwrap_or_else(|| {
            let wanted = object["spec"]["replicas"].as_u64().unwrap_or(1);
            let mut parts = vec![("readyReplicas", "ready")];
            let update = object["spec"]["updateStrategy"]["type"].as_str();
            if kind == "StatefulSet" && update.is_none_or(|kind| kind == "RollingUpdate") {
                let partition =
                    object["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_u64();
                if partition.unwrap_or(0) == 0 {
                    parts.push(("updatedReplicas", "updated"));
                }
            }
            replicas(status, wanted, &parts)
        }),
        ("apps", "DaemonSet") => unseen().unwrap_or_else(|| {
            let wanted = status["desiredNumberScheduled"].as_u64().unwrap_or(0);
            let parts = [
                ("updatedNumberScheduled", "updated"),
                ("numberAvailable", "available"),
            ];
            replicas(status, wanted, &parts)
        }),
        ("batch", "Job") => job(object),
        ("", "Pod") => pod(object),
        ("", "PersistentVolumeClaim") => match status["phase"].as_str() {
            Some("Bound") => Health::Ready,
            Some("Lost") => Health::Failed("the volume that it was bound to is gone".into()),
            phase => Health::Waiting(format!("it is {}", phase.unwrap_or("not processed yet"))),
        },
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            if let Some(refused) = condition(status, "NamesAccepted", "False") {
                return Health::Failed(refused);
            }
            wait_for(status, "Established")
        }
        ("apiregistration.k8s.io", "APIService") => wait_for(status, "Available"),
        _ => custom(object, generation),
    }
}

/// The words of the condition `name` when its status is `is`.
pub(crate) fn condition(status: &Value, name: &str, is: &str) -> Option<String> {
    let conditions = status["conditions"].as_array()?;
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == name && condition["status"] == is)?;
    let text = |key: &str| found[key].as_str().filter(|text| !text.is_empty());
    Some(match (text("reason"), text("message")) {
        (Some(reason), Some(message)) => format!("{reason}: {message}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => format!("{name} is {is}"),
    })
}

fn wait_for(status: &Value, name: &str) -> Health {
    if condition(status, name, "True").is_some() {
        return Health::Ready;
    }
    let said = condition(status, name, "False").or_else(|| condition(status, name, "Unknown"));
    Health::Waiting(said.unwrap_or_else(|| format!("it is not {name} yet")))
}

fn replicas(status: &Value, wanted: u64, parts: &[(&str, &str)]) -> Health {
    for (field, reported) in parts {
        let there = status[*field].as_u64().unwrap_or(0);
        if there < wanted {
            return Health::Waiting(format!("{there} of {wanted} replicas are {reported}"));
        }
    }
    Health::Ready
}

fn deployment(object: &Value) -> Health {
    let status = &object["status"];
    if let Some(said) = condition(status, "Progressing", "False")
        && said.starts_with("ProgressDeadlineExceeded")
    {
        return Health::Failed(said);
    }
    if object["spec"]["paused"] == true {
        return Health::Waiting("it is paused".into());
    }
    let wanted = object["spec"]["replicas"].as_u64().unwrap_or(1);
    let parts = [
        ("updatedReplicas", "updated"),
        ("availableReplicas", "available"),
    ];
    match replicas(status, wanted, &parts) {
        Health::Waiting(count) => match condition(status, "ReplicaFailure", "True") {
            Some(said) => Health::Waiting(format!("{count}; {said}")),
            None => Health::Waiting(count),
        },
        verdict => {
            let all = status["replicas"].as_u64().unwrap_or(0);
            match all > wanted {
                true => Health::Waiting(format!("{} old replicas still run", all - wanted)),
                false => verdict,
            }
        }
    }
}

fn job(object: &Value) -> Health {
    let status = &object["status"];
    if let Some(said) = condition(status, "Failed", "True") {
        return Health::Failed(said);
    }
    if object["spec"]["suspend"] == true || condition(status, "Complete", "True").is_some() {
        return Health::Ready;
    }
    let count = |key: &str| status[key].as_u64().unwrap_or(0);
    Health::Waiting(format!(
        "it has not completed: {} active, {} succeeded, {} failed",
        count("active"),
        count("succeeded"),
        count("failed")
    ))
}

fn pod(object: &Value) -> Health {
    let status = &object["status"];
    match status["phase"].as_str() {
        Some("Succeeded") => Health::Ready,
        Some("Failed") => {
            let said = status["message"].as_str().or(status["reason"].as_str());
            Health::Failed(said.unwrap_or("it failed").to_owned())
        }
        _ => wait_for(status, "Ready"),
    }
}

/// Any kind: what its conditions `Ready` and `Stalled` say, when it has them.
fn custom(object: &Value, generation: u64) -> Health {
    let status = &object["status"];
    if let Some(said) = condition(status, "Stalled", "True") {
        return Health::Failed(said);
    }
    let conditions = status["conditions"].as_array().map(Vec::as_slice);
    let tells = conditions
        .unwrap_or_default()
        .iter()
        .any(|c| c["type"] == "Ready");
    if !tells {
        return Health::Ready;
    }
    if status["observedGeneration"]
        .as_u64()
        .is_some_and(|seen| seen < generation)
    {
        return Health::Waiting("its controller has not processed it yet".into());
    }
    wait_for(status, "Ready")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(api: &str, kind: &str, spec: Value, status: Value) -> Health {
        health(
            &json!({"apiVersion": api, "kind": kind, "metadata": {"generation": 2}, "spec": spec, "status": status}),
        )
    }

    fn waiting(text: &str) -> Health {
        Health::Waiting(text.into())
    }

    #[test]
    fn a_deployment_is_ready_when_all_of_it_is_new_and_available() {
        let seen = |status: Value| verdict("apps/v1", "Deployment", json!({"replicas": 2}), status);
        assert_eq!(
            seen(json!({})),
            waiting("its controller has not processed it yet")
        );
        assert_eq!(
            seen(json!({"observedGeneration": 1})),
            waiting("its controller has not processed it yet")
        );
        assert_eq!(
            seen(json!({"observedGeneration": 2})),
            waiting("0 of 2 replicas are updated")
        );
        let old = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 2});
        assert_eq!(seen(old), waiting("1 old replicas still run"));
        let all = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
        assert_eq!(seen(all), Health::Ready);
        let failed = json!({"observedGeneration": 2, "conditions": [{"type": "Progressing", "status": "False",
            "reason": "ProgressDeadlineExceeded", "message": "ReplicaSet \"web-1\" has timed out progressing."}]});
        let said = "ProgressDeadlineExceeded: ReplicaSet \"web-1\" has timed out progressing.";
        assert_eq!(seen(failed), Health::Failed(said.into()));
    }

    #[test]
    fn a_job_has_to_complete_and_may_fail() {
        let seen = |status: Value| verdict("batch/v1", "Job", json!({}), status);
        assert!(
            matches!(seen(json!({"active": 1})), Health::Waiting(text) if text.contains("1 active"))
        );
        let done = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        assert_eq!(seen(done), Health::Ready);
        let failed = json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
            "message": "Job has reached the specified backoff limit"}]});
        let said = "BackoffLimitExceeded: Job has reached the specified backoff limit";
        assert_eq!(seen(failed), Health::Failed(said.into()));
    }

    #[test]
    fn custom_kinds_are_believed_and_silent_ones_are_ready() {
        let seen = |status: Value| verdict("example.org/v1", "Press", json!({}), status);
        assert_eq!(seen(Value::Null), Health::Ready);
        let not =
            json!({"conditions": [{"type": "Ready", "status": "False", "message": "no ink"}]});
        assert_eq!(seen(not), waiting("no ink"));
        let stale =
            json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(
            seen(stale),
            waiting("its controller has not processed it yet")
        );
        let stalled =
            json!({"conditions": [{"type": "Stalled", "status": "True", "reason": "Jam"}]});
        assert_eq!(seen(stalled), Health::Failed("Jam".into()));
        assert_eq!(
            verdict("v1", "ConfigMap", Value::Null, Value::Null),
            Health::Ready
        );
    }
}
