//! A registration: which key a site has, by which enrolment, and in which stream it is expected.
//!
//! What comes in: a site's own request, signed by the very key that it is about and by the key of the kit that
//! the site was given. What goes out: a registration, a new key for one, or why not. Who may approve is decided
//! by `enrol` and `orders`; a key that is on record is never replaced without an explicit request.

use outhaul_bundle::Digest;
pub use outhaul_bundle::hub_api::Enrolled;
use outhaul_bundle::json_object;
use outhaul_bundle::report::MAX_ENROLMENT_REQUEST_BYTES;
use outhaul_bundle::report::{ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest};
use outhaul_signer::enrol::{ProofError, proven_kit};
use outhaul_signer::envelope::{Envelope, EnvelopeError};
use outhaul_signer::key::{KeyError, PublicKey};

use outhaul_store::{Registration, Session, StoreError};

/// A request whose signature holds.
#[derive(Debug, Clone)]
pub struct CheckedRequest {
    /// What it asks.
    pub request: EnrolmentRequest,
    /// The key.
    pub key: PublicKey,
    /// The id of the kit that it proves; `None` for a new key by order.
    pub kit: Option<Digest>,
    /// The request with its signatures.
    pub(crate) signed: Envelope,
    pub(crate) envelope: Vec<u8>,
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
    /// Another site has the key.
    #[error(
        "the key {key} of this request is site `{other}`'s: it cannot be site `{site}`'s as well"
    )]
    KeyOfOther {
        /// The site of the request.
        site: String,
        /// The site that has it.
        other: String,
        /// Id of the key.
        key: String,
    },
    /// The kit was used for another key.
    #[error(
        "the kit of this request was used: site `{site}` is registered with it and key {registered}, the \
         request is for key {requested}"
    )]
    KitUsed {
        /// The site.
        site: String,
        /// Id of the key on record.
        registered: String,
        /// Id of the key in the request.
        requested: String,
    },
    /// The kit to be announced was used.
    #[error(
        "the kit {kit} was used: site `{site}` was enrolled with it{}",
        if *.is_revoked { ", and is revoked" } else { "" }
    )]
    KitSpent {
        /// The site.
        site: String,
        /// The kit's id.
        kit: String,
        /// Whether the site is revoked.
        is_revoked: bool,
    },
    /// The key is one that the site had, and has no more.
    #[error(
        "the key {key} of this request was taken from site `{site}`, which was revoked or has another key since: an expected kit does \
         not bring it back"
    )]
    KeyOfBefore {
        /// The site.
        site: String,
        /// Id of the key.
        key: String,
    },
    /// Another kit is expected of the site.
    #[error("site `{site}` is expected with another kit than the one that this request proves")]
    NotExpected {
        /// The site.
        site: String,
    },
    /// It proves no kit.
    #[error("the request proves no kit: {0}")]
    Proof(#[source] ProofError),
    /// A person rejected this very request.
    #[error("this request of site `{site}` was rejected")]
    Rejected {
        /// The site.
        site: String,
    },
    /// It shows the kit's token, as agents of before did.
    #[error("the request shows its kit's token, which anybody who transported it could have read")]
    TokenShown,
    /// Of another fleet.
    #[error("the request is of fleet `{found}`, this hub serves `{expected}`")]
    Fleet {
        /// The hub's fleet.
        expected: String,
        /// The request's.
        found: String,
    },
    /// The key in it is not one.
    #[error("the request's key cannot be used")]
    Key(#[source] KeyError),
    /// The site follows another stream.
    #[error("site `{site}` is registered for another stream")]
    OtherStream {
        /// The site.
        site: String,
    },
    /// Not a request.
    #[error("this is not an enrolment request: {problem}")]
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
    #[error("{waiting} requests {what} wait already; approve or reject some first")]
    TooMany {
        /// How many.
        waiting: i64,
        /// Which ones.
        what: &'static str,
    },
}

impl EnrolError {
    /// What to do, where that is said here.
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::KitSpent { .. } | Self::KeyOfBefore { .. } => Some(
                "make a new kit at the centre (`outhaul site enrol`), enrol the machine with it again, so that it makes a new key, and \
                 announce the new kit",
            ),
            _ => None,
        }
    }

    /// The rule that refused the request, as a short word.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::OtherKey { .. } => "other-key",
            Self::Fleet { .. } => "fleet",
            Self::Key(_) | Self::Malformed { .. } => "malformed",
            Self::KeyOfOther { .. } => "key-of-other",
            Self::KitUsed { .. } | Self::KitSpent { .. } => "kit-used",
            Self::KeyOfBefore { .. } => "key-of-before",
            Self::NotExpected { .. } => "not-expected",
            Self::OtherStream { .. } => "other-stream",
            Self::Proof(_) | Self::TokenShown => "proof",
            Self::Rejected { .. } => "rejected",
            Self::Revoked { .. } => "revoked",
            Self::Signature(_) => "signature",
            Self::Store(_) => "store",
            Self::TooMany { .. } => "too-many",
        }
    }
}

