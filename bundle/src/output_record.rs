//! The record that lies beside what was rendered into a folder or branch: its formats, and what a reader of a commit takes from it.
//!
//! What comes in: the bytes of `.outhaul/platform.json`, which the centre writes. What goes out: the environment, the commits that it was
//! rendered from, and the names of what it holds for a cluster type. Whoever fetched it says where it came from; nothing here is signed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::digest::Digest;
use crate::index::Snapshot;
use crate::index::served::is_id;

/// The format that is written.
pub const FORMAT: &str = "outhaul.dev/output/v1";
/// The format of a branch's record before it.
pub const BRANCH_BEFORE: &str = "outhaul.dev/platform/v1";
/// The formats that are read: the one that is written now, and the one before it.
const READ: [&str; 2] = [FORMAT, BRANCH_BEFORE];
/// Largest record in bytes: a path and a digest for each of some ten thousand files.
pub const MAX_RECORD_BYTES: u64 = 16 * 1024 * 1024;
/// Most bytes of a name, an address or a path in it.
const MAX_TEXT_BYTES: usize = 4096;
/// Most bytes of a format's name that a message repeats.
const SHOWN_BYTES: usize = 100;

/// What a record states of the commit that it lies in, as far as a reader uses it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PlatformRecord {
    format: String,
    /// The environment.
    pub environment: String,
    /// The commits that it was rendered from.
    pub snapshot: Snapshot,
    /// Each file with its digest, by path.
    pub files: BTreeMap<String, Digest>,
}

impl PlatformRecord {
    /// A record from its bytes.
    ///
    /// # Errors
    /// What is wrong with them, as the end of a sentence that begins with where they are.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let record: Self =
            serde_json::from_slice(bytes).map_err(|error| format!("is not the record: {error}"))?;
        if READ.contains(&record.format.as_str()) {
            record.check()?;
            return Ok(record);
        }
        let found: String = record.format.chars().take(SHOWN_BYTES).collect();
        let known = READ.join("` and `");
        Err(format!(
            "is of format `{found}`, this program reads `{known}`"
        ))
    }

    /// Whether its texts are ones that the centre writes: they get into reports, and what shows these may act on control characters.
    fn check(&self) -> Result<(), String> {
        let snapshot = &self.snapshot;
        let sources = [&snapshot.environment, &snapshot.base];
        for source in sources.into_iter().chain(&snapshot.workloads) {
            let texts = [&source.name, &source.repo, &source.commit];
            if texts.into_iter().any(|text| !is_plain(text)) {
                return Err("has control characters in the name, address or commit of a source, or one that is too long".to_owned());
            }
        }
        if !is_commit(&snapshot.base.commit) {
            return Err(
                "names no full commit id of the base repository: render it again at the centre, where `--base-commit` is given \
                 with the full id, as `git rev-parse` prints it"
                    .to_owned(),
            );
        }
        let mut texts = std::iter::once(&self.environment).chain(self.files.keys());
        match texts.all(|text| is_plain(text)) {
            true => Ok(()),
            false => Err("has control characters in its environment or in the path of a file, or one that is too long".to_owned()),
        }
    }

    /// The names of what it holds for a cluster type, as they are written: they are checked by whoever uses them.
    pub fn assignments(&self, cluster_type: &str) -> BTreeSet<&str> {
        let names = self.files.keys().filter_map(|path| {
            let rest = path.strip_prefix(cluster_type)?.strip_prefix('/')?;
            rest.split_once('/').map(|(name, _)| name)
        });
        names.collect()
    }
}

/// Whether a text is of bounded length, and without characters that a terminal acts on.
fn is_plain(text: &str) -> bool {
    text.len() <= MAX_TEXT_BYTES && !text.contains(char::is_control)
}

/// Whether a text is what a source has as its commit: the id of one, or the digest of a folder's content.
fn is_commit(text: &str) -> bool {
    match text.strip_prefix("sha256:") {
        Some(hex) => hex.len() == 64 && is_id(hex),
        None => is_id(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(
        environment: &str,
        base: &str,
        repo: &str,
        path: &str,
    ) -> Result<PlatformRecord, String> {
        let digest = Digest::of(b"");
        let source = |repo: &str, commit: &str| serde_json::json!({"name": "n", "repo": repo, "commit": commit});
        let record = serde_json::json!({
            "format": FORMAT,
            "environment": environment,
            "snapshot": {"environment": source("", "e"), "base": source(repo, base), "workloads": [], "digest": digest},
            "files": {path: digest},
        });
        PlatformRecord::from_bytes(record.to_string().as_bytes())
    }

    #[test]
    fn attack_control_characters_and_what_is_no_commit_are_refused() {
        let commit = "a1".repeat(20);
        let folder = format!("sha256:{}", "a1".repeat(32));
        for good in [&commit, &folder] {
            let read = record("dev", good, "https://git.example/b", "store/web/a.yaml").unwrap();
            assert_eq!(read.assignments("store"), ["web"].into());
        }
        let escaped = format!("\u{1b}[2J{commit}");
        let short = commit[1..].to_owned();
        let upper = commit.to_uppercase();
        let short_folder = format!("sha256:{commit}");
        for (environment, base, repo, path, says) in [
            (
                "dev",
                escaped.as_str(),
                "r",
                "a/b/c",
                "control characters in the name",
            ),
            (
                "dev",
                &commit,
                "r\u{7}",
                "a/b/c",
                "control characters in the name",
            ),
            ("dev", &short, "r", "a/b/c", "names no full commit id"),
            ("dev", "", "r", "a/b/c", "names no full commit id"),
            ("dev", &upper, "r", "a/b/c", "names no full commit id"),
            (
                "dev",
                &short_folder,
                "r",
                "a/b/c",
                "names no full commit id",
            ),
            ("d\nv", &commit, "r", "a/b/c", "its environment"),
            ("dev", &commit, "r", "a/b/\u{9b}c", "path of a file"),
        ] {
            let refused = record(environment, base, repo, path).unwrap_err();
            assert!(
                refused.contains(says) && !refused.contains('\u{1b}'),
                "{refused}"
            );
        }
    }
}
