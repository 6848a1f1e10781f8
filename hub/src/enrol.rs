//! Enrolment: a site's own signed request becomes a registration when somebody approves it.
//!
//! What comes in: a request, signed by the very key that it is about, which proves that the sender holds
//! it. What goes out: a registration, or a request that waits. Approval comes from a person (`site
//! add`) or from a kit's one-time token that was announced before (`site expect`). A key that is on
//! record is never replaced without being told so.

use outhaul_bundle::Digest;
use outhaul_bundle::report::{ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest};
use outhaul_signer::envelope::{Envelope, EnvelopeError};
use outhaul_signer::key::{KeyError, PublicKey};
use serde::Serialize;

use crate::orders;
use crate::store::{PendingRequest, Registration, Session, StoreError};

/// Most requests that wait: strangers may send some, too.
const MAX_WAITING: i64 = 10_000;

/// A request whose signature holds.
#[derive(Debug, Clone)]
pub struct CheckedRequest {
    /// What it asks.
    pub request: EnrolmentRequest,
    /// The key.
    pub key: PublicKey,
    /// The request with its signatures.
    pub(crate) signed: Envelope,
    envelope: Vec<u8>,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Enrolled {
    /// This key is registered already, or was before the one in use.
    Already,
    /// The site is registered now.
    Registered,
    /// The site has a new key now.
    Rekeyed,
    /// Nobody has approved it yet.
    Waiting,
}

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolError {
    /// The site has another key.
    #[error(
        "site `{site}` is registered with another key (registered {registered}, requested {requested})"
    )]
    OtherKey {
        /// The site.
        site: String,
        /// Id of the key on record.
        registered: String,
        /// Id of the key in the request.
        requested: String,
    },
    /// Of another fleet.
    #[error("the request is of fleet `{found}`, this hub serves `{expected}`")]
    Fleet {
        /// The hub's fleet.
        expected: String,
        /// The request's.
        found: String,
    },
    /// The key in it is none.
    #[error("the request's key cannot be used")]
    Key(#[source] KeyError),
    /// The site follows another stream.
    #[error("site `{site}` is registered for another stream")]
    OtherStream {
        /// The site.
        site: String,
    },
    /// Not a request.
    #[error("this is no enrolment request: {problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// The site was revoked.
    #[error("site `{site}` was revoked")]
    Revoked {
        /// The site.
        site: String,
    },
    /// Not signed by the key that it is about.
    #[error("the request is not signed by the key that it is about")]
    Signature(#[source] EnvelopeError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// More requests wait than a person will ever look at.
    #[error("{waiting} requests wait already; approve or forget some first")]
    TooMany {
        /// How many.
        waiting: i64,
    },
}

impl EnrolError {
    /// The rule that refused the request, as a short word.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::OtherKey { .. } => "other-key",
            Self::Fleet { .. } => "fleet",
            Self::Key(_) | Self::Malformed { .. } => "malformed",
            Self::OtherStream { .. } => "other-stream",
            Self::Revoked { .. } => "revoked",
            Self::Signature(_) => "signature",
            Self::Store(_) => "store",
            Self::TooMany { .. } => "too-many",
        }
    }
}

/// Checks a request's form, fleet and signature.
///
/// # Errors
/// [`EnrolError`] when one of them is wrong.
pub fn check(bytes: &[u8], fleet: &str) -> Result<CheckedRequest, EnrolError> {
    let malformed = |problem: String| EnrolError::Malformed { problem };
    let envelope = Envelope::from_json(bytes).map_err(|error| malformed(error.to_string()))?;
    // The key is inside: read it unverified, then let it vouch for the very bytes it came in.
    let claimed: EnrolmentRequest = serde_json::from_slice(envelope.unverified_payload())
        .map_err(|error| malformed(error.to_string()))?;
    let key = PublicKey::from_pem(&claimed.public_key).map_err(EnrolError::Key)?;
    envelope
        .verify(ENROLMENT_PAYLOAD_TYPE, std::slice::from_ref(&key))
        .map_err(EnrolError::Signature)?;
    if claimed.fleet.as_str() != fleet {
        let (expected, found) = (fleet.to_owned(), claimed.fleet.to_string());
        return Err(EnrolError::Fleet { expected, found });
    }
    Ok(CheckedRequest {
        request: claimed,
        key,
        signed: envelope,
        envelope: bytes.to_vec(),
    })
}

