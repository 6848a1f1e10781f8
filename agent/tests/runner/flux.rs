//! Flux on site, with a real kustomize-controller and source-controller: what it fetches, what it says, and what is in its way.
//!
//! What comes in: bundles that a real fleet signed, the real `outhaul-mirror`, and a real source-controller, which clones from it. What goes out: what Flux made, what the agent said of it, and what
//! it reports.

use std::fs;

use std::path::{Path, PathBuf};

use outhaul_bundle::report::{ReportEvent, StepResult};
use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::flux::Flux as Controller;
use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use outhaul_tests::mirror::Mirror;
use serde_json::json;

use crate::reconciler_flux::Flux;
use crate::reconcilers::Fixture as _;
use crate::served::{git, with_repository};
use crate::site::{Site, assert_reports, code, stderr, stdout};

/// What Kalypso's template for Flux makes: older versions of the kinds, one namespace, and a secret that is not
/// on site.
const KALYPSO: &str = "apiVersion: source.toolkit.fluxcd.io/v1beta2
kind: GitRepository
metadata:
  name: \"hello\"
  namespace: flux-system
spec:
  interval: 30s
  url: \"https://github.com/org/repo\"
  ref:
    branch: \"main\"
  secretRef:
      name: repo-secret
---
apiVersion: kustomize.toolkit.fluxcd.io/v1beta2
kind: Kustomization
metadata:
  name: \"hello\"
  namespace: flux-system
spec:
  interval: 30s
  targetNamespace: \"dev-hello\"
  sourceRef:
    kind: GitRepository
    name: \"hello\"
  path: \"./app\"
  prune: true
";
const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: dev-hello}\n";

/// A site whose Flux fetches from its mirror.
struct Offline {
    _flux: Controller,
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
        let sources = Controller::sources_or_skip()?;
        let flux = Controller::start(&programs, &server, &folder.join("flux"), sources).unwrap();
        let mirror = Mirror::start(&site.state()).unwrap();
        site.configure(&format!(
            "[kubernetes]\nkubeconfig = \"{}\"\n[flux]\nmirror = \"{}\"\n",
            server.kubeconfig(ADMIN).display(),
            mirror.url
        ));
        let origin = folder.join("origin");
        fs::create_dir_all(origin.join("app")).unwrap();
        git(&origin, &["init", "--quiet"]);
        Some(Self {
            _flux: flux,
            server,
            mirror,
            site,
            centre,
            origin,
        })
    }

    /// The team's next version, as the bundle with it.
    fn version(&self, content: &str) -> (Draft, String) {
        let map = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: hello}}\ndata: {{content: \"{content}\"}}\n"
        );
        fs::write(self.origin.join("app/map.yaml"), map).unwrap();
        git(&self.origin, &["add", "--all"]);
        git(&self.origin, &["commit", "--quiet", "-m", content]);
        let load = Load::new("hello")
            .file("namespace.yaml", NAMESPACE)
            .file("reconciler.yaml", KALYPSO);
        let load = with_repository(load, &self.origin);
        let tip = git(&self.origin, &["rev-parse", "HEAD"]);
        (Draft::new([load]).reconciler("flux"), tip)
    }

    fn content(&self) -> Option<String> {
        let path = "/api/v1/namespaces/dev-hello/configmaps/hello";
        let found = self.server.get(path).unwrap()?;
        Some(found["data"]["content"].as_str().unwrap().to_owned())
    }

    fn steps(&self, number: u64) -> Vec<StepResult> {
        newest(&self.site, number)
    }
}

/// The steps of the newest report about bundle `number` as it runs.
pub fn newest(site: &Site, number: u64) -> Vec<StepResult> {
    let reports = site.reports().into_iter().rev();
    let found = reports.filter_map(|report| match report.event {
        ReportEvent::Generation(printed) | ReportEvent::Observation(printed) => Some(printed),
        _ => None,
    });
    let mut found =
        found.filter(|printed| printed.number == number && !printed.assignments.is_empty());
    found.next().unwrap().assignments.remove(0).steps
}

pub fn said<'a>(steps: &'a [StepResult], kind: &str) -> &'a str {
    let step = steps.iter().find(|step| step.name.starts_with(kind));
    step.map_or_else(|| panic!("{steps:?}"), |step| step.message.as_str())
}

