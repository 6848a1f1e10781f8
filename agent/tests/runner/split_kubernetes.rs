//! A cluster in two halves: one user takes bundles in, another one applies them to a real API server.
//!
//! What comes in: a real kube-apiserver, the agent as `nobody`, and the helper as a separate user with the
//! one right to read the agent's folder, as `outhaul-apply-kubernetes.conf` has it. What goes out: objects of
//! the cluster; and of what nobody signed, none.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use outhaul_tests::skipped;
use serde_json::{Value, json};

use crate::site::{Site, assert_reports, code, stderr, stdout};
use crate::split::{NOBODY, Split, as_user, give, no_other_user};
use crate::split_attacks::{ask, request};

/// Whom the helper runs as.
const HELPER: u32 = 64_999;

struct Cluster {
    split: Split,
    server: ApiServer,
    centre: Centre,
}

fn map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: app}}\ndata: {{key: \"{value}\"}}\n"
    )
}

fn load(maps: &[(&str, &str)]) -> Load {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: app}\n";
    let mut load = Load::new("hello").file("namespace.yaml", namespace);
    for (name, value) in maps {
        load = load.file(&format!("{name}.yaml"), map(name, value));
    }
    load
}

fn draft(maps: &[(&str, &str)]) -> Draft {
    Draft::new([load(maps)]).kubernetes()
}

impl Cluster {
    /// `None` where the calling test is skipped.
    #[track_caller]
    fn new() -> Option<Self> {
        if let Some(why) = no_other_user() {
            skipped(why);
            return None;
        }
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        let root = site.folder.path().to_owned();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        let server = ApiServer::start_or_skip(&root.join("server"))?.unwrap();
        let folder = root.join("apply");
        fs::create_dir(&folder).unwrap();
        // Its kubeconfig is the helper's alone.
        let kubeconfig = root.join("kubeconfig");
        let text = fs::read_to_string(server.kubeconfig(ADMIN)).unwrap();
        let authority = root.join("server/ca.crt");
        let text = text.replace("ca.crt", authority.to_str().unwrap());
        fs::write(&kubeconfig, text).unwrap();
        fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o600)).unwrap();
        let settings = format!(
            "[kubernetes]\nkubeconfig = \"{}\"\nwait_s = 5\n",
            kubeconfig.display()
        );
        fs::write(folder.join("agent.toml"), settings).unwrap();
        give(&kubeconfig, HELPER);
        give(&folder, HELPER);
        let split = Self::serve(site);
        Some(Self {
            split,
            server,
            centre,
        })
    }

    fn serve(site: Site) -> Split {
        let program = site.folder.path().join("outhaul-agent");
        let folder = site.folder.path().join("apply");
        let answer = site.command(&["apply-helper", "answer"]);
        outhaul_tests::copy_program(answer.get_program(), &program).unwrap();
        let init = ["apply-helper", "init", "--folder", folder.to_str().unwrap()];
        site.ok(&init);
        // Root sets it up as the user whom the folder belongs to.
        for entry in fs::read_dir(&folder).unwrap() {
            let found = entry.unwrap();
            assert_eq!(found.metadata().unwrap().uid(), HELPER, "{found:?}");
        }
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={HELPER}"), &format!("--regid={HELPER}")]);
        command.args(["--clear-groups", "--inh-caps=-all,+dac_read_search"]);
        command.args([
            "--ambient-caps=+dac_read_search",
            "--bounding-set=-all,+dac_read_search",
        ]);
        command.args(["--no-new-privs", "--"]).arg(&program);
        command.args(answer.get_args());
        let split = Split::serve_by(site, command);
        give(&split.site.state(), NOBODY);
        split
    }

    /// A command of the half that reads sticks.
    fn agent(&self, expected: i32, arguments: &[&str]) -> Output {
        let done = as_user(&self.split.site, NOBODY, arguments);
        let printed = format!("{}{}", stdout(&done), stderr(&done));
        assert_eq!(code(&done), expected, "{arguments:?}: {printed}");
        done
    }

    fn publish(&self, draft: &Draft) -> PathBuf {
        let to = self.split.site.folder.path().join("stick.outhaul");
        fs::copy(self.centre.publish(draft), &to).unwrap();
        to
    }

    fn import(&self, expected: i32, draft: &Draft) -> Output {
        let stick = self.publish(draft);
        self.agent(expected, &["import", stick.to_str().unwrap()])
    }

    fn get(&self, name: &str) -> Option<Value> {
        self.server
            .get(&format!("/api/v1/namespaces/app/configmaps/{name}"))
            .unwrap()
    }

    fn value(&self, name: &str) -> Option<String> {
        Some(self.get(name)?["data"]["key"].as_str()?.to_owned())
    }

    fn assert_maps(&self, expected: &[(&str, &str)]) {
        for (name, value) in expected {
            assert_eq!(self.value(name).as_deref(), Some(*value), "{name}");
        }
    }
}

