//! Sticks and folders: what lies on them for this site.
//!
//! What comes in: a path. What goes out: the bundles below it (a few levels deep, so that a stick with a
//! folder per site works, and a whole home directory is not walked), freshness slips and acknowledgements
//! for this site; of many bundles the newest acceptable one, after what the slips bring. Nothing is
//! written to the medium, no link on it is followed, and only regular files are opened.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use outhaul_kit::media::{self, Bounds, FileOrFolder, Listing, Media};
use outhaul_kit::text;

use super::file::BundleFile;
use super::slip::{self, SlipEffect};
use super::{ImportOutcome, MAX_REPORTED, Offer, set_aside, since};
use crate::acks::{Acknowledged, Renumbered};
use crate::agent::Agent;
use crate::durable::FileError;
use crate::error::AgentError;
use crate::incomplete::incomplete;
use crate::intake::{self, refusals};
use crate::orders::executed;
use crate::other_files;
use crate::state::SiteIdentity;

mod acknowledgements;
mod deeper;
mod rebuilding;
mod skipped;
mod wanted;

pub use acknowledgements::{acks_of, take_acks};
use skipped::{not_opened, pass_over, unusable};

/// What is looked at of a medium.
const BOUNDS: Bounds = Bounds {
    depth: 3,
    entries: 100_000,
    kept: 2_000,
};
/// The ending of parity parts.
const PARITY: &str = "parity";
/// What a medium was good for.
#[derive(Debug, Default)]
pub struct Findings {
    /// What came of the newest acceptable bundle; `None` when there was none.
    pub outcome: Option<ImportOutcome>,
    /// The file that it came from.
    pub taken: Option<PathBuf>,
    /// Whether its content was copied from the medium: what was here already is not.
    pub copied: bool,
    /// The order to move by which this site follows the stream of `outcome`, when both were on the medium.
    pub moved: Option<String>,
    /// What freshness slips brought.
    pub slips: Vec<SlipEffect>,
    /// Parts of the bundle that were made again from parity.
    pub rebuilt: Vec<usize>,
    /// The newest bundle, where it is newer than the one that was taken and could not be taken whole.
    pub newer: Option<u64>,
    /// Whether a bundle was refused before its number could be known.
    pub without_number: bool,
    /// What else came of others, one sentence each.
    pub notes: Vec<String>,
    /// Why others were skipped, one sentence each.
    pub skipped: Vec<String>,
    /// Bundles that a rule of trust refused though they are for this stream.
    pub refused: Vec<AgentError>,
    /// Why others could not be read, though no rule refuses them; each is in `skipped` too.
    pub failed: Vec<AgentError>,
    /// What acknowledgements did; `None` when there were none for this site.
    pub acknowledged: Option<Acknowledged>,
    /// How many other files a folder holds.
    pub others: usize,
    /// Which folders were not looked at because they are too deep, in a sentence.
    pub deeper: Option<String>,
}

/// Bundles and freshness slips on a medium; of more than are looked at, those first whose names are those of this stream.
///
/// # Errors
/// [`FileError`] for a medium that cannot be listed.
pub fn bundles(media: &Media, site: &SiteIdentity) -> Result<Listing, FileError> {
    let stream = wanted::stream(site);
    let rank = |name: &OsStr| wanted::rank(name, &stream);
    media.files_by_rank(BOUNDS, |name| is_ours(Path::new(name)), rank)
}

/// By its ending. Sticks are FAT: what writes them may turn all letters into capitals.
fn is_ours(name: &Path) -> bool {
    ["outhaul", PARITY, "slip"]
        .iter()
        .any(|ending| media::is_named(name, ending))
}

impl Findings {
    /// Whether anything of what was read changed this site.
    pub fn changed_something(&self) -> bool {
        let by_bundle = match &self.outcome {
            Some(ImportOutcome::AlreadyActive { remembered, .. }) => !remembered.is_empty(),
            outcome => outcome.is_some(),
        };
        let acknowledged = self.acknowledged.as_ref();
        by_bundle
            || !self.rebuilt.is_empty()
            || self.slips.iter().any(|effect| effect.fresh)
            || acknowledged.is_some_and(Acknowledged::is_new)
    }

    /// Takes note of what the source of `outcome` was good for: what was copied from it, or that it is no whole copy of what is here.
    fn took(&mut self, source: &BundleFile) {
        self.copied |= source.was_copied();
        if let Some(
            ImportOutcome::AlreadyActive { number, .. } | ImportOutcome::Rests { number, .. },
        ) = &self.outcome
        {
            self.notes.extend(source.cut_off(*number));
        }
    }

