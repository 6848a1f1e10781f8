//! Who named the address that is asked, and what it means that it has no answer.
//!
//! What comes in: a host, how it came to be asked, an error of the connection. What goes out: an error that names both. It asks nothing.

use outhaul_http::HttpError;
use outhaul_kit::url::UrlParts;

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
