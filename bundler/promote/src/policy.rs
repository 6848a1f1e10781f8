//! What the promotion policies ask of the steps of the chain.
//!
//! What comes in: the policies beside the environments. What goes out: the policy for one step, or none
//! where nobody wrote any. It is pure; what the policy asks is put to the hub by whoever promotes, and
//! where an environment may be entered from is decided in `order`.

use super::{Chain, PromoteError};
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::PromotionPolicy;

impl Chain<'_> {
    /// The policy for the step from one environment to another, when one is written.
    pub fn policy(&self, from: &str, to: &str) -> Option<&PromotionPolicy> {
        let mut all = self.policies.iter();
        all.find(|policy| policy.from.value == from && policy.to.value == to)
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
    use std::sync::Arc;

    use super::*;
    use crate::order::PromotionOrder;
    use outhaul_control::diagnostic::SourceFile;
    use outhaul_control::kinds::{self, Object};
    use outhaul_control::model::Environment;
    use outhaul_git::source::{Cache, SourceMap};

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
        };
        let found = chain.policy("lab", "stage").unwrap();
        assert_eq!(
            (found.name.as_str(), found.rules.quorum_percent),
            ("b", Some(80))
        );
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
