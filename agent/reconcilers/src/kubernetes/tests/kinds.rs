//! A kind that comes with its objects: the order, its health, and what stays when others use it.
use serde_json::json;

use super::*;

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
    metadata: {name: presses.example.org}\nspec:\n  group: example.org\n  scope: Namespaced\n  \
    names: {plural: presses, singular: press, kind: Press, listKind: PressList}\n  versions:\n  - name: v1\n    \
    served: true\n    storage: true\n    subresources: {status: {}}\n    schema:\n      openAPIV3Schema:\n        \
    type: object\n        properties:\n          spec: {type: object, properties: {ink: {type: string}}}\n          \
    status: {type: object, x-kubernetes-preserve-unknown-fields: true}\n";

#[test]
fn a_kind_and_its_objects_come_together_and_go_in_order() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    let press =
        "apiVersion: example.org/v1\nkind: Press\nmetadata: {name: p}\nspec: {ink: black}\n";
    let files = [
        ("z.yaml", NAMESPACE),
        ("b.yaml", DEFINITION),
        ("a.yaml", press),
    ];
    let applied = fixture.apply(&files);
    let order: Vec<_> = applied
        .steps
        .iter()
        .map(|step| step.name.as_str())
        .collect();
    let definition = "CustomResourceDefinition.apiextensions.k8s.io presses.example.org";
    assert_eq!(
        order,
        ["Namespace app", definition, "Press.example.org app/p"]
    );

    // Its own status is trusted, in its own words.
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "NoInk",
        "message": "the black ink is used up"}]}});
    let path = "/apis/example.org/v1/namespaces/app/presses/p";
    fixture
        .server
        .patch(&format!("{path}/status"), "controller", &status)
        .unwrap();
    let desired = fixture.desired(&files);
    let sick = fixture
        .reconciler()
        .health(&desired, &fixture.recorded(), &Heartbeat::default())
        .unwrap()
        .unwrap();
    assert_eq!(
        sick.message,
        "not ready after 1 s: `Press.example.org app/p`: NoInk: the black ink is used up"
    );
    assert_eq!(fixture.observe(&files).status, ComplianceStatus::InProgress);

    // Someone else uses the kind and the namespace: both stay, with the reason.
    let theirs =
        json!({"apiVersion": "example.org/v1", "kind": "Press", "metadata": {"name": "theirs"}});
    fixture
        .server
        .create("/apis/example.org/v1/namespaces/app/presses", &theirs)
        .unwrap();
    let removed = fixture.remove();
    let reported: Vec<_> = removed
        .iter()
        .map(|(name, status, _)| (name.as_str(), status.as_str()))
        .collect();
    assert_eq!(
        reported,
        [
            ("Press.example.org app/p", "removed"),
            (definition, "skipped"),
            ("Namespace app", "skipped")
        ]
    );
    assert!(
        removed[1].2.contains("there are objects of its kind"),
        "{removed:?}"
    );
    assert!(
        removed[2]
            .2
            .contains("it holds Press theirs, which this assignment did not put there"),
        "{removed:?}"
    );
    assert!(
        fixture
            .memory
            .0
            .iter()
            .all(|item| item.phase == crate::inventory::Phase::Left)
    );

    // Once nobody needs them any more, they go.
    fixture
        .server
        .delete("/apis/example.org/v1/namespaces/app/presses/theirs")
        .unwrap();
    let removed = fixture.remove();
    assert!(
        removed.iter().all(|(_, status, _)| status == "removed"),
        "{removed:?}"
    );
    assert!(
        removed[1].2.contains("waits for kubernetes"),
        "its controller does not run here: {removed:?}"
    );
    assert!(fixture.memory.0.is_empty());
}

#[test]
fn a_sealed_value_is_in_the_clear_on_the_cluster_alone() {
    use outhaul_seal::marker;

    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    let key = FakeContext::public_key(fixture.folder.path());
    let bound = "f/dev/app/PASSWORD".parse().unwrap();
    let sealed = marker::seal_value("hunter2-hunter2", &[key.parse().unwrap()], &bound).unwrap();
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData:\n  PASSWORD: \"{sealed}\"\n"
    );
    let files = [("a.yaml", NAMESPACE), ("b.yaml", secret.as_str())];
    let done = fixture.apply(&files);
    let path = "/api/v1/namespaces/app/secrets/s";
    let on_the_cluster = fixture.server.get(path).unwrap().unwrap();
    // `hunter2-hunter2`, as the API shows it.
    assert_eq!(on_the_cluster["data"]["PASSWORD"], "aHVudGVyMi1odW50ZXIy");
    let changed = json!({"data": {"PASSWORD": "bm90aGluZw=="}});
    fixture
        .server
        .patch(path, "kubectl-edit", &changed)
        .unwrap();
    let seen = fixture.observe(&files);
    assert_eq!(seen.status, ComplianceStatus::Drifted, "{seen:?}");
    for reported in [
        format!("{done:?}"),
        format!("{seen:?}"),
        format!("{:?}", fixture.memory.0),
    ] {
        assert!(
            !reported.contains("hunter2") && !reported.contains("aHVudGVy"),
            "{reported}"
        );
    }

    // What the server quotes in a refusal is struck out.
    let wrong = secret.replace(
        "metadata: {name: s}",
        "metadata: {name: t}\nimmutable: \"yes\"",
    );
    let wrong = wrong.replace("stringData", "type: kubernetes.io/tls\nstringData");
    let reported = fixture.refused(&[("a.yaml", NAMESPACE), ("b.yaml", wrong.as_str())]);
    assert!(!reported.contains("hunter2"), "{reported}");
}
