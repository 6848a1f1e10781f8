//! `outhaul-hub decisions`: what gates decided, and what each decision rests on.

use outhaul_bundle::hub_api::EvidenceRow;
use outhaul_kit::text;
use serde_json::json;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::gate;
use crate::state::Hub;
use crate::store::StoreError;
use crate::time;
use crate::view::on_record::evidence;

/// List what gates decided, or show one decision with every site and the report that it rests on
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outhaul-hub decisions --state hub\n  outhaul-hub decisions 7 --state hub"
)]
pub(crate) struct Args {
    /// The number of a decision
    #[arg(value_name = "NUMBER")]
    id: Option<i64>,
    /// At most so many, the newest
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: u32,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    print::clock(&mut hub)?;
    if let Some(id) = args.id {
        return show(common, &mut hub, id);
    }
    let limit = if args.all { u32::MAX } else { args.limit };
    let (all, count) = hub.store.read(|session| {
        Ok::<_, StoreError>((session.decisions(limit)?, session.count_decisions()?))
    })?;
    match common.output {
        Output::Json => print::json(&all),
        Output::Text => {
            let rows: Vec<Vec<String>> = all
                .iter()
                .map(|one| {
                    vec![
                        one.id.to_string(),
                        time::rfc3339(one.at_ms),
                        one.environment.clone(),
                        one.to.clone().unwrap_or_else(|| "-".to_owned()),
                        gate::short(&one.commit),
                        one.verdict.clone(),
                        one.asked_by.clone(),
                    ]
                })
                .collect();
            let heading = [
                "NUMBER",
                "WHEN",
                "ENVIRONMENT",
                "TO",
                "COMMIT",
                "VERDICT",
                "ASKED BY",
            ];
            print::table(&heading, &rows);
        }
    }
    print::rest(all.len(), count, "`--limit COUNT` or `--all`");
    Ok(0)
}

fn show(common: &Common, hub: &mut Hub, id: i64) -> Result<u8, HubError> {
    let found = hub.store.read(|session| session.decision(id))?;
    let Some((record, lines)) = found else {
        return Err(HubError::Usage {
            problem: format!("no decision {id} is on record"),
            help: "`outhaul-hub decisions` lists them; of those that did not open a gate the last \
                   thousand of each environment are kept"
                .to_owned(),
        });
    };
    let sites: Vec<EvidenceRow> = lines.iter().map(|line| evidence(line)).collect();
    match common.output {
        Output::Json => print::json(&json!({ "decision": record, "evidence": sites })),
        Output::Text => {
            let decision = &record.decision;
            let step = decision.to.as_ref();
            let step = step.map_or_else(String::new, |to| format!(" to go to `{to}`"));
            print::data(&format!(
                "{}: {} of {} sites of `{}` confirm base {}{}, decided {}",
                decision.verdict.as_str(),
                decision.confirmed,
                decision.counted,
                decision.environment,
                gate::short(&decision.commit),
                step,
                decision.decided_at
            ));
            for reason in &decision.reasons {
                print::data(&format!("  {reason}"));
            }
            for rule in &decision.rules {
                let word = if rule.met { "met" } else { "not met" };
                print::data(&format!(
                    "  rule {}: {word}: {} ({})",
                    rule.rule, rule.found, rule.needs
                ));
            }
            if record.sentences_left_out > 0 {
                print::data(&format!(
                    "  {} more reasons and notes are not kept",
                    record.sentences_left_out
                ));
            }
            for line in &lines {
                print::data(&format!("  {}", text::printable(&line.replace('\t', " "))));
            }
        }
    }
    Ok(0)
}
