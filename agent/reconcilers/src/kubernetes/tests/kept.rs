//! What must not be lost on a cluster: data in objects, and the knowledge of whose they are.

use super::*;

const ANNOTATIONS: &str = "/metadata/annotations";

/// What a bundle drops is there until the bundle is known to be healthy: applying alone removes nothing.
#[test]
fn what_a_bundle_drops_is_there_until_it_is_pruned() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    let (kept, dropped) = (config_map("kept", "1"), config_map("dropped", "1"));
    fixture.apply(&[
        ("n.yaml", NAMESPACE),
        ("kept.yaml", &kept),
        ("dropped.yaml", &dropped),
    ]);
    let path = "/api/v1/namespaces/app/configmaps/dropped";
    let data = json!({"data": {"counter": "42"}});
    fixture
        .server
        .patch(path, "the-application", &data)
        .unwrap();
    let before = fixture.map("dropped").unwrap();
    let files = [("n.yaml", NAMESPACE), ("kept.yaml", &*kept)];
    assert_eq!(
        fixture.try_apply(&files).unwrap().status,
        ComplianceStatus::Compliant
    );
    assert_eq!(
        fixture.map("dropped").unwrap()["metadata"]["uid"],
        before["metadata"]["uid"]
    );
    // The bundle before, to which a site goes back, finds it as it was.
    let all = [
        ("n.yaml", NAMESPACE),
        ("kept.yaml", &*kept),
        ("dropped.yaml", &*dropped),
    ];
    fixture.apply(&all);
    let after = fixture.map("dropped").unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["data"]["counter"], "42");
    // And when the newer one is healthy, it goes.
    fixture.try_apply(&files).unwrap();
    let pruned = fixture.prune(&files).unwrap();
    assert_eq!(pruned.steps[0].name, "ConfigMap app/dropped");
    assert_eq!(pruned.steps[0].status, "removed");
    assert_eq!(fixture.map("dropped"), None);
    assert!(fixture.map("kept").is_some());
}

/// As `kubectl replace --force` and every restore from objects do it: the same object with another uid.
#[test]
fn an_object_that_was_brought_back_is_known_again_and_goes_with_its_assignment() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    let map = config_map("a", "1");
    let files = [("n.yaml", NAMESPACE), ("a.yaml", &*map)];
    fixture.apply(&files);
    let found = fixture.map("a").unwrap();
    let path = "/api/v1/namespaces/app/configmaps";
    fixture.server.delete(&format!("{path}/a")).unwrap();
    let back = json!({
        "metadata": {"name": "a", "annotations": found.pointer(ANNOTATIONS)},
        "data": found["data"],
    });
    fixture.server.create(path, &back).unwrap();
    let seen = fixture.observe(&files);
    assert_eq!(seen.status, ComplianceStatus::Drifted, "{seen:?}");
    fixture.apply(&files);
    assert_eq!(fixture.observe(&files).status, ComplianceStatus::Compliant);
    // One that nobody marked is still someone else's.
    fixture.server.delete(&format!("{path}/a")).unwrap();
    let other = json!({"metadata": {"name": "a"}, "data": {"key": "theirs"}});
    fixture.server.create(path, &other).unwrap();
    let refused = fixture.refused(&files);
    assert!(refused.contains("is not Outhaul's"), "{refused}");
    fixture.server.delete(&format!("{path}/a")).unwrap();
    fixture.apply(&files);
    fixture.remove();
    assert_eq!(fixture.map("a"), None);
}
