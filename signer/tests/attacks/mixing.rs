//! Parts that do not belong together, and bundles for someone else.

use outhaul_signer::metadata;
use outhaul_signer::trust::walk::Walk;
use outhaul_test_kit::bent::{Centre, OTHER, ROLE, Site, stream};

use super::site_with;

#[test]
fn mix_and_match_of_an_old_stream_with_a_new_snapshot() {
    let mut centre = Centre::new();
    let old = centre.files[&format!("1.{ROLE}.json")].clone();
    let site = site_with(&centre);
    centre.next(b"two");
    let mut files = centre.bundle(ROLE);
    files.insert(format!("2.{ROLE}.json"), old);
    site.refuse(&files, "mix-and-match");
}

#[test]
fn mix_and_match_of_two_contents_of_one_number() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    // The thief has the stream's key, and not the snapshot's.
    let evil = metadata::sign(&stream(ROLE, 1, b"evil"), &[&centre.stream_keys[0]]).unwrap();
    centre.files.insert(format!("1.{ROLE}.json"), evil);
    site.refuse(&centre.bundle(ROLE), "mix-and-match");
}

#[test]
fn mix_and_match_of_an_old_snapshot_with_a_new_timestamp() {
    let mut centre = Centre::new();
    let old = centre.files["1.snapshot.json"].clone();
    let site = site_with(&centre);
    centre.next(b"two");
    let mut files = centre.bundle(ROLE);
    files.insert("2.snapshot.json".into(), old);
    site.refuse(&files, "mix-and-match");
}

#[test]
fn wrong_recipient_s_bundle() {
    let centre = Centre::new();
    let refusal = Site::enrolled(&centre).refuse(&centre.bundle(OTHER), "stream");
    assert!(refusal.to_string().contains(ROLE), "{refusal}");
}

#[test]
fn wrong_role_that_the_fleet_no_longer_has() {
    let mut centre = Centre::new();
    let site = site_with(&centre);
    centre.targets.delegations.as_mut().unwrap().roles.remove(0);
    centre.publish_targets();
    centre.publish_snapshot();
    site.refuse(&centre.files, "stream");
}

#[test]
fn a_stream_vouches_for_a_target_outside_its_paths() {
    let mut centre = Centre::new();
    let site = site_with(&centre);
    centre.targets.delegations.as_mut().unwrap().roles[0].paths = vec![format!("{OTHER}/*")];
    centre.publish_targets();
    centre.publish();
    site.refuse(&centre.bundle(ROLE), "stream");
}

#[test]
fn a_stream_vouches_for_more_than_its_index() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let own = centre.streams.get_mut(ROLE).unwrap();
    let target = own.targets[&format!("{ROLE}/index.json")].clone();
    own.targets.insert(format!("{ROLE}/second.json"), target);
    centre.publish();
    site.refuse(&centre.bundle(ROLE), "malformed");
}

#[test]
fn a_number_that_is_not_the_role_s_version() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let own = centre.streams.get_mut(ROLE).unwrap();
    own.targets.values_mut().next().unwrap().custom["number"] = 7.into();
    centre.publish();
    site.refuse(&centre.bundle(ROLE), "malformed");
}

#[test]
fn one_role_s_file_in_the_place_of_another() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    let mut files = centre.bundle(ROLE);
    files.insert("timestamp.json".into(), files["1.snapshot.json"].clone());
    site.refuse(&files, "malformed");
}

#[test]
fn a_target_behind_a_terminating_delegation_that_does_not_have_it() {
    let mut centre = Centre::new();
    let path = format!("{OTHER}/index.json");
    let find = |centre: &Centre| {
        let mut walk = Walk::from_root(&centre.files["1.root.json"]).unwrap();
        walk.update_root(&centre.files, &mut |_| {}).unwrap();
        walk.refresh(&centre.files).unwrap();
        walk.target(&centre.files, &path).unwrap()
    };
    assert!(find(&centre).is_some());
    // The first role now claims the second's names, and ends the search there.
    let claimed = vec![format!("{OTHER}/*")];
    centre.targets.delegations.as_mut().unwrap().roles[0]
        .paths
        .clone_from(&claimed);
    centre.publish_targets();
    centre.publish();
    assert!(find(&centre).is_none());
    centre.targets.delegations.as_mut().unwrap().roles[0].terminating = false;
    centre.publish_targets();
    centre.publish();
    assert!(find(&centre).is_some());
}

#[test]
fn another_stream_s_damaged_role_does_not_concern_this_site() {
    let mut centre = Centre::new();
    centre
        .files
        .insert(format!("1.{OTHER}.json"), b"damaged".to_vec());
    Site::enrolled(&centre).check(&centre.files).unwrap();
}
