//! `outhaul-hub site requests` and `site reject`: who waits, and who does not wait any longer.

use outhaul_bundle::name::Name;
use outhaul_kit::suggest::nearest;
use serde_json::json;

use super::token::note;
use super::{Common, Output, print};
use crate::acting::usage;
use crate::enrol::{Selected, select, too_short};
use crate::error::HubError;
use crate::state::Hub;
use crate::store::{PendingRequest, StoreError};
use crate::time;
use crate::view::{REQUESTS_SHOWN, RequestRow, request_rows};

/// Requests that are looked at, at most; what beyond that waits is counted.
const MAX_LISTED: u32 = 20_000;

/// List the enrolment requests that wait, with the fingerprints of their keys
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-hub site requests --state hub")]
pub(crate) struct List {}

/// Reject a false request, so that it does not come back, or everything that anybody sent
///
/// A rejected site that was wanted after all gets a new kit: `outhaul site enrol` at the centre writes it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outhaul-hub site reject drone-17 --fingerprint 8eb0f2a93a0b77c1 \
                        --state hub\n  outhaul-hub site reject --network --state hub"
)]
pub(crate) struct Reject {
    /// The site that the request names
    #[arg(required_unless_present = "network", requires = "fingerprint")]
    site: Option<Name>,
    /// Fingerprint of the request's key: all of it, or its first 16 digits
    #[arg(long, value_name = "HEX", requires = "site")]
    fingerprint: Option<String>,
    /// Id of its kit, when the same key waits with several
    #[arg(long, value_name = "HEX", requires = "site", default_value = "")]
    kit: String,
    /// Forget every request that came over the network; the agents of real sites send theirs again
    #[arg(long, conflicts_with = "site")]
    network: bool,
}

pub(super) fn list(common: &Common) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let (rows, count) = hub.store.read(|session| {
        let pending = session.pending_requests(MAX_LISTED)?;
        let rows = request_rows(&pending, &session.site_states()?);
        Ok::<_, StoreError>((rows, session.count_requests()?))
    })?;
    print::rest(
        rows.len(),
        count,
        "`outhaul-hub site requests` after some are decided",
    );
    match common.output {
        Output::Json => print::json(&json!({ "requests": rows, "count": count })),
        Output::Text => {
            let cells = |row: &RequestRow| {
                vec![
                    row.site.clone(),
                    format!("{}/{}", row.environment, row.cluster_type),
                    row.fingerprint.clone(),
                    format!("{:.16}", row.kit),
                    row.origin.clone(),
                    row.received_at.clone(),
                    row.conflict.clone().unwrap_or_default(),
                ]
            };
            let heading = [
                "SITE",
                "STREAM",
                "FINGERPRINT",
                "KIT",
                "FROM",
                "RECEIVED",
                "CONFLICT",
            ];
            let rows: Vec<_> = rows.iter().map(cells).collect();
            print::table(&heading, &rows);
        }
    }
    Ok(0)
}

pub(super) fn reject(common: &Common, args: &Reject) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let now_ms = time::now_ms();
    let Some(site) = &args.site else {
        let count = hub.store.write(|session| {
            let count = session.reject_network()?;
            let detail = print::count(count, "request");
            note(session, "site reject --network", detail, now_ms)?;
            Ok::<_, StoreError>(count)
        })?;
        match common.output {
            Output::Json => print::json(&json!({ "rejected": count })),
            Output::Text => print::data(&format!(
                "{} from the network forgotten",
                print::count(count, "request")
            )),
        }
        return Ok(0);
    };
    let fingerprint = args.fingerprint.as_deref().unwrap_or_default();
    let found = find(&mut hub, site.as_str(), fingerprint, &args.kit)?;
    hub.store.write(|session| {
        session.reject_request(&found, now_ms)?;
        let detail = format!("`{site}`, key {}, kit {}", found.key_id, found.kit);
        note(session, "site reject", detail, now_ms)
    })?;
    match common.output {
        Output::Json => print::json(&json!({
            "site": found.site, "fingerprint": found.key_id, "kit": found.kit, "rejected": 1,
        })),
        Output::Text => {
            print::data(&format!(
                "the request of key {} for site `{site}` is rejected",
                found.key_id
            ));
            print::talk(&format!(
                "it does not come back by being sent again; a machine that was wanted after all gets a \
                 new kit: `outhaul site enrol {site}` at the centre"
            ));
        }
    }
    Ok(0)
}

/// The one request that a site's name and a fingerprint name; all that wait are shown otherwise.
pub(super) fn find(
    hub: &mut Hub,
    site: &str,
    fingerprint: &str,
    kit: &str,
) -> Result<PendingRequest, HubError> {
    let (waiting, sites) = hub.store.read(|session| {
        let waiting = session.requests_of(site)?;
        if waiting.is_empty() {
            let known = session.pending_requests(MAX_LISTED)?;
            let known: Vec<&str> = known.iter().map(|one| one.site.as_str()).collect();
            let meant = nearest(site, &known).map(|near| format!("did you mean `{near}`? "));
            let help = "`outhaul-hub site requests` lists who waits; nothing was changed";
            return Err(usage(
                format!("`{site}` is neither a file nor a site that waits for approval"),
                &format!("{}{help}", meant.unwrap_or_default()),
            ));
        }
        Ok((waiting, session.site_states()?))
    })?;
    let shown = |list: &[PendingRequest]| {
        let lines = request_rows(list, &sites);
        let lines: Vec<_> = lines.iter().map(line).collect();
        lines.join("\n")
    };
    let all = shown(&waiting);
    let (problem, help) = match select(waiting, fingerprint, kit) {
        Selected::One(request) => return Ok(request),
        Selected::None(_) if fingerprint.is_empty() => (
            format!("no fingerprint was named for site `{site}`; this waits:\n{all}"),
            "compare the fingerprint with the one that `outhaul-agent status` shows on the machine, and \
             name it with `--fingerprint`; nothing was changed",
        ),
        Selected::None(_) => (
            match too_short(fingerprint) {
                Some(short) => format!("{short}; this waits:\n{all}"),
                None => format!(
                    "no request for site `{site}` has a key whose fingerprint begins with \
                     `{fingerprint}`; this waits:\n{all}"
                ),
            },
            "name all of the fingerprint, or its first 16 digits or more; nothing was changed",
        ),
        Selected::Several(several) => (
            format!("that key waits with several kits:\n{}", shown(&several)),
            "name the kit as well with `--kit`; nothing was changed",
        ),
    };
    Err(HubError::Usage {
        problem,
        help: help.to_owned(),
    })
}

/// One request in a line.
pub(super) fn line(row: &RequestRow) -> String {
    let conflict = match &row.conflict {
        Some(conflict) => format!("; CONFLICT: {conflict}"),
        None => String::new(),
    };
    format!(
        "  {} of {}/{}: fingerprint {}, kit {:.16}, from {} at {}{conflict}",
        row.site,
        row.environment,
        row.cluster_type,
        row.fingerprint,
        row.kit,
        row.origin,
        row.received_at
    )
}

/// Who waits, on stderr.
pub(super) fn talk(rows: &[RequestRow], count: u64) {
    if rows.is_empty() {
        return;
    }
    print::talk(&format!("{} for approval:", print::waits(count)));
    for row in rows {
        print::talk(&line(row));
    }
    if count > u64::from(REQUESTS_SHOWN) {
        print::talk("  and more: `outhaul-hub site requests`");
    }
    print::talk(
        "help: compare a fingerprint with the machine's, then `outhaul-hub site add SITE --fingerprint \
         HEX`, or `outhaul-hub site reject SITE --fingerprint HEX`",
    );
}
