//! `outhaul-hub site`: who may report.

use std::path::PathBuf;

use outhaul_bundle::name::Name;
use outhaul_bundle::report::MAX_ENROLMENT_REQUEST_BYTES;
use outhaul_signer::media;
use serde_json::json;

use super::token::note;
use super::{Common, Output, print, requests, sites, webhook};
use crate::acting::{unknown_site, usage};
use crate::enrol::{self, CheckedRequest, Enrolled};
use crate::error::HubError;
use crate::state::Hub;
use crate::time;
use crate::view::request_rows;

/// Register, list and revoke sites
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: SiteCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SiteCommand {
    Add(Add),
    Expect(Expect),
    #[command(after_help = "Example:\n  outhaul-hub site list --state hub")]
    List(sites::Args),
    Reject(requests::Reject),
    Requests(requests::List),
    Revoke(Revoke),
    Webhook(webhook::Args),
}

/// Approve the enrolment request of the key whose fingerprint you compared
///
/// Without a fingerprint it shows what waits and approves nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outhaul-hub site add drone-17 --state hub\n  outhaul-hub site add drone-17 \
                        --fingerprint 8eb0f2a93a0b77c1 --state hub\n  outhaul-hub site add \
                        stick/requests/drone-17.request --fingerprint 8eb0f2a93a0b77c1 --state hub"
)]
struct Add {
    /// The request's file, or the name of a site whose request was imported
    request: PathBuf,
    /// Fingerprint of the key to approve, as the machine shows it: all of it, or its first 16 digits
    #[arg(
        long,
        value_name = "HEX",
        default_value = "",
        hide_default_value = true
    )]
    fingerprint: String,
    /// Id of its kit, when the same key waits with several
    #[arg(
        long,
        value_name = "HEX",
        default_value = "",
        hide_default_value = true
    )]
    kit: String,
    /// Let the site have a new key, follow another stream, or come back after it was revoked
    #[arg(long)]
    replace: bool,
}

/// Announce a kit: a request that proves it needs no approval, once
///
/// A request for this site that proves another kit is refused from then on. While another request for
/// the site waits, a person decides all the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-hub site expect drone-17 --kit \
                        9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --state hub")]
struct Expect {
    /// The site
    site: Name,
    /// The kit's id, 64 hexadecimal digits, as `outhaul site enrol` prints it
    #[arg(long, value_name = "HEX")]
    kit: String,
}

/// Revoke a site: its reports are refused, and gates no longer wait for it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-hub site revoke drone-17 --state hub")]
struct Revoke {
    /// The site
    site: String,
}

pub(super) fn run(common: &Common, args: Args) -> Result<u8, HubError> {
    match args.command {
        SiteCommand::Add(args) => add(common, &args),
        SiteCommand::Expect(args) => expect(common, &args),
        SiteCommand::List(args) => sites::run(common, &args),
        SiteCommand::Reject(args) => requests::reject(common, &args),
        SiteCommand::Requests(_) => requests::list(common),
        SiteCommand::Revoke(args) => revoke(common, &args),
        SiteCommand::Webhook(args) => webhook::run(common, &args),
    }
}

fn add(common: &Common, args: &Add) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let bytes = request(&mut hub, args)?;
    let file = args.request.display().to_string();
    let refused = |source| HubError::Enrol {
        file: file.clone(),
        source: Box::new(source),
    };
    let checked = enrol::check(&bytes, hub.fleet()).map_err(refused)?;
    named(&checked, &args.fingerprint)?;
    let site = &checked.request.site;
    let stream = &checked.request.stream;
    let of = format!("{}/{}", stream.environment, stream.cluster_type);
    let fingerprint = checked.key.id();
    let now_ms = time::now_ms();
    let enrolled = hub
        .store
        .write(|session| {
            let enrolled = enrol::approve_by_hand(session, &checked, args.replace, now_ms)?;
            if enrolled != Enrolled::Already {
                let action = if args.replace {
                    "site add --replace"
                } else {
                    "site add"
                };
                let detail = format!("`{site}` of {of}, key {fingerprint}");
                note(session, action, detail, now_ms)?;
            }
            Ok(enrolled)
        })
        .map_err(refused)?;
    match common.output {
        Output::Json => print::json(&json!({
            "site": site, "environment": stream.environment, "cluster_type": stream.cluster_type,
            "fingerprint": fingerprint, "result": enrolled,
        })),
        Output::Text => {
            let what = match enrolled {
                Enrolled::Already => "is registered already",
                Enrolled::Rekeyed => "has a new key",
                Enrolled::Registered | Enrolled::Waiting | Enrolled::Conflict => "is registered",
            };
            print::data(&format!("site `{site}` of {of} {what}"));
            print::data(&format!("fingerprint {fingerprint}"));
        }
    }
    Ok(0)
}

