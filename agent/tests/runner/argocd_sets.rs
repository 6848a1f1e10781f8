//! `ApplicationSet`s on site, with a real `ApplicationSet` controller: what it makes, what it says, and what is in its way.
//!
//! What comes in: bundles that a real fleet signed, the real `outhaul-mirror`, and a real Argo CD, which clones from it.
//! Kubernetes' garbage collector does not run here: a thread does for applications what it does. What goes out: what Argo CD
//! made, what the agent said of it, and what it reports.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::argocd::{ArgoCd as Controller, NAMESPACE};
use outhaul_tests::kubernetes::{ADMIN, ApiServer, Requests};
use outhaul_tests::mirror::Mirror;
use serde_json::{Value, json};

use crate::flux::{newest, said};
use crate::served::{git, with_repository};
use crate::site::{Site, assert_reports, code, stderr, stdout};

/// Removes applications whose set is gone, until it is dropped.
struct GarbageCollector {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl GarbageCollector {
    fn start(server: Requests) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                // The server ends before its collector.
                let _ = Controller::collect_garbage(&server);
                std::thread::park_timeout(std::time::Duration::from_millis(300));
            }
        });
        Self {
            ends,
            thread: Some(thread),
        }
    }
}

impl Drop for GarbageCollector {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// A site whose Argo CD fetches from its mirror.
struct Offline {
    collector: Option<GarbageCollector>,
    argocd: Controller,
    server: ApiServer,
    mirror: Mirror,
    site: Site,
    centre: Centre,
    origin: PathBuf,
}

/// The generator of each folder below `apps/`, read from the team's repository.
const FOLDERS: &str = "  - git:
      repoURL: https://github.com/org/repo
      revision: main
      directories: [{path: 'apps/*'}]
";
/// A list of two.
const LIST: &str = "  - list:
      elements:
      - {path: {path: apps/one, basename: one}, url: 'https://github.com/org/repo'}
      - {path: {path: apps/two, basename: two}, url: 'https://github.com/org/repo'}
";

/// A set whose applications are of `generators`, and fetch from `url`.
fn set(generators: &str, url: &str, path: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {{name: hello, namespace: argocd}}
spec:
  goTemplate: true
  goTemplateOptions: ['missingkey=error']
  generators:
{generators}  template:
    metadata:
      name: 'hello-{{{{.path.basename}}}}'
      finalizers: [resources-finalizer.argocd.argoproj.io/background]
    spec:
      project: default
      destination: {{server: 'https://kubernetes.default.svc', namespace: dev-hello}}
      source:
        repoURL: '{url}'
        targetRevision: main
        path: '{path}'
      syncPolicy:
        automated: {{prune: true, selfHeal: true}}
        syncOptions: [CreateNamespace=true]
"
    )
}

const URL: &str = "https://github.com/org/repo";
const PATH: &str = "{{.path.path}}";

impl Offline {
    #[track_caller]
    fn new(wait_s: u64) -> Option<Self> {
        let programs = Controller::available_or_skip()?;
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        let folder = site.folder.path().to_owned();
        let server = ApiServer::start_or_skip(&folder.join("server"))?.unwrap();
        let argocd = Controller::start(&programs, &server, &folder.join("argocd")).unwrap();
        let mirror = Mirror::start(&site.state()).unwrap();
        let authority = site.state().join("serve/tls/ca.pem");
        fs::copy(authority, argocd.authority_of("127.0.0.1")).unwrap();
        site.configure(&format!(
            "[kubernetes]\nkubeconfig = \"{}\"\nwait_s = {wait_s}\n[argocd]\nmirror = \"{}\"\n",
            server.kubeconfig(ADMIN).display(),
            mirror.url
        ));
        let origin = folder.join("origin");
        fs::create_dir_all(&origin).unwrap();
        git(&origin, &["init", "--quiet"]);
        Some(Self {
            collector: Some(GarbageCollector::start(server.requests())),
            argocd,
            server,
            mirror,
            site,
            centre,
            origin,
        })
    }

