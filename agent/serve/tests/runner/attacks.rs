//! What each attack on the server meets.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;

use outhaul_serve::digest::Digest;
use serde_json::json;

use crate::client::read;
use crate::site::{Server, Site};

const HELLO: &str = "/v2/docker.io/library/hello";

fn large() -> Vec<u8> {
    (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect()
}

fn still_serves(server: &Server) {
    assert_eq!(server.get(&format!("{HELLO}/manifests/1")).status, 200);
}

#[test]
fn a_path_that_leaves_the_folder_finds_nothing() {
    let (site, server) = Site::serving(|layout| {
        layout.image("docker.io/library/hello:1", b"x");
    });
    fs::write(site.root.path().join("secret"), "secret").unwrap();
    for path in [
        "/v2/../../secret",
        "/../secret",
        "/v2/docker.io/library/hello/blobs/../../../../secret",
        "/v2/docker.io/library/hello/blobs/sha256:..%2f..%2f..%2f..%2fsecret",
        "/v2/docker.io/library/hello/manifests/..%2f..%2fsecret",
        "/v2/docker.io%2f..%2f..%2fsecret/manifests/1",
        "/v2/%2e%2e/%2e%2e/manifests/1",
        "/docker.io/../secret/info/refs?service=git-upload-pack",
        "/secret",
        "/active",
        "/1/catalog.json",
    ] {
        let answer = server.get(path);
        assert!((400..=404).contains(&answer.status), "{path}: {answer:?}");
        assert!(!answer.body.ends_with(b"secret"), "{path}");
    }
}

#[test]
fn links_are_not_followed() {
    let site = Site::new();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, b"secret").unwrap();
    let mut layout = site.layout("1", "images");
    let digest = layout.image("docker.io/library/hello:1", b"secret");
    layout.image("docker.io/library/linked:1", b"y");
    let blob = layout.path(&Digest::of(b"secret"));
    fs::remove_file(&blob).unwrap();
    // Its content is even right.
    symlink(&secret, &blob).unwrap();
    layout.write();
    let elsewhere = crate::site::Layout::new(&outside.path().join("layout"));
    elsewhere.write();
    symlink(
        outside.path().join("layout"),
        site.folder("1").join("linked"),
    )
    .unwrap();
    let layouts =
        json!([{ "folder": "images" }, { "folder": "linked" }, { "folder": "../1/images" }]);
    site.catalog("1", &json!({ "layouts": layouts }));
    site.activate("1");
    let server = site.serve();
    assert_eq!(
        server.get(&format!("{HELLO}/manifests/{digest}")).status,
        200
    );
    let answer = server.get(&format!("{HELLO}/blobs/{}", Digest::of(b"secret")));
    assert_eq!(answer.status, 500, "{answer:?}");
    assert!(!answer.body.ends_with(b"secret"));
    let log = fs::read_to_string(server.log.path()).unwrap();
    assert!(
        log.contains("`linked`") && log.contains("`../1/images`"),
        "{log}"
    );
}

#[test]
fn a_blob_that_does_not_match_its_digest_never_arrives_whole() {
    let content = large();
    let digest = Digest::of(&content);
    let mut place = None;
    let (_site, server) = Site::serving(|layout| {
        layout.image("docker.io/library/hello:1", &content);
        place = Some(layout.path(&digest));
    });
    let place = place.unwrap();
    let path = format!("{HELLO}/blobs/{digest}");
    let good = server.get(&path);
    assert_eq!((good.status, good.body == content), (200, true));
    // One bit, of the same length, as a failing disk has it.
    let mut damaged = content.clone();
    damaged[7] ^= 1;
    fs::write(&place, &damaged).unwrap();
    let cut = server.get(&path);
    assert_eq!(cut.status, 200);
    assert!(!cut.is_whole() && cut.body.len() < content.len());
    // From then on it is known, and refused before a byte is sent.
    let refused = server.get(&path);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (500, "BLOB_UNKNOWN")
    );
    assert_eq!(server.head(&path).status, 500);
    // A part of it is compared first.
    fs::write(&place, &damaged).unwrap();
    let part = server.request("GET", &path, &[("Range", "bytes=100-199")]);
    assert_eq!(part.status, 500);
    // Shorter, or gone.
    fs::write(&place, &content[..100]).unwrap();
    assert_eq!(server.get(&path).status, 500);
    fs::remove_file(&place).unwrap();
    assert_eq!(server.get(&path).status, 404);
    fs::write(&place, &content).unwrap();
    let part = server.request("GET", &path, &[("Range", "bytes=100-199")]);
    assert_eq!(
        (part.status, part.body.as_slice()),
        (206, &content[100..200])
    );
    assert!(server.get(&path).body == content);
}

