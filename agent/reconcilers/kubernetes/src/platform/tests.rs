//! What follows a repository, by what Flux and Argo CD write of their objects: every state has its name.

use serde_json::{Value, json};

use super::*;

const REPOSITORY: &str = "https://git.example/platform";
const ONE: &str = "1111111111111111111111111111111111111111";
const TWO: &str = "2222222222222222222222222222222222222222";

fn source(revision: &str) -> Value {
    json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "platform", "namespace": "flux-system", "generation": 1},
        "spec": {"url": "https://git.example/platform.git"},
        "status": {"observedGeneration": 1, "artifact": {"revision": format!("dev@sha1:{revision}")},
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1,
                "message": "stored artifact"}]}})
}

fn kustomization(revision: &str) -> Value {
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "platform", "namespace": "flux-system", "generation": 2},
        "spec": {"path": "./store/", "sourceRef": {"kind": "GitRepository", "name": "platform"}},
        "status": {"observedGeneration": 2, "lastAppliedRevision": format!("dev@sha1:{revision}"),
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2,
                "message": format!("Applied revision: dev@sha1:{revision}")}]}})
}

fn made(source: &Value, object: &Value) -> Follower {
    let all = of_flux(
        std::slice::from_ref(source),
        std::slice::from_ref(object),
        REPOSITORY,
    );
    assert_eq!(all.len(), 2, "{all:?}");
    all.into_iter().next_back().unwrap()
}

#[test]
fn a_kustomization_that_is_ready_at_what_was_fetched_is_synced() {
    let seen = made(&source(ONE), &kustomization(ONE));
    assert_eq!(seen.status, FollowerStatus::Synced);
    assert_eq!(seen.commit.as_deref(), Some(ONE));
    assert_eq!(seen.path.as_deref(), Some("store"));
    assert_eq!(seen.name, "Kustomization flux-system/platform");
}

#[test]
fn another_revision_a_suspension_a_failure_and_an_old_verdict_have_their_own_names() {
    let seen = made(&source(TWO), &kustomization(ONE));
    assert_eq!(seen.status, FollowerStatus::OtherRevision);
    assert_eq!(seen.commit.as_deref(), Some(ONE));
    assert!(seen.message.contains(TWO), "{}", seen.message);

    let mut suspended = kustomization(ONE);
    suspended["spec"]["suspend"] = true.into();
    assert_eq!(
        made(&source(ONE), &suspended).status,
        FollowerStatus::Suspended
    );

    let mut old = kustomization(ONE);
    old["metadata"]["generation"] = 3.into();
    assert_eq!(made(&source(ONE), &old).status, FollowerStatus::Stale);

    let mut failed = kustomization(ONE);
    failed["status"]["conditions"][0]["status"] = "False".into();
    failed["status"]["conditions"][0]["message"] = "no such namespace".into();
    let seen = made(&source(ONE), &failed);
    assert_eq!(seen.status, FollowerStatus::Failing);
    assert!(
        seen.message.contains("no such namespace"),
        "{}",
        seen.message
    );

    let mut nothing_applied = kustomization(ONE);
    nothing_applied["status"]["lastAppliedRevision"] = Value::Null;
    let seen = made(&source(ONE), &nothing_applied);
    assert_eq!(seen.status, FollowerStatus::OtherRevision);
    assert!(seen.message.contains("applied nothing"), "{}", seen.message);
}

#[test]
fn a_source_that_was_never_fetched_and_one_of_another_repository_show_nothing() {
    let mut unseen = source(ONE);
    unseen["status"] = json!({});
    let all = of_flux(&[unseen], &[], REPOSITORY);
    assert_eq!(
        (all[0].status, &all[0].commit),
        (FollowerStatus::Stale, &None)
    );
    assert!(
        of_flux(
            &[source(ONE)],
            &[kustomization(ONE)],
            "https://git.example/other"
        )
        .is_empty()
    );
}

#[test]
fn a_release_from_the_repository_counts_and_shows_no_commit() {
    let mut release = kustomization(ONE);
    release["kind"] = "HelmRelease".into();
    release["spec"] = json!({"chart": {"spec": {"chart": "./a",
        "sourceRef": {"kind": "GitRepository", "name": "platform"}}}});
    let seen = made(&source(ONE), &release);
    assert_eq!((seen.path, seen.commit), (None, None));
    release["spec"]["suspend"] = true.into();
    assert_eq!(
        made(&source(ONE), &release).status,
        FollowerStatus::Suspended
    );
}

fn application() -> Value {
    let from = json!({"repoURL": REPOSITORY, "path": "store", "targetRevision": "dev"});
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "platform", "namespace": "argocd"},
        "spec": {"source": from, "syncPolicy": {"automated": {}}},
        "status": {"sync": {"status": "Synced", "revision": ONE, "comparedTo": {"source": from}},
            "health": {"status": "Healthy"},
            "operationState": {"phase": "Succeeded", "syncResult": {"revision": ONE}}}})
}

#[test]
fn an_application_shows_the_commit_that_runs_and_not_the_one_that_is_wanted() {
    let seen = of_argocd(&[application()], REPOSITORY);
    assert_eq!(seen[0].status, FollowerStatus::Synced, "{seen:?}");
    assert_eq!(seen[0].commit.as_deref(), Some(ONE));

    let mut out = application();
    out["status"]["sync"]["status"] = "OutOfSync".into();
    out["status"]["sync"]["revision"] = TWO.into();
    let seen = of_argocd(&[out], REPOSITORY);
    assert_eq!(seen[0].status, FollowerStatus::OtherRevision);
    assert_eq!(seen[0].commit.as_deref(), Some(ONE));

    let mut skipped = application();
    skipped["metadata"]["annotations"] = json!({"argocd.argoproj.io/skip-reconcile": "true"});
    assert_eq!(
        of_argocd(&[skipped], REPOSITORY)[0].status,
        FollowerStatus::Suspended
    );
    let mut new = application();
    new["status"] = json!({});
    assert_eq!(
        of_argocd(&[new], REPOSITORY)[0].status,
        FollowerStatus::Stale
    );
}
