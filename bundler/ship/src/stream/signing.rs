//! Signing, so that an interruption leaves no key of a stream that never came to be.
//!
//! What comes in: what is to be signed. What goes out: the metadata, with the files of keys that were made
//! for it: they are temporary until the number is on record. It writes nothing itself.

use std::path::PathBuf;

use outhaul_kit::interrupt::{self, Temporary};
use outhaul_signer::durable;
use outhaul_signer::fleet::{Fleet, FleetError};
use outhaul_signer::key::Secret;
use outhaul_signer::publish::{SignRequest, SignedMetadata};

/// Metadata, and what goes when the number does not come on record.
pub(super) type Signed = (SignedMetadata, Vec<Temporary>);

/// Signs; a new stream gets a key.
///
/// # Errors
/// [`FleetError`]
pub(super) fn sign(
    fleet: &Fleet,
    request: SignRequest<'_>,
    secret: &Secret,
) -> Result<Signed, FleetError> {
    let known = keys(fleet)?;
    let _whole = interrupt::finishing();
    let signed = fleet.sign_bundle(request, secret)?;
    let made = keys(fleet)?
        .into_iter()
        .filter(|path| !known.contains(path));
    let made = made.map(|path| interrupt::temporary(&path)).collect();
    Ok((signed, made))
}

fn keys(fleet: &Fleet) -> Result<Vec<PathBuf>, FleetError> {
    Ok(durable::list(&fleet.folder().join("keys"))?)
}
