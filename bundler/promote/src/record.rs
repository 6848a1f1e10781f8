//! On what evidence an environment was moved: written into the commit that moves it, read back later.
//!
//! What comes in: a hub's decision, or who overrides the gate and why. What goes out: the commit's
//! message, which ends in trailers (`Outhaul-Promoted: …`), and from a message the [`Passage`] of one commit into one
//! environment, or what is wrong with it. It asks no hub, and there is no key: who may push to the environment's branch can
//! write such a message.

use std::fmt::Write as _;

use serde::Serialize;

use super::Decision;
use super::evidence::{self, ReportedState};
use super::hooks::HookRun;
use outhaul_bundle::hub_api::{Evidence, GateVerdict};
use outhaul_control::overriding::Override;
use outhaul_kit::commit_id::is_commit_id;
use outhaul_kit::text::printable;

const POLICIES: &str = "Outhaul-Policies";
const OTHER_PATH: &str = "Outhaul-Other-Path";
const OTHER_REPOSITORY: &str = "Outhaul-Other-Repository";
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
    /// Someone took it upon them.
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
    /// Someone goes past the gate.
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

/// What a promotion records besides its basis.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recorded<'a> {
    /// The commit of the control plane whose policies decided; `None` for a plain folder and for the first environment.
    pub policies: Option<&'a str>,
    /// The path of the base, where the environment before has another one.
    pub other_path: Option<&'a str>,
    /// The repository of the base, where the environment before has another one.
    pub other_repository: Option<&'a str>,
    /// What came of the hooks before the move.
    pub hooks: &'a [HookRun],
}

/// The commit's message: what moved, and on what evidence. What others wrote is one line each: the lines that are read
/// back are ours.
pub fn message(to: &str, commit: &str, basis: &Basis, more: Recorded<'_>) -> String {
    let mut text = format!("{}\n\n", subject(to, commit));
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
            for report in evidence::confirming(decision) {
                let _ = writeln!(text, "- {report}");
            }
            for note in notes(decision) {
                let _ = writeln!(text, "- note: {}", printable(&note));
            }
        }
        Basis::Override(given) => {
            let _ = writeln!(text, "No gate let it in: {given}");
        }
    }
    for hook in more.hooks {
        let _ = writeln!(text, "- {}", printable(&hook.sentence()));
    }
    text.push('\n');
    for (name, value) in [
        (POLICIES, more.policies),
        (OTHER_PATH, more.other_path),
        (OTHER_REPOSITORY, more.other_repository),
    ] {
        if let Some(value) = value {
            let _ = writeln!(text, "{name}: {}", printable(value));
        }
    }
    let _ = writeln!(text, "{PROMOTED}: {to} {commit}");
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

/// What did not close a gate and should be known: that not all sites had to confirm, sites that were waived, rules on record that
/// count instead of those asked for, sites that confirm by webhook alone.
pub fn notes(decision: &Decision) -> Vec<String> {
    // What is missing at a closed gate is said by the gate.
    let is_open = decision.verdict == GateVerdict::Open;
    let share = (is_open && decision.confirmed < decision.counted).then(|| {
        format!(
            "{} of {} sites confirmed: the rule of this gate asks for {} %",
            decision.confirmed, decision.counted, decision.quorum_percent
        )
    });
    let by_webhook = |one: &Evidence| {
        let sender = one.webhook.as_ref()?;
        Some(format!(
            "`{}` is known by webhook of {sender} alone: no agent signed its report",
            one.site
        ))
    };
    share
        .into_iter()
        .chain(decision.evidence.iter().filter_map(by_webhook))
        .chain(decision.notes.iter().cloned())
        .collect()
}

/// What a message is, read for one commit and environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MessageReading {
    /// It is not that of a promotion of this commit to this environment.
    OfOther,
    /// It begins as one, and does not count: why.
    Unsound(String),
    /// It is one.
    Sound(Passage),
}

/// The first line of a promotion's message.
pub(super) fn subject(environment: &str, commit: &str) -> String {
    let short: String = commit.chars().take(12).collect();
    format!("Promote {short} to {environment}")
}

/// What one message says of `commit` in `environment`: all of it must be as [`message`] writes it.
pub(super) fn read(message: &str, environment: &str, commit: &str) -> MessageReading {
    // A forge that merges adds the number of the request.
    let first = message.lines().next().unwrap_or_default();
    let added = first.strip_prefix(&subject(environment, commit));
    match added {
        Some(added) if added.is_empty() || is_request(added) => {}
        _ => return MessageReading::OfOther,
    }
    match passage(message, environment, commit) {
        Ok(passage) => MessageReading::Sound(passage),
        Err(problem) => MessageReading::Unsound(problem),
    }
}

