//! Guard: a result that removes too much stops, until someone said in git that it is meant.
//!
//! What comes in: what the last result held, what the new one holds, the share that may go, and the
//! codes that were acknowledged. What goes out: nothing, or a [`Removal`] with the whole list and the
//! object to commit. The code is a digest of the environment and the list, so that an acknowledgement
//! lets through exactly what its writer saw. It is pure.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use outhaul_bundle::Digest;

use outhaul_control::ControlPlane;
use outhaul_control::kinds::CODE_DIGITS;
use outhaul_control::model::MAX_REMOVAL_PERCENT_DEFAULT;
use outhaul_plane::delivery;

/// A removal that nobody acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what}: {} of {before} assignments would be removed ({}), which exceeds the {max_percent} % removal limit",
    removed.len(), share(removed.len(), *before)
)]
pub struct Removal {
    /// What would lose them: an environment or a stream, with its name.
    pub what: String,
    /// The code that acknowledges this list and no other.
    pub code: String,
    /// `<cluster type>/<target>`, sorted.
    pub removed: Vec<String>,
    /// How many there were.
    pub before: usize,
    /// The share that may go, in percent.
    pub max_percent: u8,
}

fn share(part: usize, whole: usize) -> String {
    if part == whole {
        "all".to_owned()
    } else {
        format!("{} %", part * 100 / whole.max(1))
    }
}

/// The share that a whole environment may lose at once: the strictest that holds for any of its cluster
/// types, where a contradiction counts as saying nothing.
pub fn max_percent(control_plane: &ControlPlane) -> u8 {
    let said = control_plane.cluster_types.values().map(|cluster_type| {
        let delivery = delivery::of(control_plane, cluster_type).unwrap_or_default();
        let most = delivery.max_removal_percent;
        most.map_or(MAX_REMOVAL_PERCENT_DEFAULT, |most| most.value)
    });
    said.min().unwrap_or(MAX_REMOVAL_PERCENT_DEFAULT)
}

/// Compares two results, each the set of `<cluster type>/<target>` that it holds.
///
/// # Errors
/// [`Removal`] when more than `max_percent` of `before`, or everything, is not in `after`, and no
/// acknowledgement in the control plane has its code.
pub fn check(
    control_plane: &ControlPlane,
    what: &str,
    before: &BTreeSet<String>,
    after: &BTreeSet<String>,
    max_percent: u8,
) -> Result<(), Removal> {
    let removed: Vec<String> = before.difference(after).cloned().collect();
    let too_much = removed.len() * 100 > before.len() * usize::from(max_percent);
    if removed.is_empty() || (!too_much && removed.len() < before.len()) {
        return Ok(());
    }
    let code = code(&control_plane.environment, &removed);
    let mut acknowledged = control_plane.acknowledgements.values();
    if acknowledged.any(|one| one.removal == code) {
        return Ok(());
    }
    Err(Removal {
        what: what.to_owned(),
        code,
        removed,
        before: before.len(),
        max_percent,
    })
}

/// The code of a sorted list.
fn code(environment: &str, removed: &[String]) -> String {
    let mut text = format!("outhaul.dev/removal/v1\n{environment}\n");
    for one in removed {
        text.push_str(one);
        text.push('\n');
    }
    let mut hex = Digest::of(text.as_bytes()).hex();
    hex.truncate(CODE_DIGITS);
    hex
}

impl Removal {
    /// The object that lets it through, as YAML.
    pub fn acknowledgement(&self) -> String {
        format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: Acknowledgement\nmetadata:\n  name: removal-{}\n\
             spec:\n  removal: \"{}\"\n  reason: \"why {} of {} may go\"\n",
            self.code,
            self.code,
            self.removed.len(),
            self.before
        )
    }

    /// For people: the list, what is safe, and what to do.
    pub fn explain(&self) -> String {
        self.explain_with("nothing was written")
    }

    /// The same, where something else was written before: `left` says what is as it was.
    pub fn explain_with(&self, left: &str) -> String {
        let mut text = format!("error: {self}\n");
        for one in &self.removed {
            // Writing to a text does not fail.
            let _ = writeln!(text, "  - {one}");
        }
        let _ = writeln!(
            text,
            "help: {left}. Look for what was lost: a policy, a label, a branch. If all of these \
             are to go,\n      commit this to the environment's control plane and run it again:"
        );
        for line in self.acknowledgement().lines() {
            let _ = writeln!(text, "        {line}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use outhaul_control::Diagnostics;
    use outhaul_control::diagnostic::SourceFile;
    use outhaul_control::kinds::{self, Object};

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| format!("drone/{name}")).collect()
    }

    fn acknowledged(yaml: &str) -> ControlPlane {
        let file = Arc::new(SourceFile {
            name: "a.yaml".into(),
            text: yaml.into(),
        });
        let mut findings = Diagnostics::new();
        let mut plane = ControlPlane {
            environment: "dev".into(),
            ..ControlPlane::default()
        };
        for object in kinds::read_file(&file, &mut findings) {
            if let Object::Acknowledgement(one) = object {
                plane.acknowledgements.insert(one.name.clone(), one);
            }
        }
        assert!(findings.is_empty(), "{findings}");
        plane
    }

    fn guarded(plane: &ControlPlane, before: &[&str], after: &[&str]) -> Result<(), Removal> {
        check(plane, "environment `dev`", &set(before), &set(after), 30)
    }

    #[test]
    fn up_to_the_share_may_go_and_one_more_may_not() {
        let plane = acknowledged("# none\n");
        let ten = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        guarded(&plane, &ten, &ten[3..]).unwrap();
        assert_eq!(
            guarded(&plane, &ten, &ten[4..]).unwrap_err().removed.len(),
            4
        );
        // What is new does not make up for what goes.
        guarded(&plane, &["a", "b", "c"], &["a", "x", "y", "z"]).unwrap_err();
        guarded(&plane, &[], &["a"]).unwrap();
    }

    #[test]
    fn everything_is_too_much_even_where_all_may_go() {
        let plane = acknowledged("# none\n");
        let check = |after| super::check(&plane, "x", &set(&["a"]), &set(after), 100);
        check(&[]).unwrap_err();
        check(&["a", "b"]).unwrap();
    }

    #[test]
    fn an_acknowledgement_lets_through_its_own_list_only() {
        let refused = guarded(&acknowledged("# none\n"), &["a", "b"], &["b"]).unwrap_err();
        let plane = acknowledged(&refused.acknowledgement());
        guarded(&plane, &["a", "b"], &["b"]).unwrap();
        guarded(&plane, &["a", "b"], &["a"]).unwrap_err();
        guarded(&plane, &["a", "b"], &[]).unwrap_err();
    }

    #[test]
    fn the_refusal_shows_the_list_and_what_to_commit() {
        let refused = guarded(&acknowledged("# none\n"), &["a", "b", "c"], &["b"]).unwrap_err();
        insta::assert_snapshot!(refused.explain());
    }
}
