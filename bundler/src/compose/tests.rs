//! Composition: the laws of merging, and where values come from.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use outhaul_gocompat::{Decoder, decode_yaml};
use proptest::prelude::*;

use super::*;

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
        "[ab]{0,2}".prop_map(GoValue::Str)
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
        if !merge::merges(&a, &b) {
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
