//! What a co-signer approves: a request for a signature, compared with the root that the co-signer has.
//!
//! What comes in: a [`SigningRequest`], root metadata that the co-signer keeps, the signer's key, the time.
//! What goes out: a [`Review`] that lists every key, threshold, version, digest and date that the signature
//! would make count, or a [`ReviewError`] for what does not follow from that root. Nothing is read from
//! words beside the signed bytes: the bytes themselves are parsed, and refused when they hold anything that
//! the review would not show. It signs nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use crate::canonical;
use crate::key::PublicKey;
use crate::metadata::{self, Root};
use crate::request::{RequestError, SigningRequest};
use crate::trust::walk::Walk;
use crate::trust::{TrustError, TrustedMetadata};

mod root;
mod stream;
mod text;

pub(crate) use root::too_few_kept;
pub use root::{Fate, KeyLine, RoleLine, RootReview};
pub use stream::{Contents, StreamReview};

/// What one signature would make count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Review {
    /// A new root.
    Root(RootReview),
    /// A bundle of a stream.
    Stream(Box<StreamReview>),
}

/// Why a request is not shown for approval, and not signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// The co-signer's own root cannot be used.
    #[error("the root that you have cannot be used")]
    OwnRoot {
        /// Why.
        source: TrustError,
    },
    /// The request is for a fleet other than the one of the co-signer's root.
    #[error(
        "the request is of fleet {found}, and your root is of another fleet ({expected}); nothing was signed"
    )]
    OtherFleet {
        /// The fleet's id by the co-signer's root, or how it is known to differ.
        expected: String,
        /// The fleet that the request names.
        found: String,
    },
    /// The metadata that the request brings along does not follow from the co-signer's root.
    #[error(
        "what the request calls published does not follow from your root version {version}; nothing was \
         signed\nhelp: do not sign; ask the other root keys' holders who made this request"
    )]
    Published {
        /// The version of the co-signer's root.
        version: u64,
        /// Why.
        source: TrustError,
    },
    /// What is to be signed does not follow from what the co-signer has.
    #[error("{problem}; nothing was signed\nhelp: {help}")]
    DoesNotFollow {
        /// What.
        problem: String,
        /// What to do next.
        help: &'static str,
    },
    /// The request cannot be read.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Do not sign: someone else has to be asked first.
const ASK: &str = "do not sign; ask the other keys' holders who made this request";

pub(crate) fn refuse<T>(problem: impl Into<String>) -> Result<T, ReviewError> {
    Err(ReviewError::DoesNotFollow {
        problem: problem.into(),
        help: ASK,
    })
}

/// What `request` asks for, against the root metadata `own_root` (the file's bytes) of the co-signer.
/// `signer` is the key that is to sign; without it nothing is stated of who holds which key.
///
/// # Errors
/// [`ReviewError`] for what does not follow from that root. It must not be signed.
pub fn review(
    request: &SigningRequest,
    own_root: &[u8],
    signer: Option<&PublicKey>,
    now: Timestamp,
) -> Result<Review, ReviewError> {
    let known = KnownRoots::of(request, own_root)?;
    if request.role == "root" {
        root::review(request, &known, signer, now).map(Review::Root)
    } else {
        let review = stream::review(request, &known, signer, now)?;
        Ok(Review::Stream(Box::new(review)))
    }
}

/// What the co-signer knows: the root at hand, and the newest one that follows from it.
struct KnownRoots {
    own: Root,
    newest: Root,
    own_bytes: Vec<u8>,
    published: BTreeMap<String, Vec<u8>>,
}

impl KnownRoots {
    fn of(request: &SigningRequest, own_root: &[u8]) -> Result<Self, ReviewError> {
        let published = request.published_bytes();
        let mut walk =
            Walk::from_root(own_root).map_err(|source| ReviewError::OwnRoot { source })?;
        let version = walk.set().root().version;
        let wrong = |source| ReviewError::Published { version, source };
        walk.update_root(&published, &mut |_| {}).map_err(wrong)?;
        refuse_other_fleet(request, own_root, version, &published)?;
        let parsed = |bytes: &[u8]| {
            metadata::parse_own::<Root>(bytes).map_err(|error| {
                wrong(TrustError::Malformed {
                    file: "root.json".to_owned(),
                    problem: error.to_string(),
                })
            })
        };
        let newest = parsed(walk.set().root_bytes())?;
        Ok(Self {
            own: parsed(own_root)?,
            newest,
            own_bytes: own_root.to_vec(),
            published,
        })
    }

    fn trusted(&self) -> TrustedMetadata {
        TrustedMetadata(BTreeMap::from([(
            "root.json".to_owned(),
            self.own_bytes.clone(),
        )]))
    }
}

/// The fleet's id is a digest of its first root: that one must lead to the co-signer's.
fn refuse_other_fleet(
    request: &SigningRequest,
    own_root: &[u8],
    version: u64,
    published: &BTreeMap<String, Vec<u8>>,
) -> Result<(), ReviewError> {
    let other = |expected: String| ReviewError::OtherFleet {
        expected,
        found: request.fleet.clone(),
    };
    if version == 1 {
        let id = fleet_id(own_root);
        return (id == request.fleet).then_some(()).ok_or_else(|| other(id));
    }
    let here = published.get(&format!("{version}.root.json"));
    let follows = here.is_some_and(|bytes| bytes == own_root);
    let first = published.get("1.root.json");
    let of_fleet = first.is_some_and(|bytes| {
        let chain =
            Walk::from_root(bytes).and_then(|mut walk| walk.update_root(published, &mut |_| {}));
        fleet_id(bytes) == request.fleet && chain.is_ok()
    });
    if follows && of_fleet {
        return Ok(());
    }
    Err(other(format!("your root version {version} is not in it")))
}

/// The id of the fleet of which the first root metadata is `bytes`.
pub(crate) fn fleet_id(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes)[..8])
}

/// The signed bytes as a `T` that holds all of them: what a review would not show is refused.
fn parsed_whole<T: DeserializeOwned + Serialize>(
    request: &SigningRequest,
) -> Result<T, ReviewError> {
    let payload = request.payload_bytes()?;
    let value: T = match serde_json::from_slice(&payload) {
        Ok(value) => value,
        Err(error) => return refuse(format!("the metadata to sign cannot be read: {error}")),
    };
    match canonical::to_bytes(&value) {
        Ok(again) if again == payload => Ok(value),
        _ => refuse("the metadata to sign holds something that this program cannot show"),
    }
}

fn refuse_past(what: &str, expires: Timestamp, now: Timestamp) -> Result<(), ReviewError> {
    if expires > now {
        return Ok(());
    }
    refuse(format!(
        "{what} would expire at {expires}, which has passed"
    ))
}
