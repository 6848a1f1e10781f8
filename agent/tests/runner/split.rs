//! The agent in two halves: one takes bundles in as a user without rights, the other applies them.
//!
//! What comes in: the real program twice, the helper started for each connection as systemd does it
//! (`Accept=yes`, `StandardInput=socket`). What goes out: files in the helper's target, the inventory's
//! removals, and named states when the helper is gone.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use outhaul_bundle::Instruction;
use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::{available_or_skip, skipped};

use crate::ansible::{playbook, write};
use crate::rekey::{seal_key, sealed};
use crate::site::{Site, Tree, assert_reports, code, copy, stderr, tree};

pub const SIGKILL: i32 = 9;
/// Whom the half without rights runs as.
pub const NOBODY: u32 = 65534;

/// A site whose bundles are applied by a helper.
pub struct Split {
    pub site: Site,
    cut: Arc<Mutex<Option<String>>>,
    /// How often a helper died of a cut.
    pub died: Arc<Mutex<usize>>,
    stop: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl Split {
    /// Sets a helper up for a site, and serves its socket.
    pub fn new(site: Site) -> Self {
        let folder = site.folder.path().join("apply");
        let done = site.run(&["apply-helper", "init", "--folder", folder.to_str().unwrap()]);
        assert_eq!(code(&done), 0, "{}", stderr(&done));
        Self::serve(site)
    }

    /// Serves the socket of a site that has a helper.
    pub fn serve(site: Site) -> Self {
        let command = site.command(&["apply-helper", "answer"]);
        Self::serve_by(site, command)
    }

    /// The same, where `command` answers.
    pub fn serve_by(site: Site, mut command: Command) -> Self {
        let socket = site.folder.path().join("apply.sock");
        site.configure(&format!("[apply]\nhelper = \"{}\"\n", socket.display()));
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
        let (cut, died) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(0)));
        let stop = Arc::new(AtomicBool::new(false));
        command
            .arg("--folder")
            .arg(site.folder.path().join("apply"));
        let own: (Arc<Mutex<Option<String>>>, _, _) =
            (Arc::clone(&cut), Arc::clone(&died), Arc::clone(&stop));
        let serving = thread::spawn(move || {
            for connection in listener.incoming() {
                if own.2.load(Ordering::SeqCst) {
                    return;
                }
                let connection = OwnedFd::from(connection.unwrap());
                command.stdin(Stdio::from(connection));
                match &*own.0.lock().unwrap() {
                    Some(cut) => command.env("OUTHAUL_CUT", cut),
                    None => command.env_remove("OUTHAUL_CUT"),
                };
                let mut child = command.spawn().unwrap();
                // Ours would keep the connection open after the helper has ended.
                command.stdin(Stdio::null());
                let died = Arc::clone(&own.1);
                thread::spawn(move || {
                    if child.wait().unwrap().signal() == Some(SIGKILL) {
                        *died.lock().unwrap() += 1;
                    }
                });
            }
        });
        Self {
            site,
            cut,
            died,
            stop,
            serving: Some(serving),
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.site.folder.path().join("apply.sock")
    }

    /// The helper's own folder.
    pub fn folder(&self) -> PathBuf {
        self.site.folder.path().join("apply")
    }

    /// What the helper wrote.
    pub fn applied(&self) -> Tree {
        tree(&self.folder().join("applied"))
    }

    pub fn cut_helper(&self, cut: Option<String>) {
        *self.cut.lock().unwrap() = cut;
    }

    /// The same site as it stands, with a separate helper.
    pub fn copy(&self) -> Self {
        let site = self.site.copy();
        let name = self.folder().file_name().unwrap().to_owned();
        copy(&self.folder(), &site.folder.path().join(name));
        let copy = Self::serve(site);
        allow_removals(&copy);
        copy
    }
}