/// Registers the site of a checked request. `replace` lets it have a new key, or come back after it
/// was revoked.
///
/// # Errors
/// [`EnrolError::OtherKey`] or [`EnrolError::Revoked`] without `replace`.
pub fn approve(
    session: &Session<'_>,
    checked: &CheckedRequest,
    replace: bool,
    now_ms: i64,
) -> Result<Enrolled, EnrolError> {
    let request = &checked.request;
    let site = request.site.as_str();
    if !replace && orders::is_revoked(session, checked)? {
        let site = site.to_owned();
        return Err(EnrolError::Revoked { site });
    }
    let mut registration = Registration {
        site: site.to_owned(),
        role: request.stream.role.to_string(),
        environment: request.stream.environment.to_string(),
        cluster_type: request.stream.cluster_type.to_string(),
        key_generation: 1,
        enrolled_ms: now_ms,
        revoked_ms: None,
    };
    let mut outcome = Enrolled::Registered;
    if let Some(known) = session.site(site)? {
        if let Some(already) = known_key(session, checked, &known, replace)? {
            remember_enrolment(session, checked)?;
            return Ok(already);
        }
        let keys = session.site_keys(site)?;
        let same_key = keys
            .first()
            .is_some_and(|key| key.key_id == checked.key.id());
        registration.key_generation = known.key_generation + i64::from(!same_key);
        outcome = if same_key {
            Enrolled::Registered
        } else {
            Enrolled::Rekeyed
        };
    }
    session.register_site(&registration, &checked.key.id(), &checked.key.to_pem())?;
    remember_enrolment(session, checked)?;
    Ok(outcome)
}

/// By what the site was enrolled; and where it went since, which an older request does not know.
fn remember_enrolment(session: &Session<'_>, checked: &CheckedRequest) -> Result<(), StoreError> {
    let request = &checked.request;
    let site = request.site.as_str();
    if !request.token.is_empty() {
        let enrolment = Digest::of(request.token.as_bytes()).to_string();
        session.set_enrolment(site, &enrolment)?;
    }
    orders::settle_moves(session, site)
}

/// Takes in a request that nobody looked at: registered when its token was announced, else kept until
/// somebody approves it.
///
/// # Errors
/// [`EnrolError`] when the site has another key or was revoked.
pub fn receive(
    session: &Session<'_>,
    checked: &CheckedRequest,
    now_ms: i64,
) -> Result<Enrolled, EnrolError> {
    let site = checked.request.site.as_str();
    if orders::is_revoked(session, checked)? {
        let site = site.to_owned();
        return Err(EnrolError::Revoked { site });
    }
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
    match registered {
        Ok(Some(already)) => return Ok(already),
        Ok(None) => {}
        Err(refusal) => {
            return match orders::receive(session, checked, known.as_ref(), now_ms)? {
                Some(enrolled) => Ok(enrolled),
                None => wait_or_refuse(session, checked, known.as_ref(), refusal, now_ms),
            };
        }
    }
    if let Some(enrolled) = orders::receive(session, checked, known.as_ref(), now_ms)? {
        return Ok(enrolled);
    }
    let token = Digest::of(checked.request.token.as_bytes()).hex();
    if session.take_expected(site, &token)? {
        return approve(session, checked, false, now_ms);
    }
    keep(session, checked, now_ms)
}

/// A new key that the present one vouches for waits for its order or for a person; any other is refused.
fn wait_or_refuse(
    session: &Session<'_>,
    checked: &CheckedRequest,
    known: Option<&Registration>,
    refusal: EnrolError,
    now_ms: i64,
) -> Result<Enrolled, EnrolError> {
    let vouched = match known {
        Some(known) if known.revoked_ms.is_none() && checked.request.order.is_some() => {
            orders::signed_by_present_key(session, checked, known)?
        }
        _ => false,
    };
    if vouched {
        return keep(session, checked, now_ms);
    }
    Err(refusal)
}

fn keep(
    session: &Session<'_>,
    checked: &CheckedRequest,
    now_ms: i64,
) -> Result<Enrolled, EnrolError> {
    let waiting = session.waiting_requests()?;
    if waiting >= MAX_WAITING {
        return Err(EnrolError::TooMany { waiting });
    }
    session.keep_request(&PendingRequest {
        site: checked.request.site.to_string(),
        envelope: checked.envelope.clone(),
        received_ms: now_ms,
    })?;
    Ok(Enrolled::Waiting)
}

/// `Some` when the site has this key already, `None` when it may be given it.
fn known_key(
    session: &Session<'_>,
    checked: &CheckedRequest,
    known: &Registration,
    replace: bool,
) -> Result<Option<Enrolled>, EnrolError> {
    let requested = checked.key.id();
    let keys = session.site_keys(&known.site)?;
    let registered = keys
        .first()
        .map(|key| key.key_id.clone())
        .unwrap_or_default();
    if known.revoked_ms.is_some() {
        return if replace {
            Ok(None)
        } else {
            Err(EnrolError::Revoked {
                site: known.site.clone(),
            })
        };
    }
    let stream = &checked.request.stream;
    let same_stream = known.role == stream.role.as_str()
        && known.environment == stream.environment.as_str()
        && known.cluster_type == stream.cluster_type.as_str();
    if registered == requested && same_stream {
        return Ok(Some(Enrolled::Already));
    }
    if replace {
        return Ok(None);
    }
    let site = known.site.clone();
    if registered == requested {
        return Err(EnrolError::OtherStream { site });
    }
    Err(EnrolError::OtherKey {
        site,
        registered,
        requested,
    })
}
