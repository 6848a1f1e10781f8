//! Times, windows and bounds of rules.

use super::*;

#[test]
fn times_are_read_as_the_calendar_has_them() {
    assert_eq!(time_ms("1970-01-01"), Some(0));
    assert_eq!(time_ms("2026-11-22T16:13:39Z"), Some(1_795_364_019_000));
    assert_eq!(time_ms("2024-02-29"), Some(1_709_164_800_000));
    for wrong in [
        "2026-02-29",
        "2026-13-01",
        "2026-1-1",
        "2026-12-20T18:00",
        "2026-12-20T24:00:00Z",
        "x",
        "",
    ] {
        assert_eq!(time_ms(wrong), None, "{wrong}");
    }
}

#[test]
fn a_window_holds_its_days_and_minutes_only() {
    let window = PromotionWindow {
        days: BTreeSet::from([Day::Mon]),
        from: "08:00".into(),
        until: "17:00".into(),
    };
    let at = |text| window.holds(time_ms(text).unwrap());
    assert!(at("2026-11-23T08:00:00Z") && at("2026-11-23T16:59:59Z"));
    assert!(!at("2026-11-23T17:00:00Z") && !at("2026-11-22T09:00:00Z"));
    let night = PromotionWindow {
        from: "22:00".into(),
        until: "06:00".into(),
        ..window
    };
    night.check().unwrap_err();
    assert!(!night.holds(0));
}

#[test]
fn rules_that_cannot_hold_are_refused_and_unknown_ones_too() {
    serde_json::from_str::<GateRules>("{\"sokehours\": 3}").unwrap_err();
    let approvals = |needed, by: &[&str]| GateRules {
        approvals: Some(ApprovalRule {
            needed,
            by: by.iter().map(|name| (*name).to_owned()).collect(),
        }),
        ..GateRules::default()
    };
    approvals(1, &["ann"]).check().unwrap();
    approvals(2, &["ann"]).check().unwrap_err();
    approvals(0, &["ann"]).check().unwrap_err();
    let rules = GateRules {
        soak_hours: Some(0),
        ..GateRules::default()
    };
    rules.check().unwrap_err();
    let rules = GateRules {
        parts: vec![PartRule::default()],
        ..GateRules::default()
    };
    rules.check().unwrap_err();
}
