//! Reports of a database that was removed and saved, where the site is enrolled again instead of putting it back.
//!
//! What must come out: `enrol` and `status` name them, a stick and the network bring them to the hub, and they stay until it has acknowledged them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use outhaul_bundle::hub_api::ReportsAnswer;
use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, Ack, Report};
use outhaul_signer::{Envelope, SigningKey};
use outhaul_test_kit::{Centre, Draft};

use crate::server::Server;
use crate::service::Service;
use crate::site::{Site, assert_reports, stderr, stdout, tree};

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A site that was enrolled again after its service saved the removed database.
struct Anew {
    site: Site,
    /// Of the second enrolment, and what that printed.
    kit: PathBuf,
    printed: String,
    /// The numbering and count of the saved reports.
    epoch: String,
    count: usize,
    _centre: Centre,
}

fn enrolled_anew(hub_key: &SigningKey) -> Anew {
    let centre = Centre::new();
    let kit = |token: &str| {
        centre.kit_with("drone-7", token, |kit| {
            kit.hub_key = hub_key.public().to_pem();
        })
    };
    let site = Site::with_kit("drone-7", &kit("first-token"));
    site.take(&centre.publish(&Draft::hello("one")));
    let mut service = Service::start(&site);
    service.wait_for("STATUS=bundle 1 is active");
    let before = site.reports();
    for name in ["agent.db", "agent.db-wal", "agent.db-shm"] {
        let _ = fs::remove_file(site.state().join(name));
    }
    assert_eq!(service.ended().code(), Some(3));
    // As where a disk was too full for all of it, or someone does not want it back.
    let saved = site
        .state()
        .join(format!("rescued/{}-{}.db", before[0].epoch, before.len()));
    fs::rename(&saved, site.folder.path().join("saved.db")).unwrap();
    let kit = kit("second-token");
    let enrolled = site.run(&["enrol", path(&kit)]);
    assert_reports(&enrolled, 0, &[]);
    Anew {
        site,
        kit,
        printed: stderr(&enrolled),
        epoch: before[0].epoch.to_string(),
        count: before.len(),
        _centre: centre,
    }
}

/// The numbering and number of each report of a stick, in the order in which a hub reads them.
fn on_stick(stick: &Path) -> Vec<(String, u64)> {
    let files = tree(&stick.join("reports"));
    let lines = files
        .values()
        .flat_map(|bytes| bytes.split(|b| *b == b'\n'));
    let reports = lines.filter(|line| !line.is_empty()).map(|line| {
        let envelope = Envelope::from_json(line).unwrap();
        let report = Report::from_bytes(envelope.unverified_payload()).unwrap();
        (report.epoch.to_string(), report.number)
    });
    reports.collect()
}

#[test]
fn reports_of_a_removed_database_are_named_and_go_home_with_the_new_ones() {
    let key = SigningKey::generate().unwrap();
    let Anew {
        site,
        printed: enrolled,
        epoch,
        count,
        ..
    } = enrolled_anew(&key);
    let printed = stdout(&site.run(&["status"]));
    for said in [&enrolled, &printed] {
        for words in [
            "a former database of this site was removed, and reports of it have not reached the hub",
            &format!("reports 1 to {count} of numbering {epoch}"),
            "`outhaul-agent export FOLDER`",
        ] {
            assert!(said.contains(words), "`{words}` is not in: {said}");
        }
    }
    let kinds = |site: &Site| site.status()["attention"].to_string();
    assert!(kinds(&site).contains("rescued-reports"));

    let stick = tempfile::tempdir().unwrap();
    let exported = site.run(&["export", path(stick.path())]);
    let words = format!("{count} of these are of a former database of this site");
    assert_reports(&exported, 0, &[&words]);
    let found = on_stick(stick.path());
    // The older ones first.
    let former: Vec<_> = (1..=count as u64)
        .map(|number| (epoch.clone(), number))
        .collect();
    assert_eq!(found[..count], former);
    assert!(found.len() > count && found[count..].iter().all(|(of, _)| *of != epoch));

    let ack = Ack {
        fleet: site.status()["fleet"].as_str().unwrap().parse().unwrap(),
        site: "drone-7".parse().unwrap(),
        epoch: epoch.parse().unwrap(),
        number: count as u64,
        digest: None,
        hub_time_ms: 1,
    };
    let acks = stick.path().join("acks");
    fs::create_dir(&acks).unwrap();
    let signed = |key: &SigningKey| {
        Envelope::sign(ACK_PAYLOAD_TYPE, serde_json::to_vec(&ack).unwrap(), key).to_json()
    };
    let bring = |key: &SigningKey| {
        fs::write(acks.join("drone-7.acks"), signed(key)).unwrap();
        site.run(&["import", path(stick.path())])
    };
    bring(&SigningKey::generate().unwrap());
    assert!(kinds(&site).contains("rescued-reports"), "another key's");
    assert_reports(&bring(&key), 0, &[]);
    assert!(!kinds(&site).contains("rescued-reports"));
    let again = tempfile::tempdir().unwrap();
    site.ok(&["export", path(again.path())]);
    let left = on_stick(again.path());
    assert!(!left.is_empty() && left.iter().all(|(of, _)| *of != epoch));
}

