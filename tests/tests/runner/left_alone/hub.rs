//! What the hub refuses of people: callers, requests that wait, files that are too large.

use std::fs;

use super::World;

fn hub(line: &str) -> String {
    format!("--state hub {line}")
}

#[test]
fn what_a_hub_cannot_do_leaves_its_store_as_it_is() {
    let world = World::new();
    let refused = |line: &str, code: i32, says: &str| {
        world.left_alone(("outhaul-hub", &hub(line), code, says));
    };
    refused(
        "caller remove nobody",
        2,
        "`outhaul-hub --state hub caller list` lists them; nothing was changed",
    );

    let kit = world.kit("edge-1", "fleet");
    let (request, fingerprint) = world.machine("sites/edge-1", &kit);
    world.typed("outhaul-hub", &hub(&format!("import {request}")));
    let none = "0".repeat(16);
    refused(
        &format!("site add edge-1 --fingerprint {none}"),
        2,
        "name all of the fingerprint, or its first 16 digits or more; nothing was changed",
    );
    // An agent that showed no proof of its kit wrote requests with one signature.
    let text = fs::read(world.path(&request)).unwrap();
    let mut envelope: serde_json::Value = serde_json::from_slice(&text).unwrap();
    envelope["signatures"].as_array_mut().unwrap().truncate(1);
    fs::write(world.path("old.request"), envelope.to_string()).unwrap();
    refused(
        &format!("site add old.request --fingerprint {fingerprint}"),
        4,
        "enrol the machine again with its kit and this version of the agent",
    );

    // The same machine with a second kit: one key, two requests.
    let (again, same) = world.machine("sites/edge-1", &world.kit("edge-1", "fleet"));
    assert_eq!(same, fingerprint);
    world.typed("outhaul-hub", &hub(&format!("import {again}")));
    refused(
        &format!("site add edge-1 --fingerprint {fingerprint}"),
        2,
        "name the kit as well with `--kit`; nothing was changed",
    );

    // Nine machines with one kit, of which eight may wait.
    let kit = world.kit("edge-2", "fleet");
    let mut requests: Vec<String> = (0..9)
        .map(|n| world.machine(&format!("sites/copy-{n}"), &kit).0)
        .collect();
    let ninth = requests.pop().unwrap();
    for request in requests {
        world.typed("outhaul-hub", &hub(&format!("import {request}")));
    }
    let line = hub(&format!("import {ninth}"));
    let says = "`outhaul-hub --state hub site reject` makes room";
    world.left_alone(("outhaul-hub", &line, 1, says));
    // The eight are known, and come with it.
    let ran = world.0.run(
        "outhaul-hub",
        1,
        &["--state", "hub", "import", "sites/copy-0", &ninth],
    );
    assert!(
        ran.stderr
            .contains("what was refused changed nothing; everything else was imported"),
        "{}",
        ran.stderr
    );

    // A hole on disk: no byte of it is read.
    let large = fs::File::create(world.path("large.reports")).unwrap();
    large.set_len((1 << 30) + 1).unwrap();
    refused("import large.reports", 4, "nothing of it was read");
}