impl Drop for Split {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(self.socket());
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

pub fn two(greeting: &str) -> Draft {
    Draft::new([
        Load::new("hello")
            .file("manifest.yaml", format!("greeting: {greeting}\n"))
            .file(&format!("only-{greeting}.yaml"), "one: 1\n"),
        Load::new("other").payload("data", greeting),
    ])
}

fn one(greeting: &str) -> Draft {
    Draft::new([Load::new("hello").file("manifest.yaml", format!("greeting: {greeting}\n"))])
}

/// Lets a bundle remove half of what is there.
pub fn allow_removals(split: &Split) {
    let text = fs::read_to_string(split.site.state().join("agent.toml")).unwrap();
    split
        .site
        .configure(&format!("max_removal_percent = 60\n{text}"));
}

#[test]
fn the_helper_installs_changes_removes_and_goes_back_by_its_own_inventory() {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    allow_removals(&split);
    let site = &split.site;
    site.take(&centre.publish(&two("one")));
    assert!(split.applied().contains_key("hello/only-one.yaml"));
    assert_eq!(split.applied()["other/payload/data"], b"one");
    site.take(&centre.publish(&two("two")));
    assert!(!split.applied().contains_key("hello/only-one.yaml"));
    // What someone else put there stays.
    fs::write(split.folder().join("applied/hello/foreign"), "mine").unwrap();
    site.take(&centre.publish(&one("three")));
    let names: Vec<String> = split.applied().into_keys().collect();
    assert_eq!(names, ["hello/foreign", "hello/manifest.yaml"]);
    site.ok(&["rollback"]);
    assert_eq!(site.active(), Some(2));
    assert_eq!(split.applied()["other/payload/data"], b"two");
    assert_eq!(split.applied()["hello/manifest.yaml"], b"greeting: two\n");
    // A changed file is seen, and put back.
    fs::write(split.folder().join("applied/hello/manifest.yaml"), "no").unwrap();
    let attention = site.status()["attention"].to_string();
    assert!(attention.contains("differs from bundle 2"), "{attention}");
    site.ok(&["apply"]);
    assert_eq!(split.applied()["hello/manifest.yaml"], b"greeting: two\n");
    // The agent itself wrote nothing.
    assert!(site.applied().is_empty());
}

#[test]
fn a_site_that_runs_already_is_split_without_touching_what_runs() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let target = site.folder.path().join("target");
    let settings = format!("[folder]\ntarget = \"{}\"\n", target.display());
    site.configure(&settings);
    site.take(&centre.publish(&two("one")));
    site.take(&centre.publish(&two("two")));
    let before = tree(&target);
    fs::create_dir(site.folder.path().join("apply")).unwrap();
    fs::write(site.folder.path().join("apply/agent.toml"), &settings).unwrap();
    let split = Split::new(site);
    let site = &split.site;
    assert_eq!(tree(&target), before);
    assert!(site.status()["attention"].is_null());
    site.ok(&["rollback"]);
    site.take(&centre.publish(&two("three")));
    assert_eq!(
        fs::read(target.join("other/payload/data")).unwrap(),
        b"three"
    );
    assert!(!target.join("hello/only-one.yaml").exists());
    // Once is enough.
    let folder = split.folder();
    let again = site.run(&["apply-helper", "init", "--folder", folder.to_str().unwrap()]);
    assert_reports(&again, 2, &["set up already", "--again"]);
}

#[test]
fn a_bundle_that_waits_is_the_helper_s_already() {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    split.site.ok(&["hold", "--why", "night"]);
    let bundle = centre.publish(&one("one"));
    let held = split.site.ok(&["import", bundle.to_str().unwrap()]);
    assert_eq!(held["state"], "gated", "{held}");
    assert!(split.folder().join("generations/1/index.json").exists());
    assert!(split.applied().is_empty());
    // What happens to the agent's copy meanwhile does not matter.
    fs::remove_dir_all(split.site.state().join("blobs/sha256")).unwrap();
    fs::remove_dir_all(split.site.state().join("generations/1/metadata")).unwrap();
    // A key that is not one keeps the others from nothing.
    fs::write(split.site.state().join("identities/junk.age"), "junk").unwrap();
    fs::create_dir(split.site.state().join("blobs/sha256")).unwrap();
    split.site.ok(&["hold", "--release"]);
    split.site.take(&bundle);
    fs::remove_file(split.site.state().join("identities/junk.age")).unwrap();
    split.site.take(&centre.publish(&one("two")));
    assert_eq!(split.applied()["hello/manifest.yaml"], b"greeting: two\n");
}

#[test]
fn a_rotated_root_reaches_the_helper_with_the_next_bundle() {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    split.site.take(&centre.publish(&one("one")));
    centre.rotate_online_keys();
    let slip = centre.slip("drone");
    split.site.ok(&["import", slip.to_str().unwrap()]);
    centre.rotate_online_keys();
    centre.replace_stream_key("drone");
    split.site.take(&centre.publish(&one("two")));
    assert_eq!(split.applied()["hello/manifest.yaml"], b"greeting: two\n");
}

