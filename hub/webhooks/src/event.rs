//! One event: which object it is about, where that stands, and when.
//!
//! What comes in: the body of a request whose secret was checked. What goes out: a [`WebhookEvent`], or why it is not one. Texts are
//! shortened and without characters that a terminal acts on. Pure: what it means for a site is decided in `shown`.

use jiff::Timestamp;
use outhaul_bundle::Digest;
use outhaul_bundle::report::ObjectStatus;
use outhaul_kit::text::printable;

/// The key of an event's metadata (Flux) and the field of its body (Argo CD) that names the site.
pub const SITE_KEY: &str = "site";
/// Most bytes of an object's name, and of a message.
const MAX_OBJECT_BYTES: usize = 300;
const MAX_MESSAGE_BYTES: usize = 300;

/// What one webhook states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEvent {
    /// The site that its sender was set up for.
    pub site: String,
    /// `KIND/NAMESPACE/NAME`.
    pub object: String,
    /// Where the object stands.
    pub status: ObjectStatus,
    /// Whether it only states that work goes on at the revision that is applied already.
    pub goes_on: bool,
    /// The commit that the object shows, where it names one.
    pub commit: Option<String>,
    /// The address of the repository, where the body has it.
    pub repository: Option<String>,
    /// The folder of the repository that the object applies, where the body has it.
    pub path: Option<String>,
    /// What the controller stated.
    pub message: String,
    /// When, by the cluster's clock, milliseconds since 1970.
    pub at_ms: i64,
    /// Digest of the body.
    pub body: Digest,
}

/// `KIND/NAMESPACE/NAME` of three names as Kubernetes has them.
pub(crate) fn object(kind: &str, namespace: &str, name: &str) -> Result<String, String> {
    let is_name = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
    };
    let all = format!("{kind}/{namespace}/{name}");
    if all.len() <= MAX_OBJECT_BYTES && [kind, namespace, name].into_iter().all(is_name) {
        return Ok(all);
    }
    Err("it names no object by kind, namespace and name".to_owned())
}

/// A moment, in milliseconds since 1970.
pub(crate) fn moment(text: &str) -> Result<i64, String> {
    let at: Result<Timestamp, _> = text.parse();
    at.map(Timestamp::as_millisecond)
        .map_err(|_| "its time is not RFC 3339".to_owned())
}

/// A text of the sender's, as it is kept.
pub(crate) fn shortened(text: &str) -> String {
    let text = printable(text.trim()).into_owned();
    if text.len() <= MAX_MESSAGE_BYTES {
        return text;
    }
    let mut end = MAX_MESSAGE_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}
