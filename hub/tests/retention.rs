//! Old reports that are removed by the real program: a person's command, the server by its setting, and one that is killed on the way.

use std::fs;

use outhaul_audit::Recomputed;
use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G, ReportEvent};
use outhaul_gate::audit::{AuditLine, FORMAT, FORMAT_3};
use outhaul_hub::Store;
use outhaul_hub::ingest::{Batch, ingest};
use outhaul_hub::retention::{self, Rule};
use outhaul_hub::store::{SiteState, StoreError};
use outhaul_test_kit::plain::NEW;
use outhaul_test_kit::{Centre, Site};
use outhaul_tests::postgres;
use serde_json::Value;

use crate::audited::{at, audited, exported, says, sealed};
use crate::gate_rules::{gate, report, world};
use crate::http;
use crate::program::{Hub, code, command, stderr};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

fn store(hub: &Hub) -> Store {
    Store::open(&hub.state()).unwrap()
}

#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of `Session<'a>` named by its path is not general enough over 'a"
)]
fn states(store: &mut Store) -> Vec<SiteState> {
    store.read(|session| session.site_states()).unwrap()
}

/// The real time: the reports of these tests came in by it.
#[expect(
    clippy::disallowed_methods,
    reason = "the program under test reads its clock too"
)]
pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Looks at bundle 1, which runs and is well.
fn looks(centre: &Centre, site: &mut Site, count: usize) -> Vec<u8> {
    let index = centre.plain_index(&site.stream, 1, NEW);
    let one = |_| {
        let mut event = site.event(1, NEW, G::Active, C::Compliant);
        event.index = outhaul_bundle::Digest::of(&index.to_bytes());
        site.say(ReportEvent::Observation(event))
    };
    (0..count).flat_map(one).collect()
}

