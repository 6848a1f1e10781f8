//! Metrics pushed to collectors that refuse, lie, hang or are gone: what is said, what is counted, and what nobody else gets.
//!
//! What comes in: a hub, and collectors that answer what they are told to. What goes out: what these got, and what the hub says.
#![expect(
    clippy::float_cmp,
    reason = "whole numbers, which a scrape has as floating ones"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::access::ask;
use crate::gate_rules::world;
use crate::http::certificate;
use crate::monitoring::{scraped, wait_for};
use crate::program::Server;

/// A collector that takes as many requests as there are answers, one after the other, and returns what it got.
fn collector(answers: Vec<String>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let got = std::thread::spawn(move || {
        let answered = answers.into_iter().map(|answer| {
            let (mut stream, _) = listener.accept().unwrap();
            let got = request(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
            got
        });
        answered.collect()
    });
    (url, got)
}

/// One request, with its body.
fn request(stream: &mut TcpStream) -> String {
    let (mut text, mut bytes) = (String::new(), vec![0; 65536]);
    loop {
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "it ended early: {text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            let mut length = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            let length: usize = length.next().unwrap().1.parse().unwrap();
            if body.len() >= length {
                return text;
            }
        }
    }
}

/// What pushes came to, by result.
fn pushes(server: &Server) -> BTreeMap<String, f64> {
    let all = scraped(server, "").into_iter();
    let of_pushes = all.filter(|((name, _), _)| name == "outhaul_hub_otlp_pushes_total");
    of_pushes
        .map(|((_, labels), count)| (labels["result"].clone(), count))
        .collect()
}

#[test]
fn a_collector_that_refuses_lies_or_is_gone_is_said_once_and_gets_no_secret_elsewhere() {
    let (hub, _, _) = world(&["press-1"]);
    let answer = |status: &str, more: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\n{more}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let location = format!("Location: http://{}/\r\n", elsewhere.local_addr().unwrap());
    let broken_off = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{body}");
    let rejected = r#"{"partialSuccess":{"rejectedDataPoints":"7","errorMessage":"out of order"}}"#;
    let (url, got) = collector(vec![
        answer("400 Bad Request", "", "so it is"),
        answer("429 Too Many Requests", "Retry-After: 1\r\n", ""),
        answer("503 Service Unavailable", "Retry-After: soon\r\n", ""),
        answer("307 Temporary Redirect", &location, ""),
        // Announce more than they send: whether they took the push is not known, whatever the part that came looks like.
        broken_off("{"),
        broken_off(""),
        broken_off("{}"),
        "no HTTP at all\r\n\r\n".to_owned(),
        answer("200 OK", "", rejected),
        answer("200 OK", "", "{}"),
    ]);
    hub.secret("headers", "Authorization: Bearer a-secret\n");
    let log = hub.path("log");
    let more = ["--otlp", &*url, "--otlp-seconds", "1", "--otlp-headers"];
    let headers = hub.path("headers");
    let server = hub.serve_logged(&[&more[..], &[headers.to_str().unwrap()]].concat(), &log);
    // The last answer is followed by nobody: the collector is gone.
    wait_for("the last of them", || {
        let counted = pushes(&server);
        match counted["failed"] > 4.0 && counted["taken"] > 0.0 {
            true => Ok(()),
            false => Err(format!("{counted:?}")),
        }
    });
    let counted = pushes(&server);
    let of = |result: &str| counted[result];
    let once = (of("refused"), of("partial"), of("taken"));
    assert_eq!(once, (4.0, 1.0, 1.0), "{counted:?}");
    let points = scraped(&server, "")
        .into_iter()
        .find(|((name, _), _)| name.ends_with("rejected_points_total"));
    assert_eq!(points.unwrap().1, 7.0);
    for text in got.join().unwrap() {
        assert!(text.starts_with("POST /v1/metrics HTTP/1.1"), "{text}");
        assert!(
            text.contains("Bearer a-secret") && text.contains("outhaul_hub_sites"),
            "{text}"
        );
    }
    assert!(elsewhere.accept().is_err(), "the redirect was followed");
    drop(server);
    let said = fs::read_to_string(&log).unwrap();
    let count = |words: &str| said.matches(words).count();
    // It ends with the one that was taken, and begins again.
    assert_eq!(count("the collector does not accept metrics"), 2, "{said}");
    assert_eq!(count("the collector accepts metrics again"), 1, "{said}");
    assert!(said.contains("400 Bad Request: so it is"), "{said}");
    assert!(!said.contains("a-secret"), "{said}");
}

