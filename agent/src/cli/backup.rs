//! `backup`: the whole site in one file.

use outhaul_kit::belongs::{Owner, owner_of};
use outhaul_kit::text::json_path;
use std::path::{Path, PathBuf};

use super::Context;
use crate::agent::Agent;
use crate::error::AgentError;
use outhaul_host::owner;
use outhaul_site::backup::{self, BackupError};

/// Writes keys, identity, memory and settings of this site into one file of mode 0600.
///
/// The file holds this site's secret keys: whoever has it is the site. It is refused while the service or
/// another command works on the state folder: `systemctl stop outhaul-agent`, and `start` afterwards.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Write the digest down where the file is not: `restore --digest` compares it.\n\n\
                  Example:\n  outhaul-agent --state /var/lib/outhaul-agent backup --to /media/stick/press-7.backup"
)]
pub struct Args {
    /// The file to write; one that is there already is not replaced, and nothing is written then.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// The bundles on disk as well, so that a restored site needs no stick from the centre.
    #[arg(long)]
    with_content: bool,
}

/// Refuses a file in a folder that is this site's or someone else's, by what lies in it: a backup there is lost, carried or read with that.
fn refuse_others(file: &Path) -> Result<(), AgentError> {
    let folder = file.parent().unwrap_or(file);
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let Some((owner, above)) = owner_of(folder, &Owner::ALL) else {
        return Ok(outhaul_place::refuse_folder_of(file)?);
    };
    Err(AgentError::Usage {
        message: format!(
            "`{}` is in {}, `{}`; nothing was written",
            outhaul_kit::text::path(file),
            owner.name(),
            outhaul_kit::text::path(&above)
        ),
        help:
            "name a file on a stick, or in a folder that only those may enter who may be this site"
                .into(),
    })
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    refuse_others(&args.to)?;
    let agent = Agent::exclusive(&context.state)?;
    let made_ms = agent.clock_reading()?.wall_ms();
    let version = env!("CARGO_PKG_VERSION");
    let written = backup::write(
        &agent.state_folder,
        &agent.store,
        &args.to,
        args.with_content,
        version,
        made_ms,
    )
    .map_err(|error| match error {
        BackupError::File(error) if !error.path.starts_with(&context.state) => {
            let command = match args.with_content {
                true => "backup --with-content --to",
                false => "backup --to",
            };
            owner::not_writable(error, &args.to, (&context.state, command))
        }
        other => other.into(),
    })?;
    let (header, to) = (&written.header, outhaul_kit::text::path(&args.to));
    let what = match args.with_content {
        true => "keys, state, settings and the bundles on disk",
        false => "keys, memory and settings",
    };
    super::say(&format!(
        "`{to}` holds this site's secret keys: keep it where only those may go who may be this site, and write the \
         digest down somewhere else"
    ));
    context.print(
        &format!(
            "site {} of fleet {}: {what}, reports up to {}\n{} bytes in {} files: `{to}`\ndigest: {}",
            header.site,
            header.fleet,
            header.reports_last,
            written.bytes,
            header.entries.len(),
            written.digest
        ),
        &serde_json::json!({
            "site": header.site, "fleet": header.fleet, "file": json_path(&args.to), "bytes": written.bytes,
            "files": header.entries.len(), "content": header.content, "digest": written.digest,
            "epoch": header.epoch, "reports": header.reports_last,
        }),
    );
    Ok(0)
}
