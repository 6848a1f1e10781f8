//! Against servers of one answer each.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::*;

/// Answers one request with `answer`; the thread returns the request's head.
fn serve(answer: &'static str) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(&stream).lines().map_while(Result::ok);
        let head = lines.take_while(|line| !line.is_empty()).collect();
        stream.write_all(answer.as_bytes()).unwrap();
        head
    });
    (url, thread)
}

fn client() -> Client {
    Client::new(&ClientSettings {
        redirects: 3,
        ..ClientSettings::new("test/1", Authority::Nobody)
    })
    .unwrap()
}

#[test]
fn status_headers_and_a_bounded_body_are_visible() {
    let (url, thread) =
        serve("HTTP/1.1 404 Not Found\r\nX-Name: a\r\nContent-Length: 4\r\n\r\nbody");
    let request = client()
        .request(Method::GET, &url)
        .header("Accept", "text/plain")
        .secret_header("Authorization", "Bearer s3cret")
        .send();
    let answer = request.unwrap();
    assert_eq!((answer.status(), answer.header("x-name")), (404, Some("a")));
    assert_eq!(answer.bytes(4).unwrap(), b"body");
    let head = thread.join().unwrap().join("\n").to_ascii_lowercase();
    for line in [
        "accept: text/plain",
        "authorization: bearer s3cret",
        "user-agent: test/1",
    ] {
        assert!(head.contains(line), "{head}");
    }
}

#[test]
fn a_body_beyond_its_bound_is_an_error_with_the_url() {
    let (url, thread) = serve("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345");
    let error = client().request(Method::GET, &url).send().unwrap().bytes(4);
    let error = error.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("`{url}`: the answer has more than 4 bytes")
    );
    thread.join().unwrap();
}

#[test]
fn plain_http_follows_no_redirect() {
    let (url, thread) =
        serve("HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n");
    let answer = client().request(Method::GET, &url).send().unwrap();
    assert_eq!(
        (answer.status(), answer.header("Location")),
        (302, Some("http://10.0.0.1/"))
    );
    thread.join().unwrap();
}

#[test]
fn https_without_an_authority_is_an_error_and_no_panic() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // In capitals it once went past the TLS settings, and the first request was a panic.
    let url = format!("HTTPS://{}/", listener.local_addr().unwrap());
    // Plain HTTP where TLS belongs.
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    });
    let error = client().request(Method::GET, &url).send().unwrap_err();
    assert!(matches!(error, HttpError::Failed { .. }), "{error}");
    thread.join().unwrap();
}

#[test]
fn what_may_not_be_asked_is_not_asked() {
    for url in [
        "http://example.org/",
        "https://me:secret@example.org/",
        "file:///etc",
        "hub",
        "",
    ] {
        let error = client().request(Method::GET, url).send().unwrap_err();
        assert!(matches!(error, HttpError::Url { .. }), "{url}: {error}");
    }
    let client = client();
    let request = client.request(Method::GET, "http://127.0.0.1:1/");
    let error = request.secret_header("Authorization", "a\nb").send();
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("a header of the request is invalid"),
        "{error}"
    );
}

#[test]
fn no_proxy_is_used_unless_it_is_asked_for() {
    let client = client();
    assert!(client.tls.config().proxy().is_none() && client.plain.config().proxy().is_none());
}

#[test]
fn a_file_without_a_certificate_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error =
        Client::new(&ClientSettings::new("test/1", Authority::File(file.path()))).unwrap_err();
    assert!(
        matches!(&error, HttpError::NoCertificate { path } if path == file.path()),
        "{error}"
    );
    let missing = file.path().join("missing");
    let error = Client::new(&ClientSettings::new("test/1", Authority::File(&missing))).unwrap_err();
    assert!(matches!(error, HttpError::AuthorityFile(_)), "{error}");
}

/// A server that answers the first request of its first connection, closes that connection at the second, and answers the first
/// request of another. It returns how many requests it read.
fn serve_and_close() -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let mut requests = 0;
        for answered in [1, 0] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for _ in 0..=answered {
                let lines = lines.by_ref().map_while(Result::ok);
                if lines.take_while(|line| !line.is_empty()).count() == 0 {
                    break;
                }
                requests += 1;
                if requests != 2 {
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                        .unwrap();
                }
            }
        }
        requests
    });
    (url, thread)
}

#[test]
fn a_get_on_a_connection_that_the_server_closed_is_sent_once_more() {
    let (url, thread) = serve_and_close();
    let client = client();
    for _ in 0..2 {
        let answer = client.request(Method::GET, &url).send().unwrap();
        assert_eq!(answer.bytes(2).unwrap(), b"ok");
    }
    assert_eq!(thread.join().unwrap(), 3);
}