    /// What acknowledgements did, one sentence each.
    pub fn acknowledgements(&self) -> Vec<String> {
        let Some(done) = &self.acknowledged else {
            return Vec::new();
        };
        let mut reported = Vec::new();
        if done.left() > 0 {
            reported.push(format!("the hub acknowledged {} reports", done.left()));
        }
        reported.extend(done.renumbered.as_ref().map(Renumbered::sentence));
        if reported.is_empty() {
            reported.push("the hub's acknowledgements on it are known already".to_owned());
        }
        reported
    }
}

/// Imports from a file or folder: acknowledgements, freshness slips, and the newest acceptable bundle.
///
/// # Errors
/// [`AgentError`]: for a single file its refusal; for a folder only what stops everything.
pub fn import(agent: &mut Agent, path: &Path) -> Result<Findings, AgentError> {
    import_without(agent, path, &[])
}

/// The same, without what lies in the folders `apart`, which are read by themselves.
///
/// # Errors
/// As [`import`].
pub fn import_without(
    agent: &mut Agent,
    path: &Path,
    apart: &[PathBuf],
) -> Result<Findings, AgentError> {
    let opened = FileOrFolder::open(path)?;
    set_aside::begin(agent)?;
    let read = match opened {
        FileOrFolder::File(file) => import_file(agent, path, file),
        FileOrFolder::Folder(media) => import_folder(agent, &media.without(apart)),
    };
    set_aside::end(agent)?;
    let mut findings = read?;
    // Once for all parts of one medium: what is missing when it was read through.
    if let Some(ImportOutcome::Incomplete { bundle, .. }) = &mut findings.outcome {
        let now = incomplete(agent.store.read(), &agent.site)?;
        if let Some(now) = now.filter(|now| now.index == bundle.index) {
            **bundle = now;
        }
        let source = findings.taken.as_deref().map(text::file_name);
        refusals::report_incomplete(agent, &source.unwrap_or_default(), bundle)?;
    }
    Ok(findings)
}

fn import_file(agent: &mut Agent, path: &Path, file: File) -> Result<Findings, AgentError> {
    let mut findings = Findings::default();
    let name = text::file_name(path);
    if slip::is_slip(path, &file) {
        let effect = slip::import_file(agent, &name, file);
        if let Err(error) = &effect {
            refusals::report_refusal(agent, error)?;
        }
        findings.slips.push(effect?);
        return Ok(findings);
    }
    if let Err(AgentError::Usage { message, help }) = other_files::refuse_other_file(path, &file) {
        let message = format!("{message}; nothing was changed");
        return Err(AgentError::Usage { message, help });
    }
    let mut source = BundleFile::new(name, file, agent.limits, &agent.heartbeat);
    findings.outcome =
        Some(intake::accept(agent, &mut source).map_err(|e| with_claim(e, &source, &agent.site))?);
    findings.rebuilt = source.parts_rebuilt().to_vec();
    findings.taken = Some(path.to_owned());
    findings.took(&source);
    Ok(findings)
}

fn import_folder(agent: &mut Agent, media: &Media) -> Result<Findings, AgentError> {
    let mut first = import_for_stream(agent, media, None)?;
    let Some(ImportOutcome::Ordered { number, note }) = &first.outcome else {
        return Ok(first);
    };
    if executed::moved(agent.store.read())?.is_none() {
        return Ok(first);
    }
    // The stream that this site follows now may lie beside the one that said so.
    let order = format!("bundle {number} brought an order: {note}");
    let mut second = import_for_stream(agent, media, Some(&first))?;
    if second.outcome.is_some() {
        second.moved = Some(order);
    } else {
        second.outcome = first.outcome.take();
        second.taken = first.taken.take();
    }
    second.acknowledged = first.acknowledged;
    second.slips.retain(|effect| effect.fresh);
    second.slips.splice(0..0, first.slips);
    second.refused.splice(0..0, first.refused);
    second.failed.splice(0..0, first.failed);
    Ok(second)
}

/// Everything on a medium that is for the stream that this site follows; `before` is what it was good
/// for to the stream that this site has just left.
fn import_for_stream(
    agent: &mut Agent,
    media: &Media,
    before: Option<&Findings>,
) -> Result<Findings, AgentError> {
    let mut findings = Findings::default();
    let known = before.and_then(|before| before.taken.as_deref());
    let looked = look_through(agent, media, known, &mut findings);
    let reported: Vec<String> = before
        .iter()
        .flat_map(|before| before.refused.iter().map(ToString::to_string))
        .collect();
    let is_new = |refused: &AgentError| !reported.contains(&refused.to_string());
    findings.refused.retain(is_new);
    // Whatever ended it, what was refused by then is reported, and before anything is taken.
    refusals::report_refusals(agent, &findings.refused)?;
    take_newest(agent, media, looked?, &mut findings)?;
    Ok(findings)
}

