//! `outhaul-hub audit`: what an auditor gets.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use outhaul_kit::durable;

use super::{Common, Output, print};
use crate::audit;
use crate::error::HubError;
use crate::store::{AccessEntry, StoreError};
use crate::time;

/// The readable mode of an export: it holds no secret, and names sites and people.
const MODE: u32 = 0o640;
/// Entries listed at once.
const LISTED: u32 = 1_000;

/// What an auditor gets
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AuditCommand {
    /// Write everything that decisions rest on into one file, signed by the hub
    ///
    /// The gate's decisions, approvals, waivers and deferrals, the signed reports and bundles, and the keys. `outhaul-audit`
    /// makes each decision again from it, with the fleet's root and without this hub.
    #[command(
        after_help = "Example:\n  outhaul-hub audit export gates.audit --state hub\n  outhaul-audit verify gates.audit --root 1.root.json"
    )]
    Export(Export),
    /// List who did what with which right: logins, decisions on the pages, tokens made and taken away
    #[command(after_help = "Example:\n  outhaul-hub audit access --state hub")]
    Access(Access),
}

#[derive(Debug, clap::Args)]
struct Access {
    /// Entries before this number
    #[arg(long, value_name = "NUMBER")]
    before: Option<i64>,
}

#[derive(Debug, clap::Args)]
struct Export {
    /// The file to write; it must not exist
    file: PathBuf,
}

fn access(common: &Common, before: Option<i64>) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    print::clock(&mut hub)?;
    let below = before.unwrap_or(i64::MAX);
    let (log, count) = hub.store.read(|session| {
        let log = session.access_log(below, LISTED)?;
        Ok::<_, StoreError>((log, session.count_access(below)?))
    })?;
    match common.output {
        Output::Json => print::json(&log),
        Output::Text => {
            let row = |entry: &AccessEntry| {
                let allowed = if entry.allowed { "" } else { " (refused)" };
                vec![
                    entry.id.to_string(),
                    time::rfc3339(entry.at_ms),
                    entry.who.clone(),
                    format!("{}{allowed}", entry.action),
                    entry.detail.clone(),
                    format!("{} {}", entry.how, entry.peer).trim().to_owned(),
                ]
            };
            let rows: Vec<_> = log.iter().map(row).collect();
            print::table(&["NUMBER", "WHEN", "WHO", "WHAT", "DETAIL", "FROM"], &rows);
        }
    }
    let last = log.last().map_or(0, |last| last.id);
    print::rest(log.len(), count, &format!("`--before {last}`"));
    Ok(0)
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let file = match &args.command {
        AuditCommand::Export(Export { file }) => file,
        AuditCommand::Access(Access { before }) => return access(common, *before),
    };
    let mut hub = print::open_signing(common)?;
    print::clock(&mut hub)?;
    if file.exists() {
        return Err(HubError::Refused {
            problem: format!("`{}` exists already", outhaul_kit::text::path(file)),
            help: "name another file; nothing was changed".to_owned(),
        });
    }
    outhaul_place::refuse_file(file, "an export", |_| false)?;
    // Under another name until it is whole.
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    if part.exists() {
        durable::remove_file(&part)?;
    }
    let mut out = BufWriter::new(durable::create(&part, MODE)?);
    let done = audit::export(&mut hub, &mut out);
    let done = match done {
        Ok(done) => done,
        Err(error) => {
            durable::remove_file(&part)?;
            return Err(error);
        }
    };
    let written = out.into_inner().map_err(|error| error.into_error());
    written
        .and_then(|out| out.sync_all())
        .map_err(durable::at("write", &part))?;
    durable::rename(&part, file)?;
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    durable::sync_folder(folder.unwrap_or(Path::new(".")))?;
    match common.output {
        Output::Json => print::json(&done),
        Output::Text => {
            print::data(&format!(
                "{}, {}, {} in {} lines of `{}`",
                print::count(done.decisions, "decision"),
                print::count(done.acts, "act"),
                print::count(done.reports, "report"),
                done.lines,
                outhaul_kit::text::path(file)
            ));
            if done.forgotten > 0 {
                print::data(&format!(
                    "{} of which only the place in the chain is kept",
                    print::count(done.forgotten, "older closed decision")
                ));
            }
            if done.removed > 0 {
                print::data(&format!(
                    "{} of which the numbers are stated: no longer kept, and no decision rests on one",
                    print::count(done.removed, "older report")
                ));
            }
            if !done.head.is_empty() {
                print::data(&format!("the chain of decisions ends with {}", done.head));
            }
        }
    }
    Ok(0)
}