#[test]
fn a_post_on_a_connection_that_the_server_closed_is_not_repeated() {
    let (url, thread) = serve_and_close();
    let client = client();
    let first = client.request(Method::POST, &url).send_bytes(b"").unwrap();
    assert_eq!(first.bytes(2).unwrap(), b"ok");
    let second = client.request(Method::POST, &url).send_bytes(b"");
    assert!(matches!(second, Err(HttpError::Failed { .. })));
    // The server still waits for its second connection.
    client.request(Method::GET, &url).send().unwrap();
    assert_eq!(thread.join().unwrap(), 3);
}

#[test]
fn a_certificate_that_is_not_trusted_is_told_from_a_server_that_is_not_there() {
    let own = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let (served, other) = (own("localhost"), own("localhost"));
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(served.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![served.cert.der().clone()], key.into())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "https://localhost:{}/",
        listener.local_addr().unwrap().port()
    );
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut tls = rustls::ServerConnection::new(config).unwrap();
        let _ = tls.complete_io(&mut stream);
    });
    let pem = other.cert.pem();
    let authority = Authority::Pem {
        origin: "a test",
        pem: pem.as_bytes(),
    };
    let client = Client::new(&ClientSettings::new("test/1", authority)).unwrap();
    let error = client.request(Method::GET, &url).send().unwrap_err();
    assert!(matches!(error, HttpError::Certificate { .. }), "{error}");
    thread.join().unwrap();
}

#[test]
fn a_request_that_was_sent_is_distinguished_from_one_that_was_not() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let post = |url: &str| client().request(Method::POST, url).send_bytes(b"x");
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(&stream).lines().map_while(Result::ok);
        let head = lines.take_while(|line| !line.is_empty()).count();
        // The listener ends, too: nothing is there for the next request.
        drop(listener);
        head
    });
    let broken = post(&url).unwrap_err();
    assert!(thread.join().unwrap() > 0, "the server has the request");
    assert!(broken.may_be_sent(), "{broken:?}");
    let refused = post(&url).unwrap_err();
    assert!(!refused.may_be_sent(), "{refused:?}");
    let unknown = post("https://host.invalid/").unwrap_err();
    assert!(
        matches!(unknown, HttpError::NotSent { .. }) && !unknown.may_be_sent(),
        "{unknown:?}"
    );
}

/// A server that answers `head` and nothing more, until the client is gone.
fn serve_and_stop(head: &'static str) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    (url, thread)
}

#[test]
fn attack_a_body_that_stops_ends_after_the_longest_pause() {
    let silence = Some(Duration::from_millis(200));
    let mut settings = ClientSettings::new("test/1", Authority::Nobody);
    (settings.silence, settings.limits.answer) = (silence, silence);
    // What limits the whole body would end it much later.
    settings.limits.body = Some(Duration::from_secs(3600));
    let (url, thread) = serve_and_stop("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n12");
    let client = Client::new(&settings).unwrap();
    let answer = client.request(Method::GET, &url).send().unwrap();
    let mut bytes = Vec::new();
    let error = answer.into_reader().read_to_end(&mut bytes).unwrap_err();
    assert_eq!(
        (bytes.as_slice(), error.to_string().as_str()),
        (&b"12"[..], "no byte came for 0 s")
    );
    assert!(crate::is_timeout(&error), "{error:?}");
    drop(client);
    thread.join().unwrap();
}

#[test]
fn attack_a_body_that_drips_ends_where_too_little_came() {
    let (url, thread) = serve("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n12");
    let least = LeastRate {
        bytes: 3,
        within: Duration::ZERO,
    };
    let client = client();
    let answer = client.request(Method::GET, &url).least_rate(least).send();
    let error = answer.unwrap().bytes(2).unwrap_err().to_string();
    assert!(error.contains("only 2 bytes came in 0 s"), "{error}");
    thread.join().unwrap();
}

#[test]
fn attack_an_address_that_leads_to_this_machine_is_not_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = client();
    for (host, scheme) in [
        ("127.0.0.1", "https"),
        ("127.0.0.1", "http"),
        ("[::ffff:127.0.0.1]", "https"),
        ("localhost", "https"),
        ("169.254.169.254", "https"),
        // However it is spelled, the resolver decides what it is.
        ("127.1", "https"),
        ("2130706433", "https"),
    ] {
        let url = format!("{scheme}://{host}:{port}/");
        let request = client.request(Method::GET, &url).outside_only();
        let error = request.send().unwrap_err();
        assert!(
            matches!(error, HttpError::Inside { .. }),
            "{url}: {error:?}"
        );
    }
    let error = listener.accept().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}
