//! Until when what is signed may be installed: one rule for a bundle and for a slip that names it.
//!
//! What comes in: a time of issue, what was asked for, and what the delivery policies say or said. What goes out: when it expires. It reads
//! no clock. A slip is made without a control plane: what the policies say is what the bundle that it names was given.

use jiff::{SignedDuration, Timestamp};
use outhaul_control::model::{EXPIRES_DAYS, EXPIRES_DAYS_DEFAULT};
use outhaul_signer::publish::Latest;

use super::ProduceError;

const HOURS: i64 = 24;

/// Of a bundle: as many days as it was `asked` for, else as the delivery `policies` say, else 180.
///
/// # Errors
/// [`ProduceError::Expiry`]
pub fn of_bundle(
    issued: Timestamp,
    asked: Option<u32>,
    policies: Option<u32>,
) -> Result<Timestamp, ProduceError> {
    let given = asked.or(policies).unwrap_or(EXPIRES_DAYS_DEFAULT);
    after(issued, days(given))
}

fn days(count: u32) -> SignedDuration {
    SignedDuration::from_hours(HOURS * i64::from(count))
}

/// Of a slip that names the bundle `latest`: as it was `asked` for, else as long after its own issue as the bundle was given. What a slip
/// signs are dates of metadata that all streams share, and those are never shortened: a date before the bundle's own has no effect.
///
/// # Errors
/// [`ProduceError::Expiry`], [`ProduceError::Shorter`], [`ProduceError::Longer`]
pub fn of_slip(
    issued: Timestamp,
    asked: Option<Timestamp>,
    latest: &Latest,
) -> Result<Timestamp, ProduceError> {
    match asked {
        Some(asked) if asked < latest.expires => Err(ProduceError::Shorter {
            asked,
            expires: latest.expires,
        }),
        Some(asked) if asked > after(issued, days(*EXPIRES_DAYS.end()))? => {
            Err(ProduceError::Longer {
                asked,
                days: *EXPIRES_DAYS.end(),
            })
        }
        Some(expires) => Ok(expires),
        None => after(issued, latest.expires.duration_since(latest.issued)),
    }
}

fn after(issued: Timestamp, given: SignedDuration) -> Result<Timestamp, ProduceError> {
    let days = u32::try_from(given.as_hours() / HOURS).unwrap_or_default();
    issued
        .checked_add(given)
        .map_err(|_| ProduceError::Expiry { issued, days })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn bundle(issued: &str, expires: Timestamp) -> Latest {
        Latest {
            number: 1,
            index: [0; 32],
            length: 1,
            issued: at(issued),
            expires,
        }
    }

    #[test]
    fn what_was_asked_for_goes_before_policies_and_those_before_180_days() {
        let issued = at("2026-11-21T12:00:00Z");
        let of = |asked, policies| of_bundle(issued, asked, policies).unwrap().to_string();
        assert_eq!(of(Some(1), Some(30)), "2026-11-22T12:00:00Z");
        assert_eq!(of(None, Some(30)), "2026-12-21T12:00:00Z");
        assert_eq!(of(None, None), "2027-05-20T12:00:00Z");
        assert!(of_bundle(Timestamp::MAX, None, None).is_err());
    }

    #[test]
    fn a_slip_is_good_for_as_long_as_the_policies_gave_the_bundle_that_it_names() {
        let issued = "2026-11-21T12:00:00Z";
        let expires = of_bundle(at(issued), None, Some(30)).unwrap();
        let latest = bundle(issued, expires);
        let later = at("2026-12-01T12:00:00Z");
        let of = |asked| of_slip(later, asked, &latest).unwrap();
        assert_eq!(of(None), at("2026-12-31T12:00:00Z"));
        let beyond = at("2036-01-01T00:00:00Z");
        assert_eq!(of(Some(beyond)), beyond, "asked for");
        let longer = of_slip(later, Some(at("2037-01-01T00:00:00Z")), &latest);
        assert!(matches!(longer, Err(ProduceError::Longer { .. })));
        assert_eq!(of(Some(expires)), expires, "the bundle's own date");
        let shorter = of_slip(later, Some(later), &latest)
            .unwrap_err()
            .to_string();
        assert!(shorter.contains("at 2026-12-01T12:00:00Z"), "{shorter}");
        assert!(shorter.contains("until 2026-12-21T12:00:00Z"), "{shorter}");
        assert!(of_slip(Timestamp::MAX, None, &latest).is_err());
    }
}