/// Takes acknowledgements and slips, and verifies every bundle. Returns the acceptable ones.
fn look_through(
    agent: &mut Agent,
    media: &Media,
    known: Option<&Path>,
    findings: &mut Findings,
) -> Result<Vec<(PathBuf, Offer)>, AgentError> {
    let found = bundles(media, &agent.site)?;
    deeper::note(findings, media.path(), &found);
    for error in found.unusable {
        not_opened(error, findings);
    }
    findings.others = found.ignored;
    if found.incomplete {
        findings.notes.push(format!(
            "warning: not all of `{}` was searched: it holds more than {} entries or {} bundles; those whose names begin with `{}` \
             were looked at first; name the folder or file that is meant",
            text::path(media.path()),
            BOUNDS.entries,
            BOUNDS.kept,
            wanted::stream(&agent.site)
        ));
    }
    match take_acks(agent, media, findings) {
        Ok(()) => {}
        Err(AgentError::File(error)) => findings.skipped.push(unusable(&error)),
        Err(other) => return Err(other),
    }
    // Slips first: a key that one of them takes away signs no bundle any more.
    let mut files = Vec::new();
    let is_known = |path: &PathBuf| known.is_some_and(|known| known == media.path().join(path));
    for path in found.files.into_iter().filter(|path| !is_known(path)) {
        if agent.heartbeat.is_cancelled() {
            return Err(AgentError::Stopped);
        }
        let file = match media.open_file(&path) {
            Ok(Some(file)) => file,
            // Gone since it was listed.
            Ok(None) => continue,
            Err(error) => {
                not_opened(error, findings);
                continue;
            }
        };
        if !slip::is_slip(&path, &file) {
            files.push(path);
            continue;
        }
        let name = text::file_name(&path);
        match slip::import_file(agent, &name, file) {
            Ok(effect) => findings.slips.push(effect),
            Err(error) => pass_over(&name, error, findings)?,
        }
    }
    let mut offers: Vec<(PathBuf, Offer)> = Vec::new();
    for path in files {
        if agent.heartbeat.is_cancelled() {
            return Err(AgentError::Stopped);
        }
        match look_at(agent, media, &path) {
            Ok(offer) => offers.push((path, offer)),
            Err(error) => {
                findings.without_number |= is_unnumbered(&error) && !is_empty(media, &path);
                pass_over(&text::file_name(&path), error, findings)?;
            }
        }
    }
    Ok(offers)
}

/// Whether nothing at all is in a file.
fn is_empty(media: &Media, path: &Path) -> bool {
    let file = media.open_file(path).ok().flatten();
    file.is_some_and(|file| file.metadata().is_ok_and(|found| found.len() == 0))
}

/// Whether a bundle was refused of which nobody knows the number. What is for others, older, or no bundle at all is none to wait for.
fn is_unnumbered(error: &AgentError) -> bool {
    let known = ["stream", "foreign-fleet", "rollback", "not-a-bundle"];
    matches!(error, AgentError::Refused { .. })
        && !known.iter().any(|rule| error.is_refused_by(rule))
}

