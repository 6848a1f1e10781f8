//! The page of a site's status, for browsers of this very machine.
//!
//! What comes in: requests, and the file that the agent writes. What goes out: that file, or a page that says why there is none. It
//! listens on a loopback address only and answers to names of this machine only, so that no page of someone else's
//! server can read it. It knows nothing of what the page says, and changes nothing.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderMap, REFERRER_POLICY,
    X_FRAME_OPTIONS,
};
use hyper::service::{Service, service_fn};
use hyper::{Method, Request, StatusCode};
use outhaul_kit::durable;

use crate::answer::{self, Answer, header, text};
use crate::body::BodyContent;

/// Largest page, in bytes.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Nothing is loaded and nothing runs, whatever a page says.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// What answers the requests of one connection.
pub fn service(
    file: Arc<PathBuf>,
) -> impl Service<
    Request<Incoming>,
    Response = Answer,
    Error = Infallible,
    Future = impl Future<Output = Result<Answer, Infallible>> + Send + use<>,
> + Send
+ 'static {
    service_fn(move |request| {
        let file = Arc::clone(&file);
        async move {
            let (parts, _) = request.into_parts();
            let asked = (parts.method, parts.uri.path().to_owned(), parts.headers);
            let done = tokio::task::spawn_blocking(move || answered(&asked, &file)).await;
            Ok(done.unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, "internal error")))
        }
    })
}

fn answered((method, path, headers): &(Method, String, HeaderMap), file: &Path) -> Answer {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "this page is read only");
        header(&mut refused, ALLOW, "GET, HEAD");
        return refused;
    }
    if !is_of_this_machine(headers) {
        return text(
            StatusCode::FORBIDDEN,
            "this page is for browsers of this machine: open http://127.0.0.1 with the port, or http://localhost",
        );
    }
    if path != "/" {
        return text(StatusCode::NOT_FOUND, "nothing is here; the page is /");
    }
    let (status, bytes) = match durable::read_if_present(file, MAX_BYTES) {
        Ok(Some(bytes)) => (StatusCode::OK, bytes),
        Ok(None) => (
            StatusCode::SERVICE_UNAVAILABLE,
            said(
                "The agent has not written its status yet. Is the service running? <code>systemctl status outhaul-agent</code> \
                  shows that, and <code>outhaul-agent status</code> prints the same.",
            ),
        ),
        Err(error) => {
            tracing::error!(%error, "the page cannot be read");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                said("The page cannot be read; <code>outhaul-agent status</code> prints the same."),
            )
        }
    };
    let mut page = answer::of(status, "text/html; charset=utf-8", bytes);
    header(&mut page, CACHE_CONTROL, "no-store");
    header(&mut page, CONTENT_SECURITY_POLICY, POLICY);
    header(&mut page, REFERRER_POLICY, "no-referrer");
    header(&mut page, X_FRAME_OPTIONS, "DENY");
    if *method == Method::HEAD {
        *page.body_mut() = BodyContent::Bytes(None);
    }
    page
}

fn said(words: &str) -> Vec<u8> {
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Site status</title>\
         <h1>Site status</h1><p>{words}</p></html>\n"
    )
    .into_bytes()
}

/// Whether the request names this machine: a name that someone else's server has answered with this address is none of ours.
fn is_of_this_machine(headers: &HeaderMap) -> bool {
    let host = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let bare = match host.rsplit_once(':') {
        Some((bare, port)) if port.bytes().all(|b| b.is_ascii_digit()) => bare,
        _ => host,
    };
    let bare = bare.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Refuses an address that others reach.
///
/// # Errors
/// As the system would say it.
pub fn only_loopback(address: std::net::SocketAddr) -> io::Result<()> {
    match address.ip().is_loopback() {
        true => Ok(()),
        false => Err(io::Error::other(
            "the page is for this machine alone: use 127.0.0.1",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: Method, path: &str, host: &str, file: &Path) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        answered(&(method, path.to_owned(), headers), file)
    }

    #[test]
    fn the_page_is_there_for_this_machine_and_says_so_when_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("status.html");
        let none = ask(Method::GET, "/", "127.0.0.1:5480", &file);
        assert_eq!(none.status(), StatusCode::SERVICE_UNAVAILABLE);
        std::fs::write(&file, "<h1>press-7</h1>").unwrap();
        for host in [
            "127.0.0.1:5480",
            "localhost:5480",
            "LOCALHOST",
            "[::1]:5480",
        ] {
            let found = ask(Method::GET, "/", host, &file);
            assert_eq!(found.status(), StatusCode::OK, "{host}");
            assert_eq!(found.headers()[CACHE_CONTROL], "no-store");
        }
        assert_eq!(
            ask(Method::GET, "/other", "localhost", &file).status(),
            StatusCode::NOT_FOUND
        );
        let changed = ask(Method::POST, "/", "localhost", &file);
        assert_eq!(changed.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[test]
    fn attack_a_foreign_name_for_this_address_gets_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("status.html");
        std::fs::write(&file, "<h1>press-7</h1>").unwrap();
        for host in [
            "evil.example:5480",
            "127.0.0.1.evil.example",
            "10.0.0.5:5480",
            "",
            "localhost.evil",
        ] {
            assert_eq!(
                ask(Method::GET, "/", host, &file).status(),
                StatusCode::FORBIDDEN,
                "{host}"
            );
        }
        assert!(only_loopback("0.0.0.0:5480".parse().unwrap()).is_err());
        assert!(only_loopback("127.0.0.1:0".parse().unwrap()).is_ok());
    }
}
