//! What a co-signer is shown and what stops a co-signer: the real program, and requests that lie.
//!
//! What comes in: a fleet with a root of 2 of 3 keys, and what someone who has the fleet's folder and one of
//! the keys can write. What must come out: an honest change with every key by id, name and holder; of all
//! others no answer, whoever is asked.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use outhaul_signer::ceremony::{Ceremony, RootChange};
use outhaul_signer::metadata::{self, Key, Root};
use outhaul_signer::request::SigningRequest;
use outhaul_signer::{Fleet, PublicKey, SigningKey};
use outhaul_test_kit::bent::at;
use serde_json::Value;

use crate::cli::{folder_with_passphrase, run};
use crate::fleet::secret;

const REQUEST: &str = "2.root.json.request";

/// A fleet of 2 of 3 root keys; `vault.pem` is the second, of someone else; `mine.json` is that person's root.
fn fleet_of_three(at: &Path) -> Fleet {
    run(at, 0, "init fleet --root-keys 3 --root-threshold 2");
    let fleet = Fleet::open(&at.join("fleet")).unwrap();
    let root: Root = root_of(&fleet);
    let ids = &root.roles["root"].keyids;
    for (entry, name) in fleet
        .ring()
        .entries()
        .unwrap()
        .into_iter()
        .filter_map(|entry| {
            let place = ids.iter().position(|id| *id == entry.public.id())?;
            Some((entry, ["stays", "vault", "third"][place]))
        })
    {
        if name != "stays" {
            fs::rename(&entry.private, at.join(format!("{name}.pem"))).unwrap();
            fs::write(at.join(format!("{name}.pub")), entry.public.to_pem()).unwrap();
        }
    }
    fs::copy(at.join("fleet/metadata/1.root.json"), at.join("mine.json")).unwrap();
    fleet
}

fn root_of(fleet: &Fleet) -> Root {
    metadata::parse_own(&fleet.newest_root_bytes().unwrap()).unwrap()
}

fn next_root(fleet: &Fleet) -> Root {
    let mut root = root_of(fleet);
    root.version += 1;
    root.expires = at("2029-01-01T00:00:00Z");
    root
}

/// Puts `key` in the place of the root key `place`, and calls it as that one is called.
fn replace(root: &mut Root, place: usize, key: &PublicKey) {
    let old = std::mem::replace(
        &mut root.roles.get_mut("root").unwrap().keyids[place],
        key.id(),
    );
    root.keys.remove(&old);
    root.keys.insert(key.id(), Key::new(key));
    if let Some(called) = root.holders.remove(&old) {
        root.holders.insert(key.id(), called);
    }
    root.roles.get_mut("root").unwrap().keyids.sort_unstable();
}

/// A request as the fleet's own program writes it, for `payload`.
fn write_request(fleet: &Fleet, folder: &Path, payload: &[u8], root: &Root) -> SigningRequest {
    let old = root_of(fleet);
    let of = |root: &Root| -> Vec<(String, Key)> {
        let ids = &root.roles["root"].keyids;
        let keys = root.keys.iter().filter(|(id, _)| ids.contains(id));
        keys.map(|(id, key)| (id.clone(), key.clone())).collect()
    };
    let keys: BTreeMap<_, _> = of(&old).into_iter().chain(of(root)).collect();
    let first = String::from_utf8(fleet.root_bytes().unwrap()).unwrap();
    let published = BTreeMap::from([("1.root.json".to_owned(), first)]);
    let request = SigningRequest::new(fleet.id(), "root", payload, keys).with_published(published);
    fs::write(folder.join(REQUEST), request.to_bytes()).unwrap();
    request
}

/// Nobody signs it: not when it is shown, and not when its digest is named.
#[track_caller]
fn stops(folder: &Path, request: &SigningRequest, why: &str) {
    let countersign = format!("countersign {REQUEST} --root mine.json --key vault.pem");
    for rest in [
        "--show".to_owned(),
        format!("--digest {}", request.digest().unwrap()),
    ] {
        let printed = run(folder, 4, &format!("{countersign} {rest}"));
        let printed = printed.as_str().unwrap();
        assert!(
            printed.contains(why) && printed.contains("nothing was signed"),
            "{why}: {printed}"
        );
    }
    let answers = fs::read_dir(folder).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".answer")
    });
    assert_eq!(answers.count(), 0);
}