#[test]
fn a_collector_that_never_answers_keeps_no_scrape_waiting() {
    let (hub, _, _) = world(&["press-1"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = hub.serve(&["--otlp", &url, "--otlp-seconds", "1"]);
    let (mut held, _) = listener.accept().unwrap();
    request(&mut held);
    // It has a push and says nothing: the hub answers all the same, and has no second push on its way.
    for path in ["/healthz", "/metrics", "/"] {
        assert_eq!(
            ask(&server, &format!("GET {path}"), "", "").status,
            200,
            "{path}"
        );
    }
    assert_eq!(pushes(&server).values().sum::<f64>(), 0.0);
    // Three pushes would have come by now, by the hub's own clock.
    let read_at = || {
        let all = scraped(&server, "").into_iter();
        let mut all = all.filter(|((name, _), _)| name.ends_with("_fleet_read_timestamp_seconds"));
        all.next().unwrap().1
    };
    let first = read_at();
    wait_for("more than three seconds", || match read_at() - first {
        passed if passed > 3.0 => Ok(()),
        passed => Err(format!("{passed} s")),
    });
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a second push is on its way");
    assert_eq!(pushes(&server).values().sum::<f64>(), 0.0);
    assert_eq!(server.stop(), 0, "and it ends when it is told to");
}

#[test]
fn what_cannot_be_pushed_to_is_refused_before_the_hub_serves_and_shows_no_secret() {
    let (hub, _, _) = world(&[]);
    hub.secret("headers", "a-secret\n");
    let headers = hub.path("headers");
    for (more, words) in [
        (
            vec!["--otlp", "http://collector.example/"],
            "`--otlp`: give a URL that starts with https://",
        ),
        (
            vec!["--otlp", "https://u:a-secret@collector.example/"],
            "without a user, a password",
        ),
        (
            vec![
                "--otlp",
                "https://collector.example/",
                "--otlp-headers",
                headers.to_str().unwrap(),
            ],
            "line 1: a header is `Name: value`",
        ),
        (
            vec!["--otlp-headers", headers.to_str().unwrap()],
            "--otlp <URL>",
        ),
    ] {
        let refused = hub.run(&[&["serve", "--listen", "127.0.0.1:0"], &more[..]].concat());
        let said = crate::program::stderr(&refused);
        assert_eq!(crate::program::code(&refused), 2, "{said}");
        assert!(said.contains(words) && !said.contains("a-secret"), "{said}");
    }
}

#[test]
fn a_hub_that_starts_again_is_the_same_one_and_counts_from_its_new_start() {
    let (hub, _, _) = world(&["press-1"]);
    let push_of_one_life = || {
        let (url, got) = collector(vec![
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
        ]);
        let server = hub.serve(&["--otlp", &url, "--otlp-seconds", "3600"]);
        let text = got.join().unwrap().remove(0);
        drop(server);
        let body: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        let resource = &body["resourceMetrics"][0];
        let attributes = resource["resource"]["attributes"].as_array().unwrap();
        let of = |key: &str| {
            let found = attributes.iter().find(|one| one["key"] == key).unwrap();
            found["value"]["stringValue"].as_str().unwrap().to_owned()
        };
        assert_eq!(of("service.name"), "outhaul-hub");
        assert_eq!(of("service.version"), env!("CARGO_PKG_VERSION"));
        let metrics = resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let sum = |metric: &&Value| metric["name"] == "outhaul_hub_reports_total";
        let sum = &metrics.iter().find(sum).unwrap()["sum"];
        assert_eq!(
            (&sum["aggregationTemporality"], &sum["isMonotonic"]),
            (&2.into(), &true.into())
        );
        let point = &sum["dataPoints"][0];
        let at = |key: &str| -> u64 { point[key].as_str().unwrap().parse().unwrap() };
        (
            of("service.instance.id"),
            at("startTimeUnixNano"),
            at("timeUnixNano"),
        )
    };
    let (first, again) = (push_of_one_life(), push_of_one_life());
    assert_eq!(first.0, again.0);
    assert!(
        first.1 <= first.2 && first.2 < again.1 && again.1 <= again.2,
        "{first:?} {again:?}"
    );
}

#[test]
fn a_collector_is_trusted_by_the_authority_that_is_given_and_by_no_other() {
    let (hub, _, _) = world(&[]);
    let Some((cert, key)) = certificate(&hub) else {
        return;
    };
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    // Another hub stands in for a collector: it takes no metrics, and says so over TLS.
    let (other, _, _) = world(&[]);
    let there = other.serve(&["--tls-cert", cert, "--tls-key", key]);
    let port = there.address().rsplit(':').next().unwrap().to_owned();
    let url = format!("https://localhost:{port}");
    let once = |more: &[&str]| {
        let log = hub.path("log");
        let server = hub.serve_logged(&[&["--otlp", &*url][..], more].concat(), &log);
        wait_for("a push", || match pushes(&server) {
            counted if counted.values().sum::<f64>() > 0.0 => Ok(()),
            counted => Err(format!("{counted:?}")),
        });
        let counted = pushes(&server);
        drop(server);
        (counted, fs::read_to_string(log).unwrap())
    };
    let (counted, said) = once(&["--otlp-ca", cert]);
    assert_eq!(counted["refused"], 1.0, "{said}");
    assert!(said.contains("the collector answered 40"), "{said}");
    let (counted, said) = once(&[]);
    assert_eq!(counted["failed"], 1.0, "{said}");
    assert!(said.contains("certificate"), "{said}");
}
