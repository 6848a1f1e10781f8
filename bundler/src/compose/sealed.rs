//! Sealed values of a config: whether they are bound to the place where they would be used.
//!
//! What comes in: the settings that an assignment's config is made of, and the assignment's environment and
//! workload. What goes out: a finding for each sealed value that the site would refuse to open there, at its
//! place in the container. It opens nothing: the names before a sealed value are checked on site once more,
//! against those under the seal.

use std::collections::BTreeSet;

use outhaul_signer::seal::marker::{self, Binding, MarkerProblem};

use super::layers::{Layers, Setting};
use crate::control::diagnostic::{Diagnostic, Diagnostics};
use crate::control::model::DeploymentTarget;

/// Positions of the layers that have sealed values: mostly none, and then nothing is looked at.
pub(super) fn positions(layers: &Layers<'_>) -> BTreeSet<usize> {
    let has = |setting: &Setting<'_>| setting.text.value.contains(marker::OPENING);
    (0..layers.count())
        .filter(|at| layers.settings(*at).iter().any(has))
        .collect()
}

/// Checks the sealed values among `settings`, which are those that count.
pub(super) fn check<'s, 'a: 's>(
    settings: impl Iterator<Item = &'s Setting<'a>>,
    environment: &str,
    target: &DeploymentTarget,
) -> Result<(), Diagnostics> {
    let mut findings = Diagnostics::new();
    for setting in settings {
        for binding in marker::bindings(&setting.text.value) {
            if let Some(problem) = problem(binding.as_ref(), setting.key, environment, target) {
                let key = setting.key;
                let message = format!("`{key}`: {problem}");
                findings.push(Diagnostic::error("sealed", message).at(&setting.text.location));
            }
        }
    }
    if findings.is_empty() {
        Ok(())
    } else {
        Err(findings)
    }
}

fn problem(
    binding: Option<&Binding>,
    key: &str,
    environment: &str,
    target: &DeploymentTarget,
) -> Option<MarkerProblem> {
    let Some(binding) = binding else {
        return Some(MarkerProblem::Unbound);
    };
    if let Err(problem) = binding.check_names(environment, &target.workload) {
        return Some(problem);
    }
    (binding.key() != key).then(|| MarkerProblem::Elsewhere {
        what: "key",
        bound: binding.key().to_owned(),
        here: key.to_owned(),
    })
}
