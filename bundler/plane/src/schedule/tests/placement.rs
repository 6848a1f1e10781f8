//! Placement: the laws of choosing, and what is reported to people about what was not chosen.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::choose::{LimitResult, choose};
use super::super::{AssignmentId, SchedulerAnswers, explain, schedule};
use outhaul_control::ControlPlane;
use outhaul_test_planes::shorthand::plane;

fn pairs(plane: &ControlPlane) -> BTreeMap<String, String> {
    let schedule = schedule(plane, &SchedulerAnswers::default());
    let line = |(id, a): (&AssignmentId, &super::super::Assignment)| {
        (id.to_string(), a.policies.join("+"))
    };
    schedule.assignments.iter().map(line).collect()
}

const FLEET: &str = "
kind: ClusterType a {zone: north, disk: ssd}
kind: ClusterType b {zone: north, disk: ssd, gpu: 'yes'}
kind: ClusterType c {zone: south, disk: hdd}
kind: ClusterType d {zone: south, disk: ssd}
kind: ClusterType e {disk: ssd, gpu: 'yes'}
target: t {}
";

fn names(placement: &str) -> String {
    let plane = plane(&format!("{FLEET}policy: p {{}} {{}} {placement}\n"));
    let names: Vec<String> = pairs(&plane).into_keys().collect();
    names.join(" ").replace("/t", "")
}

#[test]
fn terms_are_alternatives_and_what_is_in_one_term_must_hold_together() {
    assert_eq!(names("{}"), "a b c d e");
    let term = |labels: &str| format!("{{labelSelector: {{matchLabels: {labels}}}}}");
    let north = term("{zone: north, disk: ssd}");
    let gpu = term("{gpu: 'yes'}");
    assert_eq!(names(&format!("{{required: [{north}]}}")), "a b");
    assert_eq!(names(&format!("{{required: [{north}, {gpu}]}}")), "a b e");
}

#[test]
fn the_best_are_taken_and_names_decide_between_equals() {
    let prefer = "preferred: [{weight: 10, labelSelector: {matchLabels: {disk: ssd}}}, \
                  {weight: 5, labelSelector: {matchLabels: {zone: south}}}]";
    assert_eq!(names("{maxClusterTypes: 2}"), "a b");
    assert_eq!(names(&format!("{{maxClusterTypes: 1, {prefer}}}")), "d");
    assert_eq!(names(&format!("{{maxClusterTypes: 3, {prefer}}}")), "a b d");
    assert_eq!(
        names(&format!("{{spread: {{label: zone}}, {prefer}}}")),
        "a d"
    );
    assert_eq!(names("{spread: {label: disk, maxPerValue: 2}}"), "a b c");
    assert_eq!(names("{spread: {label: disk}, maxClusterTypes: 1}"), "a");
}

#[test]
fn a_taint_keeps_away_whoever_does_not_tolerate_it() {
    let tainted = |taint: &str, policy: &str| {
        let text = format!("{FLEET}taint: x {{gpu: 'yes'}} {taint}\n{policy}\n");
        let names: Vec<String> = pairs(&plane(&text)).into_keys().collect();
        names.join(" ").replace("/t", "")
    };
    let own = |placement: &str| format!("policy: p {{}} {{}} {placement}");
    let strict = "dedicated=ml:NoSchedule";
    // Kalypso's policies cannot tolerate anything.
    assert_eq!(tainted(strict, "kalypso: k {}"), "a c d");
    assert_eq!(tainted(strict, &own("{}")), "a c d");
    for tolerated in [
        "{operator: Exists}",
        "{key: dedicated, operator: Exists}",
        "{key: dedicated, value: ml}",
        "{key: dedicated, operator: Equal, value: ml, effect: NoSchedule}",
    ] {
        let policy = own(&format!("{{tolerations: [{tolerated}]}}"));
        assert_eq!(tainted(strict, &policy), "a b c d e", "{tolerated}");
    }
    for other in [
        "{key: dedicated}",
        "{key: dedicated, value: web}",
        "{key: other, operator: Exists}",
        "{operator: Exists, effect: PreferNoSchedule}",
    ] {
        let policy = own(&format!("{{tolerations: [{other}]}}"));
        assert_eq!(tainted(strict, &policy), "a c d", "{other}");
    }
    // It is only put last: taken where there is room.
    let mild = "dedicated=ml:PreferNoSchedule";
    assert_eq!(tainted(mild, "kalypso: k {}"), "a b c d e");
    assert_eq!(tainted(mild, &own("{maxClusterTypes: 3}")), "a c d");
    assert_eq!(tainted(mild, &own("{maxClusterTypes: 4}")), "a b c d");
}

