//! `outhaul-hub gate`: may what an environment runs go on?

use std::path::Path;

use outhaul_bundle::hub_api::{GateAnswer, MAX_AGE_HOURS, QUORUM_PERCENT};
use outhaul_bundle::json_object;
use outhaul_gate::SiteStatus;
use outhaul_kit::text::{self, one_full_line};
use outhaul_kit::{console, media};
use outhaul_view::decision_text;
use outhaul_view::steps::{self, RecordedSteps};

mod removal;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::gate::record::{AskError, EnvironmentRecord, GateRequest, keep};
use crate::gate::{self, Decision, GateRules, GateVerdict};
use crate::store::{Session, StepRules};
use crate::time;

/// Who asks, on record.
const ASKED_BY: &str = "command line";
/// The exit code of a closed gate.
const REFUSED: u8 = 1;

/// Decide whether a base commit may go on from an environment: exit code 0 open, 1 closed
///
/// Closed unless every site of the environment that is neither revoked, waived nor deferred has reported recently
/// that it runs the commit, or a later one, and that all is as desired; and unless every rule is met with which
/// `outhaul promote` last asked about the step. The decision is kept with the digests of the reports that it rests on.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub gate --environment dev --max-age 72 --state hub \
                        --commit $(git -C control-plane rev-parse main)\n  \
                        outhaul-hub gate --environment dev --to stagee --remove-rules --by ann --reason 'mistyped' --state hub",
    group = clap::ArgGroup::new("change").args(["record", "remove_rules"])
)]
pub(crate) struct Args {
    /// The environment
    #[arg(long, value_name = "NAME")]
    environment: String,
    /// The base commit, in full
    #[arg(long, value_name = "SHA", value_parser = commit, required_unless_present = "remove_rules")]
    commit: Option<String>,
    /// The environment that the commit is to be promoted to, where several steps lead from this one
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    /// Oldest report that counts, in hours, by when the hub received it (1 to 87600); stricter than the rules on
    /// record, never looser [default: 72]
    #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(u32).range(hours()))]
    max_age: Option<u32>,
    /// Share of the sites that must confirm, 1% to 100%; stricter than the rules on record, never looser; failures
    /// close the gate at any share [default: 100%]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    quorum: Option<u8>,
    /// Evaluate other rules, without recording: a file with JSON, or JSON such as `{"soak_hours": 24}`, instead of those on record. The
    /// answer is not recorded, except with `--record`. The JSON is an object with the rules of the step: `max_age_hours`,
    /// `quorum_percent`, `min_sites`, `soak_hours`, `approvals`, `checks`, `closed`, `windows`, `webhook_evidence`, `parts`;
    /// `outhaul-hub decisions ID --output json` prints those of a decision in this form
    #[arg(long, value_name = "FILE|JSON", value_parser = rules)]
    rules: Option<GateRules>,
    /// Put the rules on record for the step, and the decision with them. Where they ask for less than those on record, say who makes them
    /// looser and why (`--by`, `--reason`). Without `--to` they apply to each step from the environment
    #[arg(long, requires = "rules")]
    record: bool,
    /// Remove the rules of the step from the record, such as those of a name that was mistyped, and decide nothing. Without `--to` those
    /// that were recorded without a step. Needs `--by` and `--reason`
    #[arg(
        long,
        requires = "by",
        requires = "reason",
        conflicts_with_all = ["commit", "rules", "max_age", "quorum"]
    )]
    remove_rules: bool,
    /// With `--record` or `--remove-rules`: who decides on the rules; it is on record
    #[arg(long, value_name = "WHO", requires = "change", requires = "reason", value_parser = one_full_line)]
    by: Option<String>,
    /// With `--record` or `--remove-rules`: why
    #[arg(long, value_name = "TEXT", requires = "change", requires = "by", value_parser = one_full_line)]
    reason: Option<String>,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    print::clock(&mut hub)?;
    let now_ms = time::now_ms();
    let Some(commit) = &args.commit else {
        return removal::run(common, &mut hub, args, now_ms);
    };
    let mut asked = GateRequest {
        environment: args.environment.clone(),
        commit: commit.clone(),
        to: args.to.clone(),
        max_age_hours: args.max_age,
        quorum_percent: args.quorum,
        rules: args.rules.clone(),
    };
    let what_if = args.rules.is_some() && !args.record;
    let (decision, notes, ways) = hub.store.write(|session| {
        // A step to an environment of which nothing came in yet may have rules already.
        asked.check_names(session, !args.record).map_err(refused)?;
        let recorded = RecordedSteps::read(session, &args.environment)?;
        let asked_by = match &args.by {
            Some(by) => format!("{} (command line)", by.trim()),
            None => ASKED_BY.to_owned(),
        };
        let mut notes = Vec::new();
        let mut step = None;
        if args.record {
            step = asked.recording(&recorded, (&asked_by, now_ms));
        }
        if let Some(step) = &step {
            notes.extend(changed(session, args, (&recorded, step), now_ms)?);
            notes.extend(asked.unknown_names(session, &recorded)?);
        }
        if what_if {
            notes.extend(
                asked
                    .step(&asked_by, now_ms)
                    .map(|step| unrecorded(&recorded, &step)),
            );
        }
        let question = asked.question(session, now_ms).map_err(refused)?;
        let decision = EnvironmentRecord::read(session, &question)?.decide(&question);
        let mut ways = Vec::new();
        if !what_if {
            let decided = (&question, &decision);
            keep(session, decided, step.as_ref(), &asked_by, now_ms)?;
            // Those on record now: of a change the new ones.
            let recorded = RecordedSteps::read(session, &args.environment)?;
            notes.extend(recorded.note(&args.environment, commit));
            if is_webhook_alone(&decision) {
                let to = question.to.as_deref();
                ways = recorded.let_webhooks_count(&args.environment, commit, to);
            }
        }
        Ok::<_, HubError>((decision, notes, ways))
    })?;
    match common.output {
        Output::Json => {
            print::json(&GateAnswer {
                decision: decision.clone(),
                recorded: !what_if,
                rules_on_record: None,
                what_if,
            });
            if decision.verdict == GateVerdict::Closed {
                console::fail(
                    REFUSED,
                    &text::printable_lines(&decision_text::refusal(&decision)),
                );
            }
        }
        Output::Text => text(&decision, &ways),
    }
    for note in notes {
        print::talk(&note);
    }
    Ok(match decision.verdict {
        GateVerdict::Open => 0,
        GateVerdict::Closed => REFUSED,
    })
}

