//! One bundle, different values on each site, and assignments for some sites only.

use outhaul_bundle::digest::Digest;
use outhaul_test_kit::{Centre, Draft, Load};

use crate::site::{Site, stdout};

fn greet() -> Load {
    Load::new("hello")
        .file("manifest.yaml", "run: hello\n")
        .file("platform-config.yaml", "greeting: to all\n")
}

fn config(site: &Site) -> String {
    let applied = site.applied();
    assert_eq!(applied["hello/manifest.yaml"], b"run: hello\n");
    String::from_utf8(applied["hello/platform-config.yaml"].clone()).unwrap()
}

#[test]
fn each_site_applies_its_own_values_and_the_others_those_of_all() {
    let centre = Centre::new();
    let sites = ["drone-1", "drone-2", "drone-3"].map(|name| Site::new(&centre, name));
    let own = greet()
        .own("drone-1", "platform-config.yaml", "greeting: to one\n")
        .own("drone-2", "platform-config.yaml", "greeting: to two\n");
    let bundle = centre.publish(&Draft::new([own]));
    let planned = stdout(&sites[0].run(&["plan", bundle.to_str().unwrap()]));
    assert!(
        planned.contains("hello has values of this site: platform-config.yaml"),
        "{planned}"
    );
    let expected = [
        "greeting: to one\n",
        "greeting: to two\n",
        "greeting: to all\n",
    ];
    for (site, expected) in sites.iter().zip(expected) {
        site.take(&bundle);
        assert_eq!(config(site), expected, "{}", site.name);
    }
    let printed = stdout(&sites[0].run(&["status"]));
    assert!(
        printed.contains("hello: as desired, with values of this site in platform-config.yaml"),
        "{printed}"
    );
    let others = stdout(&sites[2].run(&["status"]));
    assert!(!others.contains("values of this site"), "{others}");
    // What is reported is the version of the values that this site has.
    let version = |at: usize| {
        let status = sites[at].status();
        status["assignments"][0]["config_version"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(version(0), Digest::of(b"drone-1").to_string());
    assert_eq!(version(2), Digest::of(b"hello").to_string());
}

#[test]
fn a_bundle_without_the_overlay_goes_back_to_the_values_of_all() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-1");
    let own = greet()
        .own("drone-1", "platform-config.yaml", "greeting: to one\n")
        .own("drone-2", "only-there.yaml", "a: b\n");
    site.take(&centre.publish(&Draft::new([own])));
    assert_eq!(config(&site), "greeting: to one\n");
    site.take(&centre.publish(&Draft::new([greet()])));
    assert_eq!(config(&site), "greeting: to all\n");
    let more = greet().own("drone-1", "more.yaml", "a: b\n");
    site.take(&centre.publish(&Draft::new([more])));
    assert_eq!(site.applied()["hello/more.yaml"], b"a: b\n");
    site.take(&centre.publish(&Draft::new([greet()])));
    assert!(!site.applied().contains_key("hello/more.yaml"));
}

#[test]
fn somebody_who_changes_the_values_of_a_site_is_noticed() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-1");
    let own = greet().own("drone-1", "platform-config.yaml", "greeting: to one\n");
    site.take(&centre.publish(&Draft::new([own])));
    let file = site.state().join("applied/hello/platform-config.yaml");
    std::fs::write(file, "greeting: to all\n").unwrap();
    site.run(&["run", "--once"]);
    assert_eq!(site.status()["assignments"][0]["status"], "drifted");
}

#[test]
fn a_site_that_is_not_selected_applies_the_rest_and_says_so() {
    let centre = Centre::new();
    let [canary, other] = ["drone-1", "drone-2"].map(|name| Site::new(&centre, name));
    let gauge = || Load::new("gauge").file("manifest.yaml", "run: gauge\n");
    // Enough of them that one that goes is not a removal to wait with.
    let loads = |gauge: Load| {
        let others = ["a", "b", "c"].map(|name| Load::new(name).file("manifest.yaml", "run: it\n"));
        Draft::new(others.into_iter().chain([greet(), gauge]))
    };
    let bundle = centre.publish(&loads(gauge().only(&["drone-1"])));
    let planned = stdout(&other.run(&["plan", bundle.to_str().unwrap()]));
    assert!(planned.contains("add hello"), "{planned}");
    assert!(
        planned.contains("for other sites, not for this one: gauge"),
        "{planned}"
    );
    for site in [&canary, &other] {
        site.take(&bundle);
        assert_eq!(site.applied()["hello/manifest.yaml"], b"run: hello\n");
    }
    assert!(canary.applied().contains_key("gauge/manifest.yaml"));
    assert!(!other.applied().contains_key("gauge/manifest.yaml"));
    let printed = stdout(&other.run(&["status"]));
    assert!(
        printed.contains("gauge: for other sites, not for this one"),
        "{printed}"
    );
    assert_eq!(other.status()["assignments"].as_array().unwrap().len(), 4);
    assert!(canary.status().get("for_others").is_none());
    // What is no longer for a site is removed there, and only there.
    let bundle = centre.publish(&loads(gauge().only(&["drone-2"])));
    let planned = stdout(&canary.run(&["plan", bundle.to_str().unwrap()]));
    assert!(planned.contains("remove gauge"), "{planned}");
    canary.take(&bundle);
    other.take(&bundle);
    assert!(!canary.applied().contains_key("gauge/manifest.yaml"));
    assert!(other.applied().contains_key("gauge/manifest.yaml"));
}
