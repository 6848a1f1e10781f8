//! Answers to requests, and the errors among them as the distribution specification has them.
//!
//! What comes in: what is to be said. What goes out: a whole HTTP response. Every answer says that it must not
//! be taken for another type, and none has a separate encoding.

use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::json;

use crate::body::BodyContent;

/// A response.
pub type Answer = Response<BodyContent>;

/// The digest of what is answered.
pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
const API_VERSION: HeaderName = HeaderName::from_static("docker-distribution-api-version");

/// An error of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// No such blob.
    BlobUnknown,
    /// Not a digest.
    DigestInvalid,
    /// No such manifest or tag.
    ManifestUnknown,
    /// Not a name.
    NameInvalid,
    /// No such repository.
    NameUnknown,
    /// Anything that would change something, and what does not exist here.
    Unsupported,
}

impl Code {
    fn as_str(self) -> &'static str {
        match self {
            Self::BlobUnknown => "BLOB_UNKNOWN",
            Self::DigestInvalid => "DIGEST_INVALID",
            Self::ManifestUnknown => "MANIFEST_UNKNOWN",
            Self::NameInvalid => "NAME_INVALID",
            Self::NameUnknown => "NAME_UNKNOWN",
            Self::Unsupported => "UNSUPPORTED",
        }
    }
}

/// An answer with `content` of the type `media_type`.
pub fn of(status: StatusCode, media_type: &str, content: impl Into<Bytes>) -> Answer {
    let content: Bytes = content.into();
    let mut answer = Response::new(BodyContent::Bytes(
        (!content.is_empty()).then(|| content.clone()),
    ));
    *answer.status_mut() = status;
    length(&mut answer, content.len() as u64);
    header(&mut answer, CONTENT_TYPE, media_type);
    header(&mut answer, X_CONTENT_TYPE_OPTIONS, "nosniff");
    answer
}

/// Sets a header. A value that cannot be one is left out.
pub fn header(answer: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// Sets the length of the content.
pub fn length(answer: &mut Answer, bytes: u64) {
    answer
        .headers_mut()
        .insert(CONTENT_LENGTH, HeaderValue::from(bytes));
}

/// An error of the registry.
pub fn error(status: StatusCode, code: Code, message: &str) -> Answer {
    let body = json!({ "errors": [{ "code": code.as_str(), "message": message }] });
    let mut answer = registry(of(status, "application/json", body.to_string()));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        header(&mut answer, RETRY_AFTER, "10");
    }
    answer
}

/// An answer for people, and for clients that show it.
pub fn text(status: StatusCode, message: &str) -> Answer {
    of(status, "text/plain; charset=utf-8", format!("{message}\n"))
}

/// Nothing can be changed here.
pub fn read_only(allow: &str) -> Answer {
    let mut answer = error(
        StatusCode::METHOD_NOT_ALLOWED,
        Code::Unsupported,
        "this registry is read only: it serves what the site's active generation brought",
    );
    header(&mut answer, ALLOW, allow);
    answer
}

/// Marks an answer as a registry's.
pub fn registry(mut answer: Answer) -> Answer {
    header(&mut answer, API_VERSION, "registry/2.0");
    answer
}
