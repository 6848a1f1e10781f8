//! Whether what is on record of a stream is what was signed: the record is a plain file, what stays of it is signed again, and what it
//! leaves out is not missed.
//!
//! What comes in: a fleet, a stream's role, and its record. What goes out: whether the fleet signed the record; of one of before, whether
//! the index of the bundle that the fleet signed last says otherwise: only its beginning is read, its signatures are verified, and nothing
//! is written. Where the fleet keeps no such bundle any more nothing is known. Of a payload its repository and commit are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use outhaul_bundle::index::{Assignment, Content, File, Index};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::name::Name;
use outhaul_bundle::read::BundleReader;
use outhaul_bundle::{Digest, index};
use outhaul_control::diagnostic::Diagnostic;
use outhaul_git::source::normal_url;
use outhaul_kit::text;
use outhaul_plane::render::{RenderedAssignment, RenderedOverlay};
use outhaul_signer::TimePolicy;
use outhaul_signer::durable;
use outhaul_signer::fleet::{Fleet, FleetError};
use outhaul_signer::publish::Latest;
use outhaul_signer::trust::{self, TrustedMetadata};

use super::{ProduceError, ShippedError, shelf, shipped};
use outhaul_record::record::{Record, ShippedAssignment};

/// Files by path.
type Files<'a> = BTreeMap<&'a str, Digest>;

/// What is known of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    /// It says what was signed.
    Same,
    /// The fleet does not keep the bundle that was signed last.
    Unknown,
}

/// Compares the record of `role` with the index that was signed last.
///
/// # Errors
/// [`ProduceError`] when it says otherwise, or the bundle in the fleet's folder cannot be used.
pub(super) fn compare(
    fleet: &Fleet,
    role: &str,
    record: &Record,
) -> Result<Compared, ProduceError> {
    let Some(latest) = fleet.latest(role)? else {
        return Ok(Compared::Unknown);
    };
    if shipped::is_signed(fleet, record, Digest::from_bytes(latest.index))? {
        return Ok(Compared::Same);
    }
    let Some(index) = signed_index(fleet, role, &latest)? else {
        return Ok(Compared::Unknown);
    };
    match differs(&index, record) {
        Some(id) => Err(shipped::not_signed(fleet, role, &id).into()),
        None => Ok(Compared::Same),
    }
}

/// The index of the bundle that was signed last, out of the one that the fleet keeps; `None` where it is gone.
///
/// # Errors
/// [`ShippedError::Bundle`] when what lies there is not that bundle.
pub(super) fn signed_index(
    fleet: &Fleet,
    role: &str,
    latest: &Latest,
) -> Result<Option<Index>, ShippedError> {
    let path = shelf::bundle(fleet.folder(), role, latest.number);
    let unusable = |problem: String| ShippedError::Bundle {
        path: path.clone(),
        problem,
    };
    let file = match durable::open_file(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(error.to_string())),
    };
    let (index, digest) = verified(fleet, role, file).map_err(unusable)?;
    match *digest.as_bytes() == latest.index {
        true => Ok(Some(index)),
        false => Err(unusable(
            "it is not the bundle that was signed last".to_owned(),
        )),
    }
}

/// Why the bundle of `role` that was signed last is not what would be signed now, as a part of a sentence: keys were changed since. `None` where
/// they are the same, and where the fleet does not keep it.
///
/// # Errors
/// [`FleetError`] when the fleet's metadata cannot be read.
pub fn outdated(fleet: &Fleet, role: &str) -> Result<Option<String>, FleetError> {
    let Some(latest) = fleet.latest(role)? else {
        return Ok(None);
    };
    let path = shelf::bundle(fleet.folder(), role, latest.number);
    let Ok(file) = durable::open_file(&path) else {
        return Ok(None);
    };
    // What cannot be read is not handed out again in any case.
    let Ok(files) = BundleReader::new(file, Limits::default()).read_metadata() else {
        return Ok(None);
    };
    let why = fleet.outdated(role, &files)?;
    Ok(why.map(|why| format!("number {} is out of date: {why}", latest.number)))
}

/// The first assignment of which a record says otherwise than an index, or that only one of them has.
pub(super) fn differs(index: &Index, record: &Record) -> Option<String> {
    let cluster_type = index.stream.cluster_type.as_str();
    let signed = index.assignments.iter();
    let signed: BTreeMap<String, &Assignment> = signed
        .map(|one| (format!("{cluster_type}/{}", one.name), one))
        .collect();
    let on_record = record.assignments();
    let all: BTreeSet<&String> = signed.keys().chain(&on_record).collect();
    let is_other = |id: &&&String| {
        let (signed, before) = (signed.get(**id), record.shipped(id));
        signed.zip(before).is_none_or(|(signed, before)| {
            let from = index.kept.get(&signed.name);
            // A record of before names the snapshot of each, also of those that are not kept.
            let is_from = record.kept.get(**id).map_or(from.is_none(), |kept| {
                kept.from == *from.unwrap_or(&index.snapshot.digest)
            });
            !is_same(signed, &before.rendered) || !has_source(index, before) || !is_from
        })
    };
    all.iter().find(is_other).map(|id| (*id).clone())
}

