//! What is kept of removed databases stays until the hub has it, and what was not sent stays after that.
//!
//! What comes in: files in `rescued`. What goes out: nothing but assertions.

use super::*;

#[test]
fn what_is_left_beside_a_lost_database_is_kept_each_time_and_of_one_that_is_there_stays() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFolder::new(folder.path());
    let wal = folder.path().join("agent.db-wal");
    assert_eq!(keep_left_beside_database(&state).unwrap(), None);
    for name in ["left", "left-2"] {
        fs::write(&wal, name).unwrap();
        let kept = keep_left_beside_database(&state).unwrap().unwrap();
        assert_eq!(kept, folder.path().join("rescued").join(name));
        assert_eq!(fs::read_to_string(kept.join("agent.db-wal")).unwrap(), name);
        assert!(!wal.exists());
    }
    fs::write(&wal, "beside an empty one").unwrap();
    fs::write(state.database(), "").unwrap();
    assert!(keep_left_beside_database(&state).unwrap().is_some());
    assert!(!wal.exists());
    fs::write(&wal, "frames").unwrap();
    fs::write(state.database(), "rows").unwrap();
    assert_eq!(keep_left_beside_database(&state).unwrap(), None);
    assert!(wal.exists());
}

/// The site `press-7`, of this numbering.
fn site(epoch: &str) -> SiteIdentity {
    serde_json::from_value(serde_json::json!({
        "fleet": "acme", "name": "press-7", "epoch": epoch, "hub_url": "", "hub_key": "",
        "stream": { "role": "s-1", "environment": "dev", "cluster_type": "drone" },
    }))
    .unwrap()
}

#[test]
fn a_damaged_saved_database_is_an_error_and_keeps_the_reports_of_no_other_back() {
    let root = tempfile::tempdir().unwrap();
    let state_folder = StateFolder::new(root.path());
    let site = site("e1");
    let rescued = root.path().join(RESCUED);
    fs::create_dir(&rescued).unwrap();
    let mut store = Store::open(&root.path().join("agent.db")).unwrap();
    let done = store.commit(|db| {
        state::set_meta(db, key::SITE, Some(&site))?;
        db.execute(
            "INSERT INTO outbox (number, class, envelope) VALUES (1, 'started', X'7b7d')",
            [],
        )
        .unwrap();
        Ok::<_, StateError>(())
    });
    done.unwrap();
    let saved = rescued.join("e1-1.db");
    store
        .read()
        .execute("VACUUM INTO ?1", [saved.to_str().unwrap()])
        .unwrap();
    for damaged in ["a-1.db", "z-1.db"] {
        fs::write(rescued.join(damaged), "no database").unwrap();
    }
    assert!(write_out(&state_folder, &site).is_err());
    let written = folder(&state_folder).join("press-7-e1-1-1.reports");
    assert_eq!(fs::read(written).unwrap(), b"{}\n");
}

/// A report of `press-7`, as it travels.
fn report(epoch: &str, number: u64) -> Vec<u8> {
    let report = serde_json::json!({
        "format": "outhaul.dev/report/v1", "fleet": "acme", "site": "press-7", "epoch": epoch, "number": number,
        "previous": (number > 1).then(|| Digest::of(b"").to_string()),
        "at": { "wall_ms": 1, "lower_bound_ms": 1, "trusted": false },
        "event": { "kind": "started", "agent_version": "1.0.0" },
    });
    let key = outhaul_signer::SigningKey::generate().unwrap();
    let payload = report.to_string().into_bytes();
    let signed = Envelope::sign(outhaul_bundle::report::PAYLOAD_TYPE, payload, &key);
    let mut line = signed.to_json();
    line.push(b'\n');
    line
}

#[test]
fn lines_that_were_not_sent_are_kept_when_the_hub_has_the_reports_and_are_not_counted() {
    let root = tempfile::tempdir().unwrap();
    let state_folder = StateFolder::new(root.path());
    let site = site("e2");
    let folder = folder(&state_folder);
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("press-7-e1-1-2.reports");
    let foreign = [b"a note\n".to_vec(), report("e9", 1)].concat();
    let all = [report("e1", 1), foreign.clone(), report("e1", 2)].concat();
    let ack: Ack = serde_json::from_value(serde_json::json!({
        "fleet": "acme", "site": "press-7", "epoch": "e1", "number": 2, "hub_time_ms": 1,
    }))
    .unwrap();
    let other = b"another\n".to_vec();
    let with_other = [&other[..], &report("e1", 2)].concat();
    // What an earlier file left is not written over.
    for (left, all, own, foreign) in [("left", all, 2, foreign), ("left-2", with_other, 1, other)] {
        fs::write(&path, all).unwrap();
        let acknowledged = acknowledged(&state_folder, &site, std::slice::from_ref(&ack));
        assert_eq!(acknowledged.unwrap(), own);
        assert!(!path.exists());
        let kept = folder.join(format!("press-7-e1-1-2.reports.{left}"));
        assert_eq!(fs::read(kept).unwrap(), foreign);
    }
    assert_eq!(waiting(&state_folder, &site), []);
}

#[test]
fn what_the_database_has_itself_does_not_wait_and_what_the_hub_has_goes() {
    let root = tempfile::tempdir().unwrap();
    let state_folder = StateFolder::new(root.path());
    let site = site("e2");
    assert_eq!(waiting(&state_folder, &site), []);
    let folder = folder(&state_folder);
    fs::create_dir_all(&folder).unwrap();
    for (name, epoch, number) in [
        ("press-7-e1-1-4.reports", "e1", 4),
        ("press-7-e1-5-5.reports", "e1", 5),
        ("press-7-e2-1-2.reports", "e2", 1),
        ("press-77-e1-1-2.reports", "e1", 1),
        ("press-7-e1-x-2.reports", "e1", 1),
        ("notes", "e1", 1),
    ] {
        fs::write(folder.join(name), report(epoch, number)).unwrap();
    }
    let said = || -> Vec<String> {
        let all = waiting(&state_folder, &site);
        all.iter().map(RescuedReports::sentence).collect()
    };
    let both = ["reports 1 to 4 of numbering e1", "report 5 of numbering e1"];
    assert_eq!(said(), both);
    let ack = |site: &str, epoch: &str, number: u64| -> Ack {
        serde_json::from_value(serde_json::json!({
            "fleet": "acme", "site": site, "epoch": epoch, "number": number, "hub_time_ms": 1,
        }))
        .unwrap()
    };
    let others = [
        ack("press-8", "e1", 5),
        ack("press-7", "e1", 3),
        ack("press-7", "e1", 6),
    ];
    assert_eq!(acknowledged(&state_folder, &site, &others).unwrap(), 0);
    let identity = serde_json::json!({
        "format": "outhaul.dev/site-identity/v1", "fleet": "acme", "site": "press-7", "epoch": "e2", "before": ["e0"], "reports": 2,
    });
    fs::write(state_folder.identity(), identity.to_string()).unwrap();
    fs::write(folder.join("press-7-e0-1-2.reports"), report("e0", 2)).unwrap();
    // More than is saved, of a numbering that was this site's.
    let of_former = [ack("press-7", "e0", 9)];
    assert_eq!(acknowledged(&state_folder, &site, &of_former).unwrap(), 1);
    let own = [ack("press-7", "e1", 4)];
    assert_eq!(acknowledged(&state_folder, &site, &own).unwrap(), 1);
    assert_eq!(said(), both[1..]);
    assert_eq!(queued_again(&state_folder, &site).unwrap(), 1);
    assert!(!folder.join("press-7-e2-1-2.reports").exists());
    assert_eq!(said(), both[1..]);
}
