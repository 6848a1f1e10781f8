//! What every reconciler does alike: one set of scenarios, each with one body, over all of them.
//!
//! What comes in: a [`Fixture`] per reconciler, and bundles that a real fleet signed. What goes out: what is
//! there afterwards, what the agent said, and what it reports. The agent is the real program, killed and
//! interrupted as people and power cuts do it.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outhaul_bundle::report::{GenerationState, ReportEvent};
use outhaul_test_kit::{Centre, Draft, Load};

use crate::reconciler_argocd::ArgoCd;
use crate::reconciler_fleet::Fleet;
use crate::reconciler_flux::Flux;
use crate::reconciler_kubernetes::Kubernetes;
use crate::reconciler_symphony::Symphony;
use crate::reconciler_zarf::Zarf;
use crate::reconcilers::{Ansible, Fixture, Folder, Hook, There};
use crate::service::Service;
use crate::site::{Site, code, stderr, stdout};

const SIGKILL: i32 = 9;

/// A centre, and a site with one reconciler.
struct Stage<'a> {
    fixture: &'a mut dyn Fixture,
    centre: Centre,
    site: Site,
}

/// A scenario and its name.
type Scenario = (&'static str, fn(&mut Stage<'_>));

const SCENARIOS: [Scenario; 13] = [
    ("fresh", fresh),
    ("unchanged", unchanged),
    ("change", change),
    ("drift, reported", drift_is_reported),
    ("drift, corrected", drift_is_corrected),
    ("prune", prune),
    ("failing", failing),
    ("killed at an instant", killed_at_an_instant),
    ("killed while it removes", killed_while_it_removes),
    ("killed at work", killed_at_work),
    ("rollback", rollback),
    ("absent", absent),
    ("slow", slow),
];

fn conforms(fixture: Option<impl Fixture>) {
    let Some(mut fixture) = fixture else { return };
    for (name, scenario) in SCENARIOS {
        eprintln!("{}: {name}", fixture.kind());
        fixture.clean();
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        site.configure(&fixture.settings());
        scenario(&mut Stage {
            fixture: &mut fixture,
            centre,
            site,
        });
    }
}

#[test]
fn the_folder_reconciler_conforms() {
    conforms(Some(Folder::new()));
}

#[test]
fn the_ansible_reconciler_conforms() {
    conforms(Ansible::new());
}

#[test]
fn the_kubernetes_reconciler_conforms() {
    conforms(Kubernetes::new());
}

#[test]
fn argo_cd_conforms() {
    conforms(ArgoCd::new());
}

#[test]
fn rancher_fleet_conforms() {
    conforms(Fleet::new());
}

#[test]
fn flux_conforms() {
    conforms(Flux::new());
}

#[test]
fn symphonys_hook_program_conforms() {
    conforms(Symphony::new());
}

#[test]
fn zarf_conforms() {
    conforms(Zarf::new());
}

#[test]
fn a_hook_program_conforms() {
    conforms(Hook::new());
}

fn there(things: &[(&str, &str)]) -> There {
    let one = |(name, content): &(&str, &str)| ((*name).to_owned(), (*content).to_owned());
    things.iter().map(one).collect()
}

