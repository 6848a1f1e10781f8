//! Schedules and their explanations.

use proptest::prelude::*;

use super::*;

mod placement;

use outhaul_test_planes::shorthand::plane_of as plane;

const GROUP: &str = "apiVersion: scheduler.kalypso.io/v1alpha1";

fn policy(name: &str, workspace: &str, target: &str, cluster_type: &str) -> String {
    format!(
        "{GROUP}\nkind: SchedulingPolicy\nmetadata: {{name: {name}}}\nspec:\n  deploymentTargetSelector:\n    \
         workspace: '{workspace}'\n    labelSelector: {{matchLabels: {target}}}\n  clusterTypeSelector:\n    \
         labelSelector: {{matchLabels: {cluster_type}}}\n"
    )
}

fn cluster_type(name: &str, labels: &str) -> String {
    format!(
        "{GROUP}\nkind: ClusterType\nmetadata: {{name: {name}, labels: {labels}}}\nspec: {{reconciler: r, namespaceService: n}}\n"
    )
}

#[test]
fn defect_1_two_policies_that_select_one_pair_are_two_reasons() {
    let plane = plane(
        &[
            policy("b", "team", "{purpose: test}", "{}"),
            policy("a", "", "{}", "{edge: 'yes'}"),
            cluster_type("drone", "{edge: 'yes'}"),
            cluster_type("large", "{}"),
        ],
        &[
            ("t", "team", &[("purpose", "test")]),
            ("u", "other", &[("purpose", "test")]),
        ],
    );
    let schedule = schedule(&plane, &SchedulerAnswers::default());
    let seen: Vec<_> = schedule
        .assignments
        .iter()
        .map(|(id, a)| (id.to_string(), a.policies.join("+")))
        .collect();
    let expected = [("drone/t", "a+b"), ("drone/u", "a"), ("large/t", "b")];
    assert_eq!(seen, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
}

#[test]
fn a_pair_that_is_not_assigned_says_which_requirement_failed() {
    let plane = plane(
        &[
            policy(
                "far",
                "nobody",
                "{purpose: other, zone: red}",
                "{size: small}",
            ),
            policy("near", "team", "{purpose: test}", "{region: west}"),
            cluster_type("drone", "{Region: west, size: large}"),
        ],
        &[("t", "team", &[("purpose", "test")])],
    );
    assert!(
        schedule(&plane, &SchedulerAnswers::default())
            .assignments
            .is_empty()
    );
    let verdicts = explain::explain(
        &plane,
        &SchedulerAnswers::default(),
        &plane.targets["t"],
        plane.cluster_types.get("drone"),
    );
    assert_eq!(verdicts[0].policy, "near", "the nearest miss comes first");
    let [miss] = verdicts[0].misses.as_slice() else {
        panic!("{verdicts:?}")
    };
    assert_eq!(miss.requirement, "region = west");
    assert_eq!(miss.found, "no label `region`, but `Region`");
    assert_eq!(verdicts[1].misses.len(), 4);
    assert_eq!(verdicts[1].misses[0].requirement, "workspace = nobody");
}

proptest! {
    #[test]
    fn a_pair_is_assigned_exactly_when_some_policy_misses_nothing(
        wanted in "[ab]", label in "[ab]", type_wanted in "[ab]", type_label in "[ab]",
    ) {
        let plane = plane(
            &[
                policy("p", "", &format!("{{k: {wanted}}}"), &format!("{{k: {type_wanted}}}")),
                cluster_type("c", &format!("{{k: {type_label}}}")),
            ],
            &[("t", "team", &[("k", &label)])],
        );
        let assigned = !schedule(&plane, &SchedulerAnswers::default()).assignments.is_empty();
        let verdicts = explain::explain(&plane, &SchedulerAnswers::default(), &plane.targets["t"], plane.cluster_types.get("c"));
        prop_assert_eq!(assigned, verdicts[0].misses.is_empty());
    }
}
