//! Cut, bloated, bent and random bytes; damaged stores; names that are paths.

use outhaul_signer::trust;
use outhaul_test_kit::bent::{Centre, Files, ROLE, Site, today};
use proptest::prelude::*;
use serde_json::Value;

use super::site_with;

#[test]
fn truncated_files() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    for (name, rule) in [
        ("timestamp.json", "malformed"),
        ("1.snapshot.json", "mix-and-match"),
        ("1.targets.json", "mix-and-match"),
    ] {
        let mut files = centre.bundle(ROLE);
        let half = files[name].len() / 2;
        files.get_mut(name).unwrap().truncate(half);
        site.refuse(&files, rule);
    }
}

#[test]
fn missing_files() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    for name in ["timestamp.json", "1.snapshot.json", "1.targets.json"] {
        let mut files = centre.bundle(ROLE);
        files.remove(name);
        site.refuse(&files, "missing");
    }
    site.refuse(&Files::new(), "missing");
}

#[test]
fn oversized_files() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    for name in [
        "2.root.json",
        "timestamp.json",
        "1.snapshot.json",
        "1.targets.json",
    ] {
        let mut files = centre.bundle(ROLE);
        files
            .entry(name.into())
            .or_default()
            .resize(5_000_001, b' ');
        site.refuse(&files, "oversized");
    }
}

#[test]
fn damaged_store_fails_closed() {
    let mut centre = Centre::new();
    let whole = site_with(&centre);
    centre.next(b"two");
    let files = centre.bundle(ROLE);
    for name in [
        "root.json",
        "timestamp.json",
        "snapshot.json",
        "targets.json",
    ] {
        let mut site = whole.clone();
        site.trusted.0.insert(name.into(), Vec::new());
        site.refuse(&files, "damaged-store");
    }
    let mut site = whole;
    site.trusted.0.remove("root.json");
    site.refuse(&files, "damaged-store");
}

#[test]
fn deeply_nested_metadata() {
    let centre = Centre::new();
    let mut files = centre.bundle(ROLE);
    files.insert("timestamp.json".into(), vec![b'['; 16_000]);
    Site::enrolled(&centre).refuse(&files, "malformed");
}

#[test]
fn a_role_name_that_is_a_path() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    for role in ["", "../root", "a/b", "root", "timestamp", "ä", "%2e"] {
        let refusal = trust::verify(&site.trusted, &site.floors, &centre.files, role, today());
        assert_eq!(refusal.unwrap_err().rule(), "stream", "{role}");
    }
}

#[test]
fn a_flipped_bit_anywhere_in_the_timestamp_is_refused_or_changes_nothing() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    let honest = site.check(&centre.bundle(ROLE)).unwrap();
    let original = centre.files["timestamp.json"].clone();
    // One bit of each byte, a different one from byte to byte.
    for at in 0..original.len() {
        let mut files = centre.bundle(ROLE);
        files.get_mut("timestamp.json").unwrap()[at] ^= 1 << (at % 8);
        if let Ok(acceptance) = site.check(&files) {
            // A byte outside of what is signed, such as a space: the meaning is the same.
            assert_eq!(acceptance.versions, honest.versions, "byte {at}");
            assert_eq!(acceptance.index_sha256, honest.index_sha256, "byte {at}");
        }
    }
}

fn any_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "root.json",
        "2.root.json",
        "timestamp.json",
        "1.snapshot.json",
        "snapshot.json",
        "1.targets.json",
        "targets.json",
        "1.s-0123456789abcdef.json",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn verify_never_panics_on_arbitrary_bytes(
        stored in any::<bool>(),
        name in any_name(),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let centre = Centre::new();
        let mut site = site_with(&centre);
        let mut files = centre.bundle(ROLE);
        if stored {
            site.trusted.0.insert(name, bytes);
        } else {
            files.insert(name, bytes);
        }
        drop(site.check(&files));
    }

    #[test]
    fn verify_never_panics_on_bent_metadata(
        name in any_name(),
        pick in any::<prop::sample::Index>(),
        with in prop::sample::select(vec!["null", "-1", "0", "18446744073709551615", "1e99", "\"\"", "[]", "{}", "\"\u{7f}\"", "true"]),
    ) {
        let centre = Centre::new();
        let site = site_with(&centre);
        let mut files = centre.files.clone();
        let Some(bytes) = files.get(&name) else { return Ok(()) };
        let mut value: Value = serde_json::from_slice(bytes).unwrap();
        let mut paths = Vec::new();
        pointers(&value, String::new(), &mut paths);
        let path = &paths[pick.index(paths.len())];
        *value.pointer_mut(path).unwrap() = serde_json::from_str(with).unwrap();
        files.insert(name, serde_json::to_vec(&value).unwrap());
        drop(site.check(&files));
        drop(Site::enrolled(&centre).check(&files));
    }
}

fn pointers(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, item)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            pointers(item, format!("{at}/{key}"), out);
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, item)| pointers(item, format!("{at}/{index}"), out)),
        _ => {}
    }
    out.push(at);
}

/// One bit at a time. Nothing but its signature pins the root and the timestamp, so that there every
/// byte's case bit counts; the others are pinned by digests.
#[test]
fn a_flipped_bit_in_any_metadata_file() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    let whole = centre.bundle(ROLE);
    for (name, bytes) in &whole {
        let pinned = !name.ends_with("root.json") && name != "timestamp.json";
        for at in 0..bytes.len() {
            let bits: &[u8] = match (at % 64, pinned) {
                (0, _) => &[1, 2, 4, 8, 16, 32, 64, 128],
                (_, false) => &[32],
                (_, true) => &[],
            };
            for bit in bits {
                let mut files = whole.clone();
                if let Some(byte) = files.get_mut(name).and_then(|bytes| bytes.get_mut(at)) {
                    *byte ^= bit;
                }
                assert!(
                    site.check(&files).is_err(),
                    "{name} byte {at} bit {bit} was accepted"
                );
            }
        }
    }
}
