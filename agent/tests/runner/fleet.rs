//! Rancher Fleet on site, a real one: what it deploys of a bundle, what it says, and what is in its way.
//!
//! What comes in: bundles that a real fleet signed, and `OUTHAUL_FLEET`, without which the tests are skipped. What goes out: what
//! Fleet made, what the agent said of it, and what it reports.

use std::time::{Duration, Instant};

use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::fleet::{Fleet as Controller, NAMESPACE};
use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use serde_json::{Value, json};

use crate::flux::{newest, said};
use crate::reconciler_fleet::{Fleet, map};
use crate::reconcilers::Fixture as _;
use crate::site::{Site, assert_reports, code, stderr, stdout};

/// A site that waits `wait_s` seconds.
fn site_of(fleet: &mut Fleet, wait_s: u64) -> (Centre, Site) {
    fleet.clean();
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure(&format!("{}wait_s = {wait_s}\n", fleet.settings()));
    (centre, site)
}

fn draft(loads: Vec<Load>) -> Draft {
    Draft::new(loads).reconciler("fleet")
}

fn thing(fleet: &Fleet, content: &str, correct: bool, wait_s: u64) -> Load {
    fleet.made_of("a", &[("thing.yaml", map("a", content))], correct, wait_s)
}

/// Looks until `is_so`: Fleet notices some seconds later what someone changed.
#[track_caller]
fn look_until(site: &Site, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        assert_eq!(code(&site.run(&["run", "--once"])), 0);
        let status = site.status()["assignments"][0].clone();
        if is_so(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "{status}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn what_somebody_changes_in_what_fleet_made_is_reported_in_its_words_or_put_back_by_it() {
    let Some(mut fleet) = Fleet::new() else {
        return;
    };
    let (centre, site) = site_of(&mut fleet, 120);
    site.take(&centre.publish(&draft(vec![thing(&fleet, "one", false, 120)])));
    let steps = newest(&site, 1);
    let printed = said(&steps, "Bundle");
    assert!(
        printed.starts_with("with the 1 files of the workload"),
        "{printed}"
    );
    assert!(printed.contains("1/1 ready; release "), "{printed}");
    let spoil = || {
        let spoilt = json!({"data": {"content": "spoilt"}});
        fleet
            .server()
            .patch(&fleet.thing("a"), "someone", &spoilt)
            .unwrap();
    };
    spoil();
    let status = look_until(&site, |status| status["status"] == "drifted");
    let printed = status.to_string();
    assert!(
        printed.contains("configmap.v1 scenario-1/a modified"),
        "{printed}"
    );
    assert_eq!(fleet.content("a").as_deref(), Some("spoilt"));

    // A newer bundle is not to blame for it, and lets Fleet put it back.
    site.take(&centre.publish(&draft(vec![thing(&fleet, "one", true, 120)])));
    look_until(&site, |status| {
        status["status"] == "compliant" && fleet.content("a").as_deref() == Some("one")
    });
    spoil();
    look_until(&site, |_| fleet.content("a").as_deref() == Some("one"));

    let pause = json!({"spec": {"paused": true}});
    fleet
        .server()
        .patch(&fleet.path_of("a"), "someone", &pause)
        .unwrap();
    let status = look_until(&site, |status| status["status"] == "drifted");
    let printed = status.to_string();
    assert!(
        printed.contains("it was changed: .spec.paused"),
        "{printed}"
    );
}

#[test]
fn what_fleet_refuses_is_reported_word_for_word_and_the_bundle_before_is_there_again() {
    let Some(mut fleet) = Fleet::new() else {
        return;
    };
    let (centre, site) = site_of(&mut fleet, 60);
    site.take(&centre.publish(&draft(vec![thing(&fleet, "one", true, 60)])));
    let wrong = [("thing.yaml", map("Not_A_Name", "never"))];
    let broken = draft(vec![fleet.made_of("a", &wrong, true, 10)]);
    let refused = site.import(&centre.publish(&broken));
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    let printed = stdout(&refused);
    assert!(
        printed.contains("not ready after 10 s: `Bundle.fleet.cattle.io")
            && printed.contains("Not_A_Name"),
        "{printed}"
    );
    assert_eq!(site.active(), Some(1));
    assert_eq!(fleet.content("a").as_deref(), Some("one"));

    // What only Fleet's reader of git understands is not left out in silence.
    let files = [
        ("fleet.yaml", "namespace: x\n".to_owned()),
        ("thing.yaml", map("a", "two")),
    ];
    let options = draft(vec![fleet.made_of("a", &files, true, 10)]);
    let refused = site.import(&centre.publish(&options));
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    assert!(
        stdout(&refused).contains("the workload has a `fleet.yaml`"),
        "{}",
        stdout(&refused)
    );
    assert_eq!(fleet.content("a").as_deref(), Some("one"));
}

#[test]
fn a_fleet_that_does_not_answer_is_named_and_the_work_goes_on_when_it_is_back() {
    let Some(mut fleet) = Fleet::new() else {
        return;
    };
    let (centre, site) = site_of(&mut fleet, 5);
    let other = |fleet: &Fleet| fleet.made_of("b", &[("thing.yaml", map("b", "one"))], true, 60);
    site.take(&centre.publish(&draft(vec![thing(&fleet, "one", true, 60), other(&fleet)])));
    fleet.controller.stop();
    let changed = draft(vec![thing(&fleet, "two", true, 5), other(&fleet)]);
    let blocked = site.import(&centre.publish(&changed));
    let words = [
        "Fleet does not answer: `Bundle.fleet.cattle.io fleet-local/",
        "no controller of Fleet has processed it yet",
        "help: `kubectl get pods --all-namespaces --selector 'app in (fleet-controller, fleet-agent)'`",
    ];
    assert_reports(&blocked, 3, &words);
    assert_eq!(fleet.content("a").as_deref(), Some("one"));
    fleet.controller.go_on().unwrap();
    let applied = go_on(&site);
    assert_eq!(site.active(), Some(2), "{applied}");
    assert_eq!(fleet.content("a").as_deref(), Some("two"));
}

/// Until the programs are up again: each try waits for five seconds.
fn go_on(site: &Site) -> String {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let applied = site.run(&["apply"]);
        if code(&applied) == 0 || Instant::now() > deadline {
            return stderr(&applied);
        }
    }
}