/// Admits the newest bundle that can be had; the others are older. A copy that leaves out what is not here is tried once more
/// when an older bundle of the same medium was taken: that one may have brought it.
fn take_newest(
    agent: &mut Agent,
    media: &Media,
    mut offers: Vec<(PathBuf, Offer)>,
    findings: &mut Findings,
) -> Result<(), AgentError> {
    // Of one bundle its parts first: parity is kept for those that are missing then.
    offers.sort_by_key(|(path, offer)| {
        let number = std::cmp::Reverse(offer.acceptance.number);
        (number, media::is_named(path, PARITY))
    });
    let (mut taken, mut left, mut late) = (None, None, Vec::new());
    let mut trouble = None;
    let mut lacking = Vec::new();
    for (path, offer) in &offers {
        let name = text::file_name(path);
        let number = offer.acceptance.number;
        // Other parts of the same bundle may lie beside it.
        let is_part_of = |outcome: &ImportOutcome| matches!(outcome, ImportOutcome::Incomplete { bundle, .. } if bundle.number == number);
        let meanwhile =
            rebuilding::is_taken_meanwhile(agent, media, findings.outcome.as_ref(), (path, offer))?;
        if findings
            .outcome
            .as_ref()
            .is_some_and(|outcome| !is_part_of(outcome) && !meanwhile)
        {
            let is = match taken {
                Some(taken) if taken == number && media::is_named(path, PARITY) => {
                    "is whole, and this parity part is not needed"
                }
                Some(taken) if taken == number => "is the one that was imported already",
                _ => "is older",
            };
            findings
                .skipped
                .push(format!("`{name}`: bundle {number} {is}"));
            continue;
        }
        if let (true, Some(newer), Some(of)) = (meanwhile, taken, &findings.taken) {
            let name = text::file_name(of);
            left = left.max(Some(newer));
            findings.notes.push(format!(
                "`{name}`: bundle {newer} is not complete and waits for the rest; bundle {number} is taken meanwhile"
            ));
        }
        let accepted = open_bundle(agent, media, path)
            .map(BundleFile::others_follow)
            .and_then(|source| accepted(agent, source));
        match accepted {
            Ok((outcome, source)) => {
                findings.outcome = Some(outcome);
                findings.took(&source);
                findings.taken = Some(media.path().join(path));
                taken = Some(number);
            }
            Err(error) if error.is_refused_by(since::LEFT_OUT) => {
                lacking.push((path.clone(), number, error));
            }
            Err(error @ AgentError::Refused { .. }) => {
                left = left.max(Some(number));
                refused(agent, number, error, findings, &mut late)?;
            }
            Err(other) => {
                trouble = Some(other);
                break;
            }
        }
    }
    for (path, number, error) in lacking.into_iter().rev() {
        let again = match (taken, &trouble) {
            (Some(first), None) if number > first => {
                open_bundle(agent, media, &path).and_then(|source| accepted(agent, source))
            }
            _ => Err(error),
        };
        match again {
            Ok((outcome, source)) => {
                if let (Some(first), Some(before)) = (taken, &findings.taken) {
                    let name = text::file_name(before);
                    findings.notes.push(format!(
                        "`{name}`: bundle {first} was taken first: the copy of bundle {number} builds on it"
                    ));
                }
                findings.outcome = Some(outcome);
                findings.took(&source);
                findings.taken = Some(media.path().join(path));
                taken = Some(number);
            }
            Err(error @ AgentError::Refused { .. }) => {
                left = left.max(Some(number));
                refused(agent, number, error, findings, &mut late)?;
            }
            Err(other) => trouble = trouble.or(Some(other)),
        }
    }
    refusals::report_further_refusals(agent, MAX_REPORTED, &late)?;
    findings.refused.append(&mut late);
    findings.newer = left.filter(|left| taken.is_some_and(|taken| *left > taken));
    if trouble.is_none() {
        trouble = rebuilding::complete(agent, media, findings, &offers).err();
    }
    trouble.map_or(Ok(()), Err)
}

/// What came of a bundle, with its source.
fn accepted(
    agent: &mut Agent,
    mut source: BundleFile,
) -> Result<(ImportOutcome, BundleFile), AgentError> {
    let outcome = intake::try_accept(agent, &mut source)?;
    Ok((outcome, source))
}

/// Reports a refusal before the next bundle is tried, as long as each has a separate report; `late` are the others.
fn refused(
    agent: &mut Agent,
    number: u64,
    error: AgentError,
    findings: &mut Findings,
    late: &mut Vec<AgentError>,
) -> Result<(), AgentError> {
    if findings.refused.len() >= MAX_REPORTED {
        late.push(error);
        return Ok(());
    }
    refusals::report_refusal_of(agent, Some(number), &error)?;
    findings.refused.push(error);
    Ok(())
}

fn open_bundle(agent: &Agent, media: &Media, path: &Path) -> Result<BundleFile, AgentError> {
    let name = text::file_name(path);
    let Some(file) = media.open_file(path)? else {
        let problem = "it is not there any more: was the stick pulled?".to_owned();
        return Err(AgentError::Unreadable {
            source_name: name,
            problem,
        });
    };
    other_files::refuse_other_file(path, &file)?;
    Ok(BundleFile::new(name, file, agent.limits, &agent.heartbeat))
}

fn look_at(agent: &Agent, media: &Media, path: &Path) -> Result<Offer, AgentError> {
    let mut source = open_bundle(agent, media, path)?;
    intake::verify(agent, &mut source).map_err(|error| with_claim(error, &source, &agent.site))
}

/// A refusal of a bundle for another stream names both, whichever rule it met first: the version of what
/// is for someone else says nothing here. What the bundle says of itself is not verified.
pub(crate) fn with_claim(
    error: AgentError,
    source: &BundleFile,
    site: &SiteIdentity,
) -> AgentError {
    let own = format!("{}/{}", site.stream.environment, site.stream.cluster_type);
    match (error, source.claims()) {
        (
            AgentError::Refused {
                source_name, rule, ..
            },
            Some(claim),
        ) if claim != own && matches!(rule.as_str(), "stream" | "rollback") => {
            let message = format!("this stick is for {claim}, this site is {own}");
            AgentError::refused(&source_name, "stream", message)
        }
        (error, _) => error,
    }
}
