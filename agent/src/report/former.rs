//! Reports of databases of this site that were removed: the files in `rescued/reports` go where its own reports go.
//!
//! What comes in: those files. What goes out: the same bytes, on a medium or to the hub, before the reports that were made since: a hub that had
//! none of an older numbering would take it for the newer one. They stay until the hub's signed acknowledgement covers them.

use std::path::{Path, PathBuf};

use outhaul_bundle::hub_api::{ReportsAnswer, path};
use outhaul_bundle::report::MAX_REPORTS_AT_ONCE_BYTES;
use outhaul_kit::media::Media;
use outhaul_kit::text;

use super::{Exported, MAX_ANSWER_BYTES, MODE, OnMedium, Sent, envelopes};
use crate::acks;
use crate::agent::Agent;
use crate::attention::{Attention, AttentionKind};
use crate::durable;
use crate::error::AgentError;
use crate::facilities::Server;
use crate::rescued::{self, RescuedReports};

/// How their names begin on a medium, which is read in the order of names.
const FIRST: &str = "0-former-";

/// Whether some are not on the medium yet.
pub(super) fn has_newer(agent: &Agent, there: &OnMedium) -> bool {
    let waiting = rescued::waiting(&agent.state_folder, &agent.site);
    waiting
        .iter()
        .any(|one| !there.former.contains(&on_medium(one)))
}

/// Writes those that are not on the medium yet.
pub(super) fn export(
    agent: &Agent,
    (media, folder): (&Media, &Path),
    there: &mut OnMedium,
    exported: &mut Exported,
) -> Result<(), AgentError> {
    for one in rescued::waiting(&agent.state_folder, &agent.site) {
        let to = on_medium(&one);
        if there.former.contains(&to) {
            continue;
        }
        let Some(bytes) = content(&one, &mut exported.unread) else {
            // It is said once, as long as the medium stays in its place.
            there.former.insert(to);
            continue;
        };
        media.write(&to, &bytes, MODE)?;
        agent.heartbeat.beat();
        exported.former += count(&bytes);
        exported.files.push(folder.join(&to));
        there.former.insert(to);
    }
    Ok(())
}

/// Sends them.
pub(super) fn send(
    agent: &mut Agent,
    client: &dyn Server,
    sent: &mut Sent,
) -> Result<(), AgentError> {
    for one in rescued::waiting(&agent.state_folder, &agent.site) {
        let Some(bytes) = content(&one, &mut sent.unread) else {
            continue;
        };
        agent.heartbeat.beat();
        // What the hub says against them keeps no other report from it.
        let answer = match client.post(path::REPORTS, &bytes, MAX_ANSWER_BYTES) {
            Ok(answer) => answer,
            Err(error @ AgentError::NoAnswer { .. }) => return Err(error),
            Err(error) => {
                sent.refused.push(error.to_string());
                continue;
            }
        };
        sent.former += count(&bytes);
        let Ok(answer) = serde_json::from_slice::<ReportsAnswer>(&answer) else {
            sent.refused.push(format!(
                "the hub's answer to {} cannot be read",
                one.sentence()
            ));
            continue;
        };
        acks::accept(agent, &envelopes(&answer))?;
        sent.refused.extend(
            answer
                .refused
                .iter()
                .map(|line| outhaul_reconcilers::shortened(&serde_json::json!(line).to_string())),
        );
    }
    Ok(())
}

/// What is in one of them. One that cannot be read keeps no other report back: why goes to `unread`, except where it is gone, which
/// an acknowledgement does.
fn content(one: &RescuedReports, unread: &mut Vec<String>) -> Option<Vec<u8>> {
    match durable::read(&one.path, MAX_REPORTS_AT_ONCE_BYTES as u64) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.is_missing() => None,
        Err(error) => {
            tracing::warn!(
                "{} cannot be read: {error}; {}",
                one.sentence(),
                error.help()
            );
            unread.push(format!("{} cannot be read: {error}", one.sentence()));
            None
        }
    }
}

/// That some wait, and what brings them to the hub.
pub fn attention(agent: &Agent) -> Option<Attention> {
    let waiting = rescued::waiting(&agent.state_folder, &agent.site);
    let (message, help) = words(&waiting)?;
    let what = AttentionKind::RescuedReports;
    Some(Attention::of_site(what, message, help))
}

/// The same, in two sentences.
pub fn words(waiting: &[RescuedReports]) -> Option<(String, String)> {
    let named: Vec<String> = waiting.iter().map(RescuedReports::sentence).collect();
    let folder = waiting.first()?.path.parent()?;
    let message = format!(
        "a former database of this site was removed, and reports of it have not reached the hub, as far as this site knows: {}; they are saved in `{}`",
        text::named(&named, MAX_NAMED),
        text::path(folder)
    );
    let help = "`outhaul-agent export FOLDER` puts them on a stick for the hub with the other reports, and `outhaul-agent send` sends them; they \
                stay there until the hub has acknowledged them";
    Some((message, help.to_owned()))
}

/// How many are named.
const MAX_NAMED: usize = 3;

fn on_medium(one: &RescuedReports) -> PathBuf {
    let name = one.path.file_name().unwrap_or_default().to_string_lossy();
    Path::new("reports").join(format!("{FIRST}{name}"))
}

fn count(bytes: &[u8]) -> u64 {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter(|line| !line.is_empty()).count() as u64
}
