//! Logins at a provider that hangs or says no: what strangers cause by them, and whom it keeps out.
//!
//! What comes in: a hub, and a provider of this test that answers only what it is told to. What goes out: what browsers are answered,
//! and what is on record. No real provider is needed: nobody gets as far as an ID token.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};

use crate::access::{Answer, ask, bearer, login, posted, token};
use crate::gate_rules::world;
use crate::program::{Hub, Server};
use crate::provider::{Browser, free_port};

/// How many the hub asks for at once.
const AT_ONCE: usize = 4;
/// Logins that come to nothing before a network has to wait.
const MOST: usize = 10;

/// A provider that takes no code. It says when it was asked about one, and answers then when it is told to.
struct Refusing {
    issuer: String,
    asked: Receiver<()>,
    answer: Sender<()>,
}

/// `waits`: whether it answers only when it is told to.
fn refusing(waits: bool) -> Refusing {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let (said, asked) = channel();
    let (answer, told) = channel();
    let named = issuer.clone();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let refused = r#"{"error":"invalid_grant"}"#;
            match request(&stream).starts_with("POST /token ") {
                false => answered(&mut stream, "200 OK", &document(&named)),
                true if !waits => answered(&mut stream, "400 Bad Request", refused),
                true => held.push(stream),
            }
            if waits && !held.is_empty() {
                // The test may be over.
                let _ = said.send(());
            }
            if held.len() == AT_ONCE {
                let _ = told.recv();
                for mut stream in held.drain(..) {
                    answered(&mut stream, "400 Bad Request", refused);
                }
            }
        }
    });
    Refusing {
        issuer,
        asked,
        answer,
    }
}

fn document(issuer: &str) -> String {
    json!({"issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/jwks")})
    .to_string()
}

/// Its line; the rest is read and of no interest.
fn request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).unwrap();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        match header.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap();
            }
            Some(_) => {}
            None => break,
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    line
}

fn answered(stream: &mut TcpStream, status: &str, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}");
    write!(stream, "{head}\r\n\r\n{body}").unwrap();
}

fn serve(hub: &Hub, issuer: &str) -> (Server, String) {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let path = |name: &str| hub.path(name).display().to_string();
    hub.secret("secret", "s3cret");
    let settings = format!(
        "issuer: {issuer}\nclientId: hub\nclientSecretFile: {}\nhub: {url}\nname: preferred_username\n\
         grants: [{{claim: groups, values: [ops], scopes: [read]}}]\n",
        path("secret")
    );
    fs::write(hub.path("oidc.yaml"), settings).unwrap();
    let listen = format!("127.0.0.1:{port}");
    let server = hub.serve_in(&["--listen", &listen, "--oidc", &path("oidc.yaml")], &[]);
    (server, url)
}

/// Begins a login, and returns the address of an answer for it with a code that nobody gave out.
#[track_caller]
fn injected(browser: &mut Browser, hub: &str) -> String {
    let begun = browser.get(&format!("{hub}/login/oidc"));
    assert_eq!(begun.status, 303, "{}", begun.body);
    let (_, rest) = begun.header("location").split_once("state=").unwrap();
    let state = rest.split('&').next().unwrap();
    format!("{hub}/login/oidc/return?code=injected&state={state}")
}

#[track_caller]
fn is_refused(answer: &Answer, status: u16, words: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert!(answer.body.contains(words), "{}", answer.body);
}

/// How many logins at the provider are on record.
fn recorded(hub: &Hub) -> usize {
    let log = hub.json(&["audit", "access"]);
    let is_login = |entry: &&Value| entry["how"] == "oidc" && entry["action"] == "login";
    log.as_array().unwrap().iter().filter(is_login).count()
}

#[test]
fn strangers_who_come_back_while_all_places_are_taken_fill_no_record_and_lose_no_login() {
    let (hub, _, _) = world(&[]);
    let provider = refusing(true);
    let (server, url) = serve(&hub, &provider.issuer);
    let asking: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let mut browser = Browser::default();
            let back = injected(&mut browser, &url);
            std::thread::spawn(move || browser.led_to(&back))
        })
        .collect();
    for _ in 0..AT_ONCE {
        provider.asked.recv().unwrap();
    }
    let mut ann = Browser::default();
    let hers = injected(&mut ann, &url);
    for _ in 0..30 {
        is_refused(
            &ann.copy().led_to(&hers),
            502,
            "Too many people log in at this moment",
        );
    }
    assert_eq!(recorded(&hub), 0, "nobody was asked about");
    provider.answer.send(()).unwrap();
    for one in asking {
        is_refused(&one.join().unwrap(), 403, "did not take the code");
    }
    // Hers was used up by none of it. As many as before are asked about, so that the provider answers.
    let mut others: Vec<_> = (1..AT_ONCE)
        .map(|_| {
            let mut browser = Browser::default();
            let back = injected(&mut browser, &url);
            (browser, back)
        })
        .collect();
    others.push((ann, hers));
    let asking = others
        .into_iter()
        .map(|(mut browser, back)| std::thread::spawn(move || browser.led_to(&back)));
    let asking: Vec<_> = asking.collect();
    provider.answer.send(()).unwrap();
    for one in asking {
        is_refused(&one.join().unwrap(), 403, "did not take the code");
    }
    assert_eq!(recorded(&hub), 2 * AT_ONCE);
    drop(server);
}

#[test]
fn ten_injected_logins_make_a_network_wait_and_keep_no_token_out() {
    let (hub, _, _) = world(&[]);
    let reader = token(&hub, "reader", "read");
    let (server, url) = serve(&hub, &refusing(false).issuer);
    for _ in 0..MOST {
        let mut browser = Browser::default();
        let back = injected(&mut browser, &url);
        is_refused(&browser.led_to(&back), 403, "did not take the code");
    }
    let mut browser = Browser::default();
    let back = injected(&mut browser, &url);
    for _ in 0..30 {
        let waits = "10 logins that came to nothing came from your network lately";
        is_refused(&browser.copy().led_to(&back), 429, waits);
    }
    assert_eq!(recorded(&hub), MOST, "what waits is not on record");
    // Tokens are another door: by the form, by a header, and a wrong one is wrong and nothing else.
    assert!(!login(&server, &reader).is_empty());
    let sites = ask(&server, "GET /api/v1/sites", &bearer(&reader), "");
    assert_eq!(sites.status, 200, "{}", sites.body);
    let wrong = posted(&server, "/login", "", &[("token", "x")]);
    assert_eq!(wrong.status, 403, "{}", wrong.body);
    let wrong = ask(&server, "GET /api/v1/sites", &bearer("x"), "");
    assert_eq!(wrong.status, 401, "{}", wrong.body);
}
