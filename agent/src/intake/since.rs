//! A copy that leaves out what an earlier bundle brought, or carries patches of it: whether this site has all of that.
//!
//! What comes in: a copy of which metadata and index were verified, and the store of blobs. What goes out: nothing, when
//! each blob that is left out lies in the store with the bytes that the signed index names; or a refusal that states
//! how many are missing and which bundle has them. What the copy itself claims decides about words alone. It changes
//! nothing, and removes no damaged blob.

use outhaul_bundle::index::Blob;
use outhaul_bundle::{Index, Volume};
use outhaul_kit::format_count::format_count;

use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::blobs::twins::{self, WrongTwin};
use crate::error::AgentError;
use crate::generation;
use crate::runner::{self, lost_database};
use crate::state::{StateError, generations};
use outhaul_content::serving;

/// The rule of a copy of which this site lacks what is left out.
pub(super) const LEFT_OUT: &str = "left-out";

/// Refuses a copy when a blob that it leaves out is not here. Each is read and compared with its digest.
pub(super) fn check(
    agent: &Agent,
    name: &str,
    index: &Index,
    volume: &Volume,
    blobs: &Blobs,
) -> Result<(), AgentError> {
    let left_out = volume.left_out(index);
    let (mut missing, mut damaged) = (0usize, 0usize);
    for blob in &left_out {
        agent.heartbeat.beat();
        if agent.heartbeat.is_cancelled() {
            return Err(AgentError::Stopped);
        }
        match blobs.has(blob) {
            true if blobs.is_whole(blob) => {}
            true => damaged += 1,
            false => missing += 1,
        }
    }
    if missing + damaged == 0 {
        return Ok(());
    }
    let lacks = match (missing, damaged) {
        (missing, 0) => format!("{} not here", of_them(missing, left_out.len())),
        (0, damaged) => format!("{} damaged here", of_them(damaged, left_out.len())),
        (missing, damaged) => {
            format!("{missing} of them are not here and {damaged} are damaged here")
        }
    };
    let message = format!(
        "this copy of bundle {} leaves out {} of {}, and {lacks}; {}",
        index.number,
        format_count(left_out.len(), "blob", "blobs"),
        volume.named_bases(),
        here(agent, volume)?
    );
    Err(AgentError::refused(name, LEFT_OUT, message))
}

/// The blobs that a source brings; of a copy that leaves some out once these are here.
pub(super) fn brought<'i>(
    agent: &Agent,
    name: &str,
    index: &'i Index,
    volume: Option<&Volume>,
    blobs: &Blobs,
) -> Result<Vec<&'i Blob>, AgentError> {
    let Some(volume) = volume.filter(|volume| volume.is_since()) else {
        return Ok(index.blobs.iter().collect());
    };
    check(agent, name, index, volume, blobs)?;
    let members = volume.members(index).into_iter();
    Ok(members.map(|(blob, _)| blob).collect())
}

/// Why a copy was not taken that was `check`ed and failed afterwards: what is left out may have been lost since.
pub(super) fn or_lost(
    agent: &Agent,
    name: &str,
    index: &Index,
    volume: Option<&Volume>,
    blobs: &Blobs,
    error: AgentError,
) -> AgentError {
    let lost = volume.filter(|volume| volume.is_since());
    let lost = lost.and_then(|volume| check(agent, name, index, volume, blobs).err());
    match lost {
        Some(refused @ AgentError::Refused { .. }) => refused,
        _ => error,
    }
}

/// Lets patches build on what is here, and make the archives of layers where this site brings images into containerd.
pub(super) fn build_on(
    agent: &Agent,
    volume: Option<&Volume>,
    blobs: &mut Blobs,
) -> Result<(), AgentError> {
    blobs.build_on(known(agent, volume)?);
    blobs.accept_twins(no_twins(agent));
    Ok(())
}

/// Why this site takes no archive in the place of a layer.
fn no_twins(agent: &Agent) -> Option<String> {
    let help = "bring the whole bundle (`outhaul copy` without `--since`), or a copy without `--twins` since a bundle that this site has whole";
    if !agent.config.containerd.twins {
        return Some(format!(
            "this site does not bring images into containerd (`twins = true` in `[containerd]` of agent.toml, where the agent runs on the only machine \
             with containers); {help}"
        ));
    }
    let helper = agent.config.apply.helper.is_some();
    helper.then(|| format!("with an apply helper no twin is taken; {help}"))
}