/// Holds the key to the fingerprint that someone compared. A file is shown like a request that waits.
fn named(checked: &CheckedRequest, fingerprint: &str) -> Result<(), HubError> {
    let Err(problem) = enrol::named(checked, fingerprint) else {
        return Ok(());
    };
    Err(HubError::Usage {
        problem,
        help: "compare the fingerprint with the one that `outhaul-agent status` shows on the machine, and \
               name all of it, or its first 16 digits, with `--fingerprint`; nothing was changed"
            .to_owned(),
    })
}

/// The request in a file, or the one that waits for a site of this name.
fn request(hub: &mut Hub, args: &Add) -> Result<Vec<u8>, HubError> {
    let path = &args.request;
    // A folder of a site's name, such as its kit's, is not a request.
    if path.exists() && !path.is_dir() {
        return Ok(media::read_file(path, MAX_ENROLMENT_REQUEST_BYTES as u64)?);
    }
    let name = path.to_string_lossy();
    Ok(requests::find(hub, &name, &args.fingerprint, &args.kit)?.envelope)
}

fn expect(common: &Common, args: &Expect) -> Result<u8, HubError> {
    let kit = args.kit.to_ascii_lowercase();
    if outhaul_bundle::Digest::from_hex(&kit).is_err() {
        return Err(HubError::Usage {
            problem: format!("`{kit}` is not the id of a kit"),
            help: "`outhaul site enrol` prints it: 64 hexadecimal digits; nothing was changed"
                .to_owned(),
        });
    }
    let mut hub = print::open(common)?;
    let now_ms = time::now_ms();
    let (waiting, revoked_ms) = hub.store.write(|session| {
        let revoked_ms = enrol::expect(session, args.site.as_str(), &kit, now_ms);
        let revoked_ms = revoked_ms.map_err(|refused| match refused {
            enrol::EnrolError::Store(error) => HubError::from(error),
            refused => usage(refused.to_string(), refused.help().unwrap_or_default()),
        })?;
        let detail = format!("`{}` with kit {kit}", args.site);
        note(session, "site expect", detail, now_ms)?;
        let waiting = session.requests_of(args.site.as_str())?;
        let rows = request_rows(&waiting, &session.site_states()?);
        Ok::<_, HubError>((rows, revoked_ms))
    })?;
    match common.output {
        Output::Json => print::json(&json!({
            "site": args.site, "expected": true, "kit": kit, "waiting": waiting,
            "revoked": revoked_ms.is_some(),
        })),
        Output::Text => {
            print::data(&format!("site `{}` is expected with kit {kit}", args.site));
            if let Some(at_ms) = revoked_ms {
                print::talk(&format!(
                    "note: site `{}` is revoked (since {}): a request with this kit and a new key registers it again; what it reported \
                     before counts for nothing",
                    args.site,
                    time::rfc3339(at_ms)
                ));
            }
            requests::talk(&waiting, waiting.len() as u64);
        }
    }
    Ok(0)
}

fn revoke(common: &Common, args: &Revoke) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let now_ms = time::now_ms();
    hub.store.write(|session| {
        if session.site(&args.site)?.is_none() {
            return Err(unknown_site(session, &args.site)?);
        }
        if !session.revoke_site(&args.site, now_ms)? {
            let problem = format!("site `{}` is revoked already", args.site);
            return Err(usage(problem, "nothing was changed"));
        }
        note(session, "site revoke", format!("`{}`", args.site), now_ms)?;
        Ok(())
    })?;
    match common.output {
        Output::Json => print::json(&json!({ "site": args.site, "revoked": true })),
        Output::Text => print::data(&format!("site `{}` is revoked", args.site)),
    }
    Ok(0)
}
