//! What someone removed from the state folder without touching the database: what that costs, and what brings it back.
//!
//! What comes in: the memory, and what lies in the state folder. What goes out: one entry for what an interrupted
//! restore left, one for `site.json` of another numbering, one for the copies beside the database, one for stored blobs of the active bundle, one for
//! the fleet's roots. It writes nothing and reads no blob.

use crate::agent::Agent;
use crate::attention::{Attention, AttentionKind};
use crate::error::AgentError;
use crate::identity;
use crate::intake::known;
use crate::roots::{self, KeptRoots};
use crate::runner;
use crate::state::{self, floors, holds, key};
use crate::state_folder::{AtWork, why_closed};
use outhaul_kit::text;

/// How many names stand in one sentence.
const MAX_NAMED: usize = 10;

/// What a restore left that was interrupted when everything was in its place.
pub(super) fn restoring(agent: &Agent) -> Option<Attention> {
    let is_at_work = matches!(agent.state_folder.at_work(), AtWork::Command(_));
    (!is_at_work && agent.state_folder.restore_is_at_its_end()).then(|| {
        let message = "restoring this site from a backup was interrupted when everything was in its place: the site is restored, and only what the \
                       command wrote beside it (`restoring` in the state folder) is still there";
        let help = "start the service, or give `outhaul-agent apply`, which removes that and puts right what is missing on this host";
        Attention::of_site(AttentionKind::Restoring, message.to_owned(), help.to_owned())
    })
}

/// That `site.json` is of another numbering. A service that renumbers its reports at this moment writes it next.
pub(super) fn numbering(agent: &Agent) -> Result<Option<Attention>, AgentError> {
    if agent.state_folder.is_locked() {
        return Ok(None);
    }
    let differs = identity::other_numbering(&agent.state_folder, agent.store.read())?;
    Ok(differs.map(|message| {
        let help = "start the service (`systemctl start outhaul-agent`), or give `outhaul-agent run --once`, which writes the file again from the database; \
                    where someone put the file back, put nothing else of that time back";
        Attention::of_site(AttentionKind::Missing, message, help.to_owned())
    }))
}

/// What is missing.
pub(super) fn missing(agent: &Agent) -> Result<Vec<Attention>, AgentError> {
    let found = [copies(agent)?, blobs(agent)?, passed_roots(agent)?];
    let found = found.into_iter().flatten();
    Ok(found
        .map(|(message, help)| Attention::of_site(AttentionKind::Missing, message, help))
        .collect())
}

/// The copies beside the database that are missing or damaged, and what is lost without them when the database is lost, too.
fn copies(agent: &Agent) -> Result<Option<(String, String)>, AgentError> {
    let (folder, db) = (&agent.state_folder, agent.store.read());
    let all = [
        (
            floors::sidecar_is_missing(db, &folder.floors())?,
            folder.floors(),
            "older bundles may be accepted again",
        ),
        (
            holds::beside::read(folder).is_none(),
            folder.holds(),
            "which holds there are is unknown",
        ),
        (
            identity::read(folder).is_none(),
            folder.identity(),
            "another site's database would be mistaken for this one's",
        ),
    ];
    let missing = all.into_iter().filter(|(is_missing, ..)| *is_missing);
    let (mut gone, mut what, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for (_, path, cost) in missing {
        let name = format!("`{}`", text::file_name(&path));
        // One that is there and may not be read is another matter than one that is gone.
        match why_closed(&path) {
            Some(error) => what.push(format!(
                "cannot be read in the state folder: {name} ({error})"
            )),
            None => gone.push(name),
        }
        costs.push(cost);
    }
    if costs.is_empty() {
        return Ok(None);
    }
    if !gone.is_empty() {
        let gone = gone.join(", ");
        what.insert(0, format!("missing or damaged in the state folder: {gone}"));
    }
    let message = format!(
        "{}; the database has what was in it, and where that is lost, too, {}",
        what.join("; "),
        costs.join(", and ")
    );
    let help = "the service writes that again from the database: start it where it does not run (`systemctl start outhaul-agent`), or give \
                `outhaul-agent run --once`";
    Ok(Some((message, help.to_owned())))
}

/// Stored blobs of the active bundle that are missing.
fn blobs(agent: &Agent) -> Result<Option<(String, String)>, AgentError> {
    let active = runner::site_now(agent.store.read())?.active;
    // Without the index in its folder, what needs that says so.
    let index = active.and_then(|active| runner::index_of(agent, active.number).ok());
    let Some(index) = index else { return Ok(None) };
    let missing = known::missing_blobs(agent, &index);
    if missing == 0 {
        return Ok(None);
    }
    let (number, all) = (index.number, index.blobs.len());
    let message = format!(
        "{missing} of {all} stored blobs of bundle {number} are missing in `blobs`: it runs on, and a file of it that is damaged or removed later cannot be \
         put back; a bundle that leaves out what this site has is refused"
    );
    let help = format!(
        "import bundle {number} again, which copies what is missing and applies nothing, or a newer bundle that is whole (`outhaul-agent import \
         FOLDER`)"
    );
    Ok(Some((message, help)))
}

/// Roots that this site passed since it was enrolled, and that are not kept any more, or not as the fleet signed them.
fn passed_roots(agent: &Agent) -> Result<Option<(String, String)>, AgentError> {
    let db = agent.store.read();
    let trusted = floors::trusted(db)?;
    // A site that was enrolled by an earlier agent does not know which ones it passed.
    let first = state::meta::<u64>(db, key::KIT_ROOT)?;
    let folder = agent.state_folder.roots();
    let KeptRoots { bad, foreign } = roots::look(&folder, first, &trusted);
    let shown = outhaul_kit::text::path(&folder);
    let (mut messages, mut ways) = (Vec::new(), Vec::new());
    if !bad.is_empty() {
        messages.push(format!(
            "roots of the fleet that this site passed are missing in `roots`, or not as the fleet signed them: {}: an apply helper that has not passed them yet accepts nothing, and \
             where the database is lost, only a new kit makes the bundles on disk count",
            text::named(&bad, MAX_NAMED)
        ));
        ways.push(format!(
            "copy them from the folder `metadata` of the fleet at the centre, which has them under the same names, to `{shown}`, where what has \
             their names is to be removed first"
        ));
    }
    if !foreign.is_empty() {
        messages.push(format!(
            "in `roots` are files with the names of roots that this site has not passed: {}: where the fleet has not signed them, an apply helper accepts nothing as \
             long as they are there, and where the database is lost, the bundles on disk do not count; where it has, this site gets them with the bundle \
             that needs them",
            text::named(&foreign, MAX_NAMED)
        ));
        ways.push(format!(
            "remove {} from `{shown}`",
            text::named(&foreign, MAX_NAMED)
        ));
    }
    if messages.is_empty() {
        return Ok(None);
    }
    let message = format!(
        "{}; what this agent itself trusts is in its database, by which it goes on accepting bundles",
        messages.join("; ")
    );
    Ok(Some((message, ways.join("; "))))
}
