//! Whether this machine's clock is plausible enough to sign acknowledgements with.
//!
//! What comes in: the clock, and the newest time that verified metadata signed. What goes out: nothing, or by
//! how much the clock is off: before what the fleet signed last, or far after. A hub that has seen no bundle
//! yet knows no signed time. It never sets a clock.

use jiff::Timestamp;
use outhaul_signer::clock::{Implausible, implausible};

use crate::store::{Session, Store, StoreError};

/// What is wrong with a clock that says `now_ms`, by the newest metadata on record.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn problem(store: &mut Store, now_ms: i64) -> Result<Option<Implausible>, StoreError> {
    let newest = store.read(newest_signed)?;
    let clock = Timestamp::from_millisecond(now_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(newest.and_then(|newest| implausible(clock, newest)))
}

/// The time that the newest timestamp signed: by the root it stands under and then by its version, so that
/// a wrong time that the fleet took back does not count.
fn newest_signed(session: &Session<'_>) -> Result<Option<Timestamp>, StoreError> {
    let mut newest: Option<((u64, u64), Timestamp)> = None;
    for trusted in session.trusted_timestamps()? {
        let signed = |bytes: &[u8]| {
            let file: serde_json::Value = serde_json::from_slice(bytes).ok()?;
            Some(file["signed"].clone())
        };
        let (Some(root), Some(timestamp)) = (signed(&trusted.root), signed(&trusted.timestamp))
        else {
            continue;
        };
        let version = |file: &serde_json::Value| file["version"].as_u64().unwrap_or(0);
        let issued = timestamp["issued"].as_str().and_then(|at| at.parse().ok());
        let place = (version(&root), version(&timestamp));
        if let Some(issued) = issued
            && newest.is_none_or(|(known, _)| place > known)
        {
            newest = Some((place, issued));
        }
    }
    Ok(newest.map(|(_, issued)| issued))
}
