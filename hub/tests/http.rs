//! The server, spoken to in HTTP and HTTPS.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use outhaul_bundle::hub_api::{
    ErrorAnswer, GateAnswer, RecordedBundle, ReportsAnswer, RequestAnswer,
};
use outhaul_test_kit::Centre;
use outhaul_test_kit::plain::{NEW, OLD};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::program::{Hub, code, stderr};

pub fn exchange(
    mut stream: impl Read + Write,
    head: &str,
    more: &str,
    body: &[u8],
) -> (u16, String) {
    let length = body.len();
    let text = format!(
        "{head} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\nContent-Length: {length}\r\n{more}\r\n"
    );
    stream.write_all(text.as_bytes()).unwrap();
    // The server may answer and close before it has read a body that is too long.
    drop(stream.write_all(body));
    let mut bytes = Vec::new();
    drop(stream.read_to_end(&mut bytes));
    let text = String::from_utf8(bytes).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    (status, text.split_once("\r\n\r\n").unwrap().1.to_owned())
}

pub fn plain(address: &str, head: &str, body: &[u8]) -> (u16, String) {
    exchange(TcpStream::connect(address).unwrap(), head, "", body)
}

pub fn json(address: &str, head: &str, body: &[u8]) -> (u16, Value) {
    let (status, text) = plain(address, head, body);
    (status, serde_json::from_str(&text).unwrap())
}

/// The type reads the answer, and nothing of it is lost: the next reader sees what the hub wrote.
#[track_caller]
fn holds_all<T: Serialize + DeserializeOwned>(answer: &Value) {
    let typed: T = serde_json::from_value(answer.clone()).unwrap();
    assert_eq!(&serde_json::json!(typed), answer);
}

/// A new bundle is recorded; what is not one is refused.
#[track_caller]
fn bundles_over_http(address: &str, bundle: &[u8]) {
    let (status, recorded) = json(address, "POST /api/v1/bundles", bundle);
    holds_all::<RecordedBundle>(&recorded);
    assert_eq!(
        (status, &recorded["number"], &recorded["new"]),
        (200, &1.into(), &true.into())
    );
    let (status, refused) = json(address, "POST /api/v1/bundles", b"not a bundle");
    assert_eq!(status, 422, "{refused}");
    holds_all::<ErrorAnswer>(&refused);
}

