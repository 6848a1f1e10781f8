//! Slow, greedy and curious peers, over real sockets. Nothing is timed: each test waits for an answer that
//! would not come, or come otherwise, if the peer could keep others out.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outhaul_test_kit::plain::NEW;
use outhaul_test_kit::{Centre, Site, TOKEN};
use serde_json::Value;

use crate::http::{exchange, json, plain};
use crate::program::Hub;

/// A body that is announced and does not come.
fn stuck(address: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: hub\r\nContent-Length: 1000000\r\n\r\n{{");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

fn registered(hub: &Hub, centre: &Centre, name: &str) -> Site {
    let site = centre.site(name, &centre.stream("dev", "drone"));
    let file = hub.path("r.request");
    fs::write(&file, site.request()).unwrap();
    hub.add(&file, &site);
    site
}

/// It never comes: an answer that is not 413 would be 408, half a minute later.
#[test]
fn a_body_that_is_announced_too_large_is_not_waited_for() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let server = hub.serve(&[]);
    for path in ["/api/v1/reports", "/api/v1/requests"] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let length = 16_u64 << 30;
        let head = format!("POST {path} HTTP/1.1\r\nHost: hub\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 413"), "{path}: {text}");
    }
}

#[test]
fn bodies_that_do_not_come_keep_no_report_out() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let mut site = registered(&hub, &centre, "drone-1");
    let server = hub.serve(&[]);
    let address = server.address();
    let mut idle: Vec<_> = (0..200)
        .map(|_| stuck(address, "/api/v1/reports"))
        .collect();
    idle.extend((0..50).map(|_| stuck(address, "/api/v1/requests")));
    idle.extend((0..20).map(|_| stuck(address, "/api/v1/bundles")));
    // They would be waited for for half a minute each; a report goes through while all are open.
    let (status, answer) = json(address, "POST /api/v1/reports", &site.started());
    assert_eq!((status, &answer["accepted"]), (200, &1.into()), "{answer}");
    let (status, _) = json(address, "POST /api/v1/requests", b"junk");
    assert_eq!(status, 422);
    let mut first = idle.swap_remove(0);
    let mut text = String::new();
    first.read_to_string(&mut text).unwrap();
    assert!(
        text.starts_with("HTTP/1.1 503"),
        "the idlest gave way: {text}"
    );
}

#[test]
fn junk_requests_fill_their_own_room_and_one_command_forgets_them() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    let server = hub.serve(&[]);
    let address = server.address();
    let post = |site: &Site| json(address, "POST /api/v1/requests", &site.request());
    let mut last = (0, Value::Null);
    for number in 0..65 {
        last = post(&centre.site(&format!("junk-{number}"), &stream));
    }
    assert_eq!(
        (last.0, &last.1["rule"]),
        (429, &"too-many".into()),
        "{}",
        last.1
    );
    // A kit that was announced and a file that someone brings are let in all the same.
    let expected = centre.site("drone-1", &stream);
    let kit = expected.enrolment(TOKEN).hex();
    hub.json(&["site", "expect", "drone-1", "--kit", &kit]);
    assert_eq!(post(&expected).1["result"], "registered");
    let file = hub.path("drone-2.request");
    fs::write(&file, centre.site("drone-2", &stream).request()).unwrap();
    let done = hub.json(&["import", file.to_str().unwrap()]);
    assert_eq!(done["requests"][0]["result"], "waiting");
    let (_, listed) = json(address, "GET /api/v1/requests?limit=10", b"");
    let rows = listed.as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["site"]), (10, &"drone-2".into()));
    assert!(
        rows.iter()
            .all(|row| row["fingerprint"].as_str().unwrap().len() == 64)
    );
    assert_eq!(hub.json(&["site", "reject", "--network"])["rejected"], 64);
    assert_eq!(hub.json(&["site", "requests"])["count"], 1);
    assert_eq!(
        post(&centre.site("drone-3", &stream)).1["result"],
        "waiting"
    );
}

