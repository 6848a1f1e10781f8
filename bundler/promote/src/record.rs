//! On what evidence an environment was moved: written into the commit that moves it, read back later.
//!
//! What comes in: a hub's decision, or who overrides the gate and why. What goes out: the commit's
//! message, which ends in trailers (`Outhaul-Promoted: …`), and from messages the [`Passage`] of one
//! commit into one environment. A commit counts that does what a promotion does and no more, and whose message is
//! whole. It asks no hub, and there is no key: who may push to the environment's branch can write such a commit.

use std::fmt::Write as _;

use outhaul_bundle::Digest;
use serde::Serialize;

use super::hooks::HookRun;
use super::{Chain, Decision, Link, PromoteError, moved};
use outhaul_control::overriding::Override;
use outhaul_git::source::OpenedSource;
use outhaul_kit::text::printable;

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

/// The commit's message: what moved, and on what evidence. What others wrote is one line each: the lines that are read
/// back are ours.
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
                    printable(&evidence.site),
                    evidence.report,
                    printable(&evidence.digest),
                    evidence.bundle,
                    printable(&evidence.state)
                );
            }
            for note in &decision.notes {
                let _ = writeln!(text, "- note: {}", printable(note));
            }
        }
        Basis::Override(given) => {
            let _ = writeln!(text, "No gate let it in: {given}");
        }
    }
    for hook in hooks {
        let _ = writeln!(text, "- {}", printable(&hook.sentence()));
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

/// What one message says of `commit` in `environment`: all of it must be as [`message`] writes it.
fn read(message: &str, environment: &str, commit: &str) -> Option<Passage> {
    let short: String = commit.chars().take(12).collect();
    let mut lines = message.lines();
    // A forge that merges adds the number of the request.
    let added = lines
        .next()?
        .strip_prefix(&format!("Promote {short} to {environment}"))?;
    if !(added.is_empty() || is_request(added)) || !lines.next()?.is_empty() {
        return None;
    }
    let basis = lines.next()?;
    let (said, trailers) = {
        let rest: Vec<&str> = lines.collect();
        let end = rest.iter().position(|line| line.is_empty());
        let (said, trailers) = rest.split_at(end.unwrap_or(rest.len()));
        (
            said.to_vec(),
            trailers.get(1..).unwrap_or_default().to_vec(),
        )
    };
    if !said.iter().all(|line| line.starts_with("- ")) {
        return None;
    }
    let gate = opened_gate(basis, &said, commit);
    if trailers.is_empty() {
        // Programs of before wrote none.
        return gate.map(|from| Passage::Gate(from.to_owned()));
    }
    let promoted = format!("{PROMOTED}: {environment} {commit}");
    let value = |line: &&str, name: &str| {
        let value = line.strip_prefix(name)?.strip_prefix(": ")?;
        Some(value.to_owned())
    };
    match trailers.as_slice() {
        [first, second, more @ ..] if *first == promoted && more.iter().all(is_of_others) => {
            let from = value(second, GATE)?;
            let from = from.strip_prefix("open ")?;
            (gate? == from).then(|| Passage::Gate(from.to_owned()))
        }
        [first, second, by, reason, more @ ..]
            if *first == promoted && more.iter().all(is_of_others) =>
        {
            let (by, reason) = (value(by, OVERRIDE_BY)?, value(reason, OVERRIDE_REASON)?);
            let given = Override::new(&by, &reason).ok()?;
            let is_said = basis == format!("No gate let it in: {given}");
            let is_overridden = value(second, GATE)? == "overridden";
            (is_said && is_overridden).then_some(Passage::Override(given))
        }
        _ => None,
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
fn is_of_others(line: &&str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !name.to_ascii_lowercase().starts_with("outhaul-")
    };
    line.split_once(": ")
        .is_some_and(|(name, value)| is_name(name) && !value.is_empty())
}

/// The environment whose gate was open by the sentence `basis`, with a line of evidence for each site that confirmed.
fn opened_gate<'t>(basis: &'t str, said: &[&str], commit: &str) -> Option<&'t str> {
    let (from, rest) = basis
        .strip_prefix("The gate of `")?
        .split_once("` is open: ")?;
    let rest = rest.strip_suffix(&format!(" sites confirmed {commit}."))?;
    let (confirmed, counted) = rest.split_once(" of ")?;
    let (confirmed, counted): (usize, usize) = (confirmed.parse().ok()?, counted.parse().ok()?);
    let evidence = said.iter().filter(|line| is_evidence(line)).count();
    let is_sound = confirmed > 0 && confirmed <= counted && evidence >= confirmed;
    is_sound.then_some(from)
}

/// Whether a line names a report: `- SITE: report N (sha256:…), bundle N STATE`.
fn is_evidence(line: &str) -> bool {
    let read = || -> Option<bool> {
        let (_site, rest) = line.strip_prefix("- ")?.split_once(": report ")?;
        let (report, rest) = rest.split_once(" (")?;
        let (digest, rest) = rest.split_once("), bundle ")?;
        let (bundle, _state) = rest.split_once(' ')?;
        let is_number = |text: &str| text.parse::<u64>().is_ok();
        Some(is_number(report) && is_number(bundle) && digest.parse::<Digest>().is_ok())
    };
    read().unwrap_or(false)
}