#[test]
fn a_cluster_without_fleet_and_a_bundle_for_no_cluster_are_named() {
    let Some(programs) = Controller::available_or_skip() else {
        return;
    };
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let Some(server) = ApiServer::start_or_skip(&site.folder.path().join("server")) else {
        return;
    };
    let server = server.unwrap();
    site.configure(&format!(
        "[kubernetes]\nkubeconfig = \"{}\"\nwait_s = 2\n",
        server.kubeconfig(ADMIN).display()
    ));
    let namespace = json!({"metadata": {"name": NAMESPACE}});
    server.create("/api/v1/namespaces", &namespace).unwrap();
    let bundle = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle",
        "metadata": {"name": "a", "namespace": NAMESPACE}, "spec": {"targets": [{"clusterName": "nowhere"}]},
    });
    let load = Load::new("a")
        .file("reconciler.yaml", bundle.to_string())
        .payload("thing.yaml", map("a", "one"));
    let bundle = centre.publish(&draft(vec![load]));
    let words = [
        "this cluster has no Fleet that knows `Bundle`: its API has no `fleet.cattle.io` with it",
        "help: install Fleet",
    ];
    assert_reports(&site.import(&bundle), 3, &words);
    // Its kinds are there, and nobody who looks at them.
    Controller::define(&programs, &server).unwrap();
    assert_reports(
        &site.import(&bundle),
        3,
        &["Fleet does not answer: `Bundle"],
    );
}
