//! One registry asked: manifests whole, blobs from where they broke off.
//!
//! What comes in: a [`ImageReference`], a digest, what a registry asks for before it answers. What goes out: the bytes
//! of a manifest, compared with its digest, or a stream of a blob. Plain HTTP is spoken to this machine alone, where no authority is named for it;
//! what authenticates goes to no other server than the one that asked for it.

use outhaul_kit::url::{UrlParts, is_https};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outhaul_bundle::Digest;
use outhaul_http::{Authority, ClientSettings, HttpError, LeastRate, Method, Response};
use outhaul_kit::bounds::MAX_IMAGE_MANIFEST_BYTES;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::challenge::Challenge;
use crate::chart_index::Index;
use crate::credentials::Credentials;
use crate::error::RegistryError;
use crate::hosts::RegistryHosts;
use crate::led::{Led, not_answered};
use crate::manifest::{Manifest, no_list, no_manifest};
use crate::notices::{SkippedMirrors, waiting};
use crate::redirect::location;
use crate::reference::ImageReference;

/// Largest answer with a token in bytes.
const MAX_TOKEN: u64 = 64 << 10;
/// Redirects that a blob may take.
pub(crate) const MAX_REDIRECTS: usize = 5;
/// How long the body of one answer may take; what broke off goes on from there.
pub(crate) const BODY: Duration = Duration::from_secs(3600);
/// Longest time without a byte.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);
/// What has to come of a body at least: far less than any line brings, and more than a server that only holds it.
pub(crate) const LEAST: LeastRate = LeastRate {
    bytes: 64 << 10,
    within: Duration::from_secs(600),
};
/// How long all that is no blob may take: it is small.
const DOCUMENT: Duration = Duration::from_secs(120);
/// What is said of a document that takes long.
const COMES: &str = "its answer has begun and is not complete";
/// What a manifest may be.
const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// A blob as it comes.
pub(crate) struct Comes {
    /// With which byte it begins.
    pub(crate) begins: u64,
    /// Which host sends it: where the registry redirects, another.
    pub(crate) host: String,
    /// Its bytes.
    pub(crate) body: Box<dyn Read + Send>,
}

/// Asks registries.
#[derive(Debug)]
pub struct RegistryClient {
    http: outhaul_http::Client,
    /// Clients for hosts with an authority of their own.
    own: BTreeMap<String, outhaul_http::Client>,
    pub(crate) hosts: RegistryHosts,
    /// Whether what is asked for may be named by others than who runs the program: then a name that leads to this machine is not asked.
    pub(crate) is_checked: bool,
    silence: Duration,
    credentials: Credentials,
    /// The value of `Authorization`, by registry and repository.
    pub(crate) known: Mutex<BTreeMap<String, Zeroizing<String>>>,
    pub(crate) skipped: SkippedMirrors,
    /// Indexes of chart repositories that were read, by the repositories' URLs.
    pub(crate) indexes: Mutex<BTreeMap<String, Arc<Index>>>,
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

fn http(
    authority: Authority<'_>,
    silence: Duration,
) -> Result<outhaul_http::Client, RegistryError> {
    let agent = concat!("outhaul/", env!("CARGO_PKG_VERSION"));
    let mut settings = ClientSettings::new(agent, authority);
    settings.limits.connect = Some(Duration::from_secs(10));
    settings.limits.answer = Some(silence);
    settings.silence = Some(silence);
    outhaul_http::Client::new(&settings).map_err(RegistryError::Authority)
}

impl RegistryClient {
    /// A client; `authority` is a PEM file for servers whose certificate no public authority signed.
    ///
    /// # Errors
    /// [`RegistryError::Authority`] when it cannot be used.
    pub fn new(credentials: Credentials, authority: Option<&Path>) -> Result<Self, RegistryError> {
        Self::patient(credentials, authority, SILENCE)
    }

    /// The same, which waits so long for a byte.
    pub(crate) fn patient(
        credentials: Credentials,
        authority: Option<&Path>,
        silence: Duration,
    ) -> Result<Self, RegistryError> {
        let authority = authority.map_or(Authority::System, Authority::File);
        Ok(Self {
            http: http(authority, silence)?,
            own: BTreeMap::new(),
            hosts: RegistryHosts::default(),
            is_checked: false,
            silence,
            credentials,
            known: Mutex::default(),
            skipped: SkippedMirrors::default(),
            indexes: Mutex::default(),
        })
    }

