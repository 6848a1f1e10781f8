//! Parity parts: what is kept of them, and parts of a bundle that are made again from them.
//!
//! What comes in: a parity part whose metadata and index were verified, as those of a bundle are, and the store of blobs.
//! What goes out: its parity in the store, while parts are missing, and the missing blobs once there is enough; each has
//! the digest that the signed index names, or nothing of it stays. Parity is kept as long as the incomplete bundle
//! ([`super::parts`]), no more of it than parts are missing. Nothing is written to a stick, and none of it takes effect
//! by itself: what is made is taken as what a stick brings.

use std::collections::BTreeMap;
use std::io;

use outhaul_bundle::{Digest, Index, Parity};

use super::{Brought, BundleSource, ImportOutcome, Offer};
use crate::agent::Agent;
use crate::blobs::{Blobs, RebuildError};
use crate::cut;
use crate::durable;
use crate::error::AgentError;
use crate::incomplete::{IncompleteBundle, KeptParity, incomplete};
use crate::runner::tidy;
use crate::state::{self, StateError, key};

/// The rule of parity that does not make what was signed.
pub(super) const PARITY: &str = "parity";

/// Bytes that are needed to keep a parity part: none when nothing is missing, or when it is kept already.
pub(super) fn bytes_to_keep(
    agent: &Agent,
    (index, digest): (&Index, &Digest),
    parity: Option<&Parity>,
    blobs: &Blobs,
) -> Result<u64, AgentError> {
    let Some(parity) = parity else { return Ok(0) };
    let known = incomplete(agent.store.read(), &agent.site)?;
    let known = known.filter(|known| known.index == *digest);
    let known = known.and_then(|known| known.parity);
    let is_kept = known.is_some_and(|known| {
        known.is_set_of(parity) && !known.is_doubted && known.kept.contains_key(&parity.part())
    });
    let is_whole = parity.missing(|at| is_missing(index, blobs, at)).is_empty();
    Ok(match is_kept || is_whole {
        true => 0,
        false => parity.layout(index).bytes(),
    })
}

/// Takes the parity that `source` brings, when parts are missing; `None` when nothing of the bundle is missing any more.
pub(super) fn collect(
    agent: &mut Agent,
    source: &mut dyn BundleSource,
    (index, bytes): (&Index, &[u8]),
    offer: &Offer,
    parity: &Parity,
    blobs: &mut Blobs,
) -> Result<Option<ImportOutcome>, AgentError> {
    let before = incomplete(agent.store.read(), &agent.site)?;
    let missing = parity.missing(|at| is_missing(index, blobs, at));
    if missing.is_empty() {
        return Ok(None);
    }
    refuse_instead_of_parts(before.as_ref(), source.name(), index, offer)?;
    let same = before.as_ref().filter(|before| before.index == offer.index);
    let known = same.and_then(|before| before.parity.as_ref());
    let mut kept = match (known, same) {
        (Some(known), _) if known.is_set_of(parity) => whole(known, blobs),
        // The set that is here stays, unless this one is all that someone brings and that one is too little.
        (Some(known), Some(same))
            if !known.kept.is_empty() && (!source.is_last() || does(known, index, blobs)) =>
        {
            return match complete(agent, source, index, &same.clone(), blobs)? {
                true => Ok(None),
                false => Ok(Some(ImportOutcome::Incomplete {
                    part: parity.part(),
                    brought: Brought::NotKept(parity.of()),
                    bundle: Box::new(same.clone()),
                })),
            };
        }
        _ => KeptParity::of(parity),
    };
    let given_up = known.filter(|known| !known.is_set_of(parity) && !known.kept.is_empty());
    let brought = match given_up {
        Some(known) => Brought::InsteadOf(known.kept.keys().copied().collect(), known.set.of()),
        None if kept.kept.contains_key(&parity.part()) && !kept.is_doubted => Brought::KnownParity,
        None => Brought::New,
    };
    if kept.is_doubted {
        kept.kept.remove(&parity.part());
    }
    if brought != Brought::KnownParity && kept.kept.len() < missing.len() {
        match source.parity_bytes(index, blobs) {
            Ok(digest) => drop(kept.kept.insert(parity.part(), digest)),
            Err(error) => {
                tidy::discard(agent)?;
                return Err(error);
            }
        }
        blobs.sync()?;
    }
    kept.count(missing.len());
    // Parts that came say how the bundle is cut; parity says it only until one does.
    let of_parts = same.filter(|same| !same.cut_by_parity);
    let (parts, missing) = match of_parts {
        Some(same) => (same.parts, same.missing.clone()),
        None => (parity.parts(), missing),
    };
    durable::write(&blobs.path(&offer.index), bytes, durable::SECRET_MODE)?;
    let now = IncompleteBundle {
        number: index.number,
        index: offer.index,
        role: index.stream.role.to_string(),
        parts,
        missing,
        replaced: IncompleteBundle::replaced_by(before.as_ref(), &offer.index),
        cut_by_parity: of_parts.is_none(),
        parity: Some(kept),
        set_aside: same.and_then(|before| before.set_aside.clone()),
    };
    store(agent, Some(&now))?;
    if before.is_some_and(|before| before.index != now.index) {
        tidy::discard(agent)?;
    }
    if complete(agent, source, index, &now, blobs)? {
        return Ok(None);
    }
    if matches!(brought, Brought::InsteadOf(..)) {
        // It is all that someone brings, and did not lie: what was here before goes.
        let set_aside = None;
        store(
            agent,
            Some(&IncompleteBundle {
                set_aside,
                ..now.clone()
            }),
        )?;
        tidy::discard(agent)?;
    }
    Ok(Some(ImportOutcome::Incomplete {
        part: parity.part(),
        brought,
        bundle: Box::new(now),
    }))
}

