//! `outhaul-hub faults`: what is not well at one site, and since when.

use outhaul_bundle::hub_api::{SiteFaults, SiteLook};
use outhaul_kit::format_count::format_count;
use outhaul_kit::text;

use super::{Common, Output, print};
use crate::acting::unknown_site;
use crate::error::HubError;
use crate::store::{Session, StoreError};
use crate::time;
use crate::view::faults;

/// Show what is not well at a site, when it was well last, and what happened there meanwhile
///
/// From the site's reports alone. With the control plane's commits `outhaul blame` names the cause.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub faults edge-1 --state hub --output json > faults.json"
)]
pub(crate) struct Args {
    /// The site
    site: String,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let now_ms = time::now_ms();
    let (told, cluster, besides) = hub.store.read(|session| {
        let found = faults::of_site(session, &args.site, faults::Depth::Whole, now_ms)?;
        match found {
            Some(told) => {
                let cluster = faults::of_cluster(session, &args.site)?;
                Ok((told, cluster, besides(session, &args.site)?))
            }
            None => Err(unknown_site(session, &args.site)?),
        }
    })?;
    match common.output {
        Output::Json => {
            print::json(&told);
            for line in &besides {
                print::talk(&text::printable(line));
            }
        }
        Output::Text => {
            for line in &besides {
                print::data(&text::printable(line));
            }
            print_faults(&told, cluster.as_deref());
        }
    }
    Ok(0)
}

/// What no report of the site shows: that two machines use its key, and what of its webhooks was not taken in.
fn besides(session: &Session<'_>, site: &str) -> Result<Vec<String>, StoreError> {
    let mut lines = Vec::new();
    if let Some(conflict) = session.open_conflicts()?.get(site) {
        let sentence = conflict.sentence(site, outhaul_gate::EDITION);
        lines.push(format!("{site}: CONFLICT: {sentence}"));
    }
    if let Some(registered) = session.webhook_site(site)? {
        lines.extend(outhaul_webhooks::not_taken(session, &registered)?);
    }
    Ok(lines)
}

fn print_faults(told: &SiteFaults, cluster: Option<&str>) {
    if let Some(cluster) = cluster {
        print::data(&format!("{}: {}", told.site, text::printable(cluster)));
        if told.faults.is_empty() {
            return;
        }
    }
    if told.faults.is_empty() {
        print::data(&match told.reports_read {
            0 => format!("{}: it never reported, so nothing is known", told.site),
            read => format!("{}: its newest {read} reports show no fault", told.site),
        });
        return;
    }
    for fault in &told.faults {
        print::data(&format!("{}: {}", told.site, faults::headline(fault)));
        for detail in &fault.bad.details {
            let text = format!(
                "`{}` {}: {}",
                detail.assignment, detail.status, detail.message
            );
            print::data(&format!("  {}", text::printable(&text)));
            for step in &detail.steps {
                print::data(&format!("    {}", text::printable(step)));
            }
        }
        match &fault.good {
            Some(good) => print::data(&format!("  last well:      {}", look(good))),
            None if told.older_unread => print::data(&format!(
                "  last well:      not in the newest {} reports; older ones were not read",
                told.reports_read
            )),
            None => print::data("  last well:      in no report"),
        }
        print::data(&format!("  not well since: {}", look(&fault.bad)));
        for act in &fault.acts {
            print::data(&format!(
                "  on site:        report {}, {}: {}",
                act.report,
                act.at,
                text::printable(&act.text)
            ));
        }
        for (from, to) in &fault.missing {
            print::data(&format!("  missing:        reports {from} to {to}"));
        }
        for (assignment, others) in &fault.others {
            print::data(&format!(
                "  elsewhere:      `{}` is the same at {}, well at {} of them",
                text::printable(assignment),
                sites(others.well + others.not_well),
                others.well
            ));
        }
        if fault.others_failed > 0 {
            print::data(&format!(
                "  elsewhere:      the same bundle failed at {}",
                sites(fault.others_failed)
            ));
        }
    }
    print::talk("next: `outhaul blame` names the commit, value or act, where the control plane is");
}

fn sites(count: u64) -> String {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    format_count(count, "other site", "other sites")
}

fn look(look: &SiteLook) -> String {
    let clock = match look.clock_trusted {
        true => "",
        false => " (by the site's clock, which nothing confirmed)",
    };
    format!(
        "report {}, {}{clock}: bundle {}",
        look.report, look.at, look.bundle
    )
}
