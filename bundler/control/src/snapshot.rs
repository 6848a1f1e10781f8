//! The snapshot: which commits one render was made from, and one digest over them.
//!
//! What comes in: the environment, base and workload sources as they were opened. What goes out: the
//! [`Snapshot`] that travels in every bundle and lies beside every rendered tree. It holds URLs and
//! commits, never a path of this machine.

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Snapshot, Source};

/// A snapshot of these sources. Workloads are put in order of their names.
pub fn snapshot(environment: Source, base: Source, mut workloads: Vec<Source>) -> Snapshot {
    workloads.sort();
    let digest = digest(&environment, &base, &workloads);
    Snapshot {
        environment,
        base,
        workloads,
        digest,
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

    #[test]
    fn order_of_workloads_does_not_matter_and_every_commit_does() {
        let of = |w: [&Source; 2]| {
            snapshot(
                source("dev", "1"),
                source("main", "2"),
                w.map(Clone::clone).to_vec(),
            )
        };
        let (a, b) = (source("a", "3"), source("b", "4"));
        assert_eq!(of([&a, &b]), of([&b, &a]));
        assert_ne!(of([&a, &b]).digest, of([&a, &source("b", "5")]).digest);
    }
}