#[test]
fn kalypsos_template_is_fetched_from_the_mirror_followed_rolled_back_and_pruned() {
    let Some(offline) = Offline::new() else {
        return;
    };
    let (site, server, centre) = (&offline.site, &offline.server, &offline.centre);
    let (first, tip) = offline.version("one");
    site.take(&centre.publish(&first));
    assert_eq!(offline.content().as_deref(), Some("one"));
    // What was changed for this site, and Flux's words, are in the report.
    let steps = offline.steps(1);
    let mirror = &offline.mirror.url;
    let printed = said(&steps, "GitRepository");
    assert!(
        printed.starts_with(
            "applied as `source.toolkit.fluxcd.io/v1`: the cluster does not have `v1beta2`"
        ),
        "{printed}"
    );
    let fetched =
        format!("`https://github.com/org/repo` is fetched from {mirror}/github.com/org/repo");
    assert!(printed.contains(&fetched), "{printed}");
    let printed = said(&steps, "Kustomization");
    assert!(
        printed.ends_with(&format!("Applied revision: main@sha1:{tip}")),
        "{printed}"
    );
    let source = "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/hello";
    let found = server.get(source).unwrap().unwrap();
    assert_eq!(found["spec"]["secretRef"]["name"], "outhaul-mirror-hello");

    // The look for drift compares with what was applied here, and a request by hand is not a drift.
    let by_hand = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}});
    server.patch(source, "flux", &by_hand).unwrap();
    while server.get(source).unwrap().unwrap()["status"]["lastHandledReconcileAt"] != "now" {
        std::thread::yield_now();
    }
    assert_eq!(code(&site.run(&["run", "--once"])), 0);
    assert_eq!(site.status()["assignments"][0]["status"], "compliant");
    let steps = offline.steps(1);
    let printed = said(&steps, "Kustomization");
    assert_eq!(printed, format!("Applied revision: main@sha1:{tip}"));

    // Not a byte of the objects differs, only what is fetched.
    let (second, tip) = offline.version("two");
    site.take(&centre.publish(&second));
    assert_eq!(offline.content().as_deref(), Some("two"));
    let printed = offline.steps(2);
    assert!(
        said(&printed, "Kustomization").ends_with(&tip),
        "{printed:?}"
    );
    site.ok(&["rollback", "--who", "ann"]);
    assert_eq!(offline.content().as_deref(), Some("one"));

    let other = Load::new("other").file(
        "map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: default}\n",
    );
    let bundle = centre.publish(&Draft::new([other]).reconciler("flux"));
    assert_eq!(code(&site.import(&bundle)), 0);
    site.ok(&["approve", "3"]);
    assert_eq!(site.active(), Some(3));
    assert_eq!(offline.content(), None, "Flux has pruned it");
    let secret = "/api/v1/namespaces/flux-system/secrets/outhaul-mirror-hello";
    for gone in [source, secret] {
        assert!(server.get(gone).unwrap().is_none(), "{gone}");
    }
}

/// A site whose Flux has its sources from a folder, and that waits five seconds.
fn impatient() -> Option<(Flux, Centre, Site)> {
    let mut flux = Flux::new()?;
    flux.clean();
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure(&format!("{}wait_s = 5\n", flux.settings()));
    Some((flux, centre, site))
}

fn draft(loads: Vec<Load>) -> Draft {
    Draft::new(loads).reconciler("flux")
}

#[test]
fn a_flux_that_does_not_answer_is_named_and_the_work_goes_on_when_it_is_back() {
    let Some((mut flux, centre, site)) = impatient() else {
        return;
    };
    let thing = |flux: &Flux, name: &str, content: &str| flux.made_of(name, content, "thing", 5);
    let keeps = thing(&flux, "keeps", "one");
    site.take(&centre.publish(&draft(vec![
        thing(&flux, "a", "one"),
        keeps.clone(),
        keeps_more(&flux),
        keeps_most(&flux),
    ])));
    // What Flux made is gone: `apply` asks Flux again, though nothing in its own objects differs.
    let path = format!("/api/v1/namespaces/{}/configmaps/a", flux.namespace());
    flux.server().ask("DELETE", &path, None).unwrap();
    assert_eq!(flux.content("a"), None);
    assert_eq!(code(&site.run(&["apply"])), 0);
    assert_eq!(flux.content("a").as_deref(), Some("one"));
    // A Flux that has stopped says for ever what it said last. The second look sees that nobody answers.
    stop_at_rest(&mut flux, &["a", "keeps", "more", "most"]);
    assert_eq!(code(&site.run(&["run", "--once"])), 0);
    assert_eq!(code(&site.run(&["run", "--once"])), 0);
    let printed = site.status()["assignments"][0].to_string();
    assert!(
        printed.contains("Flux has not answered the request to look at it"),
        "{printed}"
    );
    let changed = vec![
        thing(&flux, "a", "two"),
        keeps.clone(),
        keeps_more(&flux),
        keeps_most(&flux),
    ];
    let blocked = site.import(&centre.publish(&draft(changed)));
    let words = [
        "Flux does not answer: `Kustomization.kustomize.toolkit.fluxcd.io ",
        "no controller of Flux has processed it yet",
        "help: `kubectl get pods --all-namespaces --selector app.kubernetes.io/part-of=flux`",
    ];
    assert_reports(&blocked, 3, &words);
    assert_eq!(flux.content("a").as_deref(), Some("one"));
    let status = stdout(&site.run(&["status"]));
    assert!(status.contains("Flux does not answer"), "{status}");
    flux.controller.go_on().unwrap();
    assert_eq!(code(&site.run(&["apply"])), 0);
    assert_eq!(site.active(), Some(2));
    assert_eq!(flux.content("a").as_deref(), Some("two"));

    // Nothing goes while nobody can tell whether the rest is well: what Flux needs for pruning stays.
    stop_at_rest(&mut flux, &["a", "keeps", "more", "most"]);
    let less = vec![keeps, keeps_more(&flux), keeps_most(&flux)];
    let blocked = site.import(&centre.publish(&draft(less)));
    let words = [
        "Flux does not answer: `Kustomization.kustomize.toolkit.fluxcd.io ",
        "help: `kubectl get pods",
    ];
    assert_reports(&blocked, 3, &words);
    assert_eq!(flux.content("a").as_deref(), Some("two"));
    let source = flux
        .kustomization("a")
        .replace("kustomize.toolkit", "source.toolkit");
    let source = source.replace("kustomizations", "gitrepositories");
    assert!(
        flux.server().get(&source).unwrap().is_some(),
        "it is not next"
    );
    flux.controller.go_on().unwrap();
    assert_eq!(code(&site.run(&["apply"])), 0);
    assert_eq!(flux.content("a"), None);
    assert!(flux.server().get(&source).unwrap().is_none());
}

