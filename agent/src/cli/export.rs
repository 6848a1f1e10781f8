//! `export`: reports onto a stick.

use outhaul_kit::text::json_path;
use std::path::PathBuf;

use super::Context;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::report;

/// Writes all reports that the hub has not acknowledged into FOLDER/reports.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent export /media/stick"
)]
pub struct Args {
    /// A folder, such as the mount point of a stick.
    folder: PathBuf,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let exported = report::export(&mut Agent::open(&context.state)?, &args.folder)?;
    let count = exported.reports;
    let reports = if count == 1 { "report" } else { "reports" };
    let mut lines = vec![format!("{count} {reports} exported")];
    lines.extend(
        exported
            .files
            .iter()
            .chain(&exported.request)
            .map(|f| format!("  {}", f.display())),
    );
    let folder = outhaul_kit::text::path(&args.folder);
    super::say(&if count == 0 {
        format!("no report waits for the hub; `{folder}` is safe to remove now")
    } else {
        format!(
            "they stay here until the hub's acknowledgement comes back on a stick or over the network; \
             `{folder}` is safe to remove now"
        )
    });
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| json_path(path)).collect::<Vec<_>>();
    context.print(
        &lines.join("\n"),
        &serde_json::json!({
            "reports": exported.reports, "files": paths(&exported.files),
            "request": exported.request.as_deref().map(json_path),
        }),
    );
    Ok(0)
}
