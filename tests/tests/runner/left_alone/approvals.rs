//! Requests that the centre does not accept, and orders that it cannot give.

use std::fs;

use super::World;

/// The request with one change in its text, under another name.
fn changed(world: &World, request: &str, change: impl FnOnce(&mut serde_json::Value)) -> String {
    let text = fs::read(world.path(request)).unwrap();
    let mut envelope: serde_json::Value = serde_json::from_slice(&text).unwrap();
    change(&mut envelope);
    fs::write(world.path("changed.request"), envelope.to_string()).unwrap();
    "changed.request".to_owned()
}

#[test]
fn requests_that_are_not_believed_approve_nothing() {
    let world = World::new();
    let kit = world.kit("edge-1", "fleet");
    let (request, fingerprint) = world.machine("sites/edge-1", &kit);
    let (second, other) = world.machine("sites/second", &kit);
    let approve = |request: &str, named: &str| {
        format!("site approve {request} --fleet fleet --fingerprint {named}")
    };
    let refused = |line: &str, says: &str| world.left_alone(("outhaul", line, 4, says));

    world.left_alone((
        "outhaul",
        &format!("site approve {request} --fleet fleet"),
        2,
        "compare it with the fingerprint that `outhaul-agent status` shows on the machine",
    ));
    world.left_alone((
        "outhaul",
        "site rekey edge-1 --fleet fleet",
        2,
        "no key of `edge-1` was approved yet, so no key can sign the request for a new one; nothing was changed",
    ));
    world.left_alone((
        "outhaul",
        "site revoke edge-9 --fleet fleet",
        2,
        "sites on record: edge-1; `outhaul site approve REQUEST` records a site that was enrolled before",
    ));
    world.left_alone((
        "outhaul",
        &approve(&request, &fingerprint[..15]),
        2,
        "has 15 digits, and 16 are the fewest that name a key; nothing was changed",
    ));
    refused(
        &approve(&request, &other),
        "not of one whose fingerprint begins with",
    );
    let flipped = changed(&world, &request, |envelope| {
        let sig = envelope["signatures"][0]["sig"]
            .as_str()
            .unwrap()
            .to_owned();
        let first = if sig.starts_with('A') { "B" } else { "A" };
        envelope["signatures"][0]["sig"] = format!("{first}{}", &sig[1..]).into();
    });
    refused(
        &approve(&flipped, &fingerprint),
        "the request is refused: its signature does not hold; nothing was changed",
    );
    let unproven = changed(&world, &request, |envelope| {
        envelope["signatures"].as_array_mut().unwrap().truncate(1);
    });
    refused(
        &approve(&unproven, &fingerprint),
        "enrol the machine with its kit again; nothing was changed",
    );
    world.typed(
        "outhaul",
        "key init --fleet other --passphrase-file passphrase",
    );
    let (foreign, theirs) = world.machine("sites/foreign", &world.kit("edge-1", "other"));
    refused(
        &approve(&foreign, &theirs),
        "the request is refused: it is of fleet",
    );

    world.typed("outhaul", &approve(&request, &fingerprint));
    refused(
        &approve(&second, &other),
        "the kit of `edge-1` was used: key",
    );
}