/// Ends the controller while it works on nothing: what it works on, it would say for ever.
fn stop_at_rest(flux: &mut Flux, names: &[&str]) {
    loop {
        flux.controller.stop();
        if names.iter().all(|name| rests(flux, name)) {
            return;
        }
        flux.controller.go_on().unwrap();
        while !names.iter().all(|name| rests(flux, name)) {
            std::thread::yield_now();
        }
    }
}

fn rests(flux: &Flux, name: &str) -> bool {
    let found = flux.server().get(&flux.kustomization(name)).unwrap();
    let conditions = found.unwrap()["status"]["conditions"].clone();
    let mut conditions = conditions.as_array().into_iter().flatten();
    conditions.all(|found| found["type"] != "Reconciling" && found["status"] != "Unknown")
}

fn keeps_more(flux: &Flux) -> Load {
    flux.made_of("more", "one", "thing", 5)
}

fn keeps_most(flux: &Flux) -> Load {
    flux.made_of("most", "one", "thing", 5)
}

#[test]
fn who_suspends_flux_by_hand_is_named_and_what_flux_refuses_is_reported_word_for_word() {
    let Some((flux, centre, site)) = impatient() else {
        return;
    };
    let load = |content: &str| draft(vec![flux.made_of("a", content, "thing", 5)]);
    site.take(&centre.publish(&load("one")));
    let broken = draft(vec![flux.made_of("a", "two", "nowhere", 5)]);
    let refused = site.import(&centre.publish(&broken));
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    let printed = stdout(&refused);
    assert!(
        printed.contains("not ready after 5 s: `Kustomization")
            && printed.contains("ArtifactFailed: kustomization path not found: stat "),
        "{printed}"
    );
    assert_eq!(site.active(), Some(1));
    assert_eq!(site.status()["assignments"][0]["status"], "compliant");

    let suspend = json!({"spec": {"suspend": true}});
    flux.server()
        .patch(&flux.kustomization("a"), "flux", &suspend)
        .unwrap();
    assert_eq!(code(&site.run(&["run", "--once"])), 0);
    let status = site.status();
    assert_eq!(status["assignments"][0]["status"], "drifted", "{status}");
    let seen = newest(&site, 1);
    let printed = said(&seen, "Kustomization");
    assert!(
        printed.starts_with("it was changed: .spec.suspend (fields of it were set by flux"),
        "{printed}"
    );
    let blocked = site.import(&centre.publish(&load("three")));
    assert_reports(
        &blocked,
        3,
        &["conflict with \"flux\" using kustomize.toolkit.fluxcd.io/v1: .spec.suspend"],
    );
    assert_eq!(flux.content("a").as_deref(), Some("one"));
}

#[test]
fn a_cluster_without_flux_is_no_bundles_fault() {
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
    server
        .create(
            "/api/v1/namespaces",
            &json!({"metadata": {"name": "flux-system"}}),
        )
        .unwrap();
    let load = Load::new("hello")
        .file("a-namespace.yaml", NAMESPACE)
        .file("reconciler.yaml", KALYPSO);
    let bundle = centre.publish(&draft(vec![load]));
    let words = [
        "this cluster has no Flux that knows `GitRepository`: its API has no `source.toolkit.fluxcd.io` with it",
        "help: install Flux",
    ];
    assert_reports(&site.import(&bundle), 3, &words);
    assert!(
        server
            .get("/api/v1/namespaces/dev-hello")
            .unwrap()
            .is_none()
    );
    // Its kinds are there, and nobody who looks at them.
    Controller::define(&programs, &server).unwrap();
    let waits = site.import(&bundle);
    assert_reports(&waits, 3, &["Flux does not answer: `GitRepository"]);
}

fn configure(site: &Site, kubeconfig: &Path) {
    site.configure(&format!(
        "[kubernetes]\nkubeconfig = \"{}\"\nwait_s = 2\n",
        kubeconfig.display()
    ));
}
