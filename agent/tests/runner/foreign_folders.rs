//! Folders that are someone else's: no site begins in one, and none of the agent's commands writes to one.
//!
//! What comes in: folders of a fleet, a hub, another site, control planes and repositories. What goes out: a refusal with code 2, and each
//! folder as it was, its rights included.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use outhaul_test_kit::folder::paths;
use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::Checked as _;

use crate::site::{Site, Tree, assert_reports, tree};

/// Folders of all owners, each with a new name in it, and what is said of both.
struct Foreign {
    folder: tempfile::TempDir,
}

const FOREIGN: [(&str, &str); 7] = [
    ("fleet", "in the folder of a fleet's keys, `"),
    ("hub", "in the state folder of a hub, `"),
    ("plane", "in the control plane in `"),
    ("branch", "in the control plane in `"),
    ("bare", "in the repository `"),
    ("clone/.git", "in the `.git` folder of a repository"),
    ("link", "in the folder of a fleet's keys, `"),
];

impl Foreign {
    fn new() -> Self {
        let made = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let object = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ClusterType\n";
        for (file, content) in [
            ("fleet/fleet.json", "{}"),
            ("fleet/keys/root.pem", "key"),
            ("hub/hub.key", "key"),
            ("plane/.environments/dev.yaml", "kind: Environment\n"),
            ("branch/.git/HEAD", "ref: refs/heads/dev\n"),
            ("branch/edge.yaml", object),
            ("bare/HEAD", "ref: refs/heads/main\n"),
            ("bare/objects/pack/none", ""),
            ("bare/refs/heads/none", ""),
            ("clone/.git/config", ""),
        ] {
            let file = made.at(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        symlink("fleet", made.at("link")).unwrap();
        made
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Everything in it, and the rights of each file and folder.
    fn now(&self) -> (Tree, String) {
        let format = ["-printf", "%P %y %m\\n"];
        let mut find = Command::new("find");
        let listed = find.arg(self.folder.path()).args(format);
        let listed = String::from_utf8(listed.output().unwrap().stdout).unwrap();
        assert!(listed.contains("fleet d "), "{listed}");
        (tree(self.folder.path()), listed)
    }
}

/// A command with another state folder.
fn with_state(state: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul-agent"));
    command.arg("--state").arg(state).args(arguments);
    command.checked().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn attack_no_site_and_no_apply_helper_begins_in_a_folder_that_is_somebody_elses() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let backup = site.folder.path().join("drone-7.backup");
    site.ok(&["backup", "--to", text(&backup)]);
    let kit = centre.kit("drone-8");
    let foreign = Foreign::new();
    let before = foreign.now();
    let own = tree(&site.state());
    for (name, what) in FOREIGN {
        for folder in [foreign.at(name), foreign.at(name).join("new/site")] {
            let words = [what, "where Outhaul writes nothing", "help: name"];
            for begins in [&["enrol", text(&kit)][..], &["restore", text(&backup)]] {
                assert_reports(&with_state(&folder, begins), 2, &words);
            }
            let helper = ["apply-helper", "init", "--folder", text(&folder)];
            assert_reports(&site.run(&helper), 2, &words);
        }
    }
    assert_eq!(foreign.now(), before);
    // In another site's folder none begins, either.
    let inner = site.state().join("inner");
    let words = ["in the state folder of a site, `"];
    for begins in [&["enrol", text(&kit)][..], &["restore", text(&backup)]] {
        assert_reports(&with_state(&inner, begins), 2, &words);
    }
    let own_folder = site.state();
    for again in [&[][..], &["--again"]] {
        let helper = ["apply-helper", "init", "--folder", text(&own_folder)];
        let words = ["is the agent's own folder", "`/var/lib/outhaul-apply`"];
        assert_reports(&site.run(&[&helper[..], again].concat()), 2, &words);
    }
    assert_eq!(tree(&site.state()), own);
    assert!(!inner.exists());
}

#[test]
fn attack_what_runs_in_no_site_changes_no_folder_that_is_somebody_elses() {
    let centre = Centre::new();
    let bundle = centre.publish(&Draft::hello("one"));
    let foreign = Foreign::new();
    let before = foreign.now();
    let stick = tempfile::tempdir().unwrap();
    let backup = stick.path().join("site.backup");
    for (name, _) in FOREIGN {
        for command in [
            &["import", text(&bundle)][..],
            &["run", "--once"],
            &["status"],
            &["plan", text(&bundle)],
            &["observe"],
            &["approve", "1"],
            &["hold"],
            &["rollback"],
            &["apply"],
            &["values"],
            &["set", "a=b"],
            &["unset", "a"],
            &["export", text(stick.path())],
            &["send"],
            &["backup", "--to", text(&backup)],
        ] {
            let folder = foreign.at(name);
            let words = ["there is no site in `", "help: "];
            assert_reports(&with_state(&folder, command), 2, &words);
        }
    }
    assert_eq!(foreign.now(), before);
    assert!(paths(stick.path()).is_empty());
}

#[test]
fn attack_what_a_site_writes_for_people_lies_in_no_folder_that_is_somebody_elses() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let foreign = Foreign::new();
    let before = foreign.now();
    for (name, _) in FOREIGN {
        let folder = foreign.at(name);
        let (backup, page) = (folder.join("a.backup"), folder.join("a.html"));
        for command in [
            &["export", text(&folder)][..],
            &["backup", "--to", text(&backup)],
            &["status", "--page", text(&page)],
        ] {
            assert_reports(&site.run(command), 2, &["help: name"]);
        }
    }
    assert_eq!(foreign.now(), before);
}

/// `arguments` in a mount namespace in which `from` is at `to`, too; `None` where none can be made here.
pub fn bound(site: &Site, (from, to): (&Path, &Path), arguments: &[&str]) -> Option<Output> {
    let command = site.command(arguments);
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--map-root-user", "sh", "-c"]);
    inside.arg("mount --bind \"$1\" \"$2\" || exit 99; shift 2; exec \"$@\"");
    inside
        .arg("sh")
        .arg(from)
        .arg(to)
        .arg(command.get_program());
    inside.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inside.env(name, value),
            None => inside.env_remove(name),
        };
    }
    let output = inside.output().ok()?;
    outhaul_tests::mounted_or_skip(output)
}

