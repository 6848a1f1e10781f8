//! The centre's and the hub's own files are damaged: what is advised must not make it worse.

use std::fs;

use super::system::SystemFixture;

#[test]
fn damage_at_the_centre_and_the_hub_is_distinguished_from_absence_and_nothing_new_is_made() {
    let fixture = SystemFixture::new();
    fixture.fleet();
    let status = ["key", "status", "--fleet", "fleet"];
    let good = fs::read(fixture.path("fleet/fleet.json")).unwrap();
    fs::write(fixture.path("fleet/fleet.json"), "{").unwrap();
    let reported = fixture.run("outhaul", 3, &status).stderr;
    for words in ["is damaged", "backup", "make no new fleet"] {
        assert!(reported.contains(words), "{reported}");
    }
    assert!(
        !reported.contains("`outhaul-signer init` makes one"),
        "{reported}"
    );
    fs::remove_file(fixture.path("fleet/fleet.json")).unwrap();
    let reported = fixture.run("outhaul", 2, &status).stderr;
    assert!(reported.contains("is not a fleet"), "{reported}");
    fs::write(fixture.path("fleet/fleet.json"), good).unwrap();

    for name in ["hub.db-wal", "hub.db-shm"] {
        let _ = fs::remove_file(fixture.path("hub").join(name));
    }
    fs::write(fixture.path("hub/hub.db"), [b'x'; 8192]).unwrap();
    let reported = fixture
        .run("outhaul-hub", 3, &["--state", "hub", "sites"])
        .stderr;
    assert!(
        reported.contains("is damaged") && reported.contains("backup"),
        "{reported}"
    );
    // A file where a folder is to be is not a damaged disk.
    let reported = fixture
        .run("outhaul-hub", 2, &["--state", "hub.pub", "sites"])
        .stderr;
    assert!(
        reported.contains("`hub.pub/hub.db` does not exist"),
        "{reported}"
    );
    assert!(!reported.contains("dmesg"), "{reported}");
}
