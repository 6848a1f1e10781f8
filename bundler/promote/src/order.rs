//! The promotion chain: which environment comes before which.
//!
//! What comes in: the environments of a control plane and its promotion policies. What goes out: for
//! each environment whether it is the first, which ones come before it, or that it cannot be known. A
//! promotion policy or the label `outhaul.dev/after` decides; without either the usual names do (`dev`,
//! `test`, `stage`, `prod`). What cannot be known is never taken for the first. It is pure.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_control::model::{Environment, PromotionPolicy};

/// Where an environment is in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainPlace {
    /// It is the first: no gate is before it.
    First,
    /// The gate of one of these decides.
    After(BTreeSet<String>, OrderSource),
    /// Nothing says where it is.
    Unknown,
}

/// What the order was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderSource {
    /// A policy or a label, written there.
    Written(String),
    /// The usual order of names.
    Names,
}

impl std::fmt::Display for OrderSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Written(at) => f.write_str(at),
            Self::Names => f.write_str("the usual order of these names"),
        }
    }
}

/// The chain.
#[derive(Debug, Clone, Default)]
pub struct PromotionOrder {
    before: BTreeMap<String, ChainPlace>,
}

impl PromotionOrder {
    /// The order of `environments`.
    pub fn of<'p>(
        environments: &BTreeMap<String, Environment>,
        policies: impl IntoIterator<Item = &'p PromotionPolicy>,
    ) -> Self {
        let mut written: BTreeMap<String, (BTreeSet<String>, String)> = BTreeMap::new();
        for policy in policies {
            let at = format!("promotion policy, {}", policy.location.file_line());
            let known = written.entry(policy.to.value.clone());
            let (names, _) = known.or_insert_with(|| (BTreeSet::new(), at));
            names.insert(policy.from.value.clone());
        }
        for environment in environments.values() {
            let Some(after) = &environment.after else {
                continue;
            };
            let at = format!("label, {}", after.location.file_line());
            let known = written.entry(environment.name.clone());
            let (names, _) = known.or_insert_with(|| (BTreeSet::new(), at));
            names.insert(after.value.clone());
        }
        let mut sources = written.values().flat_map(|(names, _)| names.iter());
        let sources: BTreeSet<&String> = sources.by_ref().collect();
        let before = environments.keys().map(|name| {
            let before = match written.get(name) {
                Some((names, at)) => {
                    ChainPlace::After(names.clone(), OrderSource::Written(at.clone()))
                }
                None => by_name(name, environments, |other| {
                    written.contains_key(other) || sources.contains(other)
                }),
            };
            let before = match before {
                // People named it as the start of a step, and nothing as a step to it.
                ChainPlace::Unknown if sources.contains(name) => ChainPlace::First,
                other => other,
            };
            (name.clone(), before)
        });
        Self {
            before: before.collect(),
        }
    }

    /// Where `environment` is; [`ChainPlace::Unknown`] for one that the control plane does not list.
    pub fn before(&self, environment: &str) -> &ChainPlace {
        self.before.get(environment).unwrap_or(&ChainPlace::Unknown)
    }

    /// Whether the chain leads from `earlier` to `later`, by any number of steps.
    pub fn comes_before(&self, earlier: &str, later: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = vec![later];
        while let Some(name) = next.pop() {
            if let ChainPlace::After(names, _) = self.before(name) {
                if names.contains(earlier) {
                    return true;
                }
                next.extend(
                    names
                        .iter()
                        .map(String::as_str)
                        .filter(|name| seen.insert(*name)),
                );
            }
        }
        false
    }

    /// Whether the chain leads from one environment to the other in one step.
    pub fn leads(&self, from: &str, to: &str) -> bool {
        matches!(self.before(to), ChainPlace::After(names, _) if names.contains(from))
    }

    /// Whether there is any environment.
    pub fn is_empty(&self) -> bool {
        self.before.is_empty()
    }

    /// The environments that nothing comes after, for a new one to come after them.
    pub fn last(&self) -> Vec<&str> {
        let mut followed = BTreeSet::new();
        for before in self.before.values() {
            if let ChainPlace::After(names, _) = before {
                followed.extend(names.iter().map(String::as_str));
            }
        }
        let names = self.before.keys().map(String::as_str);
        names.filter(|name| !followed.contains(name)).collect()
    }
}

fn by_name(
    name: &str,
    environments: &BTreeMap<String, Environment>,
    is_placed: impl Fn(&String) -> bool,
) -> ChainPlace {
    if environments.len() == 1 {
        return ChainPlace::First;
    }
    let Some(own) = rank(name) else {
        return ChainPlace::Unknown;
    };
    let ranks = environments.keys().filter_map(|other| rank(other));
    let Some(nearest) = ranks.filter(|rank| *rank < own).max() else {
        // A name that says nothing may come before it.
        let mut others = environments.keys().filter(|other| *other != name);
        let clear = others.all(|other| rank(other).is_some() || is_placed(other));
        return if clear {
            ChainPlace::First
        } else {
            ChainPlace::Unknown
        };
    };
    let names = environments.keys().filter(|o| rank(o) == Some(nearest));
    ChainPlace::After(names.cloned().collect(), OrderSource::Names)
}

