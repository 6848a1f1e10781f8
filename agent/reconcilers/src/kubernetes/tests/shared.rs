//! Two sites on one cluster, by mistake: each says so, and neither touches what the other applied.
use super::*;

const SITE: &str = "outhaul.dev/site";

#[test]
fn two_sites_that_share_a_cluster_are_a_named_conflict_and_fight_for_nothing() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.namespace("app");
    let force = FORCE.replace("waitSeconds: 1", "waitSeconds: 2");
    let refuse = FORCE.replace("force", "refuse");
    let (one, two) = (config_map("ours", "1"), config_map("ours", "2"));
    fixture.apply(&[("a.yaml", &refuse), ("b.yaml", &one)]);
    let before = fixture.map("ours").unwrap();
    assert_eq!(before["metadata"]["annotations"][SITE], "store-1");
    let of_the_first = std::mem::take(&mut fixture.memory);

    // The second site follows the same stream; nothing that a stream says lets it take over.
    fixture.site = "store-2";
    fixture.drift = DriftPolicy::Correct;
    for settings in [&refuse, &force] {
        let reported = fixture.blocked(&[("a.yaml", settings), ("b.yaml", &two)]);
        for words in [
            "`ConfigMap app/ours` belongs to the site `store-1` (assignment `f/dev/one`): two sites share this cluster",
            "help: a cluster belongs to one site",
            SITE,
        ] {
            assert!(reported.contains(words), "{reported}");
        }
        assert_eq!(fixture.map("ours").unwrap(), before);
    }
    assert!(fixture.memory.0.is_empty());

    // An agent of before did take it over: the first site sees it, puts nothing back, and removes nothing.
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ours",
        "annotations": {SITE: "store-2", ownership::ANNOTATION: "f/dev/one"}}, "data": {"key": "2"}});
    let path = "/api/v1/namespaces/app/configmaps/ours?fieldManager=outhaul&force=true";
    let body = Some(("application/apply-patch+yaml", &theirs));
    let (code, answer) = fixture.server.ask("PATCH", path, body).unwrap();
    assert_eq!(code, 200, "{answer}");
    fixture.site = "store-1";
    fixture.memory = of_the_first;
    let files = [("a.yaml", refuse.as_str()), ("b.yaml", one.as_str())];
    let seen = fixture.observe(&files);
    assert_eq!(seen.status, ComplianceStatus::Drifted);
    let reported = &seen.steps[0].message;
    assert!(
        reported.contains("the site `store-2` applied it since"),
        "{reported}"
    );
    assert!(fixture.blocked(&files).contains("site `store-2`"));
    let removed = fixture.remove();
    assert!(
        removed[0]
            .2
            .contains("belongs to the site `store-2` by now and was left")
    );
    assert_eq!(fixture.map("ours").unwrap()["data"]["key"], "2");

    // The way out that the message names: the other site is gone, its annotation is removed.
    let gone = json!({"metadata": {"annotations": {SITE: null}}});
    fixture
        .server
        .patch(
            "/api/v1/namespaces/app/configmaps/ours",
            "kubectl-annotate",
            &gone,
        )
        .unwrap();
    fixture.memory = MemoryLedger::default();
    fixture.apply(&files);
    let taken = fixture.map("ours").unwrap();
    assert_eq!(taken["metadata"]["annotations"][SITE], "store-1");
    assert_eq!(taken["data"]["key"], "1");
}
