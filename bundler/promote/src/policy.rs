//! What the promotion policies ask of the steps of the chain.
//!
//! What comes in: the policies beside the environments. What goes out: the policy for one step, or none
//! where nobody wrote any. It is pure; what the policy asks is put to the hub by whoever promotes, and
//! a promotion on record is held to how many sites must confirm ([`SiteRule`]), by the policies that it was decided by. Where an environment may be entered from is decided in `order`.

use super::order::PromotionOrder;
use super::{Chain, MAX_COMMITS, PromoteError, listed};
use outhaul_bundle::hub_api::DEFAULT_QUORUM_PERCENT;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::PromotionPolicy;
use outhaul_kit::commit_id::is_commit_id;

impl Chain<'_> {
    /// The policy for the step from one environment to another, when one is written.
    pub fn policy(&self, from: &str, to: &str) -> Option<&PromotionPolicy> {
        policy(&self.policies, from, to)
    }

    /// How many sites had to confirm before a promotion that is on record: by the policies that it was decided by, so that a later
    /// change of them applies to the next promotion and no site is stopped that was promoted validly. The policies count that the promotion
    /// names, where their commit is on the control plane's branch, and not older than the promoted one. Others, those of a copy that
    /// nobody merged for instance, do not, and a promotion that names none is held to the policies of now. `None` where the
    /// chain did not lead from one environment to the other.
    ///
    /// # Errors
    /// [`PromoteError`] when git fails.
    pub(super) fn rule_then(&self, gate: &PastGate<'_>) -> Result<Option<SiteRule>, PromoteError> {
        let now = || self.site_rule(gate.from, gate.to);
        let Some(id) = gate.policies.filter(|id| *id != self.opened.commit) else {
            return Ok(now());
        };
        // Brings the history of a branch that was fetched without it.
        self.opened.history(MAX_COMMITS)?;
        let contains = |older: &str, newer: &str| -> Result<bool, PromoteError> {
            let common = self.opened.common_ancestor(older, newer)?;
            Ok(common.as_deref() == Some(older))
        };
        if !contains(id, &self.opened.commit)?
            || (contains(gate.commit, &self.opened.commit)? && !contains(gate.commit, id)?)
        {
            return Ok(now());
        }
        let (environments, policies) = match listed(&self.opened.at_commit(id)) {
            Ok(listed) => listed,
            // What does not read was nobody's policy.
            Err(PromoteError::Source(error)) if !error.is_input() => return Err(error.into()),
            Err(_) => return Ok(now()),
        };
        let order = PromotionOrder::of(&environments, &policies);
        Ok(site_rule(&policies, &order, gate.from, gate.to))
    }

    /// The commit with the policies that decide now; `None` for a plain folder.
    pub(super) fn policies_commit(&self) -> Option<&str> {
        Some(self.opened.commit.as_str()).filter(|id| is_commit_id(id))
    }

    /// How many sites must confirm before a step; `None` where the chain does not lead from one environment to the other.
    pub(super) fn site_rule(&self, from: &str, to: &str) -> Option<SiteRule> {
        site_rule(&self.policies, &self.order, from, to)
    }
}

impl SiteRule {
    /// For a promotion whose step the chain does not have any more: one site at least, as every gate asks for.
    pub(super) const OF_A_FORMER_GATE: Self = Self {
        percent: 0,
        at_least: 1,
        written: None,
    };
}

fn policy<'p>(
    policies: &'p [PromotionPolicy],
    from: &str,
    to: &str,
) -> Option<&'p PromotionPolicy> {
    let mut all = policies.iter();
    all.find(|policy| policy.from.value == from && policy.to.value == to)
}

fn site_rule(
    policies: &[PromotionPolicy],
    order: &PromotionOrder,
    from: &str,
    to: &str,
) -> Option<SiteRule> {
    let policy = policy(policies, from, to);
    let rules = policy.map(|policy| &policy.rules);
    order.leads(from, to).then(|| SiteRule {
        percent: rules
            .and_then(|rules| rules.quorum_percent)
            .unwrap_or(DEFAULT_QUORUM_PERCENT),
        at_least: rules.and_then(|rules| rules.min_sites).unwrap_or(1),
        written: policy.map(|policy| format!("promotion policy, {}", policy.location.file_line())),
    })
}

/// The gate that a promotion on record names.
#[derive(Debug, Clone, Copy)]
pub(super) struct PastGate<'a> {
    /// The environment whose gate it was.
    pub from: &'a str,
    /// The environment that was moved.
    pub to: &'a str,
    /// The commit of the base that was promoted.
    pub commit: &'a str,
    /// The commit of the control plane whose policies decided, as the promotion records it.
    pub policies: Option<&'a str>,
}

/// How many sites must confirm before a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SiteRule {
    /// The share of those that count, in percent.
    percent: u8,
    /// How many of them at least.
    at_least: u32,
    /// Where the rule is written; `None` for the default.
    written: Option<String>,
}

impl SiteRule {
    /// Checks that enough sites confirmed, given as how many of how many.
    ///
    /// # Errors
    /// What is missing, as the rest of a sentence.
    pub(super) fn check(&self, (confirmed, counted): (usize, usize)) -> Result<(), String> {
        let at_least = usize::try_from(self.at_least).unwrap_or(usize::MAX);
        // Numbers of a message may be any.
        let (share, needed) = (
            confirmed.saturating_mul(100),
            counted.saturating_mul(usize::from(self.percent)),
        );
        if confirmed >= at_least && share >= needed {
            return Ok(());
        }
        let least = match self.at_least {
            1 => String::new(),
            least => format!(", and at least {least},"),
        };
        let by = self
            .written
            .as_deref()
            .unwrap_or("the default: no promotion policy is written for this step");
        Err(format!(
            "{confirmed} of {counted} sites confirmed, where {} %{least} must ({by})",
            self.percent
        ))
    }
}

