//! `outhaul-hub gate --remove-rules`: takes the rules of a step off the record.
//!
//! What comes in: a step, who removes its rules and why. What goes out: a record without them, and an entry with the rules of before. It
//! decides nothing, and removes no decision and no rules of another step.

use outhaul_bundle::hub_api::GateRules;
use outhaul_view::steps::RecordedSteps;
use serde::Serialize;

use super::{ASKED_BY, Args, refused};
use crate::cli::{Common, Output, print};
use crate::error::HubError;
use crate::state::Hub;

/// What was removed, as JSON.
#[derive(Serialize)]
struct Removed {
    environment: String,
    to: Option<String>,
    rules: GateRules,
}

pub(super) fn run(
    common: &Common,
    hub: &mut Hub,
    args: &Args,
    now_ms: i64,
) -> Result<u8, HubError> {
    let (environment, to) = (args.environment.as_str(), args.to.as_deref());
    let to = to.filter(|to| !to.is_empty());
    let by = args.by.as_deref().unwrap_or_default().trim();
    let reason = args.reason.as_deref().unwrap_or_default();
    let (change, rules) = hub.store.write(|session| {
        let recorded = RecordedSteps::read(session, environment)?;
        let known = recorded.removal(environment, to).zip(recorded.recorded(to));
        let Some((change, rules)) = known else {
            return Err(match to {
                Some(to) => refused(recorded.no_step(environment, to, &session.environments()?)),
                None => HubError::Usage {
                    problem: format!(
                        "no rules from `{environment}` that were recorded without a step are on record"
                    ),
                    help: "`outhaul-hub decisions` lists the steps that were asked about".to_owned(),
                },
            });
        };
        session.add_access(&change.entry(by, reason, (ASKED_BY, now_ms)))?;
        session.remove_step_rules(environment, to.unwrap_or_default())?;
        Ok::<_, HubError>((change.to_string(), rules.clone()))
    })?;
    match common.output {
        Output::Json => print::json(&Removed {
            environment: environment.to_owned(),
            to: to.map(str::to_owned),
            rules,
        }),
        Output::Text => print::data(&change),
    }
    Ok(0)
}
