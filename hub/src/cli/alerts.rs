//! `outhaul-hub alerts`: what was announced, to whom, and whether it arrived.

use std::path::{Path, PathBuf};

use outhaul_alerts::message::Message;
use outhaul_bundle::hub_api::AlertEntry;
use outhaul_kit::format_count::format_count;
use serde_json::json;

use super::{Common, Output, print};
use crate::alerting;
use crate::error::HubError;
use crate::store::StoreError;
use crate::time;

/// Alerts: what this hub announced, to whom, and whether it arrived
///
/// `serve --alerts FILE` looks and sends; these commands show, try and repeat.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: AlertsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AlertsCommand {
    /// List the newest alerts, each with its destinations
    #[command(after_help = "Example:\n  outhaul-hub alerts list --last 20 --state hub")]
    List {
        /// How many
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        last: u32,
    },
    /// Retry pending and failed alerts of one destination on the server's next run
    #[command(after_help = "Example:\n  outhaul-hub alerts retry on-call --state hub")]
    Retry {
        /// The destination's name
        to: String,
    },
    /// Send a test message now, and print the result
    #[command(
        after_help = "Example:\n  outhaul-hub alerts test alerts.yaml --to on-call --state hub"
    )]
    Test {
        /// The file that names destinations
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Only this one; may be repeated
        #[arg(long, value_name = "NAME")]
        to: Vec<String>,
        /// Print what would be sent, and send nothing
        #[arg(long)]
        dry_run: bool,
    },
}

pub(super) fn run(common: &Common, args: Args) -> Result<u8, HubError> {
    match args.command {
        AlertsCommand::List { last } => list(common, last),
        AlertsCommand::Retry { to } => retry(common, &to),
        AlertsCommand::Test { file, to, dry_run } => test(common, &file, &to, dry_run),
    }
}

fn list(common: &Common, last: u32) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let (all, count) = hub
        .store
        .read(|session| Ok::<_, StoreError>((session.alerts(last)?, session.count_alerts()?)))?;
    print::rest(all.len(), count, "`--last COUNT`");
    if common.output == Output::Json {
        let rows: Vec<_> = all
            .iter()
            .map(|(alert, to)| json!({"alert": alert, "deliveries": to}))
            .collect();
        print::json(&json!({ "alerts": rows }));
        return Ok(0);
    }
    if all.is_empty() {
        print::talk("no alerts; `outhaul-hub serve --alerts FILE` makes them");
        return Ok(0);
    }
    let mut rows = Vec::new();
    let mut problems = Vec::new();
    for (alert, deliveries) in &all {
        let mut states = Vec::new();
        for one in deliveries {
            states.push(format!("{} {}", one.destination, one.state));
            if one.state != "sent" && !one.problem.is_empty() {
                let tries = format_count(
                    usize::try_from(one.attempts).unwrap_or(usize::MAX),
                    "try",
                    "tries",
                );
                problems.push(format!(
                    "`{}` did not take alert {} ({tries}): {}",
                    one.destination, alert.id, one.problem
                ));
            }
        }
        rows.push(vec![
            alert.id.to_string(),
            time::rfc3339(alert.at_ms),
            alert.kind.clone(),
            alert.subject.clone(),
            alert.status.clone(),
            match states.is_empty() {
                true => "no destination subscribes".to_owned(),
                false => states.join(", "),
            },
            alert.message.chars().take(100).collect(),
        ]);
    }
    let heading = [
        "ALERT", "AT", "KIND", "ABOUT", "STATUS", "SENT TO", "MESSAGE",
    ];
    print::table(&heading, &rows);
    // One of a destination is enough: the others have the same reason.
    problems.dedup_by_key(|text| text.split('`').nth(1).map(ToOwned::to_owned));
    for problem in problems {
        print::talk(&problem);
    }
    Ok(0)
}

fn retry(common: &Common, to: &str) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let now_ms = time::now_ms();
    let known = hub.store.read(|session| session.alert_destinations())?;
    if !known.iter().any(|name| name == to) {
        return Err(HubError::Refused {
            problem: format!("no alert was ever for a destination `{to}`"),
            help: match known.is_empty() {
                true => "there are no alerts yet: `outhaul-hub serve --alerts FILE` makes them"
                    .to_owned(),
                false => format!("there are alerts for {}", known.join(", ")),
            },
        });
    }
    let count = hub
        .store
        .write(|session| session.retry_alerts(to, now_ms))?;
    match common.output {
        Output::Json => print::json(&json!({ "destination": to, "waiting": count })),
        Output::Text => print::data(&format!(
            "{} to `{to}` wait for the server's next turn",
            format_count(
                usize::try_from(count).unwrap_or(usize::MAX),
                "alert",
                "alerts"
            )
        )),
    }
    Ok(0)
}

fn test(common: &Common, file: &Path, to: &[String], dry_run: bool) -> Result<u8, HubError> {
    let settings = alerting::settings(file)?;
    let known: Vec<&str> = settings
        .destinations
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    if let Some(unknown) = to.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(HubError::Usage {
            problem: format!("`{}` names no destination `{unknown}`", file.display()),
            help: format!("it names {}", known.join(", ")),
        });
    }
    let hub = print::open(common)?;
    let now_ms = time::now_ms();
    let mut failed = 0;
    let mut results = Vec::new();
    for one in &settings.destinations {
        if !to.is_empty() && !to.contains(&one.name) {
            continue;
        }
        let Some(destination) = alerting::destination(one) else {
            continue;
        };
        let entry = AlertEntry {
            number: 0,
            at: time::rfc3339(now_ms),
            kind: "test".to_owned(),
            subject: one.name.clone(),
            environment: None,
            severity: "note".to_owned(),
            was: String::new(),
            status: "test".to_owned(),
            message: "a test message, sent by hand: nothing happened".to_owned(),
        };
        let message = Message::of(hub.fleet(), &one.name, settings.hub.as_deref(), vec![entry]);
        if dry_run {
            if common.output == Output::Text {
                print::data(&format!("{}: not sent: {}", one.name, message.subject()));
                print::block(&message.text());
            }
            results.push(
                json!({ "destination": one.name, "result": "not sent", "message": message.body }),
            );
            continue;
        }
        let sent = destination.send(&message);
        failed += u8::from(sent.is_err());
        let text = sent.map_or_else(
            |problem| format!("not sent: {problem}"),
            |()| "sent".to_owned(),
        );
        if common.output == Output::Text {
            print::data(&format!("{}: {text}", one.name));
        }
        results.push(json!({ "destination": one.name, "result": text }));
    }
    if common.output == Output::Json {
        print::json(&json!({ "destinations": results }));
    }
    // The network or the server's settings are to blame.
    Ok(if failed == 0 { 0 } else { 3 })
}
