//! The last step of reading a medium: what is missing of a bundle is made again from parity, when there is enough.
//!
//! What comes in: what the medium was good for, after all its parts were taken, and what lies on it. What goes out: the same, with what
//! came of the bundle that is whole now. It comes last, so that nothing is made again that the medium still has. Where parity lies, or
//! is of several sets, the same is tried set by set and then without one file after the other, so that a forged one does not keep
//! right ones out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use outhaul_bundle::{Index, Parity, Volume};
use outhaul_kit::media::Media;
use outhaul_kit::text;

use super::{Findings, open_bundle};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::incomplete::incomplete;
use crate::intake::file::BundleFile;
use crate::intake::{self, BundleSource as _, ImportOutcome, Offer, parity, refusals};
use crate::runner;

/// How often it is tried anew, each time with other files: all of them are read.
const MAX_TRIES: usize = 8;

/// Whether an older bundle is worth taking: parts are missing of the newer one that was taken, its parity is too little, and the
/// older one is whole and newer than what runs.
pub(super) fn is_taken_meanwhile(
    agent: &Agent,
    media: &Media,
    outcome: Option<&ImportOutcome>,
    (path, offer): (&Path, &Offer),
) -> Result<bool, AgentError> {
    let Some(ImportOutcome::Incomplete { bundle, .. }) = outcome else {
        return Ok(false);
    };
    let number = offer.acceptance.number;
    let active = runner::site_now(agent.store.read())?.active;
    let is_newer = active.is_none_or(|active| active.number < number);
    if !is_newer || bundle.number <= number || parity::is_enough(agent, bundle.number)? {
        return Ok(false);
    }
    // A part of it would take the place of those that are here. What cannot be read says so when it is its turn.
    let pieces = pieces_of(agent, media, path, offer);
    Ok(matches!(pieces, Ok((_, None, None))))
}

/// What one try came to.
enum Tried {
    /// The bundle is whole.
    Whole(ImportOutcome, Vec<usize>),
    /// What was made is not what was signed.
    Lies(AgentError),
    /// There is too little.
    TooLittle,
}

/// The parity files of one set on a medium.
struct Set<'m> {
    /// One parity part of it.
    parity: Parity,
    /// The index of the bundle.
    index: Index,
    /// Each file, and which parity part it says it is.
    files: Vec<(&'m Path, usize)>,
}

/// Parity files that are tried together.
struct Choice<'m> {
    files: Vec<&'m Path>,
    /// The file of the same set that is left out.
    without: Option<&'m Path>,
}

/// Makes a bundle whole of which all that a medium has was taken, when its parity is enough; a refusal is one of the findings.
/// `offers` are the bundles and parts on the medium.
///
/// # Errors
/// What keeps everything else from going on.
pub(super) fn complete(
    agent: &mut Agent,
    media: &Media,
    findings: &mut Findings,
    offers: &[(PathBuf, Offer)],
) -> Result<(), AgentError> {
    let (Some(ImportOutcome::Incomplete { bundle, .. }), Some(taken), None) =
        (&findings.outcome, &findings.taken, &agent.rehearsal)
    else {
        return Ok(());
    };
    let number = bundle.number;
    let path = taken.strip_prefix(media.path()).unwrap_or(taken);
    let mut first = None;
    if parity::is_enough(agent, number)? {
        match tried(agent, media, path)? {
            Tried::Whole(outcome, rebuilt) => {
                (findings.outcome, findings.rebuilt) = (Some(outcome), rebuilt);
                return Ok(());
            }
            Tried::Lies(error) => first = Some(error),
            Tried::TooLittle => return Ok(()),
        }
    }
    let sets = sets(agent, media, number, offers);
    let choices = choices(agent, &sets);
    for choice in choices.into_iter().take(MAX_TRIES) {
        match again(agent, media, number, &choice.files)? {
            Tried::TooLittle => {}
            Tried::Lies(error) => first = first.or(Some(error)),
            Tried::Whole(outcome, rebuilt) => {
                let guilty = choice.without.map(|file| {
                    AgentError::refused(
                        &text::file_name(file),
                        parity::PARITY,
                        "it was damaged before it was written, or forged: without it the parts were made as they were signed",
                    )
                });
                if let Some(error) = guilty.or(first) {
                    refusals::report_refusal(agent, &error)?;
                    findings.refused.push(error);
                }
                (findings.outcome, findings.rebuilt) = (Some(outcome), rebuilt);
                return Ok(());
            }
        }
    }
    let Some(error) = first else { return Ok(()) };
    refusals::report_refusal(agent, &error)?;
    findings.refused.push(error);
    match incomplete(agent.store.read(), &agent.site)? {
        Some(left) => {
            if let Some(ImportOutcome::Incomplete { bundle, .. }) = &mut findings.outcome {
                **bundle = left;
            }
        }
        // All that was known of it was parity.
        None => (findings.outcome, findings.taken) = (None, None),
    }
    Ok(())
}

