//! Parity parts: what is kept of them, and parts of a bundle that are made again from them.
//!
//! What comes in: a parity part whose metadata and index were verified, as those of a bundle are, and the store of blobs.
//! What goes out: its parity in the store, while parts are missing, and the missing blobs once there is enough; each has
//! the digest that the signed index names, or nothing of it stays. Parity is kept as long as the incomplete bundle
//! ([`super::parts`]), no more of it than parts are missing. Nothing is written to a stick, and none of it takes effect
//! by itself: what is made is taken as what a stick brings.

use std::collections::BTreeMap;
use std::io;

use outhaul_bundle::{Index, Parity};

use super::{BundleSource, ImportOutcome, Offer};
use crate::agent::Agent;
use crate::blobs::{Blobs, RebuildError};
use crate::durable;
use crate::error::AgentError;
use crate::incomplete::{IncompleteBundle, KeptParity, incomplete};
use crate::runner::tidy;
use crate::state::{self, StateError, key};

/// The rule of parity that does not make what was signed.
const PARITY: &str = "parity";

/// What a parity part alone would do cannot be tried.
pub(super) fn not_planned(name: &str, parity: &Parity) -> AgentError {
    AgentError::Usage {
        message: format!(
            "`{name}` is parity part {} of {} of a bundle, and only a whole bundle can be planned; nothing was changed",
            parity.part(),
            parity.of()
        ),
        help: "`import` keeps it while parts are missing, and makes those again as soon as there is enough".to_owned(),
    }
}

/// Bytes that are needed to keep a parity part, when it is one of which something is needed.
pub(super) fn bytes_to_keep(index: &Index, parity: Option<&Parity>) -> u64 {
    parity.map_or(0, |parity| parity.layout(index).bytes())
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
    let same = before.as_ref().filter(|before| before.index == offer.index);
    let known = same.and_then(|before| before.parity.as_ref());
    let mut kept = match known {
        Some(known) if known.is_set_of(parity) => whole(known, blobs),
        _ => KeptParity::of(parity),
    };
    let is_known = kept.kept.contains_key(&parity.part());
    if !is_known && kept.kept.len() < missing.len() {
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
    durable::write(&blobs.path(&offer.index), bytes, durable::SECRET_MODE)?;
    let now = IncompleteBundle {
        number: index.number,
        index: offer.index,
        role: index.stream.role.to_string(),
        parts: parity.parts(),
        missing,
        replaced: IncompleteBundle::replaced_by(before.as_ref(), &offer.index),
        parity: Some(kept),
    };
    store(agent, Some(&now))?;
    if before.is_some_and(|before| before.index != now.index) {
        tidy::discard(agent)?;
    }
    if complete(agent, source, index, &now, blobs)? {
        return Ok(None);
    }
    Ok(Some(ImportOutcome::Incomplete {
        part: parity.part(),
        is_known: false,
        bundle: now,
    }))
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
    let kept = whole(parity, blobs).kept;
    let Ok(plan) = blobs.plan_rebuilding(index, &parity.set, kept.len()) else {
        return Ok(false);
    };
    tracing::info!(
        "bundle {}: {} are made again from parity",
        index.number,
        outhaul_kit::format_count::format_count(plan.blobs(), "blob", "blobs")
    );
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
            blobs.sync()?;
            source.rebuilt(&bundle.missing);
            Ok(true)
        }
        Err(_) if agent.heartbeat.is_cancelled() => Err(AgentError::Stopped),
        Err(error @ RebuildError::Wrong { .. }) => {
            // Nobody can tell which parity lies: what was kept of it goes, so that other parity can come.
            let parts: Vec<String> = kept.keys().map(ToString::to_string).collect();
            let without = IncompleteBundle {
                parity: None,
                ..bundle.clone()
            };
            store(agent, Some(&without))?;
            tidy::discard(agent)?;
            let message = format!(
                "{error}: parity part {} of {} of bundle {} was damaged before it was written, or forged, and is not kept; \
                 what was verified of the bundle is kept, and what runs is untouched",
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
    let Some(parity) = bundle.parity.filter(|_| bundle.number == number) else {
        return Ok(false);
    };
    let blobs = Blobs::new(&agent.state_folder);
    let bytes = durable::read_if_present(&blobs.path(&bundle.index), agent.limits.max_index_bytes)?;
    let index = Index::from_bytes(&bytes.unwrap_or_default(), &agent.limits);
    let enough = |index: &Index| {
        let planned = blobs.plan_rebuilding(index, &parity.set, parity.kept.len());
        planned.is_ok()
    };
    Ok(index.as_ref().is_ok_and(enough))
}

/// What came of parts that were made again, for people.
pub(crate) fn sentence(parts: &[usize]) -> String {
    let names: Vec<String> = parts.iter().map(ToString::to_string).collect();
    let (what, verb) = match parts.len() {
        1 => ("part", "was"),
        _ => ("parts", "were"),
    };
    format!(
        "{what} {} {verb} missing or damaged and {verb} made again from parity, as signed; replace the stick: the next \
         bundle may lose more on it than parity repairs",
        names.join(", ")
    )
}

fn is_missing(index: &Index, blobs: &Blobs, at: usize) -> bool {
    index.blobs.get(at).is_some_and(|blob| !blobs.has(blob))
}

/// All blobs are here: what was kept of parity is not needed any more. The row goes first, so that no row names what is gone.
pub(super) fn forget(agent: &mut Agent, blobs: &Blobs) -> Result<(), AgentError> {
    let Some(mut bundle) = incomplete(agent.store.read(), &agent.site)? else {
        return Ok(());
    };
    let Some(parity) = bundle.parity.take() else {
        return Ok(());
    };
    store(agent, Some(&bundle))?;
    for digest in parity.kept.values() {
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

fn store(agent: &mut Agent, bundle: Option<&IncompleteBundle>) -> Result<(), AgentError> {
    agent
        .commit(|db, _| state::set_meta(db, key::INCOMPLETE, bundle))
        .map_err(|error: StateError| error.into())
}
