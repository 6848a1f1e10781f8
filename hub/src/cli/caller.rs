//! `outhaul-hub caller`: who may put gate decisions on record over the network.

use outhaul_bundle::Digest;
use outhaul_bundle::name::Name;
use outhaul_signer::enrol::new_token;
use serde_json::json;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::state::{Hub, StateError};
use crate::time;

/// Tokens of programs whose gate questions are put on record
///
/// Anybody who reaches the hub may ask a gate; a decision is recorded, with the caller's name, only when
/// the question comes with a token (`Authorization: Bearer TOKEN`).
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
    let mut hub = Hub::open(&common.state)?;
    let now_ms = time::now_ms();
    match &args.command {
        CallerCommand::Add(New { name, replace }) => {
            let token = new_token().map_err(StateError::from)?;
            let digest = Digest::of(token.as_bytes()).hex();
            let added = hub.store.write(|session| match replace {
                true => session
                    .replace_caller(name.as_str(), &digest, now_ms)
                    .map(|()| true),
                false => session.add_caller(name.as_str(), &digest, now_ms),
            })?;
            if !added {
                return Err(HubError::Refused {
                    problem: format!("caller `{name}` has a token already"),
                    help: "give each pipeline its own name; or, where the token was lost, repeat with `--replace`: \
                           whoever uses the one before is refused from then on; nothing was changed"
                        .to_owned(),
                });
            }
            match common.output {
                Output::Json => print::json(&json!({ "caller": name, "token": token })),
                Output::Text => {
                    print::data(&token);
                    print::talk(&format!(
                        "Above is the token of `{name}`: it is not shown again. `outhaul promote` reads \
                         it from the file that `$OUTHAUL_HUB_TOKEN_FILE` names."
                    ));
                }
            }
        }
        CallerCommand::List => {
            let callers = hub.store.read(|session| session.callers())?;
            match common.output {
                Output::Json => print::json(&callers),
                Output::Text => {
                    let row = |caller: &crate::store::Caller| {
                        vec![caller.name.clone(), time::rfc3339(caller.added_ms)]
                    };
                    let rows: Vec<_> = callers.iter().map(row).collect();
                    print::table(&["CALLER", "SINCE"], &rows);
                }
            }
        }
        CallerCommand::Remove(One { name }) => {
            if !hub
                .store
                .write(|session| session.remove_caller(name.as_str()))?
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
