//! A hub that does not let who asks ask: a person has to do something, and a second try does not help.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use super::*;

/// A hub that gives one answer.
fn hub(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for line in BufReader::new(stream.try_clone().unwrap()).lines() {
            if line.unwrap_or_default().is_empty() {
                break;
            }
        }
        let _ = stream.write_all(answer.as_bytes());
    });
    format!("http://127.0.0.1:{port}")
}

#[test]
fn a_token_of_another_scope_is_a_mistake_that_names_the_scopes() {
    let refused = "HTTP/1.1 403 Forbidden\r\nContent-Length: 37\r\nConnection: close\r\n\r\n{\"error\": \"this token may not read\"}\n";
    let commit = "a".repeat(40);
    let ask = |url: &str| {
        let hub = HubConnection {
            url,
            authority: None,
        };
        hub.ask("dev", &commit, &GateRule::default()).unwrap_err()
    };
    let url = hub(refused);
    let error = ask(&url);
    assert_eq!(error.class(), FailureClass::Usage);
    let text = error.to_string();
    assert!(
        text.starts_with(&format!(
            "`{url}` does not answer this: this token may not read\nhelp: "
        )) && text.contains("--scope record --scope check"),
        "{text}"
    );
    // One command is named, with the scopes of this question.
    let anonymous = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 67\r\nConnection: close\r\n\r\n{\"error\": \"`outhaul-hub token create NAME --scope read` makes one\"}";
    let error = ask(&hub(anonymous));
    assert_eq!(error.class(), FailureClass::Usage);
    let text = error.to_string();
    assert!(
        text.contains("it answers only with a token, and none is named")
            && text.matches("token create").count() == 1
            && text.contains("--scope record --scope check"),
        "{text}"
    );
    // What is no hub's refusal may be a proxy's: that is looked at where it runs.
    let page = "HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n";
    assert_eq!(ask(&hub(page)).class(), FailureClass::Environment);
}
