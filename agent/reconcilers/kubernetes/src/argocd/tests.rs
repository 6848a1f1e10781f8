//! What Argo CD 3.2.11 wrote into its objects, and what is made of it.
use serde_json::json;

use super::*;

/// An `Application` as the API server gave it.
fn recorded(name: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("recorded.json")).unwrap();
    assert!(all[name].is_object(), "{name}");
    all[name].clone()
}

#[test]
fn what_argo_cd_says_is_understood_and_kept_word_for_word() {
    let silent = |why: &str| Health::Silent(why.into());
    assert_eq!(
        health(&recorded("fresh")),
        silent("no controller of Argo CD has processed it yet")
    );
    assert_eq!(
        health(&recorded("asked")),
        silent("Argo CD has not answered the request to look at it")
    );
    let missing = "ComparisonError: Failed to load target state: failed to generate manifest for source 1 of 1: \
                   rpc error: code = Unknown desc = nowhere: app path does not exist";
    assert_eq!(
        health(&recorded("missing")),
        Health::Failing(missing.into())
    );
    let project = "InvalidSpecError: Application referencing project nosuch which does not exist";
    assert_eq!(
        health(&recorded("project")),
        Health::Failing(project.into())
    );
    let Health::Failed(refused) = health(&recorded("bad")) else {
        unreachable!("its sync has failed, and is not tried again");
    };
    let words = "one or more objects failed to apply, reason: ConfigMap \"Not-A-Name\" is invalid";
    assert!(
        refused.starts_with("SyncError: Failed last sync attempt") && refused.contains(words),
        "{refused}"
    );
    let Health::Failing(again) = health(&recorded("retry")) else {
        unreachable!("its sync is tried again");
    };
    assert!(
        again.starts_with(words) && again.contains("Retrying attempt #"),
        "{again}"
    );
    let slow = "what it applied is Progressing";
    assert_eq!(health(&recorded("slow")), Health::Waiting(slow.into()));
    let ok = recorded("ok");
    assert_eq!(health(&ok), Health::Ready);
    let revision = ok["status"]["sync"]["revision"].as_str().unwrap();
    assert_eq!(
        super::status_text(&ok),
        format!("Synced to {revision}; Healthy; successfully synced (all tasks run)")
    );
}

#[test]
fn what_argo_cd_said_before_is_not_its_verdict_on_what_is_asked_now() {
    for (field, value) in [("path", "other"), ("targetRevision", "v2")] {
        let mut changed = recorded("ok");
        changed["spec"]["source"][field] = value.into();
        let waits = "Argo CD has not compared it with its present source yet";
        assert_eq!(health(&changed), Health::Waiting(waits.into()), "{field}");
    }
    let mut going = recorded("ok");
    going["metadata"]["deletionTimestamp"] = "2026-11-22T19:35:46Z".into();
    assert!(matches!(health(&going), Health::Waiting(_)));
    // A sync of the revision before has failed; the one of this revision is still to come.
    let mut newer = recorded("bad");
    newer["status"]["sync"]["revision"] = "0".repeat(40).into();
    newer["status"]["conditions"] = Value::Null;
    assert_eq!(health(&newer), Health::Waiting("it is OutOfSync".into()));
    newer["spec"]["syncPolicy"] = Value::Null;
    let Health::Waiting(by_hand) = health(&newer) else {
        unreachable!("someone has to sync it");
    };
    assert!(by_hand.contains("`syncPolicy.automated`"), "{by_hand}");
}

#[test]
fn what_argo_cd_leaves_out_when_it_writes_is_no_difference() {
    let mut rendered = recorded("ok");
    rendered["spec"]["syncPolicy"]["automated"]["allowEmpty"] = false.into();
    rendered["spec"]["source"]["directory"] = json!({"recurse": false, "include": ""});
    assert_eq!(as_written(&rendered), as_written(&recorded("ok")));
    rendered["spec"]["syncPolicy"]["automated"]["enabled"] = false.into();
    assert_ne!(as_written(&rendered), as_written(&recorded("ok")));
    // An empty one switches automated sync on; without it someone has to sync.
    let automated = json!({"spec": {"syncPolicy": {"automated": {}}}});
    assert_eq!(as_written(&automated), automated);
    let off = json!({"spec": {"syncPolicy": {"automated": {"prune": false}}}});
    assert_eq!(
        as_written(&off),
        automated,
        "`prune: false` is no difference"
    );
}

