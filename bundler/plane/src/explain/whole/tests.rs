//! What the document of a whole environment holds, and what it must not hold.

use super::*;
use crate::compose;
use outhaul_bundle::hub_api::LayerRole;
use outhaul_test_planes::texts;

const BASE: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: ClusterType
metadata: {name: press, labels: {region: west, hall: a}}
spec: {reconciler: none, namespaceService: none}
---
apiVersion: scheduler.kalypso.io/v1alpha1
kind: ClusterType
metadata: {name: yard, labels: {region: east}}
spec: {reconciler: none, namespaceService: none}
---
apiVersion: scheduler.kalypso.io/v1alpha1
kind: SchedulingPolicy
metadata: {name: west}
spec:
  deploymentTargetSelector: {workspace: team}
  clusterTypeSelector: {labelSelector: {matchLabels: {region: west}}}
---
apiVersion: scheduler.kalypso.io/v1alpha1
kind: WorkloadRegistration
metadata: {name: label}
spec: {workspace: team, workload: {repo: 'https://bob:s3cretword@example.org/label', branch: main, path: .}}
";
const WORKLOAD: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: Workload
metadata: {name: label}
spec:
  deploymentTargets:
  - {name: bench, environment: test, manifests: {repo: r}}
";
const CONFIGS: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: a-common, labels: {platform-config: 'true'}}
data: {WIDTH: '62', DB_PASSWORD: hunter22hunter, SEALED: 'ENC[age,0123456789abcdef/test/app+label/SEALED,c2VjcmV0]'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: west, labels: {platform-config: 'true', region: west}}
data: {WIDTH: '100'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: z-line, labels: {platform-config: 'true', line: '7'}}
data: {WIDTH: '7'}
---
apiVersion: outhaul.dev/v1alpha1
kind: Site
metadata: {name: press-7, labels: {line: '7'}}
spec: {clusterType: press}
";

fn document() -> PlatformExplanation {
    let own = [
        ("env/base.yaml", BASE.to_owned()),
        ("env/configs.yaml", CONFIGS.to_owned()),
    ];
    let team = ("label/workload.yaml", WORKLOAD.to_owned());
    let plane = texts::load("test", &own, &[], &team).unwrap();
    let answers = SchedulerAnswers::default();
    let schedule = crate::schedule::schedule(&plane, &answers);
    let composition = compose::compose(&plane, &schedule, Mode::default());
    let snapshot = texts::snapshot("test");
    explanation(
        &plane,
        &snapshot,
        &answers,
        &schedule,
        &composition,
        Mode::default(),
    )
}

#[test]
fn it_is_what_a_hub_reads() {
    let document = document();
    let bytes = serde_json::to_vec(&document).unwrap();
    assert_eq!(PlatformExplanation::read(&bytes).unwrap(), document);
}

#[test]
fn an_assignment_names_its_policy_the_labels_that_matched_and_what_was_overridden() {
    let document = document();
    let [one] = document.assignments.as_slice() else {
        panic!("{:?}", document.assignments);
    };
    assert_eq!(
        (one.cluster_type.as_str(), one.target.as_str()),
        ("press", "label-bench")
    );
    assert_eq!(one.policies, ["west"]);
    let found: Vec<&str> = one.verdicts[0]
        .matches
        .iter()
        .map(|one| one.found.as_str())
        .collect();
    assert_eq!(found, ["region = west"]);
    let width = |place: usize| {
        let config = &document.configs[place];
        config.iter().find(|value| value.key == "WIDTH").unwrap()
    };
    let usual = width(one.config.unwrap());
    let roles: Vec<_> = usual
        .layers
        .iter()
        .map(|layer| {
            (
                layer.role,
                layer.text.as_str(),
                layer.at.rsplit('/').next().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        roles,
        [
            (LayerRole::Decides, "100", "configs.yaml:9"),
            (LayerRole::Overridden, "62", "configs.yaml:4")
        ]
    );
    let [overlay] = one.overlays.as_slice() else {
        panic!("{:?}", one.overlays);
    };
    assert_eq!(overlay.sites.iter().collect::<Vec<_>>(), ["press-7"]);
    assert_eq!(width(overlay.config).layers[0].text, "7");
    assert_ne!(Some(&overlay.config_version), one.config_version.as_ref());
}

#[test]
fn a_pair_that_is_not_assigned_has_what_keeps_it_away() {
    let document = document();
    let [pair] = document.not_assigned.as_slice() else {
        panic!("{:?}", document.not_assigned);
    };
    assert_eq!(pair.cluster_type, "yard");
    let nearest = pair.nearest.as_ref().unwrap();
    assert!(
        nearest.misses[0]
            .sentence()
            .contains("it has region = east"),
        "{nearest:?}"
    );
}

#[test]
fn no_secret_is_in_it_neither_sealed_nor_in_clear_nor_in_an_address() {
    let text = serde_json::to_string(&document()).unwrap();
    for secret in ["hunter22", "c2VjcmV0", "s3cretword"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    // Who set it is no secret.
    assert!(
        text.contains("DB_PASSWORD") && text.contains("\"sealed\""),
        "{text}"
    );
}
