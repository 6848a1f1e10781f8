//! Sealed values: they reach the cluster's objects, and nothing that is said about them.
use super::*;
use outhaul_seal::marker;

const SECRET: &str = "hunter2-hunter2";

/// A marker for a value that only this site opens.
fn seal(fixture: &Fixture, value: &str) -> String {
    let key = FakeContext::public_key(fixture.folder.path());
    let bound = "f/dev/app/NAME".parse().unwrap();
    marker::seal_value(value, &[key.parse().unwrap()], &bound).unwrap()
}

#[test]
fn a_sealed_value_in_the_name_of_an_object_is_refused_and_shown_nowhere() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.namespace("app");
    let sealed = seal(&fixture, SECRET);
    let map = |head: &str| format!("{head}\ndata: {{key: a}}\n");
    for head in [
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: \"{sealed}\""),
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: \"a-{sealed}\""),
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: \"{sealed}\""),
        format!("apiVersion: v1\nkind: \"{sealed}\"\nmetadata:\n  name: a"),
        format!("apiVersion: \"v1/{sealed}\"\nkind: ConfigMap\nmetadata:\n  name: a"),
    ] {
        let text = map(&head);
        let files = [("a.yaml", FORCE), ("b.yaml", text.as_str())];
        let reported = fixture.refused(&files);
        assert!(
            reported.contains("a sealed value cannot be part of"),
            "{reported}"
        );
        assert!(!reported.contains(SECRET), "{reported}");
        let seen = fixture.observe(&files);
        assert!(seen.message.contains("a sealed value cannot"), "{seen:?}");
        let desired = fixture.desired(&files);
        let health = fixture
            .reconciler()
            .health(&desired, &[], &Heartbeat::default());
        let reported = format!("{:?}", health.unwrap().unwrap());
        assert!(reported.contains("a sealed value cannot") && !reported.contains(SECRET));
    }
    assert!(fixture.memory.0.is_empty());
    // Anywhere else it is opened, also where its text happens to be a part of a name.
    let fine = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {SECRET}}}\ndata:\n  key: \"{sealed}\"\n"
    );
    let done = fixture.apply(&[("a.yaml", FORCE), ("b.yaml", &fine)]);
    assert_eq!(fixture.map(SECRET).unwrap()["data"]["key"], SECRET);
    assert!(!format!("{done:?}").contains(SECRET), "{done:?}");
}

#[test]
fn what_keeps_a_site_from_applying_is_reported_without_what_was_sealed() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.namespace("app");
    let settings = FORCE.replace("force", "refuse");
    let pod = |value: &str| {
        let name = seal(&fixture, SECRET);
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  selector: {{matchLabels: {{a: b}}}}\n  \
             template:\n    metadata: {{labels: {{a: b}}}}\n    spec:\n      containers:\n      - name: c\n        image: i\n        \
             env:\n        - name: \"{name}\"\n          value: \"{value}\"\n"
        )
    };
    let (one, two) = (pod("1"), pod("2"));
    fixture.apply(&[("a.yaml", &settings), ("b.yaml", &one)]);
    let path = "/apis/apps/v1/namespaces/app/deployments/web";
    let change = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/env/0/value", "value": "3"}]);
    let body = Some(("application/json-patch+json", &change));
    let by_hand = format!("{path}?fieldManager=kubectl-edit");
    let (code, answer) = fixture.server.ask("PATCH", &by_hand, body).unwrap();
    assert_eq!(code, 200, "{answer}");
    // The server names the field by the sealed value: an error of the site, for journal and status.
    let reported = fixture.blocked(&[("a.yaml", &settings), ("b.yaml", &two)]);
    assert!(
        reported.contains("conflict with \"kubectl-edit\""),
        "{reported}"
    );
    assert!(reported.contains("[name=\"[sealed]\"].value"), "{reported}");
    assert!(!reported.contains(SECRET), "{reported}");
}

#[test]
fn what_a_server_says_to_a_removal_is_reported_without_what_was_sealed() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.namespace("app");
    let value = seal(&fixture, SECRET);
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: ours}}\ndata:\n  key: \"{value}\"\n"
    );
    let settings = FORCE.replace("force", "refuse");
    fixture.apply(&[("a.yaml", &settings), ("b.yaml", &map)]);
    assert_eq!(fixture.map("ours").unwrap()["data"]["key"], SECRET);
    // A policy of the cluster that quotes what it protects.
    let api = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({"metadata": {"name": "keep"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["DELETE"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "false",
            "messageExpression": "'it holds ' + oldObject.data.key"}]}});
    fixture
        .server
        .create(&format!("{api}/validatingadmissionpolicies"), &policy)
        .unwrap();
    let binding = json!({"metadata": {"name": "keep"},
        "spec": {"policyName": "keep", "validationActions": ["Deny"]}});
    fixture
        .server
        .create(
            &format!("{api}/validatingadmissionpolicybindings"),
            &binding,
        )
        .unwrap();
    // The server takes a moment to know of it.
    let probe = || {
        let body = Some(("application/json", &json!({"dryRun": ["All"]})));
        let path = "/api/v1/namespaces/app/configmaps/ours";
        fixture.server.ask("DELETE", path, body).unwrap().0
    };
    while probe() == 200 {
        std::thread::yield_now();
    }
    let removed = fixture.remove();
    let (name, status, message) = &removed[0];
    assert_eq!(
        (name.as_str(), status.as_str()),
        ("ConfigMap app/ours", "failed")
    );
    // The generation that it came with is not on disk here, so that nobody knows what was sealed in it.
    assert!(message.contains("its words are not shown"), "{message}");
    assert!(!message.contains(SECRET), "{message}");
    assert!(fixture.map("ours").is_some());
    assert_eq!(fixture.memory.0.len(), 1, "it is tried again");
}
