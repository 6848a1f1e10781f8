//! What an audit comes to.
//!
//! What comes in: what does not hold, and each decision as it was recomputed. What goes out: the same, typed, and the exit
//! code that says it. It decides nothing.

use serde::Serialize;

/// What became of an audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// The fleet.
    pub fleet: String,
    /// Id of the key of the hub that wrote the file.
    pub hub_key: String,
    /// The digest of the newest decision: a later export has it in its chain.
    pub head: String,
    /// What is wrong with signatures, chains and the file.
    pub problems: Vec<Problem>,
    /// The digest of the newest entry of what people decided.
    pub acts_head: String,
    /// Reports that never arrived.
    pub missing: Vec<MissingReports>,
    /// Each decision, in the order in which it was made.
    pub decisions: Vec<CheckedDecision>,
    /// Decisions whose time lies before that of one that was made before them: the hub's clock was put back.
    pub backwards: Vec<i64>,
    /// What the file says and nobody but the hub signed.
    pub taken_from_the_hub: Vec<String>,
}

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The line of the file, from 1; 0 for the file as a whole.
    pub line: u64,
    /// What is wrong there.
    pub what: String,
}

/// Reports of a site that never arrived.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MissingReports {
    /// The site.
    pub site: String,
    /// The epoch.
    pub epoch: String,
    /// First and last number of each run.
    pub reports: Vec<(u64, u64)>,
}

impl std::fmt::Display for MissingReports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let run = |(first, last): &(u64, u64)| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        };
        let runs: Vec<_> = self.reports.iter().map(run).collect();
        write!(
            f,
            "site `{}`: reports {} never arrived",
            self.site,
            runs.join(", ")
        )
    }
}

/// A decision, recomputed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedDecision {
    /// Its number.
    pub id: i64,
    /// When it was made.
    pub at: String,
    /// The environment.
    pub environment: String,
    /// The environment that the commit was to go to, where that was said.
    pub to: Option<String>,
    /// The base commit.
    pub commit: String,
    /// The verdict on record.
    pub verdict: String,
    /// Who asked.
    pub asked_by: String,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Recomputed,
}

/// What recomputing a decision came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", content = "because", rename_all = "snake_case")]
pub enum Recomputed {
    /// The same from the same evidence.
    AsRecorded,
    /// Something else, and what.
    Differs(Vec<String>),
    /// It cannot be recomputed: what is missing.
    Missing(String),
}

impl Audit {
    /// The exit code: 4 when something does not hold, 1 when a decision cannot be recomputed, else 0.
    pub fn exit_code(&self) -> u8 {
        let any = |is: fn(&Recomputed) -> bool| self.decisions.iter().any(|one| is(&one.outcome));
        if !self.problems.is_empty() || any(|outcome| matches!(outcome, Recomputed::Differs(_))) {
            4
        } else {
            u8::from(any(|outcome| matches!(outcome, Recomputed::Missing(_))))
        }
    }
}
