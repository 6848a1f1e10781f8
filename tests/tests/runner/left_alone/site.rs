//! What a site leaves alone: a slip that it knows, a stick whose reading was cut off, memory that is damaged.

use std::fs;
use std::path::Path;

use outhaul_test_kit::folder;
use outhaul_tests::{program, run_compared};

use super::{KEYS, World};

/// A site of `dev/edge` with a bundle on the stick.
fn world() -> World {
    let world = World::new();
    world.0.site("edge-1", "dev", "edge");
    world.0.bundle("dev");
    world
}

#[test]
fn a_slip_that_is_known_does_nothing() {
    let world = world();
    world.0.carry("edge-1");
    let line = format!("slip {KEYS} --environment dev --cluster-type edge --out edge.slip");
    world.typed("outhaul", &line);
    world.0.agent("edge-1", 0, &["import", "edge.slip"]);
    world.left_alone((
        "outhaul-agent",
        "--state sites/edge-1 import edge.slip",
        0,
        "; nothing was done",
    ));
}

#[test]
fn a_stick_whose_reading_was_cut_off_left_what_runs_alone() {
    let world = world();
    world.0.carry("edge-1");
    world.0.on_branch("control-plane", "dev", |folder| {
        let config = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: extra\n  labels:\n    \
                      platform-config: \"true\"\ndata:\n  EXTRA: \"1\"\n";
        fs::write(folder.join("configs/extra.yaml"), config).unwrap();
    });
    world.0.bundle("dev");
    let agent = program("outhaul-agent").unwrap();
    let agent = agent.to_str().unwrap();
    // At the n-th instant the power goes; then someone asks what came of the stick.
    let script = "OUTHAUL_CUT=$1 \"$0\" --state \"$2\" import stick; echo \"cut: $?\"; \
                  \"$0\" --state \"$2\" status | grep ^stick";
    let mut cut_off = 0;
    for instant in ["1", "2", "3"] {
        let state = format!("sites/cut-{instant}");
        folder::copy(&world.0.path("sites/edge-1"), &world.0.path(&state));
        let mut shell = world.0.command(Path::new("sh"));
        shell.args(["-c", script, agent, instant, &state]);
        let ran = run_compared(&mut shell, 0, &["cut: 137"]).unwrap();
        cut_off += usize::from(ran.stdout.contains("nothing of it is half done"));
    }
    assert!(cut_off > 0);
}

#[test]
fn stored_metadata_that_is_damaged_lets_nothing_in_and_what_runs_goes_on() {
    let world = world();
    world.0.carry("edge-1");
    let database = world.path("sites/edge-1/agent.db");
    let database = rusqlite::Connection::open(database).unwrap();
    let changed = database.execute(
        "UPDATE trusted SET bytes = CAST('{}' AS BLOB) WHERE name = 'root.json'",
        [],
    );
    assert_eq!(changed.unwrap(), 1);
    drop(database);
    world.0.on_branch("control-plane", "dev", |folder| {
        fs::write(folder.join("note.yaml"), "").unwrap();
    });
    let line = format!(
        "bundle --environment dev --control-plane control-plane {KEYS} --out stick --renew"
    );
    world.typed("outhaul", &line);
    world.left_alone((
        "outhaul-agent",
        "--state sites/edge-1 import stick",
        4,
        "what runs is safe and continues; enrol the site again with a kit of its fleet, floors stay",
    ));
}
