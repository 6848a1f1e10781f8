//! What Fleet's controller and its agent of August 2026 wrote into their objects, and what is made of it.
use serde_json::json;

use super::*;

/// A bundle and its one deployment as the API server gave them.
fn recorded(name: &str) -> (Value, Vec<Value>) {
    let all: Value = serde_json::from_str(include_str!("recorded.json")).unwrap();
    let [bundle, deployment] = [&all[name][0], &all[name][1]].map(Clone::clone);
    assert!(deployment.is_object(), "{name}");
    (bundle, vec![deployment])
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

#[test]
fn what_fleet_says_is_understood_and_kept_word_for_word() {
    let (bundle, made) = recorded("ready");
    assert_eq!(health(&bundle, &made), Health::Ready);
    assert_eq!(drifted(&made), None);
    assert_eq!(
        status_text(&bundle, &made),
        "1/1 ready; release dev-hello/hello:5"
    );
    assert_eq!(release_of(&made[0]), Some(("dev-hello", "hello")));
    let (bundle, made) = recorded("failing");
    let said = "Error: error while running post render on files: invalid character 'a' looking for beginning of object key \
                string";
    assert_eq!(health(&bundle, &made), Health::Failing(said.into()));
}

#[test]
fn what_somebody_changed_is_reported_without_its_content_and_waited_for_where_fleet_puts_it_back() {
    let (bundle, mut made) = recorded("modified");
    assert_eq!(health(&bundle, &made), Health::Ready);
    let said = "configmap.v1 dev-hello/hello modified";
    assert_eq!(drifted(&made).as_deref(), Some(said));
    made[0]["spec"]["correctDrift"] = json!({"enabled": true});
    assert_eq!(health(&bundle, &made), Health::Waiting(said.into()));
    assert_eq!(drifted(&made), None);
    made[0]["status"]["modifiedStatus"][0]["missing"] = true.into();
    assert_eq!(
        health(&bundle, &made),
        Health::Waiting("configmap.v1 dev-hello/hello missing".into())
    );
    // Fleet's sum may lag behind, with the content of what was changed in it.
    let (_, ready) = recorded("ready");
    let lags = "Modified(1) [Cluster fleet-local/local]; configmap.v1 dev-hello/hello modified";
    assert_eq!(health(&bundle, &ready), Health::Waiting(lags.into()));
}

#[test]
fn what_fleet_said_before_is_not_its_verdict_on_what_is_asked_now() {
    let (mut bundle, mut made) = recorded("ready");
    let seen = bundle["metadata"]["generation"].clone();
    bundle["metadata"]["generation"] = 99.into();
    let silent = "no controller of Fleet has processed it yet";
    assert_eq!(health(&bundle, &made), Health::Silent(silent.into()));
    bundle["metadata"]["generation"] = seen;
    // The controller has handed on another content; the agent has not looked yet.
    made[0]["spec"]["deploymentID"] = "s-2:1".into();
    let silent = "no agent of Fleet has applied it for `cluster-fleet-local-local` yet";
    assert_eq!(health(&bundle, &made), Health::Silent(silent.into()));
    made[0]["status"]["appliedDeploymentID"] = "s-2:1".into();
    assert!(matches!(health(&bundle, &made), Health::Waiting(why) if why.starts_with("OutOfSync")));
    made[0]["status"]["ready"] = false.into();
    assert!(matches!(health(&bundle, &made), Health::Waiting(_)));
    bundle["metadata"]["deletionTimestamp"] = "2026-11-29T07:13:47Z".into();
    assert_eq!(
        health(&bundle, &made),
        Health::Waiting("it is being removed".into())
    );
}

#[test]
fn a_bundle_that_goes_to_no_cluster_or_that_fleet_refuses_is_not_ready() {
    let (mut bundle, _) = recorded("ready");
    let nowhere = "Fleet deploys it to no cluster: none that it knows fits its `targets`";
    assert_eq!(health(&bundle, &[]), Health::Waiting(nowhere.into()));
    bundle["status"]["observedGeneration"] = 0.into();
    bundle["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "reason": "Error", "message": "targeting error: x"}]);
    assert_eq!(
        health(&bundle, &[]),
        Health::Failing("Error: targeting error: x".into())
    );
}

#[test]
fn what_rests_is_ready_and_what_it_leaves_behind_is_reported() {
    let (mut bundle, _) = recorded("failing");
    assert_eq!(remains_after(&bundle), None);
    bundle["spec"]["paused"] = true.into();
    assert_eq!(health(&bundle, &[]), Health::Ready);
    bundle["spec"]["keepResources"] = true.into();
    assert!(remains_after(&bundle).unwrap().contains("`keepResources`"));
}

#[test]
fn what_was_made_of_an_object_is_known_by_its_labels() {
    let (_, made) = recorded("ready");
    let bundle = key("Bundle.fleet.cattle.io fleet-local/hello");
    assert_eq!(makes(&bundle), Some("BundleDeployment"));
    assert!(is_made_by(&made[0], &bundle));
    assert!(!is_made_by(
        &made[0],
        &key("Bundle.fleet.cattle.io other/hello")
    ));
    let repository = key("GitRepo.fleet.cattle.io fleet-local/hello");
    let made = json!({"metadata": {"namespace": "fleet-local", "labels": {"fleet.cattle.io/repo-name": "hello"}}});
    assert!(makes(&repository) == Some("Bundle") && is_made_by(&made, &repository));
    assert_eq!(
        makes(&key("Cluster.fleet.cattle.io fleet-local/local")),
        None
    );
}

#[test]
fn what_fleet_leaves_out_when_it_writes_a_bundle_back_makes_no_difference() {
    let applied =
        json!({"spec": {"paused": false, "correctDrift": {"enabled": false}, "namespace": "a"}});
    let written = json!({"spec": {"namespace": "a", "correctDrift": {}}});
    assert_eq!(as_written(&applied), as_written(&written));
    let paused = json!({"spec": {"namespace": "a", "paused": true}});
    assert_ne!(as_written(&applied), as_written(&paused));
}
