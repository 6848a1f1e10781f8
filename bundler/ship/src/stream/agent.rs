//! The agent that a bundle brings: programs of one version, each for another architecture.
//!
//! What comes in: `VERSION=FILE` as someone typed it. What goes out: the programs in the spool and their list for the index; or
//! what is wrong with them, before anything is signed. For which machine a program is, it says itself.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use outhaul_bundle::index::Content;
use outhaul_bundle::index::release::{
    AgentRelease, HEADER_BYTES, MAX_PROGRAM_BYTES, architecture_of, is_version,
};
use outhaul_signer::durable;

use crate::assemble::{Spool, SpoolError};

/// Programs of one version of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPrograms {
    version: String,
    /// By architecture.
    programs: BTreeMap<&'static str, PathBuf>,
}

/// What is wrong with a program that was named.
#[derive(Debug, thiserror::Error)]
#[error("`--agent {typed}`: {problem}")]
pub struct AgentProgramError {
    typed: String,
    problem: String,
}

impl AgentPrograms {
    /// From what was typed; `None` when nothing was.
    ///
    /// # Errors
    /// [`AgentProgramError`] of the first that is wrong.
    pub fn of(typed: &[String]) -> Result<Option<Self>, AgentProgramError> {
        let mut all: Option<Self> = None;
        for typed in typed {
            let fail = |problem: String| AgentProgramError {
                typed: typed.clone(),
                problem,
            };
            let (version, file) = typed.split_once('=').ok_or_else(|| {
                fail("write VERSION=FILE, such as 0.2.0=dist/outhaul-agent-x86_64".into())
            })?;
            if !is_version(version) {
                return Err(fail(format!("`{version}` is not a version such as 0.2.0")));
            }
            let path = PathBuf::from(file);
            let found =
                header(&path).map_err(|error| fail(format!("`{file}` cannot be read: {error}")))?;
            let architecture =
                architecture_of(&found).map_err(|why| fail(format!("`{file}`: {why}")))?;
            let all = all.get_or_insert_with(|| Self {
                version: version.to_owned(),
                programs: BTreeMap::new(),
            });
            if all.version != version {
                let first = all.version.clone();
                return Err(fail(format!(
                    "a bundle brings one version, and {first} was named before"
                )));
            }
            if all.programs.insert(architecture, path).is_some() {
                return Err(fail(format!(
                    "a program for {architecture} was named before"
                )));
            }
        }
        Ok(all)
    }

    /// Puts the programs into the spool, and lists them.
    pub(super) fn add_to(&self, spool: &mut Spool) -> Result<AgentRelease, SpoolError> {
        let mut programs = BTreeMap::new();
        for (architecture, path) in &self.programs {
            let (digest, size) = spool.add_with(|out| {
                let mut file = durable::open_file(path)?.take(MAX_PROGRAM_BYTES);
                io::copy(&mut file, out).map(|_| ())
            })?;
            programs.insert((*architecture).to_owned(), Content { digest, size });
        }
        Ok(AgentRelease {
            version: self.version.clone(),
            programs,
        })
    }
}

/// The first bytes of a regular file that is not too large.
fn header(path: &Path) -> io::Result<Vec<u8>> {
    let file = durable::open_file(path)?;
    let about = file.metadata()?;
    if about.len() > MAX_PROGRAM_BYTES {
        let most = MAX_PROGRAM_BYTES;
        return Err(io::Error::other(format!(
            "it has {} bytes, at most {most} are carried",
            about.len()
        )));
    }
    let mut bytes = Vec::new();
    file.take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