/// Checks a request's form, fleet, signature, and the proof of its kit.
///
/// # Errors
/// [`EnrolError`] when one of them is wrong.
pub fn check(bytes: &[u8], fleet: &str) -> Result<CheckedRequest, EnrolError> {
    let malformed = |problem: String| EnrolError::Malformed { problem };
    if bytes.len() > MAX_ENROLMENT_REQUEST_BYTES {
        let bound = format!("it has more than {MAX_ENROLMENT_REQUEST_BYTES} bytes");
        return Err(malformed(bound));
    }
    let envelope = Envelope::from_json(bytes).map_err(|error| malformed(error.to_string()))?;
    // The key is inside: read it unverified, then verify with it the very bytes it came in.
    let payload = envelope.unverified_payload();
    let shows_token = |value: serde_json::Value| value.get("token").is_some();
    if serde_json::from_slice(payload).is_ok_and(shows_token) {
        return Err(EnrolError::TokenShown);
    }
    let claimed: EnrolmentRequest = json_object::read(payload).map_err(malformed)?;
    let key = PublicKey::from_pem(&claimed.public_key).map_err(EnrolError::Key)?;
    envelope
        .verify(ENROLMENT_PAYLOAD_TYPE, std::slice::from_ref(&key))
        .map_err(EnrolError::Signature)?;
    if claimed.fleet.as_str() != fleet {
        let (expected, found) = (fleet.to_owned(), claimed.fleet.to_string());
        return Err(EnrolError::Fleet { expected, found });
    }
    let kit = match claimed.order {
        Some(_) => None,
        None => Some(
            proven_kit(&envelope, ENROLMENT_PAYLOAD_TYPE, &claimed.kit)
                .map_err(EnrolError::Proof)?,
        ),
    };
    let kit = kit
        .map(|id| Digest::from_hex(&id))
        .transpose()
        .map_err(|error| malformed(error.to_string()))?;
    Ok(CheckedRequest {
        request: claimed,
        key,
        kit,
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
    if !replace && is_revoked(session, checked)? {
        let site = site.to_owned();
        return Err(EnrolError::Revoked { site });
    }
    refuse_key_of_other(session, checked)?;
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

/// One key is one site's: two sites with one are two copies of a machine.
///
/// # Errors
/// [`EnrolError::KeyOfOther`].
pub(crate) fn refuse_key_of_other(
    session: &Session<'_>,
    checked: &CheckedRequest,
) -> Result<(), EnrolError> {
    let (site, key) = (checked.request.site.as_str(), checked.key.id());
    match session.other_site_of_key(&key, site)? {
        None => Ok(()),
        Some(other) => Err(EnrolError::KeyOfOther {
            site: site.to_owned(),
            other,
            key,
        }),
    }
}

/// By what the site was enrolled; and where it went since, which an older request does not know.
fn remember_enrolment(session: &Session<'_>, checked: &CheckedRequest) -> Result<(), StoreError> {
    let request = &checked.request;
    let site = request.site.as_str();
    if let Some(kit) = &checked.kit {
        session.set_enrolment(site, &kit.to_string())?;
    }
    finish_moves(session, site)
}

/// `Some` when the site has this key already, `None` when it may be given it.
pub(crate) fn known_key(
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

/// What a request's enrolment was made with: its own kit, or for a new key the present one.
pub(crate) fn enrolment_of(
    session: &Session<'_>,
    checked: &CheckedRequest,
) -> Result<Option<String>, StoreError> {
    let request = &checked.request;
    match request.order {
        Some(_) => session.enrolment(request.site.as_str()),
        None => Ok(checked.kit.map(|kit| kit.to_string())),
    }
}

/// Whether the enrolment that a request is for was revoked by order, however late the request comes.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn is_revoked(session: &Session<'_>, checked: &CheckedRequest) -> Result<bool, StoreError> {
    match enrolment_of(session, checked)? {
        Some(enrolment) => session.revocation_ordered(checked.request.site.as_str(), &enrolment),
        None => Ok(false),
    }
}

/// Expects a site where it says to have moved by order of its present enrolment.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn finish_moves(session: &Session<'_>, site: &str) -> Result<(), StoreError> {
    let Some(enrolment) = session.enrolment(site)? else {
        return Ok(());
    };
    match session.last_move(site, &enrolment)? {
        Some(to) => session.move_site(site, &to),
        None => Ok(()),
    }
}
