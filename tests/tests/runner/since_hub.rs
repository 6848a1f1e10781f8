//! A copy that leaves out what a site has by its reports at a hub.
//!
//! What comes in: the real programs, a site that reported to a hub. What must come out: the copy that its reports on a stick would give;
//! where the hub does not answer, nothing.

use std::fs;

use outhaul_tests::{program, run_expecting};

use super::since::{approve, change, copy, fixture};

#[test]
fn a_copy_for_a_site_asks_a_hub_what_it_runs() {
    let fixture = fixture(300_000);
    fixture.site("bench-1", "dev", "bench");
    copy(&fixture, "stick", 0, &[]);
    fixture.carry("bench-1");
    fixture.home("bench-1");
    approve(&fixture, "bench-1");
    change(&fixture);
    let hub = fixture.serve();
    let ask = ["--for", "bench-1", "--ask-hub", "--hub", &hub.url];
    let seen = copy(&fixture, "small", 0, &ask);
    for words in [
        "`bench-1` runs bundle 1 by its report",
        "only for sites that have bundle 1 (",
    ] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    let small = fixture.path("small/dev-bench-2.since1.outhaul");
    fixture.agent("bench-1", 0, &["import", small.to_str().unwrap()]);
    fixture.home("bench-1");
    let seen = copy(&fixture, "again", 0, &ask);
    assert!(
        seen.contains("`bench-1` runs bundle 2 by its report"),
        "{seen}"
    );
    assert_eq!(fs::read_dir(fixture.path("again")).unwrap().count(), 0);
    // A hub that the settings name is asked only where someone says so, and no other copy needs it; one that was typed is meant.
    let mut plain = fixture.command(&program("outhaul").unwrap());
    plain.env("OUTHAUL_HUB", "http://127.0.0.1:9");
    fs::create_dir_all(fixture.path("plain")).unwrap();
    let seen = run_expecting(plain.args(["copy", "--fleet", "fleet", "--to", "plain"]), 0).unwrap();
    assert!(
        seen.stdout.contains("dev/bench: number 2"),
        "{}",
        seen.stdout
    );
    let seen = copy(&fixture, "plain", 2, &["--hub", "http://127.0.0.1:9"]);
    let missing = "required arguments were not provided";
    assert!(
        seen.contains(missing) && seen.contains("  --ask-hub"),
        "{seen}"
    );
    // A hub that wants a token, and one that is not there: nothing is written.
    drop(hub);
    let closed = fixture.serve_closed();
    let seen = copy(
        &fixture,
        "again",
        2,
        &["--for", "bench-1", "--ask-hub", "--hub", &closed.url],
    );
    for words in ["OUTHAUL_HUB_TOKEN_FILE", "nothing was written", "--reports"] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    let url = closed.url.clone();
    drop(closed);
    let seen = copy(
        &fixture,
        "again",
        3,
        &["--for", "bench-1", "--ask-hub", "--hub", &url],
    );
    assert!(seen.contains("nothing was written"), "{seen}");
    let seen = copy(&fixture, "again", 2, &["--for", "bench-1", "--ask-hub"]);
    assert!(seen.contains("`--ask-hub` needs to know the hub"), "{seen}");
    assert_eq!(fs::read_dir(fixture.path("again")).unwrap().count(), 0);
}
