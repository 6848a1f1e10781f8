//! `outhaul-hub sites`: every site, with what it should and does run.

use super::{Common, Output, print, requests};
use crate::error::HubError;
use crate::time;
use crate::view::{Reading, SiteRow, amiss_in_cluster};
use outhaul_kit::text;

/// List every site: last seen, desired and actual bundle, state
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-hub sites --state hub --output json")]
pub(crate) struct Args {}

pub(super) fn run(common: &Common, _args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let now_ms = time::now_ms();
    let (reading, not_taken) = hub.store.read(|session| {
        let reading = Reading::take(session, now_ms)?;
        let mut not_taken = Vec::new();
        for site in session.webhook_sites()? {
            not_taken.extend(outhaul_webhooks::not_taken(session, &site)?);
        }
        Ok::<_, crate::store::StoreError>((reading, not_taken))
    })?;
    let view = reading.view(hub.fleet(), now_ms);
    match common.output {
        Output::Json => print::json(&view.sites),
        Output::Text => {
            let rows: Vec<_> = view.sites.iter().map(row).collect();
            let heading = [
                "SITE",
                "ENVIRONMENT",
                "TYPE",
                "LAST SEEN",
                "DESIRED",
                "RUNS",
                "STATE",
                "KEY",
            ];
            print::table(&heading, &rows);
            if let Some(restored) = &view.restored {
                print::talk(&format!(
                    "note: this hub was restored at {} from a backup of {}: reports, approvals, waivers and deferrals from \
                     before do not count at a gate; reports that are made and received now do",
                    restored.at, restored.backup_at
                ));
            }
            for site in &view.sites {
                if let Some(conflict) = &site.conflict {
                    print::talk(&format!(
                        "{}: CONFLICT: {}",
                        site.site,
                        text::printable(conflict)
                    ));
                }
                if let Some(ahead) = &site.future_dated {
                    print::talk(&format!("{}: future-dated: it {ahead}", site.site));
                }
                if let Some(sender) = &site.webhook {
                    print::talk(&format!(
                        "{}: known by webhook of {sender} alone: no agent looked",
                        site.site
                    ));
                }
                if let Some(amiss) = amiss_in_cluster(site) {
                    print::talk(&format!("{}: {}", site.site, text::printable(&amiss)));
                }
                if !site.missing.is_empty() {
                    print::talk(&format!(
                        "{}: {} never arrived",
                        site.site,
                        print::reports(&site.missing)
                    ));
                }
                if let Some(attempt) = &site.attempt {
                    print::talk(&format!("{}: {}", site.site, text::printable(attempt)));
                }
                for refusal in &site.refused {
                    print::talk(&format!(
                        "{}: refused on site {}: `{}`: {}: {}",
                        site.site,
                        refusal.site_time,
                        text::printable(&refusal.source),
                        text::printable(&refusal.rule),
                        text::printable(&refusal.message)
                    ));
                }
            }
            for line in &not_taken {
                print::talk(&text::printable(line));
            }
            requests::talk(&view.pending, view.pending_count);
        }
    }
    Ok(0)
}

fn row(site: &SiteRow) -> Vec<String> {
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    vec![
        site.site.clone(),
        site.environment.clone(),
        site.cluster_type.clone(),
        site.last_seen_ago.clone(),
        number(site.desired),
        number(site.actual),
        site.verdict.to_owned(),
        site.key.clone(),
    ]
}