#[test]
fn a_helper_without_root_applies_changes_prunes_and_goes_back_on_a_real_api_server() {
    let Some(cluster) = Cluster::new() else {
        return;
    };
    cluster.import(0, &draft(&[("stays", "1"), ("goes", "1")]));
    cluster.assert_maps(&[("stays", "1"), ("goes", "1")]);
    let made = cluster.get("stays").unwrap();
    assert_eq!(
        made["metadata"]["annotations"]["outhaul.dev/site"],
        "drone-7"
    );
    cluster.import(0, &draft(&[("stays", "2"), ("comes", "2")]));
    cluster.assert_maps(&[("stays", "2"), ("comes", "2")]);
    assert_eq!(cluster.value("goes"), None, "it is pruned");

    // By hand: seen, and put back by the helper where the stream says so.
    let path = "/api/v1/namespaces/app/configmaps/comes";
    cluster.server.delete(path).unwrap();
    let status = stdout(&cluster.agent(0, &["--output", "json", "status"]));
    assert!(status.contains("differs from bundle 2"), "{status}");
    cluster.agent(0, &["apply"]);
    cluster.assert_maps(&[("comes", "2")]);

    cluster.agent(0, &["rollback", "--who", "ann"]);
    cluster.assert_maps(&[("stays", "1"), ("goes", "1")]);
    assert_eq!(cluster.value("comes"), None);

    // A bundle without the assignment: its objects go, by the helper's own inventory.
    let other = Load::new("other").file("a.yaml", map("other", "1").replace("app", "default"));
    cluster.import(0, &Draft::new([other]).kubernetes());
    cluster.agent(0, &["approve", "3"]);
    assert_eq!(cluster.value("stays"), None);
    let namespace = cluster.server.get("/api/v1/namespaces/app").unwrap();
    let going = |found: Value| !found["metadata"]["deletionTimestamp"].is_null();
    assert!(namespace.is_none_or(going));

    // Of both halves, only one has anything to do with the cluster.
    let text = fs::read_to_string(cluster.split.site.state().join("agent.toml")).unwrap();
    assert!(!text.contains("kubeconfig"), "{text}");
    let kubeconfig = cluster.split.site.folder.path().join("kubeconfig");
    let mut read = Command::new("cat");
    let read = read
        .arg(&kubeconfig)
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    assert!(!read.status.success(), "the agent's user cannot read it");
}

