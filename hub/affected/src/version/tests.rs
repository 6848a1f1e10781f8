//! Against dpkg itself where it is here, and against the order that apk's own tests have.

use std::process::Command;

use proptest::prelude::*;

use super::*;

#[test]
fn dpkg_has_this_order() {
    for (a, order, b) in [
        ("1.0", Ordering::Less, "1.1"),
        ("1.0~rc1", Ordering::Less, "1.0"),
        ("1.0", Ordering::Less, "1.0a"),
        ("1.0a", Ordering::Less, "1.0+"),
        ("1:0", Ordering::Greater, "2"),
        ("1.10", Ordering::Greater, "1.9"),
        ("1.0-1", Ordering::Less, "1.0-1+deb12u1"),
        ("3.0.11-1~deb12u2", Ordering::Less, "3.0.11-1"),
        ("1.0", Ordering::Equal, "1.0-0"),
        ("1.0", Ordering::Equal, "0:1.0"),
        ("1.007", Ordering::Equal, "1.7"),
        ("123456789012345678901234567890", Ordering::Greater, "9"),
    ] {
        assert_eq!(deb(a, b), order, "{a} {b}");
        assert_eq!(deb(b, a), order.reverse(), "{b} {a}");
    }
}

/// What `dpkg --compare-versions` says; `None` without dpkg, and for what it does not take as a version.
fn by_dpkg(a: &str, b: &str) -> Option<Ordering> {
    let holds = |operator: &str| {
        let ran = Command::new("dpkg")
            .args(["--compare-versions", a, operator, b])
            .output();
        let ran = ran.ok().filter(|ran| ran.stderr.is_empty())?;
        Some(ran.status.success())
    };
    match (holds("lt")?, holds("gt")?) {
        (true, _) => Some(Ordering::Less),
        (_, true) => Some(Ordering::Greater),
        _ => Some(Ordering::Equal),
    }
}

const VERSION: &str = "([0-9]:)?[0-9][0-9a-c.+~]{0,6}(-[0-9a-c.+~]{1,4})?";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn dpkg_says_the_same(a in VERSION, b in VERSION) {
        if let Some(order) = by_dpkg(&a, &b) {
            prop_assert_eq!(deb(&a, &b), order, "{} {}", a, b);
        }
    }
}

proptest! {
    #[test]
    fn any_texts_have_an_order_that_does_not_contradict_itself(a in ".{0,12}", b in ".{0,12}", c in ".{0,12}") {
        for compare in [deb, apk] {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            prop_assert_eq!(compare(&a, &a), Ordering::Equal);
            if compare(&a, &b) == Ordering::Less && compare(&b, &c) == Ordering::Less {
                prop_assert_eq!(compare(&a, &c), Ordering::Less, "{} {} {}", a, b, c);
            }
        }
    }
}

/// Facts about apk's order, each of which its own tests have in one form or another.
#[test]
fn apk_has_this_order() {
    for (a, order, b) in [
        ("3.1.4-r5", Ordering::Less, "3.1.4-r6"),
        ("3.1.4-r9", Ordering::Less, "3.1.4-r10"),
        ("1.2.4", Ordering::Equal, "1.2.4-r0"),
        ("1.2", Ordering::Less, "1.2.1"),
        ("1.2.10", Ordering::Greater, "1.2.9"),
        ("1.2a", Ordering::Greater, "1.2"),
        ("1.2a", Ordering::Less, "1.2b"),
        ("1.2_rc1", Ordering::Less, "1.2"),
        ("1.2_alpha", Ordering::Less, "1.2_beta"),
        ("1.2_beta3", Ordering::Less, "1.2_pre1"),
        ("1.2_pre1", Ordering::Less, "1.2_rc1"),
        ("1.2_p1", Ordering::Greater, "1.2"),
        ("1.2_git20240101", Ordering::Greater, "1.2"),
        ("1.2_p1", Ordering::Less, "1.2_p2"),
        ("1.01", Ordering::Less, "1.1"),
        ("2.0", Ordering::Greater, "1.9.9"),
    ] {
        assert_eq!(apk(a, b), order, "{a} {b}");
        assert_eq!(apk(b, a), order.reverse(), "{b} {a}");
    }
}
