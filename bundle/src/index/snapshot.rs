//! The digest of a snapshot, and whether one adds only payloads to another.
//!
//! What comes in: sources at commits. What goes out: one digest over them, the same anywhere. A bundle's snapshot is the render's with
//! the sources of its payloads among the workloads, so that the two have different digests.

use std::collections::BTreeSet;

use super::{Snapshot, Source};
use crate::digest::Digest;

impl Snapshot {
    /// A snapshot of these sources. Workloads are put in order of their names.
    pub fn of(environment: Source, base: Source, mut workloads: Vec<Source>) -> Self {
        workloads.sort();
        let digest = digest(&environment, &base, &workloads);
        Self {
            environment,
            base,
            workloads,
            digest,
        }
    }

    /// The digest that its sources have, in the order in which they stand.
    pub fn computed_digest(&self) -> Digest {
        digest(&self.environment, &self.base, &self.workloads)
    }

    /// Whether it is `rendered`, or that with more sources, as a bundle has those of its payloads.
    pub fn is_of(&self, rendered: &Self) -> bool {
        let mine: BTreeSet<&Source> = self.workloads.iter().collect();
        (&self.environment, &self.base) == (&rendered.environment, &rendered.base)
            && rendered
                .workloads
                .iter()
                .all(|source| mine.contains(source))
    }
}

/// Every part is preceded by its length, so that no two snapshots give the same text.
fn digest(environment: &Source, base: &Source, workloads: &[Source]) -> Digest {
    let mut text = String::from("outhaul.dev/snapshot/v1\n");
    for source in [environment, base].into_iter().chain(workloads) {
        for part in [&source.name, &source.repo, &source.commit] {
            text.push_str(&format!("{}:{part}\n", part.len()));
        }
    }
    Digest::of(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, commit: &str) -> Source {
        Source {
            name: name.into(),
            repo: "r".into(),
            commit: commit.into(),
        }
    }

    fn of(workloads: &[Source]) -> Snapshot {
        Snapshot::of(source("dev", "1"), source("main", "2"), workloads.to_vec())
    }

    #[test]
    fn order_of_workloads_does_not_matter_and_every_commit_does() {
        let (a, b) = (source("a", "3"), source("b", "4"));
        let one = of(&[a.clone(), b.clone()]);
        assert_eq!(one, of(&[b, a.clone()]));
        assert_eq!(one.digest, one.computed_digest());
        assert_ne!(one.digest, of(&[a, source("b", "5")]).digest);
    }

    #[test]
    fn a_bundle_is_of_the_render_to_which_it_adds_payloads_and_of_no_other() {
        let (a, payload) = (source("a", "3"), source("manifests:a", "4"));
        let rendered = of(std::slice::from_ref(&a));
        let bundle = of(&[a.clone(), payload.clone()]);
        assert!(bundle.is_of(&rendered) && rendered.is_of(&rendered));
        assert!(!rendered.is_of(&bundle));
        assert!(!of(&[source("a", "9"), payload]).is_of(&rendered));
        let mut moved = bundle;
        moved.base.commit = "9".to_owned();
        assert!(!moved.is_of(&rendered));
    }
}
