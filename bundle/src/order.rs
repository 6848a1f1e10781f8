//! Signed orders: the centre's orders to single sites of a stream, inside the index of its bundles.
//!
//! What comes in: orders that the centre has on record. What goes out: a list in the index, so that the
//! one chain of trust that covers a bundle covers them, and an untrusted order is an untrusted
//! bundle. An order is bound to one enrolment of one site and is done once, by its number. It never
//! stops what runs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::name::Name;
use crate::number;
use crate::stream::Stream;

/// One order for one site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The site.
    pub site: Name,
    /// 1, 2, 3 … within the enrolment; a site does each once, in this order.
    #[serde(deserialize_with = "number::one")]
    pub number: u64,
    /// SHA-256 of the one-time token of the kit that the site was enrolled with: an order for an earlier
    /// life of the site is none for this one.
    pub enrolment: Digest,
    /// What to do.
    pub what: Instruction,
}

/// What a site is ordered to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Instruction {
    /// The site's key is approved.
    Approve {
        /// The key's id, 64 hexadecimal digits.
        key: Digest,
    },
    /// Follow another stream from now on.
    Move {
        /// The stream.
        to: Stream,
        /// The first number of it that the site takes: above every number that it may have seen.
        #[serde(deserialize_with = "number::one")]
        first: u64,
    },
    /// Make a new key and ask for it, signed by the old one as well.
    Rekey,
    /// Install nothing new any more. What runs goes on.
    Revoke,
}

impl Instruction {
    /// One word for reports and messages.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Approve { .. } => "approve",
            Self::Move { .. } => "move",
            Self::Rekey => "rekey",
            Self::Revoke => "revoke",
        }
    }
}

/// What is wrong with a list of orders, if anything.
pub(crate) fn problem(orders: &[Order]) -> Option<String> {
    let mut seen = BTreeSet::new();
    for order in orders {
        let Order { site, number, .. } = order;
        if *number == 0 || matches!(order.what, Instruction::Move { first: 0, .. }) {
            return Some(format!("an order for `{site}` counts from 0"));
        }
        if !seen.insert((site, order.enrolment, number)) {
            return Some(format!("order {number} for `{site}` is there twice"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(site: &str, number: u64, what: Instruction) -> Order {
        Order {
            site: site.parse().unwrap(),
            number,
            enrolment: Digest::of(site.as_bytes()),
            what,
        }
    }

    #[test]
    fn an_order_s_spelling_is_what_sites_in_the_field_read() {
        let to = Stream {
            role: "s-1".parse().unwrap(),
            environment: "stage".parse().unwrap(),
            cluster_type: "press".parse().unwrap(),
        };
        let moved = order("a", 3, Instruction::Move { to, first: 7 });
        let text = serde_json::to_value(&moved).unwrap().to_string();
        let enrolment = Digest::of(b"a");
        assert_eq!(
            text,
            format!(
                "{{\"enrolment\":\"{enrolment}\",\"number\":3,\"site\":\"a\",\"what\":{{\"first\":7,\
                 \"kind\":\"move\",\"to\":{{\"cluster_type\":\"press\",\"environment\":\"stage\",\
                 \"role\":\"s-1\"}}}}}}"
            )
        );
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), moved);
    }

    #[test]
    fn lists_that_contradict_themselves_are_refused() {
        let fine = [
            order("a", 1, Instruction::Rekey),
            order("a", 2, Instruction::Revoke),
            order("b", 1, Instruction::Revoke),
        ];
        assert_eq!(problem(&fine), None);
        let twice = [
            order("a", 1, Instruction::Rekey),
            order("a", 1, Instruction::Revoke),
        ];
        assert!(problem(&twice).unwrap().contains("twice"));
        assert!(problem(&[order("a", 0, Instruction::Rekey)]).is_some());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_give_an_order_that_is_spelled_again_alike_or_an_error(
            site in "[a-z]{1,8}", number in any::<u64>(), kind in "approve|move|rekey|revoke|x",
            extra in any::<bool>(),
        ) {
            let enrolment = Digest::of(site.as_bytes());
            let mut value = serde_json::json!({
                "site": site, "number": number, "enrolment": enrolment, "what": {"kind": kind},
            });
            if extra {
                value["more"] = true.into();
            }
            match serde_json::from_value::<Order>(value.clone()) {
                Ok(order) => {
                    prop_assert!(!extra && number <= number::MAX_NUMBER);
                    prop_assert!(matches!(&kind[..], "rekey" | "revoke"));
                    prop_assert_eq!(serde_json::to_value(&order).unwrap(), value);
                }
                Err(_) => prop_assert!(
                    extra
                        || number > number::MAX_NUMBER
                        || !matches!(&kind[..], "rekey" | "revoke")
                ),
            }
        }
    }
}
