//! Requests to an address that a server named: where its tokens are, where a blob is, where an upload goes.
//!
//! What comes in: a request, its URL, and how that came about. What goes out: the answer, or an error that names the host that did not answer
//! and who led there. An address of this machine or its link is asked only where it is the registry's own, or who runs the program named it
//! (`--allow-host`): the name is resolved once, and the connection goes to an address that was checked. It follows nothing by itself.

use outhaul_http::{HttpError, Request, Response};
use outhaul_kit::url::UrlParts;

use crate::client::RegistryClient;
use crate::error::RegistryError;
use crate::reference::ImageReference;

/// Why an address is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Led<'a> {
    /// It is where the registry itself answers.
    Itself,
    /// This host redirects there.
    Redirected(&'a str),
    /// This host has its tokens there.
    Tokens(&'a str),
    /// This host takes uploads there.
    Uploads(&'a str),
}

impl Led<'_> {
    /// Who led there, for a message.
    fn by(self) -> Option<String> {
        match self {
            Self::Itself => None,
            Self::Redirected(host) => Some(format!("`{host}` redirects there")),
            Self::Tokens(host) => Some(format!("`{host}` has its tokens there")),
            Self::Uploads(host) => Some(format!("`{host}` takes uploads there")),
        }
    }
}

impl RegistryClient {
    /// Sends what asks `url` for `image`.
    pub(crate) fn send_to<'r>(
        &self,
        image: &ImageReference,
        (url, led): (&str, Led<'_>),
        request: Request<'r>,
        send: impl FnOnce(Request<'r>) -> Result<Response, HttpError>,
    ) -> Result<Response, RegistryError> {
        let request = match self.may_be_inside(image, url) {
            true => request,
            false => request.outside_only(),
        };
        send(request).map_err(|error| not_answered(image, url, led, &error))
    }

    /// Whether `url` may lead to this machine: by what was typed, never by what a server or the resolver of a name says.
    fn may_be_inside(&self, image: &ImageReference, url: &str) -> bool {
        let own = UrlParts::of(url).is_some_and(|parts| {
            let is_own = parts.authority.eq_ignore_ascii_case(image.host());
            let is_typed = image.is_loopback() || self.hosts.is_mirror(image);
            is_own && (is_typed || !self.is_checked)
        });
        own || self.hosts.is_allowed(url)
    }
}

/// Why a request to `url` has no answer.
pub(crate) fn not_answered(
    image: &ImageReference,
    url: &str,
    led: Led<'_>,
    error: &HttpError,
) -> RegistryError {
    let host = UrlParts::of(url).map_or(image.host(), |parts| parts.authority);
    unanswered(host, led, error)
}

/// Why `host` has no answer.
pub(crate) fn unanswered(host: &str, led: Led<'_>, error: &HttpError) -> RegistryError {
    let by = led.by();
    let shown: String = host.chars().filter(|c| !c.is_control()).take(200).collect();
    match error {
        HttpError::Inside { host: to, what, .. } => RegistryError::Inside {
            host: shown,
            to: to.clone(),
            what,
            by: by.map_or_else(String::new, |by| format!("; {by}")),
        },
        error => {
            let (host, problem) = (shown, error.problem());
            let problem = by.map_or_else(|| problem.clone(), |by| format!("{problem}; {by}"));
            match error {
                HttpError::Certificate { .. } => RegistryError::Certificate { host, problem },
                _ => RegistryError::Unreachable { host, problem },
            }
        }
    }
}
