//! A kit that is announced: the site that comes with it is registered without a person, once.
//!
//! What comes in: a site, the id of a kit, and a request that proves it. What goes out: the kit on record as expected, whether the site is
//! revoked, or why not; and an entry of a registration by it. The kit that the site was enrolled with last is not expected again, and
//! a key that was taken from the site does not come back by one.

use outhaul_store::{AccessEntry, RequestOrigin, Session, StoreError};

use crate::registration::{CheckedRequest, EnrolError, Enrolled};

/// Announces a kit for a site. Returns since when the site is revoked, where it is. `kit`: 64 hexadecimal digits.
///
/// # Errors
/// [`EnrolError::KitSpent`] when the site was enrolled with this kit.
pub fn expect(
    session: &Session<'_>,
    site: &str,
    kit: &str,
    now_ms: i64,
) -> Result<Option<i64>, EnrolError> {
    let known = session.site(site)?;
    let revoked_ms = known.as_ref().and_then(|known| known.revoked_ms);
    let enrolment = session.enrolment(site)?;
    // Digests are kept with the name of their algorithm.
    let is_used = enrolment.is_some_and(|used| used.trim_start_matches("sha256:") == kit);
    if known.is_some() && is_used {
        return Err(EnrolError::KitSpent {
            site: site.to_owned(),
            kit: kit.to_owned(),
            is_revoked: revoked_ms.is_some(),
        });
    }
    session.expect_site(site, kit, now_ms)?;
    Ok(revoked_ms)
}

/// Refuses a key that the site had before it was revoked, or before its present one.
pub(crate) fn refuse_key_of_before(
    session: &Session<'_>,
    checked: &CheckedRequest,
) -> Result<(), EnrolError> {
    let site = checked.request.site.as_str();
    let Some(known) = session.site(site)? else {
        return Ok(());
    };
    let requested = checked.key.id();
    let keys = session.site_keys(site)?;
    match keys.iter().position(|key| key.key_id == requested) {
        Some(place) if place > 0 || known.revoked_ms.is_some() => Err(EnrolError::KeyOfBefore {
            site: site.to_owned(),
            key: requested,
        }),
        _ => Ok(()),
    }
}

/// Puts on record that a site was registered by an announced kit.
pub(crate) fn put_on_record(
    session: &Session<'_>,
    checked: &CheckedRequest,
    (origin, enrolled): (RequestOrigin<'_>, Enrolled),
    now_ms: i64,
) -> Result<(), StoreError> {
    let (request, kit) = (&checked.request, checked.kit.map(|kit| kit.hex()));
    let stream = &request.stream;
    let what = match enrolled {
        Enrolled::Rekeyed => "new key",
        _ => "key",
    };
    session.add_access(&AccessEntry {
        id: 0,
        at_ms: now_ms,
        who: request.site.to_string(),
        how: "expected kit".to_owned(),
        peer: origin.peer.to_owned(),
        action: "site registered".to_owned(),
        detail: format!(
            "`{}` of {}/{}, {what} {}, kit {}",
            request.site,
            stream.environment,
            stream.cluster_type,
            checked.key.id(),
            kit.unwrap_or_default()
        ),
        allowed: true,
    })
}
