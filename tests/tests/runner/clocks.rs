//! Wrong clocks at the centre and the hub, with the real programs: nothing is signed with them, and what one
//! signed nevertheless is undone by the commands that docs/operator.md names.

use std::process::Command;

use outhaul_tests::{Ran, available_or_skip, program, run};

use super::system::SystemFixture;

/// `date -u`, as the programs read times.
fn date(when: &str) -> String {
    let output = Command::new("date")
        .args(["-u", "-d", when, "+%Y-%m-%dT%H:%M:%SZ"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn under(fixture: &SystemFixture, clock: &str, name: &str, arguments: &[&str]) -> Ran {
    outhaul_tests::faketime::sweep();
    let mut command = fixture.command("faketime".as_ref());
    command.args(["-f", clock]).arg(program(name).unwrap());
    run(command.args(arguments)).unwrap()
}

fn reported(ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!(ran.code, Some(code), "{}", ran.everything());
    for word in words {
        assert!(ran.stderr.contains(word), "{word}: {}", ran.everything());
    }
}

fn bound(fixture: &SystemFixture) -> String {
    let status = fixture.agent("edge-1", 0, &["--output", "json", "status"]);
    let status = outhaul_tests::result(&status.stdout);
    status["time_lower_bound"].as_str().unwrap().to_owned()
}

#[test]
fn a_wrong_clock_signs_nothing_and_what_it_signed_is_undone() {
    if !available_or_skip("faketime") {
        return;
    }
    let fixture = SystemFixture::new();
    let init = ["init", "control-plane", "--environments", "dev"];
    fixture.run("outhaul", 0, &init);
    fixture.fleet();
    fixture.site("edge-1", "dev", "edge");
    fixture.on_branch("control-plane", "main", |_| {});
    let promote = ["promote", "--control-plane", "control-plane", "--to", "dev"];
    fixture.run("outhaul", 0, &promote);
    fixture.bundle("dev");
    fixture.carry("edge-1");
    fixture.home("edge-1");

    let keys = ["--fleet", "fleet", "--passphrase-file", "passphrase"];
    let stream = [
        "--environment",
        "dev",
        "--cluster-type",
        "edge",
        "--out",
        "s.slip",
    ];
    let slip = [&["slip"][..], &keys, &stream].concat();
    let rotate = [
        "--passphrase-file",
        "passphrase",
        "rotate",
        "fleet",
        "online",
    ];
    let acks = ["--state", "hub", "acks", "elsewhere"];
    std::fs::create_dir(fixture.path("elsewhere")).unwrap();
    for (clock, words) in [
        ("2099-01-01 00:00:00", "more than 400 days after"),
        ("-30d", "before the newest time that the fleet signed"),
    ] {
        let nothing = [words, "nothing was signed", "help:"];
        reported(&under(&fixture, clock, "outhaul", &slip), 2, &nothing);
        reported(
            &under(&fixture, clock, "outhaul-signer", &rotate),
            2,
            &nothing,
        );
        reported(
            &under(&fixture, clock, "outhaul-hub", &acks),
            3,
            &[words, "help:"],
        );
    }
    // Nor does a time that a person types, when it goes back or the clock is plausible and far behind it.
    for (typed, words) in [
        ("+365 days", "the latest time that this machine's clock"),
        ("-30 days", "before the newest time that the fleet signed"),
    ] {
        let typed = date(typed);
        let typed = [&slip[..], &["--issued", &typed]].concat();
        let ran = fixture.run("outhaul", 2, &typed);
        reported(&ran, 2, &[words, "nothing was signed", "help:"]);
    }
    assert!(!fixture.path("s.slip").exists() && !fixture.path("elsewhere/acks").exists());

    // A clock that shows a wrong year is believed when the fleet signed something a year before, and a site trusts it.
    let (issued, expires) = (date("+299 days"), date("+700 days"));
    let wrong = [&slip[..], &["--expires", &expires]].concat();
    reported(&under(&fixture, "+300d", "outhaul", &wrong), 0, &[]);
    fixture.agent("edge-1", 0, &["import", "s.slip"]);
    // To the second: fractions sort before the `Z`.
    assert!(bound(&fixture)[..19] >= issued[..19]);
    let out = [&keys[..], &["--out", "stick", "--renew"]].concat();
    let refused = fixture.plane(2, "bundle", "dev", &out);
    reported(&refused, 2, &["before the newest time"]);

    // As docs/operator.md says.
    let now = date("now");
    fixture.run(
        "outhaul-signer",
        0,
        &[&["--now", &now][..], &rotate].concat(),
    );
    let right = [&out[..], &["--issued", &now]].concat();
    fixture.plane(0, "bundle", "dev", &right);
    fixture.carry("edge-1");
    assert!(bound(&fixture) < date("+1 day"), "{}", bound(&fixture));
    let status = fixture.agent("edge-1", 0, &["status"]);
    assert!(
        status.stdout.contains("active: bundle 2"),
        "{}",
        status.stdout
    );
    // And the hub goes on signing.
    fixture.home("edge-1");
    fixture.run("outhaul-hub", 0, &acks);
}
