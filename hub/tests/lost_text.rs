//! The signed text of a report that was lost or emptied in the database: one rule for every command, and the way back.
//!
//! What comes in: a hub in a file with three reports of one site, and a person who writes into its database. What must come out: a text that
//! is not that of the report, by its digest, counts as lost everywhere; the report itself puts it back, and nothing else does.

use std::fs;

use outhaul_bundle::report::{ComplianceStatus as C, PAYLOAD_TYPE};
use outhaul_signer::Envelope;
use outhaul_signer::key::SigningKey;

use crate::gate_rules::{report, world};
use crate::postgresql::fails;
use crate::program::{Hub, code, stderr};

/// Sets the text of report 2.
fn set(hub: &Hub, text: &str) {
    let db = rusqlite::Connection::open(hub.state().join("hub.db")).unwrap();
    let text = format!("UPDATE reports SET envelope = {text} WHERE number = 2");
    assert_eq!(db.execute(&text, []).unwrap(), 1);
}

#[test]
fn a_text_that_is_not_that_of_its_report_is_lost_and_the_report_itself_puts_it_back() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    for _ in 0..3 {
        report(&hub, &centre, &mut sites[0], C::Compliant);
    }
    let site = &sites[0];
    let file = |number: u64| format!("drone-1-{number}.reports");
    // The fixture names a file by the number that comes next.
    let (second, third) = (hub.path(&file(3)), hub.path(&file(4)));
    let lost = [
        "lost",
        "--site",
        "drone-1",
        "--epoch",
        &site.epoch,
        "--number",
        "2",
        "--by",
        "ann",
        "--reason",
        "a disk failed",
    ];
    fails(&hub.run(&lost), 2, &["is in the database"]);
    let third = fs::read_to_string(&third).unwrap();
    let of_another = format!("CAST('{}' AS BLOB)", third.trim());
    for (at, text) in ["''", "X''", "'{}'", "0", &of_another]
        .into_iter()
        .enumerate()
    {
        set(&hub, text);
        let missing = "the signed text of report 2 of site `drone-1`";
        let to = format!("{at}.no");
        fails(
            &hub.run(&["backup", "--to", &to]),
            3,
            &[missing, " import FILE` puts it back"],
        );
        fails(&hub.run(&["audit", "export", &to]), 3, &[missing]);
        assert!(!hub.path(&to).exists());

        let done = hub.json(&["import", second.to_str().unwrap()]);
        assert_eq!(
            (&done["duplicates"], &done["restored"], &done["reports"]),
            (&1.into(), &1.into(), &0.into()),
            "{text}: {done}"
        );
        hub.json(&["backup", "--to", &format!("{at}.backup")]);
        hub.json(&["audit", "export", &format!("{at}.audit")]);
    }
    set(&hub, "''");
    let said = hub.run(&["import", second.to_str().unwrap()]);
    assert_eq!(code(&said), 0, "{}", stderr(&said));
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(
        text.contains("the lost text of 1 report on record was put back"),
        "{text}"
    );
    // Once more it is only known.
    let done = hub.json(&["import", second.to_str().unwrap()]);
    assert_eq!(
        (&done["duplicates"], &done["restored"]),
        (&1.into(), &0.into())
    );

    // Where nothing has it, a person says so, and copies are made again.
    set(&hub, "''");
    let said = hub.run(&lost);
    assert_eq!(code(&said), 0, "{}", stderr(&said));
    hub.json(&["backup", "--to", "last.backup"]);
}

#[test]
fn attack_another_payload_in_the_place_of_a_lost_text_is_refused() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    for _ in 0..3 {
        report(&hub, &centre, &mut sites[0], C::Compliant);
    }
    set(&hub, "''");
    let second = fs::read(hub.path("drone-1-3.reports")).unwrap();
    let payload = Envelope::from_json(&second)
        .unwrap()
        .unverified_payload()
        .to_vec();
    let other = String::from_utf8(payload)
        .unwrap()
        .replacen("compliant", "drifted", 1);
    for key in [&sites[0].key, &SigningKey::generate().unwrap()] {
        let mut line = Envelope::sign(PAYLOAD_TYPE, other.clone().into_bytes(), key).to_json();
        line.push(b'\n');
        fs::write(hub.path("other.reports"), line).unwrap();
        let said = hub.run(&["import", "other.reports"]);
        assert_ne!(code(&said), 0);
        fails(
            &hub.run(&["backup", "--to", "no.backup"]),
            3,
            &["report 2 of site `drone-1`"],
        );
    }
}
