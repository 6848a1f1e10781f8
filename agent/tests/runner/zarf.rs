//! Zarf beyond what every reconciler does: what a power cut leaves of Helm, packages of others, and one that came ready-made.
//!
//! What comes in: `OUTHAUL_KUBE_APISERVER` and `OUTHAUL_ZARF`. What must come out: the next bundle is deployed whatever was cut off, and
//! nobody else's package is touched.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use outhaul_test_kit::{Centre, Load};
use outhaul_tests::Checked as _;
use serde_json::json;

use crate::reconciler_zarf::{Zarf, config_map};
use crate::reconcilers::Fixture as _;
use crate::site::{Site, assert_reports, code, stderr, stdout};

fn scene() -> Option<(Zarf, Centre, Site)> {
    let mut zarf = Zarf::new()?;
    zarf.clean();
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure(&zarf.settings());
    Some((zarf, centre, site))
}

/// A `ConfigMap`, and a claim whose volume nobody provides: Helm waits for it.
fn waits(zarf: &Zarf, name: &str, content: &str) -> Load {
    let claim = format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\nspec: {{accessModes: [ReadWriteOnce], \
         resources: {{requests: {{storage: 1Gi}}}}}}\n"
    );
    zarf.with(
        name,
        &format!("{}---\n{claim}", config_map(name, content)),
        None,
    )
}

/// The power goes while Helm waits: the agent and all that it started are gone.
fn cut_while_helm_waits(zarf: &Zarf, site: &Site, bundle: &std::path::Path, claim: &str) {
    let mut import = site.command(&["import", bundle.to_str().unwrap()]);
    let mut import = import
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !zarf.kubernetes().claims().contains(&claim.to_owned()) {
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "Helm never began"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    import.kill().unwrap();
    import.wait().unwrap();
    let program = zarf.program().display().to_string();
    let killed = Command::new("pkill")
        .args(["-KILL", "-f", &program])
        .status();
    assert!(killed.unwrap().success(), "zarf was not at work");
}

#[test]
fn a_power_cut_while_helm_waits_keeps_no_later_bundle_out() {
    let Some((zarf, centre, site)) = scene() else {
        return;
    };
    // The first one ever, cut off, and again: nothing was deployed before it.
    let first = centre.publish(&zarf.draft(vec![waits(&zarf, "a", "one")]));
    cut_while_helm_waits(&zarf, &site, &first, "a");
    zarf.kubernetes().let_go();
    let done = site.import(&first);
    assert_eq!(code(&done), 0, "{}{}", stdout(&done), stderr(&done));
    assert_eq!(zarf.there()["a"], "one");
    // An upgrade, cut off, and then another bundle.
    let with_more = zarf.with(
        "a",
        &format!(
            "{}---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: b}}\nspec: {{accessModes: [ReadWriteOnce], \
             resources: {{requests: {{storage: 1Gi}}}}}}\n",
            config_map("a", "two")
        ),
        None,
    );
    let second = centre.publish(&zarf.draft(vec![with_more]));
    cut_while_helm_waits(&zarf, &site, &second, "b");
    let third = centre.publish(&zarf.draft(vec![zarf.load("a", "three")]));
    let done = site.import(&third);
    assert_eq!(code(&done), 0, "{}{}", stdout(&done), stderr(&done));
    assert_eq!((site.active(), &*zarf.there()["a"]), (Some(3), "three"));
}

/// Someone at the keyboard of the cluster, with the same Zarf.
struct Someone<'a> {
    zarf: &'a Zarf,
    folder: tempfile::TempDir,
    name: String,
}

impl<'a> Someone<'a> {
    /// Makes a package of the name that the assignment `a` has, with a `ConfigMap` `own`.
    fn new(zarf: &'a Zarf) -> Self {
        let namespace = zarf.kubernetes().namespace();
        let this = Self {
            zarf,
            folder: tempfile::tempdir().unwrap(),
            name: format!("{namespace}-a"),
        };
        let definition = json!({"kind": "ZarfPackageConfig", "metadata": {"name": this.name}, "components": [{"name": "own",
            "required": true, "manifests": [{"name": "own", "namespace": namespace, "files": ["thing.yaml"]}]}]});
        let write = |name: &str, text: String| std::fs::write(this.folder.path().join(name), text);
        write("zarf.yaml", definition.to_string()).unwrap();
        write("thing.yaml", config_map("own", "someone's")).unwrap();
        this.types(&["package", "create", ".", "--confirm", "--skip-sbom"]);
        this
    }