#[test]
fn the_helper_opens_what_is_sealed_for_the_site() {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    let key = seal_key(&split.site);
    let rekey = sealed(&centre, "hunter2", &key).order("drone-7", 1, Instruction::Rekey);
    split.site.take(&centre.publish(&rekey));
    let manifest = |split: &Split| split.applied()["hello/manifest.yaml"].clone();
    assert_eq!(manifest(&split), b"password: \"hunter2\"\n");
    // A key that the site made by order is found, too.
    let new = seal_key(&split.site);
    assert_ne!(new, key);
    split
        .site
        .take(&centre.publish(&sealed(&centre, "hunter3", &new)));
    assert_eq!(manifest(&split), b"password: \"hunter3\"\n");
}

#[test]
fn playbooks_are_run_by_the_helper_with_the_helper_s_settings() {
    if !available_or_skip("ansible-playbook") {
        return;
    }
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    allow_removals(&split);
    let out = split.folder().join("out");
    fs::create_dir(&out).unwrap();
    let vars = format!("[ansible]\nvars = {{ out = \"{}\" }}\n", out.display());
    fs::write(split.folder().join("agent.toml"), vars).unwrap();
    let remove = "    - name: remove\n      ansible.builtin.file:\n        \
                  path: \"{{ out }}/one\"\n        state: absent\n";
    let first = Load::new("one")
        .file("reconciler.yaml", playbook(&write("write", "one", "here")))
        .payload("remove.yaml", playbook(remove));
    let second = Load::new("two").file("reconciler.yaml", playbook(&write("write", "two", "here")));
    let both = Draft::new([first, second.clone()]).ansible();
    split.site.take(&centre.publish(&both));
    assert_eq!(tree(&out).len(), 2);
    split
        .site
        .take(&centre.publish(&Draft::new([second]).ansible()));
    let left: Vec<String> = tree(&out).into_keys().collect();
    assert_eq!(left, ["two"]);
}

#[test]
fn a_moved_site_goes_on_with_its_helper_after_it_was_set_up_again() {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    allow_removals(&split);
    let site = &split.site;
    site.take(&centre.publish(&two("one")));
    centre.publish(&one("early").cluster_type("tractor"));
    let to = centre.stream("dev", "tractor");
    let moves = one("two").order("drone-7", 1, Instruction::Move { to, first: 2 });
    let moved = site.import(&centre.publish(&moves));
    assert_reports(&moved, 0, &["order `move`"]);
    let next = centre.publish(&one("tractor").cluster_type("tractor"));
    // The helper executes no order: it says what to do, the work waits, and what runs stays.
    let before = split.applied();
    let printed = [
        "bundle 2 is for dev/tractor, the apply helper was set up for dev/drone",
        "apply-helper init --again",
    ];
    assert_reports(&site.import(&next), 3, &printed);
    assert_eq!(split.applied(), before);
    let status = site.status().to_string();
    assert!(status.contains(printed[0]), "{status}");

    let folder = split.folder();
    let folder = folder.to_str().unwrap();
    let again = site.ok(&["apply-helper", "init", "--folder", folder, "--again"]);
    assert_eq!(again["site"], "drone-7", "{again}");
    // The very bundle goes on, and what was applied for the old stream is still the helper's to remove.
    site.ok(&["apply"]);
    assert_eq!(site.active(), Some(2));
    assert_eq!(site.status()["cluster_type"], "tractor");
    let names: Vec<String> = split.applied().into_keys().collect();
    assert_eq!(names, ["hello/manifest.yaml"]);
    assert_eq!(
        split.applied()["hello/manifest.yaml"],
        b"greeting: tractor\n"
    );
    // The old stream's bundles are for nobody here any more.
    let old = site.import(&centre.publish(&one("drones")));
    assert_reports(&old, 4, &["this stick is for dev/drone"]);
}

