//! New keys by order: what was sealed for the old one is opened as long as something needs it, and the
//! old one is forgotten after that.

use std::fs;

use outhaul_bundle::Instruction;
use outhaul_seal::marker::seal_value;
use outhaul_test_kit::{Centre, Draft, Load};

use crate::orders::{request, running};
use crate::site::{Site, assert_reports, code, stderr, stdout};

/// `hello` with a value that is sealed for the public key `key`.
pub fn sealed(centre: &Centre, value: &str, key: &str) -> Draft {
    let bound = format!("{}/dev/hello/PASSWORD", centre.fleet.id());
    let marker = seal_value(value, &[key.parse().unwrap()], &bound.parse().unwrap()).unwrap();
    Draft::new([Load::new("hello").file("manifest.yaml", format!("password: {marker}\n"))])
}

pub fn seal_key(site: &Site) -> String {
    request(site).unwrap().0.seal_key
}

/// Names of the keys that open what is sealed; ids of former ones left out.
fn keys(site: &Site) -> Vec<String> {
    let folder = fs::read_dir(site.state().join("identities")).unwrap();
    let mut names: Vec<_> = folder
        .map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.split('-').next().unwrap().to_owned()
        })
        .collect();
    names.sort();
    names
}

fn password(site: &Site) -> String {
    String::from_utf8(site.applied()["hello/manifest.yaml"].clone()).unwrap()
}

#[test]
fn the_old_key_opens_what_is_sealed_for_it_until_nothing_on_disk_needs_it() {
    let centre = Centre::new();
    let site = running(&centre);
    let old = seal_key(&site);
    let rekey = sealed(&centre, "two", &old).order("drone-7", 1, Instruction::Rekey);
    site.take(&centre.publish(&rekey));
    let new = seal_key(&site);
    assert_ne!(new, old);
    assert_eq!(password(&site), "password: \"two\"\n");
    assert_eq!(keys(&site), ["before", "site.age"]);
    // The centre still seals for the old one.
    site.take(&centre.publish(&sealed(&centre, "three", &old)));
    site.take(&centre.publish(&sealed(&centre, "four", &new)));
    assert_eq!(password(&site), "password: \"four\"\n");
    assert_eq!(
        keys(&site),
        ["before", "site.age"],
        "bundle 3 may come back"
    );
    let back = site.copy();
    back.ok(&["rollback"]);
    assert_eq!(password(&back), "password: \"three\"\n");

    site.take(&centre.publish(&sealed(&centre, "five", &new)));
    assert_eq!(keys(&site), ["site.age"]);
    let late = centre.publish(&sealed(&centre, "six", &old));
    let output = site.import(&late);
    assert_reports(&output, 1, &["what was active before is active again"]);
    let printed = stdout(&output);
    assert!(
        printed.contains("hello/manifest.yaml") && printed.contains("sealed for others"),
        "{printed}"
    );
    assert_eq!(password(&site), "password: \"five\"\n");
    assert_eq!(site.active(), Some(5));
    assert_eq!(seal_key(&site), new);
}

#[test]
fn a_bundle_without_anything_sealed_forgets_no_key() {
    let centre = Centre::new();
    let site = running(&centre);
    let old = seal_key(&site);
    let rekey = Draft::hello("two").order("drone-7", 1, Instruction::Rekey);
    site.take(&centre.publish(&rekey));
    site.take(&centre.publish(&Draft::hello("three")));
    site.take(&centre.publish(&Draft::hello("four")));
    assert_eq!(keys(&site), ["before", "site.age"]);
    site.take(&centre.publish(&sealed(&centre, "five", &old)));
    assert_eq!(password(&site), "password: \"five\"\n");
}

#[test]
fn a_bundle_that_waits_through_a_new_key_is_opened_when_it_is_let_in() {
    let centre = Centre::new();
    let site = running(&centre);
    let old = seal_key(&site);
    site.ok(&["hold", "--why", "harvest"]);
    let rekey = sealed(&centre, "two", &old).order("drone-7", 1, Instruction::Rekey);
    site.ok(&["import", centre.publish(&rekey).to_str().unwrap()]);
    assert_eq!(site.state_of(2), "gated");
    assert_ne!(seal_key(&site), old);
    site.ok(&["hold", "--release"]);
    let output = site.run(&["run", "--once"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(site.active(), Some(2));
    assert_eq!(password(&site), "password: \"two\"\n");
}

#[test]
fn two_new_keys_in_a_row_lose_none() {
    let centre = Centre::new();
    let site = running(&centre);
    let first = seal_key(&site);
    for (number, greeting) in [(1, "two"), (2, "three")] {
        let draft = Draft::hello(greeting).order("drone-7", number, Instruction::Rekey);
        site.take(&centre.publish(&draft));
    }
    assert_eq!(keys(&site), ["before", "before", "site.age"]);
    site.take(&centre.publish(&sealed(&centre, "four", &first)));
    assert_eq!(password(&site), "password: \"four\"\n");
}

#[test]
fn a_site_that_comes_back_after_a_revocation_has_a_new_key_for_what_is_sealed() {
    let centre = Centre::new();
    let site = running(&centre);
    let old = seal_key(&site);
    let revoke = Draft::hello("two").order("drone-7", 1, Instruction::Revoke);
    site.ok(&["import", centre.publish(&revoke).to_str().unwrap()]);
    let kit = centre.kit_with("drone-7", "a second token", |_| ());
    let enrolled = site.ok(&["enrol", kit.to_str().unwrap()]);
    let new = seal_key(&site);
    assert_ne!(new, old);
    assert_eq!(enrolled["seal_key"], new.as_str(), "{enrolled}");
}
