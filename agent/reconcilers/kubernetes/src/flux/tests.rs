//! What kustomize-controller 1.9.5 wrote into its objects, and what is made of it.
use serde_json::json;

use super::*;

/// A Kustomization as the API server gave it.
fn recorded(name: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("recorded.json")).unwrap();
    assert!(all[name].is_object(), "{name}");
    all[name].clone()
}

fn source(revision: &str) -> Value {
    json!({"status": {"artifact": {"revision": revision}}})
}

#[test]
fn what_flux_says_is_understood_and_kept_word_for_word() {
    let silent = "no controller of Flux has looked at it yet";
    assert_eq!(
        health(&recorded("fresh"), None),
        Health::Silent(silent.into())
    );
    let no_artifact = "ArtifactFailed: Source artifact not found, retrying in 30s";
    assert_eq!(
        health(&recorded("nosource"), None),
        Health::Failing(no_artifact.into())
    );
    let missing = "ArtifactFailed: kustomization path not found: stat \
                   /tmp/kustomization-3741141832/nowhere: no such file or directory";
    assert_eq!(
        health(&recorded("missing"), None),
        Health::Failing(missing.into())
    );
    let Health::Waiting(waits) = health(&recorded("slow"), None) else {
        unreachable!("its health check is under way");
    };
    assert!(
        waits.starts_with("Progressing: Running health checks for revision main@sha1:b9c6ca45"),
        "{waits}"
    );
    let ok = recorded("ok");
    let revision = ok["status"]["lastAppliedRevision"].as_str().unwrap();
    assert_eq!(health(&ok, Some(&source(revision))), Health::Ready);
    assert_eq!(status_text(&ok), format!("Applied revision: {revision}"));
}

#[test]
fn what_flux_said_before_is_not_its_verdict_on_what_is_asked_now() {
    let mut ok = recorded("ok");
    let newer = health(&ok, Some(&source("main@sha1:00")));
    assert!(
        matches!(&newer, Health::Waiting(why) if why.ends_with("and its source has main@sha1:00")),
        "{newer:?}"
    );
    ok["metadata"]["annotations"][REQUEST] = "r2".into();
    let unanswered = "Flux has not answered the request to look at it";
    assert_eq!(health(&ok, None), Health::Silent(unanswered.into()));
    for name in ["ok", "missing", "slow"] {
        let mut changed = recorded(name);
        changed["metadata"]["generation"] = 2.into();
        let silent = "no controller of Flux has looked at it yet";
        assert_eq!(
            health(&changed, None),
            Health::Silent(silent.into()),
            "{name}"
        );
    }
    let mut going = recorded("ok");
    going["metadata"]["deletionTimestamp"] = "2026-11-22T19:35:46Z".into();
    assert!(matches!(health(&going, None), Health::Waiting(_)));
}

#[test]
fn what_rests_is_ready_and_what_it_leaves_behind_is_reported() {
    let mut fresh = recorded("fresh");
    assert_eq!(remains_after(&fresh), None);
    fresh["spec"]["suspend"] = true.into();
    assert_eq!(health(&fresh, None), Health::Ready);
    assert!(
        remains_after(&fresh)
            .unwrap()
            .starts_with("it is suspended")
    );
    let mut kept = recorded("ok");
    kept["spec"]["prune"] = false.into();
    assert!(remains_after(&kept).unwrap().contains("`prune: true`"));
    let key = source_of(&kept).unwrap();
    assert_eq!(
        key.to_string(),
        "GitRepository.source.toolkit.fluxcd.io flux-system/ok"
    );
    let address = json!({"kind": "HelmRepository", "spec": {"type": "oci"}});
    assert_eq!(health(&address, None), Health::Ready);
}
