//! Blobs and manifests to a registry.
//!
//! What comes in: a repository, contents by digest and readers of their bytes, a manifest. What goes out: whether the repository has a
//! blob, and the registry's word that it took one: it compares the digest. A blob goes in one request; one that broke off
//! is sent again. It decides nothing about what is pushed.

use std::io::Read;
use std::sync::PoisonError;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_http::{Method, Response};

use crate::client::RegistryClient;
use crate::error::RegistryError;
use crate::led::Led;
use crate::redirect::location;
use crate::reference::ImageReference;

impl RegistryClient {
    /// Bytes of the blob `digest` of a repository; `None` when it has none.
    ///
    /// # Errors
    /// [`RegistryError`]
    #[expect(clippy::match_same_arms, reason = "each status is a case of its own")]
    pub fn blob_size(
        &self,
        repository: &ImageReference,
        digest: &Digest,
    ) -> Result<Option<u64>, RegistryError> {
        let what = format!("{}@{digest}", repository.repository);
        let url = self.url(repository, &format!("blobs/{digest}"));
        let answer = self.authorized(repository, &what, &mut |authorization| {
            let request = self.http_at(&url).request(Method::HEAD, &url);
            let request = with(request, authorization);
            self.send_to(repository, (&url, Led::Itself), request, |request| {
                request.send()
            })
        })?;
        match answer.status() {
            404 => Ok(None),
            200 => {
                let length = answer.header("content-length");
                let length = length.and_then(|text| text.parse().ok());
                length.map(Some).ok_or_else(|| RegistryError::Wrong {
                    host: repository.host().to_owned(),
                    what: format!("`{what}`"),
                    problem: "has no length".to_owned(),
                })
            }
            // Some keep blobs elsewhere: then it is asked for again, and its size is not known here.
            300..=399 => Ok(None),
            _ => Err(self.not_taken(repository, what, answer)),
        }
    }

    /// Sends the blob `content`, of which `body` gives the bytes.
    ///
    /// # Errors
    /// [`RegistryError`]
    pub fn push_blob(
        &self,
        repository: &ImageReference,
        content: Content,
        body: &mut dyn Read,
    ) -> Result<(), RegistryError> {
        let what = format!("{}@{}", repository.repository, content.digest);
        let begin = self.url(repository, "blobs/uploads/");
        let mut used = None;
        let answer = self.authorized(repository, &what, &mut |authorization| {
            used = authorization.map(str::to_owned);
            let request = self.http_at(&begin).request(Method::POST, &begin);
            let request = with(request, authorization);
            self.send_to(repository, (&begin, Led::Itself), request, |request| {
                request.send_bytes(&[])
            })
        })?;
        if answer.status() != 202 {
            return Err(self.not_taken(repository, what, answer));
        }
        let to = location(&answer, &begin).ok_or_else(|| RegistryError::Wrong {
            host: repository.host().to_owned(),
            what: format!("the place to send `{what}` to"),
            problem: "is not https".to_owned(),
        })?;
        let separator = if to.contains('?') { '&' } else { '?' };
        let digest = content.digest.hex();
        let put = format!("{to}{separator}digest=sha256%3A{digest}");
        // Another server gets nothing that authenticates.
        let own = format!("{}/", begin.split("/v2/").next().unwrap_or_default());
        let authorization = used.as_deref().filter(|_| put.starts_with(&own));
        let request = self.http_at(&put).request(Method::PUT, &put);
        let request = request.header("Content-Type", "application/octet-stream");
        let request = with(request, authorization);
        let led = (put.as_str(), Led::Uploads(repository.host()));
        let answer = self.send_to(repository, led, request, |request| {
            request.send_from(body, content.size)
        })?;
        match answer.status() {
            201 => Ok(()),
            _ => Err(self.not_taken(repository, what, answer)),
        }
    }

    /// Sends a manifest and names it `tag`.
    ///
    /// # Errors
    /// [`RegistryError`]
    pub fn push_manifest(
        &self,
        repository: &ImageReference,
        tag: &str,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<(), RegistryError> {
        let what = format!("{}:{tag}", repository.repository);
        let url = self.url(repository, &format!("manifests/{tag}"));
        let answer = self.authorized(repository, &what, &mut |authorization| {
            let request = self.http_at(&url).request(Method::PUT, &url);
            let request = request.header("Content-Type", media_type);
            let request = with(request, authorization);
            self.send_to(repository, (&url, Led::Itself), request, |request| {
                request.send_bytes(bytes)
            })
        })?;
        match answer.status() {
            201 => Ok(()),
            _ => Err(self.not_taken(repository, what, answer)),
        }
    }

    /// Sends with what is known for the repository, and once more with what the registry asks for.
    fn authorized(
        &self,
        repository: &ImageReference,
        what: &str,
        send: &mut dyn FnMut(Option<&str>) -> Result<Response, RegistryError>,
    ) -> Result<Response, RegistryError> {
        // Apart from what may pull: a token says what it is for.
        let key = format!("push {}/{}", repository.registry, repository.repository);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let given = known().get(&key).cloned();
        let answer = send(given.as_ref().map(|given| given.as_str()))?;
        if answer.status() != 401 {
            return Ok(answer);
        }
        let value = self.authorize(repository, &answer, what)?;
        let answer = send(Some(value.as_str()))?;
        known().insert(key, value);
        Ok(answer)
    }

    fn not_taken(
        &self,
        repository: &ImageReference,
        what: String,
        answer: Response,
    ) -> RegistryError {
        let host = repository.host().to_owned();
        let status = answer.status();
        match status {
            401 | 403 => RegistryError::NotTaken {
                problem: self.no_credentials(&host),
                host,
                what,
            },
            400..=499 => RegistryError::NotTaken {
                problem: format!("{status}, {}", reported(&answer.excerpt(MAX_TOLD))),
                host,
                what,
            },
            _ => RegistryError::Status { host, what, status },
        }
    }
}

/// Most bytes of a registry's reason.
const MAX_TOLD: u64 = 300;

/// A registry's reason in one line.
fn reported(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line: String = line.join(" ");
    line.chars().filter(|c| !c.is_control()).collect()
}

fn with<'a>(
    request: outhaul_http::Request<'a>,
    authorization: Option<&str>,
) -> outhaul_http::Request<'a> {
    match authorization {
        Some(value) => request.secret_header("Authorization", value),
        None => request,
    }
}
