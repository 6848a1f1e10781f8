//! Composition: the laws of merging, and where values come from.

use outhaul_gocompat::{Decoder, decode_yaml};
use proptest::prelude::*;

use super::*;
use outhaul_control::diagnostic::SourceFile;
use outhaul_control::kinds::{self, Object};

const BASE: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: ClusterType
metadata: {name: press, labels: {region: west}}
spec: {reconciler: none, namespaceService: none}
---
apiVersion: scheduler.kalypso.io/v1alpha1
kind: SchedulingPolicy
metadata: {name: all}
spec: {deploymentTargetSelector: {}, clusterTypeSelector: {}}
---
apiVersion: scheduler.kalypso.io/v1alpha1
kind: WorkloadRegistration
metadata: {name: label}
spec: {workspace: team, workload: {repo: 'https://example.org/label', branch: main, path: .}}
";
const WORKLOAD: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: Workload
metadata: {name: label, labels: {line: '7'}}
spec:
  deploymentTargets:
  - {name: bench, environment: test, manifests: {repo: r}}
";

/// A config container as a separate document.
pub(super) fn config(name: &str, labels: &str, data: &str) -> String {
    let labels = if labels.is_empty() {
        String::new()
    } else {
        format!(", {labels}")
    };
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  \
         labels: {{platform-config: 'true'{labels}}}\ndata: {{{data}}}\n"
    )
}

/// A site of the cluster type `press` as a separate document.
pub(super) fn site(name: &str, spec: &str, labels: &str) -> String {
    format!(
        "---\napiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata:\n  name: {name}\n  \
         labels: {{{labels}}}\nspec: {{clusterType: press, {spec}}}\n"
    )
}

/// The environment `test` with the cluster type `press`, the target `label-bench`, and what `text`
/// adds.
pub(super) fn load(text: &str) -> Result<ControlPlane, Diagnostics> {
    let own = [
        ("env/base.yaml", BASE.to_owned()),
        ("env/more.yaml", text.to_owned()),
    ];
    let team = ("label/workload.yaml", WORKLOAD.to_owned());
    outhaul_test_planes::texts::load("test", &own, &[], &team)
}

/// Findings as people read them, without the folder of this test.
pub(super) fn printed(findings: &Diagnostics) -> String {
    let mut text = findings.render(false);
    while let Some(end) = text.find("/env/more.yaml") {
        let start = text[..end].rfind(' ').map_or(0, |space| space + 1);
        text.replace_range(start..=end, "");
    }
    text
}

/// The same without files, for laws that are tried a hundred times.
pub(super) fn plane(text: &str) -> ControlPlane {
    let mut plane = ControlPlane {
        environment: "test".into(),
        ..ControlPlane::default()
    };
    let mut findings = Diagnostics::new();
    let file = Arc::new(SourceFile {
        name: "more.yaml".into(),
        text: format!("{BASE}{text}"),
    });
    for object in kinds::read_file(&file, &mut findings) {
        match object {
            Object::ClusterType(o) => drop(plane.cluster_types.insert(o.name.clone(), o)),
            Object::Composition(o) => plane.composition = Some(o),
            Object::Config(o) => drop(plane.configs.insert(o.name.clone(), o)),
            Object::Policy(o) => drop(plane.policies.insert(o.name.clone(), o)),
            Object::Registration(_) => {}
            Object::Site(o) => drop(plane.sites.insert(o.name.clone(), o)),
            other => panic!("{}", other.kind()),
        }
    }
    assert!(findings.is_empty(), "{findings}");
    let target = DeploymentTarget {
        name: "label-bench".into(),
        short_name: "bench".into(),
        workload: "label".into(),
        registration: "label".into(),
        workspace: "team".into(),
        environment: "test".into(),
        environment_at: Location::new(&file, 0..0),
        labels: BTreeMap::from([("line".into(), "7".into())]),
        manifests: None,
        storage_at: None,
        config_schemas: Vec::new(),
        location: Location::new(&file, 0..0),
    };
    plane.targets.insert(target.name.clone(), target);
    plane
}

/// The config of `label-bench` on `press`.
pub(super) fn composed(text: &str) -> Result<Composed, Diagnostics> {
    let plane = plane(text);
    let (cluster_type, target) = (&plane.cluster_types["press"], &plane.targets["label-bench"]);
    compose_one(&plane, cluster_type, target, Mode::default())
}

