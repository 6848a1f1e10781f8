//! The file that names an identity provider: what stops the start, and what does not.

use std::fs;

use crate::access::get;
use crate::gate_rules::world;
use crate::program::{code, stderr};
use crate::provider::free_port;

#[test]
fn a_wrong_settings_file_stops_the_start_with_its_place_and_nobody_is_asked() {
    let (hub, _, _) = world(&[]);
    let secret = hub.path("secret");
    fs::write(&secret, "s\n").unwrap();
    let file = hub.path("oidc.yaml");
    // A port at which nobody listens: that is found out when somebody logs in.
    let good = format!(
        "issuer: http://127.0.0.1:{}\nclientId: hub\nclientSecretFile: {}\nhub: http://127.0.0.1:8420\nname: sub\ngrants:\n\
         - {{claim: sub, values: ['7'], scopes: [read]}}\n",
        free_port(),
        secret.display()
    );
    for (from, to, words) in [
        (
            "scopes: [read]",
            "scopes: [record]",
            "`record` is not a scope of people: read, approve and admin are at line 7",
        ),
        ("clientId", "client", "unknown field `client`"),
        ("secret\n", "no-secret\n", "`clientSecretFile`: cannot open"),
        (
            "hub: http://127.0.0.1:8420",
            "hub: http://hub.example.org",
            "at line 4",
        ),
    ] {
        fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let refused = hub.run(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--oidc",
            file.to_str().unwrap(),
        ]);
        assert_eq!(code(&refused), 2);
        let said = stderr(&refused);
        for words in ["oidc.yaml`: ", words, "docs/hub-login.md"] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
    fs::write(&file, good).unwrap();
    let server = hub.serve_in(&["--oidc", file.to_str().unwrap()], &[]);
    let page = get(&server, "/login", "");
    assert!(
        page.body.contains(">Log in with 127.0.0.1:"),
        "{}",
        page.body
    );
    drop(server);
    // Without a provider there is no button, and its addresses say so.
    let server = hub.serve_in(&[], &[]);
    assert!(!get(&server, "/login", "").body.contains("Log in with"));
    for path in ["/login/oidc", "/login/oidc/return?code=a&state=b"] {
        let none = get(&server, path, "");
        assert_eq!(none.status, 404);
        assert!(
            none.body.contains("asks no identity provider"),
            "{}",
            none.body
        );
    }
}
