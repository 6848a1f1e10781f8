//! A stream that needs someone else's signature: what waits for it, and what ships once it is there.
//!
//! What comes in: the fleet's word on what waits, and a bundle as it was just built. What goes out: the kept
//! bundle to ship, the request to wait for, or nothing. What was signed ships as it was kept, also when the
//! control plane moved on meanwhile; the same content asks for no second signature, other content asks
//! again under a new number.

use std::path::PathBuf;

use outhaul_bundle::Digest;
use outhaul_signer::durable;
use outhaul_signer::fleet::{Fleet, FleetError};
use outhaul_signer::publish::Pending;

use super::built::Built;
use super::plan::StreamContents;
use super::{
    AwaitedSignature, BundleRequest, ProduceError, Produced, ShippedError, authenticated, shipped,
};
use crate::assemble::{UnsignedBundle, waiting};
use outhaul_record::record::Record;
use outhaul_sites::Sites;
use outhaul_sites::readers::{self, NamedRecipient};

/// The file that shows whether what is built now is what waits.
const PLAIN: &str = "content";
/// Ending of the folders in which bundles wait.
const ENDING: &str = "contents";

/// A bundle with enough signatures, as it was kept.
#[derive(Debug)]
pub(super) struct CountersignedBundle {
    pub(super) pending: Pending,
    pub(super) bundle: UnsignedBundle,
    pub(super) last: Record,
    /// Digest of it before it was sealed.
    pub(super) plain: Digest,
}

impl CountersignedBundle {
    /// Whether what waited may be shipped: not when a site that it was sealed for was revoked meanwhile. Where other readers are named now
    /// the bundle is made again for them.
    ///
    /// # Errors
    /// [`ProduceError::Revoked`] where nobody is named: nothing that was to be sealed is shipped open instead.
    pub(super) fn may_ship(
        &self,
        fleet: &Fleet,
        request: &BundleRequest<'_>,
    ) -> Result<bool, ProduceError> {
        let problems = readers::revoked_since(&self.bundle.index, &Sites::of(fleet).all()?);
        if problems.is_empty() || request.readers.is_some() {
            return Ok(problems.is_empty());
        }
        let number = self.pending.number;
        Err(ProduceError::Revoked { number, problems })
    }
}

/// What waits for the stream `role`, as long as it could still be installed.
pub(super) fn pending(
    fleet: &Fleet,
    role: &str,
    request: &BundleRequest<'_>,
) -> Result<Option<Pending>, ProduceError> {
    let found = fleet.pending(role)?;
    Ok(found.filter(|pending| pending.expires > request.issued))
}

/// The bundle that waited, when enough signatures are there.
pub(super) fn ready(
    fleet: &Fleet,
    role: &str,
    pending: &Pending,
) -> Result<Option<CountersignedBundle>, ProduceError> {
    if !pending.is_complete() {
        return Ok(None);
    }
    let folder = folder(fleet, role, pending.number);
    let bundle = UnsignedBundle::kept(&folder, &Digest::from_bytes(pending.index))?;
    let last = shipped::read(fleet, &folder, role)?;
    if let (Some(bundle), Some(last)) = (&bundle, &last)
        && let Some(id) = authenticated::differs(&bundle.index, last)
    {
        return Err(ShippedError::Waiting { folder, id }.into());
    }
    let plain = durable::read_if_present(&folder.join(PLAIN), 1024).map_err(FleetError::from)?;
    let plain = plain
        .and_then(|hex| Digest::from_hex(std::str::from_utf8(&hex).ok()?).ok())
        // A lost record costs the same bytes for a second stick, and nothing else.
        .unwrap_or_else(|| Digest::of(b""));
    Ok(bundle.zip(last).map(|(bundle, last)| CountersignedBundle {
        pending: pending.clone(),
        bundle,
        last,
        plain,
    }))
}

/// Whether `built` is what waits, so that the request stands.
pub(super) fn is_waiting(
    fleet: &Fleet,
    role: &str,
    pending: &Pending,
    built: &Built,
) -> Result<bool, ProduceError> {
    let folder = folder(fleet, role, pending.number);
    let plain = durable::read_if_present(&folder.join(PLAIN), 1024).map_err(FleetError::from)?;
    let same = plain.is_some_and(|plain| plain == built.plain.hex().as_bytes());
    Ok(same && UnsignedBundle::kept(&folder, &Digest::from_bytes(pending.index))?.is_some())
}

/// Keeps `built` under its number until it is signed, in the place of what waited before.
pub(super) fn keep(
    fleet: &Fleet,
    role: &str,
    number: u64,
    built: &Built,
    last: &Record,
) -> Result<(), ProduceError> {
    let kept = folder(fleet, role, number);
    built.bundle.keep(&kept)?;
    shipped::write(last, &kept, role)?;
    let plain = built.plain.hex();
    durable::write(&kept.join(PLAIN), plain.as_bytes(), durable::SECRET_MODE)
        .map_err(FleetError::from)?;
    forget_before(fleet, role, number)
}

/// Removes what waited for signatures of numbers below `number`: requests, answers, contents.
pub(super) fn forget_before(fleet: &Fleet, role: &str, number: u64) -> Result<(), ProduceError> {
    let folder = fleet.request_folder();
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let rest = name.split_once('.');
        let older = rest.is_some_and(|(digits, rest)| {
            digits.parse::<u64>().is_ok_and(|found| found < number)
                && rest.starts_with(&format!("{role}."))
        });
        if older && entry.path().is_dir() {
            waiting::remove(&entry.path())?;
        } else if older {
            // A file that is gone already is what is wanted.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// A stream whose bundle is made, and waits for someone else's signature; with why it was made although nothing changed.
pub(super) fn waits(
    plan: &StreamContents<'_>,
    built: &Built,
    number: u64,
    (waiting, because): (AwaitedSignature, Option<String>),
) -> Produced {
    Produced {
        cluster_type: plan.cluster_type.to_owned(),
        number,
        changed: false,
        file: None,
        bytes: 0,
        content_bytes: built.bundle.index.content_bytes(),
        assignments: plan.assignments.len(),
        suppressed: None,
        because,
        restored: Vec::new(),
        waiting: Some(waiting),
    }
}

/// A digest of what the bundle holds and for whom, before it is sealed: no two seals are alike.
pub(super) fn plain_digest(bundle: &UnsignedBundle, readers: Option<&[NamedRecipient]>) -> Digest {
    let mut text = Digest::of(&bundle.index_bytes).hex();
    for reader in readers.unwrap_or_default() {
        text.push_str(&format!("\n{} {}", reader.name, reader.key));
    }
    Digest::of(text.as_bytes())
}

fn folder(fleet: &Fleet, role: &str, number: u64) -> PathBuf {
    let name = format!("{number}.{role}.{ENDING}");
    fleet.request_folder().join(name)
}