    fn types(&self, arguments: &[&str]) {
        let mut command = Command::new(self.zarf.program());
        let done = command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.zarf.kubernetes().kubeconfig())
            .checked()
            .unwrap();
        assert!(done.status.success(), "{}", stderr(&done));
    }

    fn package(&self) -> String {
        let made = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names = made.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .find(|name| name.starts_with("zarf-package-"))
            .unwrap()
    }

    fn deploys(&self) {
        self.types(&[
            "package",
            "deploy",
            &self.package(),
            "--confirm",
            "--connected",
        ]);
    }
}

#[test]
fn a_package_that_somebody_else_deployed_is_not_touched() {
    let Some((zarf, centre, site)) = scene() else {
        return;
    };
    let someone = Someone::new(&zarf);
    someone.deploys();
    let refused = site.import(&centre.publish(&zarf.draft(vec![zarf.load("a", "ours")])));
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    let printed = stdout(&refused);
    let words = "is deployed on this cluster and is not Outhaul's";
    assert!(printed.contains(words), "{printed}");
    let there = zarf.there();
    assert_eq!(there.get("own").map(String::as_str), Some("someone's"));
    assert!(!there.contains_key("a"), "{there:?}");

    // As a file of the payload it is Outhaul's from the first deployment on.
    someone.types(&["package", "remove", &someone.name, "--confirm"]);
    let bytes = std::fs::read(someone.folder.path().join(someone.package())).unwrap();
    let load = Load::new("a").payload(&someone.package(), bytes);
    site.take(&centre.publish(&zarf.draft(vec![load])));
    assert_eq!(zarf.there()["own"], "someone's");
    zarf.kubernetes().spoil("own");
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.status()["assignments"][0]["status"], "drifted");
    let other = centre.publish(&zarf.draft(vec![zarf.load("b", "one")]));
    assert_eq!(
        site.ok(&["import", other.to_str().unwrap()])["state"],
        "gated"
    );
    site.ok(&["approve", "3"]);
    let there = zarf.there();
    assert!(
        !there.contains_key("own") && there["b"] == "one",
        "{there:?}"
    );
}

#[test]
fn a_package_that_takes_the_place_of_ours_is_drift_and_is_not_removed_for_ours() {
    let Some((zarf, centre, site)) = scene() else {
        return;
    };
    site.take(&centre.publish(&zarf.draft(vec![zarf.load("a", "ours")])));
    let someone = Someone::new(&zarf);
    someone.deploys();
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    let found = site.status()["assignments"][0].clone();
    assert_eq!(found["status"], "drifted", "{found}");
    let words = "someone deployed another package of its name";
    assert!(
        found["message"].as_str().unwrap().contains(words),
        "{found}"
    );
    let other = centre.publish(&zarf.draft(vec![zarf.load("b", "one")]));
    assert_eq!(
        site.ok(&["import", other.to_str().unwrap()])["state"],
        "gated"
    );
    site.ok(&["approve", "2"]);
    let there = zarf.there();
    assert!(
        there.contains_key("own") && there.contains_key("a"),
        "{there:?}"
    );
    assert_eq!(site.status()["left_behind"], json!(["a"]));
}

#[test]
fn two_sites_on_one_cluster_are_kept_apart() {
    let Some((zarf, centre, site)) = scene() else {
        return;
    };
    let bundle = centre.publish(&zarf.draft(vec![zarf.load("a", "one")]));
    site.take(&bundle);
    let second = Site::new(&centre, "drone-8");
    second.configure(&zarf.settings());
    let refused = second.import(&bundle);
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    let printed = stdout(&refused);
    assert!(printed.contains("on the site `drone-7`"), "{printed}");
    assert_eq!(zarf.there()["a"], "one");
}

#[test]
fn what_is_no_zarf_and_what_is_killed_is_no_bundles_fault() {
    let Some((zarf, centre, site)) = scene() else {
        return;
    };
    site.take(&centre.publish(&zarf.draft(vec![zarf.load("a", "one")])));
    let bundle = centre.publish(&zarf.draft(vec![zarf.load("a", "two")]));
    let program = zarf.program();
    let real = std::fs::read_link(&program).unwrap();
    for (script, words) in [
        ("#!/bin/sh\nexit 0\n".to_owned(), "it is not Zarf"),
        (
            format!(
                "#!/bin/sh\ncase \"$*\" in *deploy*) kill -9 $$ ;; esac\nexec {} \"$@\"\n",
                real.display()
            ),
            "it was ended: signal: 9",
        ),
    ] {
        std::fs::remove_file(&program).unwrap();
        std::fs::write(&program, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        assert_reports(&site.import(&bundle), 3, &[words, "help: install Zarf"]);
    }
    std::fs::remove_file(&program).unwrap();
    std::os::unix::fs::symlink(real, &program).unwrap();
    site.take(&bundle);
    assert_eq!(zarf.there()["a"], "two");
}
