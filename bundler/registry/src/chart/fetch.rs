//! A chart repository asked over HTTP: its index, and an archive.
//!
//! What comes in: the repository's URL, credentials for its host, which hosts may be asked. What goes out: the index as it
//! comes, or an archive of at most [`MAX_CHART_ARCHIVE_BYTES`] bytes. Plain HTTP is spoken to this machine alone. Nothing that
//! authenticates goes to another host, and a redirect to another host is followed for an archive alone, of which the
//! index has the digest, and only where who runs the program named that host.

use crate::client::{BODY, Comes, LEAST, MAX_REDIRECTS, SILENCE};
use crate::led::{Led, unanswered};
use crate::notices::{fetching, waiting};
use crate::redirect::resolved;
use outhaul_kit::url::{UrlParts, is_https};
use std::io::Read;

use outhaul_http::{BaseUrl, HttpError, Method, Response};
use outhaul_kit::bounds::MAX_CHART_ARCHIVE_BYTES;
use outhaul_kit::console::progress::{Meter, Unit};

use super::Hosts;
use crate::challenge::Challenge;
use crate::client::RegistryClient;
use crate::error::RegistryError;

/// A repository that is asked.
pub(crate) struct Fetch<'a> {
    client: &'a RegistryClient,
    /// Without a slash at its end.
    base: BaseUrl,
    text: String,
    host: String,
    hosts: &'a Hosts<'a>,
}

impl<'a> Fetch<'a> {
    pub(crate) fn of(
        client: &'a RegistryClient,
        repository: &str,
        hosts: &'a Hosts<'a>,
    ) -> Result<Self, RegistryError> {
        let wrong = |problem: String| RegistryError::Wrong {
            host: host_of(repository).unwrap_or_default().to_owned(),
            what: "the chart repository".to_owned(),
            problem,
        };
        let base: BaseUrl = repository
            .parse()
            .map_err(|expected| wrong(format!("has an address that is not {expected}")))?;
        let text = base.to_string();
        let host = host_of(&text).unwrap_or_default().to_owned();
        (hosts.may_ask)(&text).map_err(wrong)?;
        Ok(Self {
            client,
            base,
            text,
            host,
            hosts,
        })
    }

    /// The repository's URL in one spelling.
    pub(super) fn repository(&self) -> &str {
        &self.text
    }

    pub(crate) fn wrong(&self, what: &str, problem: impl Into<String>) -> RegistryError {
        RegistryError::Wrong {
            host: self.host.clone(),
            what: what.to_owned(),
            problem: problem.into(),
        }
    }

    pub(crate) fn unreachable(&self, problem: String) -> RegistryError {
        RegistryError::Unreachable {
            host: self.host.clone(),
            problem,
        }
    }