    /// The same, with mirrors of registries, and authorities of single hosts, which are trusted for these in the place of all others.
    ///
    /// # Errors
    /// [`RegistryError::Authority`] when one cannot be used.
    pub fn with_hosts(mut self, hosts: RegistryHosts) -> Result<Self, RegistryError> {
        for (host, authority) in hosts.authorities() {
            self.own
                .insert(host.to_owned(), http(authority, self.silence)?);
        }
        self.hosts = hosts;
        self.is_checked = true;
        Ok(self)
    }

    /// The same, which may be led to these hosts, as [`RegistryHosts::allowing`] has it.
    #[must_use]
    pub fn allowing<'a>(mut self, hosts: impl Iterator<Item = (&'a str, Option<u16>)>) -> Self {
        self.hosts = self.hosts.allowing(hosts);
        self
    }

    /// What `ask` brings for an image: of the first mirror of its registry that has it, else of the registry itself. A full disk here ends it:
    /// no other place helps against that. A mirror that did not have it is reported, once.
    pub(crate) fn at_each<T>(
        &self,
        image: &ImageReference,
        ask: impl Fn(&ImageReference) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let mut tried = Vec::new();
        for place in self.hosts.mirrors_of(image) {
            match ask(&place) {
                Ok(found) => {
                    tracing::debug!(%image, mirror = place.registry, "from a mirror");
                    self.skipped.report(image, &tried, &place);
                    return Ok(found);
                }
                Err(error @ RegistryError::Cache { .. }) => return Err(error),
                Err(error) => tried.push((place, error)),
            }
        }
        match ask(image) {
            Ok(found) => {
                self.skipped.report(image, &tried, image);
                Ok(found)
            }
            Err(error @ RegistryError::Cache { .. }) => Err(error),
            Err(last) => Err(last.after(tried.into_iter().map(|(_, error)| error).collect())),
        }
    }

    /// The manifest that `at` is: a tag, or a digest.
    ///
    /// # Errors
    /// [`RegistryError`]
    pub fn manifest(&self, image: &ImageReference, at: &str) -> Result<Manifest, RegistryError> {
        self.at_each(image, |image| self.manifest_at(image, at))
    }

    fn manifest_at(&self, image: &ImageReference, at: &str) -> Result<Manifest, RegistryError> {
        let what = match at.contains(':') {
            true => format!("{}@{at}", image.repository),
            false => format!("{}:{at}", image.repository),
        };
        let (answer, url) = self.get(image, &format!("manifests/{at}"), &what, None)?;
        let host = host_of(image, &url).to_owned();
        let media_type = media_type(&answer);
        let bytes = document(image, answer)?;
        let wrong = |problem: String| RegistryError::Wrong {
            host: host.clone(),
            what: format!("`{what}`"),
            problem,
        };
        let digest = Digest::of(&bytes);
        let problem = match at.parse::<Digest>() {
            Ok(wanted) if wanted == digest => None,
            Ok(_) => Some(format!("has the digest {digest}")),
            Err(_) => no_manifest(&media_type, &bytes),
        };
        if let Some(problem) = problem {
            return Err(wrong(problem));
        }
        Ok(Manifest {
            media_type,
            bytes,
            digest,
            host,
        })
    }

    /// A blob, from byte `from` on where the registry gives out parts: the bytes that come, and where they begin.
    ///
    /// # Errors
    /// [`RegistryError`]
    pub fn blob(
        &self,
        image: &ImageReference,
        digest: &Digest,
        from: u64,
    ) -> Result<(u64, Box<dyn Read + Send>), RegistryError> {
        self.at_each(image, |image| {
            let found = self.blob_at(image, digest, from)?;
            Ok((found.begins, found.body))
        })
    }

    /// The same of one place: a mirror, or the registry itself.
    pub(crate) fn blob_at(
        &self,
        image: &ImageReference,
        digest: &Digest,
        from: u64,
    ) -> Result<Comes, RegistryError> {
        let what = format!("{}@{digest}", image.repository);
        let range = (from > 0).then(|| format!("bytes={from}-"));
        let blob = format!("blobs/{digest}");
        let (answer, at) = self.get(image, &blob, &what, range.as_deref())?;
        let begins = match answer.status() {
            206 => from,
            _ => 0,
        };
        let host = UrlParts::of(&at).map_or(image.host(), |parts| parts.authority);
        Ok(Comes {
            begins,
            host: host.to_owned(),
            body: Box::new(answer.into_reader()),
        })
    }

    /// The list of what refers to `digest`, as the registry keeps it.
    pub(crate) fn referrers(
        &self,
        image: &ImageReference,
        digest: &Digest,
    ) -> Result<Vec<u8>, RegistryError> {
        self.at_each(image, |image| {
            let what = format!("{}: what refers to {digest}", image.repository);
            let (answer, url) = self.get(image, &format!("referrers/{digest}"), &what, None)?;
            let media_type = media_type(&answer);
            let bytes = document(image, answer)?;
            match no_list(&media_type, &bytes) {
                None => Ok(bytes),
                Some(problem) => Err(RegistryError::Wrong {
                    host: host_of(image, &url).to_owned(),
                    what: format!("`{what}`"),
                    problem,
                }),
            }
        })
    }

    /// The answer to who asks for `path`, and its URL.
    fn get(
        &self,
        image: &ImageReference,
        path: &str,
        what: &str,
        range: Option<&str>,
    ) -> Result<(Response, String), RegistryError> {
        let url = self.url(image, path);
        let key = format!("{}/{}", image.registry, image.repository);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let given = known().get(&key).cloned();
        let limit = match path.starts_with("blobs/") {
            true => BODY,
            false => DOCUMENT,
        };
        let given = given.as_ref().map(|given| given.as_str());
        let itself = (url.as_str(), Led::Itself);
        let mut response = self.ask(image, itself, given, range, limit)?;
        if response.status() == 401 {
            let answer = self.authorize(image, &response, what)?;
            response = self.ask(image, itself, Some(&answer), range, limit)?;
            known().insert(key, answer);
        }
        let mut at = url.clone();
        for _ in 0..MAX_REDIRECTS {
            if !(300..400).contains(&response.status()) {
                break;
            }
            let next = location(&response, &at).ok_or_else(|| RegistryError::Wrong {
                host: image.host().to_owned(),
                what: format!("`{what}`"),
                problem: "has an address that is not https".to_owned(),
            })?;
            // Another server: it gets nothing that authenticates.
            let by = UrlParts::of(&at).map_or(image.host(), |parts| parts.authority);
            let led = (next.as_str(), Led::Redirected(by));
            response = self.ask(image, led, None, range, limit)?;
            at = next;
        }
        let host = image.host().to_owned();
        let what = what.to_owned();
        match response.status() {
            200 | 206 => Ok((response, at)),
            404 => Err(RegistryError::Missing { host, what }),
            401 | 403 => Err(RegistryError::Denied {
                problem: self.no_credentials(&host),
                host,
                what,
            }),
            status => Err(RegistryError::Status { host, what, status }),
        }
    }

    /// Where `path` of the image's repository is.
    pub(crate) fn url(&self, image: &ImageReference, path: &str) -> String {
        let scheme = match self.is_plain(image) {
            true => "http",
            false => "https",
        };
        format!("{scheme}://{}/v2/{}/{path}", image.host(), image.repository)
    }

    /// Whether its registry is asked without TLS: on this machine, unless an authority was named for it.
    fn is_plain(&self, image: &ImageReference) -> bool {
        image.is_loopback() && !self.own.contains_key(image.host())
    }

    fn ask(
        &self,
        image: &ImageReference,
        (url, led): (&str, Led<'_>),
        authorization: Option<&str>,
        range: Option<&str>,
        limit: Duration,
    ) -> Result<Response, RegistryError> {
        let request = self.http_at(url).request(Method::GET, url);
        let request = request.header("Accept", ACCEPT).body_limit(limit);
        let mut request = request.least_rate(LEAST);
        if let Some(value) = authorization {
            request = request.secret_header("Authorization", value);
        }
        if let Some(range) = range {
            request = request.header("Range", range);
        }
        let host = host_of(image, url);
        self.send_to(image, (url, led), request, |request| {
            waiting(host, "no answer yet", self.silence, || request.send())
        })
    }

    /// What a registry that answered 401 is given.
    pub(crate) fn authorize(
        &self,
        image: &ImageReference,
        answer: &Response,
        what: &str,
    ) -> Result<Zeroizing<String>, RegistryError> {
        let host = image.host();
        let denied = |problem: String| RegistryError::Denied {
            host: host.to_owned(),
            what: what.to_owned(),
            problem,
        };
        let basic = self.credentials.basic(host);
        let asked = answer.header("www-authenticate").and_then(Challenge::parse);
        let (realm, service, scope) = match asked {
            None => return Err(denied("it asks for something unknown".to_owned())),
            Some(Challenge::Basic) => {
                return basic.ok_or_else(|| denied(self.no_credentials(host)));
            }
            Some(Challenge::Bearer {
                realm,
                service,
                scope,
            }) => (realm, service, scope),
        };
        let is_own =
            self.is_plain(image) && UrlParts::of(&realm).is_some_and(|realm| realm.is("http"));
        if !is_https(&realm) && !is_own {
            return Err(denied(format!("its tokens are at `{realm}`, not https")));
        }
        let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", image.repository));
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let mut url = format!("{realm}?scope={}", encoded(&scope));
        if let Some(service) = service {
            url.push_str(&format!("&service={}", encoded(&service)));
        }
        let answer = self.ask(
            image,
            (&url, Led::Tokens(host)),
            basic.as_ref().map(|b| b.as_str()),
            None,
            DOCUMENT,
        )?;
        if answer.status() != 200 {
            let status = answer.status();
            let problem = format!("no token ({status}); {}", self.no_credentials(host));
            return Err(denied(problem));
        }
        let bytes = waiting(host_of(image, &url), COMES, DOCUMENT, || {
            answer.bytes(MAX_TOKEN)
        });
        let broken = |error| not_answered(image, &url, Led::Tokens(host), &error);
        let bytes = Zeroizing::new(bytes.map_err(broken)?);
        let token: Token = serde_json::from_slice(&bytes)
            .map_err(|_| denied("its token cannot be read".to_owned()))?;
        let token = token.token.or(token.access_token);
        let token = token.ok_or_else(|| denied("its answer has no token".to_owned()))?;
        let token = Zeroizing::new(token);
        Ok(Zeroizing::new(format!("Bearer {}", token.as_str())))
    }

    /// What asks the server of `url`: by the authority that is known for it, else by all.
    pub(crate) fn http_at(&self, url: &str) -> &outhaul_http::Client {
        let host = UrlParts::of(url).map(|parts| parts.authority.to_ascii_lowercase());
        let own = host.and_then(|host| self.own.get(&host));
        own.unwrap_or(&self.http)
    }

    /// The value of `Authorization` for `host`.
    pub(crate) fn basic(&self, host: &str) -> Option<Zeroizing<String>> {
        self.credentials.basic(host)
    }

    pub(crate) fn no_credentials(&self, host: &str) -> String {
        match (self.credentials.basic(host), self.credentials.helper()) {
            (Some(_), _) => "the credentials here do not suffice".to_owned(),
            (None, Some(helper)) => format!(
                "no credentials for it are here; what `docker-credential-{helper}` knows is not asked for"
            ),
            (None, None) => "no credentials for it are here".to_owned(),
        }
    }
}

/// Who answers at `url`, which `image`'s registry is or led to.
fn host_of<'a>(image: &'a ImageReference, url: &'a str) -> &'a str {
    UrlParts::of(url).map_or(image.host(), |parts| parts.authority)
}

/// The media type of an answer, without its parameters.
fn media_type(answer: &Response) -> String {
    let named = answer.header("content-type").unwrap_or_default();
    let named = named.split(';').next().unwrap_or_default();
    named.trim().to_owned()
}

/// A manifest or a list, whole.
fn document(image: &ImageReference, answer: Response) -> Result<Vec<u8>, RegistryError> {
    let bytes = waiting(image.host(), COMES, DOCUMENT, || {
        answer.bytes(MAX_IMAGE_MANIFEST_BYTES)
    });
    bytes.map_err(|error| broken(image, &error))
}

/// An answer of `image`'s registry, or of where it redirects, that broke off.
fn broken(image: &ImageReference, error: &HttpError) -> RegistryError {
    match error {
        HttpError::Failed { url, .. } => not_answered(image, url, Led::Itself, error),
        error => not_answered(image, "", Led::Itself, error),
    }
}
