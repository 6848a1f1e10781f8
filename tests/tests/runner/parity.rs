//! A bundle in parts with parity, on sticks that lose and damage some, to sites: the real programs, from `outhaul copy` to
//! what is applied.
//!
//! What comes in: a small control plane with six files that do not compress, and sticks with a flipped byte, a part that is
//! cut off, and one that is gone. What must come out: what the whole bundle gives a site; or which parts are missing, and
//! how many more of which are enough.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use outhaul_test_kit::folder::paths;

use super::since::{change, copy, fixture, noise};
use super::system::SystemFixture;

/// A fleet whose newest bundle, number 2, has six files of 200,000 bytes.
fn shipped() -> SystemFixture {
    let fixture = fixture(1_000);
    for at in 0..6usize {
        let bytes = noise(200_000 + at);
        fs::write(fixture.path(&format!("files/app/part-{at}.gz")), bytes).unwrap();
    }
    change(&fixture);
    fixture
}

/// What a site's reconciler wrote.
fn applied(fixture: &SystemFixture, site: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = fixture.path(&format!("sites/{site}/applied"));
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(&folder).unwrap().to_owned();
        (name, fs::read(path).unwrap())
    };
    paths(&folder).iter().map(read).collect()
}

fn import(fixture: &SystemFixture, site: &str, code: i32, folder: &str) -> String {
    let folder = fixture.path(folder);
    let ran = fixture.agent(site, code, &["import", folder.to_str().unwrap()]);
    format!("{}{}", ran.stdout, ran.stderr)
}

fn flip(fixture: &SystemFixture, file: &str) {
    let path = fixture.path(file);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn parts_that_a_stick_lost_or_damaged_are_made_again_on_site() {
    let fixture = shipped();
    for site in ["bench-1", "bench-2", "bench-3"] {
        fixture.site(site, "dev", "bench");
    }
    let size = ["--volume-size", "300K", "--parity", "2"];
    let seen = copy(&fixture, "stick", 0, &size);
    println!("{seen}");
    let parts = seen.matches(".part").count();
    assert!(
        parts > 4 && seen.contains("dev-bench-2.2of2.parity"),
        "{seen}"
    );
    // The reference: a site that gets the whole bundle.
    copy(&fixture, "whole", 0, &[]);
    import(&fixture, "bench-1", 0, "whole");
    let expected = applied(&fixture, "bench-1");

    // 1: a flipped byte and a part that is gone.
    copy(&fixture, "worn", 0, &size);
    let part = |folder: &str, at: usize| format!("{folder}/dev-bench-2.part{at}of{parts}.outhaul");
    flip(&fixture, &part("worn", 3));
    fs::remove_file(fixture.path(&part("worn", 1))).unwrap();
    let seen = import(&fixture, "bench-2", 0, "worn");
    println!("{seen}");
    assert!(
        seen.contains("parts 1, 3 were missing or damaged and were made again from parity"),
        "{seen}"
    );
    assert_eq!(applied(&fixture, "bench-2"), expected);

    // 2: two sticks; on the first too little of everything, on the second a part that is cut off.
    copy(
        &fixture,
        "first",
        0,
        &[&size[..], &["--part", "1", "--parity-part", "1"]].concat(),
    );
    let seen = import(&fixture, "bench-3", 1, "first");
    println!("{seen}");
    assert!(
        seen.contains("parity part 1 of 2 is here: any ") && seen.contains("parity part 2"),
        "{seen}"
    );
    let others: Vec<String> = (2..parts).map(|at| at.to_string()).collect();
    let others: Vec<&str> = others
        .iter()
        .flat_map(|at| ["--part", at.as_str()])
        .collect();
    copy(&fixture, "second", 0, &[&size[..], &others].concat());
    let cut = fixture.path(&part("second", 2));
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 100_000]).unwrap();
    let seen = import(&fixture, "bench-3", 1, "second");
    println!("{seen}");
    assert!(
        seen.contains(&format!(
            "any one of these is enough: part 2, part {parts}, parity part 2"
        )),
        "{seen}"
    );
    // A third stick with nothing but the other parity part. First the disk is full.
    copy(
        &fixture,
        "third",
        0,
        &[&size[..], &["--parity-part", "2"]].concat(),
    );
    let settings = fixture.path("sites/bench-3/agent.toml");
    let before = fs::read_to_string(&settings).unwrap_or_default();
    fs::write(&settings, format!("min_free_mb = 900000000\n{before}")).unwrap();
    let seen = import(&fixture, "bench-3", 3, "third");
    assert!(seen.contains("not enough space"), "{seen}");
    fs::write(&settings, before).unwrap();
    let seen = import(&fixture, "bench-3", 0, "third");
    assert!(
        seen.contains(&format!("parts 2, {parts} were missing or damaged")),
        "{seen}"
    );
    assert_eq!(applied(&fixture, "bench-3"), expected);
}
