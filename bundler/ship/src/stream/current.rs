//! What a run does when the content is the one that was signed last: the same bundle for another stick.
//!
//! What comes in: the bundle as it would be built now, the fleet's record of the last one, and where it is
//! wanted. What goes out: the same bytes once more, or that they are not available any more or were signed before keys were
//! changed: a bundle cannot be signed twice alike, so that it then takes a new number, with the reason. Nothing is left unsaid.

use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::BundleReader;
use outhaul_signer::durable;
use outhaul_signer::fleet::{Fleet, StatementSigner};
use outhaul_signer::publish::Latest;

use super::built::{Built, record_of};
use super::elsewhere;
use super::plan::StreamContents;
use super::recording::{file_of, publish};
use super::shelf::{self, Signed, StoredBundle};
use super::{BundleRequest, ProduceError, Produced, authenticated, shipped};
use crate::deliver;
use crate::deliver::published::{self, TimestampThere};
use outhaul_attest::inspect::CheckOnly;

/// What became of the question.
pub(super) enum Current {
    /// The content is another one.
    Changed,
    /// The content is the same, and its bundle is gone, or sites need one that the keys of now signed.
    Lost {
        /// Why.
        why: String,
        /// Whether the content is that of the index that was signed: by a record beside it alone nothing of it is known.
        signed: bool,
    },
    /// The bundle is where it is wanted.
    Same(Produced),
}

/// Hands out the current bundle again, when what would be built has its content.
///
/// The same content under the number that was signed last has the digest that was signed. What is sealed
/// has another one each time, so that its digest before is on record. `outdated` says why it is not handed out again in any case.
pub(super) fn again(
    fleet: &Fleet,
    request: &BundleRequest<'_>,
    plan: &StreamContents<'_>,
    environment: &str,
    latest: &Latest,
    (same, signer, outdated): (&Built, &StatementSigner, Option<&str>),
) -> Result<Current, ProduceError> {
    let role = &plan.role;
    let kept = StoredBundle::read(fleet.folder(), role).map_err(ProduceError::Keep)?;
    let kept = kept.filter(|kept| kept.is_of(latest.number, same.plain));
    // One that is wanted sealed is not the one that was signed open.
    let signed = request.readers.is_none()
        && *Digest::of(&same.bundle.index_bytes).as_bytes() == latest.index;
    // What is not sealed is the one that was signed, or another; of what is sealed the kept bundle says what it holds.
    if !signed && (request.readers.is_none() || kept.is_none()) {
        return Ok(Current::Changed);
    }
    let record = record_of(environment, plan, same, latest, signer)?;
    if !signed
        && let Some(index) = authenticated::signed_index(fleet, role, latest)
            .ok()
            .flatten()
        && authenticated::differs(&index, &record).is_some()
    {
        return Ok(Current::Changed);
    }
    if let Some(why) = outdated {
        let why = why.to_owned();
        return Ok(Current::Lost { why, signed });
    }
    let to = file_of(request, plan.cluster_type, environment, latest.number);
    let own = shelf::bundle(fleet.folder(), role, latest.number);
    let index = Content {
        digest: Digest::of(&same.bundle.index_bytes),
        size: same.bundle.index_bytes.len() as u64,
    };
    let written = match &kept {
        Some(kept) => {
            match kept.hand_out(fleet.folder(), role, &Signed::of(fleet, latest)?, &to)? {
                Some(false) if !own.is_file() => {
                    // What is here is the very bundle that is to be kept.
                    shelf::prepare(fleet.folder()).map_err(ProduceError::Keep)?;
                    deliver::copy_file(&to, &own)?;
                    Some(false)
                }
                written => written,
            }
        }
        // Nothing is known of its bytes, but the index that was signed names every one of them.
        None if signed && is_whole(&to, &index) => {
            shelf::prepare(fleet.folder()).map_err(ProduceError::Keep)?;
            deliver::copy_file(&to, &own)?;
            let kept = StoredBundle::of(latest.number, same.plain, &own)?;
            kept.write(fleet.folder(), role)
                .map_err(ProduceError::Keep)?;
            Some(false)
        }
        None => None,
    };
    let Some(written) = written else {
        let what = match own.exists() {
            true => "was changed",
            false => "is gone",
        };
        let why = format!(
            "nothing changed, but the fleet's copy of number {} (`{}`) {what}, and a bundle cannot be signed \
             twice alike",
            latest.number,
            own.display()
        );
        return Ok(Current::Lost { why, signed });
    };
    // It may be missing after a power cut.
    if plan.last.as_ref() != Some(&record) {
        shipped::write(&record, fleet.folder(), role)?;
    }
    let restored = match request.publish {
        Some(folder) => publish_again(fleet, latest, (&to, role), folder)?,
        None => Vec::new(),
    };
    let file = written.then_some(to);
    let size = |file: &std::path::PathBuf| std::fs::metadata(file).map_or(0, |meta| meta.len());
    Ok(Current::Same(Produced {
        cluster_type: plan.cluster_type.to_owned(),
        number: latest.number,
        changed: false,
        bytes: file.as_ref().map_or(0, size),
        file,
        content_bytes: same.bundle.index.content_bytes(),
        assignments: same.bundle.index.assignments.len(),
        suppressed: None,
        because: None,
        restored,
        waiting: None,
    }))
}

