//! Which steps of the chain the promotion policies allow.
//!
//! What comes in: the policies beside the environments. What goes out: the policy for one step, none
//! where nobody wrote any, or a refusal where the environment may only be entered from elsewhere. It is
//! pure; what the policy asks is put to the hub by whoever promotes.

use super::{Chain, PromoteError};
use crate::control::diagnostic::{Diagnostic, Diagnostics};
use crate::control::model::PromotionPolicy;

impl Chain<'_> {
    /// The policy for the step from one environment to another; `None` when none is written for `to`.
    ///
    /// # Errors
    /// [`PromoteError::NotFromThere`] when `to` may only be entered from elsewhere.
    pub fn policy(
        &self,
        from: Option<&str>,
        to: &str,
    ) -> Result<Option<&PromotionPolicy>, PromoteError> {
        let mut allowed = self
            .policies
            .iter()
            .filter(|policy| policy.to.value == to)
            .peekable();
        let Some(first) = allowed.peek() else {
            return Ok(None);
        };
        let at = first.location.file_line();
        let mut sources = Vec::new();
        for policy in allowed {
            if from == Some(policy.from.value.as_str()) {
                return Ok(Some(policy));
            }
            sources.push(format!("`{}`", policy.from.value));
        }
        Err(PromoteError::NotFromThere {
            environment: to.to_owned(),
            allowed: sources.join(" or "),
            at,
        })
    }
}

/// Two policies for one step: which of them to obey is not ours to guess.
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
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::control::diagnostic::SourceFile;
    use crate::control::kinds::{self, Object};
    use crate::control::{Cache, SourceMap};

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

    #[test]
    fn where_a_policy_stands_there_is_no_other_way_in() {
        let cache = Cache::at("unused");
        let chain = Chain {
            url: "unused",
            sources: SourceMap::default(),
            cache: &cache,
            environments: BTreeMap::new(),
            policies: policies(&format!(
                "{}{}",
                step("a", "dev", "stage"),
                step("b", "lab", "stage")
            )),
        };
        let found = chain.policy(Some("lab"), "stage").unwrap().unwrap();
        assert_eq!(
            (found.name.as_str(), found.min_confirmed_percent),
            ("b", Some(80))
        );
        assert_eq!(chain.policy(None, "dev").unwrap(), None);
        for from in [None, Some("prod")] {
            let refused = chain.policy(from, "stage").unwrap_err().to_string();
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
