//! Blame: which commit, value or act on site a site broke after.
//!
//! ```text
//! SiteFault + LoadRequest ─▶ walk ─▶ possible causes ─▶ rank ─▶ Blame ─▶ undo
//! ```
//!
//! What comes in: a fault as a hub tells it, and where the control plane lies. What goes out: a [`Blame`]: the possible causes, the
//! likeliest first, each with its share and why. It writes nothing outside the cache of fetched repositories, but for an undo
//! that someone asked for.

mod cause;
mod change;
pub mod chosen;
mod merge;
mod moved;
mod rank;
mod states;
pub mod text;
pub mod undo;
mod walk;

use outhaul_bundle::hub_api::{FaultKind, SiteFault};
use outhaul_git::source::SourceError;
use outhaul_kit::console::progress::Meter;
use outhaul_load::LoadRequest;
use outhaul_plane::compose::Mode;
use serde::Serialize;

pub use cause::{Cause, CauseKind, CommitCause};

/// What is asked.
#[derive(Debug)]
pub struct BlameRequest<'a> {
    /// The site.
    pub site: &'a str,
    /// Its cluster type.
    pub cluster_type: &'a str,
    /// The fault.
    pub fault: &'a SiteFault,
    /// Where the control plane lies.
    pub load: &'a LoadRequest,
    /// How Kalypso's defects are treated.
    pub mode: Mode,
    /// Counts how often older commits were rendered.
    pub progress: &'a Meter,
}

/// The answer to one fault.
#[derive(Debug, Serialize)]
pub struct Blame {
    /// The assignments that were looked at: those that the site names, or those that became others.
    pub assignments: Vec<String>,
    /// The likeliest first.
    pub causes: Vec<Cause>,
    /// How many commits lie between the two reports, by source.
    pub commits: Vec<(String, usize)>,
    /// Why the commits between the two reports were not all looked at; absent when they were, and when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// What was not looked at, or makes the answer less certain, as sentences.
    pub notes: Vec<String>,
}

impl Blame {
    /// The commit that is likelier than every other cause; `None` where the likeliest is none, and where another is as likely.
    pub fn likeliest(&self) -> Option<&CommitCause> {
        let first = self.causes.first()?;
        let is_alone = self
            .causes
            .get(1)
            .is_none_or(|second| second.confidence < first.confidence);
        first.commit.as_ref().filter(|_| is_alone)
    }

    /// All commits among the causes, the likeliest first.
    pub fn commits(&self) -> impl Iterator<Item = &CommitCause> {
        self.causes.iter().filter_map(|cause| cause.commit.as_ref())
    }
}

/// Why not all commits were searched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BlameError {
    /// The commits of a report cannot be rendered any more.
    #[error("what bundle {bundle} was rendered from cannot be rendered again: {why}")]
    Gone {
        /// The bundle's number.
        bundle: u64,
        /// Why, as one sentence.
        why: String,
    },
    /// A repository cannot be read.
    #[error("`{repo}` cannot be read: {source}")]
    Source {
        /// Its URL.
        repo: String,
        /// Why.
        source: SourceError,
    },
}

/// Looks for the cause of one fault. Where commits cannot be rendered again, the answer says so and names what is known without them.
pub fn blame(request: &BlameRequest<'_>) -> Blame {
    let fault = request.fault;
    let mut found = walk::walk(request);
    let mut notes = std::mem::take(&mut found.notes);
    for (from, to) in &fault.missing {
        notes.push(match from == to {
            true => format!("report {from} of the site is missing: its content is not known"),
            false => format!(
                "reports {from} to {to} of the site are missing: their content is not known"
            ),
        });
    }
    if fault.good.is_none() && fault.kind != FaultKind::Drifted {
        let note = match fault.no_longer_kept.is_empty() {
            true => {
                "no report shows that this was ever well: only what the site did is known, not what changed"
            }
            false => {
                "too little history: the hub removed the reports in which it may have been well last, so what changed is not known"
            }
        };
        notes.push(note.to_owned());
    }
    // Without the commits nothing speaks for the site itself.
    let is_compared =
        found.incomplete.is_none() && (fault.good.is_some() || fault.kind == FaultKind::Drifted);
    Blame {
        causes: rank::ranked(fault, found.candidates, is_compared),
        assignments: found.assignments,
        commits: found.commits,
        incomplete: found.incomplete,
        notes,
    }
}
