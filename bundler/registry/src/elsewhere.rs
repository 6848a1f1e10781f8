//! Requests to an address that a server named: where its tokens are, where a blob is, where an upload goes.
//!
//! What comes in: a request, its URL, and how that came about. What goes out: the answer, or an error that names the host that did not answer
//! and who led there. An address of this machine or its link is asked only where it is the registry's own, or who runs the program named it
//! (`--allow-host`): the name is resolved once, and the connection goes to an address that was checked. It follows nothing by itself.

use outhaul_http::{HttpError, Request, Response};
use outhaul_kit::url::UrlParts;

use crate::client::RegistryClient;
use crate::error::RegistryError;
use crate::led::{Led, not_answered};
use crate::reference::ImageReference;

impl RegistryClient {
    /// Sends what asks `url` for `image`.
    pub(crate) fn send_to<'r>(
        &self,
        image: &ImageReference,
        (url, led): (&str, Led<'_>),
        request: Request<'r>,
        send: impl FnOnce(Request<'r>) -> Result<Response, HttpError>,
    ) -> Result<Response, RegistryError> {
        // Who pushes typed the registry, and it often names itself otherwise than it was asked.
        let is_own_upload = matches!(led, Led::Uploads(_)) && image.is_same_loopback(url);
        let request = match is_own_upload || self.may_be_inside(image, url) {
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
