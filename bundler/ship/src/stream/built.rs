//! A bundle of a stream before it is signed, and what goes on record of it.
//!
//! What comes in: what was planned for a stream, and the bundle that was made of it. What goes out: the record of what the stream
//! ships. It makes no bundle and signs nothing.

use std::collections::BTreeMap;

use outhaul_attest::images::CarriedImage;
use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_kit::console::progress::{Meter, Unit};
use outhaul_signer::fleet::{Fleet, StatementSigner};
use outhaul_signer::publish::Latest;

use super::plan::StreamContents;
use super::{ProduceError, shelf, shipped};
use crate::assemble::attest_and_seal::AttestSealError;
use crate::assemble::spool::CountedContents;
use crate::assemble::{EncodedBefore, Spool, UnsignedBundle};
use crate::collect::{Collector, Payloads};
use outhaul_record::record::{Record, ShippedAssignment};

/// A bundle, and the commits of its payloads by assignment.
pub(super) struct Built {
    pub(super) bundle: UnsignedBundle,
    pub(super) commits: BTreeMap<String, String>,
    /// Digest of it before it was sealed.
    pub(super) plain: Digest,
    /// Its bill of materials, with those of its images.
    pub(super) sbom: Vec<u8>,
}

/// What the stream ships with this bundle.
pub(super) fn last_of(environment: &str, plan: &StreamContents<'_>, built: &Built) -> Record {
    let snapshot = &built.bundle.index.snapshot;
    let assignments = plan.assignments.iter().map(|(name, rendered)| {
        let shipped = ShippedAssignment {
            payload_commit: built.commits.get(name).cloned(),
            rendered: (**rendered).clone(),
        };
        (name.clone(), shipped)
    });
    let kept = plan.isolation.recorded();
    Record::of_stream(environment, plan.cluster_type, snapshot, kept, assignments)
}

/// What goes on record of it where its content is the one that was signed last.
pub(super) fn record_of(
    environment: &str,
    plan: &StreamContents<'_>,
    built: &Built,
    latest: &Latest,
    signer: &StatementSigner,
) -> Result<Record, ProduceError> {
    let record = last_of(environment, plan, built).with_index(Digest::from_bytes(latest.index));
    Ok(shipped::signed(record, signer)?)
}

/// Lets blobs of the kept bundle `number` be used again, when it is the one that was signed last.
pub(super) fn remember_encoded(
    fleet: &Fleet,
    role: &str,
    number: u64,
    latest: &Latest,
    to: &EncodedBefore,
) {
    if latest.number == number {
        let index = Content {
            digest: Digest::from_bytes(latest.index),
            size: latest.length,
        };
        to.add(&shelf::bundle(fleet.folder(), role, number), &index);
    }
}

/// The images that the bundle carries, each with its bill of materials.
pub(super) fn images_of(
    payloads: &Payloads,
    collector: &mut Collector<'_>,
    spool: &Spool,
) -> Result<Vec<CarriedImage>, ProduceError> {
    let (served, users) = (&payloads.served, &payloads.image_users);
    let meter = Meter::new("listing packages of images", Unit::Bytes, None);
    let mut contents = CountedContents(spool.contents(), &meter);
    let found = collector.layers().of_images(served, users, &mut contents);
    Ok(found.map_err(AttestSealError::from)?)
}