#[test]
fn a_root_whose_keys_were_all_replaced_stops_every_cosigner() {
    let dir = folder_with_passphrase();
    let at = dir.path();
    let fleet = fleet_of_three(at);
    let thief: Vec<_> = (0..3).map(|_| SigningKey::generate().unwrap()).collect();
    let send = |root: &Root| {
        let payload = metadata::signed_bytes(root).unwrap();
        write_request(&fleet, at, &payload, root)
    };
    for count in [2, 3] {
        let mut root = next_root(&fleet);
        for (place, key) in thief.iter().enumerate().take(count) {
            // Sorted again each time: the old keys that are left are looked for.
            let old = root_of(&fleet);
            let ids = &root.roles["root"].keyids;
            let left = ids.iter().position(|id| old.keys.contains_key(id)).unwrap();
            replace(&mut root, left, &key.public());
            assert!(place < 3);
        }
        let kept = format!("it keeps {} of the 3 root keys", 3 - count);
        stops(at, &send(&root), &kept);
    }
}

type Bend = fn(&mut Root, &PublicKey);

#[test]
fn a_request_that_says_something_else_than_it_does_is_not_signed() {
    let dir = folder_with_passphrase();
    let folder = dir.path();
    let fleet = fleet_of_three(folder);
    let stranger = SigningKey::generate().unwrap().public();
    let bends: [(&str, Bend); 7] = [
        ("and 2 follows from your root", |root, _| root.version = 7),
        ("has passed", |root, _| {
            root.expires = at("2026-02-01T00:00:00Z");
        }),
        ("wants 0 signatures", |root, _| {
            root.roles.get_mut("targets").unwrap().threshold = 0;
        }),
        ("lists one twice", |root, _| {
            let role = root.roles.get_mut("root").unwrap();
            role.keyids.push(role.keyids[0].clone());
        }),
        ("does not match its id", |root, stranger| {
            let id = root.roles["root"].keyids[0].clone();
            root.keys.insert(id, Key::new(stranger));
        }),
        ("not those of its roles", |root, stranger| {
            root.keys.insert(stranger.id(), Key::new(stranger));
        }),
        ("cannot be shown", |root, _| {
            let called = root.holders.values_mut().next().unwrap();
            called.name = "vault\u{202e}".to_owned();
        }),
    ];
    for (why, bend) in bends {
        let mut root = next_root(&fleet);
        bend(&mut root, &stranger);
        let payload = metadata::signed_bytes(&root).unwrap();
        stops(folder, &write_request(&fleet, folder, &payload, &root), why);
    }
    // A field that no review shows.
    let root = next_root(&fleet);
    let mut hidden = serde_json::to_value(&root).unwrap();
    hidden["x"] = Value::Bool(true);
    let payload = metadata::signed_bytes(&hidden).unwrap();
    let request = write_request(&fleet, folder, &payload, &root);
    stops(folder, &request, "something that this program cannot show");
}

#[test]
fn a_published_root_that_does_not_follow_from_the_co_signer_s_own_is_no_ground() {
    let dir = folder_with_passphrase();
    let folder = dir.path();
    let fleet = fleet_of_three(folder);
    let thief = SigningKey::generate().unwrap();
    let mut forged = next_root(&fleet);
    replace(&mut forged, 0, &thief.public());
    let bytes = metadata::sign(&forged, &[&thief]).unwrap();
    let mut next = forged.clone();
    next.version = 3;
    let payload = metadata::signed_bytes(&next).unwrap();
    let honest = write_request(&fleet, folder, &payload, &next);
    let mut published = honest.published.clone();
    published.insert("2.root.json".to_owned(), String::from_utf8(bytes).unwrap());
    let request = honest.with_published(published);
    fs::write(folder.join(REQUEST), request.to_bytes()).unwrap();
    stops(folder, &request, "does not follow from your root version 1");
    // Another fleet's request, before a co-signer of this one.
    let other = tempfile::tempdir().unwrap();
    let other = crate::fleet::new_fleet(other.path());
    let root = next_root(&other);
    let payload = metadata::signed_bytes(&root).unwrap();
    let request = write_request(&other, folder, &payload, &root);
    stops(folder, &request, "fleet");
}

