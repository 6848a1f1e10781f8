//! The file that names an identity provider: what stops the start, and what does not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::access::get;
use crate::gate_rules::world;
use crate::program::{code, stderr};
use crate::provider::free_port;

#[test]
fn a_wrong_settings_file_stops_the_start_with_its_place_and_nobody_is_asked() {
    let (hub, _, _) = world(&[]);
    let secret = hub.secret("secret", "s\n");
    let file = hub.path("oidc.yaml");
    // A port at which nobody listens: that is found out when someone logs in.
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
    // The secret of the hub at the provider, the headers of a push, and what signs and sends alerts: each file is its owner's.
    let alerts = hub.path("alerts.yaml");
    let headers = hub.path("headers");
    let text = format!(
        "destinations:\n- name: on-call\n  webhook: {{url: 'http://127.0.0.1:9/', secretFile: {}}}\n",
        secret.display()
    );
    fs::write(&alerts, text).unwrap();
    fs::write(&headers, "A: b\n").unwrap();
    for exposed in [&secret, &headers] {
        fs::set_permissions(exposed, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let (alerts, headers) = (alerts.display().to_string(), headers.display().to_string());
    for (option, path) in [
        (vec!["--oidc", file.to_str().unwrap()], &secret),
        (vec!["--alerts", &alerts], &secret),
        (
            vec!["--otlp", "http://127.0.0.1:9/", "--otlp-headers", &headers],
            &hub.path("headers"),
        ),
    ] {
        let refused = hub.run(&[&["serve", "--listen", "127.0.0.1:0"], &option[..]].concat());
        let said = stderr(&refused);
        assert_ne!(code(&refused), 0, "{said}");
        let words = "others on this machine may open it (mode 644): `chmod 600` it";
        assert!(said.contains(words), "{option:?}: {said}");
        assert!(said.contains(path.to_str().unwrap()), "{said}");
    }
    hub.secret("secret", "s\n");
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
