//! Whether what is on record of an assignment is what was signed: the record is a plain file, and what stays of it is signed anew.
//!
//! What comes in: a fleet, a stream's role, and the record of an assignment. What goes out: whether the index of the bundle that the
//! fleet signed last says otherwise. Only its beginning is read, its signatures are verified, and nothing is written. Where the fleet
//! keeps no such bundle any more nothing is known.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_attest::inspect;
use outhaul_bundle::index::{Assignment, File, Index};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::BundleReader;
use outhaul_bundle::{Digest, index};
use outhaul_plane::render::{RenderedAssignment, RenderedOverlay};
use outhaul_signer::TimePolicy;
use outhaul_signer::fleet::Fleet;
use outhaul_signer::trust::{self, TrustedMetadata};

use super::shelf;

/// The index that a stream signed last.
pub(super) struct SignedIndex(Index);

/// Files by path.
type Files<'a> = BTreeMap<&'a str, Digest>;

impl SignedIndex {
    /// That of `role`, when its bundle is here.
    pub(super) fn of(fleet: &Fleet, role: &str) -> Option<Self> {
        let number = fleet.latest(role).ok()??.number;
        let file = std::fs::File::open(shelf::bundle(fleet.folder(), role, number)).ok()?;
        let mut reader = BundleReader::new(file, Limits::default());
        let metadata = reader.read_metadata().ok()?;
        let (index, bytes) = reader
            .read_index(&inspect::index_named(&metadata).ok()?)
            .ok()?;
        let enrolled = TrustedMetadata::enrol(&fleet.root_bytes().ok()?).ok()?;
        // Dates are no matter: it is the fleet's own copy.
        let policy = TimePolicy {
            lower_bound: jiff::Timestamp::UNIX_EPOCH,
            wall: jiff::Timestamp::UNIX_EPOCH,
            wall_trusted: false,
        };
        let accepted = trust::verify(&enrolled, &BTreeMap::new(), &metadata, role, policy).ok()?;
        (accepted.index_sha256 == *Digest::of(&bytes).as_bytes()).then_some(Self(index))
    }

    /// Whether it has `target` with other files than `before`, or not at all.
    pub(super) fn differs(&self, target: &str, before: &RenderedAssignment) -> bool {
        let mut all = self.0.assignments.iter();
        let found = all.find(|one| one.name.as_str() == target);
        found.is_none_or(|signed| !is_same(signed, before))
    }
}

fn is_same(signed: &Assignment, before: &RenderedAssignment) -> bool {
    let sites = |sites: &BTreeSet<_>| names(sites);
    let of_sites = signed.overlays.iter().map(overlay);
    let of_sites_before = before.overlays.iter().map(overlay_before);
    signed.config_version == before.config_version
        && files(&signed.files) == files_before(&before.files)
        && signed.sites.as_ref().map(sites) == before.sites.clone()
        && of_sites.collect::<BTreeSet<_>>() == of_sites_before.collect()
}

fn names(sites: &BTreeSet<outhaul_bundle::name::Name>) -> BTreeSet<String> {
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
