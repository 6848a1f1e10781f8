//! Ansible on the host itself: order, results, going back, packages that travel, and taking them back.
//!
//! Needs `ansible-playbook`; without it these tests say `SKIPPED`, and fail in CI. The package test
//! needs root and dpkg as well: it installs `outhaul-test-hello` on this machine and removes it again.

use std::fs;
use std::path::Path;
use std::process::Command;

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, GenerationState, ReportEvent};
use outhaul_test_kit::{Centre, Draft, Load};

use crate::media::is_root;
use crate::site::{Site, assert_reports, code, stderr, stdout};
use outhaul_tests::{available, available_or_skip, skipped};

/// A centre and a site whose playbooks write into `{{ out }}`; `None` without Ansible.
pub fn with_ansible() -> Option<(Centre, Site)> {
    if !available_or_skip("ansible-playbook") {
        return None;
    }
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let out = site.folder.path().join("out");
    fs::create_dir(&out).unwrap();
    site.configure(&format!(
        "[ansible]\nvars = {{ out = \"{}\" }}\n",
        out.display()
    ));
    Some((centre, site))
}

pub fn playbook(tasks: &str) -> String {
    format!("- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")
}

/// A task that appends a word to `{{ out }}/log`.
fn log(name: &str, word: &str) -> String {
    format!("    - name: {name}\n      ansible.builtin.shell: echo {word} >> {{{{ out }}}}/log\n")
}

/// A task that writes a file.
pub fn write(name: &str, file: &str, content: &str) -> String {
    format!(
        "    - name: {name}\n      ansible.builtin.copy:\n        dest: \"{{{{ out }}}}/{file}\"\n        \
         content: \"{content}\"\n        mode: \"0644\"\n"
    )
}

/// The results of the newest report about `number` in `state`.
pub fn results(site: &Site, number: u64, state: GenerationState) -> Vec<AssignmentResult> {
    let mut found = site
        .reports()
        .into_iter()
        .rev()
        .filter_map(|report| match report.event {
            ReportEvent::Generation(printed)
                if (printed.number, printed.state) == (number, state) =>
            {
                Some(printed)
            }
            _ => None,
        });
    found.next().expect("such a report").assignments
}

#[test]
fn playbooks_run_in_order_and_each_task_is_reported() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let load = Load::new("hello")
        .file(
            "reconciler.yaml",
            playbook(
                &(log("second step", "reconciler")
                    + &write("a file", "f", "{{ outhaul_assignment }}")),
            ),
        )
        .file("namespace.yaml", playbook(&log("first step", "namespace")))
        .payload("greeting.txt", "carried");
    let load = load.file("notes.md", "not a playbook");
    let bundle = centre.publish(&Draft::new([load]).ansible());
    site.take(&bundle);
    let out = site.folder.path().join("out");
    assert_eq!(
        fs::read_to_string(out.join("log")).unwrap(),
        "namespace\nreconciler\n"
    );
    assert_eq!(fs::read_to_string(out.join("f")).unwrap(), "hello");
    let printed = results(&site, 1, GenerationState::Active);
    let steps: Vec<_> = printed[0]
        .steps
        .iter()
        .map(|s| (s.name.as_str(), s.status.as_str()))
        .collect();
    assert_eq!(
        steps,
        [
            ("first step", "changed"),
            ("second step", "changed"),
            ("a file", "changed")
        ]
    );
    // Again: nothing runs.
    site.take(&bundle);
    assert_eq!(
        fs::read_to_string(out.join("log")).unwrap().lines().count(),
        2
    );
}

#[test]
fn a_failing_playbook_goes_back_to_the_bundle_before() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let good = Load::new("hello").file("reconciler.yaml", playbook(&write("set it", "f", "one")));
    site.take(&centre.publish(&Draft::new([good]).ansible()));
    let fails =
        "    - name: the pump answers\n      ansible.builtin.fail:\n        msg: no pressure\n";
    let bad = playbook(&(write("set it", "f", "two") + fails));
    let bundle =
        centre.publish(&Draft::new([Load::new("hello").file("reconciler.yaml", bad)]).ansible());
    let output = site.import(&bundle);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(
        stdout(&output).contains("no pressure"),
        "{}",
        stdout(&output)
    );
    assert_eq!(
        fs::read_to_string(site.folder.path().join("out/f")).unwrap(),
        "one"
    );
    assert_eq!(
        (site.active(), site.state_of(2).as_str()),
        (Some(1), "reverted")
    );
    let printed = results(&site, 2, GenerationState::Failed);
    assert_eq!(printed[0].status, ComplianceStatus::Failed);
    let last = printed[0].steps.last().unwrap();
    assert_eq!(
        (last.name.as_str(), last.status.as_str()),
        ("the pump answers", "failed")
    );
    assert_eq!(site.status()["assignments"][0]["status"], "compliant");
}