#[test]
fn reports_of_a_removed_database_are_sent_and_stay_until_they_are_acknowledged() {
    let key = SigningKey::generate().unwrap();
    let Anew {
        site, count, epoch, ..
    } = enrolled_anew(&key);
    let deaf = |_: &[u8]| serde_json::to_vec(&ReportsAnswer::default()).unwrap();
    let deaf = Server::start(PathBuf::new(), Box::new(deaf));
    site.configure(&format!("[hub]\nurl = \"{}\"", deaf.url));
    for _ in 0..2 {
        assert_eq!(site.ok(&["send"])["former_sent"], count);
    }
    let hub = crate::network::hub(key);
    site.configure(&format!("[hub]\nurl = \"{}\"", hub.url));
    // A part of them was saved before, while the disk was full.
    let reports = site.state().join("rescued/reports");
    let whole = tree(&reports).into_iter().next().unwrap();
    let first = whole
        .1
        .split_inclusive(|byte| *byte == b'\n')
        .next()
        .unwrap();
    fs::write(reports.join(format!("drone-7-{epoch}-1-1.reports")), first).unwrap();
    let stick = tempfile::tempdir().unwrap();
    assert_eq!(
        site.ok(&["export", path(stick.path())])["former_reports"],
        count
    );
    let sent = site.ok(&["send"]);
    assert_eq!(
        (&sent["former_sent"], &sent["former_acknowledged"]),
        (&count.into(), &count.into())
    );
    assert_eq!(site.ok(&["send"])["former_sent"], 0);
}

#[test]
fn reports_that_were_not_written_beside_the_saved_database_are_written_by_an_enrolment() {
    let key = SigningKey::generate().unwrap();
    let anew = enrolled_anew(&key);
    let (site, epoch, count) = (&anew.site, &anew.epoch, anew.count);
    let reports = site.state().join("rescued/reports");
    let before = tree(&reports);
    fs::remove_dir_all(&reports).unwrap();
    let saved = site.state().join(format!("rescued/{epoch}-{count}.db"));
    fs::rename(site.folder.path().join("saved.db"), saved).unwrap();
    let enrolled = site.run(&["enrol", path(&anew.kit)]);
    assert_reports(&enrolled, 0, &["reports of it have not reached the hub"]);
    assert_eq!(tree(&reports), before);
}

#[test]
fn a_saved_file_of_reports_that_cannot_be_read_is_named_and_keeps_no_other_report_back() {
    let key = SigningKey::generate().unwrap();
    let Anew {
        site, epoch, count, ..
    } = enrolled_anew(&key);
    let unreadable = format!("drone-7-{epoch}-900-900.reports");
    fs::create_dir(site.state().join("rescued/reports").join(unreadable)).unwrap();
    let words = format!("report 900 of numbering {epoch} cannot be read: ");
    let stick = tempfile::tempdir().unwrap();
    assert_reports(&site.run(&["export", path(stick.path())]), 1, &[&words]);
    let found = on_stick(stick.path());
    assert!(found.len() > count, "its own reports and the saved ones");
    let hub = crate::network::hub(key);
    site.configure(&format!("[hub]\nurl = \"{}\"", hub.url));
    let sent = site.run(&["send"]);
    assert_reports(&sent, 1, &[&words]);
    assert!(stdout(&sent).contains(" sent"), "{}", stdout(&sent));
}

#[test]
fn attack_a_link_among_the_saved_reports_and_lines_that_are_none_do_not_leave_this_machine() {
    let key = SigningKey::generate().unwrap();
    let Anew {
        site, epoch, count, ..
    } = enrolled_anew(&key);
    let reports = site.state().join("rescued/reports");
    let secret = site.folder.path().join("secret");
    fs::write(&secret, "a secret\nof two lines\n").unwrap();
    let file = |numbers: &str| reports.join(format!("drone-7-{epoch}-{numbers}.reports"));
    symlink(&secret, file("901-902")).unwrap();
    fs::copy(&secret, file("903-904")).unwrap();
    let stick = tempfile::tempdir().unwrap();
    let said = [
        &*format!("reports 901 to 902 of numbering {epoch} cannot be read: "),
        "a symbolic link",
        &*format!(
            "reports 903 to 904 of numbering {epoch} has 2 lines that are not reports of this site"
        ),
    ];
    assert_reports(&site.run(&["export", path(stick.path())]), 1, &said);
    assert!(on_stick(stick.path()).len() > count);
    for (name, bytes) in tree(stick.path()) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!text.contains("secret"), "{name:?}: {text}");
    }
    // Nor is a folder followed that a link stands for.
    let elsewhere = site.folder.path().join("elsewhere");
    fs::rename(&reports, &elsewhere).unwrap();
    symlink(&elsewhere, &reports).unwrap();
    let refused = site.run(&["export", path(stick.path())]);
    assert_reports(&refused, 3, &["rescued/reports`: it is a symbolic link"]);
}
