//! What an order needs in order to act, and what becomes of it when the key that signed it is taken away.
//!
//! Every row of docs/internals/agent.md's table of what a damaged bundle may do: the whole memory and state folder are
//! compared before and after.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use outhaul_bundle::Instruction;
use outhaul_bundle::digest::Digest;
use outhaul_test_kit::{Centre, Draft};
use rusqlite::{Connection, OpenFlags};

use crate::orders::running;
use crate::site::{Site, assert_reports, code, stderr, stdout, tree};

/// The state folder and the memory as they are, but for what every look at a stick changes: the clock, the
/// reports, the journal, and what `status` remembers of sticks and refusals.
fn whole_state(site: &Site) -> BTreeMap<String, Vec<u8>> {
    state_without(site, &["outbox", "journal"])
}

/// All files and all rows.
pub fn everything(site: &Site) -> BTreeMap<String, Vec<u8>> {
    state_without(site, &[])
}

fn state_without(site: &Site, left_out: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let mut state = tree(&site.state());
    state.retain(|name, _| !name.starts_with("agent.db") && !name.ends_with("lock"));
    let database = fs::read_dir(site.state())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "db"))
        .unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    state.retain(|name, _| !name.contains(".db"));
    let db = Connection::open_with_flags(database, flags).unwrap();
    let tables: Vec<String> = db
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .filter(|name: &String| !name.starts_with("sqlite_"))
        .filter(|name| !left_out.contains(&name.as_str()))
        .collect();
    for table in tables {
        let mut query = db.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = query.column_count();
        let mut rows = query.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<_> = (0..columns)
                .map(|at| format!("{:?}", row.get_ref(at).unwrap()))
                .collect();
            let changes = ["clock", "outbox", "media", "refusals"]
                .map(|name| format!("Text({:?})", name.as_bytes()));
            if table == "meta" && changes.contains(&values[0]) {
                continue;
            }
            state.insert(format!("{table}: {}", values.join(", ")), Vec::new());
        }
    }
    state
}

/// What is in one state and not in the other, by the first word.
pub fn difference(
    before: &BTreeMap<String, Vec<u8>>,
    after: &BTreeMap<String, Vec<u8>>,
) -> Vec<String> {
    let only = |a: &BTreeMap<String, Vec<u8>>, b: &BTreeMap<String, Vec<u8>>| {
        a.iter()
            .filter(|(name, bytes)| b.get(*name) != Some(bytes))
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    };
    [only(before, after), only(after, before)].concat()
}

/// The bundle with one byte of its last blob flipped, and cut off in it.
pub fn damaged(bundle: &Path) -> [PathBuf; 2] {
    let bytes = fs::read(bundle).unwrap();
    let at = bytes.len() - 20_000;
    let mut flipped = bytes.clone();
    flipped[at] ^= 1;
    [("flipped", flipped), ("cut", bytes[..at].to_vec())].map(|(name, bytes)| {
        let path = bundle.with_file_name(format!("{name}.outhaul"));
        fs::write(&path, bytes).unwrap();
        path
    })
}

pub fn move_to(centre: &Centre, cluster_type: &str, first: u64) -> Instruction {
    Instruction::Move {
        to: centre.stream("dev", cluster_type),
        first,
    }
}

#[test]
fn a_damaged_bundle_changes_nothing_but_by_a_revocation() {
    let centre = Centre::new();
    centre.publish(&Draft::hello("elsewhere").cluster_type("press"));
    let rows = [
        ("nothing", None),
        (
            "approve",
            Some(Instruction::Approve {
                key: Digest::of(b"another key"),
            }),
        ),
        ("rekey", Some(Instruction::Rekey)),
        ("move", Some(move_to(&centre, "press", 90))),
        ("revoke", Some(Instruction::Revoke)),
    ];
    let site = running(&centre);
    for (name, what) in rows {
        let mut draft = Draft::hello("two");
        if let Some(what) = what {
            draft = draft.order("drone-7", 1, what);
        }
        let bundle = centre.publish(&draft);
        for bad in damaged(&bundle) {
            let site = site.copy();
            let before = whole_state(&site);
            let output = site.import(&bad);
            let after = whole_state(&site);
            let changed = difference(&before, &after);
            if name == "revoke" {
                assert_eq!(code(&output), 0, "{}", stderr(&output));
                let printed = stdout(&output);
                assert!(
                    printed.contains("installs nothing new any more"),
                    "{printed}"
                );
                let of_orders = changed.iter().all(|line| line.starts_with("meta: "));
                assert!(of_orders && changed.len() == 3, "{changed:#?}");
                assert_eq!(site.status()["enrolment"], "revoked");
                continue;
            }
            let printed = stderr(&output);
            assert!([3, 4].contains(&code(&output)), "{name}: {printed}");
            // The row of a refused copy is the record of the refusal.
            let changed: Vec<_> = changed
                .into_iter()
                .filter(|line| !line.starts_with("generation: ") && !line.starts_with("result: "))
                .collect();
            assert!(changed.is_empty(), "{name}: {changed:#?}\n{printed}");
            assert_eq!(site.active(), Some(1), "{name}");
        }
        // The same bundle, whole.
        let site = site.copy();
        let output = site.import(&bundle);
        assert_eq!(code(&output), 0, "{name}: {}", stderr(&output));
        assert_eq!(site.status()["orders_done"], u64::from(name != "nothing"));
    }
}