#[test]
fn a_second_request_over_the_network_replaces_nothing_and_shows_as_a_conflict() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    let (site, thief) = (
        centre.site("drone-1", &stream),
        centre.site("drone-1", &stream),
    );
    let server = hub.serve(&[]);
    let address = server.address();
    let post = |site: &Site| json(address, "POST /api/v1/requests", &site.request()).1;
    assert_eq!(post(&site)["result"], "waiting");
    assert_eq!(post(&thief)["result"], "conflict");
    let (_, page) = plain(address, "GET /", b"");
    let (_, listed) = json(address, "GET /api/v1/requests", b"");
    for (row, one) in [(0, &site), (1, &thief)] {
        let id = one.key.public().id();
        assert!(page.contains(&id), "the page shows {id}");
        assert_eq!(listed[row]["fingerprint"], id);
        assert!(listed[row]["conflict"].is_string(), "{listed}");
    }
}

#[test]
fn a_gate_question_is_on_record_only_for_a_caller_with_a_token() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    registered(&hub, &centre, "drone-1");
    let file = hub.path("1.outhaul");
    fs::write(&file, centre.bundle(&stream, 1, NEW)).unwrap();
    hub.json(&["import", file.to_str().unwrap()]);
    let token = hub.json(&["caller", "add", "ci"])["token"].clone();
    let server = hub.serve(&[]);
    let address = server.address();
    let ask = |more: &str, token: &str| {
        let bearer = if token.is_empty() {
            String::new()
        } else {
            format!("Authorization: Bearer {token}\r\n")
        };
        let stream = TcpStream::connect(address).unwrap();
        let path = format!("GET /api/v1/gate?environment=dev&commit={NEW}{more}");
        let (status, text) = exchange(stream, &path, &bearer, b"");
        (status, serde_json::from_str::<Value>(&text).unwrap())
    };
    let rows = || {
        let store = outhaul_hub::Store::open(&hub.state());
        store
            .unwrap()
            .read(|session| session.decisions(99))
            .unwrap()
    };
    for more in ["", "&quorum_percent=1", "&max_age_hours=87600"] {
        let (status, decision) = ask(more, "");
        assert_eq!(
            (status, &decision["recorded"]),
            (200, &false.into()),
            "{decision}"
        );
    }
    assert_eq!(rows(), []);
    assert_eq!(ask("", "wrong").0, 401);
    let token = token.as_str().unwrap();
    let (_, decision) = ask("", token);
    assert_eq!(decision["recorded"], true);
    ask("", token);
    let kept = rows();
    assert_eq!((kept.len(), &kept[0].asked_by[..]), (1, "ci"));
    hub.json(&["caller", "remove", "ci"]);
    assert_eq!(ask("", token).0, 401);
    // No token lies in the store.
    let bytes = fs::read(hub.state().join("hub.db")).unwrap();
    let found = |bytes: &[u8]| {
        bytes
            .windows(token.len())
            .any(|part| part == token.as_bytes())
    };
    assert!(!found(&bytes));
}

/// Ends the clients of a test when it goes out of scope.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn liveness_waits_for_no_query_and_no_writer() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let path = hub.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    // Only so that a defect fails the test instead of hanging it.
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let message = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "200000"),
    ];
    let server = hub.serve_in(&["--open-reading"], &message);
    let address = server.address();
    // Someone writes for as long as it takes, and twelve clients ask for the page all the time.
    let mut store = outhaul_hub::Store::open(&hub.state()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also when an assertion fails here, so that the clients end.
        let _ended = Ended(&stop);
        for _ in 0..12 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(plain(address, "GET /", b"").0, 200);
                }
            });
        }
        store
            .write(|_| {
                let mut words = 0;
                while words < 6 {
                    let mut bytes = [0; 256];
                    let length = socket.recv(&mut bytes).unwrap();
                    words += usize::from(&bytes[..length] == b"WATCHDOG=1\n");
                }
                assert_eq!(plain(address, "GET /healthz", b"").0, 200);
                Ok::<_, outhaul_hub::store::StoreError>(())
            })
            .unwrap();
    });
    assert_eq!(server.stop(), 0);
}
