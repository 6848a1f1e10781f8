//! The carrier's list with the real program: what it prints, and what it refuses.

use std::fs;

use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_test_kit::plain::NEW;

use crate::gate_rules::{report, world};
use crate::program::{code, stderr};

#[test]
fn the_list_names_the_bundle_the_sites_and_what_comes_back() {
    let (hub, centre, mut sites) = world(&["drone-1", "drone-2", "drone-3"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let stream = centre.stream("dev", "drone");
    let file = hub.path("2.outhaul");
    fs::write(&file, centre.bundle(&stream, 2, NEW)).unwrap();
    hub.json(&["import", file.to_str().unwrap()]);
    let output = hub.run(&["carry", "--site", "drone-1"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "dev/drone bundle 2 for 1 site, valid until 2",
        "outhaul copy --fleet FLEET --environment dev --cluster-type drone --to STICK --since 1\n",
        "outhaul-hub acks STICK\n",
        "drone-1  dev/drone  behind  bundle 2  1     just now   reports after 1\n",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    // Two that never reported need all of it.
    let list = hub.json(&["carry", "--environment", "dev"]);
    assert_eq!(list["stops"].as_array().unwrap().len(), 3);
    assert_eq!(list["bundles"][0]["sites"], 3);
    assert_eq!(list["bundles"][0]["since"], serde_json::json!([]));
}

#[test]
fn a_name_that_no_site_and_no_environment_has_is_refused_with_the_nearest() {
    let (hub, ..) = world(&["drone-1"]);
    for (arguments, parts) in [
        (
            ["carry", "--site", "drone-l"],
            ["no site `drone-l` is registered", "did you mean `drone-1`?"],
        ),
        (
            ["carry", "--environment", "dve"],
            ["knows no environment `dve`", "did you mean `dev`?"],
        ),
    ] {
        let output = hub.run(&arguments);
        let text = stderr(&output);
        assert_eq!(code(&output), 2, "{text}");
        for part in parts {
            assert!(text.contains(part), "`{part}` is not in:\n{text}");
        }
        assert!(output.stdout.is_empty());
    }
}
