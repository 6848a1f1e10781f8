//! `outhaul-signer status`: who may sign what, and what expires when.

use std::path::PathBuf;

use outhaul_signer::Fleet;
use serde_json::json;

use super::{CommandOutcome, Common, Result};

/// Show roles, thresholds, which keys are here, and what expires when.
///
/// Example: `outhaul-signer status ./fleet`. A star marks keys of which the private half is in the folder.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The fleet's folder
    folder: PathBuf,
}

impl Args {
    pub fn run(self, common: &Common) -> Result {
        let status = Fleet::open(&self.folder)?.status()?;
        let now = common.now();
        let mut lines = vec![format!("fleet {}", status.fleet)];
        lines.push(format!(
            "{:<20} {:>7} {:>6}  {:<20} keys",
            "role", "version", "sign", "expires"
        ));
        for role in &status.roles {
            let keys = role.keys.iter().map(|key| {
                let mark = if key.here { "*" } else { "" };
                format!("{}{mark}", key.id.chars().take(12).collect::<String>())
            });
            let expires = role.expires.map_or("-".to_owned(), |time| time.to_string());
            let late = if role.expires.is_some_and(|time| time <= now) {
                "  EXPIRED"
            } else {
                ""
            };
            let stream = role
                .stream
                .as_ref()
                .map_or(String::new(), |name| format!("  {name}"));
            lines.push(format!(
                "{:<20} {:>7} {:>6}  {expires:<20} {}{stream}{late}",
                role.role,
                role.version,
                format!("{}/{}", role.threshold, role.keys.len()),
                keys.collect::<Vec<_>>().join(" "),
            ));
        }
        lines.extend(
            status
                .waiting
                .iter()
                .map(|name| format!("waits for signatures: {name}")),
        );
        if status
            .roles
            .iter()
            .flat_map(|role| &role.keys)
            .any(|key| key.weak)
        {
            lines.push(
                "some keys here rest weaker than new ones do: `outhaul-signer passphrase FLEET` encrypts them \
                 again"
                    .to_owned(),
            );
        }
        common.print(&lines.join("\n"), &json!(status));
        Ok(CommandOutcome::Done)
    }
}