/// The sets of parity that a medium has of a bundle. A file that cannot be read any more is in none.
fn sets<'m>(
    agent: &Agent,
    media: &Media,
    number: u64,
    offers: &'m [(PathBuf, Offer)],
) -> Vec<Set<'m>> {
    let mut sets: Vec<Set<'m>> = Vec::new();
    let of_bundle = offers
        .iter()
        .filter(|(_, offer)| offer.acceptance.number == number);
    for (path, offer) in of_bundle {
        let Ok((index, None, Some(parity))) = pieces_of(agent, media, path, offer) else {
            continue;
        };
        let file = (path.as_path(), parity.part());
        let one = parity.sibling(1);
        match sets.iter_mut().find(|set| set.parity == one) {
            Some(set) => set.files.push(file),
            None => sets.push(Set {
                parity: one,
                index,
                files: vec![file],
            }),
        }
    }
    sets
}

/// The index of a bundle, and which part or parity part of it a file is.
fn pieces_of(
    agent: &Agent,
    media: &Media,
    path: &Path,
    offer: &Offer,
) -> Result<(Index, Option<Volume>, Option<Parity>), AgentError> {
    let mut source = open_bundle(agent, media, path)?;
    source.metadata()?;
    let (index, _) = source.index(&intake::expected(offer))?;
    let volume = source.volume(&index)?;
    let parity = match volume {
        Some(_) => None,
        None => source.parity(&index)?,
    };
    Ok((index, volume, parity))
}

/// What is tried, in order: each set that would be enough, then each of them without one of its files.
fn choices<'m>(agent: &Agent, sets: &[Set<'m>]) -> Vec<Choice<'m>> {
    let whole = sets.iter().map(|set| (set, None));
    let without = sets
        .iter()
        .flat_map(|set| set.files.iter().map(move |(file, _)| (set, Some(*file))));
    let choice = |(set, without): (&Set<'m>, Option<&'m Path>)| {
        let left = || set.files.iter().filter(|(file, _)| Some(*file) != without);
        let parts: BTreeSet<usize> = left().map(|(_, part)| *part).collect();
        let files = left().map(|(file, _)| *file).collect();
        parity::would_do(agent, &set.index, &set.parity, parts.len())
            .then_some(Choice { files, without })
    };
    whole.chain(without).filter_map(choice).collect()
}

/// Takes these parity files anew, and makes what is missing when they are enough.
fn again(
    agent: &mut Agent,
    media: &Media,
    number: u64,
    files: &[&Path],
) -> Result<Tried, AgentError> {
    parity::drop_kept(agent)?;
    for path in files {
        let taken = open_bundle(agent, media, path)
            .map(BundleFile::others_follow)
            .and_then(|mut source| intake::try_accept(agent, &mut source));
        match taken {
            Ok(_) | Err(AgentError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    match files.first() {
        Some(path) if parity::is_enough(agent, number)? => tried(agent, media, path),
        _ => Ok(Tried::TooLittle),
    }
}

/// Has the bundle that this file is of made whole.
fn tried(agent: &mut Agent, media: &Media, path: &Path) -> Result<Tried, AgentError> {
    let taken = open_bundle(agent, media, path).and_then(|mut source| {
        let outcome = intake::try_accept(agent, &mut source)?;
        Ok((outcome, source.parts_rebuilt().to_vec()))
    });
    match taken {
        Ok((ImportOutcome::Incomplete { .. }, _)) => Ok(Tried::TooLittle),
        Ok((outcome, rebuilt)) => Ok(Tried::Whole(outcome, rebuilt)),
        Err(error @ AgentError::Refused { .. }) => Ok(Tried::Lies(error)),
        Err(error) => Err(error),
    }
}