#[test]
fn every_rejection_says_why() {
    let text = format!(
        "{FLEET}taint: ml-only {{gpu: 'yes'}} dedicated=ml:NoSchedule\n\
         taint: worn {{zone: south}} worn=:PreferNoSchedule\n\
         kalypso: k {{matchLabels: {{zone: west}}}}\n\
         policy: best {{}} {{}} {{maxClusterTypes: 2, preferred: [{{weight: 80, labelSelector: {{matchLabels: {{disk: ssd}}}}}}], \
         tolerations: [{{key: dedicated, operator: Exists}}]}}\n\
         policy: one-each {{}} {{}} {{spread: {{label: zone}}, tolerations: [{{operator: Exists}}]}}\n\
         policy: picky {{}} {{}} {{required: [{{labelSelector: {{matchLabels: {{disk: nvme}}}}}}, {{labelSelector: {{matchLabels: {{zone: west}}}}}}]}}\n"
    );
    let plane = plane(&text);
    let mut reported = String::new();
    for cluster_type in plane.cluster_types.values() {
        for verdict in explain::explain(
            &plane,
            &SchedulerAnswers::default(),
            &plane.targets["t"],
            Some(cluster_type),
        ) {
            let _ = writeln!(reported, "{} {}", cluster_type.name, verdict.policy);
            if let Some(weight) = &verdict.weight {
                let _ = writeln!(reported, "    {}", weight.sentence());
            }
            for miss in &verdict.misses {
                let _ = writeln!(reported, "  - {}", miss.sentence());
            }
        }
    }
    insta::assert_snapshot!(reported);
}

#[test]
fn what_meets_nothing_is_linted() {
    let text = format!(
        "{FLEET}taint: ml-only {{gpu: 'yes'}} dedicated=ml:NoSchedule\n\
         taint: typo {{zone: noth}} a=b:NoSchedule\n\
         policy: gpus {{}} {{matchLabels: {{gpu: 'yes'}}}} {{tolerations: [{{key: dedicatd, operator: Exists}}, {{key: dedicated, value: web}}]}}\n\
         policy: odd {{}} {{}} {{maxClusterTypes: 1, preferred: [{{weight: 1, labelSelector: {{matchLabels: {{dsk: ssd}}}}}}]}}\n\
         policy: none {{}} {{}} {{required: [{{labelSelector: {{matchLabels: {{zone: north, disk: hdd}}}}}}]}}\n\
         policy: apart {{}} {{}} {{spread: {{label: rack}}}}\n"
    );
    let mut findings = super::super::lints::lints(&plane(&text));
    findings.sort();
    let line = |d: &outhaul_control::Diagnostic| {
        let related: Vec<&str> = d.related.iter().map(|(_, text)| text.as_str()).collect();
        let help = d.help.as_deref().unwrap_or_default();
        format!(
            "{}: {} [{}] ({help})",
            d.code,
            d.message,
            related.join(", ")
        )
    };
    let lines: Vec<String> = findings.iter().map(line).collect();
    insta::assert_snapshot!(lines.join("\n"));
    assert!(super::super::lints::lints(&plane(FLEET)).is_empty());
}

fn fleet() -> impl Strategy<Value = String> {
    let label = (0..4_u8, 0..3_u8);
    proptest::collection::vec(label, 1..8).prop_map(|labels| {
        let line = |(at, (zone, disk)): (usize, &(u8, u8))| {
            // Zone 3 is none.
            let zone = if *zone == 3 {
                String::new()
            } else {
                format!("zone: z{zone}, ")
            };
            format!("kind: ClusterType c{at} {{{zone}disk: d{disk}}}\n")
        };
        let types: String = labels.iter().enumerate().map(line).collect();
        format!("{types}target: t {{}}\ntarget: u {{}}\n")
    })
}

fn policy() -> impl Strategy<Value = String> {
    let weight = (1..=100_u8, 0..3_u8);
    (
        proptest::option::of(1..4_u8),
        proptest::option::of(1..3_u8),
        proptest::collection::vec(weight, 0..3),
        any::<bool>(),
    )
        .prop_map(|(most, spread, weights, tolerates)| {
            let mut parts = Vec::new();
            parts.extend(most.map(|n| format!("maxClusterTypes: {n}")));
            parts.extend(spread.map(|n| format!("spread: {{label: zone, maxPerValue: {n}}}")));
            // Only with a limit: without one, preferences are warned of.
            if !weights.is_empty() && !parts.is_empty() {
                let terms: Vec<String> = weights
                    .iter()
                    .map(|(w, d)| {
                        format!("{{weight: {w}, labelSelector: {{matchLabels: {{disk: d{d}}}}}}}")
                    })
                    .collect();
                parts.push(format!("preferred: [{}]", terms.join(", ")));
            }
            if tolerates {
                parts.push("tolerations: [{operator: Exists}]".to_owned());
            }
            format!("{{{}}}", parts.join(", "))
        })
}

