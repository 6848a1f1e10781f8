//! `outhaul-hub site`: who may report.

use std::path::{Path, PathBuf};

use outhaul_bundle::name::Name;
use outhaul_signer::durable;
use outhaul_signer::envelope::MAX_ENVELOPE_BYTES;
use serde_json::json;

use super::{Common, Output, print, sites};
use crate::enrol::{self, Enrolled};
use crate::error::HubError;
use crate::moment;
use crate::state::Hub;

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
    List(sites::Args),
    Revoke(Revoke),
}

/// Approve a site's enrolment request; prints the fingerprint of its key
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outhaul-hub site add stick/requests/drone-17.request --state hub\n  \
                        outhaul-hub site add drone-17 --state hub"
)]
struct Add {
    /// The request's file, or the name of a site whose request was imported
    request: PathBuf,
    /// Let the site have a new key, follow another stream, or come back after it was revoked
    #[arg(long)]
    replace: bool,
}

/// Announce a kit's token: a request that shows it needs no approval, once
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub site expect --site drone-17 --token-sha256 9f86d0… \
                        --state hub"
)]
struct Expect {
    /// The site
    #[arg(long, value_name = "NAME")]
    site: Name,
    /// SHA-256 of the kit's token, 64 hexadecimal digits
    #[arg(long, value_name = "HEX")]
    token_sha256: String,
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
        SiteCommand::Revoke(args) => revoke(common, &args),
    }
}

fn add(common: &Common, args: &Add) -> Result<u8, HubError> {
    let mut hub = Hub::open(&common.state)?;
    let bytes = request(&mut hub, &args.request)?;
    let file = args.request.display().to_string();
    let refused = |source| HubError::Enrol {
        file: file.clone(),
        source: Box::new(source),
    };
    let checked = enrol::check(&bytes, hub.fleet()).map_err(refused)?;
    let now_ms = moment::now_ms();
    let enrolled = hub
        .store
        .write(|session| enrol::approve(session, &checked, args.replace, now_ms))
        .map_err(refused)?;
    let site = &checked.request.site;
    let stream = &checked.request.stream;
    let fingerprint = checked.key.id();
    match common.output {
        Output::Json => print::json(&json!({
            "site": site, "environment": stream.environment, "cluster_type": stream.cluster_type,
            "fingerprint": fingerprint, "result": enrolled,
        })),
        Output::Text => {
            let what = match enrolled {
                Enrolled::Already => "is registered already",
                Enrolled::Rekeyed => "has a new key",
                Enrolled::Registered | Enrolled::Waiting => "is registered",
            };
            print::data(&format!(
                "site `{site}` of {}/{} {what}\nfingerprint {fingerprint}",
                stream.environment, stream.cluster_type
            ));
        }
    }
    Ok(0)
}

/// The request in a file, or the one that was imported for a site of this name.
fn request(hub: &mut Hub, path: &Path) -> Result<Vec<u8>, HubError> {
    // A folder of a site's name, such as its kit's, is no request.
    if path.exists() && !path.is_dir() {
        return Ok(durable::read(path, MAX_ENVELOPE_BYTES as u64)?);
    }
    let pending = hub.store.read(|session| session.pending_requests())?;
    let name = path.to_string_lossy();
    let found = pending.into_iter().find(|request| request.site == name);
    found
        .map(|request| request.envelope)
        .ok_or_else(|| HubError::Usage {
            problem: format!("`{name}` is neither a file nor a site that waits for approval"),
            help: "`outhaul-hub sites` lists who waits".to_owned(),
        })
}

fn expect(common: &Common, args: &Expect) -> Result<u8, HubError> {
    let token = args.token_sha256.to_ascii_lowercase();
    if outhaul_bundle::Digest::from_hex(&token).is_err() {
        return Err(HubError::Usage {
            problem: format!("`{token}` is no SHA-256"),
            help: "the kit's maker prints it: 64 hexadecimal digits".to_owned(),
        });
    }
    let mut hub = Hub::open(&common.state)?;
    let now_ms = moment::now_ms();
    hub.store
        .write(|session| session.expect_site(args.site.as_str(), &token, now_ms))?;
    match common.output {
        Output::Json => print::json(&json!({ "site": args.site, "expected": true })),
        Output::Text => print::data(&format!("site `{}` is expected", args.site)),
    }
    Ok(0)
}

fn revoke(common: &Common, args: &Revoke) -> Result<u8, HubError> {
    let mut hub = Hub::open(&common.state)?;
    let now_ms = moment::now_ms();
    let revoked = hub
        .store
        .write(|session| session.revoke_site(&args.site, now_ms))?;
    if !revoked {
        return Err(HubError::Usage {
            problem: format!("no site `{}` that could be revoked", args.site),
            help: "`outhaul-hub sites` lists them; nothing was changed".to_owned(),
        });
    }
    match common.output {
        Output::Json => print::json(&json!({ "site": args.site, "revoked": true })),
        Output::Text => print::data(&format!("site `{}` is revoked", args.site)),
    }
    Ok(0)
}
