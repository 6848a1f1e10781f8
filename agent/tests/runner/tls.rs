//! HTTPS with an authority of the fleet's own, as the kit names it: pulled, sent, and any other refused.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use outhaul_bundle::hub_api::ReportsAnswer;
use outhaul_test_kit::{Centre, Draft, TOKEN};

use crate::server::Server;
use crate::site::{Site, assert_reports, code, stderr};
use crate::web::unpack_for_web;
use outhaul_tests::skipped;

/// A certificate for `localhost`, which is its own authority.
pub fn certificate(folder: &Path, name: &str) -> Option<(PathBuf, PathBuf)> {
    let (cert, key) = (
        folder.join(format!("{name}.crt")),
        folder.join(format!("{name}.pem")),
    );
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
        .args(["-days", "2", "-subj", &format!("/CN={name}")])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .stderr(Stdio::null())
        .status();
    if made.is_ok_and(|status| status.success()) {
        return Some((cert, key));
    }
    skipped("the `openssl` program is needed to make a certificate");
    None
}

/// TLS in front of `behind`; returns its URL and what was sent through it.
fn in_front_of(behind: &Server, cert: &Path, key: &Path) -> (String, Arc<Mutex<Vec<u8>>>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(cert).unwrap()],
            PrivateKeyDer::from_pem_file(key).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    let address = behind.url.trim_start_matches("http://").to_owned();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sent = Arc::clone(&seen);
    // Ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            // A client that does not trust the certificate goes away: its own business.
            let _ = relay(
                rustls::StreamOwned::new(connection, stream),
                &address,
                &sent,
            );
        }
    });
    (url, seen)
}

fn relay(
    mut client: rustls::StreamOwned<rustls::ServerConnection, TcpStream>,
    address: &str,
    seen: &Mutex<Vec<u8>>,
) -> std::io::Result<()> {
    let (mut request, mut length) = (Vec::new(), 0);
    let mut reader = BufReader::new(&mut client);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        request.extend_from_slice(line.as_bytes());
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = text.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    request.extend(body);
    seen.lock().unwrap().extend(&request);
    let mut server = TcpStream::connect(address)?;
    server.write_all(&request)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    client.write_all(&answer)?;
    client.conn.send_close_notify();
    client.flush()
}

/// A hub that acknowledges nothing.
fn hub(folder: &Path) -> Server {
    let answer = |_: &[u8]| serde_json::to_vec(&ReportsAnswer::default()).unwrap();
    Server::start(folder.to_owned(), Box::new(answer))
}

#[test]
fn a_site_pulls_asks_and_reports_over_https_with_the_kit_s_own_authority_and_no_other() {
    let centre = Centre::new();
    let web = tempfile::tempdir().unwrap();
    unpack_for_web(&centre.publish(&Draft::hello("one")), web.path());
    let Some((cert, key)) = certificate(web.path(), "fleet") else {
        return;
    };
    let (other, _) = certificate(web.path(), "other").unwrap();
    let server = hub(web.path());
    let (url, sent) = in_front_of(&server, &cert, &key);

    let site = |authority: &Path| {
        let kit = centre.kit_with("drone-7", TOKEN, |kit| {
            kit.hub_url.clone_from(&url);
            kit.hub_ca = fs::read_to_string(authority).unwrap();
        });
        let site = Site::with_kit("drone-7", &kit);
        site.configure(&format!("[repository]\nurl = \"{url}\""));
        site
    };
    let good = site(&cert);
    assert_reports(&good.run(&["run", "--once"]), 0, &[]);
    assert_eq!(good.active(), Some(1));
    assert_eq!(good.applied()["hello/manifest.yaml"], b"greeting: one\n");
    let answered = good.ok(&["send"]);
    assert_eq!(answered["request"], "waiting");
    let sent = String::from_utf8_lossy(&sent.lock().unwrap()).into_owned();
    assert!(sent.contains("POST /api/v1/requests") && sent.contains("POST /api/v1/reports"));

    let wrong = site(&other);
    let output = wrong.run(&["run", "--once"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("certificate"),
        "{}",
        stderr(&output)
    );
    assert_eq!(wrong.active(), None);
    assert_reports(
        &wrong.run(&["send"]),
        3,
        &["certificate", "nothing is lost"],
    );
    // The owner's own file counts for more than the kit.
    let ca = cert.display();
    wrong.configure(&format!(
        "[repository]\nurl = \"{url}\"\nca = \"{ca}\"\n[hub]\nca = \"{ca}\""
    ));
    assert_reports(&wrong.run(&["run", "--once"]), 0, &[]);
}