const TAINT: &str =
    "taint: x {disk: d0} k=v:NoSchedule\ntaint: y {disk: d1} k=v:PreferNoSchedule\n";

proptest! {
    #[test]
    fn limits_hold_and_nothing_that_fits_is_left_out(fleet in fleet(), one in policy()) {
        let plane = plane(&format!("{fleet}{TAINT}policy: p {{}} {{}} {one}\n"));
        let policy = &plane.policies["p"];
        let choice = choose(&plane, policy);
        let taken: Vec<_> = choice.candidates.iter().filter(|c| c.taken()).collect();
        let most = policy.placement.max_cluster_types.as_ref().map_or(99, |m| m.value as usize);
        prop_assert!(taken.len() <= most);
        let mut by_zone: BTreeMap<&str, u32> = BTreeMap::new();
        for candidate in &taken {
            if let Some(spread) = &policy.placement.spread {
                let zone = candidate.cluster_type.labels.get("zone");
                prop_assert!(zone.is_some());
                let count = by_zone.entry(zone.unwrap()).or_default();
                *count += 1;
                prop_assert!(*count <= spread.max_per_value);
            }
            let tolerates = !policy.placement.tolerations.is_empty();
            prop_assert!(tolerates || candidate.cluster_type.labels["disk"] != "d0");
        }
        for candidate in choice.candidates.iter().filter(|c| !c.taken()) {
            // Something stands in its way that really does.
            let zone = candidate.cluster_type.labels.get("zone");
            match &candidate.place {
                LimitResult::Beyond => prop_assert_eq!(taken.len(), most),
                LimitResult::Crowded { value } => {
                    let spread = policy.placement.spread.as_ref().unwrap();
                    prop_assert_eq!(by_zone[value], spread.max_per_value);
                }
                LimitResult::Unspread => prop_assert!(zone.is_none()),
                LimitResult::Taken => prop_assert!(false),
            }
        }
        // Every pair of a chosen cluster type and a selected target is there, and no other.
        prop_assert_eq!(pairs(&plane).len(), taken.len() * 2);
    }

    #[test]
    fn no_other_choice_within_the_limits_scores_higher(fleet in fleet(), one in policy()) {
        let plane = plane(&format!("{fleet}policy: p {{}} {{}} {one}\n"));
        let policy = &plane.policies["p"];
        let choice = choose(&plane, policy);
        let score: u32 = choice.candidates.iter().filter(|c| c.taken()).map(|c| c.score).sum();
        // Every subset, which eight cluster types allow.
        for subset in 0..1_u32 << choice.candidates.len() {
            let members: Vec<_> = choice
                .candidates
                .iter()
                .enumerate()
                .filter(|(at, _)| subset & (1 << at) != 0)
                .map(|(_, c)| c)
                .collect();
            let chosen = members
                .iter()
                .map(|c| super::super::answers::ChosenPair {
                    target: "t".into(),
                    cluster_type: c.cluster_type.name.clone(),
                })
                .map(|pair| (pair, String::new()))
                .collect();
            if super::super::choose::broken_limit(&plane, policy, &chosen).is_none() {
                let other: u32 = members.iter().map(|c| c.score).sum();
                prop_assert!(other <= score, "{other} > {score}");
            }
        }
    }

    #[test]
    fn a_further_policy_takes_nothing_from_another(fleet in fleet(), one in policy(), two in policy()) {
        let alone = plane(&format!("{fleet}{TAINT}policy: p {{}} {{}} {one}\n"));
        let both = plane(&format!("{fleet}{TAINT}policy: p {{}} {{}} {one}\npolicy: a {{}} {{}} {two}\n"));
        let (alone, both) = (pairs(&alone), pairs(&both));
        for id in alone.keys() {
            prop_assert!(both[id].split('+').any(|name| name == "p"), "{id}");
        }
        let of_p = both.values().filter(|names| names.split('+').any(|name| name == "p"));
        prop_assert_eq!(of_p.count(), alone.len());
    }

    #[test]
    fn explain_and_schedule_agree(fleet in fleet(), one in policy(), two in policy()) {
        let plane = plane(&format!("{fleet}{TAINT}policy: p {{}} {{}} {one}\npolicy: a {{}} {{zone: x}} {two}\n")
            .replace("{zone: x}", "{matchLabels: {zone: z1}}"));
        let assigned = pairs(&plane);
        for cluster_type in plane.cluster_types.values() {
            let verdicts = explain::explain(&plane, &SchedulerAnswers::default(), &plane.targets["t"], Some(cluster_type));
            let mut by: Vec<&str> = verdicts
                .iter()
                .filter(|v| v.misses.is_empty())
                .map(|v| v.policy.as_str())
                .collect();
            by.sort_unstable();
            let id = format!("{}/t", cluster_type.name);
            prop_assert_eq!(assigned.get(&id).cloned().unwrap_or_default(), by.join("+"));
        }
    }
}