fn yaml(text: &str) -> GoValue {
    decode_yaml(text, Decoder::V2).unwrap()
}

fn merged(before: &str, next: &str) -> GoValue {
    merge::merge(yaml(before), yaml(next), Arrays::ByName)
}

fn value() -> impl Strategy<Value = GoValue> {
    let leaf = prop_oneof![
        Just(GoValue::Null),
        any::<i64>().prop_map(GoValue::Int),
        "[ab]{0,2}".prop_map(GoValue::from)
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(GoValue::List),
            proptest::collection::btree_map("name|[ab]", inner, 0..3).prop_map(|entries| {
                let mut map = GoMap::new(MapKind::Any);
                for (key, value) in entries {
                    map.insert(key, value);
                }
                GoValue::Map(map)
            }),
        ]
    })
}

proptest! {
    #[test]
    fn a_map_holds_every_key_of_both(a in value(), b in value()) {
        if let (GoValue::Map(left), GoValue::Map(right)) = (&a, &b) {
            let both = merge::merge(a.clone(), b.clone(), Arrays::ByName);
            let both = both.as_map().unwrap();
            for (key, _) in left.iter().chain(right.iter()) {
                prop_assert!(both.entries.contains_key(key));
            }
        }
    }

    #[test]
    fn what_does_not_merge_is_replaced(a in value(), b in value()) {
        if !merge::merges(&a, &b, Arrays::ByName) {
            prop_assert_eq!(typing::canonical(&merge::merge(a, b.clone(), Arrays::ByName)), typing::canonical(&b));
        }
    }

    #[test]
    fn no_list_loses_an_item(a in value(), b in value()) {
        if let (GoValue::List(left), GoValue::List(_)) = (&a, &b) {
            let GoValue::List(both) = merge::merge(a.clone(), b, Arrays::ByName) else { panic!() };
            prop_assert!(both.len() >= left.len());
        }
    }
}

#[test]
fn items_of_one_name_are_one_item() {
    let both = merged(
        "[{name: a, x: 1}, {name: b}]",
        "[{name: a, y: 2}, {name: c}, plain]",
    );
    assert_eq!(
        typing::canonical(&both),
        typing::canonical(&yaml(
            "[{name: a, x: 1, y: 2}, {name: b}, {name: c}, plain]"
        ))
    );
}

#[test]
fn defect_5_items_without_a_name_stay_apart() {
    let both = merged("[{x: 1}, {x: 2}]", "[{y: 3}]");
    assert_eq!(
        typing::canonical(&both),
        typing::canonical(&yaml("[{x: 1}, {x: 2}, {y: 3}]"))
    );
    let kalypso = merge::merge(
        yaml("[{x: 1}, {x: 2}]"),
        yaml("[{y: 3}]"),
        Arrays::AsKalypso,
    );
    assert_eq!(
        typing::canonical(&kalypso),
        typing::canonical(&yaml("[{x: 1, y: 3}, {x: 2, y: 3}]"))
    );
}

#[test]
fn defect_7_words_of_yaml_1_1_are_no_booleans() {
    let right = typing::typed("a: yes\nb: off\nc: true\n1: x\n", Mode::default());
    assert_eq!(
        typing::canonical(&right),
        typing::canonical(&yaml("{a: 'yes', b: 'off', c: true, 1: x}"))
    );
    let kalypso = typing::typed("a: yes\nb: off\n", Mode { compat: true });
    assert_eq!(
        typing::canonical(&kalypso),
        typing::canonical(&yaml("{a: true, b: false}"))
    );
}

#[test]
fn defect_8_one_balanced_pair_of_quotes_is_stripped() {
    for (text, right, kalypso) in [
        ("'", "'", ""),
        ("'8080'", "8080", "8080"),
        ("''a''", "'a'", "a"),
        (" 'a' ", "a", "a"),
        ("a'", "a'", "a'"),
    ] {
        assert_eq!(
            typing::typed(text, Mode::default()).as_str(),
            Some(right),
            "{text}"
        );
        assert_eq!(
            typing::typed(text, Mode { compat: true }).as_str(),
            Some(kalypso),
            "{text}"
        );
    }
}