#[test]
fn attack_a_folder_of_somebody_that_is_mounted_elsewhere_is_no_stick() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let foreign = Foreign::new();
    for name in ["keys", "metadata"] {
        fs::create_dir_all(foreign.at("fleet").join(name)).unwrap();
    }
    fs::create_dir(foreign.at("stick")).unwrap();
    let before = foreign.now();
    for (from, owner) in [
        (foreign.at("fleet/metadata"), "the folder of a fleet's keys"),
        (foreign.at("plane/.environments"), "in the control plane"),
        (site.state().join("generations"), "of a site"),
    ] {
        let stick = foreign.at("stick");
        for command in [
            &["export", text(&stick)][..],
            &["backup", "--to", text(&stick.join("a.backup"))],
            &["status", "--page", text(&stick.join("a.html"))],
        ] {
            let Some(done) = bound(&site, (&from, &stick), command) else {
                return;
            };
            assert_reports(&done, 2, &[owner, "help: name"]);
        }
    }
    assert_eq!(foreign.now(), before);
}

#[test]
fn a_folder_with_something_else_in_it_is_no_place_for_a_site_and_says_what_is_there() {
    let centre = Centre::new();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let kit = centre.kit("drone-7");
    for (name, files) in [
        ("home", &[".bashrc", ".profile", "notes.txt"][..]),
        ("stick", &["drone-7.kit", "photos/1.jpg"]),
        ("checkout", &[".git/HEAD", "agent/lib.rs", "README.md"]),
        ("settings-stick", &["agent.toml", "drone-7.kit"]),
    ] {
        for file in files {
            fs::create_dir_all(at(name).join(file).parent().unwrap()).unwrap();
            fs::write(at(name).join(file), "").unwrap();
        }
    }
    let now = || {
        let mut find = Command::new("find");
        let listed = find.arg(folder.path()).args(["-printf", "%P %y %m\\n"]);
        (tree(folder.path()), listed.output().unwrap().stdout)
    };
    let before = now();
    for (name, words) in [
        ("home", "it has `.bashrc`, `.profile`, `notes.txt`"),
        ("stick", "it has `drone-7.kit`, `photos`"),
        ("checkout", "it has `.git`, `README.md`"),
        ("settings-stick", "it has `drone-7.kit`"),
    ] {
        let words = [words, "nothing was changed", "help: name an empty folder"];
        let refused = with_state(&at(name), &["enrol", text(&kit)]);
        assert_reports(&refused, 2, &words);
        let site = Site::new(&centre, "drone-9");
        let helper = site.run(&["apply-helper", "init", "--folder", text(&at(name))]);
        assert_reports(&helper, 2, &words);
    }
    // The folder that commands are given in, too.
    let mut here = Command::new(env!("CARGO_BIN_EXE_outhaul-agent"));
    here.args(["--state", ".", "enrol", text(&kit)]);
    let here = here.current_dir(at("home")).checked().unwrap();
    assert_reports(&here, 2, &["`notes.txt`"]);
    assert_eq!(now(), before);
    // What is prepared for a site is.
    for (file, content) in [
        ("agent.toml", "[hub]\nca = \"hub-ca.pem\"\n"),
        ("hub-ca.pem", ""),
        ("lost+found/x", ""),
    ] {
        let file = at("prepared").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    let made = with_state(&at("prepared"), &["enrol", text(&kit)]);
    assert_reports(&made, 0, &[]);
    fs::create_dir(at("empty")).unwrap();
    assert_reports(&with_state(&at("empty"), &["enrol", text(&kit)]), 0, &[]);
}
