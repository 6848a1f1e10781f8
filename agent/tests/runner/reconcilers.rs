//! Each reconciler as the conformance scenarios need it: how its things are put, seen, spoilt and slowed down.
//!
//! What comes in: nothing but programs of this host: Ansible, the example hook. What goes
//! out: a [`Fixture`] per reconciler. What the scenarios expect stands in `conformance.rs` alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use outhaul_test_kit::{Draft, Load};
use outhaul_tests::{available_or_skip, workspace_root};
use tempfile::TempDir;

use crate::ansible::playbook;
use crate::site::tree;

/// What is there: each thing's name and content.
pub type There = BTreeMap<String, String>;

/// One reconciler.
pub trait Fixture {
    /// Its name in a stream.
    fn kind(&self) -> &'static str;

    /// Everything that scenarios before this one put there is gone.
    fn clean(&mut self);

    /// What stands in `agent.toml`.
    fn settings(&self) -> String;

    /// An assignment with a separate thing name.
    fn load(&self, name: &str, content: &str) -> Load;

    /// The same, which cannot be applied.
    fn broken(&self, name: &str) -> Load;

    /// The same, which is not done before [`Fixture::let_go`]; `None` where nothing takes time.
    fn slow(&self, name: &str, content: &str) -> Option<Load>;

    /// Whether a slow one is under way.
    fn at_work(&self) -> bool;

    /// Lets a slow one come to its end.
    fn let_go(&self);

    /// What is there now.
    fn there(&self) -> There;

    /// Someone changes a thing by hand.
    fn spoil(&self, name: &str);

    /// The reconciler goes, or comes back.
    fn absent(&mut self, absent: bool);

    /// What an import says while it is gone.
    fn said_when_absent(&self) -> &'static [&'static str];

    /// Instants of a cut that lie within removing.
    fn removing(&self) -> &'static [&'static str] {
        &[]
    }

    /// Instants of a cut that lie within applying.
    fn instants(&self) -> &'static [&'static str];

    /// A draft of its kind.
    fn draft(&self, loads: Vec<Load>) -> Draft {
        Draft::new(loads).reconciler(self.kind())
    }
}

/// What a controller's fixture does as the cluster does that it runs on, `self.cluster`; it is absent where `self.controller` or the
/// cluster is.
macro_rules! as_its_cluster {
    () => {
        fn clean(&mut self) {
            self.cluster.clean();
        }

        fn settings(&self) -> String {
            self.cluster.settings()
        }

        fn at_work(&self) -> bool {
            self.cluster.at_work()
        }

        fn let_go(&self) {
            self.cluster.let_go();
        }

        fn absent(&mut self, absent: bool) {
            if absent {
                self.controller.stop();
            }
            self.cluster.absent(absent);
            if !absent {
                self.controller.go_on().unwrap();
            }
        }

        fn said_when_absent(&self) -> &'static [&'static str] {
            self.cluster.said_when_absent()
        }

        fn removing(&self) -> &'static [&'static str] {
            self.cluster.removing()
        }

        fn instants(&self) -> &'static [&'static str] {
            self.cluster.instants()
        }
    };
}
pub(crate) use as_its_cluster;

/// A folder of the test's own, made empty.
pub fn emptied(path: &Path) {
    let _ = fs::remove_dir_all(path);
    fs::create_dir_all(path).unwrap();
}

/// What shows and ends slow work.
pub struct Gate(pub PathBuf);

impl Gate {
    pub fn shell(&self) -> String {
        let folder = self.0.display();
        format!("touch {folder}/at-work; while [ ! -e {folder}/go ]; do sleep 0.05; done")
    }

    pub fn at_work(&self) -> bool {
        self.0.join("at-work").exists()
    }

    pub fn open(&self) {
        fs::write(self.0.join("go"), "").unwrap();
    }
}