fn passage(message: &str, environment: &str, commit: &str) -> Result<Passage, String> {
    if message.contains('\r') {
        return Err("its message has carriage returns".to_owned());
    }
    let mut lines = message.lines().skip(1);
    if lines.next().is_none_or(|line| !line.is_empty()) {
        return Err("its message has only a first line".to_owned());
    }
    let basis = lines.next().unwrap_or_default();
    let rest: Vec<&str> = lines.collect();
    let end = rest.iter().position(|line| line.is_empty());
    let (said, trailers) = rest.split_at(end.unwrap_or(rest.len()));
    let trailers = trailers.get(1..).unwrap_or_default();
    let gate = || opened_gate(basis, said, commit);
    if trailers.is_empty() {
        // Programs of before wrote none.
        return gate().map(|from| Passage::Gate(from.to_owned()));
    }
    let no_trailer =
        |name: &str| format!("its message does not end in `{name}: …` as `promote` writes it");
    let value = |line: Option<&&str>, name: &str| {
        let value = line.and_then(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map(str::to_owned).ok_or_else(|| no_trailer(name))
    };
    let of_ours = |name: &str, line: &str| line.starts_with(&format!("{name}: "));
    let mut trailers = trailers.iter().peekable();
    trailers.next_if(|line| of_ours(POLICIES, line));
    trailers.next_if(|line| of_ours(OTHER_PATH, line));
    trailers.next_if(|line| of_ours(OTHER_REPOSITORY, line));
    if value(trailers.next(), PROMOTED)? != format!("{environment} {commit}") {
        return Err(no_trailer(PROMOTED));
    }
    let how = value(trailers.next(), GATE)?;
    let passage = if let Some(from) = how.strip_prefix("open ") {
        if gate()? != from {
            return Err(format!(
                "its message names two gates, and one of them is that of `{from}`"
            ));
        }
        Passage::Gate(from.to_owned())
    } else if how == "overridden" {
        let by = value(trailers.next(), OVERRIDE_BY)?;
        let reason = value(trailers.next(), OVERRIDE_REASON)?;
        let given = Override::new(&by, &reason).map_err(|error| error.to_string())?;
        if basis != format!("No gate let it in: {given}") {
            return Err("its message gives two reasons for going past the gate".to_owned());
        }
        only_ours(said)?;
        Passage::Override(given)
    } else {
        return Err(format!(
            "its message names no gate that was open or overridden, but `{how}`"
        ));
    };
    match trailers.find(|line| !line.is_empty() && !is_of_others(line)) {
        Some(line) => Err(format!(
            "its message has a line that `promote` does not write: `{line}`"
        )),
        None => Ok(passage),
    }
}

/// Whether a text is ` (#12)`.
fn is_request(text: &str) -> bool {
    let number = text
        .strip_prefix(" (#")
        .and_then(|rest| rest.strip_suffix(')'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether a line is a trailer that a server or a hook added, such as `Signed-off-by: …`, and none of ours.
fn is_of_others(line: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !name.to_ascii_lowercase().starts_with("outhaul-")
    };
    line.split_once(": ")
        .is_some_and(|(name, value)| is_name(name) && !value.is_empty())
}

/// The commit of the control plane whose policies decided, by a message that is one of a promotion; `None` where it names none.
pub(super) fn policies(message: &str) -> Option<&str> {
    trailer(message, POLICIES).filter(|id| is_commit_id(id))
}

/// The path of the base, by a message that is one of a promotion, where the environment before had another one then.
pub(super) fn other_path(message: &str) -> Option<&str> {
    trailer(message, OTHER_PATH)
}

/// The repository of the base, likewise.
pub(super) fn other_repository(message: &str) -> Option<&str> {
    trailer(message, OTHER_REPOSITORY)
}

/// The environment and the commit that a message promotes: what it says of them is [`read`] then.
pub(super) fn promoted(message: &str) -> Option<(&str, &str)> {
    if let Some(both) = trailer(message, PROMOTED) {
        return both.split_once(' ');
    }
    // Programs of before wrote no trailers.
    let (_, rest) = message.lines().next()?.split_once(" to ")?;
    let environment = rest.split_once(" (#").map_or(rest, |(name, _)| name);
    let (_, commit) = message.lines().nth(2)?.rsplit_once(' ')?;
    Some((environment, commit.strip_suffix('.')?))
}

fn trailer<'t>(message: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = message.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// How many of how many sites confirmed `commit`, by a message; `None` for one that names no open gate.
pub(super) fn sites(message: &str, commit: &str) -> Option<(usize, usize)> {
    let (_, confirmed, counted) = read_basis(message.lines().nth(2)?, commit)?;
    Some((confirmed, counted))
}

/// The environment whose gate was open by the sentence `basis`, and how many of how many sites confirmed.
fn read_basis<'t>(basis: &'t str, commit: &str) -> Option<(&'t str, usize, usize)> {
    let (from, rest) = basis
        .strip_prefix("The gate of `")?
        .split_once("` is open: ")?;
    let rest = rest.strip_suffix(&format!(" sites confirmed {commit}."))?;
    let (confirmed, counted) = rest.split_once(" of ")?;
    Some((from, confirmed.parse().ok()?, counted.parse().ok()?))
}

/// The environment whose gate was open by the sentence `basis`, with reports that support it.
fn opened_gate<'t>(basis: &'t str, said: &[&str], commit: &str) -> Result<&'t str, String> {
    let Some((from, confirmed, counted)) = read_basis(basis, commit) else {
        return Err(format!(
            "its message does not say which gate was open: ``The gate of `…` is open: N of N sites confirmed {commit}.``"
        ));
    };
    let reports = only_ours(said)?;
    match evidence::supports(confirmed, counted, &reports) {
        Ok(()) => Ok(from),
        Err(problem) => Err(format!(
            "its message says that the gate is open, and {problem}"
        )),
    }
}

/// The reports among the lines between the first sentence and the trailers; all of these are reports, notes or hooks.
fn only_ours(said: &[&str]) -> Result<Vec<ReportedState>, String> {
    let mut reports = Vec::new();
    for line in said {
        let text = line.strip_prefix("- ").unwrap_or_default();
        match ReportedState::parse(text) {
            Some(report) => reports.push(report),
            None if text.starts_with("note: ") || text.starts_with("hook `") => {}
            None => {
                return Err(format!(
                    "its message has a line that `promote` does not write: `{line}`"
                ));
            }
        }
    }
    Ok(reports)
}

#[cfg(test)]
mod tests;
