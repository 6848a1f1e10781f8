//! Argo CD on site, a real one: what it fetches from the site's mirror, what it says, and what is in its way.
//!
//! What comes in: bundles that a real fleet signed, the real `outhaul-mirror`, and a real Argo CD, which clones
//! from it. What goes out: what Argo CD made, what the agent said of it, and what it reports.

use std::fs;
use std::path::{Path, PathBuf};

use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::argocd::ArgoCd as Controller;
use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use outhaul_tests::mirror::Mirror;
use serde_json::json;

use crate::flux::{newest, said};
use crate::reconciler_argocd::ArgoCd;
use crate::reconcilers::Fixture as _;
use crate::served::{git, with_repository};
use crate::site::{Site, assert_reports, code, stderr, stdout};

const APPLICATION: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/hello";

/// What Kalypso's template for Argo CD makes, with what lets it prune where `finalizers` says so.
fn kalypso(finalizers: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: \"hello\"
  namespace: argocd
{finalizers}spec:
    destination:
        server: https://kubernetes.default.svc
        namespace: \"dev-hello\"
    project: default
    source:
        path: \"./app\"
        repoURL: \"https://github.com/org/repo\"
        targetRevision: \"main\"
        directory:
            recurse: true
            include: '*.yaml'
            exclude: 'kustomization.yaml'
    syncPolicy:
        automated:
            prune: true
            selfHeal: true
            allowEmpty: false
        syncOptions:
        - CreateNamespace=true
"
    )
}

/// Without a garbage collector, which runs on no test machine, what is deleted in the foreground stays.
const CASCADE: &str = "  finalizers: [resources-finalizer.argocd.argoproj.io/background]\n";

/// A site whose Argo CD fetches from its mirror.
struct Offline {
    _argocd: Controller,
    server: ApiServer,
    mirror: Mirror,
    site: Site,
    centre: Centre,
    origin: PathBuf,
}

impl Offline {
    #[track_caller]
    fn new() -> Option<Self> {
        let programs = Controller::available_or_skip()?;
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        let folder = site.folder.path().to_owned();
        let server = ApiServer::start_or_skip(&folder.join("server"))?.unwrap();
        let argocd = Controller::start(&programs, &server, &folder.join("argocd")).unwrap();
        let mirror = Mirror::start(&site.state()).unwrap();
        // What an operator does once, with `argocd-tls-certs-cm`.
        let authority = site.state().join("serve/tls/ca.pem");
        fs::copy(authority, argocd.authority_of("127.0.0.1")).unwrap();
        site.configure(&format!(
            "[kubernetes]\nkubeconfig = \"{}\"\nwait_s = 60\n[argocd]\nmirror = \"{}\"\n",
            server.kubeconfig(ADMIN).display(),
            mirror.url
        ));
        let origin = folder.join("origin");
        fs::create_dir_all(origin.join("app")).unwrap();
        git(&origin, &["init", "--quiet"]);
        Some(Self {
            _argocd: argocd,
            server,
            mirror,
            site,
            centre,
            origin,
        })
    }

    /// The team's next version, as the bundle with it.
    fn version(&self, content: &str, finalizers: &str) -> (Draft, String) {
        let map = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: hello}}\ndata: {{content: \"{content}\"}}\n"
        );
        fs::write(self.origin.join("app/map.yaml"), map).unwrap();
        git(&self.origin, &["add", "--all"]);
        git(&self.origin, &["commit", "--quiet", "-m", content]);
        let load = Load::new("hello").file("reconciler.yaml", kalypso(finalizers));
        let load = with_repository(load, &self.origin);
        let tip = git(&self.origin, &["rev-parse", "HEAD"]);
        (Draft::new([load]).reconciler("argocd"), tip)
    }

    fn content(&self) -> Option<String> {
        let path = "/api/v1/namespaces/dev-hello/configmaps/hello";
        let found = self.server.get(path).unwrap()?;
        Some(found["data"]["content"].as_str().unwrap().to_owned())
    }

    /// Lets the assignment go, with a bundle of another one that has the number `number`. Returns what was said.
    fn without_it(&self, number: u64) -> String {
        let other = Load::new("other").file(
            "map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: default}\n",
        );
        let bundle = self
            .centre
            .publish(&Draft::new([other]).reconciler("argocd"));
        assert_eq!(code(&self.site.import(&bundle)), 0);
        let approved = self.site.run(&["approve", &number.to_string()]);
        assert_eq!(code(&approved), 0, "{}", stderr(&approved));
        assert_eq!(self.site.active(), Some(number));
        assert!(self.server.get(APPLICATION).unwrap().is_none());
        stdout(&approved)
    }
}