/// Publishes the bundle in the file `bundle` to `folder` once more where something of it is missing there or was changed: what, in
/// sentences.
fn publish_again(
    fleet: &Fleet,
    latest: &Latest,
    (bundle, role): (&Path, &str),
    folder: &Path,
) -> Result<Vec<String>, ProduceError> {
    let index = Content {
        digest: Digest::from_bytes(latest.index),
        size: latest.length,
    };
    elsewhere::refused(folder, &elsewhere::at(fleet, folder)?)?;
    let differs =
        published::difference(bundle, &index, role, folder).map_err(ProduceError::publishing)?;
    let is_signed = |bytes: &[u8]| fleet.has_signed_timestamp(bytes).unwrap_or(true);
    let timestamp =
        published::leads_to(bundle, folder, &is_signed).map_err(ProduceError::publishing)?;
    let is_foreign = timestamp == TimestampThere::Foreign;
    // Nothing of this number lies there: it was never published there, and nothing of it was lost.
    let is_new =
        !published::was_there(bundle, &index, role, folder).map_err(ProduceError::publishing)?;
    let mut restored = Vec::new();
    if is_foreign {
        restored.push(format!(
            "`{}` was not signed by this fleet, so that every site refused it; the one of number {} took its place: see who else \
             writes to that folder",
            folder.join(deliver::timestamp_path()).display(),
            latest.number
        ));
    }
    match &differs {
        None if timestamp == TimestampThere::AsNew => return Ok(restored),
        None if timestamp == TimestampThere::Older => restored.push(format!(
            "`{}` did not lead to number {}, and was written again",
            folder.join(deliver::timestamp_path()).display(),
            latest.number
        )),
        Some(_) if is_new => restored.push(format!(
            "number {} was not in `{}`, and was published there",
            latest.number,
            folder.display()
        )),
        Some(path) => restored.push(format!(
            "`{}` was missing or is not as number {} has it, and was written again, with what else was",
            folder.join(path).display(),
            latest.number
        )),
        _ => {}
    }
    publish(bundle, role, &index, folder, is_foreign).map_err(ProduceError::publishing)?;
    Ok(restored)
}

/// Whether the file is a whole bundle with the index `expected`.
fn is_whole(path: &Path, expected: &Content) -> bool {
    let Ok(file) = durable::open_file(path) else {
        return false;
    };
    let mut reader = BundleReader::new(file, Limits::default());
    reader.read_metadata().is_ok()
        && reader
            .read_index(expected)
            .is_ok_and(|(index, _)| reader.read_blobs(&index, &mut CheckOnly).is_ok())
}