/// How a bundle is cut by a set of parity: in how many parts, and which of them are not here.
pub(super) fn cut_of(
    agent: &Agent,
    bundle: &IncompleteBundle,
    set: &Parity,
) -> Result<Option<(usize, Vec<usize>)>, AgentError> {
    let blobs = Blobs::new(&agent.state_folder);
    let index = index_of(agent, bundle, &blobs)?;
    Ok(index.map(|index| {
        let missing = set.missing(|at| is_missing(&index, &blobs, at));
        (set.parts(), missing)
    }))
}

/// The index of a bundle that is not complete; `None` when it cannot be read.
fn index_of(
    agent: &Agent,
    bundle: &IncompleteBundle,
    blobs: &Blobs,
) -> Result<Option<Index>, AgentError> {
    let bytes = durable::read_if_present(&blobs.path(&bundle.index), agent.limits.max_index_bytes)?;
    Ok(Index::from_bytes(&bytes.unwrap_or_default(), &agent.limits).ok())
}

/// Parity is not signed: it does not give up verified parts of another bundle.
fn refuse_instead_of_parts(
    before: Option<&IncompleteBundle>,
    name: &str,
    index: &Index,
    offer: &Offer,
) -> Result<(), AgentError> {
    let other = before.filter(|before| before.index != offer.index && !before.cut_by_parity);
    let Some(other) = other else { return Ok(()) };
    let message = format!(
        "parts of bundle {} are kept here, and parity of bundle {} alone does not replace them; where bundle {} is meant, import a \
         part of it first",
        other.number, index.number, index.number
    );
    Err(AgentError::refused(name, PARITY, message))
}

/// Whether what is kept of a set is enough.
fn does(known: &KeptParity, index: &Index, blobs: &Blobs) -> bool {
    let planned = blobs.plan_rebuilding(index, &known.set, known.kept.len());
    planned.is_ok()
}

/// Makes what is missing of a bundle again, when nothing more is to come from this source's medium and there is enough.
pub(super) fn complete(
    agent: &mut Agent,
    source: &mut dyn BundleSource,
    index: &Index,
    bundle: &IncompleteBundle,
    blobs: &mut Blobs,
) -> Result<bool, AgentError> {
    let Some(parity) = bundle.parity.as_ref().filter(|_| source.is_last()) else {
        return Ok(false);
    };
    // Before all of it is read.
    if !does(parity, index, blobs) {
        return Ok(false);
    }
    let kept = whole(parity, blobs).kept;
    let Ok(plan) = blobs.plan_rebuilding(index, &parity.set, kept.len()) else {
        return Ok(false);
    };
    let heartbeat = agent.heartbeat.clone();
    let mut go_on = || {
        heartbeat.beat();
        match heartbeat.is_cancelled() {
            true => Err(io::Error::other("it was stopped on request")),
            false => Ok(()),
        }
    };
    let made = blobs.rebuild(index, (&parity.set, &plan), &kept, &mut go_on);
    match made {
        Ok(()) => {
            // What was tried with other files before made nothing.
            tracing::info!(
                "bundle {}: {} made again from parity",
                index.number,
                outhaul_kit::format_count::format_count(plan.blobs(), "blob", "blobs")
            );
            blobs.sync()?;
            source.rebuilt(&bundle.missing);
            Ok(true)
        }
        Err(_) if agent.heartbeat.is_cancelled() => Err(AgentError::Stopped),
        Err(error @ RebuildError::Wrong { .. }) => {
            // Nobody can tell which parity lies: what came of it goes, so that other parity can come.
            doubt_older(agent, &kept)?;
            drop_kept(agent)?;
            let is_older_here = bundle.set_aside.is_some();
            if bundle.cut_by_parity && !is_older_here {
                // Not even how it is cut is known then.
                store(agent, None)?;
            }
            tidy::discard(agent)?;
            let parts: Vec<String> = kept.keys().map(ToString::to_string).collect();
            let (which, kept) = match (parts.len(), is_older_here) {
                (_, true) => ("one of the parity parts", "what was here before stays"),
                (1, _) => ("parity part", "it is not kept"),
                _ => ("one of the parity parts", "none of them is kept"),
            };
            let message = format!(
                "{error}: {which} {} of {} of bundle {} was damaged before it was written, or forged; {kept}; what was verified of \
                 the bundle stays, and what runs is untouched",
                parts.join(", "),
                parity.set.of(),
                index.number
            );
            Err(AgentError::refused(source.name(), PARITY, message))
        }
        Err(error) => Err(AgentError::Unreadable {
            source_name: source.name().to_owned(),
            problem: outhaul_kit::text::chain(&error),
        }),
    }
}