/// The usual order of environments by their names: `prod-eu` and `eu-prod` are like `prod`.
fn rank(name: &str) -> Option<u8> {
    let words: Vec<&str> = name.split(['-', '_', '.']).collect();
    let of = |word: &&str| match *word {
        "dev" | "develop" | "development" | "sandbox" => Some(0),
        "int" | "integration" | "ci" => Some(1),
        "test" | "testing" | "qa" => Some(2),
        "stage" | "staging" | "stg" | "uat" | "pre" | "preprod" | "canary" => Some(3),
        "prod" | "production" | "prd" | "live" => Some(4),
        _ => None,
    };
    // `pre-prod` comes before `prod`.
    words.iter().filter_map(of).min()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use outhaul_control::diagnostic::{Diagnostics, SourceFile};
    use outhaul_control::kinds::{self, Object};

    fn order(names: &[(&str, &str)], steps: &[(&str, &str)]) -> PromotionOrder {
        let mut text = String::new();
        for (name, after) in names {
            text.push_str(&format!(
                "---\napiVersion: scheduler.kalypso.io/v1alpha1\nkind: Environment\nmetadata: {{name: {name}, \
                 labels: {{outhaul.dev/after: \"{after}\"}}}}\nspec: {{controlPlane: {{repo: r, branch: b}}}}\n"
            ));
        }
        for (from, to) in steps {
            text.push_str(&format!(
                "---\napiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata: {{name: {from}-{to}}}\n\
                 spec: {{from: {from}, to: {to}}}\n"
            ));
        }
        let name = "e.yaml".into();
        let file = Arc::new(SourceFile { name, text });
        let mut findings = Diagnostics::new();
        let mut environments = BTreeMap::new();
        let mut policies = Vec::new();
        for object in kinds::read_file(&file, &mut findings) {
            match object {
                Object::Environment(found) => {
                    environments.insert(found.name.clone(), found);
                }
                Object::Promotion(policy) => policies.push(policy),
                other => panic!("{other:?}"),
            }
        }
        assert!(findings.is_empty(), "{findings}");
        PromotionOrder::of(&environments, &policies)
    }

    fn after(order: &PromotionOrder, name: &str) -> Vec<String> {
        match order.before(name) {
            ChainPlace::First => vec!["first".to_owned()],
            ChainPlace::After(names, _) => names.iter().cloned().collect(),
            ChainPlace::Unknown => vec![],
        }
    }

    #[test]
    fn the_usual_names_are_a_chain() {
        let plain = ["prod-eu", "prod-us", "dev", "qa", "pre-prod"].map(|name| (name, ""));
        let order = order(&plain, &[]);
        assert_eq!(after(&order, "dev"), ["first"]);
        assert_eq!(after(&order, "qa"), ["dev"]);
        assert_eq!(after(&order, "pre-prod"), ["qa"]);
        assert_eq!(after(&order, "prod-eu"), ["pre-prod"]);
        assert_eq!(after(&order, "prod-us"), ["pre-prod"]);
        assert_eq!(order.last(), ["prod-eu", "prod-us"]);
    }

    #[test]
    fn what_nothing_places_is_never_the_first() {
        let order = order(&[("moon", ""), ("prod", "")], &[]);
        assert_eq!(after(&order, "moon"), Vec::<String>::new());
        assert_eq!(after(&order, "prod"), Vec::<String>::new());
        assert_eq!(after(&order, "nowhere"), Vec::<String>::new());
    }

    #[test]
    fn labels_and_policies_decide_before_names() {
        let labelled = order(&[("alpha", ""), ("beta", "alpha"), ("prod", "beta")], &[]);
        assert_eq!(after(&labelled, "alpha"), ["first"]);
        assert_eq!(after(&labelled, "beta"), ["alpha"]);
        assert_eq!(after(&labelled, "prod"), ["beta"]);
        let plain = ["dev", "lab", "stage", "prod"].map(|name| (name, ""));
        let steps = order(&plain, &[("dev", "stage"), ("lab", "stage")]);
        assert_eq!(after(&steps, "dev"), ["first"]);
        assert_eq!(after(&steps, "lab"), ["first"]);
        assert_eq!(after(&steps, "stage"), ["dev", "lab"]);
        assert_eq!(after(&steps, "prod"), ["stage"]);
        assert_eq!(after(&order(&[("only", "")], &[]), "only"), ["first"]);
        let circle = order(&[("a", "b"), ("b", "a")], &[]);
        assert_eq!(after(&circle, "a"), ["b"]);
        assert!(labelled.comes_before("alpha", "prod") && !labelled.comes_before("prod", "alpha"));
        assert!(circle.comes_before("a", "a") && !circle.comes_before("c", "a"));
    }
}
