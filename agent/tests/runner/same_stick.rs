//! The same stick or file imported again: it ends as it did before, and says that there is nothing new.

use std::fs;

use outhaul_test_kit::{Centre, Draft};

use crate::site::{Site, assert_reports, code, stdout};

#[test]
fn the_active_bundle_brought_again_after_a_newer_slip_is_nothing_new_and_no_refusal() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let one = centre.publish(&Draft::hello("one"));
    site.take(&one);
    let stick = tempfile::tempdir().unwrap();
    fs::copy(&one, stick.path().join("one.outhaul")).unwrap();
    fs::copy(centre.slip("drone"), stick.path().join("drone.slip")).unwrap();
    let known = "bundle 1 is already active; nothing was applied";
    for new in ["floors raised", "known already"] {
        let printed = site.import(stick.path());
        assert_eq!(code(&printed), 0, "{printed:?}");
        let said = stdout(&printed);
        assert!(said.contains(new) && said.contains(known), "{said}");
        let printed = site.import(&one);
        assert_eq!(code(&printed), 0, "{printed:?}");
        assert!(stdout(&printed).contains(known), "{printed:?}");
    }
    // An older one is refused all the same.
    site.take(&centre.publish(&Draft::hello("two")));
    assert_reports(&site.import(&one), 4, &["this site has accepted"]);
}

#[test]
fn a_damaged_bundle_of_unknown_number_is_the_same_exit_code_each_time() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let stick = tempfile::tempdir().unwrap();
    let one = centre.publish(&Draft::hello("one"));
    fs::copy(&one, stick.path().join("one.outhaul")).unwrap();
    let two = fs::read(centre.publish(&Draft::hello("two"))).unwrap();
    fs::write(stick.path().join("two.outhaul"), &two[..3000]).unwrap();
    for first in ["bundle 1 is active", "bundle 1 is already active"] {
        let printed = site.import(stick.path());
        let words = ["`two.outhaul` is refused", "may be newer than bundle 1"];
        assert_reports(&printed, 1, &words);
        assert!(stdout(&printed).starts_with(first), "{printed:?}");
    }
}
