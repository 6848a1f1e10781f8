//! `outhaul-hub clock`: the clock was ahead when decisions on record were made, and is right now.
//!
//! What comes in: who says so and why. What goes out: one entry more on record, and gates that are decided again. It sets no clock, and
//! removes nothing. It is for a person at the hub's machine: whoever asks a gate over the network cannot say it.

use outhaul_gate::EDITION;
use outhaul_gate::later::LaterDecision;
use outhaul_kit::text::one_full_line;
use serde_json::json;

use super::{Common, Output, print};
use crate::acting::usage;
use crate::clock;
use crate::error::HubError;
use crate::store::{Act, ActKind};
use crate::time;

/// State that this machine's clock was ahead before and is right now, on record
///
/// While the clock shows a time before a decision on record, every gate is closed: a clock that was put back would bring
/// waivers back that have ended. Where it was ahead when that decision was made, and is right now, say so here: the times of the
/// decisions until now count no more, and gates are decided again. Look at the clock first: `outhaul-audit` shows who said so.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub clock --by alice --reason \"the battery was empty, it showed 2099\" --state hub"
)]
pub(crate) struct Args {
    /// Why
    #[arg(long, value_name = "TEXT", value_parser = one_full_line)]
    reason: String,
    /// Who says so
    #[arg(long, value_name = "WHO", value_parser = one_full_line)]
    by: String,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let now_ms = time::now_ms();
    // A clock that is wrong now would count as the right one, and every term would be counted by it.
    if let Some(problem) = clock::problem(&mut hub.store, now_ms)? {
        return Err(HubError::Refused {
            problem: format!("{problem}; the clock is wrong now, and nothing is put on record about it"),
            help: "set this machine's clock, and repeat the command; if the fleet signed a wrong time, import a bundle that was \
                   signed after it was corrected first"
                .to_owned(),
        });
    }
    let (id, act, later) = hub.store.write(|session| {
        let Some(later) = session.later_decision(now_ms, EDITION)? else {
            let now = time::rfc3339(now_ms);
            return Err(usage(
                format!("this machine's clock shows {now}, and no decision on record whose time counts is of a later time"),
                "no gate is closed for the clock; nothing was changed",
            ));
        };
        let newest = session.newest_decision()?;
        let act = Act {
            chosen: Some(newest.to_string()),
            ..Act::new(ActKind::Clock, args.by.trim(), &args.reason, now_ms)
        };
        Ok::<_, HubError>((session.add_act(&act)?, act, later))
    })?;
    print_recorded(common, (id, &act), later);
    Ok(0)
}

fn print_recorded(common: &Common, (id, act): (i64, &Act), later: LaterDecision) {
    let decisions = act.chosen.as_deref().unwrap_or_default();
    let then = time::rfc3339(later.at_ms);
    match common.output {
        Output::Json => print::json(&json!({
            "id": id, "kind": act.kind, "decisions": decisions, "latest": then, "by": act.by,
        })),
        Output::Text => print::data(&format!(
            "the clock was ahead until decision {decisions} (number {id} on record): decision {} of {then} closes no gate for the clock any more",
            later.id
        )),
    }
}
