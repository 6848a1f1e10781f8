//! On what evidence an environment was moved: written into the commit that moves it, read back later.
//!
//! What comes in: a hub's decision, or who overrides the gate and why. What goes out: the commit's
//! message, which ends in trailers (`Outhaul-Promoted: …`), and from messages the [`Passage`] of one
//! commit into one environment. It asks no hub and trusts the environment's branch: who may write there
//! may promote.

use std::fmt::Write as _;

use serde::Serialize;

use super::hooks::HookRun;
use super::{Chain, Decision, Link, PromoteError};
use outhaul_control::overriding::Override;
use outhaul_git::branch::BranchError;
use outhaul_git::program::Git;
use outhaul_git::source::OpenedSource;

/// Commits of an environment's branch that are looked at.
const MAX_COMMITS: usize = 5_000;
const PROMOTED: &str = "Outhaul-Promoted";
const GATE: &str = "Outhaul-Gate";
const OVERRIDE_BY: &str = "Outhaul-Override-By";
const OVERRIDE_REASON: &str = "Outhaul-Override-Reason";

/// On what evidence a commit came into an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Passage {
    /// It is the first environment: no gate is before it.
    First,
    /// The gate of that environment was open.
    Gate(String),
    /// Somebody took it upon them.
    Override(Override),
}

/// What allows a promotion.
#[derive(Debug, Clone, PartialEq)]
pub enum Basis {
    /// Nothing is before the environment.
    First,
    /// The gate of an environment is open.
    Open {
        /// The environment.
        from: String,
        /// What the hub decided.
        decision: Box<Decision>,
    },
    /// Somebody goes past the gate.
    Override(Override),
}

impl Basis {
    /// The hub's decision; `None` where no gate decided.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Open { decision, .. } => Some(decision),
            Self::First | Self::Override(_) => None,
        }
    }
}

/// The commit's message: what moved, and on what evidence.
pub fn message(to: &str, commit: &str, basis: &Basis, hooks: &[HookRun]) -> String {
    let short: String = commit.chars().take(12).collect();
    let mut text = format!("Promote {short} to {to}\n\n");
    // Writing to a text cannot fail, here and below.
    match basis {
        Basis::First => {
            let _ = writeln!(
                text,
                "`{to}` is the first environment: no gate is before it."
            );
        }
        Basis::Open { from, decision } => {
            let _ = writeln!(
                text,
                "The gate of `{from}` is open: {} of {} sites confirmed {commit}.",
                decision.confirmed, decision.counted
            );
            for evidence in &decision.evidence {
                let _ = writeln!(
                    text,
                    "- {}: report {} ({}), bundle {} {}",
                    evidence.site,
                    evidence.report,
                    evidence.digest,
                    evidence.bundle,
                    evidence.state
                );
            }
            for note in &decision.notes {
                let _ = writeln!(text, "- note: {}", note.replace(['\n', '\r'], " "));
            }
        }
        Basis::Override(given) => {
            let _ = writeln!(text, "No gate let it in: {given}");
        }
    }
    for hook in hooks {
        let _ = writeln!(text, "- {}", hook.sentence());
    }
    let _ = writeln!(text, "\n{PROMOTED}: {to} {commit}");
    let _ = match basis {
        Basis::First => writeln!(text, "{GATE}: first"),
        Basis::Open { from, .. } => writeln!(text, "{GATE}: open {from}"),
        Basis::Override(given) => writeln!(
            text,
            "{GATE}: overridden\n{OVERRIDE_BY}: {}\n{OVERRIDE_REASON}: {}",
            given.by, given.reason
        ),
    };
    text
}

