//! Assigned: which targets one cluster type had, which policies put them there, and on which sites.
//!
//! What comes in: targets with their policies, in order of their names. What goes out: whether a newer
//! list is the same one, and each entry again. All names lie in one text: tens of thousands of entries
//! are compared for every change, most of them in vain, and reading in a row is what memory is fast at.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
use serde::{Deserialize, Serialize};

/// What an entry is compared by: the policies, and where it is for some sites only a digest of their names.
/// A policy's name has no colon.
pub(in crate::render) fn reasons<'a>(
    policies: &'a [String],
    sites: Option<&BTreeSet<String>>,
) -> Cow<'a, [String]> {
    let Some(sites) = sites else {
        return Cow::Borrowed(policies);
    };
    let names: Vec<&str> = sites.iter().map(String::as_str).collect();
    let mut reasons = policies.to_vec();
    reasons.push(format!("sites:{}", Digest::of(names.join("\n").as_bytes())));
    Cow::Owned(reasons)
}

/// The entries of one cluster type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    from = "BTreeMap<String, Vec<String>>",
    into = "BTreeMap<String, Vec<String>>"
)]
pub(in crate::render) struct Assigned {
    /// Every name, without anything between them.
    text: String,
    /// For each entry: bytes of the target's name, how many policies, and bytes of each one's name.
    lengths: Vec<usize>,
}

/// What is left of a list.
#[derive(Debug, Clone, Copy)]
struct RemainingFiles<'r> {
    text: &'r str,
    lengths: &'r [usize],
}

impl<'r> RemainingFiles<'r> {
    fn number(&mut self) -> Option<usize> {
        let (first, rest) = self.lengths.split_first()?;
        self.lengths = rest;
        Some(*first)
    }

    fn name(&mut self) -> Option<&'r str> {
        let length = self.number()?;
        let (name, rest) = self.text.split_at_checked(length)?;
        self.text = rest;
        Some(name)
    }

    /// Whether the next entry is this one; it is passed by then.
    fn skips(&mut self, target: &str, policies: &[String]) -> bool {
        self.name() == Some(target)
            && self.number() == Some(policies.len())
            && policies.iter().all(|policy| self.name() == Some(policy))
    }
}

impl Assigned {
    pub fn push(&mut self, target: &str, policies: &[String]) {
        self.lengths.extend([target.len(), policies.len()]);
        self.text.push_str(target);
        for policy in policies {
            self.lengths.push(policy.len());
            self.text.push_str(policy);
        }
    }

    fn rest(&self) -> RemainingFiles<'_> {
        RemainingFiles {
            text: &self.text,
            lengths: &self.lengths,
        }
    }

    /// Whether it holds exactly these.
    pub fn holds<'n>(
        &self,
        mut entries: impl Iterator<Item = (&'n str, Cow<'n, [String]>)>,
    ) -> bool {
        let mut rest = self.rest();
        entries.all(|(target, policies)| rest.skips(target, &policies)) && rest.lengths.is_empty()
    }

    /// Every target, in order, with its policies.
    pub fn entries(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        let mut rest = self.rest();
        std::iter::from_fn(move || {
            let target = rest.name()?;
            let count = rest.number()?;
            Some((target, (0..count).map_while(|_| rest.name()).collect()))
        })
    }
}

impl Assigned {
    /// The same without some targets.
    pub fn without(&self, targets: &BTreeSet<&str>) -> Self {
        let mut assigned = Self::default();
        for (target, policies) in self.entries().filter(|(name, _)| !targets.contains(name)) {
            let policies: Vec<String> = policies.into_iter().map(str::to_owned).collect();
            assigned.push(target, &policies);
        }
        assigned
    }
}

impl From<BTreeMap<String, Vec<String>>> for Assigned {
    fn from(entries: BTreeMap<String, Vec<String>>) -> Self {
        let mut assigned = Self::default();
        for (target, policies) in &entries {
            assigned.push(target, policies);
        }
        assigned
    }
}

impl From<Assigned> for BTreeMap<String, Vec<String>> {
    fn from(assigned: Assigned) -> Self {
        let owned = |(target, policies): (&str, Vec<&str>)| {
            let policies = policies.into_iter().map(str::to_owned);
            (target.to_owned(), policies.collect())
        };
        assigned.entries().map(owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Entries = BTreeMap<String, Vec<String>>;

    fn holds(assigned: &Assigned, entries: &Entries) -> bool {
        let entries = entries.iter();
        assigned.holds(
            entries.map(|(target, policies)| (target.as_str(), Cow::Borrowed(policies.as_slice()))),
        )
    }

    fn entries() -> impl Strategy<Value = Entries> {
        let policies = proptest::collection::vec("[ab]{0,2}", 0..3);
        proptest::collection::btree_map("[ab]{0,2}", policies, 0..4)
    }

    proptest! {
        #[test]
        fn it_holds_what_went_in_and_nothing_else(one in entries(), other in entries()) {
            let assigned = Assigned::from(one.clone());
            prop_assert!(holds(&assigned, &one));
            prop_assert_eq!(holds(&assigned, &other), one == other);
            prop_assert_eq!(Entries::from(assigned), one);
        }
    }
}