/// `name` of `name/file` or `name.file`, with the file's text.
fn things(folder: &Path, end_of_name: char) -> There {
    let one = |(path, bytes): (String, Vec<u8>)| {
        let (name, _) = path.split_once(end_of_name).unwrap();
        (name.to_owned(), String::from_utf8(bytes).unwrap())
    };
    tree(folder).into_iter().map(one).collect()
}

/// Files for someone who watches.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn target(&self) -> PathBuf {
        self.0.path().join("target")
    }
}

impl Fixture for Folder {
    fn kind(&self) -> &'static str {
        "folder"
    }

    fn clean(&mut self) {
        emptied(&self.target());
    }

    fn settings(&self) -> String {
        format!("[folder]\ntarget = \"{}\"\n", self.target().display())
    }

    fn load(&self, name: &str, content: &str) -> Load {
        Load::new(name).file("thing", content)
    }

    /// Someone's own folder lies where the file is to go.
    fn broken(&self, name: &str) -> Load {
        let place = self.target().join(name).join("second");
        fs::create_dir_all(place).unwrap();
        self.load(name, "never").file("second", "never")
    }

    fn slow(&self, _name: &str, _content: &str) -> Option<Load> {
        None
    }

    fn at_work(&self) -> bool {
        false
    }

    fn let_go(&self) {}

    fn there(&self) -> There {
        things(&self.target(), '/')
    }

    fn spoil(&self, name: &str) {
        fs::write(self.target().join(name).join("thing"), "spoilt").unwrap();
    }

    fn absent(&mut self, absent: bool) {
        let (target, aside) = (self.target(), self.0.path().join("aside"));
        if absent {
            fs::rename(&target, &aside).unwrap();
            fs::write(&target, "someone's file").unwrap();
        } else {
            fs::remove_file(&target).unwrap();
            fs::rename(&aside, &target).unwrap();
        }
    }

    fn said_when_absent(&self) -> &'static [&'static str] {
        &[
            "this site's files cannot be written to",
            "help: correct `target`",
        ]
    }

    fn instants(&self) -> &'static [&'static str] {
        &["inventory-intended", "file-written", "step-applied"]
    }
}

/// Playbooks on this host.
pub struct Ansible(TempDir);

impl Ansible {
    #[track_caller]
    pub fn new() -> Option<Self> {
        available_or_skip("ansible-playbook").then(|| Self(tempfile::tempdir().unwrap()))
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn gate(&self) -> Gate {
        Gate(self.0.path().join("gate"))
    }

    /// A name for the program that can go away.
    fn program(&self) -> PathBuf {
        self.0.path().join("ansible-playbook")
    }

    fn with(&self, name: &str, content: &str, before: &str) -> Load {
        let write = format!(
            "    - name: write\n      ansible.builtin.copy:\n        dest: \"{{{{ out }}}}/{name}.thing\"\n        \
             content: \"{content}\"\n        mode: \"0644\"\n"
        );
        let remove = format!(
            "    - name: remove\n      ansible.builtin.file:\n        path: \"{{{{ out }}}}/{name}.thing\"\n        \
             state: absent\n"
        );
        Load::new(name)
            .file("reconciler.yaml", playbook(&format!("{before}{write}")))
            .payload("remove.yaml", playbook(&remove))
    }
}

impl Fixture for Ansible {
    fn kind(&self) -> &'static str {
        "ansible"
    }

    fn clean(&mut self) {
        emptied(&self.out());
        emptied(&self.gate().0);
        self.absent(false);
    }

    fn settings(&self) -> String {
        format!(
            "[ansible]\nplaybook_program = \"{}\"\nvars = {{ out = \"{}\" }}\n",
            self.program().display(),
            self.out().display()
        )
    }

    fn load(&self, name: &str, content: &str) -> Load {
        self.with(name, content, "")
    }

    fn broken(&self, name: &str) -> Load {
        self.with(
            name,
            "never",
            "    - name: fail\n      ansible.builtin.fail:\n        msg: no pressure\n",
        )
    }