    /// The bundle with `set`, and with the team's next version, which has a folder for each of `apps`.
    fn version(&self, set: &str, content: &str, apps: &[&str]) -> Draft {
        let _ = fs::remove_dir_all(self.origin.join("apps"));
        for app in apps {
            let map = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {app}}}\ndata: {{content: \"{content}\"}}\n"
            );
            let folder = self.origin.join("apps").join(app);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("map.yaml"), map).unwrap();
        }
        git(&self.origin, &["add", "--all"]);
        git(
            &self.origin,
            &["commit", "--quiet", "--allow-empty", "-m", content],
        );
        let load = Load::new("hello").file("reconciler.yaml", set);
        Draft::new([with_repository(load, &self.origin)]).reconciler("argocd")
    }

    fn content(&self, app: &str) -> Option<String> {
        let path = format!("/api/v1/namespaces/dev-hello/configmaps/{app}");
        let found = self.server.get(&path).unwrap()?;
        Some(found["data"]["content"].as_str().unwrap().to_owned())
    }

    fn of_argocd(&self, plural: &str, name: &str) -> Option<Value> {
        let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/{plural}/{name}");
        self.server.get(&path).unwrap()
    }

    fn tip(&self) -> String {
        git(&self.origin, &["rev-parse", "HEAD"])
    }
}

/// A bundle of the same stream without the set.
fn without_it() -> Draft {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: default}\n";
    Draft::new([Load::new("other").file("map.yaml", map)]).reconciler("argocd")
}

#[test]
fn an_application_set_is_generated_from_the_mirror_followed_rolled_back_and_pruned() {
    let Some(offline) = Offline::new(120) else {
        return;
    };
    let (site, centre) = (&offline.site, &offline.centre);
    let set = set(FOLDERS, URL, PATH);
    site.take(&centre.publish(&offline.version(&set, "1", &["one", "two"])));
    let first = offline.tip();
    for app in ["one", "two"] {
        assert_eq!(offline.content(app).as_deref(), Some("1"), "{app}");
    }
    // Which address was changed, and Argo CD's words on the set and each application, are in the report.
    let steps = newest(site, 1);
    let printed = said(&steps, "ApplicationSet");
    let fetched = format!(
        "`{URL}` is fetched from {}/github.com/org/repo",
        offline.mirror.url
    );
    assert!(printed.contains(&fetched), "{printed}");
    for words in [
        "All applications have been generated successfully; 2 applications; `hello-one`: ",
        &format!("`hello-two`: Synced to {first}; Healthy; successfully synced (all tasks run)"),
    ] {
        assert!(printed.contains(words), "{printed}");
    }
    assert_eq!(code(&site.run(&["run", "--once"])), 0, "no drift");
    assert_eq!(site.status()["assignments"][0]["status"], "compliant");

    // Not a byte of the set differs: another folder, another content, and one folder less.
    site.take(&centre.publish(&offline.version(&set, "2", &["one", "three"])));
    assert_eq!(offline.content("one").as_deref(), Some("2"));
    assert_eq!(offline.content("three").as_deref(), Some("2"));
    assert_eq!(offline.content("two"), None, "its folder is gone");
    let steps = newest(site, 2);
    let printed = said(&steps, "ApplicationSet");
    assert!(printed.contains(&offline.tip()), "{printed}");

    site.ok(&["rollback", "--who", "ann"]);
    assert_eq!(offline.content("one").as_deref(), Some("1"));
    assert_eq!(offline.content("two").as_deref(), Some("1"));
    assert_eq!(offline.content("three"), None);

    assert_eq!(code(&site.import(&centre.publish(&without_it()))), 0);
    let approved = site.run(&["approve", "3"]);
    assert_eq!(code(&approved), 0, "{}", stderr(&approved));
    assert_eq!(site.active(), Some(3));
    assert!(offline.of_argocd("applicationsets", "hello").is_none());
    for app in ["one", "two"] {
        let name = format!("hello-{app}");
        assert!(offline.of_argocd("applications", &name).is_none(), "{name}");
        assert_eq!(offline.content(app), None, "Argo CD has pruned `{app}`");
    }
}

#[test]
fn a_list_that_changes_and_gives_the_address_is_followed_without_a_conflict() {
    let Some(offline) = Offline::new(120) else {
        return;
    };
    let (site, centre) = (&offline.site, &offline.centre);
    let both = set(LIST, "{{.url}}", PATH);
    site.take(&centre.publish(&offline.version(&both, "1", &["one", "two"])));
    assert_eq!(offline.content("two").as_deref(), Some("1"));
    assert_eq!(code(&site.run(&["run", "--once"])), 0);
    assert_eq!(site.status()["assignments"][0]["status"], "compliant");
    // What Argo CD writes beside what was applied makes the next bundle no conflict.
    let notified =
        json!({"metadata": {"annotations": {"notified.notifications.argoproj.io": "{}"}}});
    let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/applicationsets/hello");
    offline.server.patch(&path, "argocd", &notified).unwrap();
    let one: String = LIST.split_inclusive('\n').take(3).collect();
    let less = set(&one, "{{.url}}", PATH);
    site.take(&centre.publish(&offline.version(&less, "2", &["one", "two"])));
    assert_eq!(offline.content("one").as_deref(), Some("2"));
    assert_eq!(offline.content("two"), None, "the list does not have it");
    site.ok(&["rollback", "--who", "ann"]);
    assert_eq!(offline.content("two").as_deref(), Some("1"));
}

