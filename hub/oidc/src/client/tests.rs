//! A provider that answers as it must not: asked over a real socket.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::AtomicU32;

use serde_json::json;

use super::*;
use crate::token::tests::Signer;

const NOW: i64 = 1_800_000_000_000;

/// What is answered to a path: the status line with more headers, and the body.
type Answers = dyn Fn(&str, &str) -> (String, String) + Send + Sync;

/// A provider, and what it was asked.
struct Served {
    issuer: String,
    asked: Arc<AtomicU32>,
    oidc: Oidc,
    _folder: tempfile::TempDir,
}

impl Served {
    /// Who `attempt` comes back as, with a code.
    fn person(&self) -> Result<Person, LoginError> {
        let code = self.oidc.code(&returned(), NOW)?;
        self.oidc.person(&attempt(), code, NOW)
    }
}

fn returned() -> Returned {
    Returned::parse("code=c&state=s").unwrap()
}

fn serve(answers: impl Fn(&str, &str, &str) -> (String, String) + Send + Sync + 'static) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let named = issuer.clone();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let answers: Box<Answers> = Box::new(move |path, body| answers(&named, path, body));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            let length = head
                .to_lowercase()
                .split("content-length: ")
                .nth(1)
                .map_or(0, |rest| {
                    rest.lines().next().unwrap().trim().parse().unwrap()
                });
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let (status, text) =
                answers(path, &format!("{head}{}", String::from_utf8_lossy(&body)));
            let answer = format!(
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                text.len()
            );
            drop(stream.write_all(answer.as_bytes()));
            // Who reads a bounded part closes before the end.
            drop(stream.write_all(text.as_bytes()));
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    durable::write(&secret, b"s3 cret\n", durable::SECRET_MODE).unwrap();
    let text = format!(
        "issuer: {issuer}\nclientId: hub\nclientSecretFile: {}\nhub: http://127.0.0.1:8420\nname: preferred_username\n\
         grants: [{{claim: groups, values: [ops], scopes: [read]}}]\n",
        secret.display()
    );
    let settings = crate::settings::tests::parsed(&text).unwrap();
    let oidc = Oidc::new(settings, std::path::Path::new("oidc.yaml")).unwrap();
    Served {
        issuer,
        asked,
        oidc,
        _folder: folder,
    }
}

fn document(issuer: &str) -> String {
    json!({"issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/jwks")})
    .to_string()
}

fn ok(text: impl Into<String>) -> (String, String) {
    ("200 OK".to_owned(), text.into())
}

fn attempt() -> Attempt {
    Attempt::new([7; 32], NOW, "/")
}

fn token(signer: &Signer, issuer: &str) -> String {
    let claims = json!({"iss": issuer, "aud": "hub", "sub": "7", "iat": NOW / 1000, "exp": NOW / 1000 + 60,
        "nonce": attempt().nonce(), "preferred_username": "ann", "groups": ["ops"]});
    signer.token("a", &claims)
}

#[test]
fn a_code_becomes_a_person_and_a_code_used_twice_does_not() {
    let signer = Signer::p256();
    let used = AtomicU32::new(0);
    let served = serve(move |issuer, path, request| match path {
        "/token" => {
            // `s3 cret` is escaped before it is encoded.
            let secret = STANDARD.encode("hub:s3+cret");
            assert!(request.contains(&format!("Basic {secret}")), "{request}");
            assert!(request.contains(&format!("code_verifier={}", attempt().verifier())));
            assert!(
                request
                    .contains("redirect_uri=http%3A%2F%2F127.0.0.1%3A8420%2Flogin%2Foidc%2Freturn")
            );
            match used.fetch_add(1, Ordering::Relaxed) {
                0 => ok(
                    json!({"id_token": token(&signer, issuer), "access_token": "x"}).to_string(),
                ),
                _ => (
                    "400 Bad Request".to_owned(),
                    json!({"error": "invalid_grant", "error_description": "<b>"}).to_string(),
                ),
            }
        }
        "/jwks" => ok(json!({"keys": [signer.public("a")]}).to_string()),
        _ => ok(document(issuer)),
    });
    let address = served.oidc.begin(&attempt(), NOW).unwrap();
    assert!(address.starts_with(&format!("{}/authorize?", served.issuer)));
    let person = served.person().unwrap();
    assert_eq!(person.name, "oidc:ann");
    assert_eq!(
        served.asked.load(Ordering::Relaxed),
        3,
        "what it says of itself is kept"
    );
    let error = served.person().unwrap_err();
    assert_eq!(
        error.to_string(),
        "The provider did not take the code: it answers 400 Bad Request, `invalid_grant`"
    );
}