    fn slow(&self, name: &str, content: &str) -> Option<Load> {
        let task = format!(
            "    - name: wait\n      ansible.builtin.shell: {}\n      changed_when: false\n",
            self.gate().shell()
        );
        Some(self.with(name, content, &task))
    }

    fn at_work(&self) -> bool {
        self.gate().at_work()
    }

    fn let_go(&self) {
        self.gate().open();
    }

    fn there(&self) -> There {
        things(&self.out(), '.')
    }

    fn spoil(&self, name: &str) {
        fs::write(self.out().join(format!("{name}.thing")), "spoilt").unwrap();
    }

    fn absent(&mut self, absent: bool) {
        let _ = fs::remove_file(self.program());
        if !absent {
            let path = std::env::var_os("PATH").unwrap();
            let found = std::env::split_paths(&path).map(|folder| folder.join("ansible-playbook"));
            let found = found.into_iter().find(|program| program.is_file()).unwrap();
            std::os::unix::fs::symlink(found, self.program()).unwrap();
        }
    }

    fn said_when_absent(&self) -> &'static [&'static str] {
        &["cannot start", "help: install ansible-core"]
    }

    fn instants(&self) -> &'static [&'static str] {
        &["inventory-intended", "step-applied"]
    }
}

/// The example hook, whose program can be slow.
pub struct Hook(TempDir);

impl Hook {
    #[track_caller]
    pub fn new() -> Option<Self> {
        available_or_skip("python3").then(|| Self(tempfile::tempdir().unwrap()))
    }

    fn pods(&self) -> PathBuf {
        self.0.path().join("pods")
    }

    fn gate(&self) -> Gate {
        Gate(self.0.path().join("gate"))
    }

    fn program(&self) -> PathBuf {
        self.0.path().join("program")
    }
}

impl Fixture for Hook {
    fn kind(&self) -> &'static str {
        "static-pods"
    }

    fn clean(&mut self) {
        emptied(&self.pods());
        emptied(&self.gate().0);
        self.absent(false);
    }

    fn settings(&self) -> String {
        format!(
            "reconciler = \"static-pods\"\n[hook]\nprogram = \"{}\"\nenvironment = {{ STATIC_PODS = \"{}\" }}\n",
            self.program().display(),
            self.pods().display()
        )
    }

    fn load(&self, name: &str, content: &str) -> Load {
        Load::new(name).file("thing.yaml", content)
    }

    fn broken(&self, name: &str) -> Load {
        Load::new(name).file("notes.txt", "no pod in it")
    }

    fn slow(&self, name: &str, content: &str) -> Option<Load> {
        Some(self.load(name, content).file("slow.txt", ""))
    }

    fn at_work(&self) -> bool {
        self.gate().at_work()
    }

    fn let_go(&self) {
        self.gate().open();
    }

    fn there(&self) -> There {
        let mut there = things(&self.pods(), '.');
        // A file that a cut left under its other name is none for a kubelet.
        there.retain(|name, _| !name.is_empty());
        there
    }

    fn spoil(&self, name: &str) {
        fs::write(self.pods().join(format!("{name}.thing.yaml")), "spoilt").unwrap();
    }

    fn absent(&mut self, absent: bool) {
        let _ = fs::remove_file(self.program());
        if !absent {
            let text = format!(
                "#!/bin/sh\nmessage=$(cat)\ncase $message in *'\"verb\":\"apply\"'*)\n\
                 case $message in *slow.txt*) {} ;; esac ;; esac\nprintf %s \"$message\" | python3 {}\n",
                self.gate().shell(),
                workspace_root()
                    .join("examples/hooks/static-pods")
                    .display()
            );
            fs::write(self.program(), text).unwrap();
            fs::set_permissions(self.program(), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn said_when_absent(&self) -> &'static [&'static str] {
        &["cannot be found", "help: install the program"]
    }

    fn removing(&self) -> &'static [&'static str] {
        &["hook-removed"]
    }

    fn instants(&self) -> &'static [&'static str] {
        &["inventory-intended", "hook-applied", "step-applied"]
    }
}
