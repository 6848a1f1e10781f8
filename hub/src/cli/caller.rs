//! `outhaul-hub caller`: tokens of scope `record`, by the name that they had before there were scopes.

use outhaul_access::{Scope, Scopes};
use outhaul_bundle::name::Name;
use serde_json::json;

use super::token::{self, TokenRequest};
use super::{Common, Output, print};
use crate::error::HubError;
use crate::store::Token;
use crate::time;

/// Tokens of programs whose gate questions are put on record
///
/// The same as `outhaul-hub token create NAME --scope record --expires never`: a decision is recorded, with the caller's
/// name, when the question comes with such a token (`Authorization: Bearer TOKEN`).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: CallerCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CallerCommand {
    /// Make a token and print it, once; the hub keeps its digest only
    #[command(
        after_help = "Example:\n  (umask 077; outhaul-hub caller add ci --state hub > ci.token)"
    )]
    Add(New),
    /// List the callers
    #[command(after_help = "Example:\n  outhaul-hub caller list --state hub")]
    List,
    /// Take a caller's token away
    #[command(after_help = "Example:\n  outhaul-hub caller remove ci --state hub")]
    Remove(One),
}

#[derive(Debug, clap::Args)]
struct New {
    /// The caller's name, on record beside each decision
    name: Name,
    /// Give a caller that is there a new token: the one before is refused from then on
    #[arg(long)]
    replace: bool,
}

#[derive(Debug, clap::Args)]
struct One {
    /// The caller's name, on record beside each decision
    name: Name,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let now_ms = time::now_ms();
    match &args.command {
        CallerCommand::Add(New { name, replace }) => {
            let wanted = TokenRequest {
                name,
                scopes: Scopes::of([Scope::Record]),
                expires_ms: None,
                replace: *replace,
                by: "caller add",
            };
            let Some(token) = token::make(&mut hub, &wanted, now_ms)? else {
                return Err(HubError::Refused {
                    problem: format!("caller `{name}` has a token already"),
                    help: "give each pipeline its own name; or, where the token was lost, repeat with `--replace`: \
                           whoever uses the one before is refused from then on; nothing was changed"
                        .to_owned(),
                });
            };
            match common.output {
                Output::Json => print::json(&json!({ "caller": name, "token": token })),
                Output::Text => token::print_made(common, &wanted, &token),
            }
        }
        CallerCommand::List => {
            let mut callers = hub.store.read(|session| session.tokens())?;
            callers.retain(|token| token.holds(now_ms) && may_record(token));
            match common.output {
                Output::Json => {
                    let shown =
                        |token: &Token| json!({ "name": token.name, "added_ms": token.added_ms });
                    print::json(&callers.iter().map(shown).collect::<Vec<_>>());
                }
                Output::Text => {
                    let row =
                        |token: &Token| vec![token.name.clone(), time::rfc3339(token.added_ms)];
                    let rows: Vec<_> = callers.iter().map(row).collect();
                    print::table(&["CALLER", "SINCE"], &rows);
                }
            }
        }
        CallerCommand::Remove(One { name }) => {
            let known = hub.store.read(|session| session.tokens())?;
            let is_caller = |token: &Token| token.name == name.as_str() && may_record(token);
            if !known.iter().any(is_caller)
                || !token::revoke(&mut hub, name, "caller remove", now_ms)?
            {
                return Err(HubError::Usage {
                    problem: format!("there is no caller `{name}`"),
                    help: "`outhaul-hub caller list` lists them; nothing was changed".to_owned(),
                });
            }
            match common.output {
                Output::Json => print::json(&json!({ "caller": name, "removed": true })),
                Output::Text => print::data(&format!("caller `{name}` is removed")),
            }
        }
    }
    Ok(0)
}

fn may_record(token: &Token) -> bool {
    let scopes: Scopes = token.scopes.parse().unwrap_or_default();
    scopes.allow(Scope::Record)
}
