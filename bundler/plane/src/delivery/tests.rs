//! Delivery policies: parts that add up, and parts that contradict each other.

use std::sync::Arc;

use super::*;
use outhaul_control::diagnostic::SourceFile;
use outhaul_control::kinds::{Object, read_file};

fn plane(policies: &[(&str, &str, &str)]) -> ControlPlane {
    let mut text = String::new();
    for (name, labels) in [("drone", "{edge: 'yes'}"), ("large", "{}")] {
        text += &format!(
            "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ClusterType\nmetadata: {{name: {name}, labels: {labels}}}\n\
             spec: {{reconciler: r, namespaceService: n}}\n---\n"
        );
    }
    for (name, labels, fields) in policies {
        text += &format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: DeliveryPolicy\nmetadata:\n  name: {name}\nspec:\n  \
             clusterTypeSelector: {{labelSelector: {{matchLabels: {labels}}}}}\n{fields}---\n"
        );
    }
    let file = Arc::new(SourceFile {
        name: "x.yaml".into(),
        text,
    });
    let mut findings = Diagnostics::new();
    let mut plane = ControlPlane::default();
    for object in read_file(&file, &mut findings) {
        match object {
            Object::ClusterType(o) => drop(plane.cluster_types.insert(o.name.clone(), o)),
            Object::Delivery(o) => drop(plane.deliveries.insert(o.name.clone(), o)),
            other => panic!("{other:?}"),
        }
    }
    assert!(findings.is_empty(), "{findings}");
    plane
}

#[test]
fn several_policies_each_say_a_part() {
    let plane = plane(&[
        ("all", "{}", "  expiresDays: 90\n  sizeBudget: 600 MB\n"),
        (
            "edge",
            "{edge: 'yes'}",
            "  expiresDays: 90\n  encryption: required\n",
        ),
    ]);
    let drone = of(&plane, &plane.cluster_types["drone"]).unwrap();
    assert_eq!(drone.expires_days.as_ref().map(|said| said.value), Some(90));
    assert_eq!(drone.size_budget.map(|said| said.value), Some(600_000_000));
    assert_eq!(
        drone.encryption.map(|said| said.value),
        Some(Encryption::Required)
    );
    let large = of(&plane, &plane.cluster_types["large"]).unwrap();
    assert_eq!(large.encryption, None);
    assert!(contradictions(&plane).is_empty());
}

#[test]
fn a_contradiction_shows_both_places_and_stops_only_whom_it_concerns() {
    let plane = plane(&[
        ("all", "{}", "  delivery: bundle\n  expiresDays: 90\n"),
        (
            "edge",
            "{edge: 'yes'}",
            "  delivery: git\n  expiresDays: 30\n",
        ),
    ]);
    of(&plane, &plane.cluster_types["large"]).unwrap();
    let found = of(&plane, &plane.cluster_types["drone"]).unwrap_err();
    assert_eq!(found.iter().count(), 2);
    insta::assert_snapshot!(contradictions(&plane));
}

#[test]
fn a_bootstrap_names_targets_and_a_template_and_two_that_differ_contradict_each_other() {
    let brings =
        |targets: &str| format!("  bootstrap: {{targets: [{targets}], reconciler: kubernetes}}\n");
    let (one, same, other) = (brings("flux, a"), brings("a, flux"), brings("argo"));
    let equal = plane(&[("all", "{}", &one), ("edge", "{edge: 'yes'}", &same)]);
    let drone = of(&equal, &equal.cluster_types["drone"]).unwrap();
    let said = drone.bootstrap.unwrap().value;
    assert!(said.has("flux") && said.has("a") && !said.has("b"));
    let differing = plane(&[("all", "{}", &one), ("edge", "{edge: 'yes'}", &other)]);
    of(&differing, &differing.cluster_types["drone"]).unwrap_err();
    of(&differing, &differing.cluster_types["large"]).unwrap();
}

