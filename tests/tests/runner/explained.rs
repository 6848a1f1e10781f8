//! `outhaul explain --whole --send` and a hub: a platform engineer sends what a bundle was rendered from, and the hub shows it.
//!
//! What comes in: the control plane that `outhaul init` makes, and a hub that wants tokens. What goes out: nothing.

use std::fs;

use outhaul_tests::{Ran, program, result, run_expecting};

use crate::pages::get;
use crate::system::SystemFixture;

fn fixture() -> SystemFixture {
    let fixture = SystemFixture::new();
    fixture.run(
        "outhaul",
        0,
        &["init", "control-plane", "--environments", "dev"],
    );
    fixture.fleet();
    fixture.site("edge-1", "dev", "edge");
    fixture.bundle("dev");
    fixture
}

/// A file with a token of this scope.
fn token(fixture: &SystemFixture, name: &str, scope: &str) -> String {
    let create = [
        "token", "create", name, "--scope", scope, "--state", "hub", "--output", "json",
    ];
    let made = fixture.run("outhaul-hub", 0, &create);
    let file = fixture.path(name);
    fs::write(&file, result(&made.stdout)["token"].as_str().unwrap()).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&file, mode).unwrap();
    file.to_str().unwrap().to_owned()
}

fn send(fixture: &SystemFixture, code: i32, token: &str, hub: &str, more: &[&str]) -> Ran {
    let mut command = fixture.command(&program("outhaul").unwrap());
    let at = [
        "explain",
        "--environment",
        "dev",
        "--control-plane",
        "control-plane",
    ];
    command
        .args(at)
        .args(["--whole", "--send", "--hub", hub])
        .args(more);
    for source in &fixture.sources {
        command.args(["--source", source]);
    }
    run_expecting(command.env("OUTHAUL_HUB_TOKEN_FILE", token), code).unwrap()
}

#[test]
fn what_the_centre_sends_is_shown_for_the_bundle_that_was_rendered_from_it() {
    let fixture = fixture();
    let (centre, reader) = (
        token(&fixture, "centre", "ingest"),
        token(&fixture, "ann", "read"),
    );
    let hub = fixture.serve_closed();
    let refused = send(&fixture, 2, &reader, &hub.url, &[]);
    assert!(
        refused.stderr.contains("--scope ingest"),
        "{}",
        refused.stderr
    );
    let sent = send(&fixture, 0, &centre, &hub.url, &[]);
    assert!(
        sent.stdout.contains("keeps it as sha256:"),
        "{}",
        sent.stdout
    );
    let again = send(&fixture, 0, &centre, &hub.url, &["--output", "json"]);
    let again = result(&again.stdout);
    assert_eq!(
        (&again["new"], &again["others"]),
        (&false.into(), &0.into())
    );
    drop(hub);

    let hub = fixture.serve();
    let page = get(&hub, "/explain/dev/edge/hello-dev").2;
    for text in [
        "same version named",
        "sent by <strong>centre</strong>",
        "not signed by the fleet",
        "shown below",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let platform = get(&hub, "/platform/dev").2;
    assert!(
        platform.contains("/explain/dev/edge/hello-dev"),
        "{platform}"
    );
}

#[test]
fn a_hub_that_does_not_answer_is_named_and_may_be_sent_to_again() {
    let fixture = fixture();
    let centre = token(&fixture, "centre", "ingest");
    // Nothing listens there, so that nothing was sent.
    let failed = send(&fixture, 3, &centre, "http://127.0.0.1:1", &[]);
    for words in ["cannot reach `http://127.0.0.1:1/", "nothing was changed"] {
        assert!(failed.stderr.contains(words), "{}", failed.stderr);
    }
    // One that takes the document and goes away says nothing of what it did with it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hub = format!("http://{}", listener.local_addr().unwrap());
    let taken = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut start = [0; 64];
        std::io::Read::read(&mut stream, &mut start).unwrap();
    });
    let failed = send(&fixture, 3, &centre, &hub, &[]);
    taken.join().unwrap();
    assert!(
        !failed.stderr.contains("nothing was changed"),
        "{}",
        failed.stderr
    );
    let named = format!("no answer from `{hub}`");
    for words in [&named, "it may have kept what was sent", "send it again"] {
        assert!(failed.stderr.contains(words), "{}", failed.stderr);
    }
}