#[test]
fn what_it_leaves_behind_is_said() {
    let mut application = recorded("ok");
    assert_eq!(remains_after(&application), None);
    application["metadata"]["finalizers"] = Value::Null;
    assert!(remains_after(&application).unwrap().contains("finalizer"));
    application["metadata"]["finalizers"] =
        json!(["resources-finalizer.argocd.argoproj.io/background"]);
    assert_eq!(remains_after(&application), None);
    let set = json!({"kind": "ApplicationSet", "spec": {"syncPolicy": {"preserveResourcesOnDeletion": true}}});
    assert!(remains_after(&set).unwrap().contains("preserve"));
}

/// A set with these conditions, as its controller writes them.
fn set(conditions: &Value, annotations: &Value) -> Value {
    json!({
        "kind": "ApplicationSet", "metadata": {"uid": "u-1", "annotations": annotations},
        "status": {"conditions": conditions},
    })
}

#[test]
fn a_set_is_as_well_as_the_worst_of_what_it_made() {
    let good = set(
        &json!([{"type": "ResourcesUpToDate", "status": "True", "message": "All generated"}]),
        &Value::Null,
    );
    let named = |state: &str, name: &str| {
        let mut application = recorded(state);
        application["metadata"]["name"] = name.into();
        application
    };
    let (ok, slow, bad) = (named("ok", "a"), named("slow", "b"), named("bad", "c"));
    assert_eq!(health_of_set(&good, &[]), Health::Ready);
    assert_eq!(
        health_of_set(&good, std::slice::from_ref(&ok)),
        Health::Ready
    );
    let waits = "`Application b`, which it made: what it applied is Progressing".to_owned();
    assert_eq!(
        health_of_set(&good, &[ok.clone(), slow.clone()]),
        Health::Waiting(waits)
    );
    let Health::Failed(said) = health_of_set(&good, &[ok.clone(), slow, bad]) else {
        unreachable!("the worst of them");
    };
    assert!(
        said.starts_with("`Application c`, which it made: "),
        "{said}"
    );
    let text = status_text_of_set(&good, std::slice::from_ref(&ok));
    let words = format!(
        "All generated; 1 application; `a`: {}",
        super::status_text(&ok)
    );
    assert_eq!(text, words);
    assert_eq!(
        status_text_of_set(&good, &[]),
        "All generated; it made no application"
    );
}

#[test]
fn what_a_set_said_before_it_was_asked_is_not_its_verdict() {
    let asked = json!({REQUEST_OF_SET: "outhaul-bundle-2"});
    let before =
        json!([{"type": "ResourcesUpToDate", "status": "True", "message": "All generated"}]);
    assert!(matches!(health(&set(&before, &asked)), Health::Silent(_)));
    // The request stays where generating failed.
    let failed =
        json!([{"type": "ErrorOccurred", "status": "True", "message": "no entry for key"}]);
    let words = Health::Failing("no entry for key".to_owned());
    assert_eq!(health(&set(&failed, &asked)), words);
    assert!(matches!(
        health(&set(&Value::Null, &Value::Null)),
        Health::Silent(_)
    ));
}

#[test]
fn only_the_set_itself_made_an_application() {
    let of = |kind: &str, uid: &str| json!({"metadata": {"ownerReferences": [{"kind": kind, "uid": uid}]}});
    assert!(is_made_by(&of("ApplicationSet", "u-1"), "u-1"));
    assert!(!is_made_by(&of("ApplicationSet", "u-2"), "u-1"));
    assert!(!is_made_by(&of("Application", "u-1"), "u-1"));
    assert!(!is_made_by(&json!({"metadata": {}}), "u-1"));
}
