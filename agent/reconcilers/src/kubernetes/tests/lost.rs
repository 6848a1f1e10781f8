//! What a stream may not ask for, and a site whose inventory was lost.
use super::*;

#[test]
fn a_site_that_lost_its_inventory_goes_on_with_its_own_objects() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.namespace("app");
    let settings = FORCE.replace("force", "refuse");
    let first = config_map("ours", "1");
    fixture.apply(&[("a.yaml", &settings), ("b.yaml", &first)]);
    fixture.memory = MemoryLedger::default();
    // Another assignment's is still another's.
    fixture.assignment = "two";
    let other = fixture.refused(&[("a.yaml", &settings), ("b.yaml", &first)]);
    assert!(
        other.contains("belongs to the assignment `f/dev/one`"),
        "{other}"
    );
    fixture.assignment = "one";
    let second = config_map("ours", "2");
    fixture.apply(&[("a.yaml", &settings), ("b.yaml", &second)]);
    assert_eq!(fixture.map("ours").unwrap()["data"]["key"], "2");
    assert_eq!(fixture.remove()[0].1, "removed");
    assert!(fixture.map("ours").is_none());

    // Who copied our annotation onto another object keeps it.
    let copied =
        json!({"metadata": {"name": "ours", "annotations": {ownership::ANNOTATION: "f/dev/one"}}});
    fixture
        .server
        .create(
            "/api/v1/namespaces/app/configmaps?fieldManager=someone",
            &copied,
        )
        .unwrap();
    let refused = fixture.refused(&[("a.yaml", &settings), ("b.yaml", &second)]);
    assert!(refused.contains("is not Outhaul's"), "{refused}");
}

#[test]
fn what_a_stream_may_not_ask_for_fails_its_assignment_alone() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.namespace("app");
    let map = config_map("ours", "1");
    for seconds in ["0", "86401", "18446744073709551615"] {
        let settings = FORCE.replace("waitSeconds: 1", &format!("waitSeconds: {seconds}"));
        let reported = fixture.refused(&[("a.yaml", &settings), ("b.yaml", &map)]);
        assert!(
            reported.contains(&format!(
                "`spec.waitSeconds` is {seconds}; it may be 1 to 86400"
            )),
            "{reported}"
        );
    }
    let bad = "kube-system/configmaps/victim?fieldManager=outhaul&force=true#";
    let settings = FORCE.replace("namespace: app", &format!("namespace: \"{bad}\""));
    let reported = fixture.refused(&[("a.yaml", &settings), ("b.yaml", &map)]);
    assert!(reported.contains("cannot be a name"), "{reported}");
    let victim = "/api/v1/namespaces/kube-system/configmaps/victim";
    assert!(fixture.server.get(victim).unwrap().is_none());

    let aliases = vec!["*a"; 300].join(", ");
    let bomb = format!("{map}x: &a {}\ny: [{aliases}]\n", "x".repeat(256 * 1024));
    let reported = fixture.refused(&[("b.yaml", &bomb)]);
    assert!(
        reported.contains("more than 64 MiB, aliases expanded"),
        "{reported}"
    );
    fixture.apply(&[("a.yaml", FORCE), ("b.yaml", &map)]);
}
