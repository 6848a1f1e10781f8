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
use outhaul_parity::choices;

use super::{Findings, open_bundle};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::incomplete::{KeptParity, incomplete};
use crate::intake::file::BundleFile;
use crate::intake::{self, BundleSource as _, ImportOutcome, Offer, parity, refusals, set_aside};
use crate::runner;

/// How often it is tried again, each time with other files: all of them are read.
const MAX_TRIES: usize = 24;

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
struct Way<'m> {
    files: Vec<&'m Path>,
    /// Whether what the site kept before the medium is used, too.
    with_older: bool,
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
                findings.copied = true;
                return Ok(());
            }
            Tried::Lies(error) => first = Some(error),
            // Something of what is kept was damaged since.
            Tried::TooLittle => {}
        }
    }
    let sets = sets(agent, media, number, offers);
    let older = set_aside::older(agent)?;
    let mut failed: Vec<Way<'_>> = Vec::new();
    for way in ways(agent, &sets, older.as_ref()) {
        match again(agent, media, number, &way)? {
            Tried::TooLittle => {}
            Tried::Lies(error) => {
                first = first.or(Some(error));
                failed.push(way);
            }
            Tried::Whole(outcome, rebuilt) => {
                if first.is_some() {
                    for error in which_lied(number, &failed, &way) {
                        refusals::report_refusal_of(agent, Some(number), &error)?;
                        findings.refused.push(error);
                    }
                }
                (findings.outcome, findings.rebuilt) = (Some(outcome), rebuilt);
                findings.copied = true;
                return Ok(());
            }
        }
    }
    let Some(error) = first else { return Ok(()) };
    let tried: BTreeSet<&Path> = failed.iter().flat_map(|way| way.files.clone()).collect();
    let error = match tried.len() {
        0 | 1 => error,
        _ => all_lied(number, &tried),
    };
    refusals::report_refusal_of(agent, Some(number), &error)?;
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
    let (index, _) = source.index(&intake::listed(offer))?;
    let volume = source.volume(&index)?;
    let parity = match volume {
        Some(_) => None,
        None => source.parity(&index)?,
    };
    Ok((index, volume, parity))
}

/// What is said of the ways that failed when one was right: a file that was alone in what a failed way had and the right one had not lied;
/// of others nobody can tell.
fn which_lied(number: u64, failed: &[Way<'_>], right: &Way<'_>) -> Vec<AgentError> {
    let mut lied: BTreeSet<&Path> = BTreeSet::new();
    let mut doubtful: BTreeSet<&Path> = BTreeSet::new();
    for way in failed {
        let others = way.files.iter().filter(|file| !right.files.contains(file));
        let others: Vec<&Path> = others.copied().collect();
        match (others.as_slice(), way.with_older && !right.with_older) {
            ([one], false) => drop(lied.insert(one)),
            _ => doubtful.extend(others),
        }
    }
    if !lied.is_empty() {
        let why = "it was damaged before it was written, or forged: with others the parts were made as they were signed";
        let refused =
            |file: &&Path| AgentError::refused(&text::file_name(file), parity::PARITY, why);
        return lied.iter().map(refused).collect();
    }
    let which = match doubtful.len() {
        0 => "what was kept from before was damaged before it was written, or forged".to_owned(),
        _ => format!(
            "of {}, or of what was kept from before, something was damaged before it was written, or forged",
            names(&doubtful)
        ),
    };
    let message = format!("{which}: with others the parts were made as they were signed");
    vec![AgentError::refused(
        &of_bundle(number),
        parity::PARITY,
        message,
    )]
}

/// That no choice of files makes what was signed.
fn all_lied(number: u64, tried: &BTreeSet<&Path>) -> AgentError {
    let message = format!(
        "no choice of {} that was tried ({MAX_TRIES} at most) makes what was signed: at least one was damaged before it was written, or \
         forged, and nobody can tell which; what was verified of the bundle stays; bring a part that is missing, or right parity alone",
        names(tried)
    );
    AgentError::refused(&of_bundle(number), parity::PARITY, message)
}

/// What several parity files are called together.
fn of_bundle(number: u64) -> String {
    format!("parity of bundle {number}")
}

fn names(files: &BTreeSet<&Path>) -> String {
    let names = files
        .iter()
        .map(|file| format!("`{}`", text::file_name(file)));
    names.collect::<Vec<_>>().join(", ")
}

/// What is tried, in order: of each set as few files as are enough, each of another parity part; first with what was here before, then
/// without it; the sets in turn, so that none keeps another out.
fn ways<'m>(agent: &Agent, sets: &[Set<'m>], older: Option<&KeptParity>) -> Vec<Way<'m>> {
    let mut by_set = Vec::new();
    for with_older in [true, false] {
        for set in sets {
            let older = older.filter(|older| with_older && older.is_set_of(&set.parity));
            let here: BTreeSet<usize> = older
                .iter()
                .flat_map(|older| older.kept.keys().copied())
                .collect();
            if with_older && here.is_empty() {
                continue;
            }
            let parts = set.files.iter().map(|(_, part)| *part);
            let parts: BTreeSet<usize> = parts.filter(|part| !here.contains(part)).collect();
            let would_do = |more: &usize| {
                parity::would_do(
                    agent,
                    &set.index,
                    &set.parity,
                    here.len().saturating_add(*more),
                )
            };
            if let Some(enough) = (1..=parts.len()).find(would_do) {
                let chosen = choices(&set.files, enough, &here, MAX_TRIES).into_iter();
                by_set.push(chosen.map(move |files| Way { files, with_older }));
            }
        }
    }
    let mut ways = Vec::new();
    while ways.len() < MAX_TRIES {
        let before = ways.len();
        ways.extend(by_set.iter_mut().filter_map(Iterator::next));
        if ways.len() == before {
            break;
        }
    }
    ways.truncate(MAX_TRIES);
    ways
}

/// Takes these parity files again, with what was here before or without it, and makes what is missing when they are enough.
fn again(
    agent: &mut Agent,
    media: &Media,
    number: u64,
    way: &Way<'_>,
) -> Result<Tried, AgentError> {
    set_aside::begin_try(agent, way.with_older)?;
    for path in &way.files {
        let taken = open_bundle(agent, media, path)
            .map(BundleFile::others_follow)
            .and_then(|mut source| intake::try_accept(agent, &mut source));
        match taken {
            Ok(_) | Err(AgentError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    match way.files.first() {
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
