//! `outhaul-hub token`: who may do what at this hub over the network.

use outhaul_access::{Scope, Scopes};
use outhaul_bundle::Digest;
use outhaul_bundle::name::Name;
use outhaul_signer::enrol::new_token;
use serde_json::json;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::state::{Hub, StateError};
use crate::store::{AccessEntry, Session, StoreError, Token};
use crate::time::{self, DAY_MS};

/// How long a token holds unless another time is given.
const DEFAULT_DAYS: i64 = 90;

/// Tokens of people and programs that use this hub over the network
///
/// A person logs in to the pages with one, a program sends it as `Authorization: Bearer TOKEN`. The hub keeps its digest
/// only. Sites need none: what they send is signed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TokenCommand {
    /// Make a token and print it, once
    #[command(
        after_help = "Scopes:\n  read     look at pages and lists, ask gates\n  record   read, and have gates' answers put on \
                      record under this name\n  ingest   send explanations of renderings, which nobody signs\n  check    state outcomes \
                      of checks, which gates count where a rule asks for them\n  approve  read, and approve, hold, waive, defer, withdraw on the pages\n  admin    all of these, bring advisories, and see who did what\n\n\
                      Examples:\n  outhaul-hub token create alice --scope approve --state hub\n  (umask 077; outhaul-hub token \
                      create ci --scope record --expires never --state hub > ci.token)"
    )]
    Create(New),
    /// List the tokens: whose, for what, and until when
    #[command(after_help = "Example:\n  outhaul-hub token list --state hub")]
    List,
    /// Take a token away, with the sessions that were begun with it
    #[command(after_help = "Example:\n  outhaul-hub token revoke alice --state hub")]
    Revoke(One),
}

#[derive(Debug, clap::Args)]
struct New {
    /// Who uses it: a person or one program; on record beside what is done with it
    name: Name,
    /// What it allows; may be repeated
    #[arg(long, value_name = "SCOPE", required = true, value_parser = scope)]
    scope: Vec<Scope>,
    /// When it ends: `2027-06-30`, `36h`, `90d`, or `never`
    #[arg(long, value_name = "WHEN", default_value = "90d")]
    expires: String,
    /// Give a name that has a token a new one: the one before is refused from then on
    #[arg(long)]
    replace: bool,
}

#[derive(Debug, clap::Args)]
struct One {
    /// Whose
    name: Name,
}

fn scope(text: &str) -> Result<Scope, String> {
    text.parse::<Scope>().map_err(|error| error.to_string())
}

/// What a name is to get.
#[derive(Debug)]
pub(super) struct TokenRequest<'a> {
    pub(super) name: &'a Name,
    pub(super) scopes: Scopes,
    pub(super) expires_ms: Option<i64>,
    pub(super) replace: bool,
    /// The command, for the record.
    pub(super) by: &'static str,
}

/// Makes a token; `None`, and nothing is changed, when the name has one that holds.
pub(super) fn make(
    hub: &mut Hub,
    wanted: &TokenRequest<'_>,
    now_ms: i64,
) -> Result<Option<String>, HubError> {
    let text = new_token().map_err(StateError::from)?;
    let token = Token {
        name: wanted.name.to_string(),
        scopes: wanted.scopes.to_string(),
        added_ms: now_ms,
        added_by: "command line".to_owned(),
        expires_ms: wanted.expires_ms,
        revoked_ms: None,
    };
    let digest = Digest::of(text.as_bytes()).hex();
    let detail = format!("`{}`, scopes {}", token.name, token.scopes);
    let added = hub.store.write(|session| {
        let added = session.add_token(&token, &digest, wanted.replace)?;
        if added {
            note(session, wanted.by, detail, now_ms)?;
        }
        Ok::<_, StoreError>(added)
    })?;
    Ok(added.then_some(text))
}

/// Takes a token away; `false` when the name has none that holds.
pub(super) fn revoke(hub: &mut Hub, name: &Name, by: &str, now_ms: i64) -> Result<bool, HubError> {
    Ok(hub.store.write(|session| {
        let revoked = session.revoke_token(name.as_str(), now_ms)?;
        if revoked {
            note(session, by, format!("`{name}`"), now_ms)?;
        }
        Ok::<_, StoreError>(revoked)
    })?)
}

pub(super) fn note(
    session: &Session<'_>,
    action: &str,
    detail: String,
    now_ms: i64,
) -> Result<(), StoreError> {
    session.add_access(&entry(action, detail, now_ms))
}

