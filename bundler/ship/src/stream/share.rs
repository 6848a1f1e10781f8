//! Each workload's share of a stream's index: no team fills the bundle of all others.
//!
//! What comes in: how much of the index each assignment of a stream takes. What goes out: which have to be left out
//! so that the rest fits, those of the workload with the largest share first, and why. It reads no file.

use std::collections::BTreeMap;

use outhaul_bundle::limits::Limits;
use outhaul_plane::render::RenderedAssignment;

use crate::collect::Listed;

/// Bytes of an index that a file takes besides its path: its entry, and that of its content.
const FILE_BYTES: u64 = 210;
/// Bytes that what is not a file of an assignment may take: orders, the snapshot, attestations.
const REST_BYTES: u64 = 1 << 20;
/// Files that are none of an assignment.
const REST_FILES: u64 = 100;

/// How much of the index one assignment takes, at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share {
    workspace: String,
    workload: String,
    files: u64,
    bytes: u64,
}

impl Share {
    /// That of an assignment with this payload.
    pub(super) fn of(rendered: &RenderedAssignment, payload: Listed) -> Self {
        let overlays = rendered.overlays.iter().flat_map(|one| one.files.keys());
        let rendered_files = rendered.files.keys().chain(overlays);
        let (mut files, mut paths) = (payload.files, payload.path_bytes);
        for path in rendered_files {
            files += 1;
            paths += path.len() as u64;
        }
        Self {
            workspace: rendered.workspace.clone(),
            workload: rendered.workload.clone(),
            files,
            bytes: paths.saturating_add(files.saturating_mul(FILE_BYTES)),
        }
    }
}

/// The assignments that have to be left out, each with the reason.
pub(super) fn beyond(shares: BTreeMap<String, Share>, limits: &Limits) -> BTreeMap<String, String> {
    let max_bytes = limits.max_index_bytes.saturating_sub(REST_BYTES);
    let max_files = (limits.max_files as u64).saturating_sub(REST_FILES);
    let mut workloads: BTreeMap<(String, String), (u64, u64, Vec<String>)> = BTreeMap::new();
    for (name, share) in shares {
        let of = workloads.entry((share.workspace, share.workload));
        let (bytes, files, names) = of.or_default();
        *bytes = bytes.saturating_add(share.bytes);
        *files = files.saturating_add(share.files);
        names.push(name);
    }
    let mut left_out = BTreeMap::new();
    loop {
        let bytes = workloads
            .values()
            .fold(0u64, |sum, one| sum.saturating_add(one.0));
        let files = workloads
            .values()
            .fold(0u64, |sum, one| sum.saturating_add(one.1));
        if bytes <= max_bytes && files <= max_files {
            return left_out;
        }
        let largest = workloads.iter().max_by_key(|(_, one)| (one.0, one.1));
        let Some(key) = largest.map(|(key, _)| key.clone()) else {
            return left_out;
        };
        let Some((bytes, files, names)) = workloads.remove(&key) else {
            return left_out;
        };
        for name in names {
            let why = format!(
                "`{name}`: the {files} files of workload `{}` take {bytes} bytes of the stream's index, which may have \
                 {max_bytes} bytes and {max_files} files in all; no other workload takes more",
                key.1
            );
            left_out.insert(name, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(workload: &str, files: u64, path: u64) -> Share {
        Share {
            workspace: "team".into(),
            workload: workload.into(),
            files,
            bytes: files * (FILE_BYTES + path),
        }
    }

    /// The attack: three targets with ninety thousand files of long names each, which no index holds.
    #[test]
    fn attack_a_team_whose_files_fill_the_index_is_left_out_and_the_others_are_not() {
        let mut shares = BTreeMap::from([
            ("lamp-dev".to_owned(), share("lamp", 100, 40)),
            ("hello-dev".to_owned(), share("hello", 50_000, 40)),
        ]);
        let limits = Limits::default();
        assert_eq!(beyond(shares.clone(), &limits), BTreeMap::new());
        for at in 0..3 {
            shares.insert(format!("evil-{at}"), share("evil", 90_000, 210));
        }
        let left_out = beyond(shares.clone(), &limits);
        let names: Vec<_> = left_out.keys().map(String::as_str).collect();
        assert_eq!(names, ["evil-0", "evil-1", "evil-2"]);
        assert!(left_out["evil-0"].contains("the 270000 files of workload `evil`"));
        // Many small assignments of one workload are one share.
        shares.retain(|name, _| !name.starts_with("evil"));
        for at in 0..500 {
            shares.insert(format!("evil-{at}"), share("evil", 1_000, 10));
        }
        assert_eq!(beyond(shares, &limits).len(), 500);
    }
}
