//! Whether this machine's clock is plausible enough to sign acknowledgements with, and what is odd about it.
//!
//! What comes in: the clock, and the newest time that verified metadata signed. What goes out: nothing, or by
//! how much the clock is off: before what the fleet signed last, or far after. A hub that has seen no bundle
//! yet knows no signed time. And what is odd about it by the hub's own record, which refuses nothing. It never sets a clock.

use jiff::Timestamp;
use outhaul_gate::later;
use outhaul_gate::time::rfc3339;
use outhaul_signer::clock::{Implausible, implausible};
use outhaul_store::{Session, Store, StoreError};

/// How far the clocks of two machines that use one database may be apart.
const APART_MS: u64 = 60 * 1000;

/// What is odd about a clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Odd {
    /// In a sentence.
    pub text: String,
    /// Whether nothing is signed with it.
    pub is_implausible: bool,
}

/// What is wrong with a clock that says `now_ms`, by the newest metadata on record.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn problem(store: &mut Store, now_ms: i64) -> Result<Option<Implausible>, StoreError> {
    let newest = store.read(newest_signed)?;
    let clock = Timestamp::from_millisecond(now_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(newest.and_then(|newest| implausible(clock, newest)))
}

/// What is odd about a clock that says `now_ms`, in a sentence: by the metadata, or by what was put on record before. Where it was
/// put back, times on record are in another order than their numbers, and terms are counted by it all the same.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn check(store: &mut Store, now_ms: i64) -> Result<Option<Odd>, StoreError> {
    if let Some(problem) = problem(store, now_ms)? {
        return Ok(Some(Odd {
            text: problem.to_string(),
            is_implausible: true,
        }));
    }
    let (server_ms, latest_ms) = store.read(|session| {
        let server_ms = session.server_clock_ms()?;
        Ok::<_, StoreError>((server_ms, session.latest_on_record()?))
    })?;
    // Whoever uses the same database has a clock of his own, and one of them is wrong: said before a gate is closed for it.
    if let Some(server_ms) = server_ms.filter(|server_ms| server_ms.abs_diff(now_ms) > APART_MS) {
        return Ok(Some(Odd {
            is_implausible: false,
            text: format!(
                "this machine's clock shows {}, and that of the database's server {}: one of them is wrong; where two processes of a hub are \
                 more than {} minutes apart, the gates of the one that is behind are closed",
                rfc3339(now_ms),
                rfc3339(server_ms),
                later::APART_MS / 60_000
            ),
        }));
    }
    let behind = latest_ms.filter(|latest_ms| now_ms < latest_ms.saturating_sub_unsigned(APART_MS));
    Ok(behind.map(|latest_ms| Odd {
        is_implausible: false,
        text: format!(
            "this machine's clock shows {}, before an entry on record of {}: it was put back, or was ahead then; the order of \
             entries is that of their numbers",
            rfc3339(now_ms),
            rfc3339(latest_ms)
        ),
    }))
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

#[cfg(test)]
mod tests {
    use outhaul_store::AccessEntry;

    use super::*;

    const NOW_MS: i64 = 1_800_000_000_000;

    #[test]
    fn attack_a_clock_that_was_put_back_behind_the_record_is_told_also_after_new_entries() {
        let mut store = Store::in_memory().unwrap();
        let add = |store: &mut Store, at_ms: i64| {
            let entry = AccessEntry {
                at_ms,
                action: "token create".to_owned(),
                ..Default::default()
            };
            store.write(|session| session.add_access(&entry)).unwrap();
        };
        assert_eq!(check(&mut store, NOW_MS).unwrap(), None);
        add(&mut store, NOW_MS);
        assert_eq!(check(&mut store, NOW_MS).unwrap(), None);
        // Two machines that use one database are never together to the second.
        assert_eq!(check(&mut store, NOW_MS - 30_000).unwrap(), None);
        let back_ms = NOW_MS - 3_600_000;
        for _ in 0..3 {
            let odd = check(&mut store, back_ms).unwrap().unwrap();
            assert!(!odd.is_implausible);
            let begin = "this machine's clock shows 2027-01-15T07:00:00Z, before an entry on record of 2027-01-15T08:00:00Z";
            assert!(odd.text.starts_with(begin), "{}", odd.text);
            // What is put on record meanwhile does not hide it.
            add(&mut store, back_ms);
        }
    }
}