/// The record of what someone did on the hub's machine.
pub(super) fn entry(action: &str, detail: String, now_ms: i64) -> AccessEntry {
    AccessEntry {
        id: 0,
        at_ms: now_ms,
        who: String::new(),
        how: "command line".to_owned(),
        peer: String::new(),
        action: action.to_owned(),
        detail,
        allowed: true,
    }
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let now_ms = time::now_ms();
    match &args.command {
        TokenCommand::Create(new) => {
            let expires_ms = expiry(&new.expires, now_ms)?;
            let mut hub = print::open(common)?;
            let wanted = TokenRequest {
                name: &new.name,
                scopes: Scopes::of(new.scope.iter().copied()),
                expires_ms,
                replace: new.replace,
                by: "token create",
            };
            let Some(token) = make(&mut hub, &wanted, now_ms)? else {
                return Err(HubError::Refused {
                    problem: format!("`{}` has a token already", new.name),
                    help: "choose another name; or, where the token was lost, repeat with `--replace`: whoever uses the one \
                           before is refused from then on; nothing was changed"
                        .to_owned(),
                });
            };
            print_made(common, &wanted, &token);
        }
        TokenCommand::List => {
            let mut hub = print::open(common)?;
            let tokens = hub.store.read(|session| session.tokens())?;
            match common.output {
                Output::Json => print::json(&tokens),
                Output::Text => {
                    let rows: Vec<_> = tokens.iter().map(|token| row(token, now_ms)).collect();
                    print::table(&["NAME", "SCOPES", "SINCE", "STATE"], &rows);
                }
            }
        }
        TokenCommand::Revoke(One { name }) => {
            let mut hub = print::open(common)?;
            if !revoke(&mut hub, name, "token revoke", now_ms)? {
                return Err(HubError::Usage {
                    problem: format!("`{name}` has no token that holds"),
                    help: "`outhaul-hub token list` lists them; nothing was changed".to_owned(),
                });
            }
            match common.output {
                Output::Json => print::json(&json!({ "name": name, "revoked": true })),
                Output::Text => print::data(&format!(
                    "the token of `{name}` is revoked, and its sessions have ended"
                )),
            }
        }
    }
    Ok(0)
}

pub(super) fn print_made(common: &Common, wanted: &TokenRequest<'_>, token: &str) {
    let ends = wanted.expires_ms.map(time::rfc3339);
    match common.output {
        Output::Json => print::json(&json!({
            "name": wanted.name, "scopes": wanted.scopes.words(), "expires": ends, "token": token,
        })),
        Output::Text => {
            print::data(token);
            print::talk(&format!(
                "Above is the token of `{}` ({}; {}): it is not shown again. A person logs in to the pages with it; \
                 `outhaul` reads it from the file that `$OUTHAUL_HUB_TOKEN_FILE` names.",
                wanted.name,
                wanted.scopes,
                ends.map_or_else(
                    || "it does not expire".to_owned(),
                    |ends| format!("until {ends}")
                )
            ));
        }
    }
}

fn row(token: &Token, now_ms: i64) -> Vec<String> {
    let state = match (token.revoked_ms, token.expires_ms) {
        (Some(at), _) => format!("revoked {}", time::rfc3339(at)),
        (None, Some(end)) if end <= now_ms => format!("expired {}", time::rfc3339(end)),
        (None, Some(end)) => format!("until {}", time::rfc3339(end)),
        (None, None) => "does not expire".to_owned(),
    };
    vec![
        token.name.clone(),
        token.scopes.clone(),
        time::rfc3339(token.added_ms),
        state,
    ]
}

fn expiry(text: &str, now_ms: i64) -> Result<Option<i64>, HubError> {
    if text == "never" {
        return Ok(None);
    }
    let problem = |problem: String| HubError::Usage {
        problem,
        help: format!(
            "name the time at which the token ends, such as `{DEFAULT_DAYS}d` or `2027-06-30`, or `never`; nothing was changed"
        ),
    };
    let end = time::parse(text, now_ms).map_err(problem)?;
    let longest = now_ms + 10 * 366 * DAY_MS;
    if end <= now_ms || end > longest {
        let text = format!("a token cannot end {}", crate::acting::typed_end(text, end));
        return Err(problem(text));
    }
    Ok(Some(end))
}