impl Stage<'_> {
    fn draft(&self, things: &[(&str, &str)]) -> Draft {
        let loads = things
            .iter()
            .map(|(name, content)| self.fixture.load(name, content));
        self.fixture.draft(loads.collect())
    }

    /// Publishes these, imports them, and expects them to be active and there.
    #[track_caller]
    fn take(&self, things: &[(&str, &str)]) {
        self.site.take(&self.centre.publish(&self.draft(things)));
        assert_eq!(self.fixture.there(), there(things));
    }

    #[track_caller]
    fn expect(&self, active: u64, things: &[(&str, &str)]) {
        assert_eq!(self.site.active(), Some(active));
        assert_eq!(self.fixture.there(), there(things));
    }

    fn statuses(&self) -> Vec<String> {
        let status = self.site.status();
        let assignments = status["assignments"].as_array().unwrap();
        let one = |found: &serde_json::Value| found["status"].as_str().unwrap().to_owned();
        assignments.iter().map(one).collect()
    }

    /// The words of the steps that the newest report about `number` lists.
    fn steps(&self, number: u64) -> Vec<String> {
        let reports = self.site.reports();
        let found = reports
            .into_iter()
            .rev()
            .find_map(|report| match report.event {
                ReportEvent::Generation(printed)
                    if (printed.number, printed.state) == (number, GenerationState::Active) =>
                {
                    Some(printed)
                }
                _ => None,
            });
        let assignments = found.expect("such a report").assignments;
        assignments
            .into_iter()
            .flat_map(|a| a.steps)
            .map(|step| step.status)
            .collect()
    }

    fn slow(&self, name: &str, content: &str) -> Option<Draft> {
        let load: Load = self.fixture.slow(name, content)?;
        Some(self.fixture.draft(vec![load]))
    }

    /// `import` as someone typed it, with its reconciler at work.
    fn start(&self, bundle: &std::path::Path) -> Child {
        let mut command = self.site.command(&["import", bundle.to_str().unwrap()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// The power goes at `instant` of an import.
    #[track_caller]
    fn cut(&self, bundle: &std::path::Path, instant: &str) {
        let mut command = self.site.command(&["import", bundle.to_str().unwrap()]);
        let status = command.env("OUTHAUL_CUT", instant).output().unwrap().status;
        assert_eq!(status.signal(), Some(SIGKILL), "nothing passes {instant}");
    }

    fn wait_until_at_work(&self, child: &mut Child) {
        while !self.fixture.at_work() {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended before it was at work: {ended:?}");
            std::thread::yield_now();
        }
    }
}

fn fresh(stage: &mut Stage<'_>) {
    stage.take(&[("a", "one"), ("b", "one")]);
    assert_eq!(stage.statuses(), ["compliant", "compliant"]);
    let steps = stage.steps(1);
    assert!(steps.contains(&"changed".to_owned()), "{steps:?}");
}

fn unchanged(stage: &mut Stage<'_>) {
    let draft = stage.draft(&[("a", "one")]);
    let bundle = stage.centre.publish(&draft);
    stage.site.take(&bundle);
    // The same bundle again, and a newer one that says the same.
    stage.site.take(&bundle);
    stage.site.take(&stage.centre.publish(&draft));
    stage.expect(2, &[("a", "one")]);
    let steps = stage.steps(2);
    assert!(
        steps.iter().all(|status| status == "ok") && !steps.is_empty(),
        "{steps:?}"
    );
}

fn change(stage: &mut Stage<'_>) {
    stage.take(&[("a", "one"), ("b", "one")]);
    stage.take(&[("a", "two"), ("b", "one"), ("c", "new")]);
}

fn drift_is_reported(stage: &mut Stage<'_>) {
    stage.take(&[("a", "one"), ("b", "one")]);
    stage.fixture.spoil("a");
    assert_eq!(code(&stage.site.run(&["run", "--once"])), 0);
    stage.expect(1, &[("a", "spoilt"), ("b", "one")]);
    assert_eq!(stage.statuses(), ["drifted", "compliant"]);
    assert!(stage.site.event_log().contains(&"1 observed".to_owned()));
}

fn drift_is_corrected(stage: &mut Stage<'_>) {
    let draft = stage.draft(&[("a", "one"), ("b", "one")]).correct_drift();
    stage.site.take(&stage.centre.publish(&draft));
    stage.fixture.spoil("a");
    // On a busy machine a controller may be at work once more when it is looked at: a later look finds what came of it, and corrects.
    let deadline = Instant::now() + Duration::from_secs(120);
    assert_eq!(code(&stage.site.run(&["run", "--once"])), 0);
    let wanted = there(&[("a", "one"), ("b", "one")]);
    while stage.fixture.there() != wanted && Instant::now() < deadline {
        assert_eq!(code(&stage.site.run(&["run", "--once"])), 0);
    }
    stage.expect(1, &[("a", "one"), ("b", "one")]);
    let is_well = |stage: &Stage<'_>| stage.statuses() == ["compliant", "compliant"];
    while !is_well(stage) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(code(&stage.site.run(&["run", "--once"])), 0);
    }
    assert!(is_well(stage), "{:?}", stage.statuses());
    let observed = stage
        .site
        .event_log()
        .into_iter()
        .filter(|printed| printed == "1 observed")
        .count();
    assert!(observed >= 2, "what was found, and what came of it");
}

fn prune(stage: &mut Stage<'_>) {
    stage.take(&[("a", "one"), ("b", "one"), ("c", "one"), ("d", "one")]);
    stage.take(&[("a", "one"), ("b", "one"), ("c", "one")]);
    assert_eq!(stage.site.status()["left_behind"], serde_json::json!([]));
}

fn failing(stage: &mut Stage<'_>) {
    stage.take(&[("a", "one")]);
    let broken = stage.fixture.draft(vec![stage.fixture.broken("a")]);
    let refused = stage.site.import(&stage.centre.publish(&broken));
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    // At once, or after what it was given to had a look at it.
    let printed = stdout(&refused);
    let words = ["`a` failed: ", "`a` is not healthy: "];
    assert!(
        words.iter().any(|words| printed.contains(words)),
        "{printed}"
    );
    stage.expect(1, &[("a", "one")]);
    assert_eq!(stage.site.state_of(2), "reverted");
    assert_eq!(stage.statuses(), ["compliant"]);
    stage.take(&[("a", "three")]);
}

fn killed_at_an_instant(stage: &mut Stage<'_>) {
    let mut before = vec![("b", "one")];
    stage.take(&[("a", "0"), ("b", "one")]);
    let contents = ["1", "2", "3"];
    for (instant, content) in stage.fixture.instants().iter().zip(contents) {
        let now = [&[("a", content)], &before[..]].concat();
        let bundle = stage.centre.publish(&stage.draft(&now));
        stage.cut(&bundle, instant);
        stage.site.take(&bundle);
        assert_eq!(stage.fixture.there(), there(&now), "after {instant}");
    }
    // What was half done is in the inventory, and goes with its assignment.
    before.extend([("c", "one"), ("d", "one")]);
    stage.take(&[&[("a", "9")], &before[..]].concat());
    stage.take(&before);
}

fn killed_while_it_removes(stage: &mut Stage<'_>) {
    for instant in stage.fixture.removing() {
        let less = [("a", "one"), ("b", "one"), ("c", "one")];
        stage.take(&[&less[..], &[("d", "one")]].concat());
        let bundle = stage.centre.publish(&stage.draft(&less));
        stage.cut(&bundle, instant);
        stage.site.take(&bundle);
        assert_eq!(stage.fixture.there(), there(&less), "after {instant}");
    }
}

fn killed_at_work(stage: &mut Stage<'_>) {
    stage.take(&[("a", "one")]);
    let Some(draft) = stage.slow("a", "two") else {
        return;
    };
    let bundle = stage.centre.publish(&draft);
    let mut child = stage.start(&bundle);
    stage.wait_until_at_work(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    // What it left behind is still at work when the same command comes again.
    let mut again = stage.start(&bundle);
    stage.fixture.let_go();
    assert!(again.wait().unwrap().success());
    stage.expect(2, &[("a", "two")]);
}

fn rollback(stage: &mut Stage<'_>) {
    stage.take(&[("a", "one"), ("b", "one")]);
    stage.take(&[("a", "two"), ("b", "one"), ("c", "two")]);
    let back = stage.site.ok(&["rollback", "--who", "ann"]);
    assert_eq!(back["active"], 1, "{back}");
    stage.expect(1, &[("a", "one"), ("b", "one")]);
    assert_eq!(stage.site.state_of(2), "reverted");
    stage.take(&[("a", "three"), ("b", "one")]);
}

fn absent(stage: &mut Stage<'_>) {
    stage.take(&[("a", "one")]);
    let bundle = stage.centre.publish(&stage.draft(&[("a", "two")]));
    stage.fixture.absent(true);
    let refused = stage.site.import(&bundle);
    assert_eq!(code(&refused), 3, "{}", stderr(&refused));
    let printed = stderr(&refused);
    let words = stage.fixture.said_when_absent();
    assert!(words.iter().all(|word| printed.contains(word)), "{printed}");
    stage.fixture.absent(false);
    assert_eq!(stage.fixture.there(), there(&[("a", "one")]));
    stage.site.take(&bundle);
    stage.expect(2, &[("a", "two")]);
}

/// The watchdog is fed while it works; Ctrl-C ends it; the same command goes on.
fn slow(stage: &mut Stage<'_>) {
    let Some(draft) = stage.slow("a", "one") else {
        return;
    };
    let bundle = stage.centre.publish(&draft);
    let mut child = stage.start(&bundle);
    stage.wait_until_at_work(&mut child);
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(stage.site.active(), None);

    let service = Service::with_watchdog(&stage.site);
    // Two rounds of heartbeats: the work goes on all the time.
    service.wait_for("WATCHDOG=1");
    service.wait_for("WATCHDOG=1");
    assert_eq!(stage.site.active(), None);
    stage.fixture.let_go();
    while stage.site.active() != Some(1) {
        std::thread::yield_now();
    }
    drop(service);
    assert_eq!(stage.fixture.there(), there(&[("a", "one")]));
}