#[test]
fn a_broken_application_and_a_generator_that_fails_are_told_in_argo_cds_words() {
    let Some(mut offline) = Offline::new(15) else {
        return;
    };
    let good = set(FOLDERS, URL, PATH);
    let bundle = offline
        .centre
        .publish(&offline.version(&good, "1", &["one"]));
    // The first start of a controller may take longer than this site waits.
    let runs = (0..6).any(|_| {
        offline.site.import(&bundle);
        offline.site.run(&["approve", "1"]);
        offline.site.active() == Some(1)
    });
    assert!(runs, "{}", offline.site.status());
    let refused = |offline: &Offline, set: &str, words: &[&str]| {
        let bundle = offline.centre.publish(&offline.version(set, "2", &["one"]));
        let refused = offline.site.import(&bundle);
        assert_eq!(code(&refused), 1, "{}", stderr(&refused));
        let printed = stdout(&refused);
        for word in words {
            assert!(printed.contains(word), "`{word}`: {printed}");
        }
        assert_eq!(offline.site.active(), Some(1));
        assert_eq!(offline.content("one").as_deref(), Some("1"));
        let status = offline.site.status();
        assert_eq!(status["assignments"][0]["status"], "compliant", "{status}");
    };
    let broken = set(FOLDERS, URL, "nowhere");
    refused(
        &offline,
        &broken,
        &[
            "not ready after 15 s: `ApplicationSet.argoproj.io argocd/hello`: `Application hello-one`, which it made: \
             ComparisonError: ",
            "nowhere: app path does not exist",
        ],
    );
    // A parameter that nothing gives.
    let missing = set(FOLDERS, URL, "{{.path.nothing}}");
    let words = [
        "not ready after 15 s: `ApplicationSet.argoproj.io argocd/hello`: ",
        "map has no entry for key \"nothing\"",
    ];
    refused(&offline, &missing, &words);
    // A repository that the bundle does not bring.
    let elsewhere = set(&FOLDERS.replace("org/repo", "org/other"), URL, PATH);
    let words = [
        "not ready after 15 s: `ApplicationSet.argoproj.io argocd/hello`: ",
        "github.com/org/other",
    ];
    refused(&offline, &elsewhere, &words);

    // A controller that does not run is no bundle's fault.
    offline.argocd.stop_sets();
    let bundle = offline
        .centre
        .publish(&offline.version(&good, "3", &["one"]));
    let words = [
        "Argo CD does not answer: `ApplicationSet.argoproj.io argocd/hello`: Argo CD's ApplicationSet controller has not \
         answered the request to look at it",
    ];
    assert_reports(&offline.site.import(&bundle), 3, &words);
    offline.argocd.start_sets().unwrap();
    let number = offline.site.status()["unfinished"].as_u64();
    let runs = (0..6).any(|_| {
        offline.site.run(&["apply"]);
        offline.site.active() == number
    });
    assert!(runs, "{}", offline.site.status());
    assert_eq!(offline.content("one").as_deref(), Some("3"));

    // Nor is a garbage collector that does not run: what the set made is waited for.
    drop(offline.collector.take());
    assert_eq!(
        code(&offline.site.import(&offline.centre.publish(&without_it()))),
        0
    );
    let waits = offline.site.status()["generations"][0]["number"].to_string();
    let gone = offline.site.run(&["approve", &waits]);
    let words = [
        "`Application.argoproj.io argocd/hello-one`, which `ApplicationSet.argoproj.io argocd/hello` made, is not gone \
         after 15 s: nobody has begun to remove it",
    ];
    assert_reports(&gone, 3, &words);
    offline.collector = Some(GarbageCollector::start(offline.server.requests()));
    assert_eq!(code(&offline.site.run(&["apply"])), 0);
    assert_eq!(offline.content("one"), None);
}
