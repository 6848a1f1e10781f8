//! Why no bundle was imported from a medium or a repository, where that is no fault of the bundle: a program that is missing, a full disk, a link or a
//! server that gives nothing.
//!
//! What comes in: where a bundle was to be imported from, and what came of it. What goes out: the reason and the way out, kept until a bundle is
//! imported, for `status`: whoever comes later did not see the command; and a report, once the same server has given nothing for a second time. What is wrong with a
//! bundle itself is reported as a refusal.

use outhaul_bundle::report::ReportEvent;
use outhaul_kit::text::quoted;
use outhaul_reconcilers::shortened;
use outhaul_site::attention::{Attention, AttentionKind};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::ImportOutcome;
use super::media::Findings;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::{self, StateError, generations, key, outbox};

/// The rule under which it is reported that a server gives no bundle.
const NOT_RECEIVED: &str = "not-received";

/// Why nothing was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SkippedSource {
    /// The stick, folder, file or URL.
    source: String,
    /// What is missing or failed.
    message: String,
    /// The way out.
    help: String,
    /// What to do after that.
    again: String,
    /// Whether it is space that was missing.
    of_space: bool,
    /// Whether it is the network or the server that kept it back.
    #[serde(default)]
    of_network: bool,
    /// Whether that it stays so was reported.
    #[serde(default)]
    is_reported: bool,
    /// The newest bundle that was here then; 0 where there was none.
    newest: u64,
}

impl SkippedSource {
    /// Whether only numbers differ: how much space is missing, and how much came, is another one at every poll.
    fn is_same_reason(&self, known: &Self) -> bool {
        let without_numbers = |message: &str| message.replace(|c: char| c.is_ascii_digit(), "");
        let message = match without_numbers(&self.message) == without_numbers(&known.message) {
            true => known.message.clone(),
            false => self.message.clone(),
        };
        *known
            == Self {
                message,
                ..self.clone()
            }
    }

    /// Notes that the centre knows of it: once the same server has given nothing for a second time, since a link that broke is no news.
    fn report_after(&mut self, known: Option<&Self>) -> Option<ReportEvent> {
        let known = known.filter(|known| known.of_network && known.source == self.source)?;
        self.is_reported = known.is_reported || self.of_network;
        (self.of_network && !known.is_reported).then(|| ReportEvent::Refusal {
            source: self.source.clone(),
            rule: NOT_RECEIVED.to_owned(),
            message: shortened(&format!(
                "no bundle could be fetched twice in a row: {}",
                self.message
            )),
        })
    }

    /// Whether it came of a repository that is not asked any more.
    fn is_of_another_repository(&self, url: Option<&str>) -> bool {
        let is_url = !self.source.starts_with('/') && self.source.contains("://");
        is_url && url != Some(self.source.as_str())
    }
}

/// Keeps what came of reading a medium, in the transaction in which that is remembered.
pub(super) fn note_read(
    db: &Connection,
    place: &str,
    read: &Result<Findings, AgentError>,
) -> Result<(), StateError> {
    let error = match read {
        // Also where another bundle of the same stick was taken: which one it was that could not be read, nobody knows.
        Ok(findings) => findings
            .failed
            .iter()
            .find(|error| error.host_fault().is_some()),
        Err(error) => Some(error).filter(|error| error.host_fault().is_some()),
    };
    match error {
        Some(error) => keep(db, place, error),
        None => forget(db, place, read.as_ref().is_ok_and(took_something)),
    }
}

/// What is active already and a part of a bundle are no bundle that was taken.
fn took_something(findings: &Findings) -> bool {
    let taken = |outcome: &ImportOutcome| match outcome {
        ImportOutcome::Rests { .. } | ImportOutcome::Ordered { .. } => true,
        ImportOutcome::AlreadyActive { .. } | ImportOutcome::Incomplete { .. } => false,
    };
    findings.outcome.as_ref().is_some_and(taken)
}

/// Keeps what came of a repository. One that says the same at every poll is written down once.
///
/// # Errors
/// [`StateError`]
pub(crate) fn note_pulled(
    agent: &mut Agent,
    url: &str,
    error: Option<&AgentError>,
) -> Result<(), StateError> {
    let again = "`outhaul-agent run --once` takes it then, or the service where it runs";
    let db = agent.store.read();
    let known: Option<SkippedSource> = state::meta(db, key::NOT_TAKEN)?;
    // That the settings are lost is said as long as they are, and not kept.
    let is_kept = agent.check_settings().is_ok();
    let error = error.filter(|error| {
        is_kept && (is_of_network(error) || is_of_server(error) || error.host_fault().is_some())
    });
    let mut now = error
        .map(|error| skipped_source(db, url, error, again))
        .transpose()?;
    let report = now
        .as_mut()
        .and_then(|now| now.report_after(known.as_ref()));
    let is_of_it = known.as_ref().is_some_and(|known| known.source == url);
    let is_same = match (&now, &known) {
        (Some(now), Some(known)) => now.is_same_reason(known),
        (None, _) => !is_of_it,
        (Some(_), None) => false,
    };
    if is_same {
        return Ok(());
    }
    agent.commit(|db, author| {
        if let Some(report) = report {
            outbox::queue(db, author, report)?;
        }
        state::set_meta(db, key::NOT_TAKEN, now.as_ref())
    })
}

/// Whether a server, or the way to it, kept back what it was asked for. That no more may come today is the owner's wish.
fn is_of_network(error: &AgentError) -> bool {
    matches!(
        error,
        AgentError::Network { .. } | AgentError::Unreadable { .. }
    )
}

/// Whether a part of the bundle lacks on the server, which is reported as such.
fn is_of_server(error: &AgentError) -> bool {
    matches!(error, AgentError::Incomplete { .. })
}

