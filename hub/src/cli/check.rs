//! `outhaul-hub check`: what came of a check of a commit, put on record by hand.
//!
//! What comes in: environment, commit, the check's name and outcome, who states it, and what it rests on. What goes out: one
//! entry more on record, which nothing changes or removes. Who may run a command on the hub's state may give any name.

use outhaul_bundle::hub_api::{CheckOutcome, CheckRequest};
use outhaul_kit::text::{is_hidden, one_full_line};
use serde_json::json;

use super::{Common, Output, print};
use crate::acting::{self, usage};
use crate::error::HubError;
use crate::gate;
use crate::store::Act;
use crate::time;

/// State the outcome of a check of a commit, on record
///
/// A gate whose rules ask for the check NAME counts the newest outcome: it is closed while there is none, when it failed, and
/// when it is too old. A pipeline states outcomes over HTTP (`POST /api/v1/checks`) with a token of scope `check`. A check that
/// was made after a promotion is stated for the environment that was moved, whose gate asks for it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub check --environment dev --name scan --outcome passed --by ci \
                        --commit $(git -C control-plane rev-parse main) --detail \"0 findings\" --state hub"
)]
pub(crate) struct Args {
    /// The environment in which the commit was checked: the one whose gate asks for it
    #[arg(long, value_name = "NAME")]
    environment: String,
    /// The base commit, in full
    #[arg(long, value_name = "SHA", value_parser = commit)]
    commit: String,
    /// The name of the check, as the promotion policy has it
    #[arg(long, value_name = "NAME")]
    name: String,
    /// What came of it: `passed` or `failed`
    #[arg(long, value_name = "OUTCOME", value_parser = outcome)]
    outcome: CheckOutcome,
    /// One line about it, at most 1024 bytes
    #[arg(long, value_name = "TEXT", value_parser = detail)]
    detail: Option<String>,
    /// Digest of what it rests on, such as the report of a scan: `sha256:` and 64 digits
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    /// Who states it
    #[arg(long, value_name = "WHO", value_parser = one_full_line)]
    by: String,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let sent = CheckRequest {
        environment: args.environment.clone(),
        commit: args.commit.clone(),
        name: args.name.clone(),
        outcome: args.outcome,
        detail: args.detail.clone().unwrap_or_default(),
        digest: args.digest.clone(),
    };
    sent.check()
        .map_err(|problem| usage(problem, "`outhaul-hub check --help` has an example"))?;
    let mut hub = print::open(common)?;
    print::clock(&mut hub)?;
    let act = Act::of_check(&sent, args.by.trim(), time::now_ms());
    let (id, note) = hub.store.write(|session| acting::record(session, &act))?;
    if let Some(note) = note {
        print::talk(&format!("note: {note}"));
    }
    match common.output {
        Output::Json => print::json(&json!({
            "id": id, "kind": act.kind, "environment": sent.environment, "commit": sent.commit, "name": sent.name,
            "outcome": sent.outcome, "digest": sent.digest, "by": act.by,
        })),
        Output::Text => print::data(&format!("{} (number {id} on record)", act.sentence())),
    }
    Ok(0)
}

fn commit(text: &str) -> Result<String, String> {
    gate::commit(text).map(str::to_owned)
}

/// A line of text; how long it may be is checked with the rest of the outcome.
fn detail(text: &str) -> Result<String, String> {
    match text.chars().find(|letter| is_hidden(*letter)) {
        _ if text.trim().is_empty() => Err("it is empty; give one line of text".to_owned()),
        Some(letter) => Err(format!(
            "it has the character {}; give one line of text without line breaks and control characters",
            letter.escape_unicode()
        )),
        None => Ok(text.to_owned()),
    }
}

fn outcome(text: &str) -> Result<CheckOutcome, String> {
    CheckOutcome::from_word(text).ok_or_else(|| "it is `passed` or `failed`".to_owned())
}