/// Whether the payload's commit is one of those that the bundle was made from.
fn has_source(index: &Index, before: &ShippedAssignment) -> bool {
    let (commit, repo) = (
        &before.payload_commit,
        before.rendered.manifests.get("repo"),
    );
    let Some((commit, repo)) = commit.as_ref().zip(repo) else {
        return commit.is_none();
    };
    let mut sources = index.snapshot.workloads.iter();
    sources.any(|one| one.commit == *commit && normal_url(&one.repo) == normal_url(repo))
}

/// The index of a bundle, and its digest, when the signatures of `role` hold.
fn verified(fleet: &Fleet, role: &str, file: std::fs::File) -> Result<(Index, Digest), String> {
    let mut reader = BundleReader::new(file, Limits::default());
    let metadata = reader
        .read_metadata()
        .map_err(|error| text::chain(&error))?;
    let root = fleet.root_bytes().map_err(|error| text::chain(&error))?;
    let enrolled = TrustedMetadata::enrol(&root).map_err(|error| text::chain(&error))?;
    // Dates are no matter: it is the fleet's own copy.
    let policy = TimePolicy {
        lower_bound: jiff::Timestamp::UNIX_EPOCH,
        wall: jiff::Timestamp::UNIX_EPOCH,
        wall_trusted: false,
    };
    let accepted = trust::verify(&enrolled, &BTreeMap::new(), &metadata, role, policy);
    let accepted = accepted.map_err(|error| text::chain(&error))?;
    let content = |(size, sha256)| Content {
        digest: Digest::from_bytes(sha256),
        size,
    };
    let expected = content((accepted.index_length, accepted.index_sha256));
    let read = reader.read_verified_index(&expected, accepted.index_compressed.map(content));
    let (index, _) = read.map_err(|error| text::chain(&error))?;
    Ok((index, expected.digest))
}

/// Compares the record before a new number is signed, by which removals are known. With `--strict`, where nothing can be compared, what is
/// said of that.
///
/// # Errors
/// [`ProduceError`] when it says otherwise, or nothing is known of it.
pub(super) fn compare_removals(
    fleet: &Fleet,
    (role, stream): (&str, &str),
    record: &Record,
    is_strict: bool,
) -> Result<Option<Diagnostic>, ProduceError> {
    match compare(fleet, role, record) {
        Ok(Compared::Same) => Ok(None),
        Ok(Compared::Unknown) | Err(ProduceError::Last(ShippedError::Bundle { .. }))
            if is_strict =>
        {
            Ok(Some(removals_unknown(stream)))
        }
        Ok(Compared::Unknown) => Err(shipped::unverified(fleet, role)?.into()),
        Err(error) => Err(error),
    }
}

/// What is said where it is not known what a stream had.
pub(super) fn removals_unknown(stream: &str) -> Diagnostic {
    let message = format!(
        "what is removed from `{stream}` is not known: neither its record nor the bundle that was signed last is here and whole"
    );
    let help = "look at what this bundle has (`outhaul inspect`) before it travels, and see that nobody else writes to the fleet's folder";
    Diagnostic::warning("removals-unverified", message).help(help)
}

/// The assignments of the bundle that was signed last, as `<cluster type>/<target>`; `None` where it is not here whole.
pub(super) fn assignments_signed(
    fleet: &Fleet,
    role: &str,
) -> Result<Option<BTreeSet<String>>, ProduceError> {
    let Some(latest) = fleet.latest(role)? else {
        return Ok(None);
    };
    let found = signed_index(fleet, role, &latest).ok().flatten();
    Ok(found.map(|index| {
        let all = index.assignments.iter();
        let cluster_type = &index.stream.cluster_type;
        all.map(|one| format!("{cluster_type}/{}", one.name))
            .collect()
    }))
}

fn is_same(signed: &Assignment, before: &RenderedAssignment) -> bool {
    let of_sites = signed.overlays.iter().map(overlay);
    let of_sites_before = before.overlays.iter().map(overlay_before);
    signed.config_version == before.config_version
        && signed.workload == before.workload
        && signed.workspace == before.workspace
        && signed.policies.iter().collect::<BTreeSet<_>>() == before.policies.iter().collect()
        && signed.site_values == before.site_values
        && signed.bootstrap.as_ref().map(Name::as_str) == before.bootstrap.as_deref()
        && files(&signed.files) == files_before(&before.files)
        && signed.sites.as_ref().map(names) == before.sites
        && of_sites.collect::<BTreeSet<_>>() == of_sites_before.collect()
}

fn names(sites: &BTreeSet<Name>) -> BTreeSet<String> {
    sites.iter().map(ToString::to_string).collect()
}

fn files(all: &[File]) -> Files<'_> {
    all.iter()
        .map(|file| (file.path.as_str(), file.content))
        .collect()
}

fn files_before(all: &BTreeMap<String, Vec<u8>>) -> Files<'_> {
    let all = all.iter();
    all.map(|(name, bytes)| (name.as_str(), Digest::of(bytes)))
        .collect()
}

fn overlay(one: &index::Overlay) -> (BTreeSet<String>, Digest, Files<'_>) {
    (names(&one.sites), one.config_version, files(&one.files))
}

fn overlay_before(one: &RenderedOverlay) -> (BTreeSet<String>, Digest, Files<'_>) {
    (
        one.sites.clone(),
        one.config_version,
        files_before(&one.files),
    )
}