#[test]
fn a_helper_that_is_gone_silent_or_not_set_up_is_named_with_what_to_do() {
    let centre = Centre::new();
    let bundle = centre.publish(&one("one"));
    let site = Site::new(&centre, "drone-7");
    let socket = site.folder.path().join("apply.sock");
    site.configure(&format!(
        "[apply]\nhelper = \"{}\"\nsilence_s = 5\n",
        socket.display()
    ));
    let gone = [
        "cannot be reached",
        "help: `systemctl status outhaul-apply.socket`",
    ];
    assert_reports(&site.import(&bundle), 3, &gone);
    assert_eq!(site.active(), None);
    let attention = site.status()["attention"].to_string();
    assert!(attention.contains("apply-helper"), "{attention}");

    // It takes the connection and says nothing.
    let silent = UnixListener::bind(&socket).unwrap();
    assert_reports(&site.import(&bundle), 3, &["has been silent for 5 s"]);
    drop(silent);
    fs::remove_file(&socket).unwrap();

    // It answers that it cannot, and why.
    let split = Split::serve(site);
    let output = split.site.run(&["apply"]);
    assert_reports(
        &output,
        3,
        &["the apply helper is not set up", "apply-helper init"],
    );
    let status = split.site.status().to_string();
    assert!(
        status.contains("it cannot go on: the apply helper"),
        "{status}"
    );
    let folder = split.folder();
    let init = ["apply-helper", "init", "--folder", folder.to_str().unwrap()];
    split.site.ok(&init);
    split.site.ok(&["apply"]);
    assert_eq!(split.applied()["hello/manifest.yaml"], b"greeting: one\n");
}

/// Gives the state folder to another user and runs a command as that user.
pub fn as_user(site: &Site, uid: u32, arguments: &[&str]) -> Output {
    let command = site.command(arguments);
    let program = site.folder.path().join("outhaul-agent");
    if !program.exists() {
        outhaul_tests::copy_program(command.get_program(), &program).unwrap();
    }
    let mut other = Command::new("setpriv");
    other.args([&format!("--reuid={uid}"), &format!("--regid={uid}")]);
    other.args(["--clear-groups", "--"]);
    other.arg(program).args(command.get_args());
    other.output().unwrap()
}

/// Why there can be no other user here.
pub fn no_other_user() -> Option<&'static str> {
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let found = Command::new("setpriv").arg("--version").output();
    match (uid, found) {
        (0, Ok(_)) => None,
        (0, Err(_)) => Some("there is no setpriv to become another user"),
        _ => Some("only root can become another user"),
    }
}

pub fn give(path: &Path, uid: u32) {
    let owner = format!("{uid}:{uid}");
    let done = Command::new("chown")
        .args(["-R", &owner])
        .arg(path)
        .status();
    assert!(done.unwrap().success());
}

#[test]
fn the_half_without_rights_installs_and_can_itself_write_nothing_that_runs() {
    if let Some(why) = no_other_user() {
        return skipped(why);
    }
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    let site = &split.site;
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(site.folder.path(), open.clone()).unwrap();
    give(&site.state(), NOBODY);
    let stick = |draft: &Draft| {
        let to = site.folder.path().join("stick.outhaul");
        fs::copy(centre.publish(draft), &to).unwrap();
        to.to_str().unwrap().to_owned()
    };
    let done = as_user(site, NOBODY, &["import", &stick(&one("one"))]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    let file = split.folder().join("applied/hello/manifest.yaml");
    assert_eq!(fs::read(&file).unwrap(), b"greeting: one\n");
    assert_eq!(fs::metadata(&file).unwrap().uid(), 0);
    assert_eq!(fs::metadata(split.folder()).unwrap().mode() & 0o777, 0o700);

    // Taken over, it writes wherever its user may, which is its own folder and what is open to all: a
    // file outside, what runs, and the helper's state are none of that.
    let outside = site.folder.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    let runs = tree(&split.folder());
    let text = format!(
        "for f in '{0}' '{1}' '{2}/agent.db' '{2}/floors.json' '{2}/new'; do echo x > \"$f\"; done; rm -rf '{2}'",
        outside.display(),
        file.display(),
        split.folder().display()
    );
    let mut shell = Command::new("setpriv");
    shell.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "sh",
        "-c",
        &text,
    ]);
    let tried = shell.output().unwrap();
    assert!(!tried.status.success());
    assert_eq!(fs::read(&outside).unwrap(), b"precious");
    assert_eq!(tree(&split.folder()), runs);
    // And the next signed bundle installs.
    let done = as_user(site, NOBODY, &["import", &stick(&one("two"))]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert_eq!(fs::read(&file).unwrap(), b"greeting: two\n");
}