#[test]
fn an_assignment_that_leaves_without_remove_yaml_is_reported_as_left_behind() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let load = |name: &str| {
        Load::new(name).file("reconciler.yaml", playbook(&write("write", name, "here")))
    };
    let all = ["one", "two", "three", "four"].map(load);
    site.take(&centre.publish(&Draft::new(all.clone()).ansible()));
    let fewer = all.into_iter().filter(|load| load.name() != "two");
    let taken = site.take(&centre.publish(&Draft::new(fewer).ansible()));
    assert!(
        taken["message"].as_str().unwrap().contains("left behind"),
        "{taken}"
    );
    assert_eq!(site.status()["left_behind"], serde_json::json!(["two"]));
    assert!(
        site.folder.path().join("out/two").exists(),
        "nothing is removed by a pattern"
    );
}

#[test]
fn a_play_in_which_no_host_matched_fails_unless_it_is_for_a_group_that_the_playbook_made() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let draft =
        |text: String| Draft::new([Load::new("hello").file("reconciler.yaml", text)]).ansible();
    let good = playbook(&write("write", "f", "one"));
    site.take(&centre.publish(&draft(good.clone())));
    let nobody = playbook(&write("write", "f", "two")).replace("all", "printers");
    let output = site.import(&centre.publish(&draft(nobody.clone())));
    assert_reports(&output, 1, &[]);
    let words = "play `printers`: no host matched `printers`, so that no task of it was run";
    assert!(stdout(&output).contains(words), "{}", stdout(&output));
    assert_eq!(site.active(), Some(1));
    let group = "    - name: sort\n      ansible.builtin.group_by:\n        key: presses\n";
    let sorted = format!("{}{good}{nobody}", playbook(group));
    site.take(&centre.publish(&draft(sorted)));
    let printed = results(&site, 3, GenerationState::Active);
    let last = printed[0].steps.last().unwrap();
    assert_eq!(
        (last.name.as_str(), last.status.as_str()),
        ("play `printers`", "skipped")
    );
    // Where this site is in none of these groups, the task itself is skipped: an add_host under a false `when`, an empty loop.
    let none = "    - name: printer\n      ansible.builtin.add_host:\n        name: p\n        groups: printers\n";
    for (number, ending) in [(4, "      when: false\n"), (5, "      loop: []\n")] {
        let sorted = format!("{}{nobody}", playbook(&format!("{none}{ending}")));
        site.take(&centre.publish(&draft(sorted)));
        let printed = results(&site, number, GenerationState::Active);
        let last = printed[0].steps.last().unwrap();
        let shown = (last.name.as_str(), last.status.as_str());
        assert_eq!(shown, ("play `printers`", "skipped"), "{ending}");
    }
    // One that runs nothing at all is said to have done nothing.
    site.take(&centre.publish(&draft(playbook("    []\n"))));
    let printed = results(&site, 6, GenerationState::Active);
    assert!(printed[0].message.contains("ran no task"), "{printed:?}");
}

const PACKAGE: &str = "outhaul-test-hello";

/// Removes the test's package however the test ends.
struct Uninstalled;

impl Drop for Uninstalled {
    fn drop(&mut self) {
        let _ = Command::new("dpkg").args(["--purge", PACKAGE]).output();
    }
}

fn installed() -> bool {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${Status}", PACKAGE])
        .output()
        .unwrap();
    output.status.success() && output.stdout.ends_with(b"install ok installed")
}

/// Builds the package as a maintainer would, without a network.
fn build_package(folder: &Path) -> Vec<u8> {
    let root = folder.join("package");
    fs::create_dir_all(root.join("DEBIAN")).unwrap();
    fs::create_dir_all(root.join(format!("usr/share/{PACKAGE}"))).unwrap();
    fs::write(root.join(format!("usr/share/{PACKAGE}/hello")), "hello\n").unwrap();
    let control = format!(
        "Package: {PACKAGE}\nVersion: 1.0\nArchitecture: all\nMaintainer: Tests <tests@example.org>\n\
         Description: made by a test of Outhaul\n"
    );
    fs::write(root.join("DEBIAN/control"), control).unwrap();
    let file = folder.join("hello.deb");
    let mut build = Command::new("dpkg-deb");
    build
        .args(["--root-owner-group", "--build"])
        .arg(&root)
        .arg(&file);
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    fs::read(file).unwrap()
}

#[test]
fn a_package_travels_is_installed_and_leaves_with_its_assignment() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let apt = Command::new("/usr/bin/python3")
        .args(["-c", "import apt"])
        .output();
    if !is_root() || !available("dpkg-deb") || !apt.is_ok_and(|output| output.status.success()) {
        return skipped("installing a package needs root, dpkg-deb and python3-apt");
    }
    let _uninstalled = Uninstalled;
    let deb = build_package(site.folder.path());
    let install = "    - name: install\n      ansible.builtin.apt:\n        \
                   deb: \"{{ outhaul_payload }}/hello.deb\"\n";
    let remove = format!(
        "    - name: remove\n      ansible.builtin.apt:\n        name: {PACKAGE}\n        state: absent\n"
    );
    let package = Load::new("package")
        .file("reconciler.yaml", playbook(install))
        .payload("hello.deb", deb)
        .payload("remove.yaml", playbook(&remove));
    let stays = |name: &str| {
        Load::new(name).file("reconciler.yaml", playbook(&write("write", name, "here")))
    };
    let others = ["a", "b", "c"].map(stays);
    let all = others.clone().into_iter().chain([package]);
    site.take(&centre.publish(&Draft::new(all).ansible()));
    assert!(installed());
    assert!(Path::new(&format!("/usr/share/{PACKAGE}/hello")).exists());
    let taken = site.take(&centre.publish(&Draft::new(others).ansible()));
    assert!(
        taken["message"]
            .as_str()
            .unwrap()
            .contains("removed `package`"),
        "{taken}"
    );
    assert!(!installed());
    assert_eq!(site.status()["left_behind"], serde_json::json!([]));
}