#[test]
fn an_honest_change_is_shown_key_by_key_against_the_co_signer_s_root() {
    let dir = folder_with_passphrase();
    let folder = dir.path();
    let fleet = fleet_of_three(folder);
    // The third key is lost, and a new one is made elsewhere in its place.
    run(folder, 0, "key auditor");
    let auditor = fs::read_to_string(folder.join("auditor.pub")).unwrap();
    let auditor = PublicKey::from_pem(&auditor).unwrap();
    let third =
        PublicKey::from_pem(&fs::read_to_string(folder.join("third.pub")).unwrap()).unwrap();
    let called = metadata::Holder {
        name: "auditor".to_owned(),
        holder: "Ana Lima".to_owned(),
    };
    let changes = [
        RootChange::AddRootKey(auditor.clone()),
        RootChange::NameKey {
            id: auditor.id(),
            called,
        },
        RootChange::RemoveRootKey(third.id()),
    ];
    let waiting = fleet
        .change_root(&changes, at("2026-06-01T00:00:00Z"), &secret())
        .unwrap();
    assert!(matches!(waiting, Ceremony::Waiting { found: 1, .. }));
    let countersign =
        format!("countersign fleet/requests/{REQUEST} --root mine.json --key vault.pem");
    let shown = run(folder, 0, &format!("{countersign} --show"));
    let role = &shown["review"]["roles"][0];
    assert_eq!(
        (
            &role["threshold"],
            &role["threshold_before"],
            &role["count"]
        ),
        (&2.into(), &2.into(), &3.into())
    );
    let keys = role["keys"].as_array().unwrap();
    let fate = |id: &str| keys.iter().find(|key| key["id"] == *id).unwrap();
    assert_eq!(keys.len(), 4);
    let added = fate(&auditor.id());
    assert_eq!(
        (&added["fate"], &added["name"], &added["holder"]),
        (&"added".into(), &"auditor".into(), &"Ana Lima".into())
    );
    assert_eq!(fate(&third.id())["fate"], "removed");
    assert_eq!(keys.iter().filter(|key| key["fate"] == "kept").count(), 2);
    assert_eq!(keys.iter().filter(|key| key["yours"] == true).count(), 1);
    let digest = shown["digest"].as_str().unwrap();
    run(folder, 0, &format!("{countersign} --digest {digest}"));
    run(folder, 0, "root fleet finish");
    // The next one is compared with the same old copy, by way of what was published since.
    let waiting = fleet
        .change_root(&[RootChange::Renew], at("2026-06-02T00:00:00Z"), &secret())
        .unwrap();
    assert!(matches!(waiting, Ceremony::Waiting { version: 3, .. }));
    let next = "countersign fleet/requests/3.root.json.request --root mine.json --show";
    let shown = run(folder, 0, next);
    assert_eq!(shown["review"]["own_version"], 1);
    assert_eq!(shown["review"]["published_version"], 2);
    assert_eq!(shown["name"], "root 3");
}

#[test]
fn a_fleet_does_not_ask_for_what_no_co_signer_may_sign() {
    let dir = folder_with_passphrase();
    let folder = dir.path();
    let fleet = fleet_of_three(folder);
    let ids = root_of(&fleet).roles["root"].keyids.clone();
    let news: Vec<_> = (0..2)
        .map(|_| SigningKey::generate().unwrap().public())
        .collect();
    let mut changes: Vec<_> = news.into_iter().map(RootChange::AddRootKey).collect();
    changes.extend(ids[1..].iter().cloned().map(RootChange::RemoveRootKey));
    let refusal = fleet
        .change_root(&changes, at("2026-06-01T00:00:00Z"), &secret())
        .unwrap_err();
    assert!(
        refusal.to_string().contains("one after another"),
        "{refusal}"
    );
    assert!(!folder.join("fleet/requests").exists());
}
