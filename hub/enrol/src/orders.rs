//! Orders to sites, as far as they concern the hub: whose reports it takes, and where it expects them.
//!
//! What comes in: the orders of a verified bundle, requests, and reports of orders carried out, in any
//! order of arrival: whichever of two comes last finds the other on record and has the same effect. What
//! goes out: a revoked site, an approved or exchanged key, a site in another stream. Only an order that
//! a bundle brought counts, and only for the enrolment that it names.

use outhaul_bundle::report::{ENROLMENT_PAYLOAD_TYPE, Report, ReportEvent};
use outhaul_bundle::{Digest, Instruction, Order};
use outhaul_signer::key::PublicKey;

use crate::registration::{
    self, CheckedRequest, EnrolError, Enrolled, enrolment_of, finish_moves, is_revoked,
};
use outhaul_store::{Carrier, Registration, Session, StoreError};

/// Records what a verified bundle orders, and does what concerns the hub.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn record(
    session: &Session<'_>,
    orders: &[Order],
    carrier: &Carrier<'_>,
    fleet: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    for order in orders {
        if !session.add_order(order, carrier, now_ms)? {
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
            Instruction::Approve { key } => {
                accept_waiting(session, site, fleet, now_ms)?;
                adopt_enrolment(session, site, &order.enrolment.to_string(), key, now_ms)?;
            }
            Instruction::Rekey => accept_waiting(session, site, fleet, now_ms)?,
            Instruction::Move { .. } => finish_moves(session, site)?,
            _ => {}
        }
    }
    Ok(())
}

/// A request that came before the order by which it is trusted.
fn accept_waiting(
    session: &Session<'_>,
    site: &str,
    fleet: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    for request in session.requests_of(site)? {
        let Ok(checked) = registration::check(&request.envelope, fleet) else {
            continue;
        };
        let received = receive(session, &checked, session.site(site)?.as_ref(), now_ms);
        // Any other refusal: it stays waiting, and a person decides.
        if let Err(EnrolError::Store(error)) = received {
            return Err(error);
        }
    }
    Ok(())
}

/// Whether a request has only what the hub knows already: a stick that is read again, or one from
/// before the site moved or made a new key.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn is_old(
    session: &Session<'_>,
    checked: &CheckedRequest,
    known: &Registration,
    now_ms: i64,
) -> Result<bool, StoreError> {
    if known.revoked_ms.is_some() {
        return Ok(false);
    }
    let requested = checked.key.id();
    let keys = session.site_keys(&known.site)?;
    let place = keys.iter().position(|key| key.key_id == requested);
    let Some(asked) = enrolment_of(session, checked)? else {
        return Ok(false);
    };
    if place == Some(0)
        && let Ok(key) = Digest::from_hex(&requested)
    {
        adopt_enrolment(session, &known.site, &asked, &key, now_ms)?;
    }
    let present = session.enrolment(&known.site)?;
    if present.as_ref() != Some(&asked) {
        return Ok(false);
    }
    Ok(match place {
        None => false,
        Some(0) => session.last_move(&known.site, &asked)?.is_some(),
        Some(_) => true,
    })
}

/// Whether a bundle said before that the key of this request is to be trusted.
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
    let Some(asked) = enrolment_of(session, checked)? else {
        return Ok(None);
    };
    let approved = match Digest::from_hex(&checked.key.id()) {
        Ok(key) => session.approval(site, &asked, Some(&key))?,
        Err(_) => None,
    };
    let trusted = match (request.order, known) {
        (Some(number), Some(known)) if known.revoked_ms.is_none() => {
            is_later(session, &known.site, &asked, approved)?
                || ordered(session, checked, known, number)?
        }
        (None, Some(known)) => is_later(session, &known.site, &asked, approved)?,
        (None, None) => approved.is_some(),
        (Some(_), _) => false,
    };
    if !trusted || is_revoked(session, checked)? {
        return Ok(None);
    }
    registration::approve(session, checked, true, now_ms).map(Some)
}

/// Whether an enrolment of a registered site was approved after its present one. Of the present one,
/// only what no revocation ended goes on.
fn is_later(
    session: &Session<'_>,
    site: &str,
    asked: &str,
    approved: Option<(i64, i64)>,
) -> Result<bool, StoreError> {
    let Some(present) = session.enrolment(site)? else {
        return Ok(approved.is_some());
    };
    let revoked = session.site(site)?.is_some_and(|s| s.revoked_ms.is_some());
    if present != asked {
        return Ok(approved > session.approval(site, &present, None)?);
    }
    // Two keys were approved for one kit: the later approval counts.
    let keys = session.site_keys(site)?;
    let in_use = keys
        .first()
        .and_then(|key| Digest::from_hex(&key.key_id).ok());
    let counts = match in_use {
        Some(key) => session.approval(site, asked, Some(&key))?,
        None => None,
    };
    Ok(!revoked && approved > counts)
}

/// A site that was enrolled with a new kit keeps its key; the approval says for which enrolment it
/// counts from now on.
fn adopt_enrolment(
    session: &Session<'_>,
    site: &str,
    asked: &str,
    key: &Digest,
    now_ms: i64,
) -> Result<(), StoreError> {
    let keys = session.site_keys(site)?;
    let in_use = keys.first().is_some_and(|first| first.key_id == key.hex());
    let approved = session.approval(site, asked, Some(key))?;
    let revoked = session.site(site)?.is_none_or(|s| s.revoked_ms.is_some());
    if !in_use
        || revoked
        || approved.is_none()
        || session.enrolment(site)?.as_deref() == Some(asked)
    {
        return Ok(());
    }
    if is_later(session, site, asked, approved)? {
        session.set_enrolment(site, asked)?;
        if session.revocation_ordered(site, asked)? {
            session.revoke_site(site, now_ms)?;
        }
        finish_moves(session, site)?;
    }
    Ok(())
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
    Ok(order == Some(Instruction::Rekey) && signed_by_present_key(session, checked, known)?)
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

/// What a report of an order carried out changes here; it is on record already.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn reported(session: &Session<'_>, report: &Report) -> Result<(), StoreError> {
    match &report.event {
        ReportEvent::OrderDone { .. } => finish_moves(session, report.site.as_str()),
        _ => Ok(()),
    }
}
