//! The fleet's roots that a site passed: what lacks, what is damaged and what does not belong among them is named, and mended as it is said.
//!
//! What comes in: a site that passed two changes of the fleet's keys, and something wrong in its folder `roots`. What goes out: what `status` says.

use std::fs;
use std::path::PathBuf;

use outhaul_test_kit::{Centre, Draft};

use crate::site::{Site, assert_reports, stdout, tree};

const ADVICE: &str = "copy them from the folder `metadata` of the fleet at the centre";
const COST: &str = "an apply helper that has not passed them yet accepts nothing";

struct Fixture {
    centre: Centre,
    site: Site,
}

impl Fixture {
    fn new() -> Self {
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        centre.rotate_online_keys();
        centre.rotate_online_keys();
        site.take(&centre.publish(&Draft::hello("one")));
        Self { centre, site }
    }

    fn root(&self, version: u64) -> PathBuf {
        let name = format!("{version}.root.json");
        self.site.state().join("roots").join(name)
    }

    fn said(&self) -> String {
        stdout(&self.site.run(&["status"]))
    }

    /// As `status` advises it.
    fn copy_from_the_fleet(&self, version: u64) {
        let path = self.root(version);
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir_all(&path);
        let name = path.file_name().unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(self.centre.root().with_file_name(name), &path).unwrap();
    }
}

#[test]
fn a_root_that_lacks_or_is_not_as_signed_is_named_whichever_it_is_and_a_copy_mends_it() {
    let fixture = Fixture::new();
    let clean = fixture.said();
    assert!(!clean.contains("`roots`"), "{clean}");
    let kept = tree(&fixture.site.state().join("roots"));
    assert!(kept.contains_key("2.root.json") && kept.contains_key("3.root.json"));
    let first = fs::read(fixture.centre.root()).unwrap();
    let changed = |version: u64| {
        let mut bytes = kept[&format!("{version}.root.json")].clone();
        let key = b"\"expires\":\"";
        let at = bytes.windows(key.len()).position(|there| there == key);
        // A digit of the year.
        bytes[at.unwrap() + key.len() + 3] ^= 1;
        bytes
    };
    for version in [2, 3] {
        for content in [
            Some(b"junk".to_vec()),
            Some(Vec::new()),
            Some(changed(version)),
            // A root of this fleet under the name of another one.
            Some(first.clone()),
            None,
        ] {
            match content {
                Some(bytes) => fs::write(fixture.root(version), bytes).unwrap(),
                None => fs::remove_file(fixture.root(version)).unwrap(),
            }
            let said = fixture.said();
            let named = format!("not as the fleet signed them: {version}.root.json: an apply");
            for words in [&named, ADVICE, COST] {
                assert!(said.contains(words), "`{words}` is not in: {said}");
            }
            fixture.copy_from_the_fleet(version);
            assert!(!fixture.said().contains("`roots`"));
        }
    }
    fs::remove_dir_all(fixture.site.state().join("roots")).unwrap();
    let both = "not as the fleet signed them: 2.root.json, 3.root.json: an apply helper";
    assert!(fixture.said().contains(both));
    fs::create_dir_all(fixture.root(2)).unwrap();
    assert!(fixture.said().contains(both), "a folder in its place");
    fixture.copy_from_the_fleet(2);
    fixture.copy_from_the_fleet(3);
    assert!(!fixture.said().contains("`roots`"));
    for (name, bytes) in tree(&fixture.site.state().join("roots")) {
        assert!(kept[&name] == bytes, "{name}");
    }
}

#[test]
fn what_has_the_name_of_a_later_root_is_named_and_makes_room_for_the_real_one() {
    let fixture = Fixture::new();
    fs::write(fixture.root(4), "junk").unwrap();
    fs::write(fixture.root(1).with_file_name("notes"), "harmless").unwrap();
    let said = fixture.said();
    let words = "roots that this site has not passed: 4.root.json";
    assert!(
        said.contains(words) && said.contains("remove 4.root.json from"),
        "{said}"
    );
    assert!(!said.contains("notes"), "{said}");
    // The real one takes its place.
    fixture.centre.rotate_online_keys();
    fixture
        .site
        .take(&fixture.centre.publish(&Draft::hello("two")));
    assert!(!fixture.said().contains("`roots`"), "{}", fixture.said());
    assert_ne!(fs::read(fixture.root(4)).unwrap(), b"junk");
    // A folder there keeps no bundle out, and is named.
    fs::create_dir(fixture.root(5)).unwrap();
    fixture.centre.rotate_online_keys();
    let third = fixture.centre.publish(&Draft::hello("three"));
    let taken = fixture.site.import(&third);
    assert_reports(&taken, 0, &["a folder is in its place in `roots`"]);
    assert_eq!(fixture.site.active(), Some(3));
    assert!(fixture.said().contains("5.root.json"));
}
