//! Orders to sites, as far as they concern the hub: whose reports it takes, and where it expects them.
//!
//! What comes in: the orders of a verified bundle, requests, and reports of orders carried out. What
//! goes out: a revoked site, an approved or exchanged key, a site in another stream. Only an order that
//! a bundle brought counts, and only for the enrolment that it names.

use outhaul_bundle::report::{ENROLMENT_PAYLOAD_TYPE, Event, Report};
use outhaul_bundle::{Digest, Instruction, Order};
use outhaul_signer::key::PublicKey;

use crate::enrol::{self, CheckedRequest, EnrolError, Enrolled};
use crate::store::{Registration, Session, StoreError};

/// Records what a verified bundle orders, and does what concerns the hub.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn record(
    session: &Session<'_>,
    orders: &[Order],
    fleet: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    for order in orders {
        if !session.add_order(order, now_ms)? {
            continue;
        }
        let site = order.site.as_str();
        match &order.what {
            Instruction::Revoke => {
                let present = session.enrolment(site)?;
                if present.is_none_or(|present| present == order.enrolment.to_string()) {
                    session.revoke_site(site, now_ms)?;
                }
            }
            Instruction::Approve { key } => approve_waiting(session, site, *key, fleet, now_ms)?,
            _ => {}
        }
    }
    Ok(())
}

/// A request that came before its approval.
fn approve_waiting(
    session: &Session<'_>,
    site: &str,
    key: Digest,
    fleet: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    let waiting = session.pending_requests()?;
    let Some(request) = waiting.into_iter().find(|request| request.site == site) else {
        return Ok(());
    };
    let Ok(checked) = enrol::check(&request.envelope, fleet) else {
        return Ok(());
    };
    if checked.key.id() != key.hex() {
        return Ok(());
    }
    match enrol::approve(session, &checked, true, now_ms) {
        Err(EnrolError::Store(error)) => Err(error),
        // It stays waiting, and a person decides.
        _ => Ok(()),
    }
}

/// Whether a bundle said before that the key of this request is to be believed.
///
/// # Errors
/// [`EnrolError`] when the store fails or the request cannot be registered.
pub fn receive(
    session: &Session<'_>,
    checked: &CheckedRequest,
    known: Option<&Registration>,
    now_ms: i64,
) -> Result<Option<Enrolled>, EnrolError> {
    let request = &checked.request;
    let site = request.site.as_str();
    let believed = match (request.order, known) {
        (Some(number), Some(known)) => ordered(session, checked, known, number)?,
        (None, _) => {
            let enrolment = Digest::of(request.token.as_bytes()).to_string();
            let approved = session.orders_of(site, &enrolment, "approve")?;
            let id = checked.key.id();
            approved
                .iter()
                .any(|what| matches!(what, Instruction::Approve { key } if key.hex() == id))
        }
        (Some(_), None) => false,
    };
    if !believed {
        return Ok(None);
    }
    enrol::approve(session, checked, true, now_ms).map(Some)
}

/// Whether the new key was ordered and the present one signed the request, too.
fn ordered(
    session: &Session<'_>,
    checked: &CheckedRequest,
    known: &Registration,
    number: u64,
) -> Result<bool, StoreError> {
    let Some(enrolment) = session.enrolment(&known.site)? else {
        return Ok(false);
    };
    let order = session.order(&known.site, &enrolment, number)?;
    Ok(order == Some(Instruction::Rekey)
        && known.revoked_ms.is_none()
        && signed_by_present_key(session, checked, known)?)
}

/// Whether the key that is registered now signed the request as well.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn signed_by_present_key(
    session: &Session<'_>,
    checked: &CheckedRequest,
    known: &Registration,
) -> Result<bool, StoreError> {
    let keys = session.site_keys(&known.site)?;
    let Some(present) = keys
        .first()
        .and_then(|key| PublicKey::from_pem(&key.public_key).ok())
    else {
        return Ok(false);
    };
    let signed = checked
        .signed
        .verify(ENROLMENT_PAYLOAD_TYPE, std::slice::from_ref(&present));
    Ok(signed.is_ok())
}

/// What a report of an order carried out changes here.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn reported(session: &Session<'_>, report: &Report) -> Result<(), StoreError> {
    let Event::OrderDone { number, .. } = &report.event else {
        return Ok(());
    };
    let site = report.site.as_str();
    let Some(enrolment) = session.enrolment(site)? else {
        return Ok(());
    };
    if let Some(Instruction::Move { to, .. }) = session.order(site, &enrolment, *number)? {
        session.move_site(site, &to)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