    /// Where an archive is that the index has at `address`; `None` where it has none that can be asked.
    pub(super) fn address(&self, address: &str) -> Option<String> {
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic()) && !text.is_empty();
        if !plain(address) {
            return None;
        }
        if address.starts_with("//") {
            return None;
        }
        // The folder is the repository's own address.
        resolved(&self.base.join(""), address)
    }

    /// Where a site serves an archive, relative to the repository: as the original has it, where that is below it.
    pub(super) fn relative(&self, url: &str, name: &str, version: &str) -> String {
        let own = url.strip_prefix(&format!("{}/", self.text));
        let good = |c: char| c.is_ascii_alphanumeric() || "._+-/".contains(c);
        let part = |part: &str| !matches!(part, "" | "." | "..");
        let own = own.filter(|path| {
            path.ends_with(".tgz") && path.chars().all(good) && path.split('/').all(part)
        });
        own.map_or_else(|| format!("{name}-{version}.tgz"), str::to_owned)
    }

    /// The index, as it comes.
    pub(super) fn index(&self) -> Result<impl Read + use<>, RegistryError> {
        let answer = self.get(&self.base.join("index.yaml"), "index.yaml", false)?;
        Ok(answer.into_reader())
    }

    /// An archive, whole.
    pub(super) fn archive(&self, url: &str, has_digest: bool) -> Result<Vec<u8>, RegistryError> {
        let what = url.rsplit('/').next().unwrap_or(url);
        let what: String = what.split(['?', '#']).next().unwrap_or(what).to_owned();
        let answer = self.get(url, &what, has_digest)?;
        let mut bytes = Vec::new();
        let body = answer.into_reader().take(MAX_CHART_ARCHIVE_BYTES + 1);
        let meter = Meter::new(&fetching(url), Unit::Bytes, None);
        let read = meter.counts(body).read_to_end(&mut bytes);
        read.map_err(|error| self.unreachable(error.to_string()))?;
        if bytes.len() as u64 > MAX_CHART_ARCHIVE_BYTES {
            let problem = format!("has more than {MAX_CHART_ARCHIVE_BYTES} bytes");
            return Err(self.wrong(&format!("`{what}`"), problem));
        }
        Ok(bytes)
    }

    /// A file from byte `from` on, where its server gives out parts: how much comes, and what.
    pub(crate) fn file(&self, url: &str, from: u64) -> Result<(Option<u64>, Comes), RegistryError> {
        let range = (from > 0).then(|| format!("bytes={from}-"));
        let (answer, host) = self.answer(url, url, true, range.as_deref())?;
        let begins = if answer.status() == 206 { from } else { 0 };
        let length = answer.header("content-length");
        let length = length.and_then(|length| length.parse().ok());
        let body = Box::new(answer.into_reader());
        Ok((length, Comes { begins, host, body }))
    }

    fn get(&self, url: &str, what: &str, may_leave: bool) -> Result<Response, RegistryError> {
        let answered = self.answer(url, what, may_leave, None);
        answered.map(|(answer, _)| answer)
    }

    fn answer(
        &self,
        url: &str,
        what: &str,
        may_leave: bool,
        range: Option<&str>,
    ) -> Result<(Response, String), RegistryError> {
        let mut at = url.to_owned();
        let mut by = None;
        for _ in 0..=MAX_REDIRECTS {
            let host = host_of(&at).unwrap_or_default().to_owned();
            if host != self.host {
                (self.hosts.may_ask)(&at).map_err(|problem| {
                    self.wrong(&format!("`{what}`"), format!("is elsewhere: {problem}"))
                })?;
            }
            let led = by.as_deref().map_or(Led::Itself, Led::Redirected);
            let answer = self.ask((&at, led), &host, what, range)?;
            match answer.status() {
                200 | 206 => return Ok((answer, host)),
                300..=399 => {
                    let next = next(&answer, &at).ok_or_else(|| {
                        self.wrong(
                            &format!("`{what}`"),
                            "is redirected to an address that is not allowed",
                        )
                    })?;
                    let to = host_of(&next).unwrap_or_default();
                    let is_same = to == host && is_https(&next) == is_https(&at);
                    let is_named = may_leave && (self.hosts.is_named)(&next);
                    if !is_same && !is_named {
                        return Err(self.elsewhere(what, to, may_leave));
                    }
                    at = next;
                    by = Some(host);
                }
                404 => {
                    return Err(RegistryError::Missing {
                        host,
                        what: what.to_owned(),
                    });
                }
                401 | 403 => {
                    return Err(RegistryError::Denied {
                        problem: self.client.no_credentials(&host),
                        host,
                        what: what.to_owned(),
                    });
                }
                status => {
                    return Err(RegistryError::Status {
                        host,
                        what: what.to_owned(),
                        status,
                    });
                }
            }
        }
        let problem = format!("is redirected more than {MAX_REDIRECTS} times");
        Err(self.wrong(&format!("`{what}`"), problem))
    }

    fn elsewhere(&self, what: &str, to: &str, may_leave: bool) -> RegistryError {
        let to: String = to.chars().filter(|c| !c.is_control()).take(200).collect();
        let problem = match may_leave {
            true => format!(
                "is redirected to another host, `{to}`, which is not asked unless it is named: `--allow-host {to}`"
            ),
            false => format!(
                "is redirected to another host, `{to}`, which is not asked: no digest or signature here would verify the answer"
            ),
        };
        self.wrong(&format!("`{what}`"), problem)
    }

    fn ask(
        &self,
        at: (&str, Led<'_>),
        host: &str,
        what: &str,
        range: Option<&str>,
    ) -> Result<Response, RegistryError> {
        let answer = self.send(at, None, range)?;
        if answer.status() != 401 || host != self.host {
            return Ok(answer);
        }
        let asked = answer.header("www-authenticate").and_then(Challenge::parse);
        match (asked, self.client.basic(host)) {
            (Some(Challenge::Basic), Some(given)) => self.send(at, Some(&given), range),
            (Some(Challenge::Basic), None) => Ok(answer),
            _ => Err(RegistryError::Denied {
                host: host.to_owned(),
                what: what.to_owned(),
                problem: "it asks for another proof than a name and a password".to_owned(),
            }),
        }
    }

    fn send(
        &self,
        (url, led): (&str, Led<'_>),
        given: Option<&str>,
        range: Option<&str>,
    ) -> Result<Response, RegistryError> {
        let request = self.client.http_at(url).request(Method::GET, url);
        let mut request = request.body_limit(BODY).least_rate(LEAST);
        // What may be this machine is known by what was typed: a name may lead elsewhere a moment after it was checked.
        if !(self.hosts.is_named)(url) {
            request = request.outside_only();
        }
        if let Some(range) = range {
            request = request.header("Range", range);
        }
        if let Some(given) = given {
            request = request.secret_header("Authorization", given);
        }
        let host = host_of(url).unwrap_or(&self.host);
        let answer = waiting(host, "no answer yet", SILENCE, || request.send());
        answer.map_err(|error: HttpError| match error {
            HttpError::Url { expected } => {
                self.wrong("the address of an archive", format!("is not {expected}"))
            }
            error => unanswered(host, led, &error),
        })
    }
}

/// The host of a URL, with its port.
fn host_of(url: &str) -> Option<&str> {
    UrlParts::of(url).map(|parts| parts.authority)
}

/// Where an answer leads.
fn next(answer: &Response, from: &str) -> Option<String> {
    resolved(from, answer.header("location")?)
}
