//! A kind that a bundle does not bring any more, while others have objects of it: on a real API server.
//!
//! What comes in: `OUTHAUL_KUBE_APISERVER`, and bundles with and without the definition. What goes out: a definition that stays, with the reason; or
//! that goes with all objects of its kind where the site's settings name it, which `plan` shows before.

use outhaul_test_kit::{Centre, Draft, Load};
use serde_json::json;

use crate::reconciler_kubernetes::Kubernetes;
use crate::reconcilers::Fixture as _;
use crate::site::{Site, stdout};

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
    metadata: {name: presses.example.org}\nspec:\n  group: example.org\n  scope: Namespaced\n  \
    names: {plural: presses, singular: press, kind: Press, listKind: PressList}\n  versions:\n  - name: v1\n    \
    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n";
const AT: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/presses.example.org";
const GOES: &str = "with all objects of its kind, as `remove_definitions`";

#[test]
fn a_definition_goes_with_the_objects_of_others_only_where_the_settings_name_it() {
    let Some(mut cluster) = Kubernetes::new() else {
        return;
    };
    cluster.clean();
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure(&cluster.settings());
    let both = [
        cluster.load("press", "one").file("kind.yaml", DEFINITION),
        Load::new("kinds").file(
            "other.yaml",
            DEFINITION.replace("press", "lamp").replace("Press", "Lamp"),
        ),
    ];
    site.take(&centre.publish(&Draft::new(both).kubernetes()));
    let namespace = cluster.namespace();
    for kind in ["Press", "Lamp"] {
        let plural = if kind == "Press" { "presses" } else { "lampes" };
        let theirs =
            json!({"apiVersion": "example.org/v1", "kind": kind, "metadata": {"name": "theirs"}});
        let path = format!("/apis/example.org/v1/namespaces/{namespace}/{plural}");
        cluster.server().create(&path, &theirs).unwrap();
    }
    let without = centre.publish(&Draft::new([cluster.load("press", "two")]).kubernetes());
    let planned = || stdout(&site.run(&["plan", without.to_str().unwrap()]));
    assert!(!planned().contains("with all objects"), "{}", planned());
    // Of an assignment that goes as a whole, and of one that stays.
    for (name, when) in [
        ("lampes", ""),
        ("presses", ", if the bundle does not have it any more,"),
    ] {
        site.configure(&format!(
            "max_removal_percent = 100\n{}remove_definitions = [\"{name}.example.org\"]\n",
            cluster.settings()
        ));
        let shown = planned();
        assert!(
            shown.contains(&format!("{name}.example.org{when} {GOES}")),
            "{shown}"
        );
        assert_eq!(shown.matches("with all objects").count(), 1, "{shown}");
    }
    site.take(&without);
    assert_eq!(cluster.server().get(AT).unwrap(), None);
    // The one that is not named stays with what it has, and it is said what lets it go.
    let other = AT.replace("press", "lamp");
    assert!(cluster.server().get(&other).unwrap().is_some());
    let left = site.status()["left_behind"].to_string();
    assert!(left.contains("kinds"), "{left}");
    let reported = format!("{:?}", site.reports());
    for words in [
        "with all objects of its kind",
        "remove_definitions = [\\\"lampes.example.org\\\"]",
    ] {
        assert!(reported.contains(words), "{words}: {reported}");
    }
}

#[test]
fn a_definition_is_waited_for_while_the_objects_of_its_kind_go_and_named_where_they_do_not() {
    let Some(mut cluster) = Kubernetes::new() else {
        return;
    };
    cluster.clean();
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure(&format!(
        "max_removal_percent = 100\n{}wait_s = 1\nremove_definitions = [\"presses.example.org\"]\n",
        cluster.settings()
    ));
    let with = cluster.load("press", "one").file("kind.yaml", DEFINITION);
    site.take(&centre.publish(&Draft::new([with]).kubernetes()));
    let theirs = json!({
        "apiVersion": "example.org/v1", "kind": "Press",
        "metadata": {"name": "theirs", "finalizers": ["example.org/paper"]},
    });
    let path = format!(
        "/apis/example.org/v1/namespaces/{}/presses",
        cluster.namespace()
    );
    cluster.server().create(&path, &theirs).unwrap();
    let without = Draft::new([cluster.load("press", "two")]).kubernetes();
    site.take(&centre.publish(&without));
    let reported = format!("{:?}", site.reports());
    let words = "presses.example.org` is not gone after 1 s: it is being removed, and waits for customresourcecleanup";
    assert!(reported.contains(words), "{reported}");
    assert!(cluster.server().get(AT).unwrap().is_some());
    // Whoever has the object lets it go.
    let free = json!({"metadata": {"finalizers": null}});
    let at = format!("{path}/theirs");
    let freed = cluster
        .server()
        .ask("PATCH", &at, Some(("application/merge-patch+json", &free)));
    assert_eq!(freed.unwrap().0, 200);
}
