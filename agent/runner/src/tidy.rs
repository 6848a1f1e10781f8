//! What stays on disk: the active generation, the good one before it, and what is on its way.
//!
//! What comes in: the site, whose rows say first what is not kept. What goes out: folders and blobs that
//! nothing refers to any more are gone. Nobody goes back to a folder that is being removed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use outhaul_bundle::Digest;
use outhaul_site::rescued;

use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::error::AgentError;
use crate::former_keys;
use crate::generation;
use crate::identity;
use crate::images;
use crate::kept;
use crate::known_again;
use crate::machine::{Event, Work};
use crate::state::{StateError, floors, generations, holds};
use crate::state_folder::StateFolder;

/// Removes what the site does not keep, when there is something, and what a cut-off copy unpacked.
///
/// # Errors
/// [`AgentError`] of the store or the disk.
pub fn tidy_up(agent: &mut Agent) -> Result<(), AgentError> {
    tidy(agent, false)
}

/// The same when the service starts: what failed before is tried again.
///
/// # Errors
/// [`AgentError`] of the store or the disk.
pub fn tidy_up_at_start(agent: &mut Agent) -> Result<(), AgentError> {
    tidy(agent, true)
}

fn tidy(agent: &mut Agent, again: bool) -> Result<(), AgentError> {
    if agent.rehearsal.is_some() {
        return Ok(());
    }
    rescued::tidy_up(&agent.state_folder);
    keep_identity(agent)?;
    // A database that someone put back knows less than the disk: nothing is removed by its word.
    if floors::floors(agent.store.read(), &agent.state_folder.floors()).is_err() {
        return Ok(());
    }
    let mut site = crate::site_now(agent.store.read())?;
    let earlier = agent.config.keep_generations.saturating_sub(1);
    // How many this site keeps is not known while its settings are lost: the default number is not to remove more than that.
    let is_known = agent.check_settings().is_ok();
    if is_known && site.work == Work::Idle && site.earlier.len() > earlier {
        site = crate::transition(agent, &Event::KeptAtMost(earlier).into())?;
    }
    let all = generations::all(agent.store.read())?;
    let kept = all.iter().map(|row| row.number);
    let mut kept: BTreeSet<u64> = kept.filter(|number| site.keeps(*number)).collect();
    // After a lost database no row says so, and a person's hold does.
    let held = holds::of_assignments(agent.store.read())?;
    kept.extend(held.values().filter_map(|hold| hold.generation));
    kept.extend(still_wanted(agent)?);
    // The bundle before stays until the new one is active.
    if site.work == Work::Idle {
        images::release(agent, &kept, again)?;
    }
    let surplus = surplus(&agent.state_folder, &kept)?;
    if surplus.is_empty() {
        return Ok(());
    }
    Blobs::new(&agent.state_folder).clear_partial()?;
    retain_blobs(agent)?;
    // Last, because by them the next start sees that it was not finished.
    for path in surplus {
        generation::remove(&path)?;
    }
    // A key too many does no harm; what runs now must not end as a failure for it.
    if let Err(error) = former_keys::forget(agent) {
        tracing::warn!("keys that were replaced are kept: {error}");
    }
    Ok(())
}

/// After a lost database, until a bundle is active: every bundle on disk. What runs is from one of them, and a person may still hold what it
/// brought.
fn still_wanted(agent: &Agent) -> Result<Vec<u64>, AgentError> {
    if !known_again::is_lost(agent.store.read())? {
        return Ok(Vec::new());
    }
    let all = generation::on_disk(&agent.state_folder)?.into_iter();
    Ok(all.map(|(number, _)| number).collect())
}

/// Writes the copy of what people hold beside the database. The database has it already: what keeps the copy from being written, such as a
/// full disk, is no reason to fail, and it is written at the next start.
pub fn keep_holds(agent: &Agent) {
    if agent.rehearsal.is_some() {
        return;
    }
    if let Err(error) = holds::beside::keep(&agent.state_folder, agent.store.read()) {
        tracing::warn!(
            "the copy of the holds beside the database (`holds.json`) is not up to date, and is written at the next start: {error}"
        );
    }
}

/// Writes which site this is beside the database, and how far its reports are numbered.
///
/// # Errors
/// [`StateError`] where the database is another site's, or an older copy: nothing may go on with it. That the file cannot be written is no
/// reason to fail: it is written at the next opportunity.
pub fn keep_identity(agent: &Agent) -> Result<(), StateError> {
    if agent.rehearsal.is_some() {
        return Ok(());
    }
    match identity::keep(&agent.state_folder, agent.store.read()) {
        Err(StateError::File(error)) => {
            tracing::warn!(
                "which site this is (`site.json`) is not up to date beside the database, and is written later: {error}"
            );
            Ok(())
        }
        done => done,
    }
}

/// Writes the floors beside the database again, where they are missing or damaged, and says so.
///
/// # Errors
/// [`AgentError`] of the memory or the disk.
pub fn restore_floors(agent: &Agent) -> Result<(), AgentError> {
    if floors::restore_sidecar(agent.store.read(), &agent.state_folder.floors())? {
        tracing::warn!(
            "`floors.json` in the state folder was missing or damaged, and is written again from the database"
        );
    }
    Ok(())
}

/// Folders of generations that are not among `kept`. What is called otherwise is nobody's generation, and stays.
fn surplus(state_folder: &StateFolder, kept: &BTreeSet<u64>) -> Result<Vec<PathBuf>, AgentError> {
    let all = generation::on_disk(state_folder)?.into_iter();
    let surplus = all.filter(|(number, _)| !kept.contains(number));
    Ok(surplus.map(|(_, path)| path).collect())
}

/// Takes back what a cut-off or refused copy left. A site that pulls keeps it to go on from there.
///
/// # Errors
/// [`AgentError`] of the memory or the disk.
pub fn discard(agent: &mut Agent) -> Result<(), AgentError> {
    if agent.config.repository.url.is_some() {
        return Ok(());
    }
    Blobs::new(&agent.state_folder).clear_partial()?;
    retain_blobs(agent)
}

fn retain_blobs(agent: &Agent) -> Result<(), AgentError> {
    let mut wanted = BTreeSet::new();
    for row in generations::all(agent.store.read())?
        .into_iter()
        .filter(|g| g.whole)
    {
        // A folder that is gone needs no blobs, and must not keep the others from being tidied.
        let index =
            generation::read_index(&agent.state_folder, row.number, &row.index, &agent.limits);
        let blobs = index.iter().flat_map(|index| index.blobs.iter());
        wanted.extend(blobs.map(|blob| blob.digest.hex()));
    }
    let held = holds::of_assignments(agent.store.read())?;
    let mut unlisted: Vec<u64> = held.values().filter_map(|hold| hold.generation).collect();
    unlisted.extend(still_wanted(agent)?);
    for number in unlisted {
        let blobs = agent
            .index_on_disk(number)
            .map_or_else(Vec::new, |index| index.blobs);
        wanted.extend(blobs.iter().map(|blob| blob.digest.hex()));
    }
    let parts = kept::kept(agent)?;
    wanted.extend(parts.iter().map(Digest::hex));
    Ok(Blobs::new(&agent.state_folder).retain(&wanted)?)
}