#[test]
fn a_small_blob_or_manifest_that_does_not_match_is_an_error() {
    let mut places = Vec::new();
    let (_site, server) = Site::serving(|layout| {
        let manifest = layout.image("docker.io/library/hello:1", b"content");
        places = vec![layout.path(&manifest), layout.path(&Digest::of(b"content"))];
    });
    let blob = format!("{HELLO}/blobs/{}", Digest::of(b"content"));
    still_serves(&server);
    fs::write(&places[1], b"CONTENT").unwrap();
    assert_eq!(server.get(&blob).status, 500);
    let mut manifest = fs::read(&places[0]).unwrap();
    manifest[0] = b'[';
    fs::write(&places[0], manifest).unwrap();
    let answer = server.get(&format!("{HELLO}/manifests/1"));
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (500, "BLOB_UNKNOWN")
    );
}

#[test]
fn a_head_without_end_is_refused() {
    let (_site, server) = Site::serving(|layout| {
        layout.image("docker.io/library/hello:1", b"x");
    });
    let long = format!(
        "GET /v2/ HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "x".repeat(1 << 20)
    );
    let answer = server.send(long.as_bytes());
    assert!(
        answer.is_empty() || read(&answer).status == 431,
        "{answer:?}"
    );
    let many = format!(
        "GET /v2/ HTTP/1.1\r\nHost: a\r\n{}\r\n",
        "X: y\r\n".repeat(500)
    );
    let answer = server.send(many.as_bytes());
    assert!(
        answer.is_empty() || read(&answer).status == 431,
        "{answer:?}"
    );
    let target = server.get(&format!("/v2/{}/manifests/1", "a/".repeat(3000)));
    assert_eq!(target.status, 414);
    still_serves(&server);
}

#[test]
fn many_ranges_are_answered_with_the_whole_once() {
    let (_site, server) = Site::serving(|layout| {
        layout.image("docker.io/library/hello:1", b"0123456789");
    });
    let many = format!("bytes={}", vec!["0-9"; 500].join(","));
    let path = format!("{HELLO}/blobs/{}", Digest::of(b"0123456789"));
    let answer = server.request("GET", &path, &[("Range", &many)]);
    assert_eq!(
        (answer.status, answer.body.as_slice()),
        (200, &b"0123456789"[..])
    );
}

#[test]
fn clients_that_read_nothing_do_not_keep_others_from_being_served() {
    let content = large();
    let digest = Digest::of(&content);
    let (_site, server) = Site::serving(|layout| {
        layout.image("docker.io/library/hello:1", &content);
    });
    let slow: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = server.connect();
            let request = format!("GET {HELLO}/blobs/{digest} HTTP/1.1\r\nHost: a\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            // It has begun to send.
            stream.read_exact(&mut [0; 100]).unwrap();
            stream
        })
        .collect();
    still_serves(&server);
    // What a hundred of them hold is a few pieces each, not the blob.
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 256 * 1024, "{line}");
    drop(slow);
}

#[test]
fn a_client_that_stalls_loses_its_connection() {
    use outhaul_listen::{ConnectionLimits, accept};
    use outhaul_serve::server::{LIMITS, service};
    use outhaul_serve::view::{Current, FolderView};
    let content = large();
    let digest = Digest::of(&content);
    let (site, server) = Site::serving(|layout| {
        layout.image("docker.io/library/hello:1", &content);
    });
    drop(server);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let limits = ConnectionLimits {
        connections: 1,
        stall: std::time::Duration::from_millis(50),
        receive: std::time::Duration::from_millis(50),
        ..LIMITS
    };
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let address = listener.local_addr().unwrap();
    let current = Current::new(Box::new(FolderView::new(site.root.path())));
    let current = std::sync::Arc::new(current);
    let answers = move |_| service(std::sync::Arc::clone(&current));
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    runtime.spawn(accept(listener, None, limits, answers, stopped));
    let mut stalled = std::net::TcpStream::connect(address).unwrap();
    let request = format!("GET {HELLO}/blobs/{digest} HTTP/1.1\r\nHost: a\r\n\r\n");
    stalled.write_all(request.as_bytes()).unwrap();
    // There is one slot: the next client is served once the first has lost it.
    let mut next = std::net::TcpStream::connect(address).unwrap();
    next.write_all(b"GET /v2/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    next.read_to_end(&mut answer).unwrap();
    assert_eq!(read(&answer).status, 200);
    let mut rest = Vec::new();
    let _ = stalled.read_to_end(&mut rest);
    assert!(rest.len() < content.len());
    // A head that does not come ends the same way.
    let mut silent = std::net::TcpStream::connect(address).unwrap();
    silent.write_all(b"GET /v2/ HT").unwrap();
    let _ = silent.read_to_end(&mut Vec::new());
}
