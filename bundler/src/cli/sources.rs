//! What every subcommand that reads repositories understands: the local folders of repositories, the cache, and commits of local copies.
//!
//! What comes in: `--source URL=DIR`, `--allow-host HOST` and `--cache DIR`, and what was typed as a commit. What goes out: a [`SourceMap`]
//! and a [`Cache`], a commit's id in lower case, or a usage error. It looks at where folders lie, and opens no repository.

use std::path::PathBuf;

use super::failure::{self, Failure};
use outhaul_git::source::SourceError;
use outhaul_git::source::{Cache, SourceMap};
use outhaul_kit::commit_id;

/// The local folders of repositories.
#[derive(Debug, clap::Args)]
pub struct SourceArgs {
    /// Use a local copy of URL: a folder, working copy or mirror; `URL#BRANCH=DIR` for one branch
    #[arg(long = "source", value_name = "URL=DIR")]
    sources: Vec<String>,
    /// A host of this machine, or one without encryption, that control planes and workloads may name:
    /// `git.factory.example`, `127.0.0.1:3000`
    #[arg(long = "allow-host", value_name = "HOST[:PORT]")]
    allow_hosts: Vec<String>,
    /// Where other repositories are fetched to, instead of your own cache folder
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

impl SourceArgs {
    /// What was typed, as values.
    ///
    /// # Errors
    /// [`Failure`] for a source that is not one.
    pub fn parse(&self) -> Result<(SourceMap, Cache), Failure> {
        let usage = |error: SourceError| {
            let help = error.help();
            Failure::new(failure::USAGE, &error).help(help)
        };
        let mut sources = SourceMap::parse(&self.sources).map_err(usage)?;
        sources.allow_hosts(&self.allow_hosts).map_err(usage)?;
        if let Some(cache) = &self.cache {
            super::places::folder(cache)?;
            outhaul_load::refuse_sources(cache, sources.folders())
                .map_err(|error| Failure::of(&error))?;
        }
        Ok((
            sources,
            self.cache.as_ref().map_or_else(Cache::of_user, Cache::at),
        ))
    }
}

/// A commit that is recorded without being looked for, such as that of a local copy: anything else would be on record as one.
pub(super) fn commit_id(text: &str) -> Result<String, String> {
    commit_id::typed_commit_id(text).ok_or_else(|| commit_id::HOW_TO_GIVE.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_commit_id_is_recorded() {
        for text in ["main", "1234567", "", &"g".repeat(40), &"1".repeat(41)] {
            commit_id(text).unwrap_err();
        }
        for digits in [40, 64] {
            // On record it is as git writes it.
            for typed in ["a", "A"] {
                assert_eq!(
                    commit_id(&typed.repeat(digits)).unwrap(),
                    "a".repeat(digits)
                );
            }
        }
    }
}