/// What to do where a server keeps a bundle back.
const OF_NETWORK: &str = "see that the link to it works, and ask the person who runs it; until then, `outhaul-agent import FOLDER` imports the bundle from a \
                          stick";

/// What was kept of this source goes, and all of it when something was taken.
fn forget(db: &Connection, source: &str, is_taken: bool) -> Result<(), StateError> {
    let known: Option<SkippedSource> = state::meta(db, key::NOT_TAKEN)?;
    match known {
        Some(known) if is_taken || known.source == source => {
            state::set_meta::<SkippedSource>(db, key::NOT_TAKEN, None)
        }
        _ => Ok(()),
    }
}

fn keep(db: &Connection, place: &str, error: &AgentError) -> Result<(), StateError> {
    let again = format!("then `outhaul-agent import {}` again", quoted(place));
    let kept = skipped_source(db, place, error, &again)?;
    state::set_meta(db, key::NOT_TAKEN, Some(&kept))
}

fn skipped_source(
    db: &Connection,
    source: &str,
    error: &AgentError,
    again: &str,
) -> Result<SkippedSource, StateError> {
    Ok(SkippedSource {
        source: source.to_owned(),
        message: shortened(&error.to_string()),
        help: match error {
            AgentError::Network { .. } => OF_NETWORK.to_owned(),
            other => shortened(&other.help_without_repeat()),
        },
        again: again.to_owned(),
        of_space: matches!(error, AgentError::Space { .. }),
        of_network: is_of_network(error),
        is_reported: false,
        newest: newest(db)?,
    })
}

fn newest(db: &Connection) -> Result<u64, StateError> {
    let all = generations::all(db)?;
    Ok(all.iter().map(|row| row.number).max().unwrap_or(0))
}

/// What is kept, while no newer bundle has come, and the repository, whose URL comes in, is the same. With `short_of_space`, how to make room is said already.
///
/// # Errors
/// [`StateError`]
pub(crate) fn present(
    db: &Connection,
    url: Option<&str>,
    short_of_space: bool,
) -> Result<Option<Attention>, StateError> {
    let known: Option<SkippedSource> = state::meta(db, key::NOT_TAKEN)?;
    let newest = newest(db)?;
    let holds =
        |known: &SkippedSource| known.newest == newest && !known.is_of_another_repository(url);
    Ok(known.filter(holds).map(|known| {
        let message = format!(
            "a bundle could not be imported from `{}`: {}",
            known.source, known.message
        );
        let help = match known.of_space && short_of_space {
            true => format!(
                "when there is room, {}",
                known.again.trim_start_matches("then ")
            ),
            false => format!("{}; {}", known.help, known.again),
        };
        Attention::of_site(AttentionKind::NotTaken, message, help)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Store;

    const URL: &str = "https://repository.example/";

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("agent.db")).unwrap();
        (folder, store)
    }

    fn unreadable() -> AgentError {
        AgentError::Unreadable {
            source_name: "a.outhaul".to_owned(),
            problem: "Input/output error".to_owned(),
        }
    }

    fn space(missing: u64) -> AgentError {
        AgentError::Space {
            folder: "/state".to_owned(),
            needed: 900,
            reserve: 100,
            free: 900 - missing,
            missing,
            removable: Vec::new(),
        }
    }

    fn shown(store: &Store) -> bool {
        let found = present(store.read(), Some(URL), false).unwrap();
        found.is_some()
    }

    #[test]
    fn what_could_not_be_looked_at_is_kept_until_something_is_taken() {
        let (_folder, store) = store();
        let read = |place: &str, findings| note_read(store.read(), place, &Ok(findings)).unwrap();
        let failed = vec![AgentError::Stopped, unreadable()];
        let findings = Findings {
            failed,
            ..Findings::default()
        };
        read("/media/my stick", findings);
        let found = present(store.read(), None, false).unwrap().unwrap();
        assert!(
            found
                .help
                .contains("`outhaul-agent import '/media/my stick'` again"),
            "{}",
            found.help
        );
        let with = |outcome| Findings {
            outcome: Some(outcome),
            ..Findings::default()
        };
        let remembered = Vec::new();
        read(
            "/media/other",
            with(ImportOutcome::AlreadyActive {
                number: 1,
                remembered,
            }),
        );
        assert!(shown(&store), "nothing was taken");
        let note = String::new();
        read(
            "/media/other",
            with(ImportOutcome::Ordered { number: 1, note }),
        );
        assert!(!shown(&store));
    }

    #[test]
    fn how_much_is_missing_is_not_written_down_anew_and_another_reason_is() {
        let (_folder, store) = store();
        let of = |error| skipped_source(store.read(), URL, &error, "").unwrap();
        assert!(of(space(1)).is_same_reason(&of(space(2))));
        assert!(!of(space(1)).is_same_reason(&of(unreadable())));
        assert!(!of(unreadable()).is_same_reason(&of(space(1))));
        let network = |problem: &str| {
            of(AgentError::Network {
                url: URL.to_owned(),
                problem: problem.to_owned(),
            })
        };
        let slow = network("10 bytes came");
        assert!(slow.is_same_reason(&network("11 bytes came")));
        assert!(!slow.is_same_reason(&network("403 Forbidden")));
        assert!(!is_of_network(&AgentError::AllOfToday {
            url: URL.to_owned(),
            bytes: 9,
        }));
    }

    #[test]
    fn what_came_of_a_repository_is_not_said_when_another_or_none_is_set() {
        let (_folder, store) = store();
        keep(store.read(), URL, &space(1)).unwrap();
        let shown = |url| present(store.read(), url, false).unwrap().is_some();
        assert_eq!(
            [Some(URL), Some("https://other/"), None].map(shown),
            [true, false, false]
        );
    }
}
