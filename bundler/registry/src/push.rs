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
use crate::redirect::{location, resolved};
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
            _ => Err(self.not_accepted(repository, what, answer)),
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
            return Err(self.not_accepted(repository, what, answer));
        }
        let named = || {
            let to = resolved(&begin, answer.header("location")?)?;
            repository.is_same_loopback(&to).then_some(to)
        };
        let to = location(&answer, &begin)
            .or_else(named)
            .ok_or_else(|| RegistryError::Wrong {
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
            _ => Err(self.not_accepted(repository, what, answer)),
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
            _ => Err(self.not_accepted(repository, what, answer)),
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

    fn not_accepted(
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::credentials::Credentials;
    use crate::hosts::RegistryHosts;

    /// A registry that takes uploads at `at`, with its port in the place of `PORT`; what is pushed to it at `localhost`, and what it was asked.
    fn pushed(at: &str) -> (Result<(), RegistryError>, Vec<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let at = at.replace("PORT", &port);
        let asked = thread::spawn(move || {
            let mut asked = Vec::new();
            while asked
                .last()
                .is_none_or(|last: &String| last.starts_with("POST"))
            {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let head: Vec<String> = reader
                    .by_ref()
                    .lines()
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let first = head.first().cloned().unwrap_or_default();
                let answer = match first.starts_with("POST") {
                    true => format!("202 Accepted\r\nLocation: {at}"),
                    false if first.starts_with("PUT") => {
                        reader.read_exact(&mut [0; 5]).unwrap();
                        "201 Created\r\nDocker-Distribution-API-Version: registry/2.0".to_owned()
                    }
                    false => return asked,
                };
                asked.push(first);
                let answer =
                    format!("HTTP/1.1 {answer}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
            asked
        });
        let pem = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/authority.pem");
        let client = RegistryClient::new(Credentials::default(), Some(pem.as_ref()))
            .and_then(|client| client.with_hosts(RegistryHosts::default()))
            .unwrap();
        let content = Content {
            digest: Digest::of(b"hello"),
            size: 5,
        };
        let repository = format!("localhost:{port}/team/app:1").parse().unwrap();
        let done = client.push_blob(&repository, content, &mut &b"hello"[..]);
        // Where nothing was uploaded, the registry still waits.
        let _ = std::net::TcpStream::connect(format!("127.0.0.1:{port}"));
        (done, asked.join().unwrap())
    }

    #[test]
    fn a_registry_on_this_machine_may_take_uploads_by_another_of_its_names_at_the_same_port() {
        let (done, asked) = pushed("http://127.0.0.1:PORT/upload?a=1");
        done.unwrap();
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(asked[1].starts_with("PUT /upload?a=1&digest=sha256%3A"));
    }

    #[test]
    fn attack_a_registry_on_this_machine_leads_uploads_to_no_other_of_its_services() {
        for at in ["http://127.0.0.1:1/upload", "https://127.0.0.1:1/upload"] {
            let (done, asked) = pushed(at);
            let error = done.unwrap_err().to_string();
            let expected = ["is not https", "this machine, which is not asked"];
            assert!(
                expected.iter().any(|words| error.contains(words)),
                "{error}"
            );
            assert_eq!(asked.len(), 1, "{asked:?}");
        }
    }
}
