//! Selectors: laws that hold for all labels, and refusals.

use proptest::prelude::*;

use super::*;

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map("[ab]", "[xy]?", 0..3)
}

proptest! {
    #[test]
    fn each_operator_and_its_opposite_divide_all_labels(
        labels in labels(), key in "[abc]", value in "[xy]?"
    ) {
        let of = |operator, values: &[&str]| {
            Requirement::new(&key, operator, values.iter().map(ToString::to_string)).unwrap()
        };
        prop_assert_ne!(
            of(Operator::In, &[&value]).matches(&labels),
            of(Operator::NotIn, &[&value]).matches(&labels)
        );
        prop_assert_ne!(
            of(Operator::Exists, &[]).matches(&labels),
            of(Operator::DoesNotExist, &[]).matches(&labels)
        );
        prop_assert_eq!(
            of(Operator::Equals, &[&value]).matches(&labels),
            of(Operator::In, &[&value]).matches(&labels)
        );
    }

    #[test]
    fn another_requirement_never_matches_more(
        labels in labels(), keys in proptest::collection::vec("[abc]", 0..4)
    ) {
        let mut selector = Selector::default();
        let mut matched = selector.matches(&labels);
        prop_assert!(matched, "no requirement matches everything");
        for key in keys {
            selector.requirements.push(Requirement::new(&key, Operator::Exists, []).unwrap());
            let now = selector.matches(&labels);
            prop_assert!(matched || !now);
            prop_assert_eq!(now, selector.failing(&labels).next().is_none());
            matched = now;
        }
    }
}

#[test]
fn what_kubernetes_refuses_is_refused() {
    let one = || ["b".to_owned()];
    for key in [
        "",
        "a-",
        "-a",
        "/a",
        "a/",
        "A.b/c",
        "a..b/c",
        "é",
        "a b",
        &"k".repeat(64),
        "a/b/c",
    ] {
        assert!(Requirement::new(key, Operator::In, one()).is_err(), "{key}");
    }
    for value in ["b-", "b c", "b/c", "b\n", "é", &"v".repeat(64)] {
        assert!(
            Requirement::new("a", Operator::In, [value.to_owned()]).is_err(),
            "{value}"
        );
    }
    assert!(Requirement::new("a", Operator::In, []).is_err());
    assert!(Requirement::new("a", Operator::Exists, one()).is_err());
    assert!(Requirement::new("example.org/a_b.c-d", Operator::Equals, [String::new()]).is_ok());
}
