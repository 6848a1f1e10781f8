//! Enrolment: a site's own signed request becomes a registration when someone approves it.
//!
//! What comes in: a request, signed by the very key that it is about and by the key of the kit that the
//! site was given, which proves that the sender has both. What goes out: a registration, or a request
//! that waits. Approval comes from a person who names the fingerprint (`site add`), from an order in a
//! verified bundle, or from a kit that was announced before (`site expect`), once. A request that waits
//! is never replaced and a conflict is never resolved here; a key that is on record is never replaced
//! without an explicit request.

mod expect;
pub mod orders;
mod registration;
mod waiting;

pub use expect::expect;
pub use waiting::{Selected, named, select, too_short};

pub use crate::registration::{CheckedRequest, EnrolError, Enrolled, approve, check};

use crate::registration::{is_revoked, known_key, refuse_key_of_other};
use outhaul_store::{Registration, RequestOrigin, Session};

/// Approves a request because a person says so: never a second key for a kit that was used.
///
/// # Errors
/// [`EnrolError`] as of [`approve`], and [`EnrolError::KitUsed`] also with `replace`.
pub fn approve_by_hand(
    session: &Session<'_>,
    checked: &CheckedRequest,
    replace: bool,
    now_ms: i64,
) -> Result<Enrolled, EnrolError> {
    refuse_used_kit(session, checked)?;
    approve(session, checked, replace, now_ms)
}

fn refuse_used_kit(session: &Session<'_>, checked: &CheckedRequest) -> Result<(), EnrolError> {
    let site = checked.request.site.as_str();
    let Some(kit) = &checked.kit else {
        return Ok(());
    };
    if session.enrolment(site)?.as_deref() != Some(kit.to_string().as_str()) {
        return Ok(());
    }
    let keys = session.site_keys(site)?;
    let requested = checked.key.id();
    match keys.first() {
        Some(key) if key.key_id != requested => Err(EnrolError::KitUsed {
            site: site.to_owned(),
            registered: key.key_id.clone(),
            requested,
        }),
        _ => Ok(()),
    }
}

/// Takes in a request that nobody looked at: registered when an order approved its key or its kit was
/// announced, else kept until someone approves or rejects it.
///
/// # Errors
/// [`EnrolError`] when the site has another key, was revoked, or is expected with another kit; and when
/// too many wait.
pub fn receive(
    session: &Session<'_>,
    checked: &CheckedRequest,
    origin: RequestOrigin<'_>,
    now_ms: i64,
) -> Result<Enrolled, EnrolError> {
    let site = checked.request.site.as_str();
    if is_revoked(session, checked)? {
        let site = site.to_owned();
        return Err(EnrolError::Revoked { site });
    }
    refuse_key_of_other(session, checked)?;
    let known = session.site(site)?;
    if let Some(known) = &known
        && orders::is_old(session, checked, known, now_ms)?
    {
        return Ok(Enrolled::Already);
    }
    let registered = match &known {
        Some(known) => known_key(session, checked, known, false),
        None => Ok(None),
    };
    if let Ok(Some(already)) = registered {
        return Ok(already);
    }
    if let Some(enrolled) = orders::receive(session, checked, known.as_ref(), now_ms)? {
        return Ok(enrolled);
    }
    if let Some(enrolled) = waiting::expected(session, checked, origin, now_ms)? {
        return Ok(enrolled);
    }
    match registered {
        Err(refusal) => wait_or_refuse(session, checked, known.as_ref(), refusal, origin, now_ms),
        Ok(_) => waiting::keep(session, checked, origin, now_ms),
    }
}

/// A new key that the present one signed waits for its order or for a person, and so does one that
/// proves the very kit of the registered one, because someone should know; any other is refused.
fn wait_or_refuse(
    session: &Session<'_>,
    checked: &CheckedRequest,
    known: Option<&Registration>,
    refusal: EnrolError,
    origin: RequestOrigin<'_>,
    now_ms: i64,
) -> Result<Enrolled, EnrolError> {
    let confirmed = match known {
        Some(known) if known.revoked_ms.is_none() && checked.request.order.is_some() => {
            orders::signed_by_present_key(session, checked, known)?
        }
        _ => false,
    };
    if confirmed || refuse_used_kit(session, checked).is_err() {
        return waiting::keep(session, checked, origin, now_ms);
    }
    Err(refusal)
}
