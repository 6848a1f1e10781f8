//! Acknowledgements on a stick: `acks/<site>.acks`, one file for each site.
//!
//! What comes in: a folder, and which sites. What goes out: the files that were written, and why others were not: what is planted in
//! the place of one site's file keeps no other site from its acknowledgements. No link is followed, and nothing else is written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use outhaul_kit::durable::{self, FileError};
use outhaul_kit::media::Media;
use outhaul_kit::text;
use outhaul_place::PlaceRefused;

use crate::error::HubError;
use crate::ingest::Complete;
use crate::state::Hub;
use crate::store::StoreError;

/// What was written.
#[derive(Debug, Default)]
pub struct WrittenAcks {
    /// The files.
    pub files: Vec<String>,
    /// Why those of other sites were not written, each with its path.
    pub failed: Vec<String>,
}

/// Writes `acks/<site>.acks` below `folder`, for `only` these sites or for all.
///
/// # Errors
/// [`HubError::File`] when no file could be written.
pub fn write_acks(
    hub: &mut Hub,
    folder: &Path,
    only: Option<&BTreeSet<String>>,
    now_ms: i64,
) -> Result<WrittenAcks, HubError> {
    let media = Media::open(folder)?;
    refuse_place(&media)?;
    write_acks_to(hub, &media, only, now_ms)
}

/// Refuses a folder of someone as one that acknowledgements are written into. A link to a stick is one more name of it.
pub(super) fn refuse_place(media: &Media) -> Result<(), PlaceRefused> {
    outhaul_place::refuse_folder(&outhaul_kit::belongs::resolved(media.path()))
}

pub(super) fn write_acks_to(
    hub: &mut Hub,
    media: &Media,
    only: Option<&BTreeSet<String>>,
    now_ms: i64,
) -> Result<WrittenAcks, HubError> {
    let chains = hub.store.read(|session| {
        let chains = session.acknowledged()?;
        let complete = |(site, epoch, number)| Complete::at(session, site, epoch, number);
        chains
            .into_iter()
            .map(complete)
            .collect::<Result<Vec<_>, StoreError>>()
    })?;
    let wanted = |complete: &Complete| only.is_none_or(|only| only.contains(&complete.site));
    let chains: Vec<_> = chains.into_iter().filter(wanted).collect();
    let signed = hub.acknowledge(&chains, now_ms)?;
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (complete, ack) in chains.into_iter().zip(signed) {
        let bytes = files.entry(complete.site).or_default();
        bytes.extend_from_slice(ack.to_json().trim_ascii());
        bytes.push(b'\n');
    }
    let mut written = WrittenAcks::default();
    let mut first: Option<FileError> = None;
    for (site, bytes) in files {
        let path = Path::new("acks").join(format!("{site}.acks"));
        match media.write(&path, &bytes, durable::PUBLIC_MODE) {
            Ok(()) => written.files.push(text::path(&media.path().join(path))),
            Err(error) => {
                written.failed.push(error.to_string());
                first.get_or_insert(error);
            }
        }
    }
    if let Some(error) = first.filter(|_| written.files.is_empty()) {
        return Err(error.into());
    }
    media.sync()?;
    Ok(written)
}
