//! Sealed values of a config: whether they are bound to the place where they would be used.
//!
//! What comes in: the settings that an assignment's config is made of, and the assignment's environment and
//! workload. What goes out: a finding for each sealed value that the site would refuse to open there, at its
//! place in the container. It opens nothing: the names before a sealed value are checked on site once more,
//! against those under the seal.

use std::collections::BTreeSet;

use outhaul_seal::marker::{self, Binding, MarkerProblem};

use super::layers::{LayerSetting, Layers};
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::DeploymentTarget;

/// Positions of the layers that have sealed values: mostly none, and then nothing is looked at.
pub(super) fn positions(layers: &Layers<'_>) -> BTreeSet<usize> {
    let has = |setting: &LayerSetting<'_>| setting.text.value.contains(marker::OPENING);
    (0..layers.count())
        .filter(|at| layers.settings(*at).iter().any(has))
        .collect()
}

/// Checks the sealed values among `settings`, which are those that count.
pub(super) fn check<'s, 'a: 's>(
    settings: impl Iterator<Item = &'s LayerSetting<'a>>,
    environment: &str,
    target: &DeploymentTarget,
) -> Result<(), Diagnostics> {
    let mut findings = Diagnostics::new();
    for setting in settings {
        let mut refuse = |problem: MarkerProblem| {
            let message = format!("`{}`: {problem}", setting.key);
            findings.push(Diagnostic::error("sealed", message).at(&setting.text.location));
        };
        if marker::has_cut_off(&setting.text.value) {
            refuse(MarkerProblem::CutOff);
        }
        for binding in marker::bindings(&setting.text.value) {
            if let Some(problem) = problem(binding.as_ref(), setting.key, environment, target) {
                refuse(problem);
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

#[cfg(test)]
mod tests {
    use super::super::tests::{config, load, printed};
    use crate::compose::{Mode, compose};
    use crate::schedule::{SchedulerAnswers, schedule};

    /// What composing says of `data`, in the environment `test` with the workload `label`.
    fn refusals(data: &str) -> String {
        let plane = load(data).unwrap();
        let composition = compose(
            &plane,
            &schedule(&plane, &SchedulerAnswers::default()),
            Mode::default(),
        );
        let all: Vec<_> = composition.failures.values().map(printed).collect();
        all.join("\n")
    }

    fn of(marker: &str) -> String {
        config("c", "", &format!("PASSWORD: 'ENC[age,{marker}]'"))
    }

    #[test]
    fn a_value_that_the_site_would_refuse_is_refused_where_it_stands() {
        let own = "0123456789abcdef/test/label/PASSWORD,QUJD";
        assert_eq!(refusals(&of(own)), "");
        assert_eq!(refusals(&of("f/test/label+other/PASSWORD,QUJD")), "");
        for (marker, says) in [
            (
                "f/test/payroll/PASSWORD,QUJD",
                "sealed for workload `payroll`, and this is workload `label`",
            ),
            ("f/prod/label/PASSWORD,QUJD", "this is environment `test`"),
            ("f/test/label/MOTTO,QUJD", "sealed for key `MOTTO`"),
            ("QUJD", "seal it again"),
            ("f/test/label+a/PASSWORD,QUJD", "seal it again"),
        ] {
            let found = refusals(&of(marker));
            assert!(
                found.contains(says) && found.contains("error[sealed]"),
                "{marker}: {found}"
            );
        }
        for cut in [
            "ENC[age,",
            "ENC[age,f/test/label/PASSWORD,QUJD",
            "ENC[age,f/test/label/PASSW ORD,QUJD]",
        ] {
            let found = refusals(&config("c", "", &format!("PASSWORD: '{cut}'")));
            assert!(
                found.contains("begins a sealed value that has no end"),
                "{cut}: {found}"
            );
        }
        // What another container replaces is not used by anybody.
        let replaced = of("QUJD") + &config("d", "line: '7'", "PASSWORD: open");
        assert_eq!(refusals(&replaced), "");
    }
}
