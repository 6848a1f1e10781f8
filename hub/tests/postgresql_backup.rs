//! A backup of a hub whose data is on a real PostgreSQL: back on another server, and as a file.

use std::fs;

use outhaul_test_kit::Centre;
use outhaul_test_kit::plain::NEW;
use outhaul_tests::postgres;

use crate::audited::exported;
use crate::postgresql::{add, fails, init, name_of};
use crate::program::{Hub, code};

#[test]
fn a_backup_of_a_server_comes_back_on_another_one_and_as_a_file() {
    let Some(server) = postgres::shared_or_skip() else {
        return;
    };
    let database = server.database();
    let hub = Hub::new();
    let centre = Centre::new();
    assert_eq!(code(&init(&hub, &centre, &database)), 0);
    let stream = centre.stream("dev", "drone");
    let mut site = centre.site("drone-1", &stream);
    add(&hub, &site);
    fs::write(hub.path("one.reports"), site.active(1, NEW)).unwrap();
    assert_eq!(code(&hub.run(&["import", "one.reports"])), 0);
    let written = hub.json(&["backup", "--to", "hub.backup"]);
    let digest = written["digest"].as_str().unwrap().to_owned();
    let backup = hub.path("hub.backup");
    let backup = backup.to_str().unwrap();
    let number = |hub: &Hub| hub.json(&["sites"])[0]["newest_report"].clone();

    let as_file = Hub::new();
    as_file.json(&["restore", backup, "--digest", &digest]);
    assert_eq!(number(&as_file), 1);
    assert!(as_file.state().join("hub.db").exists());

    let elsewhere = Hub::new();
    // Not over what is there.
    let full = elsewhere.run(&["restore", backup, "--database", &database]);
    fails(&full, 2, &["is not empty"]);
    assert!(!elsewhere.state().join("hub.database").exists());
    let empty = server.database();
    elsewhere.json(&["restore", backup, "--database", &empty]);
    assert_eq!(number(&elsewhere), 1);
    assert!(!elsewhere.state().join("hub.db").exists());
    let name = name_of(&empty);
    assert_eq!(server.sql(name, "SELECT COUNT(*) FROM restores"), "1");

    // The site goes on with either of them: what it sends next joins what came back.
    fs::write(hub.path("two.reports"), site.active(1, NEW)).unwrap();
    let two = hub.path("two.reports");
    for restored in [&as_file, &elsewhere] {
        assert_eq!(code(&restored.run(&["import", two.to_str().unwrap()])), 0);
        assert_eq!(number(restored), 2);
        let lines = exported(restored, "all.audit").concat();
        assert_eq!(lines.matches(r#"kind":"report"#).count(), 2, "{lines}");
    }
    // On the server both are in partitions, the first by the restore.
    let text = "SELECT COUNT(*) FROM report_envelopes";
    assert_eq!(server.sql(name, text), "2");
    let text = "SELECT COUNT(*) FROM reports WHERE part IS NULL";
    assert_eq!(server.sql(name, text), "0");
}
