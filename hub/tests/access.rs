//! Who may do what over the network: tokens, the login of a browser, its forms, and the record of both.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use outhaul_test_kit::plain::NEW;
use serde_json::{Value, json};

use crate::gate_rules::world;
use crate::program::{Hub, Server, code, stderr};

/// An answer with its head.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Every value of a header.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }

    pub fn header(&self, name: &str) -> &str {
        self.all(name).first().copied().unwrap_or_default()
    }

    /// The value of the hidden field of this name.
    #[track_caller]
    pub fn field(&self, name: &str) -> String {
        let start = format!("name=\"{name}\" value=\"");
        let (_, rest) = self
            .body
            .split_once(&start)
            .unwrap_or_else(|| panic!("{name}: {}", self.body));
        rest.split('"').next().unwrap().to_owned()
    }
}

pub fn ask(server: &Server, line: &str, more: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let length = body.len();
    let text = format!(
        "{line} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\nContent-Length: {length}\r\n{more}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

pub fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

pub fn token(hub: &Hub, name: &str, scope: &str) -> String {
    let made = hub.json(&["token", "create", name, "--scope", scope]);
    made["token"].as_str().unwrap().to_owned()
}

/// The name and value of a cookie that an answer sets.
#[track_caller]
pub fn cookie(answer: &Answer, name: &str) -> String {
    let start = format!("{name}=");
    let set = answer.all("set-cookie");
    let found = set.iter().find(|value| value.starts_with(&start));
    let found = found.unwrap_or_else(|| panic!("{name}: {}", answer.head));
    found.split(';').next().unwrap().to_owned()
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

pub fn posted(server: &Server, path: &str, cookies: &str, fields: &[(&str, &str)]) -> Answer {
    let body: Vec<_> = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", outhaul_bundle::hub_api::escaped(value)))
        .collect();
    let more = format!("{FORM}Cookie: {cookies}\r\n");
    ask(server, &format!("POST {path}"), &more, &body.join("&"))
}

/// Logs in, and returns the cookie of the session.
#[track_caller]
pub fn login(server: &Server, token: &str) -> String {
    let page = ask(server, "GET /login", "", "");
    let begun = cookie(&page, "outhaul_login");
    let fields = [
        ("form", &*page.field("form")),
        ("token", token),
        ("next", "/sites"),
    ];
    let done = posted(server, "/login", &begun, &fields);
    assert_eq!(
        (done.status, done.header("location")),
        (303, "/sites"),
        "{}",
        done.body
    );
    cookie(&done, "outhaul_session")
}

pub fn get(server: &Server, path: &str, cookies: &str) -> Answer {
    let more = format!("Cookie: {cookies}\r\n");
    ask(server, &format!("GET {path}"), &more, "")
}

#[test]
fn reading_needs_a_token_and_what_is_signed_needs_none() {
    let (hub, _, mut sites) = world(&["drone-1"]);
    let reader = token(&hub, "ann", "read");
    let sender = token(&hub, "flux", "ingest");
    let server = hub.serve_in(&[], &[]);
    let gate = format!("/api/v1/gate?environment=dev&commit={NEW}");
    for path in [
        "/api/v1/sites",
        "/api/v1/assignments",
        "/api/v1/refusals",
        "/api/v1/requests",
        "/metrics",
        "/api/v1/advisories",
        "/api/v1/nothing",
        &gate,
    ] {
        let line = format!("GET {path}");
        let closed = ask(&server, &line, "", "");
        assert_eq!(closed.status, 401, "{path}");
        assert_eq!(closed.header("www-authenticate"), "Bearer", "{path}");
        assert!(closed.body.contains("token create"), "{}", closed.body);
        assert_eq!(
            ask(&server, &line, &bearer("wrong"), "").status,
            401,
            "{path}"
        );
        let other = ask(&server, &line, &bearer(&sender), "");
        assert_eq!(other.status, 403, "{path}: {}", other.body);
        let expected = if path.ends_with("nothing") { 404 } else { 200 };
        for scheme in ["Bearer", "bearer"] {
            let shown = bearer(&reader).replace("Bearer", scheme);
            let open = ask(&server, &line, &shown, "").status;
            assert_eq!(open, expected, "{path}, {scheme}");
        }
    }
    for path in [
        "/",
        "/sites?q=a",
        "/environments/dev",
        "/advisories",
        "/access",
        "/nowhere",
    ] {
        let closed = ask(&server, &format!("GET {path}"), "", "");
        assert_eq!(closed.status, 303, "{path}");
        let escaped = outhaul_bundle::hub_api::escaped(path);
        assert_eq!(closed.header("location"), format!("/login?next={escaped}"));
    }
    for path in ["/healthz", "/api/v1/openapi.json", "/login"] {
        assert_eq!(
            ask(&server, &format!("GET {path}"), "", "").status,
            200,
            "{path}"
        );
    }
    let line = String::from_utf8(sites[0].started()).unwrap();
    let taken = ask(&server, "POST /api/v1/reports", "", &line);
    assert_eq!(taken.status, 200, "{}", taken.body);
    let answer: Value = serde_json::from_str(&taken.body).unwrap();
    assert_eq!(answer["accepted"], 1);

    hub.json(&["token", "revoke", "ann"]);
    let revoked = ask(&server, "GET /api/v1/sites", &bearer(&reader), "");
    assert_eq!(revoked.status, 401, "at once: {}", revoked.body);
    let listed = hub.json(&["token", "list"]);
    let names: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, [&json!("ann"), &json!("flux")]);
    assert!(!listed.to_string().contains(&reader), "{listed}");
}

#[test]
fn a_login_sets_a_cookie_that_no_script_and_no_other_site_gets_and_ends() {
    let (hub, _, _) = world(&["drone-1"]);
    let reader = token(&hub, "ann", "read");
    let sender = token(&hub, "flux", "ingest");
    let server = hub.serve_in(&[], &[]);
    let page = ask(&server, "GET /login", "", "");
    let begun = cookie(&page, "outhaul_login");
    let form = page.field("form");
    // A form that this hub did not make for this browser, whatever token it holds.
    for (cookies, form) in [("", &*form), (&*begun, ""), (&*begun, "0")] {
        let refused = posted(
            &server,
            "/login",
            cookies,
            &[("form", form), ("token", &reader)],
        );
        assert_eq!(refused.status, 403, "{cookies} {form}");
        assert!(
            refused
                .all("set-cookie")
                .iter()
                .all(|set| !set.starts_with("outhaul_session"))
        );
    }
    for (shown, why) in [("wrong", "is not known"), (&*sender, "may not read")] {
        let refused = posted(
            &server,
            "/login",
            &begun,
            &[("form", &form), ("token", shown)],
        );
        assert_eq!(refused.status, 403);
        assert!(refused.body.contains(why), "{}", refused.body);
        assert!(!refused.body.contains(&sender));
    }
    let fields = [
        ("form", &*form),
        ("token", &*reader),
        ("next", "https://evil.example/"),
    ];
    let done = posted(&server, "/login", &begun, &fields);
    assert_eq!((done.status, done.header("location")), (303, "/"));
    let set = done.all("set-cookie");
    let session = set
        .iter()
        .find(|set| set.starts_with("outhaul_session="))
        .unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(session.contains(part), "{part}: {session}");
    }
    assert!(
        !session.contains("Secure"),
        "plain HTTP of this machine: {session}"
    );
    let session = cookie(&done, "outhaul_session");
    let shown = get(&server, "/sites", &session);
    assert_eq!(shown.status, 200);
    assert!(shown.body.contains("logged in as <strong>ann</strong>"));
    assert!(
        !shown.body.contains("/act?"),
        "what they may not do is not offered"
    );
    let forged = posted(&server, "/logout", &session, &[("form", &form)]);
    assert_eq!(forged.status, 403, "another page's form");
    let out = posted(
        &server,
        "/logout",
        &session,
        &[("form", &shown.field("form"))],
    );
    assert_eq!(out.status, 303);
    assert_eq!(get(&server, "/sites", &session).status, 303, "it has ended");
}

#[test]
fn who_shows_wrong_tokens_again_and_again_waits() {
    let (hub, _, _) = world(&[]);
    let reader = token(&hub, "ann", "read");
    let server = hub.serve_in(&[], &[]);
    let page = ask(&server, "GET /login", "", "");
    let begun = cookie(&page, "outhaul_login");
    let form = page.field("form");
    let tried = |token: &str| {
        posted(
            &server,
            "/login",
            &begun,
            &[("form", &form), ("token", token)],
        )
    };
    for _ in 0..10 {
        assert_eq!(tried("wrong").status, 403);
    }
    let waits = tried(&reader);
    assert_eq!(waits.status, 429, "even with the right one: {}", waits.body);
    assert!(waits.body.contains("try again in"), "{}", waits.body);
    // What programs show is counted apart.
    let wrong = ask(&server, "GET /api/v1/sites", &bearer("wrong"), "");
    assert_eq!(wrong.status, 401);
    // A program with its token is not kept out by others behind the same address.
    let right = ask(&server, "GET /api/v1/sites", &bearer(&reader), "");
    assert_eq!(right.status, 200);
}

#[test]
fn a_token_puts_so_much_on_record_a_minute_and_no_more() {
    let (hub, _, _) = world(&["drone-1"]);
    let pipeline = token(&hub, "ci", "record");
    let other = token(&hub, "ann", "record");
    let server = hub.serve_in(&[], &[]);
    for _ in 0..20 {
        login(&server, &other);
    }
    let page = ask(&server, "GET /login", "", "");
    let begun = cookie(&page, "outhaul_login");
    let fields = [("form", &*page.field("form")), ("token", &*other)];
    let waits = posted(&server, "/login", &begun, &fields);
    assert_eq!(waits.status, 429, "{}", waits.body);
    assert!(waits.body.contains("20 logins"), "{}", waits.body);
    let asked = |token: &str, percent: u32| {
        let line =
            format!("GET /api/v1/gate?environment=dev&commit={NEW}&quorum_percent={percent}");
        ask(&server, &line, &bearer(token), "")
    };
    for percent in 1..=60 {
        assert_eq!(asked(&pipeline, percent).status, 200);
        if percent < 60 {
            // What is on record already does not count.
            assert_eq!(asked(&pipeline, percent).status, 200);
        }
    }
    let waits = asked(&pipeline, 61);
    assert_eq!(waits.status, 429, "{}", waits.body);
    let seconds: u32 = waits.header("retry-after").parse().unwrap();
    let said = format!("try again in {seconds} seconds");
    assert!(
        seconds <= 61 && waits.body.contains(&said),
        "{}",
        waits.body
    );
    assert_eq!(asked(&other, 61).status, 200, "another token");
    let decisions = hub.json(&["decisions", "--limit", "1000"]);
    assert_eq!(decisions.as_array().unwrap().len(), 61, "{decisions}");
}

#[test]
fn a_token_that_cannot_be_made_says_why_and_changes_nothing() {
    let (hub, _, _) = world(&[]);
    hub.json(&["token", "create", "ann", "--scope", "read"]);
    for (arguments, expected, text) in [
        (
            &["token", "create", "ann", "--scope", "read"][..],
            1,
            "`ann` has a token already",
        ),
        (
            &["token", "create", "bob", "--scope", "reed"],
            2,
            "`reed` is not a scope",
        ),
        (&["token", "create", "bob"], 2, "--scope"),
        (
            &[
                "token",
                "create",
                "bob",
                "--scope",
                "read",
                "--expires",
                "soon",
            ],
            2,
            "or `never`",
        ),
        (
            &[
                "token",
                "create",
                "bob",
                "--scope",
                "read",
                "--expires",
                "2001-01-01",
            ],
            2,
            "cannot end",
        ),
        (
            &["token", "revoke", "bob"],
            2,
            "`bob` has no token that holds",
        ),
    ] {
        let output = hub.run(arguments);
        assert_eq!(
            code(&output),
            expected,
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(stderr(&output).contains(text), "{}", stderr(&output));
    }
    assert_eq!(hub.json(&["token", "list"]).as_array().unwrap().len(), 1);
}
