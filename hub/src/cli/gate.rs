//! `outhaul-hub gate`: may what an environment runs go on?

use outhaul_bundle::hub_api::{MAX_AGE_HOURS, QUORUM_PERCENT};

use super::{Common, Output, print};
use crate::error::HubError;
use crate::gate::{self, DEFAULT_MAX_AGE_HOURS, Decision, GateQuestion, GateVerdict};
use crate::state::Hub;
use crate::store::StoreError;
use crate::time::{self, HOUR_MS};
use crate::view::Reading;

/// Who asks, on record.
const ASKED_BY: &str = "command line";

/// Decide whether a base commit may go on from an environment: exit code 0 open, 1 closed
///
/// Closed unless every site of the environment that is neither revoked nor waived has reported
/// recently that it runs the commit, or a later one, and that all is as desired. The decision is kept
/// with the reports that it rests on.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub gate --environment dev --max-age 72 --state hub \
                        --commit $(git -C control-plane rev-parse main)"
)]
pub(crate) struct Args {
    /// The environment
    #[arg(long, value_name = "NAME")]
    environment: String,
    /// The base commit, in full
    #[arg(long, value_name = "SHA", value_parser = commit)]
    commit: String,
    /// Oldest report that counts, in hours, by when the hub received it (1 to 87600)
    #[arg(long, value_name = "HOURS", default_value_t = DEFAULT_MAX_AGE_HOURS,
          value_parser = clap::value_parser!(u32).range(hours()))]
    max_age: u32,
    /// Share of the sites that must confirm, 1% to 100%; failures close the gate at any share
    #[arg(long, value_name = "PERCENT", default_value = "100%", value_parser = percent)]
    quorum: u8,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = Hub::open(&common.state)?;
    let question = GateQuestion {
        environment: args.environment.clone(),
        commit: args.commit.clone(),
        now_ms: time::now_ms(),
        max_age_ms: i64::from(args.max_age) * HOUR_MS,
        quorum_percent: args.quorum,
    };
    let decision = hub.store.write(|session| {
        let decision = Reading::take(session, question.now_ms)?.gate(&question);
        gate::keep(session, &decision, ASKED_BY, question.now_ms)?;
        Ok::<_, StoreError>(decision)
    })?;
    match common.output {
        Output::Json => print::json(&decision),
        Output::Text => text(&decision),
    }
    Ok(u8::from(decision.verdict == GateVerdict::Closed))
}

fn text(decision: &Decision) {
    print::data(&format!(
        "{}: {} of {} sites of `{}` confirm base {}",
        decision.verdict.word(),
        decision.confirmed,
        decision.counted,
        decision.environment,
        gate::short(&decision.commit)
    ));
    for reason in &decision.reasons {
        print::data(&format!("  {reason}"));
    }
    for note in &decision.notes {
        print::data(&format!("  note: {note}"));
    }
    for evidence in &decision.evidence {
        print::data(&format!(
            "  evidence: `{}` report {} ({}): bundle {} {}",
            evidence.site,
            evidence.report,
            gate::short(&evidence.digest),
            evidence.bundle,
            evidence.state
        ));
    }
    if decision.verdict == GateVerdict::Closed {
        print::talk(
            "help: bring the missing reports in (`import`), mend what failed, or let one site be \
             missed for a time with `outhaul-hub waive`",
        );
    }
}

fn hours() -> std::ops::RangeInclusive<i64> {
    i64::from(*MAX_AGE_HOURS.start())..=i64::from(*MAX_AGE_HOURS.end())
}

fn commit(text: &str) -> Result<String, String> {
    gate::commit(text).map(str::to_owned)
}

fn percent(text: &str) -> Result<u8, String> {
    match text.strip_suffix('%').unwrap_or(text).parse::<u8>() {
        Ok(percent) if QUORUM_PERCENT.contains(&percent.into()) => Ok(percent),
        _ => Err("expected 1% to 100%".to_owned()),
    }
}