#[test]
fn reports_and_bundles_over_http_then_the_gate_and_the_page() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    let mut site = centre.site("drone-1", &stream);
    fs::write(hub.path("r.request"), site.request()).unwrap();
    hub.add(&hub.path("r.request"), &site);
    let server = hub.serve(&[]);
    let address = server.address();

    assert_eq!(
        json(address, "GET /healthz", b""),
        (200, serde_json::json!({ "status": "ok" }))
    );
    bundles_over_http(address, &centre.bundle(&stream, 1, NEW));

    let mut event = site.event(
        1,
        NEW,
        outhaul_bundle::report::GenerationState::Active,
        outhaul_bundle::report::ComplianceStatus::Compliant,
    );
    event.index = outhaul_bundle::Digest::of(&centre.plain_index(&stream, 1, NEW).to_bytes());
    let line = site.say(outhaul_bundle::report::ReportEvent::Generation(event));
    let body = [b"<script>alert(1)</script>\n".as_slice(), &line].concat();
    let (status, answer) = json(address, "POST /api/v1/reports", &body);
    assert_eq!(
        (
            status,
            &answer["accepted"],
            &answer["acks"].as_array().unwrap().len()
        ),
        (200, &1.into(), &1)
    );
    assert_eq!(answer["refused"][0]["line"], 1);
    holds_all::<ReportsAnswer>(&answer);
    assert_eq!(
        json(address, "POST /api/v1/reports", &line).1["duplicates"],
        1
    );

    let (_, sites) = json(address, "GET /api/v1/sites", b"");
    assert_eq!(
        (&sites[0]["actual"], &sites[0]["verdict"]),
        (&1.into(), &"ok".into())
    );
    let (_, assignments) = json(address, "GET /api/v1/assignments", b"");
    assert_eq!(assignments[0]["status"], "compliant");
    let gate = |commit| {
        json(
            address,
            &format!("GET /api/v1/gate?environment=dev&commit={commit}"),
            b"",
        )
        .1
    };
    assert_eq!(
        (&gate(NEW)["verdict"], &gate(OLD)["verdict"]),
        (&"open".into(), &"closed".into())
    );

    // A name of a commit is none, and a commit that nobody bundled opens nothing.
    for text in [
        "HEAD",
        "main",
        "",
        "x",
        &NEW[..39],
        &"A".repeat(40),
        "sha256%3Aabc",
    ] {
        let path = format!("GET /api/v1/gate?environment=dev&commit={text}");
        let (status, answer) = json(address, &path, b"");
        assert_eq!(status, 400, "{text}: {answer}");
        let message = answer["error"].as_str().unwrap();
        assert!(message.contains("full ids only"), "{message}");
    }
    let unknown = gate("00000000000000000000000000000000000000aa");
    assert_eq!(unknown["verdict"], "closed");
    let reasons = unknown["reasons"].to_string();
    assert!(
        reasons.contains("unknown-commit: this hub has no bundle of `dev`"),
        "{reasons}"
    );

    for commit in [NEW, OLD] {
        holds_all::<GateAnswer>(&gate(commit));
    }
    let (_, answer) = json(address, "POST /api/v1/requests", &site.request());
    holds_all::<RequestAnswer>(&answer);
    assert_eq!(answer["result"], "already");

    let (status, page) = plain(address, "GET /", b"");
    assert_eq!(status, 200);
    assert!(
        page.contains("drone-1") && page.ends_with("</html>"),
        "{page}"
    );
    assert!(!page.contains("<script"), "nothing runs in the page");
    assert_eq!(plain(address, "GET /nowhere", b"").0, 404);
    assert_eq!(plain(address, "GET /api/v1/gate", b"").0, 400);

    // A second server is kept away; other commands work beside the first.
    let second = hub.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(code(&second), 3, "{}", stderr(&second));
    assert!(stderr(&second).contains("another `serve` of this hub runs"));
    assert_eq!(hub.gate("dev", NEW).0, 0);
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_body_beyond_the_bound_is_refused() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let server = hub.serve(&[]);
    let body = vec![b'\n'; 16 * 1024 * 1024 + 1];
    let (status, _) = plain(server.address(), "POST /api/v1/reports", &body);
    assert_eq!(status, 413);
}

/// A certificate for `localhost` and its key; `None`, and the calling test skipped, without OpenSSL.
#[track_caller]
pub fn certificate(hub: &Hub) -> Option<(PathBuf, PathBuf)> {
    let (cert, key) = (hub.path("hub.crt"), hub.path("hub.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ])
        .args([
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        outhaul_tests::skipped("the `openssl` program is needed to make a certificate");
        return None;
    }
    Some((cert, key))
}

#[test]
fn https_with_a_certificate() {
    let hub = Hub::new();
    let Some((cert, key)) = certificate(&hub) else {
        return;
    };
    let centre = Centre::new();
    hub.init(&centre.root());
    let tls = [
        "--tls-cert",
        cert.to_str().unwrap(),
        "--tls-key",
        key.to_str().unwrap(),
    ];
    let server = hub.serve(&tls);
    assert!(server.url.starts_with("https://"));

    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(&cert).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(server.address()).unwrap();
    let tls = rustls::StreamOwned::new(connection, stream);
    let (status, body) = exchange(tls, "GET /healthz", "", b"");
    assert_eq!((status, body.as_str()), (200, r#"{"status":"ok"}"#));
    assert_eq!(server.stop(), 0);
}

#[test]
fn systemd_is_notified_of_start_work_and_stop() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let path = hub.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    // Only so that a defect fails the test instead of hanging it.
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let next = || {
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let message = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "200000"),
    ];
    let server = hub.serve_in(&[], &message);
    let first = [next(), next()];
    for word in ["READY=1\n", "WATCHDOG=1\n"] {
        assert!(first.contains(&word.to_owned()), "{first:?}");
    }
    assert_eq!(next(), "WATCHDOG=1\n", "again and again");
    assert_eq!(server.stop(), 0);
    assert!(std::iter::repeat_with(next).any(|word| word == "STOPPING=1\n"));
}
