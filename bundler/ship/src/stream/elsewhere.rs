//! Whether bundles of a fleet may be published at a place: not where another fleet's lie, nor over what is newer than the fleet's record.
//!
//! What comes in: the fleet, and what lies at the place. What goes out: a refusal that names the place, before anything is signed or
//! written. It decides nothing about single files: [`crate::deliver::published`] compares those.

use std::path::Path;

use outhaul_kit::media::Media;
use outhaul_signer::fleet::Fleet;
use outhaul_signer::published::{PublicationThere, PublishedElsewhere};

use super::ProduceError;

/// What lies in `folder`, seen from `fleet`.
///
/// # Errors
/// [`ProduceError`] when the folder or the fleet cannot be read.
pub fn at(fleet: &Fleet, folder: &Path) -> Result<PublicationThere, ProduceError> {
    if !folder.exists() {
        return Ok(PublicationThere::Nothing);
    }
    let media = Media::open(folder).map_err(ProduceError::Published)?;
    fleet.publication_at(&mut |name, max_bytes| {
        let path = Path::new("metadata").join(name);
        media
            .read(&path, max_bytes)
            .map_err(ProduceError::Published)
    })
}

/// Refuses `folder` as a place for new numbers of `fleet`. What is newer there, while higher versions were used here already, is replaced: so it is
/// after a restored fleet left out versions.
///
/// # Errors
/// [`ProduceError::Elsewhere`]
pub fn refuse(fleet: &Fleet, folder: &Path) -> Result<(), ProduceError> {
    let there = at(fleet, folder)?;
    if let PublicationThere::Newer { there, used, .. } = there
        && there <= used
    {
        tracing::warn!(
            "`{}` has metadata version {there}, signed with this fleet's keys, which is not on record here: a new number (`outhaul bundle --renew`) replaces it",
            folder.display()
        );
        return Ok(());
    }
    refused(folder, &there)
}

/// Refuses `folder` where `there` lies, when that is not this fleet's, or newer than its record.
///
/// # Errors
/// [`ProduceError::Elsewhere`]
pub fn refused(folder: &Path, there: &PublicationThere) -> Result<(), ProduceError> {
    let place = folder.display().to_string();
    PublishedElsewhere::of(&place, there).map_or(Ok(()), |refusal| Err(refusal.into()))
}
