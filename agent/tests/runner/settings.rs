//! `agent.toml` that is changed, broken or not there while the service runs, and files beside the database that others changed.

use std::fs;
use std::os::unix::fs::symlink;

use outhaul_test_kit::{Centre, Draft};

use crate::service::Service;
use crate::site::{Site, assert_reports, stdout};

#[test]
fn status_says_what_the_service_follows_where_agent_toml_was_changed_since() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let mut service = Service::start(&site);
    let kinds = || site.status()["attention"].to_string();
    assert!(!kinds().contains("settings"), "{}", kinds());
    site.configure("approval = \"always\"\n");
    assert!(kinds().contains("\"settings\""), "{}", kinds());
    let printed = stdout(&site.run(&["status"]));
    assert!(
        printed.contains("the service goes on with what it read then"),
        "{printed}"
    );
    assert!(
        printed.contains("`systemctl restart outhaul-agent`"),
        "{printed}"
    );
    // Broken, it keeps commands from working, and not the service.
    site.configure("drift_s = \"often\"\n");
    let status = site.run(&["status"]);
    assert_reports(&status, 2, &["agent.toml:1:11"]);
    let printed = stdout(&status);
    assert!(
        printed.contains("the service runs, and goes on with the settings"),
        "{printed}"
    );
    assert!(service.terminate().success());
    let printed = stdout(&site.run(&["status"]));
    assert!(printed.contains("nothing new is installed"), "{printed}");
    // What it is started with again is what it follows.
    site.configure("approval = \"always\"\n");
    let _service = Service::start(&site);
    assert!(!kinds().contains("settings"), "{}", kinds());
}

#[test]
fn a_running_service_is_told_apart_from_its_next_start_whatever_of_the_state_folder_is_broken() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let mut service = Service::start(&site);
    let [key, settings] = ["site.key", "agent.toml"].map(|name| site.state().join(name));
    let aside = site.folder.path().join("aside");
    fs::rename(&key, &aside).unwrap();
    let fifo = |path: &std::path::Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    };
    let says = |words: &str, exit: i32| {
        let status = site.run(&["status"]);
        assert_reports(&status, exit, &["help: "]);
        let printed = stdout(&status);
        let goes_on = "the service runs, and goes on with the settings and the key that it read when it started; until this is fixed no command \
                       works, and the service does not start again";
        assert!(printed.contains(goes_on), "{words}: {printed}");
        assert!(
            !printed.contains("nothing new is installed"),
            "{words}: {printed}"
        );
        let json = stdout(&site.run(&["status", "--output", "json"]));
        assert!(
            json.contains("\"service\": true") || json.contains("\"service\":true"),
            "{words}: {json}"
        );
    };
    says("no key", 3);
    fifo(&key);
    says("a FIFO for the key", 3);
    fs::remove_file(&key).unwrap();
    fs::rename(&aside, &key).unwrap();
    fifo(&settings);
    says("a FIFO for the settings", 3);
    fs::remove_file(&settings).unwrap();
    site.configure("[[[");
    says("broken settings", 2);
    // It works meanwhile: what it is asked for when all is well again has its reports signed.
    fs::remove_file(&settings).unwrap();
    site.take(&centre.publish(&Draft::hello("two")));
    assert!(service.terminate().success());
    // Without a service nothing works, and that is what is said.
    fs::rename(&key, &aside).unwrap();
    let printed = stdout(&site.run(&["status"]));
    assert!(
        printed.contains("nothing new is installed and no report is written until this is fixed"),
        "{printed}"
    );
}

#[test]
fn the_target_that_a_running_service_follows_is_not_called_removed_and_what_a_restart_does_is_said()
{
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let mut service = Service::start(&site);
    let (old, new) = (site.state().join("applied"), site.folder.path().join("new"));
    fs::create_dir(&new).unwrap();
    site.configure(&format!("[folder]\ntarget = {new:?}\n"));
    let sentence = format!(
        "the service still writes to `{}`, though `target` in agent.toml is `{}` now",
        old.display(),
        new.display()
    );
    let printed = stdout(&site.run(&["status"]));
    for words in [sentence.as_str(), "remove it again", "hello: as desired"] {
        assert!(printed.contains(words), "{printed}");
    }
    for never in [
        "it is missing",
        "remove them",
        "is no longer the target",
        "differs from bundle",
    ] {
        assert!(!printed.contains(never), "{never}: {printed}");
    }
    let two = centre.publish(&Draft::hello("two"));
    let planned = site.run(&["plan", two.to_str().unwrap()]);
    assert_reports(&planned, 0, &[&sentence, "this plan is for the former"]);
    // It does.
    site.take(&two);
    assert_eq!(
        fs::read(old.join("hello/manifest.yaml")).unwrap(),
        b"greeting: two\n"
    );
    assert!(!new.join("hello").exists());
    // As advised, where it was meant.
    assert!(service.terminate().success());
    let mut service = Service::start(&site);
    let printed = stdout(&site.run(&["status"]));
    assert!(
        printed.contains("differs from bundle 2") && printed.contains("`outhaul-agent apply`"),
        "{printed}"
    );
    site.ok(&["apply"]);
    assert_eq!(
        fs::read(new.join("hello/manifest.yaml")).unwrap(),
        b"greeting: two\n"
    );
    assert!(old.join("hello/manifest.yaml").exists());
    // And back, where it was not.
    fs::remove_file(site.state().join("agent.toml")).unwrap();
    let printed = stdout(&site.run(&["status"]));
    let back = format!("set it to `{}` again", new.display());
    assert!(printed.contains(&back), "{printed}");
    site.configure(&format!("[folder]\ntarget = {new:?}\n"));
    assert!(
        !site.status()["attention"]
            .to_string()
            .contains("\"settings\"")
    );
    assert!(service.terminate().success());
}

#[test]
fn settings_behind_a_link_that_leads_to_nothing_are_not_left_out() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let elsewhere = site.folder.path().join("settings.toml");
    symlink(&elsewhere, site.state().join("agent.toml")).unwrap();
    let two = centre.publish(&Draft::hello("two"));
    let words = [
        "is a link to",
        "settings.toml`, which is not there",
        "in the place of the link",
    ];
    assert_reports(&site.import(&two), 3, &words);
    fs::write(&elsewhere, "approval = \"always\"\n").unwrap();
    let taken = site.ok(&["import", two.to_str().unwrap()]);
    assert_eq!(taken["state"], "gated");
}

#[test]
fn a_running_service_puts_right_what_others_wrote_into_the_copy_of_the_holds() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.ok(&["hold", "--why", "harvest"]);
    let copy = site.state().join("holds.json");
    let right = fs::read(&copy).unwrap();
    let _service = Service::start(&site);
    fs::write(&copy, "{}").unwrap();
    site.ok(&["run", "--once"]);
    assert_eq!(fs::read(&copy).unwrap(), right);
}