/// What one message says of `commit` in `environment`.
fn read(message: &str, environment: &str, commit: &str) -> Option<Passage> {
    let trailer = |name: &str| {
        let mut found = message.lines().rev();
        found.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let Some(promoted) = trailer(PROMOTED) else {
        return read_earlier(message, environment, commit);
    };
    if promoted != format!("{environment} {commit}") {
        return None;
    }
    match trailer(GATE)?.split_once(' ') {
        Some(("open", from)) => Some(Passage::Gate(from.to_owned())),
        None if trailer(GATE) == Some("overridden") => {
            let given = Override::new(trailer(OVERRIDE_BY)?, trailer(OVERRIDE_REASON)?);
            given.ok().map(Passage::Override)
        }
        _ => None,
    }
}

/// Messages of programs that wrote no trailers.
fn read_earlier(message: &str, environment: &str, commit: &str) -> Option<Passage> {
    let short: String = commit.chars().take(12).collect();
    let mut lines = message.lines();
    if lines.next()? != format!("Promote {short} to {environment}") {
        return None;
    }
    lines.find_map(|line| {
        let (from, rest) = line
            .strip_prefix("The gate of `")?
            .split_once("` is open: ")?;
        let confirmed = rest.ends_with(&format!(" sites confirmed {commit}."));
        confirmed.then(|| Passage::Gate(from.to_owned()))
    })
}

/// The newest evidence on an environment's branch, opened at any of its commits, that `commit` may be
/// its base. The gate must have been one of `from`.
///
/// # Errors
/// [`PromoteError`] when the history cannot be read.
pub fn find(
    opened: &OpenedSource,
    environment: &str,
    commit: &str,
    from: &dyn Fn(&str) -> bool,
) -> Result<Option<Passage>, PromoteError> {
    let Some(folder) = opened.repository_folder() else {
        return Ok(None);
    };
    // Brings the history of what was fetched without it.
    opened.history(MAX_COMMITS)?;
    let most = format!("--max-count={MAX_COMMITS}");
    let log = Git::at(folder).text(&[
        "log",
        &most,
        "--format=%B%x00",
        "--grep=^Promote ",
        "--end-of-options",
        &opened.commit,
    ]);
    let log = log.map_err(|error| PromoteError::Branch {
        environment: environment.to_owned(),
        source: BranchError::from(error),
    })?;
    let passages = log
        .split('\0')
        .filter_map(|text| read(text.trim(), environment, commit));
    let mut counted = passages.filter(|passage| match passage {
        Passage::Gate(gate) => from(gate),
        Passage::First | Passage::Override(_) => true,
    });
    Ok(counted.next())
}

impl Chain<'_> {
    /// The evidence on `link`'s branch that `commit` may be its base.
    ///
    /// # Errors
    /// [`PromoteError`] when the history cannot be read.
    pub fn passage(&self, link: &Link, commit: &str) -> Result<Option<Passage>, PromoteError> {
        let name = &link.environment.name;
        find(&link.opened, name, commit, &|from| {
            self.may_come(from, name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outhaul_bundle::hub_api::GateAnswer;

    const COMMIT: &str = "45523f7016cb0ab7a4a34133d2addc78e5b838f6";

    #[test]
    fn what_is_written_is_read_back_for_this_commit_and_environment_only() {
        // What a hub answered.
        let answer = include_str!("../../../bundle/tests/hub_api/gate-open.json");
        let GateAnswer { decision, .. } = serde_json::from_str(answer).unwrap();
        let text = message(
            "stage",
            COMMIT,
            &Basis::Open {
                from: "dev".to_owned(),
                decision: Box::new(decision),
            },
            &[],
        );
        let gate = Some(Passage::Gate("dev".into()));
        assert_eq!(read(&text, "stage", COMMIT), gate);
        assert_eq!(read(&text, "prod", COMMIT), None);
        assert_eq!(read(&text, "stage", &COMMIT.replace('4', "5")), None);
        let given = Override::new("Jo", "the line stands still").unwrap();
        let text = message("prod", COMMIT, &Basis::Override(given.clone()), &[]);
        assert_eq!(
            read(&text, "prod", COMMIT),
            Some(Passage::Override(given.clone()))
        );
        let first = message("dev", COMMIT, &Basis::First, &[]);
        assert_eq!(
            read(&first, "dev", COMMIT),
            None,
            "the order says so, not a commit"
        );
        for (by, reason) in [("", "x"), ("x", " "), ("x\nOuthaul-Gate: open dev", "y")] {
            Override::new(by, reason).unwrap_err();
        }
    }

    #[test]
    fn a_message_from_before_there_were_trailers_counts() {
        let text = format!(
            "Promote 45523f7016cb to stage\n\nThe gate of `dev` is open: 1 of 1 sites confirmed {COMMIT}.\n\
             - edge-1: report 4 (sha256:30), bundle 1 active\n"
        );
        assert_eq!(
            read(&text, "stage", COMMIT),
            Some(Passage::Gate("dev".into()))
        );
        let none = "Promote 45523f7016cb to stage\n\nNo gate was asked: no environment before it was named.\n";
        assert_eq!(read(none, "stage", COMMIT), None);
    }
}
