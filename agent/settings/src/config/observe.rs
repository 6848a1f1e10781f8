//! `[observe]` of `agent.toml`: the platform repository that the cluster follows by itself.
//!
//! What comes in: the section's keys. What goes out: an [`ObserveConfig`] with every value in range. It asks nobody.

use std::path::PathBuf;

use outhaul_reconcilers::settings::OutOfRange;
use serde::Deserialize;

/// What stands for the commit in an address.
pub const COMMIT: &str = "{commit}";

/// `[observe]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ObserveConfig {
    /// The platform repository, as the cluster's `GitRepository` or `Application` has it. Without it, nothing is observed.
    pub repository: Option<String>,
    /// The folder of that repository that is published to; the root without it.
    pub path: String,
    /// Where `.outhaul/platform.json` of one commit is read, with `{commit}` in its place.
    pub record: Option<String>,
    /// PEM file with the certificate authority to trust there instead of the system's.
    pub ca: Option<PathBuf>,
}

impl ObserveConfig {
    /// The address of the record of `commit`: scheme and host, and what follows.
    pub fn record_of(&self, commit: &str) -> Option<(String, String)> {
        let address = self.record.as_ref()?.replace(COMMIT, commit);
        let parts = outhaul_kit::url::UrlParts::of(&address)?;
        let path = parts.rest.strip_prefix('/')?;
        let base = address.strip_suffix(parts.rest)?;
        Some((base.to_owned(), path.to_owned()))
    }

    /// The first value that is out of its range: its key, the value, and what is allowed.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        let repository = self.repository.as_ref()?;
        if repository.trim().is_empty() {
            let expected = "the address that the cluster fetches the platform repository from";
            return Some(("observe.repository", "empty".to_owned(), expected));
        }
        let expected = "an address with `{commit}` in it at which the forge shows `.outhaul/platform.json` as it is, \
                        such as \"https://git.example.org/platform/raw/commit/{commit}/.outhaul/platform.json\"";
        let Some(record) = &self.record else {
            return Some(("observe.record", "not set".to_owned(), expected));
        };
        let sound = record.contains(COMMIT)
            && self
                .record_of("0")
                .is_some_and(|(base, _)| outhaul_http::check_url(&base).is_ok());
        (!sound).then(|| ("observe.record", format!("`{record}`"), expected))
    }
}