/// Takes reports in as if that had been long ago, and the last line now.
fn take_long_ago(hub: &Hub, fleet: &str, lines: &[u8]) {
    let last = lines[..lines.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n');
    let (old, last) = lines.split_at(last.map_or(0, |at| at + 1));
    take(hub, fleet, old, 1_000);
    take(hub, fleet, last, now_ms());
}

/// Takes reports in as if that was at `received_ms`.
fn take(hub: &Hub, fleet: &str, lines: &[u8], received_ms: i64) {
    let batch = Batch {
        fleet,
        via: "old.reports",
        received_ms,
    };
    let done = ingest(&mut store(hub), lines, &batch).unwrap();
    assert_eq!(done.refused, []);
}

/// How many reports of a site are there, and how many are on record as removed.
fn counts(store: &mut Store, site: &str) -> (u64, u64) {
    store
        .read(|session| {
            let reports = session.timeline(site, None, 100_000)?.len() as u64;
            let ranges = session.removed_ranges(site, None, 100_000)?;
            let gone = ranges
                .iter()
                .map(|range| range.last - range.first + 1)
                .sum();
            Ok::<_, StoreError>((reports, gone))
        })
        .unwrap()
}

/// A hub with decisions between many looks; half a year later most of these were removed.
fn half_a_year_later() -> (Hub, Centre, Vec<Site>) {
    let (hub, centre, mut sites) = world(&["drone-1", "drone-2"]);
    for site in &mut sites {
        report(&hub, &centre, site, C::Compliant);
    }
    assert_eq!(gate(&hub, "{}").0, 0);
    for round in 0..3 {
        for site in &mut sites {
            let file = hub.path(&format!("{}-{round}.reports", site.name));
            fs::write(&file, looks(&centre, site, 40)).unwrap();
            hub.json(&["import", file.to_str().unwrap()]);
        }
        let asked = if round == 1 {
            r#"{"soak_hours": 1}"#
        } else {
            "{}"
        };
        gate(&hub, asked);
    }
    report(&hub, &centre, &mut sites[1], C::Failed);
    assert_eq!(gate(&hub, "{}").0, 1);
    let later_ms = now_ms() + 200 * DAY_MS;
    // Someone reports then: without that the hub's clock may as well be wrong.
    take(
        &hub,
        &sites[0].fleet.clone(),
        &looks(&centre, &mut sites[0], 1),
        later_ms,
    );
    let done = retention::remove(
        &mut store(&hub),
        &Rule::by_hand(180, "ann"),
        later_ms,
        false,
        &|| false,
    );
    let done = done.unwrap();
    // Of 243: what decisions rest on, the soak of one of them, the first and the last of each site.
    assert!((60..240).contains(&done.reports), "{done:?}");
    assert_eq!(done.sites, 2);
    (hub, centre, sites)
}

#[test]
fn what_was_removed_is_said_and_every_decision_is_still_recomputed() {
    let (hub, centre, _) = half_a_year_later();
    let lines = exported(&hub, "one.audit");
    assert!(lines[0].contains(FORMAT_3), "{}", lines[0]);
    let audit = audited(&centre, &lines);
    assert_eq!(audit.problems, []);
    assert_eq!(audit.missing, []);
    assert_eq!(audit.decisions.len(), 5);
    let same = |one: &outhaul_audit::CheckedDecision| one.outcome == Recomputed::AsRecorded;
    assert!(audit.decisions.iter().all(same), "{:?}", audit.decisions);
    let removed = audit
        .taken_from_the_hub
        .iter()
        .any(|one| one.contains("no longer kept"));
    assert!(removed, "{:?}", audit.taken_from_the_hub);

    // What a stick brings again is known and not counted.
    let again = hub.json(&["import", hub.path("drone-1-2.reports").to_str().unwrap()]);
    assert_eq!(
        (&again["reports"], &again["duplicates"]),
        (&0.into(), &40.into())
    );
    assert!(again["no_longer_kept"].as_u64().unwrap() > 20, "{again}");

    let server = hub.serve(&[]);
    let (status, page) = http::plain(server.address(), "GET /sites/drone-1", b"");
    assert_eq!(status, 200);
    let (_, page_of_assignment) = http::plain(
        server.address(),
        "GET /sites/drone-1/assignments/maps-uat",
        b"",
    );
    for page in [&page, &page_of_assignment] {
        assert!(page.contains("older than 180 days"), "{page}");
    }
    assert!(
        page.contains("no longer kept") && !page.contains("not received"),
        "{page}"
    );
    let (_, rows) = http::json(server.address(), "GET /api/v1/sites", b"");
    for row in rows.as_array().unwrap() {
        assert_eq!(row["missing"], serde_json::json!([]), "{row}");
    }
    let (_, answer) = http::json(server.address(), "GET /api/v1/removals?site=drone-1", b"");
    assert_eq!(answer["removals"][0]["by"], "ann", "{answer}");
    assert_eq!(
        answer["ranges"][0]["rule"], "older than 180 days",
        "{answer}"
    );
    let epoch = answer["ranges"][0]["epoch"].as_str().unwrap();
    let asked = format!("GET /api/v1/removals?site=drone-1&limit=1&after={epoch}.0");
    let (_, next) = http::json(server.address(), &asked, b"");
    assert_eq!(next["ranges"][0], answer["ranges"][0], "{next}");
    assert_eq!(next["ranges"].as_array().unwrap().len(), 1);
    for wrong in [
        "site=nobody",
        "site=",
        "site=drone-1&limit=0",
        "site=drone-1&after=x",
    ] {
        let asked = format!("GET /api/v1/removals?{wrong}");
        let (status, _) = http::plain(server.address(), &asked, b"");
        assert_eq!(status, 400, "{wrong}");
    }
    // Drone-2 failed in its newest report; what was before is here only in part.
    let faults = hub.json(&["faults", "drone-2"]);
    let fault = &faults["faults"][0];
    assert_eq!(fault["missing"], serde_json::json!([]), "{fault}");
    let log = hub.json(&["audit", "access"]);
    assert_eq!(
        (&log[0]["action"], &log[0]["who"]),
        (&"prune".into(), &"ann".into()),
        "{log}"
    );
    // Of several ranges each answer leads to the next.
    let removed = store(&hub).write(|session| {
        let removal = session.begin_removal(("ann", "by number"), 1, 1)?;
        for run in [(10, 12), (20, 22)] {
            session.remove_reports(("drone-1", epoch), run, (removal, 1, 1))?;
        }
        Ok::<_, StoreError>(())
    });
    removed.unwrap();
    let path = "/api/v1/removals?site=drone-1";
    let (_, all) = http::json(server.address(), &format!("GET {path}"), b"");
    assert_eq!((&all["next"], &all["older"]), (&Value::Null, &false.into()));
    let (mut ranges, mut path) = (Vec::new(), format!("{path}&limit=1"));
    for is_last in [false, false, true] {
        let (_, part) = http::json(server.address(), &format!("GET {path}"), b"");
        ranges.extend(part["ranges"].as_array().unwrap().clone());
        assert_eq!(part["next"].is_null(), is_last, "{part}");
        part["next"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut path);
    }
    assert_eq!(all["ranges"], Value::Array(ranges));
}

#[test]
fn a_backup_of_a_hub_that_removed_reports_is_restored() {
    let (hub, centre, _) = half_a_year_later();
    let before = counts(&mut store(&hub), "drone-1");
    let file = hub.path("hub.backup");
    hub.json(&["backup", "--to", file.to_str().unwrap()]);
    let back = Hub::new();
    let database = postgres::database_of_run();
    let database: Vec<&str> = database
        .iter()
        .flat_map(|address| ["--database", address])
        .collect();
    back.json(&[&["restore", file.to_str().unwrap()][..], &database].concat());
    assert_eq!(counts(&mut store(&back), "drone-1"), before);
    let audit = audited(&centre, &exported(&back, "back.audit"));
    assert_eq!(audit.problems, []);
}

#[test]
fn an_export_cannot_hide_a_report_as_one_that_is_no_longer_kept() {
    let (hub, centre, _) = half_a_year_later();
    let lines = exported(&hub, "one.audit");
    // A range that is taken out: its numbers are missing, and the file does not say so.
    let mut fewer = lines.clone();
    fewer.remove(at(&lines, "removed")[0]);
    says(
        &audited(&centre, &sealed(&hub, fewer)),
        "reports were removed from it",
    );
    // The newest report, which failed, replaced by a range.
    let change = |line: &str, by: fn(&mut u64, &mut u64)| -> String {
        let mut line: AuditLine = serde_json::from_str(line).unwrap();
        if let AuditLine::Removed { first, last, .. } = &mut line {
            by(first, last);
        }
        serde_json::to_string(&line).unwrap() + "\n"
    };
    let last = *at(&lines, "removed").last().unwrap();
    let mut hidden = lines.clone();
    hidden[last] = change(&lines[last], |_, last| *last = 122);
    let newest =
        |line: &&String| line.contains(r#""kind":"report""#) && line.contains(r#""number":122"#);
    let newest = lines.iter().position(|line| newest(&line)).unwrap();
    hidden.remove(newest);
    let audit = audited(&centre, &sealed(&hub, hidden));
    assert_eq!(audit.exit_code(), 4, "{audit:?}");
    // A report that is there after all.
    let mut both = lines.clone();
    both[last] = change(&lines[last], |first, _| *first -= 1);
    says(
        &audited(&centre, &sealed(&hub, both)),
        "is in the file, which states that it is no longer kept",
    );
    // A file that says to be of before ranges were stated.
    let mut older = lines.clone();
    older[0] = lines[0].replace(FORMAT_3, FORMAT);
    says(
        &audited(&centre, &sealed(&hub, older)),
        "`outhaul-audit/2` states no reports that are no longer kept",
    );
    // A range of nothing.
    let mut turned = lines.clone();
    turned[last] = change(&lines[last], std::mem::swap);
    says(&audited(&centre, &sealed(&hub, turned)), "are not a range");
}

/// Kills a removal when some of its transactions are done; whether that was in the middle of it.
fn killed_on_the_way() -> bool {
    let (hub, centre, mut sites) = world(&["drone-1", "drone-2"]);
    let mut lines = Vec::new();
    for site in &mut sites {
        // Refusals stay, so that each part is one transaction.
        for _ in 0..150 {
            lines.extend(looks(&centre, site, 3));
            lines.extend(site.say(ReportEvent::Refusal {
                source: "stick".to_owned(),
                rule: "signature".to_owned(),
                message: "not signed".to_owned(),
            }));
        }
    }
    take_long_ago(&hub, &sites[0].fleet, &lines);
    let mut store = store(&hub);
    let before = states(&mut store);
    let mut child = command()
        .args(["prune", "--older-than", "30d", "--by", "ann", "--state"])
        .arg(hub.state())
        .spawn()
        .unwrap();
    let removed = |store: &mut Store| -> u64 {
        let removals = store.read(|session| session.removals(9)).unwrap();
        removals.iter().map(|one| one.reports).sum()
    };
    while removed(&mut store) < 9 {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // While nobody else writes: it is between two of its transactions, or it was faster than this test and is done.
    let is_ended = store.write(|session| {
        child.kill().unwrap();
        child.wait().unwrap();
        Ok::<_, StoreError>(session.removals(9)?[0].ended_ms.is_some())
    });
    let is_ended = is_ended.unwrap();
    let part = removed(&mut store);
    let whole = |store: &mut Store| -> u64 {
        let (states, history) = store
            .read(|session| {
                Ok::<_, StoreError>((session.site_states()?, session.site_states_from_history()?))
            })
            .unwrap();
        assert_eq!((&states, &history), (&before, &before));
        let found = sites.iter().map(|site| counts(store, &site.name));
        let found: Vec<(u64, u64)> = found.collect();
        assert!(
            found.iter().all(|(here, gone)| here + gone == 600),
            "{found:?}"
        );
        found.iter().map(|(_, gone)| gone).sum()
    };
    assert_eq!(whole(&mut store), part);
    let done = hub.json(&["prune", "--older-than", "30d", "--by", "bob"]);
    // Of each site the first report and the last look stay.
    assert_eq!(whole(&mut store), 2 * (450 - 2));
    assert_eq!(done["reports"].as_u64(), Some(2 * (450 - 2) - part));
    let removals = store.read(|session| session.removals(9)).unwrap();
    let by: Vec<_> = removals
        .iter()
        .map(|one| (one.by.as_str(), one.ended_ms.is_some()))
        .collect();
    match is_ended {
        true => assert_eq!(by, [("ann", true)]),
        false => assert_eq!(by, [("bob", true), ("ann", false)]),
    }
    !is_ended
}

#[test]
fn a_removal_that_is_killed_leaves_a_whole_hub_and_the_next_one_goes_on() {
    assert!(
        (0..8).any(|_| killed_on_the_way()),
        "no removal of eight was killed before its end"
    );
}

#[test]
fn a_server_removes_by_its_setting_while_reports_come_in() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    let site = &mut sites[0];
    let lines = looks(&centre, site, 300);
    take_long_ago(&hub, &site.fleet, &lines);
    let server = hub.serve(&["--keep-observations", "180"]);
    let mut sent = 0;
    loop {
        let line = looks(&centre, site, 1);
        let (status, answer) = http::json(server.address(), "POST /api/v1/reports", &line);
        assert_eq!((status, &answer["accepted"]), (200, &1.into()), "{answer}");
        sent += 1;
        let (_, answer) = http::json(server.address(), "GET /api/v1/removals?site=drone-1", b"");
        let removal = &answer["removals"][0];
        if removal["ended_ms"].is_i64() {
            assert_eq!(
                (&removal["by"], &removal["reports"]),
                (&"serve".into(), &297.into())
            );
            assert_eq!(answer["ranges"][0]["last"], 298, "{answer}");
            break;
        }
    }
    assert_eq!(server.stop(), 0);
    assert_eq!(counts(&mut store(&hub), "drone-1"), (3 + sent, 297));
}

#[test]
fn a_trial_leaves_everything_and_too_short_a_time_is_refused() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    let lines = looks(&centre, &mut sites[0], 20);
    take_long_ago(&hub, &sites[0].fleet, &lines);
    let would = hub.json(&["prune", "--older-than", "7d", "--dry-run"]);
    assert_eq!(
        (&would["reports"], &would["removal"]),
        (&17.into(), &Value::Null)
    );
    assert_eq!(counts(&mut store(&hub), "drone-1"), (20, 0));
    for arguments in [
        &["prune", "--older-than", "6d", "--by", "ann"][..],
        &["prune", "--older-than", "180d"],
        &["prune", "--older-than", "half a year", "--by", "ann"],
        &["serve", "--keep-observations", "1"],
    ] {
        let output = hub.run(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
    }
    let nothing = hub.json(&["prune", "--older-than", "36500d", "--by", "ann"]);
    assert_eq!(
        (&nothing["reports"], &nothing["removal"]),
        (&0.into(), &Value::Null)
    );
}

#[test]
fn a_compacted_file_is_smaller_and_nobody_compacts_beside_a_server() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    let lines = looks(&centre, &mut sites[0], 400);
    take_long_ago(&hub, &sites[0].fleet, &lines);
    hub.json(&["prune", "--older-than", "180d", "--by", "ann"]);
    if postgres::is_of_run() {
        let refused = hub.run(&["compact"]);
        assert_eq!(code(&refused), 1, "{}", stderr(&refused));
        assert!(
            stderr(&refused).contains("autovacuum"),
            "{}",
            stderr(&refused)
        );
        return;
    }
    let server = hub.serve(&[]);
    let refused = hub.run(&["compact"]);
    assert_eq!(code(&refused), 3, "{}", stderr(&refused));
    assert_eq!(server.stop(), 0);
    let before = states(&mut store(&hub));
    let done = hub.json(&["compact"]);
    let bytes = |name: &str| done[name].as_u64().unwrap();
    assert!(bytes("after_bytes") * 2 < bytes("before_bytes"), "{done}");
    assert_eq!(states(&mut store(&hub)), before);
    let size = fs::metadata(hub.state().join("hub.db")).unwrap().len();
    assert_eq!(size, bytes("after_bytes"));
}