#[test]
fn an_order_to_move_to_a_stream_that_nobody_delegates_is_refused() {
    let centre = Centre::new();
    let site = running(&centre);
    let nowhere = move_to(&centre, "nowhere", 90);
    site.take(&centre.publish(&Draft::hello("two").order("drone-7", 1, nowhere)));
    let event_log = site.event_log();
    assert!(
        event_log.contains(&"order move refused".to_owned()),
        "{event_log:?}"
    );
    centre.replace_stream_key("drone");
    site.take(&centre.publish(&Draft::hello("three")));
    assert_eq!(site.active(), Some(3));
}

#[test]
fn orders_of_a_replaced_key_do_not_count() {
    let centre = Centre::new();
    let site = running(&centre);
    let huge = (1 << 53) - 1;
    let stolen = Draft::hello("stolen").order("drone-7", huge, Instruction::Revoke);
    let output = site.import(&centre.publish(&stolen));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(site.status()["enrolment"], "revoked");
    assert_reports(
        &site.import(&centre.publish(&Draft::hello("three"))),
        4,
        &["revoked"],
    );
    centre.replace_stream_key("drone");
    // The fleet itself repeats it: it stands.
    let repeated = Draft::hello("four").order("drone-7", huge, Instruction::Revoke);
    let still = site.copy();
    assert_reports(&still.import(&centre.publish(&repeated)), 4, &["revoked"]);
    // It does not: the site is reached again, and the numbers that the thief used up are free.
    let own = Digest::from_hex(site.status()["key"].as_str().unwrap()).unwrap();
    let approve = Instruction::Approve { key: own };
    site.take(&centre.publish(&Draft::hello("five").order("drone-7", 1, approve)));
    let status = site.status();
    assert_eq!(
        (status["enrolment"].as_str(), status["orders_done"].as_u64()),
        (Some("approved"), Some(1))
    );
    let event_log = site.event_log();
    assert!(
        event_log.contains(&"order revoke refused".to_owned()),
        "{event_log:?}"
    );
}

#[test]
fn a_site_that_a_thief_moved_is_taken_back_by_its_own_stream() {
    let centre = Centre::new();
    let press = centre.publish(&Draft::hello("press").cluster_type("press"));
    let site = running(&centre);
    let stolen = Draft::hello("stolen").order("drone-7", 1, move_to(&centre, "press", 1 << 50));
    let output = site.import(&centre.publish(&stolen));
    assert!(
        stdout(&output).contains("follows dev/press"),
        "{}",
        stderr(&output)
    );
    assert_eq!(site.status()["cluster_type"], "press");
    // While the key is the fleet's, the order counts.
    let third = centre.publish(&Draft::hello("three"));
    assert_reports(
        &site.copy().import(&third),
        4,
        &["this stick is for dev/drone, this site is dev/press"],
    );
    // What the thief named as the first number keeps no bundle of the new stream out.
    let there = site.copy();
    assert_reports(&there.import(&press), 4, &["nothing was changed"]);
    let newer = centre.publish(&Draft::hello("press, newer").cluster_type("press"));
    there.take(&newer);
    centre.replace_stream_key("drone");
    let back = centre.publish(&Draft::hello("four"));
    site.take(&back);
    assert_eq!(site.status()["cluster_type"], "drone");
    assert_eq!(site.active(), Some(4));
    // A site that the new stream has reached stays there.
    assert_reports(
        &there.import(&back),
        4,
        &["this stick is for dev/drone, this site is dev/press"],
    );
}

