//! `outhaul-hub carry`: the carrier's list.

use std::collections::BTreeSet;

use outhaul_kit::suggest::did_you_mean;
use outhaul_kit::text;

use super::{Common, Output, print, requests};
use crate::error::HubError;
use crate::gate::record::known_environment;
use crate::store::SitePage;
use crate::time;
use crate::view::{CarriedBundle, CarrierList, Reading, Stop, request_rows};

/// List what to carry: the bundles for the stick, the sites to go to, and what comes back from each
///
/// From what sites reported: a site that runs the newest bundle, and of which no report is missing, is left out, and so is one
/// that reports over the network. Sites that are left out are named with the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-hub carry --state hub --environment prod")]
pub(crate) struct Args {
    /// Only sites of this environment
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    /// Only this site (may be given more than once)
    #[arg(long = "site", value_name = "NAME")]
    sites: Vec<String>,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let now_ms = time::now_ms();
    let reading = hub.store.read(|session| {
        if let Some(name) = &args.environment {
            known_environment(session, name)
                .map_err(|error| usage(error.to_string(), &error.help()))?;
        }
        Ok::<_, HubError>(Reading::of(session, SitePage::ALL, now_ms)?)
    })?;
    check_names(&reading, &args.sites)?;
    let list = reading.carrying(now_ms, |row| {
        args.environment
            .as_ref()
            .is_none_or(|name| *name == row.environment)
            && (args.sites.is_empty() || args.sites.contains(&row.site))
    });
    match common.output {
        Output::Json => print::json(&list),
        Output::Text => {
            print_list(&list);
            let waiting = request_rows(&reading.pending, &reading.sites);
            requests::talk(&waiting, reading.pending_count);
        }
    }
    Ok(0)
}

fn usage(problem: String, help: &str) -> HubError {
    HubError::Usage {
        problem,
        help: help.to_owned(),
    }
}

/// All names that no site has, in one error.
fn check_names(reading: &Reading, asked: &[String]) -> Result<(), HubError> {
    let known: BTreeSet<&str> = reading
        .sites
        .iter()
        .map(|site| site.site.as_str())
        .collect();
    let wrong: Vec<&String> = asked
        .iter()
        .filter(|name| !known.contains(name.as_str()))
        .collect();
    let Some(first) = wrong.first() else {
        return Ok(());
    };
    let names: Vec<String> = wrong.iter().map(|name| format!("`{name}`")).collect();
    let known: Vec<&str> = known.into_iter().collect();
    let problem = format!("no site {} is registered", names.join(", "));
    Err(usage(problem, &did_you_mean(first, &known)))
}

fn print_list(list: &CarrierList) {
    if list.stops.is_empty() {
        print::data("Nothing to carry: no site needs a visit.");
    }
    if !list.bundles.is_empty() {
        print::data("Onto the stick:");
        for bundle in &list.bundles {
            print::data(&on_stick(bundle));
            print::data(&format!("    {}", command(bundle)));
        }
    }
    if !list.stops.is_empty() {
        print::data("  acknowledgements, so that sites forget the reports that arrived here");
        print::data("    outhaul-hub acks STICK");
        print::data("Go to:");
        let rows: Vec<Vec<String>> = list.stops.iter().map(row).collect();
        let heading = [
            "SITE",
            "STREAM",
            "STATE",
            "TAKE",
            "RUNS",
            "LAST SEEN",
            "BRING BACK",
        ];
        print::table(&heading, &rows);
    }
    for stop in &list.stops {
        for note in &stop.notes {
            print::talk(&format!("{}: {}", stop.site, text::printable(note)));
        }
    }
    for site in &list.left_out {
        print::talk(&format!(
            "left out: {}: {}",
            site.site,
            text::printable(&site.reason)
        ));
    }
    if list.revoked > 0 {
        print::talk(&format!(
            "left out: {}",
            print::count(list.revoked as u64, "revoked site")
        ));
    }
}

fn on_stick(bundle: &CarriedBundle) -> String {
    let CarriedBundle {
        environment,
        cluster_type,
        bundle: number,
        valid_until,
        ..
    } = bundle;
    let validity = match bundle.expired {
        false => format!("valid until {valid_until}"),
        true => format!("EXPIRED at {valid_until}: sign it again first (`outhaul bundle`)"),
    };
    let sites = print::count(bundle.sites as u64, "site");
    format!("  {environment}/{cluster_type} bundle {number} for {sites}, {validity}")
}

fn command(bundle: &CarriedBundle) -> String {
    let CarriedBundle {
        environment,
        cluster_type,
        ..
    } = bundle;
    let mut text = format!(
        "outhaul copy --fleet FLEET --environment {environment} --cluster-type {cluster_type} --to STICK"
    );
    for number in &bundle.since {
        text.push_str(&format!(" --since {number}"));
    }
    text
}

fn row(stop: &Stop) -> Vec<String> {
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let mut back = match stop.reports_after {
        0 => "all its reports".to_owned(),
        last => format!("reports after {last}"),
    };
    if !stop.missing.is_empty() {
        back.push_str(&format!(", and {}", print::reports(&stop.missing)));
    }
    vec![
        stop.site.clone(),
        format!("{}/{}", stop.environment, stop.cluster_type),
        stop.verdict.to_owned(),
        stop.bundle
            .map_or_else(|| "-".to_owned(), |bundle| format!("bundle {bundle}")),
        number(stop.runs),
        stop.last_seen.clone(),
        back,
    ]
}
