//! Reports of databases of this site that were removed: the files in `rescued/reports` go where its own reports go.
//!
//! What comes in: those files. What goes out: the same bytes, on a medium or to the hub, before the reports that were made since: a hub that had
//! none of an older numbering would take it for the newer one. They stay until the hub's signed acknowledgement covers them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{ReportsAnswer, path};
use outhaul_kit::media::Media;
use outhaul_kit::text;

use super::{Exported, MAX_ANSWER_BYTES, MODE, OnMedium, Sent, envelopes};
use crate::acks;
use crate::agent::Agent;
use crate::attention::{Attention, AttentionKind};
use crate::error::AgentError;
use crate::facilities::Server;
use crate::rescued::{self, RescuedReports};
use crate::state::{self, SiteIdentity, key};

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
    let mut counted = ReportSet::default();
    for one in rescued::waiting(&agent.state_folder, &agent.site) {
        let to = on_medium(&one);
        if there.former.contains(&to) {
            continue;
        }
        let Some(bytes) = content(&one, &agent.site, &mut exported.unread) else {
            // It is said once, as long as the medium stays in its place.
            there.former.insert(to);
            continue;
        };
        media.write(&to, &bytes, MODE)?;
        agent.heartbeat.beat();
        exported.former += counted.new_in(&bytes);
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
    let (mut counted, mut acknowledged) = (ReportSet::default(), ReportSet::default());
    let mut refusals: Refusals =
        state::meta(agent.store.read(), key::FORMER_REFUSALS)?.unwrap_or_default();
    let before = refusals.clone();
    for one in rescued::waiting(&agent.state_folder, &agent.site) {
        let Some(bytes) = content(&one, &agent.site, &mut sent.unread) else {
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
        sent.former += counted.new_in(&bytes);
        let Ok(answer) = serde_json::from_slice::<ReportsAnswer>(&answer) else {
            sent.refused.push(format!(
                "the hub's answer to {} cannot be read",
                one.sentence()
            ));
            continue;
        };
        acks::accept(agent, &envelopes(&answer))?;
        if !one.path.exists() {
            sent.former_acknowledged += acknowledged.new_in(&bytes);
        }
        match answer.refused.first() {
            Some(line) => {
                let reason = outhaul_reconcilers::shortened(&line.reason);
                refusals.insert(one.epoch.clone(), format!("{} ({reason})", line.rule));
            }
            None => drop(refusals.remove(&one.epoch)),
        }
        sent.refused.extend(
            answer
                .refused
                .iter()
                .map(|line| outhaul_reconcilers::shortened(&serde_json::json!(line).to_string())),
        );
    }
    // What is not kept any more is refused by nobody.
    let waiting = rescued::waiting(&agent.state_folder, &agent.site);
    refusals.retain(|epoch, _| waiting.iter().any(|one| one.epoch == *epoch));
    if refusals == before {
        return Ok(());
    }
    let refusals = Some(refusals).filter(|refusals| !refusals.is_empty());
    agent.commit(|db, _| {
        Ok(state::set_meta(
            db,
            key::FORMER_REFUSALS,
            refusals.as_ref(),
        )?)
    })
}

/// Why a hub refuses reports of former numberings, in its words, by numbering.
pub type Refusals = BTreeMap<String, String>;

/// Reports that are counted once, also where saved files overlap: on a disk that was full, a part was saved first.
#[derive(Default)]
struct ReportSet(BTreeSet<Digest>);

impl ReportSet {
    /// How many reports in a file were in none before.
    fn new_in(&mut self, bytes: &[u8]) -> u64 {
        let new = rescued::lines(bytes).filter(|line| self.0.insert(Digest::of(line)));
        new.count() as u64
    }
}

/// What of one of them may leave. One that cannot be read keeps no other report back: why goes to `unread`, except where it is gone, which
/// an acknowledgement does. What else lies in one is named there, too.
fn content(one: &RescuedReports, site: &SiteIdentity, unread: &mut Vec<String>) -> Option<Vec<u8>> {
    let (bytes, problem) = match one.read(site) {
        Ok(None) => return None,
        Ok(Some(read)) => (read.bytes, read.problem),
        Err(error) => (
            Vec::new(),
            Some(format!("cannot be read: {error}; {}", error.help())),
        ),
    };
    if let Some(problem) = problem {
        let problem = format!("{} {problem}", one.sentence());
        tracing::warn!("{problem}");
        unread.push(problem);
    }
    (!bytes.is_empty()).then_some(bytes)
}

/// That some wait, and what brings them to the hub.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn attention(agent: &Agent) -> Result<Option<Attention>, AgentError> {
    let waiting = rescued::waiting(&agent.state_folder, &agent.site);
    let refusals: Refusals =
        state::meta(agent.store.read(), key::FORMER_REFUSALS)?.unwrap_or_default();
    let said = words(&waiting, &refusals);
    Ok(
        said.map(|(message, help)| {
            Attention::of_site(AttentionKind::RescuedReports, message, help)
        }),
    )
}

/// The same, in two sentences.
pub fn words(waiting: &[RescuedReports], refusals: &Refusals) -> Option<(String, String)> {
    let named: Vec<String> = waiting.iter().map(RescuedReports::sentence).collect();
    let folder = text::path(waiting.first()?.path.parent()?);
    let is_refused = |one: &&RescuedReports| refusals.contains_key(&one.epoch);
    let refused = waiting.iter().find(is_refused);
    let refused_by = refused.and_then(|one| Some((one, refusals.get(&one.epoch)?)));
    let refused_by = refused_by.map_or_else(String::new, |(one, why)| {
        format!(
            "; when they were sent last, the hub refused those of numbering {}: {why}",
            one.epoch
        )
    });
    let message = format!(
        "a former database of this site was removed, and reports of it have not reached the hub, as far as this site knows: {}; they are saved in \
         `{folder}`{refused_by}",
        text::named(&named, MAX_NAMED),
    );
    let help = match refused {
        None => format!(
            "`outhaul-agent export FOLDER` puts them on a stick for the hub with the other reports, and `outhaul-agent send` sends them; they \
             stay there until the hub has acknowledged them; {ACCEPTED}"
        ),
        Some(_) => format!(
            "keep `{folder}` and bring a copy of it to whoever runs the hub: its pages show what is refused, and these files are the record of what this site \
             did; {ACCEPTED}"
        ),
    };
    Some((message, help))
}

/// Which reports of a former numbering a hub accepts.
pub const ACCEPTED: &str = "the hub accepts reports of a former numbering where it has some of that numbering already, or where this site still has the key that \
                            signed them";

/// How many are named.
const MAX_NAMED: usize = 3;

fn on_medium(one: &RescuedReports) -> PathBuf {
    let name = one.path.file_name().unwrap_or_default().to_string_lossy();
    Path::new("reports").join(format!("{FIRST}{name}"))
}
