//! Bundles that must not be accepted: each refused with its exit code, reported, and without a trace.

use std::fs;
use std::path::Path;

use outhaul_test_kit::{Centre, Draft};

use crate::site::{Site, assert_reports, code, stderr};
use crate::web::beside;

/// A site on which bundle 1 runs.
fn running(centre: &Centre) -> Site {
    let site = Site::new(centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("hi")));
    site
}

#[track_caller]
fn assert_refused(site: &Site, bundle: &Path, words: &[&str]) {
    let before = site.kept();
    let output = site.import(bundle);
    assert_reports(
        &output,
        4,
        &[&["refused, nothing was changed", "help:"], words].concat(),
    );
    assert!(
        site.kept() == before,
        "a refused bundle left something on disk"
    );
    assert_eq!(site.active(), Some(1));
}

#[test]
fn a_flipped_bit_anywhere_is_refused_and_changes_nothing() {
    let centre = Centre::new();
    let site = running(&centre);
    let bundle = centre.publish(&Draft::hello("changed"));
    let good = fs::read(&bundle).unwrap();
    let text = |needle: &[u8]| {
        good.windows(needle.len())
            .position(|w| w == needle)
            .unwrap()
    };
    let blob = text(b"blobs/sha256/");
    let places = [
        ("a signature", text(b"\"sig\"") + 10),
        ("the timestamp", text(b"metadata/timestamp.json") + 600),
        ("the index", text(b"outhaul.dev/bundle/v1") + 2),
        (
            "the index's last part",
            blob - 40
                - good[..blob]
                    .iter()
                    .rev()
                    .skip(40)
                    .position(|b| *b == b'}')
                    .unwrap(),
        ),
        ("a tar header", blob + 130),
        ("a pack", blob + 512 + 20),
        ("a large blob", good.len() - 1024 - 600),
        ("the end of the archive", good.len() - 10),
    ];
    let before = site.kept();
    for (what, at) in places {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let output = site.import(&beside(&bundle, "flipped.outhaul", &bytes));
        assert_eq!(code(&output), 4, "{what}: {}", stderr(&output));
        assert!(site.kept() == before, "{what} left something on disk");
    }
    assert_eq!(site.active(), Some(1));
    let printed = site.event_log();
    let refusals = printed
        .iter()
        .filter(|line| line.starts_with("refusal"))
        .count();
    assert_eq!(refusals, places.len(), "{printed:?}");
    // The good copy is none the worse for it.
    site.take(&bundle);
}

#[test]
fn a_bundle_of_another_fleet_is_refused() {
    let (centre, foreign) = (Centre::new(), Centre::new());
    let site = running(&centre);
    assert_refused(
        &site,
        &foreign.publish(&Draft::hello("from a stranger")),
        &["nothing was changed"],
    );
}

#[test]
fn what_to_do_about_a_refused_bundle_without_a_number_is_the_next_step_until_one_is_taken() {
    let (centre, foreign) = (Centre::new(), Centre::new());
    let second = centre.publish(&Draft::hello("two"));
    let whole = fs::read(&second).unwrap();
    let short = beside(&second, "short.outhaul", &whole[..whole.len() / 2]);
    let stranger = foreign.publish(&Draft::hello("from a stranger"));
    let cut = beside(&second, "cut.outhaul", &whole[..700]);
    let words = [
        (&stranger, "made for this site"),
        (&short, "copy it again"),
        (&cut, "copy it again"),
    ];
    for (path, words) in words {
        let site = Site::new(&centre, "drone-7");
        assert_eq!(code(&site.import(path)), 4);
        let next = site.status()["next"].to_string();
        assert!(next.contains(words), "{}: {next}", path.display());
        site.take(&second);
        let next = site.status()["next"].to_string();
        assert!(!next.contains("was refused"), "{next}");
    }
}

#[test]
fn an_older_number_is_refused_as_rollback() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let first = centre.publish(&Draft::hello("one"));
    let second = centre.publish(&Draft::hello("two"));
    site.take(&second);
    let before = site.kept();
    assert_reports(
        &site.import(&first),
        4,
        &["refused", "outhaul-agent rollback"],
    );
    assert!(site.kept() == before);
    assert_eq!(site.active(), Some(2));
    assert_eq!(site.event_log().last().unwrap(), "refusal rollback");
}

#[test]
fn a_bundle_of_another_stream_is_refused_and_says_for_whom_it_is() {
    let centre = Centre::new();
    let site = running(&centre);
    let bundle = centre.publish(&Draft::hello("hi").cluster_type("tractor"));
    assert_refused(&site, &bundle, &["dev/tractor"]);
}

#[test]
fn a_bundle_for_another_site_is_refused_by_name() {
    let centre = Centre::new();
    let site = running(&centre);
    let bundle = centre.publish(&Draft::hello("hello").only_for("drone-8"));
    assert_refused(&site, &bundle, &["drone-8", "this site is drone-7"]);
    let own = centre.publish(&Draft::hello("hello").only_for("drone-7"));
    site.take(&own);
}

#[test]
fn a_truncated_bundle_is_refused_wherever_it_ends() {
    let centre = Centre::new();
    let site = running(&centre);
    let bundle = centre.publish(&Draft::hello("changed"));
    let good = fs::read(&bundle).unwrap();
    let before = site.kept();
    for length in [
        0,
        100,
        512,
        5_000,
        good.len() / 2,
        good.len() - 1025,
        good.len() - 1,
    ] {
        let output = site.import(&beside(&bundle, "torn.outhaul", &good[..length]));
        assert!(
            [3, 4].contains(&code(&output)),
            "{length}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains("torn.outhaul"),
            "{length}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains("help:"),
            "{length}: {}",
            stderr(&output)
        );
        assert!(
            site.kept() == before,
            "{length} bytes left something on disk"
        );
    }
    site.take(&bundle);
}

#[test]
fn something_that_is_no_bundle_is_refused() {
    let centre = Centre::new();
    let site = running(&centre);
    let folder = centre.folder();
    for bytes in [&b"\0\0\0\0"[..], b"PK\x03\x04 a zip", &[0xff; 4096]] {
        let path = folder.join("strange.outhaul");
        fs::write(&path, bytes).unwrap();
        assert_refused(&site, &path, &["strange.outhaul"]);
    }
}

#[test]
fn an_old_database_put_back_does_not_let_an_older_bundle_in() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let first = centre.publish(&Draft::hello("one"));
    site.take(&first);
    let second = centre.publish(&Draft::hello("two"));
    let (database, newest) = (
        site.state().join("agent.db"),
        centre.publish(&Draft::hello("three")),
    );
    let old = fs::read(&database).unwrap();
    site.take(&newest);
    site.take(&centre.publish(&Draft::hello("four")));
    fs::write(&database, old).unwrap();
    // It knows fewer reports than were made.
    assert_reports(&site.import(&second), 3, &["is an older copy"]);
    // As beside the database of an earlier agent, which does not count them: the floors keep older bundles out.
    fs::remove_file(site.state().join("site.json")).unwrap();
    let output = site.import(&second);
    assert!([3, 4].contains(&code(&output)), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("floors.json"),
        "{}",
        stderr(&output)
    );
    // What runs goes on running, and `status` says what is wrong.
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: four\n");
    assert!(
        site.status()["trouble"]
            .as_str()
            .unwrap()
            .contains("floors.json")
    );
}
