//! Which of a site's values an assignment takes: those that its signed declaration allows.
//!
//! What comes in: the declaration of a bundle, or that there is none, and what the site keeps. What goes out: the values
//! to use, and what is not used with the reason. A value that is not used is kept: a later bundle may take it again.

use std::collections::BTreeMap;

use outhaul_bundle::Index;
use outhaul_bundle::index::site_values::SiteValues;
use outhaul_bundle::report::SiteValue;

use crate::given::{GivenValue, GivenValues};

/// What an assignment takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedValues {
    /// The values to use, by key.
    pub used: BTreeMap<String, String>,
    /// What is not used, by key, with the reason.
    pub unused: BTreeMap<String, String>,
}

/// Checks the values of one assignment.
pub fn check_values<'g>(
    declared: Option<&SiteValues>,
    given: impl Iterator<Item = (&'g str, &'g GivenValue)>,
) -> CheckedValues {
    let mut checked = CheckedValues::default();
    for (key, one) in given {
        let verdict = match declared {
            None => Err("the bundle opens no value of it to the site".to_owned()),
            Some(declared) => declared
                .rule(key)
                .and_then(|rule| rule.check(key, &one.value))
                .map_err(|error| error.to_string()),
        };
        match verdict {
            Ok(()) => drop(checked.used.insert(key.to_owned(), one.value.clone())),
            Err(why) => drop(checked.unused.insert(key.to_owned(), why)),
        }
    }
    checked
}

/// What a bundle would not take of what is used under another one (or under none): `(assignment, key, why)`. Values of
/// assignments that the bundle does not have are not among them: they are removed with the assignment.
pub fn refused_by(index: &Index, given: &GivenValues) -> Vec<(String, String, String)> {
    let mut refused = Vec::new();
    for assignment in &index.assignments {
        let name = assignment.name.as_str();
        let checked = check_values(assignment.site_values.as_ref(), given.of(name));
        let unused = checked.unused.into_iter();
        refused.extend(unused.map(|(key, why)| (name.to_owned(), key, why)));
    }
    refused
}

/// Every value with whether bundle `index` takes it, as reports state it.
pub fn statement(index: Option<&Index>, given: &GivenValues) -> Vec<SiteValue> {
    let all = given.iter().filter_map(|(assignment, key, one)| {
        let found = index.and_then(|index| {
            let mut all = index.assignments.iter();
            all.find(|found| found.name.as_str() == assignment)
        });
        let unused = match (index, found) {
            (None, _) => Some("no bundle is active".to_owned()),
            (Some(_), None) => Some("the active bundle does not have the assignment".to_owned()),
            (Some(_), Some(found)) => {
                check_values(found.site_values.as_ref(), std::iter::once((key, one)))
                    .unused
                    .remove(key)
            }
        };
        Some(SiteValue {
            assignment: assignment.parse().ok()?,
            key: key.to_owned(),
            value: one.value.clone(),
            who: one.who.clone(),
            reason: Some(one.why.clone()).filter(|why| !why.is_empty()),
            at_ms: one.at_ms,
            unused,
        })
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use outhaul_bundle::fake::FakeBundle;
    use outhaul_bundle::index::site_values::{Allowed, Form, Rule};

    use super::*;

    fn declared(maximum: i64) -> SiteValues {
        let allowed = Allowed::Integer {
            minimum: 20,
            maximum,
        };
        let about = String::new();
        let keys = BTreeMap::from([("WIDTH".to_owned(), Rule { about, allowed })]);
        SiteValues {
            form: Form::Env,
            keys,
        }
    }

    fn given(value: &str) -> GivenValues {
        let mut given = GivenValues::default();
        let one = GivenValue {
            value: value.into(),
            who: "ann".into(),
            why: String::new(),
            at_ms: 1,
        };
        assert_eq!(given.set("hello-world-test", "WIDTH", one), None);
        given
    }

    fn index(declared: Option<SiteValues>) -> Index {
        let mut index = FakeBundle::new(4, &[("site-values.env", b"WIDTH=\"62\"\n")])
            .unwrap()
            .index;
        index.assignments[0].site_values = declared;
        index
    }

    #[test]
    fn a_value_is_used_as_long_as_the_bundle_allows_it_and_kept_when_not() {
        let values = given("100");
        let wide = index(Some(declared(110)));
        assert_eq!(refused_by(&wide, &values), []);
        assert_eq!(statement(Some(&wide), &values)[0].unused, None);
        let narrow = index(Some(declared(90)));
        let refused = refused_by(&narrow, &values);
        assert_eq!(refused[0].1, "WIDTH");
        assert!(refused[0].2.contains("from 20 to 90"), "{refused:?}");
        let reported = statement(Some(&narrow), &values);
        assert_eq!(
            (reported[0].value.as_str(), reported[0].who.as_str()),
            ("100", "ann")
        );
        assert!(
            reported[0]
                .unused
                .as_ref()
                .unwrap()
                .contains("from 20 to 90")
        );
        let closed = index(None);
        assert!(refused_by(&closed, &values)[0].2.contains("opens no value"));
        let reported = statement(None, &values);
        assert_eq!(reported[0].unused.as_deref(), Some("no bundle is active"));
    }

    #[test]
    fn values_of_an_assignment_that_is_gone_keep_no_bundle_waiting() {
        let mut values = given("70");
        let one = GivenValue {
            value: "1".into(),
            who: "ann".into(),
            why: String::new(),
            at_ms: 1,
        };
        values.set("gone", "WIDTH", one);
        let index = index(Some(declared(110)));
        assert_eq!(refused_by(&index, &values), []);
        let reported = statement(Some(&index), &values);
        assert_eq!(
            reported[0].unused.as_deref(),
            Some("the active bundle does not have the assignment")
        );
        assert_eq!(values.unset("gone", "WIDTH").unwrap().value, "1");
        assert_eq!(values.unset("gone", "WIDTH"), None);
        assert_eq!(values.count(), 1);
    }
}