#[test]
fn oversized_answers_redirects_and_what_is_no_json_are_refused() {
    let large = "x".repeat(usize::try_from(MAX_ANSWER_BYTES).unwrap() + 1);
    for (answer, words) in [
        (ok(large), "more than 524288 bytes"),
        (ok("{"), "cannot be used"),
        (
            (
                "302 Found\r\nLocation: http://127.0.0.1:9/".to_owned(),
                String::new(),
            ),
            "it answers 302 Found",
        ),
        (
            ("500 Internal Server Error".to_owned(), "no".to_owned()),
            "it answers 500",
        ),
    ] {
        let served = serve(move |_, _, _| answer.clone());
        let error = served.oidc.begin(&attempt(), NOW).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.is_of_the_provider());
        assert!(served.oidc.begin(&attempt(), NOW + PAUSE_MS - 1).is_err());
        assert_eq!(
            served.asked.load(Ordering::Relaxed),
            1,
            "not asked again at once"
        );
        assert!(served.oidc.begin(&attempt(), NOW + PAUSE_MS).is_err());
        assert_eq!(served.asked.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn an_answer_of_the_token_endpoint_that_is_oversized_or_without_a_token_is_refused() {
    let large =
        json!({"id_token": "x".repeat(usize::try_from(MAX_ANSWER_BYTES).unwrap())}).to_string();
    for (answer, words) in [
        (ok(large), "more than 524288 bytes"),
        (ok("[]"), "no ID token"),
        (ok(r#"{"id_token": 1}"#), "no ID token"),
        (
            (
                "401 Unauthorized".to_owned(),
                r#"{"error": "s3 cret"}"#.to_owned(),
            ),
            "it answers 401 Unauthorized",
        ),
    ] {
        let served = serve(move |issuer, path, _| match path {
            "/token" => answer.clone(),
            _ => ok(document(issuer)),
        });
        let error = served.person().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(!error.to_string().contains("s3 cret"));
    }
}

#[test]
fn a_provider_that_nobody_reaches_is_said_and_needs_no_start_of_the_hub() {
    let served = serve(|issuer, _, _| ok(document(issuer)));
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut settings = served.oidc.settings.clone();
    settings.issuer = format!("http://{gone}");
    let oidc = Oidc::new(settings.clone(), std::path::Path::new("oidc.yaml")).unwrap();
    let error = oidc.begin(&attempt(), NOW).unwrap_err();
    assert!(matches!(error, LoginError::Unreachable(_)), "{error}");
    settings.client_secret_file = "nowhere".into();
    let error = Oidc::new(settings, std::path::Path::new("oidc.yaml")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("`oidc.yaml`: `clientSecretFile`: "),
        "{error}"
    );
}

#[test]
fn few_ask_at_once() {
    let served = serve(|issuer, _, _| ok(document(issuer)));
    let all: Vec<_> = (0..AT_ONCE).map(|_| served.oidc.ask().unwrap()).collect();
    assert_eq!(served.oidc.begin(&attempt(), NOW), Err(LoginError::Busy));
    drop(all);
    assert!(served.oidc.begin(&attempt(), NOW).is_ok());
    // What is known already needs nobody to be asked.
    let code = || served.oidc.code(&returned(), NOW);
    let all: Vec<_> = (0..AT_ONCE).map(|_| code().unwrap()).collect();
    assert!(matches!(code(), Err(LoginError::Busy)), "each has a place");
    drop(all);
    let _all: Vec<_> = (0..AT_ONCE).map(|_| code().unwrap()).collect();
    assert!(served.oidc.begin(&attempt(), NOW + KEPT_MS - 1).is_ok());
    assert_eq!(
        served.oidc.begin(&attempt(), NOW + KEPT_MS),
        Err(LoginError::Busy)
    );
    let said: Vec<_> = [0, 999, 1000, 1999]
        .map(|ms| served.oidc.should_log(NOW + ms))
        .into();
    assert_eq!(said, [true, false, true, false]);
}
