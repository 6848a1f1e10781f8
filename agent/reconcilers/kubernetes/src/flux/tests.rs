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
    let silent = "no controller of Flux has processed it yet";
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
        let silent = "no controller of Flux has processed it yet";
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

/// A release whose upgrade helm-controller 1.6 has given up, as it said so.
fn given_up() -> Value {
    let condition = |name: &str, status: &str, reason: &str, message: &str| json!({"type": name, "status": status, "reason": reason, "message": message, "observedGeneration": 1});
    json!({
        "kind": "HelmRelease", "metadata": {"generation": 1, "namespace": "flux-system", "annotations": {REQUEST: "r2"}},
        "spec": {},
        "status": {
            "observedGeneration": 1, "lastHandledReconcileAt": "r2", "helmChart": "flux-system/flux-system-listed",
            "lastAttemptedRevision": "1.2.0",
            "conditions": [
                condition("Stalled", "True", "RetriesExceeded", "Failed to upgrade after 1 attempt(s)"),
                condition("Ready", "False", "UpgradeFailed", "Helm upgrade failed for release a/b"),
            ],
        },
    })
}

#[test]
fn a_chart_that_was_given_up_is_the_verdict_only_where_it_is_the_chart_that_is_asked_for() {
    let chart = |revision: &str| json!({"kind": "HelmChart", "status": {"artifact": {"revision": revision}}});
    let mut release = given_up();
    let said = "RetriesExceeded: Failed to upgrade after 1 attempt(s); UpgradeFailed: Helm upgrade failed for release a/b";
    assert_eq!(
        health(&release, Some(&chart("1.2.0"))),
        Health::Failed(said.into())
    );
    // The bundle before brings the chart before.
    let behind = "it has applied 1.2.0, and its source has 1.0.0";
    assert_eq!(
        health(&release, Some(&chart("1.0.0"))),
        Health::Waiting(behind.into())
    );
    // Flux was asked, and has not looked since.
    release["status"]["lastHandledReconcileAt"] = "r1".into();
    assert!(matches!(
        health(&release, Some(&chart("1.2.0"))),
        Health::Failing(_)
    ));
    let key = chart_of(&release).unwrap();
    assert_eq!(source_of(&release), Some(key.clone()));
    assert_eq!(
        key.to_string(),
        "HelmChart.source.toolkit.fluxcd.io flux-system/flux-system-listed"
    );
}

#[test]
fn a_release_follows_the_digest_behind_a_tag_and_a_chart_its_repository() {
    let mut release = given_up();
    release["status"] = json!({"observedGeneration": 1, "lastHandledReconcileAt": "r2",
        "lastAttemptedRevision": "1.0.0+aaaa", "lastAttemptedRevisionDigest": "sha256:aaaa",
        "conditions": [{"type": "Ready", "status": "True", "reason": "UpgradeSucceeded", "observedGeneration": 1}]});
    let artifact = |revision: &str| json!({"kind": "OCIRepository", "status": {"artifact": {"revision": revision}}});
    assert_eq!(
        health(&release, Some(&artifact("newest@sha256:aaaa"))),
        Health::Ready
    );
    assert!(matches!(
        health(&release, Some(&artifact("newest@sha256:bbbb"))),
        Health::Waiting(_)
    ));
    let mut chart = release.clone();
    chart["kind"] = "HelmChart".into();
    chart["status"]["observedSourceArtifactRevision"] = "sha256:1".into();
    let repository = |revision: &str| json!({"kind": "HelmRepository", "status": {"artifact": {"revision": revision}}});
    assert_eq!(health(&chart, Some(&repository("sha256:1"))), Health::Ready);
    assert!(matches!(
        health(&chart, Some(&repository("sha256:2"))),
        Health::Waiting(_)
    ));
}

#[test]
fn what_somebody_changed_in_a_release_is_drift_where_flux_only_reports_it() {
    let mut release = given_up();
    release["status"]["conditions"] = json!([{"type": "Drifted", "status": "True", "reason": "DriftDetected", "message": "x has drifted"}]);
    assert_eq!(drifted(&release), None);
    release["spec"]["driftDetection"] = json!({"mode": "warn"});
    assert_eq!(
        drifted(&release).as_deref(),
        Some("DriftDetected: x has drifted")
    );
    release["spec"]["suspend"] = true.into();
    assert_eq!(drifted(&release), None);
}