#[test]
fn a_plan_names_a_file_that_only_a_playbook_reads() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let load = |config: &str| {
        Load::new("hello")
            .file("reconciler.yaml", playbook(&log("a step", "x")))
            .file("platform-config.sh", config)
    };
    site.take(&centre.publish(&Draft::new([load("A=1\n")]).ansible()));
    let next = centre.publish(&Draft::new([load("A=2\n")]).ansible());
    let printed = stdout(&site.run(&["plan", next.to_str().unwrap()]));
    assert!(printed.contains("change platform-config.sh"), "{printed}");
}

#[test]
fn after_a_lost_database_what_playbooks_made_is_known_and_removed_again() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let gone = "    - name: take it back\n      ansible.builtin.file:\n        path: \"{{ out }}/f\"\n        state: absent\n";
    let leaves = Load::new("hello")
        .file("reconciler.yaml", playbook(&write("set it", "f", "one")))
        .file("remove.yaml", playbook(gone));
    let stays =
        || Load::new("stays").file("reconciler.yaml", playbook(&write("set it", "g", "one")));
    site.take(&centre.publish(&Draft::new([leaves, stays()]).ansible()));
    let file = site.folder.path().join("out/f");
    assert!(file.exists());
    for name in ["agent.db", "agent.db-wal", "agent.db-shm"] {
        let _ = fs::remove_file(site.state().join(name));
    }
    let kit = centre.kit("drone-7");
    assert_reports(
        &site.run(&["enrol", kit.to_str().unwrap()]),
        0,
        &["known again"],
    );
    let settings = fs::read_to_string(site.state().join("agent.toml")).unwrap();
    site.configure(&format!("max_removal_percent = 100\n{settings}"));
    site.take(&centre.publish(&Draft::new([stays()]).ansible()));
    assert!(!file.exists(), "what its `remove.yaml` takes back is gone");
}

#[test]
fn what_no_playbook_takes_back_is_called_forward_only_before_it_happens() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let load = |content: &str| {
        let set = playbook(&write("set it", "f", content));
        Load::new("hello").file("reconciler.yaml", set)
    };
    let back = playbook("    - ansible.builtin.debug:\n        msg: gone\n");
    let tidy = Load::new("tidy")
        .file("reconciler.yaml", playbook(&write("set it", "g", "x")))
        .file("remove.yaml", back);
    let draft = |content: &str| Draft::new([load(content), tidy.clone()]).ansible();
    let first = centre.publish(&draft("one"));
    let words = "forward only: hello (no `rollback.yaml` or `remove.yaml`: a rollback runs the playbooks of before again";
    let planned = stdout(&site.run(&["plan", first.to_str().unwrap()]));
    assert!(planned.contains(words), "{planned}");
    site.take(&first);
    assert_eq!(site.status()["forward_only"], serde_json::json!(["hello"]));
    let shown = stdout(&site.run(&["status"]));
    assert!(shown.contains(words), "{shown}");
    site.take(&centre.publish(&draft("two")));
    let rolled = site.run(&["rollback", "--who", "ann"]);
    assert_eq!(code(&rolled), 0, "{}", stderr(&rolled));
    let printed = stderr(&rolled);
    assert!(
        printed.starts_with("warning: forward only: hello"),
        "{printed}"
    );
}

#[test]
fn what_a_failing_task_wrote_to_stderr_is_in_its_result() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let task =
        "    - name: calibrate\n      ansible.builtin.shell: echo sensor 4 is dead >&2; exit 3\n";
    let each = "    - name: each\n      ansible.builtin.shell: echo line {{ item }} >&2; exit 1\n      loop: [1, 2]\n      \
                ignore_errors: true\n";
    let load = Load::new("hello").file("reconciler.yaml", playbook(&(each.to_owned() + task)));
    let output = site.import(&centre.publish(&Draft::new([load]).ansible()));
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let printed = results(&site, 1, GenerationState::Failed);
    let said = |name: &str| {
        let step = printed[0].steps.iter().find(|step| step.name == name);
        step.unwrap().message.clone()
    };
    assert_eq!(said("calibrate"), "non-zero return code: sensor 4 is dead");
    assert_eq!(
        said("each"),
        "non-zero return code: line 1 (and 1 more items)"
    );
}
