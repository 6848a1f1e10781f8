//! `outhaul-hub person`: who logged in at the identity provider, and the end of their sessions.

use serde_json::json;

use super::token::note;
use super::{Common, Output, print};
use crate::error::HubError;
use crate::store::{KnownPerson, StoreError};
use crate::time;

/// People who log in at the identity provider
///
/// `serve --oidc FILE` names the provider, and who may do what. The hub keeps which name belongs to whom, and the sessions.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: PersonCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PersonCommand {
    /// List who logged in, with the sessions that hold
    #[command(after_help = "Example:\n  outhaul-hub person list --state hub")]
    List,
    /// End the sessions of a person, who may log in again
    #[command(
        after_help = "To keep someone out, take them out of the provider or of the settings first.\n\nExample:\n  outhaul-hub \
                      person end oidc:alice --state hub"
    )]
    End(One),
    /// End the sessions of a person and free the name: whoever has it at the provider next gets it
    #[command(after_help = "Example:\n  outhaul-hub person forget oidc:alice --state hub")]
    Forget(One),
}

#[derive(Debug, clap::Args)]
struct One {
    /// The person, as `person list` shows it
    name: String,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let now_ms = time::now_ms();
    match &args.command {
        PersonCommand::List => {
            let mut hub = print::open(common)?;
            let people = hub.store.read(|session| session.people(now_ms))?;
            match common.output {
                Output::Json => print::json(&people),
                Output::Text if people.is_empty() => {
                    print::talk("no person has logged in through an identity provider yet");
                }
                Output::Text => {
                    let rows: Vec<_> = people.iter().map(row).collect();
                    print::table(
                        &["NAME", "SUBJECT", "PROVIDER", "LAST LOGIN", "SESSIONS"],
                        &rows,
                    );
                }
            }
        }
        PersonCommand::End(One { name }) => {
            let mut hub = print::open(common)?;
            let ended = hub.store.write(|session| {
                let ended = session.end_sessions_of_person(name)?;
                if let Some(ended) = ended {
                    let detail = format!("`{name}`, sessions ended: {ended}");
                    note(session, "person end", detail, now_ms)?;
                }
                Ok::<_, StoreError>(ended)
            })?;
            let ended = ended.ok_or_else(|| unknown(name))?;
            match common.output {
                Output::Json => print::json(&json!({ "name": name, "ended": ended })),
                Output::Text => print::data(&format!("sessions of `{name}` that ended: {ended}")),
            }
        }
        PersonCommand::Forget(One { name }) => {
            let mut hub = print::open(common)?;
            let forgotten = hub.store.write(|session| {
                let forgotten = session.forget_person(name)?;
                if forgotten {
                    note(session, "person forget", format!("`{name}`"), now_ms)?;
                }
                Ok::<_, StoreError>(forgotten)
            })?;
            if !forgotten {
                return Err(unknown(name));
            }
            match common.output {
                Output::Json => print::json(&json!({ "name": name, "forgotten": true })),
                Output::Text => print::data(&format!(
                    "the sessions of `{name}` have ended, and the name belongs to whoever logs in with it next"
                )),
            }
        }
    }
    Ok(0)
}

fn unknown(name: &str) -> HubError {
    HubError::Usage {
        problem: format!("`{name}` never logged in at the identity provider"),
        help: "`outhaul-hub person list` lists who did; nothing was changed".to_owned(),
    }
}

fn row(person: &KnownPerson) -> Vec<String> {
    let sessions = match person.until_ms {
        Some(until_ms) => format!("{} until {}", person.sessions, time::rfc3339(until_ms)),
        None => "none".to_owned(),
    };
    vec![
        person.name.clone(),
        person.subject.clone(),
        person.issuer.clone(),
        time::rfc3339(person.seen_ms),
        sessions,
    ]
}