#[test]
fn kalypsos_template_is_fetched_by_argo_cd_from_the_mirror_followed_rolled_back_and_pruned() {
    let Some(offline) = Offline::new() else {
        return;
    };
    let (site, server, centre) = (&offline.site, &offline.server, &offline.centre);
    let (first, tip) = offline.version("one", CASCADE);
    site.take(&centre.publish(&first));
    assert_eq!(offline.content().as_deref(), Some("one"));
    // What was changed for this site, and Argo CD's words, are in the report.
    let steps = newest(site, 1);
    let printed = said(&steps, "Application");
    let fetched = format!(
        "`https://github.com/org/repo` is fetched from {}/github.com/org/repo",
        offline.mirror.url
    );
    assert!(printed.contains(&fetched), "{printed}");
    let words = format!("Synced to {tip}; Healthy; successfully synced (all tasks run)");
    assert!(printed.ends_with(&words), "{printed}");

    // A request by hand is not a drift.
    let by_hand = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard"}}});
    server.patch(APPLICATION, "argocd", &by_hand).unwrap();
    let asked = |found: &serde_json::Value| {
        found["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_string()
    };
    while asked(&server.get(APPLICATION).unwrap().unwrap()) {
        std::thread::yield_now();
    }
    assert_eq!(code(&site.run(&["run", "--once"])), 0);
    assert_eq!(site.status()["assignments"][0]["status"], "compliant");

    // Not a byte of the object differs, only what is fetched.
    let (second, tip) = offline.version("two", CASCADE);
    site.take(&centre.publish(&second));
    assert_eq!(offline.content().as_deref(), Some("two"));
    let steps = newest(site, 2);
    assert!(said(&steps, "Application").contains(&tip), "{steps:?}");
    site.ok(&["rollback", "--who", "ann"]);
    assert_eq!(offline.content().as_deref(), Some("one"));

    offline.without_it(3);
    assert_eq!(offline.content(), None, "Argo CD has pruned it");
}

#[test]
fn a_mirror_that_does_not_run_is_no_bundles_fault() {
    let Some(offline) = Offline::new() else {
        return;
    };
    // A port that is never given out: another test may get one that was just left.
    let (site, url) = (&offline.site, "https://127.0.0.1:1");
    site.configure(&format!(
        "[kubernetes]\nkubeconfig = \"{}\"\nwait_s = 20\n[argocd]\nmirror = \"{url}\"\n",
        offline.server.kubeconfig(ADMIN).display(),
    ));
    let bundle = offline.centre.publish(&offline.version("one", CASCADE).0);
    drop(offline.mirror);
    let words = [
        &format!("`outhaul-mirror`, from which the cluster fetches, does not answer at {url}"),
        "help: see that `outhaul-mirror run` runs on this site",
    ];
    assert_reports(&site.import(&bundle), 3, &words);
    let status = stdout(&site.run(&["status"]));
    assert!(status.contains("does not answer at"), "{status}");
}

#[test]
fn what_stays_without_argo_cds_finalizer_is_said() {
    let Some(offline) = Offline::new() else {
        return;
    };
    let (first, _) = offline.version("one", "");
    offline.site.take(&offline.centre.publish(&first));
    let printed = offline.without_it(2);
    assert_eq!(offline.content().as_deref(), Some("one"));
    let words = "removed `hello`: `Application.argoproj.io argocd/hello`: it has no finalizer \
                 `resources-finalizer.argocd.argoproj.io`: the objects that Argo CD created are kept";
    assert!(printed.contains(words), "{printed}");
}

fn draft(loads: Vec<Load>) -> Draft {
    Draft::new(loads).reconciler("argocd")
}

#[test]
fn an_argo_cd_that_does_not_answer_is_named_and_what_it_refuses_is_told_word_for_word() {
    let Some(mut argocd) = ArgoCd::new() else {
        return;
    };
    argocd.clean();
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure(&argocd.settings());
    let load = |argocd: &ArgoCd, content: &str, folder: &str, wait_s: u64| {
        draft(vec![argocd.made_of("a", content, folder, wait_s)])
    };
    site.take(&centre.publish(&load(&argocd, "one", "thing", 60)));
    argocd.controller.stop();
    let two = centre.publish(&load(&argocd, "two", "thing", 5));
    let blocked = site.import(&two);
    let words = [
        "Argo CD does not answer: `Application.argoproj.io ",
        "Argo CD has not answered the request to look at it",
        "help: `kubectl get pods --all-namespaces --selector app.kubernetes.io/part-of=argocd`",
    ];
    assert_reports(&blocked, 3, &words);
    assert_eq!(argocd.content("a").as_deref(), Some("one"));
    let status = stdout(&site.run(&["status"]));
    assert!(status.contains("Argo CD does not answer"), "{status}");
    argocd.controller.go_on().unwrap();
    // A controller that has just started may take longer than the stream's five seconds, or say first that it does not
    // know its project: then the bundle was left, and a person lets it in again.
    let runs = (0..40).any(|_| {
        if site.active() != Some(2) && site.state_of(2) == "reverted" {
            site.run(&["approve", "2"]);
            site.import(&two);
        } else if site.active() != Some(2) {
            site.run(&["apply"]);
        }
        site.active() == Some(2)
    });
    assert!(runs, "{}", site.status());
    assert_eq!(argocd.content("a").as_deref(), Some("two"));

    let refused = site.import(&centre.publish(&load(&argocd, "three", "nowhere", 10)));
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    let printed = stdout(&refused);
    assert!(
        printed.contains("not ready after 10 s: `Application.argoproj.io ")
            && printed.contains("ComparisonError: ")
            && printed.contains("nowhere: app path does not exist"),
        "{printed}"
    );
    assert_eq!(site.active(), Some(2));
    assert_eq!(site.status()["assignments"][0]["status"], "compliant");
}

#[test]
fn a_cluster_without_argo_cd_is_no_bundles_fault() {
    let Some(programs) = Controller::available_or_skip() else {
        return;
    };
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let Some(server) = ApiServer::start_or_skip(&site.folder.path().join("server")) else {
        return;
    };
    let server = server.unwrap();
    configure(&site, &server.kubeconfig(ADMIN));
    let namespace = json!({"metadata": {"name": "argocd"}});
    server.create("/api/v1/namespaces", &namespace).unwrap();
    let load = Load::new("hello").file("reconciler.yaml", kalypso(CASCADE));
    let bundle = centre.publish(&draft(vec![load]));
    let words = [
        "this cluster has no Argo CD that knows `Application`: its API has no `argoproj.io` with it",
        "help: install Argo CD",
    ];
    assert_reports(&site.import(&bundle), 3, &words);
    // Its kinds are there, and nobody who looks at them.
    Controller::define(&programs, &server).unwrap();
    let waits = site.import(&bundle);
    assert_reports(&waits, 3, &["Argo CD does not answer: `Application"]);
}

fn configure(site: &Site, kubeconfig: &Path) {
    site.configure(&format!(
        "[kubernetes]\nkubeconfig = \"{}\"\nwait_s = 2\n",
        kubeconfig.display()
    ));
}
