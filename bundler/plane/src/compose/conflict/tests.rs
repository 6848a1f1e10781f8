//! Precedence, conflicts and ambiguities, as a platform engineer meets them.

use super::super::tests::{composed, config, load, plane, printed};
use super::*;

fn policy(spec: &str) -> String {
    format!(
        "---\napiVersion: outhaul.dev/v1alpha1\nkind: CompositionPolicy\nmetadata: {{name: house}}\nspec: {{{spec}}}\n"
    )
}

/// `a` is more specific than `z`, which comes later in the alphabet.
fn two(spec: &str) -> String {
    config("a", "region: west, line: '7'", "LEVEL: debug")
        + &config("z", "region: west", "LEVEL: info")
        + &policy(spec)
}

fn level(text: &str) -> String {
    let made = composed(text).unwrap();
    let value = made.values.as_map().unwrap().get("LEVEL").unwrap();
    value.as_str().unwrap().to_owned()
}

#[test]
fn the_name_decides_unless_a_policy_says_otherwise() {
    let without = two("")
        .split("---\napiVersion: outhaul")
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(level(&without), "info");
    assert_eq!(level(&two("precedence: name")), "info");
    assert_eq!(level(&two("precedence: specificity")), "debug");
    assert_eq!(
        level(&two("precedence: priority, priorities: [z, a]")),
        "debug"
    );
    assert_eq!(
        level(&two("precedence: priority, priorities: [a, z]")),
        "info"
    );
}

#[test]
fn a_label_gives_a_priority_and_selects_nothing() {
    let text = config(
        "a",
        "region: west, outhaul.dev/priority: '10'",
        "LEVEL: debug",
    ) + &config(
        "z",
        "region: west, outhaul.dev/priority: '-1'",
        "LEVEL: info",
    ) + &policy("precedence: priority");
    assert_eq!(level(&text), "debug");
}

#[test]
fn equals_that_contradict_each_other_are_an_error_with_both_places() {
    let text = config("a", "region: west", "LEVEL: debug")
        + &config("b", "line: '7'", "LEVEL: info")
        + &policy("precedence: specificity");
    let error = composed(&text).unwrap_err();
    insta::assert_snapshot!(error.render(false));
    for declared in [
        "precedence: specificity, allowed: [LEVEL]",
        "precedence: specificity, allowed: [{key: LEVEL, containers: [a, b]}]",
        "precedence: specificity, conflicts: later-wins",
    ] {
        let text = text
            .split("---\napiVersion: outhaul")
            .next()
            .unwrap()
            .to_owned();
        assert_eq!(level(&(text + &policy(declared))), "info", "{declared}");
    }
}

#[test]
fn a_pair_that_is_not_declared_still_conflicts() {
    let text = config("a", "region: west", "LEVEL: debug")
        + &config("b", "line: '7'", "LEVEL: info")
        + &config("c", "line: '7'", "OTHER: x")
        + &policy("precedence: specificity, allowed: [{key: LEVEL, containers: [b, c]}]");
    assert!(composed(&text).is_err());
}

#[test]
fn a_stronger_container_settles_a_conflict() {
    let text = config("a", "region: west", "LEVEL: debug")
        + &config("b", "line: '7'", "LEVEL: info")
        + &config("c", "line: '7', region: west", "LEVEL: warn")
        + &policy("precedence: specificity");
    assert_eq!(level(&text), "warn");
}

#[test]
fn maps_conflict_at_the_value_that_differs() {
    let maps = |b: &str| {
        config("a", "region: west", "LIMITS: '{cpu: 1, memory: 2}'")
            + &config("b", "line: '7'", &format!("LIMITS: '{b}'"))
            + &policy("precedence: specificity")
    };
    // A quoted block is text to the reader and YAML to the composer.
    assert!(composed(&maps("{disk: 3, cpu: 1}")).is_ok());
    let error = composed(&maps("{cpu: 3}")).unwrap_err();
    let message = error.iter().next().unwrap().message.clone();
    assert_eq!(
        message,
        "`LIMITS.cpu` is set by `a` and by `b`, with equal precedence"
    );
}

#[test]
fn lists_follow_their_rule_key_by_key() {
    let lists = |spec: &str| {
        let text = config("a", "region: west", "LIST: '[{name: x, p: 1}]'")
            + &config("b", "line: '7', region: west", "LIST: '[{name: x, q: 2}]'")
            + &policy(spec);
        let made = composed(&text).unwrap();
        super::super::schema::to_json(made.values.as_map().unwrap().get("LIST").unwrap())
            .to_string()
    };
    assert_eq!(lists("arrays: by-name"), r#"[{"name":"x","p":1,"q":2}]"#);
    assert_eq!(
        lists("arrays: append"),
        r#"[{"name":"x","p":1},{"name":"x","q":2}]"#
    );
    assert_eq!(lists("arrays: replace"), r#"[{"name":"x","q":2}]"#);
    assert_eq!(
        lists("arrays: replace, arraysByKey: {LIST: by-name}"),
        r#"[{"name":"x","p":1,"q":2}]"#
    );
}

#[test]
fn ambiguities_are_found_with_and_without_a_policy() {
    let text = config("a", "region: west", "LEVEL: debug")
        + &config("b", "region: west", "LEVEL: info")
        + &config("c", "region: west", "OTHER: x")
        + &config("d", "line: '7'", "LEVEL: warn");
    let found = |text: &str| {
        let line = |a: Ambiguity| format!("{} {} {}", a.path, a.loser, a.winner);
        let all = ambiguities(&plane(text), Mode::default());
        all.into_iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(found(&text), ["LEVEL a b"]);
    assert_eq!(
        found(&(text.clone() + &policy("precedence: specificity"))),
        ["LEVEL a b"]
    );
    let allowed = policy("precedence: specificity, allowed: [LEVEL]");
    assert!(found(&(text.clone() + &allowed)).is_empty());
    let ranked = policy("precedence: priority, priorities: [a, b]");
    assert!(found(&(text + &ranked)).is_empty());
}

#[test]
fn what_could_never_mean_anything_is_refused() {
    let container = config("level", "region: west", "LEVEL: debug");
    let all: Vec<String> = [
        "precedence: specifity",
        "precedence: name, conflicts: error",
        "precedence: specificity, priorities: [level]",
        "precedence: priority, priorities: [levels]",
        "arrays: by-names",
        "arraysByKey: {A: by-names}",
        "allowed: [{key: A, containers: [other]}]",
        "precedense: name",
    ]
    .iter()
    .map(|spec| printed(&load(&(container.clone() + &policy(spec))).unwrap_err()))
    .collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn two_policies_are_one_too_many() {
    let second = policy("precedence: name").replace("name: house", "name: other");
    let text = policy("precedence: specificity") + &second;
    insta::assert_snapshot!(printed(&load(&text).unwrap_err()));
}

#[test]
fn priorities_are_checked_when_they_count() {
    let text = config("a", "region: west, outhaul.dev/priority: high", "A: '1'")
        + &config("b", "region: west, outhaul.dev/priority: '2'", "A: '1'")
        + &policy("precedence: priority, priorities: [b]");
    insta::assert_snapshot!(printed(&load(&text).unwrap_err()));
}