#[test]
fn what_is_said_of_images_that_do_not_travel_is_named_as_without_effect() {
    for rule in [
        "  imageSignatures: [{images: '*', keys: ['-----BEGIN PUBLIC KEY-----']}]\n",
        "  platforms: [linux/arm64]\n",
    ] {
        let found = |more: &str| {
            let fields = format!("{rule}{more}");
            without_effect(&plane(&[("edge", "{edge: 'yes'}", &fields)])).to_string()
        };
        for more in ["", "  images: reference\n"] {
            let found = found(more);
            assert!(found.contains("for cluster type `drone`"), "{found}");
            assert!(!found.contains("large"), "{found}");
        }
        assert_eq!(found("  images: carry\n"), "");
        assert_eq!(found("  delivery: git\n"), "");
    }
}

#[test]
fn attack_what_must_be_encrypted_is_said_to_travel_by_git_and_neither_is_followed() {
    for (transport, refused) in [
        ("  delivery: git\n", true),
        ("  delivery: both\n", true),
        ("  delivery: bundle\n", false),
        ("  expiresDays: 90\n", false),
    ] {
        let plane = plane(&[
            ("all", "{}", transport),
            ("edge", "{edge: 'yes'}", "  encryption: required\n"),
        ]);
        let drone = of(&plane, &plane.cluster_types["drone"]);
        assert_eq!(drone.is_err(), refused, "{transport}");
        of(&plane, &plane.cluster_types["large"]).unwrap();
        let shown = contradictions(&plane).render(false);
        assert_eq!(shown.contains("in the clear"), refused, "{shown}");
        if refused {
            assert!(shown.contains("`delivery: bundle`"), "{shown}");
            assert_eq!(contradictions(&plane).iter().count(), 1);
        }
    }
    let plain = plane(&[("all", "{}", "  delivery: git\n  encryption: none\n")]);
    of(&plain, &plain.cluster_types["drone"]).unwrap();
}

#[test]
fn what_is_said_of_bundles_where_none_are_made_is_named_as_without_effect() {
    let statements = r#"  vex:
    - name: a
      json: '{"@context": "https://openvex.dev/ns/v0.2.0", "timestamp": "2026-11-01T00:00:00Z", "statements":
        [{"vulnerability": {"name": "CVE-1"}, "products": [{"@id": "pkg:oci/a"}], "status": "fixed"}]}'
"#;
    for (field, what) in [("scan", "  scan: grype\n"), ("vex", statements)] {
        let found = |transport: &str| {
            let fields = format!("{what}{transport}");
            without_effect(&plane(&[("edge", "{edge: 'yes'}", &fields)])).to_string()
        };
        let shown = found("  delivery: git\n");
        let words = format!("`{field}` has no effect for cluster type `drone`");
        assert!(
            shown.contains(&words) && !shown.contains("large"),
            "{shown}"
        );
        for transport in ["", "  delivery: both\n", "  delivery: bundle\n"] {
            assert_eq!(found(transport), "");
        }
    }
}

#[test]
fn a_statement_of_a_time_to_come_is_named_before_it_travels() {
    let fields = r#"  vex:
    - name: team-a
      json: '{"@context": "https://openvex.dev/ns/v0.2.0", "timestamp": "2027-11-01T00:00:00Z", "statements":
        [{"vulnerability": {"name": "CVE-1"}, "products": [{"@id": "pkg:oci/a"}], "status": "fixed"}]}'
"#;
    let plane = plane(&[("edge", "{edge: 'yes'}", fields)]);
    let at_ms = 1_825_027_200_000; // 2027-11-01
    assert_eq!(statements::to_come(&plane, at_ms).to_string(), "");
    let found = statements::to_come(&plane, at_ms - 365 * 24 * 60 * 60 * 1000).to_string();
    assert!(found.contains("warning[statement-to-come]"), "{found}");
    assert!(found.contains("a statement is of 2027-11-01"), "{found}");
}