/// Refuses archives in the places of layers that no config in the signed index states. What states them is removed, whichever copy brought it:
/// a power cut may have left it, and the next copy must bring the layer again.
pub(super) fn check_twins(
    agent: &Agent,
    name: &str,
    index: &Index,
    blobs: &mut Blobs,
) -> Result<(), AgentError> {
    let wrong = blobs.wrong_twins(index);
    let wrong = wrong.map_err(|error| AgentError::Unreadable {
        source_name: name.to_owned(),
        problem: format!("a stored blob cannot be read: {error}"),
    })?;
    for twin in &wrong {
        if !is_of_a_generation(agent, twin)? {
            blobs.forget_twin(&twin.layer)?;
        }
    }
    match wrong.first().map(|twin| &twin.problem) {
        Some(problem) => {
            let number = index.number;
            let message = format!("bundle {number} came with twins of image layers, and {problem}");
            Err(AgentError::refused(name, "twin", message))
        }
        None => Ok(()),
    }
}

/// Whether a generation on this site has an archive in the place of the same layer: its own index let it.
fn is_of_a_generation(agent: &Agent, twin: &WrongTwin) -> Result<bool, AgentError> {
    let all = generations::all(agent.store.read())?;
    Ok(all.iter().filter(|row| row.whole).any(|row| {
        let folder = agent.state_folder.generation(row.number);
        let stated = twins::stated(&folder.join(serving::twin_path(&twin.layer)));
        stated.is_some_and(|stated| stated.digest == twin.archive)
    }))
}

/// The blobs that patches may build on: those of the generations on this site, by their signed indexes.
fn known(agent: &Agent, volume: Option<&Volume>) -> Result<Vec<Blob>, AgentError> {
    let mut known = Vec::new();
    if volume.is_none_or(|volume| !volume.has_patches()) {
        return Ok(known);
    }
    for row in generations::all(agent.store.read())? {
        if !row.whole {
            continue;
        }
        // One that is lost has no blobs that are known; a patch that needs them says so.
        let index =
            generation::read_index(&agent.state_folder, row.number, &row.index, &agent.limits);
        known.extend(index.into_iter().flat_map(|index| index.blobs));
    }
    Ok(known)
}

/// Bytes that are needed for a while to make the blobs that a copy carries as patches: what they are made of, what is
/// made, and the patches.
pub(super) fn making_bytes(index: &Index, volume: Option<&Volume>) -> u64 {
    let patched = volume.map(|volume| volume.patched(index));
    let patched = patched.unwrap_or_default().into_iter();
    patched.fold(0, |sum, (blob, patch)| {
        let plain = blob.plain_bytes().saturating_mul(2);
        sum.saturating_add(plain).saturating_add(patch)
    })
}

/// Why the blobs of a source were not taken: a patch that made nothing is refused by name.
pub(super) fn or_wrong(
    agent: &Agent,
    name: &str,
    index: &Index,
    blobs: &mut Blobs,
    error: AgentError,
) -> AgentError {
    let Some((blob, wrong)) = blobs.take_wrong() else {
        return error;
    };
    let here = match what_is_active(agent) {
        Ok(here) => here,
        Err(error) => return error.into(),
    };
    let message = format!(
        "blob {} of bundle {} travels as a patch: {wrong}; {here}",
        blob.short(),
        index.number
    );
    AgentError::refused(name, wrong.rule(), message)
}

/// How many of those that are left out.
fn of_them(count: usize, all: usize) -> String {
    match (count, all) {
        (1, 1) => "it is".to_owned(),
        (2, 2) => "both are".to_owned(),
        (count, all) if count == all => format!("all {count} are"),
        (1, _) => "1 of them is".to_owned(),
        (count, _) => format!("{count} of them are"),
    }
}

/// What this site has, for people.
fn here(agent: &Agent, volume: &Volume) -> Result<String, AgentError> {
    let db = agent.store.read();
    for base in volume.bases() {
        let row = generations::one(db, base.number)?;
        if row.is_some_and(|row| row.whole && row.index != base.index) {
            return Ok(format!("this site has another bundle {}", base.number));
        }
    }
    Ok(what_is_active(agent)?)
}

/// Which bundle is active here, and whether its content is here as well: a restored site may lack it.
fn what_is_active(agent: &Agent) -> Result<String, StateError> {
    let db = agent.store.read();
    Ok(
        match runner::site_now(db)?.active.map(|active| active.number) {
            Some(number) if runner::index_of(agent, number).is_ok() => {
                format!("this site has bundle {number}")
            }
            Some(number) => {
                format!("bundle {number} is active on this site, and its content is not here")
            }
            None if lost_database::is_without_bundles(db)? => {
                "this site has no bundle yet".to_owned()
            }
            None => "no bundle is active on this site".to_owned(),
        },
    )
}