/// That rules were tried and are not on record, and what puts them there.
fn unrecorded(recorded: &RecordedSteps, step: &StepRules) -> String {
    let named = match recorded
        .change(step)
        .is_some_and(|change| change.is_looser())
    {
        true => {
            ", with `--by NAME --reason TEXT`, as these rules ask for less than those on record"
        }
        false => "",
    };
    format!(
        "note: what if: decided by the rules that you gave, which are not on record, and not recorded; `--record` puts both on record{named}"
    )
}

/// Why a question is not put to the gate, for who typed it.
fn refused(error: AskError) -> HubError {
    match error {
        AskError::Store(error) => HubError::from(error),
        problem => HubError::Usage {
            problem: problem.to_string(),
            help: problem.help(),
        },
    }
}

/// Puts on record who changes the rules on record and why, and refuses looser ones without that. Returns what changes.
fn changed(
    session: &Session<'_>,
    args: &Args,
    (recorded, step): (&RecordedSteps, &StepRules),
    now_ms: i64,
) -> Result<Option<String>, HubError> {
    let Some(change) = recorded.change(step) else {
        return Ok(args.by.as_ref().map(|_| steps::unchanged(step)));
    };
    match (&args.by, &args.reason) {
        (Some(by), Some(reason)) => {
            session.add_access(&change.entry(by.trim(), reason, (ASKED_BY, now_ms)))?;
        }
        _ if change.is_looser() => {
            return Err(HubError::Usage {
                problem: change.refusal(),
                help: "to make them looser, say who does and why, with `--by NAME --reason TEXT`; nothing was changed".to_owned(),
            });
        }
        _ => {}
    }
    Ok(Some(change.to_string()))
}

fn text(decision: &Decision, ways: &[String]) {
    for line in decision_text::lines(decision) {
        print::data(&line);
    }
    if decision.verdict == GateVerdict::Closed {
        print::talk(&format!("help: {}", decision_text::way_out(decision)));
        if !ways.is_empty() {
            print::talk(&format!(
                "help: the rules on record do not let webhooks count: {} records that they do; a promotion policy without `webhookEvidence: counts` \
                 takes it back with the next `outhaul promote`",
                ways.join(" and ")
            ));
        }
    }
}

/// Whether a site confirms by webhook, and that does not count.
fn is_webhook_alone(decision: &Decision) -> bool {
    let mut sites = decision.sites.iter();
    decision.verdict == GateVerdict::Closed
        && sites.any(|site| site.standing == SiteStatus::WebhookOnly)
}

fn hours() -> std::ops::RangeInclusive<i64> {
    i64::from(*MAX_AGE_HOURS.start())..=i64::from(*MAX_AGE_HOURS.end())
}

fn commit(text: &str) -> Result<String, String> {
    gate::commit(text).map(str::to_owned)
}

fn rules(text: &str) -> Result<GateRules, String> {
    let read;
    let text = if text.trim_start().starts_with('{') {
        text
    } else {
        let bytes = media::read_file(Path::new(text), gate::MAX_RULES_BYTES as u64)
            .map_err(|error| format!("{error}; give a file with JSON, or the JSON itself"))?;
        read = String::from_utf8_lossy(&bytes).into_owned();
        &read
    };
    let rules: GateRules = json_object::read(text.as_bytes())?;
    rules.check().map(|()| rules)
}

fn percent(text: &str) -> Result<u8, String> {
    match text.strip_suffix('%').unwrap_or(text).parse::<u8>() {
        Ok(percent) if QUORUM_PERCENT.contains(&percent.into()) => Ok(percent),
        _ => Err("expected 1% to 100%".to_owned()),
    }
}