/// What a thief installs with all keys of the centre, under a number as high as there is, bounds nothing
/// once the fleet has taken them away.
#[test]
fn a_number_that_a_thief_used_up_keeps_no_lower_one_out() {
    let centre = Centre::new();
    let site = running(&centre);
    let thief = centre.thief();
    let stolen = thief.publish_as(&Draft::hello("stolen"), (1 << 53) - 2);
    site.take(&stolen);
    // While the keys are the fleet's, its number counts.
    centre.publish(&Draft::hello("two"));
    assert_reports(
        &site.copy().import(&centre.publish(&Draft::hello("three"))),
        4,
        &["rollback", "nothing was changed"],
    );
    let moved = site.copy();
    let waiting = site.copy();
    waiting.configure("approval = \"always\"\n");
    let higher = thief.publish_as(&Draft::hello("stolen again"), (1 << 53) - 1);
    let held = waiting.ok(&["import", higher.to_str().unwrap()]);
    assert_eq!(held["state"], "gated", "{held}");
    centre.replace_stream_key("drone");
    centre.rotate_online_keys();
    let honest = centre.publish(&Draft::hello("four"));
    let with_slip = site.copy();
    with_slip.ok(&["import", centre.slip("drone").to_str().unwrap()]);
    // It takes the place of what the thief left waiting, and waits itself.
    let taken = waiting.ok(&["import", honest.to_str().unwrap()]);
    assert_eq!(
        (&taken["number"], &taken["state"]),
        (&4.into(), &"gated".into()),
        "{taken}"
    );
    waiting.ok(&["approve", "4"]);
    assert_eq!(waiting.active(), Some(4));
    for site in [&site, &with_slip] {
        site.take(&honest);
        assert_eq!(site.active(), Some(4));
        assert_reports(&site.copy().import(&stolen), 4, &["nothing was changed"]);
        // Nobody goes back to what the thief installed.
        let back = site.copy();
        back.ok(&["rollback"]);
        assert_eq!(back.active(), Some(1));
        site.take(&centre.publish(&Draft::hello("newer")));
    }
    // Nor does it keep the fleet from moving the site.
    centre.publish(&Draft::hello("elsewhere").cluster_type("press"));
    let order = move_to(&centre, "press", 90);
    let go = centre.publish(&Draft::hello("go").order("drone-7", 1, order));
    moved.ok(&["import", go.to_str().unwrap()]);
    assert_eq!(moved.status()["cluster_type"], "press");
}

/// The very number that a thief used, too, unless it runs: then the next one does.
#[test]
fn a_number_that_a_thief_used_is_the_fleets_again() {
    let centre = Centre::new();
    let site = running(&centre);
    let thief = centre.thief();
    let stolen = thief.publish(&Draft::hello("stolen"));
    site.take(&stolen);
    let rolled_back = site.copy();
    rolled_back.ok(&["rollback"]);
    centre.replace_stream_key("drone");
    centre.rotate_online_keys();
    let second = centre.publish(&Draft::hello("two"));
    rolled_back.take(&second);
    assert_eq!(rolled_back.active(), Some(2));
    assert_reports(&site.import(&second), 4, &["another bundle 2"]);
    site.take(&centre.publish(&Draft::hello("three")));
}

#[test]
fn what_a_wrong_clock_of_the_centre_signed_is_undone_by_new_online_keys() {
    let centre = Centre::new();
    let site = running(&centre);
    let hours = |hours: i64| outhaul_test_kit::now() + jiff::SignedDuration::from_hours(hours);
    let wrong = centre.slip_issued("drone", hours(24 * 600), hours(24 * 700));
    site.ok(&["import", wrong.to_str().unwrap()]);
    assert!(
        site.status()["time_lower_bound"].as_str().unwrap() > hours(24 * 599).to_string().as_str()
    );
    assert_reports(
        &site.import(&centre.publish(&Draft::hello("two"))),
        4,
        &["expired"],
    );
    // On site: a slip is enough, and so is the next bundle.
    centre.rotate_online_keys();
    let with_slip = site.copy();
    let printed = with_slip.ok(&["import", centre.slip("drone").to_str().unwrap()]);
    assert_eq!(printed["slips"][0]["time_restarts"], true, "{printed}");
    let newest = centre.publish(&Draft::hello("three"));
    for site in [site, with_slip] {
        site.take(&newest);
        let bound = site.status()["time_lower_bound"].clone();
        assert!(
            bound.as_str().unwrap() < hours(24).to_string().as_str(),
            "{bound}"
        );
    }
}