#[test]
fn a_wrong_digest_never_reaches_the_cluster() {
    let Some(cluster) = Cluster::new() else {
        return;
    };
    cluster.import(0, &draft(&[("ours", "1")]));
    let before = cluster.get("ours").unwrap();
    let split = &cluster.split;
    let mut wrong = request(split, "apply", 1);
    let other = "0".repeat(64);
    wrong["index"] = json!(format!("sha256:{other}"));
    let answer = ask(split, &wrong);
    assert_eq!(answer["refused"]["rule"], "content", "{answer}");

    // Someone who has the agent's user writes manifests, and an index that lists them.
    let bundle = cluster.publish(&draft(&[("ours", "2")]));
    split.site.configure(&format!(
        "approval = \"always\"\n[apply]\nhelper = \"{}\"\n",
        split.socket().display()
    ));
    cluster.agent(0, &["import", bundle.to_str().unwrap()]);
    let index = split.site.state().join("generations/2/index.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("\"number\":2", "\"number\": 2")).unwrap();
    let altered = request(split, "apply", 2);
    let answer = ask(split, &altered);
    assert!(answer.get("refused").is_some(), "{answer}");
    assert_eq!(cluster.get("ours").unwrap(), before, "nothing was touched");
    // What is signed is applied.
    fs::write(&index, text).unwrap();
    cluster.agent(0, &["approve", "2"]);
    cluster.assert_maps(&[("ours", "2")]);
}

#[test]
fn what_a_helper_put_there_before_it_was_cut_off_is_removed_by_a_bundle_without_it() {
    let Some(cluster) = Cluster::new() else {
        return;
    };
    cluster.split.cut_helper(Some("object-recorded".into()));
    cluster.import(3, &draft(&[("ours", "1")]));
    assert!(*cluster.split.died.lock().unwrap() > 0);
    assert!(
        cluster
            .server
            .get("/api/v1/namespaces/app")
            .unwrap()
            .is_some()
    );
    cluster.split.cut_helper(None);
    let other = Load::new("other").file("a.yaml", map("other", "1").replace("app", "default"));
    let stick = cluster.publish(&Draft::new([other]).kubernetes());
    as_user(
        &cluster.split.site,
        NOBODY,
        &["import", stick.to_str().unwrap()],
    );
    as_user(&cluster.split.site, NOBODY, &["approve", "2"]);
    let namespace = cluster.server.get("/api/v1/namespaces/app").unwrap();
    let going = |found: Value| !found["metadata"]["deletionTimestamp"].is_null();
    assert!(
        namespace.is_none_or(going),
        "what was half applied is removed"
    );
}

#[test]
fn a_helper_set_up_again_by_root_follows_no_link_of_its_user() {
    let Some(cluster) = Cluster::new() else {
        return;
    };
    cluster.import(0, &draft(&[("ours", "1")]));
    let split = &cluster.split;
    let outside = split.site.folder.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    let folder = split.folder();
    let floors = folder.join("floors.json");
    let link = |to: &std::path::Path, at: &std::path::Path| {
        std::os::unix::fs::symlink(to, at).unwrap();
        std::os::unix::fs::lchown(at, Some(HELPER), Some(HELPER)).unwrap();
    };
    link("/etc".as_ref(), &folder.join("init"));
    let init = [
        "apply-helper",
        "init",
        "--folder",
        folder.to_str().unwrap(),
        "--again",
    ];
    let again = split.site.run(&init);
    assert!(fs::metadata("/etc/agent.db").is_err(), "{}", stderr(&again));
    let _ = fs::remove_file(folder.join("init"));
    // What was refused in the middle has taken them away already.
    let _ = fs::remove_file(&floors);
    link(&outside, &floors);
    let words = ["floors.json`: it is a symbolic link", "move it away"];
    assert_reports(&split.site.run(&init), 3, &words);
    assert_eq!(fs::read(&outside).unwrap(), b"precious");
    fs::remove_file(&floors).unwrap();
    split.site.ok(&init);
    for entry in fs::read_dir(&folder).unwrap() {
        let found = entry.unwrap();
        assert_eq!(found.metadata().unwrap().uid(), HELPER, "{found:?}");
    }
    chown(split.site.state(), Some(NOBODY), Some(NOBODY)).unwrap();
    cluster.import(0, &draft(&[("ours", "2")]));
    cluster.assert_maps(&[("ours", "2")]);
}

#[test]
fn a_helper_without_a_cluster_says_what_is_missing() {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    let output = split.site.import(&centre.publish(&draft(&[("ours", "1")])));
    assert_reports(&output, 3, &["the apply helper cannot do it", "kubeconfig"]);
    assert_eq!(split.site.active(), None);
}
