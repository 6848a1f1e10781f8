//! The last step of a stream's bundle: its files are written, and its number comes on the fleet's record.
//!
//! What comes in: a bundle with its signatures. What goes out: the files and a [`Produced`]. A bundle whose number does not come on
//! record is nowhere afterwards; what fails once it is on record is an error that says so, and its file stays. It signs nothing.

use std::path::{Path, PathBuf};

use outhaul_bundle::index::Content;
use outhaul_bundle::{Digest, Index};
use outhaul_kit::interrupt;
use outhaul_signer::fleet::{Fleet, StatementSigner};
use outhaul_signer::publish::SignRequest;

use super::plan::StreamContents;
use super::shelf::{self, StoredBundle};
use super::signing::Signed;
use super::{BundleRequest, ProduceError, Produced, blob_record, countersigned, shipped};
use crate::assemble::UnsignedBundle;
use crate::deliver::{self, DeliverError, published};
use outhaul_record::record::Record;

/// Where the bundle of a number goes.
pub(super) fn file_of(
    request: &BundleRequest<'_>,
    cluster_type: &str,
    environment: &str,
    number: u64,
) -> PathBuf {
    request
        .out
        .join(shelf::file_name(environment, cluster_type, number))
}

/// Refuses a place that cannot hold a bundle, before its number is signed.
///
/// # Errors
/// [`ProduceError::Place`] for anything but a file where the file is to go, and [`ProduceError::Published`] for a link, a FIFO or the like where the
/// published folder has or gets a file of the bundle with this index.
pub(super) fn check_place(
    request: &BundleRequest<'_>,
    file: &Path,
    (role, index): (&str, &Index),
) -> Result<(), ProduceError> {
    if let Some(folder) = request.publish {
        published::check_folder(folder, role, index).map_err(ProduceError::publishing)?;
    }
    match std::fs::symlink_metadata(file) {
        Ok(there) if !there.is_file() => Err(ProduceError::Place {
            path: file.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Writes what was signed, and puts it on the fleet's record.
pub(super) fn ship(
    fleet: &Fleet,
    request: &BundleRequest<'_>,
    plan: &StreamContents<'_>,
    sign: SignRequest<'_>,
    (signed, keys): Signed,
    (bundle, plain): (UnsignedBundle, Digest),
    (last, signer): (&Record, &StatementSigner),
) -> Result<Produced, ProduceError> {
    let SignRequest { role, number, .. } = sign;
    let stream = &bundle.index.stream;
    let file = file_of(
        request,
        stream.cluster_type.as_str(),
        stream.environment.as_str(),
        number,
    );
    let name = format!("{}/{}", stream.environment, stream.cluster_type);
    let content_bytes = bundle.index.content_bytes();
    let assignments = bundle.index.assignments.len();
    // Kept first: it is what another stick gets when nothing changes.
    shelf::prepare(fleet.folder()).map_err(ProduceError::Keep)?;
    let own = shelf::bundle(fleet.folder(), role, number);
    // Until the number is on record, both files are of a bundle that does not exist.
    let unrecorded = [interrupt::temporary(&own), interrupt::temporary(&file)];
    deliver::write_file(&own, &signed.files, bundle)?;
    let kept = StoredBundle::of(number, plain, &own)?;
    // What was signed has its number for good. Where its place cannot be written it comes on record all the same, and the
    // next run writes what the fleet keeps.
    let copied = deliver::create(request.out).and_then(|()| deliver::copy_file(&own, &file));
    interrupt::here();
    let _whole = interrupt::finishing();
    drop((unrecorded, keys));
    let record = last.with_index(Digest::of(sign.index_bytes));
    let begun = shipped::signed(record, signer)
        .and_then(|record| shipped::begin(&record, fleet, role))
        .map_err(ProduceError::from);
    if let Err(error) = begun.and_then(|()| Ok(fleet.commit(&signed)?)) {
        return Err(not_recorded(fleet, role, number, [&own, &file], error));
    }
    if copied.is_ok() {
        interrupt::finished(format!("{name}: number {number}, `{}`", file.display()));
    }
    interrupt::here();
    let recorded = || -> Result<(), ProduceError> {
        blob_record::remember(fleet.folder(), role);
        kept.write(fleet.folder(), role)
            .map_err(ProduceError::Keep)?;
        countersigned::forget_before(fleet, role, number + 1)?;
        if copied.is_err() {
            return Ok(());
        }
        if let Some(folder) = request.publish {
            let index = Content {
                digest: Digest::of(sign.index_bytes),
                size: sign.index_bytes.len() as u64,
            };
            publish(&file, role, &index, folder, true)?;
        }
        Ok(())
    };
    recorded().inspect_err(|_| is_recorded_all_the_same(number, &file))?;
    let (_, bytes) = copied.inspect_err(|_| {
        tracing::warn!(
            "bundle {number} is signed and on record, and `{}` was not written: `outhaul bundle` writes it when it is run again",
            file.display()
        );
    })?;
    Ok(Produced {
        cluster_type: plan.cluster_type.to_owned(),
        number,
        changed: true,
        file: Some(file),
        bytes,
        content_bytes,
        assignments,
        suppressed: None,
        because: None,
        restored: Vec::new(),
        waiting: None,
    })
}

/// A number that did not come on record: its files are of a bundle that does not exist, and go.
fn not_recorded(
    fleet: &Fleet,
    role: &str,
    number: u64,
    files: [&Path; 2],
    error: ProduceError,
) -> ProduceError {
    match fleet.latest(role) {
        Ok(latest)
            if latest
                .as_ref()
                .is_some_and(|latest| latest.number == number) =>
        {
            is_recorded_all_the_same(number, files[1]);
        }
        Ok(_) => {
            for path in files {
                if let Err(problem) = std::fs::remove_file(path) {
                    tracing::warn!(
                        "`{}` is of a bundle that is not on record, and could not be removed: {problem}; remove it",
                        path.display()
                    );
                }
            }
        }
        Err(unknown) => tracing::warn!(
            "whether bundle {number} is on record is not known ({unknown}): `{}` may travel when the next `outhaul bundle` says \
             that number {number} is current",
            files[1].display()
        ),
    }
    error
}

fn is_recorded_all_the_same(number: u64, file: &Path) {
    tracing::warn!(
        "bundle {number} is signed and recorded nevertheless: `{}` may travel",
        file.display()
    );
}

/// Unpacks a bundle for sites that pull it; `index` is the one that was signed.
pub(super) fn publish(
    file: &Path,
    role: &str,
    index: &Content,
    folder: &Path,
    is_newest: bool,
) -> Result<(), DeliverError> {
    let target = format!("{role}/{}.index.json", index.digest.hex());
    deliver::publish_folder(file, index, &target, folder, is_newest)
}