/// Two policies for one step: which of them to follow is not ours to guess.
pub(super) fn contradictions(policies: &[PromotionPolicy]) -> Result<(), PromoteError> {
    let mut findings = Diagnostics::new();
    for (at, policy) in policies.iter().enumerate() {
        let same = |other: &&PromotionPolicy| {
            (&other.from.value, &other.to.value) == (&policy.from.value, &policy.to.value)
        };
        if let Some(first) = policies[..at].iter().find(same) {
            let message = format!(
                "promotion policies `{}` and `{}` are for the same step",
                first.name, policy.name
            );
            findings.push(
                Diagnostic::error("contradiction", message)
                    .at(&policy.location)
                    .related(&first.location, "first here")
                    .help("remove one of them"),
            );
        }
    }
    if findings.is_empty() {
        Ok(())
    } else {
        Err(PromoteError::Findings(findings))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use super::*;
    use outhaul_control::diagnostic::SourceFile;
    use outhaul_control::kinds::{self, Object};
    use outhaul_control::model::Environment;
    use outhaul_git::source::{self, Cache, SourceMap};

    fn policies(text: &str) -> Vec<PromotionPolicy> {
        let file = Arc::new(SourceFile {
            name: "p.yaml".into(),
            text: text.into(),
        });
        let mut findings = Diagnostics::new();
        let objects = kinds::read_file(&file, &mut findings);
        assert!(findings.is_empty(), "{findings}");
        let policy = |object| match object {
            Object::Promotion(policy) => Some(policy),
            _ => None,
        };
        objects.into_iter().filter_map(policy).collect()
    }

    fn step(name: &str, from: &str, to: &str) -> String {
        format!(
            "---\napiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata: {{name: {name}}}\n\
             spec: {{from: {from}, to: {to}, minConfirmedPercent: 80}}\n"
        )
    }

    fn environment(name: &str) -> (String, Environment) {
        let text = format!(
            "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Environment\nmetadata: {{name: {name}}}\n\
             spec: {{controlPlane: {{repo: r, branch: b}}}}\n"
        );
        let name = "e.yaml".into();
        let file = Arc::new(SourceFile { name, text });
        let mut findings = Diagnostics::new();
        let Some(Object::Environment(found)) = kinds::read_file(&file, &mut findings).pop() else {
            unreachable!("{findings}")
        };
        (found.name.clone(), found)
    }

    #[test]
    fn where_a_policy_stands_there_is_no_other_way_in() {
        let cache = Cache::at("unused");
        let folder = tempfile::tempdir().unwrap();
        let policies = policies(&format!(
            "{}{}",
            step("a", "dev", "stage"),
            step("b", "lab", "stage")
        ));
        let environments = ["dev", "lab", "stage"].map(environment).into();
        let chain = Chain {
            url: "unused",
            branch: None,
            sources: SourceMap::default(),
            cache: &cache,
            order: PromotionOrder::of(&environments, &policies),
            environments,
            policies,
            opened: source::open_plain(folder.path(), "", None).unwrap(),
            policies_beside: RefCell::default(),
        };
        let found = chain.policy("lab", "stage").unwrap();
        assert_eq!(
            (found.name.as_str(), found.rules.quorum_percent),
            ("b", Some(80))
        );
        // A promotion on record is held to that share.
        let rule = chain.site_rule("lab", "stage").unwrap();
        rule.check((4, 5)).unwrap();
        let refused = rule.check((1, 99)).unwrap_err();
        let says = "1 of 99 sites confirmed, where 80 % must (promotion policy, p.yaml:";
        assert!(refused.starts_with(says), "{refused}");
        assert_eq!(chain.site_rule("prod", "stage"), None);
        assert_eq!(chain.gate_before("dev", None).unwrap(), None);
        for from in [None, Some("prod")] {
            let refused = chain.gate_before("stage", from).unwrap_err().to_string();
            assert!(
                refused.starts_with("environment `stage` may only be promoted from `dev` or `lab`"),
                "{refused}"
            );
        }
    }

    #[test]
    fn without_a_policy_every_site_must_confirm_and_a_policy_may_ask_for_a_number_of_them() {
        let default = SiteRule {
            percent: DEFAULT_QUORUM_PERCENT,
            at_least: 1,
            written: None,
        };
        default.check((99, 99)).unwrap();
        for sites in [(98, 99), (1, 99), (0, 0), (1, usize::MAX)] {
            default.check(sites).unwrap_err();
        }
        let three = SiteRule {
            percent: 1,
            at_least: 3,
            written: Some("promotion policy, p.yaml:4".to_owned()),
        };
        three.check((3, 99)).unwrap();
        let refused = three.check((2, 99)).unwrap_err();
        let says =
            "2 of 99 sites confirmed, where 1 %, and at least 3, must (promotion policy, p.yaml:4)";
        assert_eq!(refused, says);
    }

    #[test]
    fn two_policies_for_one_step_are_an_error() {
        let twice = policies(&format!(
            "{}{}",
            step("a", "dev", "stage"),
            step("b", "dev", "stage")
        ));
        let error = contradictions(&twice).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("`a` and `b` are for the same step"),
            "{error}"
        );
        contradictions(&twice[..1]).unwrap();
    }
}