/// Whether what is kept of the bundle that this site waits for can be made whole by its parity.
pub(super) fn is_enough(agent: &Agent, number: u64) -> Result<bool, AgentError> {
    let Some(bundle) = incomplete(agent.store.read(), &agent.site)? else {
        return Ok(false);
    };
    let Some(parity) = bundle.parity.clone().filter(|_| bundle.number == number) else {
        return Ok(false);
    };
    let blobs = Blobs::new(&agent.state_folder);
    let index = index_of(agent, &bundle, &blobs)?;
    let kept = whole(&parity, &blobs).kept.len();
    Ok(index.is_some_and(|index| would_do(agent, &index, &parity.set, kept)))
}

/// Whether so many parity parts of a set would be enough for what is missing of a bundle.
pub(super) fn would_do(agent: &Agent, index: &Index, set: &Parity, count: usize) -> bool {
    let blobs = Blobs::new(&agent.state_folder);
    let planned = blobs.plan_rebuilding(index, set, count);
    planned.is_ok()
}

fn is_missing(index: &Index, blobs: &Blobs, at: usize) -> bool {
    index.blobs.get(at).is_some_and(|blob| !blobs.has(blob))
}

/// All blobs are here: what was kept of parity is not needed any more. The row goes first, so that no row names what is gone.
pub(super) fn forget(agent: &mut Agent, blobs: &Blobs) -> Result<(), AgentError> {
    let Some(mut bundle) = incomplete(agent.store.read(), &agent.site)? else {
        return Ok(());
    };
    let all = [bundle.parity.take(), bundle.set_aside.take()];
    if all.iter().all(Option::is_none) {
        return Ok(());
    }
    store(agent, Some(&bundle))?;
    let mut all = all.iter().flatten();
    all.try_for_each(|parity| remove_files(blobs, parity, None))
}

/// Notes that what is set aside may lie: some of it was among what did.
fn doubt_older(agent: &mut Agent, lied: &BTreeMap<usize, Digest>) -> Result<(), AgentError> {
    let Some(mut bundle) = incomplete(agent.store.read(), &agent.site)? else {
        return Ok(());
    };
    let older = bundle.set_aside.as_mut();
    let Some(older) = older.filter(|older| older.has_any_of(lied)) else {
        return Ok(());
    };
    older.is_doubted = true;
    store(agent, Some(&bundle))
}

/// Lets go of the parity that is kept, but for what is set aside, so that other parity can come.
pub(super) fn drop_kept(agent: &mut Agent) -> Result<(), AgentError> {
    let Some(mut bundle) = incomplete(agent.store.read(), &agent.site)? else {
        return Ok(());
    };
    let Some(parity) = bundle.parity.take() else {
        return Ok(());
    };
    store(agent, Some(&bundle))?;
    cut::here("parity-dropped");
    let blobs = Blobs::new(&agent.state_folder);
    remove_files(&blobs, &parity, bundle.set_aside.as_ref())
}

/// Removes the files of parity, but for those that `other` has, too.
pub(super) fn remove_files(
    blobs: &Blobs,
    parity: &KeptParity,
    other: Option<&KeptParity>,
) -> Result<(), AgentError> {
    let is_of_other =
        |digest: &&Digest| other.is_some_and(|other| other.kept.values().any(|one| one == *digest));
    for digest in parity.kept.values().filter(|digest| !is_of_other(digest)) {
        let path = blobs.path(digest);
        if path.exists() {
            durable::remove_file(&path)?;
        }
    }
    Ok(())
}

/// What of parity that was kept is here and as it was.
fn whole(known: &KeptParity, blobs: &Blobs) -> KeptParity {
    let kept = known.kept.iter();
    let kept: BTreeMap<_, _> = kept
        .filter(|(_, digest)| blobs.has_parity(digest))
        .map(|(part, digest)| (*part, *digest))
        .collect();
    KeptParity {
        kept,
        ..known.clone()
    }
}

pub(super) fn store(
    agent: &mut Agent,
    bundle: Option<&IncompleteBundle>,
) -> Result<(), AgentError> {
    agent
        .commit(|db, _| state::set_meta(db, key::INCOMPLETE, bundle))
        .map_err(|error: StateError| error.into())
}
