//! The checks of a promotion policy: read as they are written, and each mistake is an error at its place.

use std::sync::Arc;

use crate::diagnostic::{Diagnostics, SourceFile};
use crate::kinds::{Object, read_file};

/// The rules of a policy with this text below `spec`, or what is wrong with it.
fn rules(more: &str) -> Result<outhaul_bundle::hub_api::GateRules, String> {
    let text = format!(
        "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata: {{name: to-stage}}\nspec:\n  from: dev\n  to: stage\n{more}"
    );
    let name = "p.yaml".into();
    let mut findings = Diagnostics::new();
    let mut objects = read_file(&Arc::new(SourceFile { name, text }), &mut findings);
    match objects.pop() {
        Some(Object::Promotion(policy)) if findings.is_empty() => Ok(policy.rules),
        _ => Err(findings.to_string()),
    }
}

#[test]
fn checks_are_read_with_age_and_who_may_state_them() {
    let found = rules(
        "  checks:\n  - name: scan\n    maxAgeHours: 24\n    by: [ci, scanner]\n  - name: smoke-test\n",
    )
    .unwrap();
    let json = serde_json::to_string(&found).unwrap();
    assert_eq!(
        json,
        r#"{"checks":[{"name":"scan","max_age_hours":24,"by":["ci","scanner"]},{"name":"smoke-test"}]}"#
    );
    assert!(
        !found.is_simple(),
        "a hub that knows no rules cannot decide it"
    );
}

#[test]
fn a_check_that_cannot_hold_is_an_error_and_never_no_check() {
    for (wrong, part) in [
        ("  - name: scan\n  - name: scan\n", "is in the list twice"),
        ("  - name: scan\n    maxAgeHours: 0\n", "maxAgeHours"),
        ("  - name: two words\n", "name"),
        ("  - maxAgeHours: 4\n", "name"),
        ("  - name: scan\n    by: [\" \"]\n", "none of them empty"),
        ("  - name: scan\n    by: []\n", "leave `by` out"),
        ("  - name: scan\n    maxAge: 4\n", "maxAge"),
    ] {
        let problem = rules(&format!("  checks:\n{wrong}")).unwrap_err();
        assert!(problem.contains(part), "{wrong}: {problem}");
    }
    for (wrong, part) in [
        ("  windows: []\n", "`windows` has no entry"),
        (
            "  windows: [{days: [mon, mon], from: \"08:00\", until: \"17:00\"}]\n",
            "`mon` is in `days` twice",
        ),
        (
            "  checks: [{name: scan, by: [a, a]}]\n",
            "`a` is in `by` twice",
        ),
        (
            "  approvals: {needed: 1, by: [alice, Alice]}\n",
            "`alice` and `Alice` in `by` differ in capital letters only",
        ),
        (
            "  parts: [{workload: w, soakHours: 2}, {workload: w, soakHours: 4}]\n",
            "an earlier entry of `parts` is for the same sites",
        ),
    ] {
        let problem = rules(wrong).unwrap_err();
        assert!(problem.contains(part), "{wrong}: {problem}");
    }
    rules("  parts: [{workload: w, soakHours: 2}, {clusterType: w, soakHours: 4}]\n").unwrap();
    let no_day = "  windows: [{days: [], from: \"08:00\", until: \"17:00\"}]\n";
    let problem = rules(no_day).unwrap_err();
    assert!(problem.contains("leave `days` out"), "{problem}");
}