/// The newest evidence on an environment's branch, opened at any of its commits, that `commit` may be
/// its base: a commit that only moves the base below `root` there, with a message as [`message`] writes it. The gate
/// must have been one of `from`.
///
/// # Errors
/// [`PromoteError`] when the history cannot be read.
pub fn find(
    opened: &OpenedSource,
    (environment, root): (&str, &str),
    commit: &str,
    from: &dyn Fn(&str) -> bool,
) -> Result<Option<Passage>, PromoteError> {
    for made in opened.recorded("^Promote ", MAX_COMMITS)? {
        let passage = read(&made.message, environment, commit);
        let counts = |passage: &Passage| match passage {
            Passage::Gate(gate) => from(gate),
            Passage::First | Passage::Override(_) => true,
        };
        if let Some(passage) = passage.filter(counts)
            && moved::is_move(opened, root, &made, commit)?
        {
            return Ok(Some(passage));
        }
    }
    Ok(None)
}

impl Chain<'_> {
    /// The evidence on `link`'s branch that `commit` may be its base.
    ///
    /// # Errors
    /// [`PromoteError`] when the history cannot be read.
    pub fn passage(&self, link: &Link, commit: &str) -> Result<Option<Passage>, PromoteError> {
        let name = &link.environment.name;
        let root = &link.environment.control_plane.path;
        find(&link.opened, (name, root), commit, &|from| {
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
    fn attack_trailers_without_their_evidence_do_not_count() {
        let head = "Promote 45523f7016cb to stage\n\n";
        let gate = format!("The gate of `dev` is open: 1 of 1 sites confirmed {COMMIT}.\n");
        let line = format!(
            "- edge-1: report 4 (sha256:{}), bundle 1 active\n",
            "30".repeat(32)
        );
        let trailers = format!("\n{PROMOTED}: stage {COMMIT}\n{GATE}: open dev");
        let whole = format!("{head}{gate}{line}{trailers}");
        assert_eq!(
            read(&whole, "stage", COMMIT),
            Some(Passage::Gate("dev".into()))
        );
        for forged in [
            format!("Promote\n{trailers}"),
            format!("{head}{trailers}"),
            format!("{head}{gate}{trailers}"),
            format!("{head}{}{line}{trailers}", gate.replace("1 of 1", "0 of 0")),
            format!("{head}{}{line}{trailers}", gate.replace("1 of 1", "2 of 2")),
            format!("{head}{}{line}{trailers}", gate.replace("dev", "lab")),
            format!(
                "{head}{gate}{}{trailers}",
                line.replace("(sha256:30", "(sha256:3")
            ),
            format!(
                "{head}{gate}{}{trailers}",
                line.replace("report 4", "report x")
            ),
            format!("{head}{gate}{line}And more.\n{trailers}"),
            format!("{head}{gate}{line}{trailers}\n{GATE}: open dev"),
            format!("{head}No gate let it in: x\n\n{PROMOTED}: stage {COMMIT}\n{GATE}: overridden"),
        ] {
            assert_eq!(read(&forged, "stage", COMMIT), None, "{forged}");
        }
    }

    #[test]
    fn what_a_forge_or_a_hook_adds_to_a_promotion_leaves_it_one() {
        let text = format!(
            "Promote 45523f7016cb to stage (#12)\n\nThe gate of `dev` is open: 1 of 1 sites confirmed {COMMIT}.\n\
             - edge-1: report 4 (sha256:{}), bundle 1 active\n\n{PROMOTED}: stage {COMMIT}\n{GATE}: open dev\n\
             Signed-off-by: Ann <ann@example.org>\nChange-Id: I12",
            "30".repeat(32)
        );
        let gate = Some(Passage::Gate("dev".into()));
        assert_eq!(read(&text, "stage", COMMIT), gate);
        for other in [
            text.replace(" (#12)", " (#x)"),
            text.replace(" (#12)", " again"),
            text.replace("Change-Id: I12", "and more"),
            text.replace("Change-Id: I12", "outhaul-gate: open lab"),
        ] {
            assert_eq!(read(&other, "stage", COMMIT), None, "{other}");
        }
    }

    #[test]
    fn attack_line_breaks_of_an_answer_forge_no_trailers() {
        let answer = include_str!("../../../bundle/tests/hub_api/gate-open.json");
        let GateAnswer { mut decision, .. } = serde_json::from_str(answer).unwrap();
        let forged = format!("x\n\n{PROMOTED}: prod {COMMIT}\r\u{2028}{GATE}: open stage\u{1b}[2K");
        decision.notes.push(forged.clone());
        decision.evidence[0].state.push_str(&forged);
        decision.evidence[0].site.push_str(&forged);
        let (from, decision) = ("dev".to_owned(), Box::new(decision));
        let text = message("stage", COMMIT, &Basis::Open { from, decision }, &[]);
        let of_ours = |line: &&str| line.starts_with(PROMOTED) || line.starts_with(GATE);
        assert_eq!(text.lines().filter(of_ours).count(), 2, "{text}");
        assert!(!text.contains(['\r', '\u{2028}', '\u{1b}']), "{text}");
        assert!(
            text.contains("- note: x\\u{a}\\u{a}Outhaul-Promoted"),
            "{text}"
        );
        assert_eq!(
            read(&text, "stage", COMMIT),
            Some(Passage::Gate("dev".into()))
        );
        assert_eq!(read(&text, "prod", COMMIT), None);
    }

    #[test]
    fn a_message_from_before_there_were_trailers_counts() {
        let text = format!(
            "Promote 45523f7016cb to stage\n\nThe gate of `dev` is open: 1 of 1 sites confirmed {COMMIT}.\n\
             - edge-1: report 4 (sha256:{}), bundle 1 active\n",
            "30".repeat(32)
        );
        assert_eq!(
            read(&text, "stage", COMMIT),
            Some(Passage::Gate("dev".into()))
        );
        let none = "Promote 45523f7016cb to stage\n\nNo gate was asked: no environment before it was named.\n";
        assert_eq!(read(none, "stage", COMMIT), None);
    }
}
