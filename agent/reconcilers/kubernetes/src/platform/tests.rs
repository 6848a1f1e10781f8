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
        &[],
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
    let all = of_flux(&[unseen], &[], &[], REPOSITORY);
    assert_eq!(
        (all[0].status, &all[0].commit),
        (FollowerStatus::Stale, &None)
    );
    assert!(
        of_flux(
            &[source(ONE)],
            &[kustomization(ONE)],
            &[],
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
    let seen = of_argocd(&[application()], &[], REPOSITORY);
    assert_eq!(seen[0].status, FollowerStatus::Synced, "{seen:?}");
    assert_eq!(seen[0].commit.as_deref(), Some(ONE));

    let mut out = application();
    out["status"]["sync"]["status"] = "OutOfSync".into();
    out["status"]["sync"]["revision"] = TWO.into();
    let seen = of_argocd(&[out], &[], REPOSITORY);
    assert_eq!(seen[0].status, FollowerStatus::OtherRevision);
    assert_eq!(seen[0].commit.as_deref(), Some(ONE));

    let mut skipped = application();
    skipped["metadata"]["annotations"] = json!({"argocd.argoproj.io/skip-reconcile": "true"});
    assert_eq!(
        of_argocd(&[skipped], &[], REPOSITORY)[0].status,
        FollowerStatus::Suspended
    );
    let mut new = application();
    new["status"] = json!({});
    assert_eq!(
        of_argocd(&[new], &[], REPOSITORY)[0].status,
        FollowerStatus::Stale
    );
}

/// A team's own object, which the platform's `Kustomization` of `owner` applied.
fn made_object(kind: &str, owner: &str, ready: &str) -> Value {
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": kind,
        "metadata": {"name": "web", "namespace": "flux-system", "generation": 1,
            "labels": {"kustomize.toolkit.fluxcd.io/name": owner,
                "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}},
        "spec": {"sourceRef": {"kind": "GitRepository", "name": "web"}},
        "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": ready,
            "observedGeneration": 1, "message": "what Flux says"}]}})
}

#[test]
fn attack_what_a_follower_made_counts_though_the_follower_is_ready() {
    let shown = |object: Value| {
        let all = of_flux(
            &[source(ONE)],
            &[kustomization(ONE), object],
            &[],
            REPOSITORY,
        );
        let made: Vec<Follower> = all
            .into_iter()
            .filter(|one| one.made_by.is_some())
            .collect();
        made.first()
            .map(|one| (one.status, one.message.clone(), made.len()))
    };
    let said = |status, text: &str| Some((status, text.to_owned(), 1));
    let object = |ready| made_object("Kustomization", "platform", ready);
    let failing = shown(object("False"));
    assert_eq!(failing, said(FollowerStatus::Failing, "what Flux says"));
    assert_eq!(
        shown(object("Unknown")).unwrap().0,
        FollowerStatus::InProgress
    );
    assert_eq!(shown(object("True")).unwrap().0, FollowerStatus::Synced);
    let mut new = object("True");
    new["status"] = json!({"observedGeneration": -1});
    assert_eq!(shown(new).unwrap().0, FollowerStatus::Stale);
    let mut suspended = object("True");
    suspended["spec"]["suspend"] = true.into();
    assert_eq!(shown(suspended).unwrap().0, FollowerStatus::Suspended);
    // Of another repository's `Kustomization`.
    assert_eq!(shown(made_object("Kustomization", "other", "False")), None);
}

#[test]
fn what_is_made_is_looked_at_of_whatever_depth_and_each_once() {
    let mut first = made_object("Kustomization", "platform", "True");
    first["metadata"]["name"] = "first".into();
    let second = made_object("HelmRelease", "first", "False");
    // One that names itself as its owner ends the search, too.
    let mut own = made_object("Kustomization", "own", "True");
    own["metadata"]["name"] = "own".into();
    let objects = [second, own, kustomization(ONE), first];
    let all = of_flux(&[source(ONE)], &objects, &[], REPOSITORY);
    let made: Vec<_> = (all.iter())
        .filter_map(|one| Some((one.name.as_str(), one.made_by.as_deref()?, one.status)))
        .collect();
    let by = "Kustomization flux-system/platform";
    assert_eq!(
        made,
        [
            (
                "Kustomization flux-system/first",
                by,
                FollowerStatus::Synced
            ),
            ("HelmRelease flux-system/web", by, FollowerStatus::Failing),
        ]
    );
}

#[test]
fn an_application_that_an_application_or_a_set_made_counts() {
    let mut root = application();
    root["status"]["resources"] = json!([
        {"group": "argoproj.io", "kind": "ApplicationSet", "namespace": "argocd", "name": "teams"},
        {"group": "", "kind": "Namespace", "name": "web"},
    ]);
    let set = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "teams", "namespace": "argocd", "uid": "u1"},
        "status": {"conditions": [{"type": "ResourcesUpToDate", "status": "True", "message": "ok"}]}});
    let mut web = application();
    web["metadata"] = json!({"name": "web", "namespace": "argocd",
        "ownerReferences": [{"kind": "ApplicationSet", "uid": "u1"}]});
    web["spec"]["source"]["repoURL"] = "https://git.example/web".into();
    web["status"]["sync"]["comparedTo"]["source"] = web["spec"]["source"].clone();
    web["status"]["health"] = json!({"status": "Degraded", "message": "no image"});
    let all = of_argocd(&[web, root], &[set], REPOSITORY);
    let made: Vec<_> = (all.iter())
        .filter_map(|one| Some((one.name.as_str(), one.made_by.as_deref()?)))
        .collect();
    let by = "Application argocd/platform";
    assert_eq!(
        made,
        [
            ("ApplicationSet argocd/teams", by),
            ("Application argocd/web", by)
        ]
    );
    assert_eq!(all[2].status, FollowerStatus::Failing, "{all:?}");
}
