//! Requests that wait: kept side by side within bounds, and found again by name and fingerprint.
//!
//! What comes in: checked requests that nothing approves by itself. What goes out: rows that a person sees
//! with their fingerprint before anything is approved. What comes over the network has its own bounds,
//! so that untrusted parties can neither fill the store nor keep out what someone brings in a file, or what a
//! kit or an order lets in. It never replaces and never chooses.

use crate::expect::{put_on_record, refuse_key_of_before};

use super::{CheckedRequest, EnrolError, Enrolled, approve, refuse_used_kit};
use outhaul_signer::enrol::MIN_FINGERPRINT_DIGITS;
use outhaul_store::{PendingRequest, RequestOrigin, Session};

/// Most requests from files that wait.
const MAX_FROM_FILES: i64 = 10_000;
/// Most requests from the network that wait.
const MAX_FROM_NETWORK: i64 = 1_000;
/// Most of them from one address.
const MAX_FROM_PEER: i64 = 64;
/// Most requests that wait for one site: enough to see a conflict.
const MAX_FOR_SITE: i64 = 8;

/// What a name and a fingerprint find among the requests that wait.
#[derive(Debug)]
pub enum Selected {
    /// This one.
    One(PendingRequest),
    /// None of these.
    None(Vec<PendingRequest>),
    /// Several: the same key with different kits.
    Several(Vec<PendingRequest>),
}

/// The request for a site whose key's fingerprint begins with `fingerprint`, and whose kit's id with
/// `kit`. An empty fingerprint names nothing, not even the only one.
pub fn select(waiting: Vec<PendingRequest>, fingerprint: &str, kit: &str) -> Selected {
    let (fingerprint, kit) = (fingerprint.to_ascii_lowercase(), kit.to_ascii_lowercase());
    if fingerprint.len() < MIN_FINGERPRINT_DIGITS {
        return Selected::None(waiting);
    }
    let named = |request: &PendingRequest| {
        request.key_id.starts_with(&fingerprint) && request.kit.starts_with(&kit)
    };
    let (mut found, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(named);
    match found.pop() {
        None => Selected::None(others),
        Some(one) if found.is_empty() => Selected::One(one),
        Some(one) => {
            found.push(one);
            Selected::Several(found)
        }
    }
}

/// That a fingerprint names too little of a key, where it does.
pub fn too_short(fingerprint: &str) -> Option<String> {
    let digits = fingerprint.chars().count();
    (digits < MIN_FINGERPRINT_DIGITS).then(|| {
        format!(
            "the fingerprint `{fingerprint}` has {digits} digits, and {MIN_FINGERPRINT_DIGITS} are the fewest that name a key"
        )
    })
}

/// Holds the key of a request to the fingerprint that someone compared.
///
/// # Errors
/// What is wrong with the fingerprint, and what the request shows.
pub fn named(checked: &CheckedRequest, fingerprint: &str) -> Result<(), String> {
    let found = checked.key.id();
    let named = fingerprint.to_ascii_lowercase();
    if named.len() >= MIN_FINGERPRINT_DIGITS && found.starts_with(&named) {
        return Ok(());
    }
    let stream = &checked.request.stream;
    let what = format!(
        "  {} of {}/{}: fingerprint {found}",
        checked.request.site, stream.environment, stream.cluster_type
    );
    Err(if named.is_empty() {
        format!("no fingerprint was named; the request is:\n{what}")
    } else if let Some(short) = too_short(&named) {
        format!("{short}; the request is:\n{what}")
    } else {
        format!("the request's fingerprint does not begin with `{named}`; the request is:\n{what}")
    })
}

/// Registers a site whose kit was announced, once, unless someone else waits to become it.
pub(super) fn expected(
    session: &Session<'_>,
    checked: &CheckedRequest,
    origin: RequestOrigin<'_>,
    now_ms: i64,
) -> Result<Option<Enrolled>, EnrolError> {
    let site = checked.request.site.as_str();
    let Some(kit) = checked.kit.map(|kit| kit.hex()) else {
        return Ok(None);
    };
    let Some(announced) = session.expected_kit(site)? else {
        return Ok(None);
    };
    if announced != kit {
        let site = site.to_owned();
        return Err(EnrolError::NotExpected { site });
    }
    let id = checked.key.id();
    let mut others = session.requests_of(site)?.into_iter();
    if others.any(|other| other.key_id != id) || refuse_used_kit(session, checked).is_err() {
        return keep(session, checked, origin, now_ms).map(Some);
    }
    refuse_key_of_before(session, checked)?;
    session.spend_expected(site)?;
    let known = session.site(site)?.is_some();
    let enrolled = approve(session, checked, known, now_ms)?;
    put_on_record(session, checked, (origin, enrolled), now_ms)?;
    Ok(Some(enrolled))
}

/// Keeps a request beside the others for its site.
pub(super) fn keep(
    session: &Session<'_>,
    checked: &CheckedRequest,
    origin: RequestOrigin<'_>,
    now_ms: i64,
) -> Result<Enrolled, EnrolError> {
    let site = checked.request.site.as_str();
    let request = PendingRequest {
        site: site.to_owned(),
        key_id: checked.key.id(),
        kit: checked.kit.map_or_else(String::new, |kit| kit.hex()),
        lane: origin.lane.to_owned(),
        peer: origin.peer.to_owned(),
        envelope: checked.envelope.clone(),
        received_ms: now_ms,
    };
    if session.is_rejected(site, &request.key_id, &request.kit)? {
        let site = site.to_owned();
        return Err(EnrolError::Rejected { site });
    }
    let others = session.requests_of(site)?;
    let is_there = others
        .iter()
        .any(|other| (&other.key_id, &other.kit) == (&request.key_id, &request.kit));
    if !is_there {
        refuse_too_many(session, origin, site)?;
        session.keep_request(&request)?;
    }
    let registered = session.site(site)?.is_some() && checked.request.order.is_none();
    let conflicts = registered || others.iter().any(|other| other.key_id != request.key_id);
    Ok(if conflicts {
        Enrolled::Conflict
    } else {
        Enrolled::Waiting
    })
}

fn refuse_too_many(
    session: &Session<'_>,
    origin: RequestOrigin<'_>,
    site: &str,
) -> Result<(), EnrolError> {
    let counts = session.waiting_requests(origin, site)?;
    let network = origin.lane != RequestOrigin::FILE.lane;
    let lane = if network {
        (counts.lane, MAX_FROM_NETWORK, "from the network")
    } else {
        (counts.lane, MAX_FROM_FILES, "from files")
    };
    let peer = (counts.peer, MAX_FROM_PEER, "from this address");
    let of_site = (counts.site, MAX_FOR_SITE, "for this site");
    let bounds = [Some(of_site), network.then_some(peer), Some(lane)];
    for (waiting, most, what) in bounds.into_iter().flatten() {
        if waiting >= most {
            return Err(EnrolError::TooMany { waiting, what });
        }
    }
    Ok(())
}
