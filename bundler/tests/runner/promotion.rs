//! `promote --watch`: the chain of environments, followed on a real repository.
//!
//! What comes in: a control plane with three environments and two promotion policies, and `FakeHub`,
//! which answers as a test says and is not the real hub (the demo's test asks that one). What must come
//! out: the next environment moves when the gate is open, each decision is the same event until it
//! changes, a silent hub stops nothing else, and nobody is moved back.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use outhaul_bundle::hub_api::{Decision, GateAnswer, GateVerdict, RuleVerdict};
use outhaul_git::source::{Cache, SourceMap};
use outhaul_promote::HubConnection;
use outhaul_promote::hooks::HookPrograms;
use outhaul_promote::watch::{StepEvent, StepOutcome, Watch, pass};

use super::repositories::{git, on_branch};

struct ChainFixture {
    folder: tempfile::TempDir,
    hub: String,
    /// Environments whose gate is open, and what was asked.
    open: Arc<Mutex<Vec<&'static str>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ChainFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plane = folder.path().join("plane");
        fs::create_dir_all(plane.join(".environments")).unwrap();
        git(&plane, &["init", "--quiet", "--initial-branch=main"]);
        let mut text = String::new();
        for name in ["dev", "stage", "prod"] {
            text.push_str(&format!(
                "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Environment\nmetadata:\n  name: {name}\nspec:\n  \
                 controlPlane:\n    repo: https://git.example/plane\n    branch: {name}\n    path: .\n---\n"
            ));
        }
        for (name, from, to) in [("b", "stage", "prod"), ("a", "dev", "stage")] {
            text.push_str(&format!(
                "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata:\n  name: {name}\nspec:\n  \
                 from: {from}\n  to: {to}\n  minConfirmedPercent: 90\n---\n"
            ));
        }
        fs::write(plane.join(".environments/all.yaml"), text).unwrap();
        git(&plane, &["add", "."]);
        git(&plane, &["commit", "--quiet", "-m", "first"]);
        let first = git(&plane, &["rev-parse", "HEAD"]);
        for name in ["dev", "stage", "prod"] {
            git(&plane, &["branch", name]);
            on_branch(&plane, name, |copy| {
                let base = format!(
                    "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: BaseRepo\nmetadata:\n  name: main\nspec:\n  \
                     repo: https://git.example/plane\n  branch: main\n  path: .\n  commit: {first}\n"
                );
                fs::remove_dir_all(copy.join(".environments")).unwrap();
                fs::write(copy.join("base-repo.yaml"), base).unwrap();
            });
            git(&plane, &["checkout", "--quiet", "main"]);
        }
        let (open, asked) = (Arc::default(), Arc::default());
        let hub = fake_hub(Arc::clone(&open), Arc::clone(&asked), plane.clone());
        Self {
            folder,
            hub,
            open,
            asked,
        }
    }

    fn plane(&self) -> PathBuf {
        self.folder.path().join("plane")
    }

    fn pass(&self, hub: &str) -> Vec<StepEvent> {
        let plane = self.plane();
        let watch = Watch {
            control_plane: plane.to_str().unwrap(),
            sources: SourceMap::default(),
            cache: &Cache::at(self.folder.path().join("cache")),
            hub: Some(HubConnection {
                url: hub,
                authority: None,
            }),
            first: Some("dev"),
            hooks: HookPrograms::default(),
        };
        pass(&watch).unwrap().events
    }

    fn outcomes(&self) -> Vec<StepOutcome> {
        let events = self.pass(&self.hub);
        events.into_iter().map(|event| event.outcome).collect()
    }

    fn commit(&self, text: &str) -> String {
        fs::write(self.plane().join("common.txt"), text).unwrap();
        git(&self.plane(), &["add", "."]);
        git(&self.plane(), &["commit", "--quiet", "-m", text]);
        git(&self.plane(), &["rev-parse", "HEAD"])
    }

    fn base(&self, environment: &str) -> String {
        let text = git(
            &self.plane(),
            &["show", &format!("{environment}:base-repo.yaml")],
        );
        text.split("commit: ").nth(1).unwrap().trim().to_owned()
    }
}

/// What the fake hub notes of a site, as the real one does of a waived one.
pub const WAIVED: &str = "waived until 2030-01-01T00:00:00Z";

/// Makes an answer one whose evidence does not support it.
fn bend(answer: &mut Decision, how: &str) {
    let old = "2020-01-01T00:00:00Z".to_owned();
    match how {
        "failed" => answer.evidence[0].state = "failed".into(),
        "received" => answer.evidence[0].received_at = old,
        "seen" => answer.sites[0].last_seen = Some(old),
        "needs" => answer.sites[0].needs = Some(2),
        "rules" => answer.rules.clear(),
        "age" => answer.max_age_hours = 100,
        "share" => answer.quorum_percent = 50,
        "twice" => answer.evidence.push(answer.evidence[0].clone()),
        "digest" => answer.evidence[0].digest = "sha256:d6".into(),
        _ => panic!("{how}"),
    }
}

/// The newest commit of a branch, where there is one.
fn newest(plane: &Path, branch: &str) -> Option<String> {
    let mut git = std::process::Command::new("git");
    let found = git
        .arg("-C")
        .arg(plane)
        .args(["rev-parse", "--verify", "--quiet"]);
    let found = found.arg(format!("refs/heads/{branch}")).output().ok()?;
    let id = String::from_utf8(found.stdout).ok()?;
    found.status.success().then(|| id.trim().to_owned())
}

/// Answers the gate's question: open for the environments that the test lists. Sites run what the branches of `plane` have, or what
/// `ran: COMMIT` names.
pub fn fake_hub(
    open: Arc<Mutex<Vec<&'static str>>>,
    asked: Arc<Mutex<Vec<String>>>,
    plane: PathBuf,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            let _: Vec<_> = lines
                .take_while(|line| line.as_ref().is_ok_and(|l| !l.is_empty()))
                .collect();
            let names = open.lock().unwrap();
            let is_open = names
                .iter()
                .any(|name| first.contains(&format!("environment={name}&")));
            let question = |name: &str| {
                let (_, value) = first.split_once(&format!("{name}="))?;
                value.split(['&', ' ']).next().map(str::to_owned)
            };
            let (environment, commit) = (question("environment"), question("commit"));
            let (to, share) = (question("to"), question("quorum_percent"));
            asked.lock().unwrap().push(first.clone());
            let mut answer: GateAnswer =
                serde_json::from_str(include_str!("../../../bundle/tests/hub_api/gate-open.json"))
                    .unwrap();
            let environment = environment.unwrap();
            let mut ran = names.iter().filter_map(|name| name.strip_prefix("ran: "));
            answer.decision.evidence[0].environment_commit = match ran.next() {
                Some("none") => None,
                Some(commit) => Some(commit.to_owned()),
                None => newest(&plane, &environment),
            };
            answer.decision.environment = environment;
            answer.decision.commit = commit.unwrap();
            answer.decision.evidence[0].base_commit = Some(answer.decision.commit.clone());
            answer.decision.to = to;
            #[expect(
                clippy::disallowed_methods,
                reason = "a hub answers with the time that it is"
            )]
            let second = jiff::Timestamp::now().as_second();
            let now = jiff::Timestamp::from_second(second).unwrap().to_string();
            answer.decision.decided_at.clone_from(&now);
            answer.decision.evidence[0].received_at.clone_from(&now);
            answer.decision.sites[0].last_seen = Some(now);
            // It was recorded when hubs listed no rules.
            let met = |name: &str| RuleVerdict {
                rule: name.to_owned(),
                needs: String::new(),
                met: is_open,
                found: String::new(),
                opens: None,
                evidence: Vec::new(),
            };
            answer.decision.rules = ["commit", "no-failures", "confirmed"].map(met).to_vec();
            let mut bends = names.iter().filter_map(|name| name.strip_prefix("bent: "));
            if let Some(how) = bends.next() {
                bend(&mut answer.decision, how);
            }
            if let Some(share) = share {
                answer.decision.quorum_percent = share.parse().unwrap();
            }
            if !is_open {
                answer.decision.verdict = GateVerdict::Closed;
                answer.decision.reasons = vec!["press-7 has not reported".to_owned()];
                answer.rules_on_record = Some("the rules on record count".to_owned());
            }
            answer.decision.notes = vec![format!("press-8 is {WAIVED}")];
            let body = serde_json::to_string(&answer).unwrap();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close",
                body.len()
            );
            write!(stream, "{head}\r\n\r\n{body}").unwrap();
        }
    });
    url
}

#[test]
fn each_environment_moves_when_the_gate_before_it_opens_and_none_moves_back() {
    let fixture = ChainFixture::new();
    // Nothing is before `dev`; that the others are at the same commit is on no record, and nothing ships of them.
    let events = fixture.pass(&fixture.hub);
    assert_eq!(events[0].outcome, StepOutcome::Current);
    for event in &events[1..] {
        let said = event.to_string();
        assert!(
            said.contains("is at that commit already, and no record shows")
                && said.contains("press-7 has not reported"),
            "{said}"
        );
    }

    let second = fixture.commit("second");
    let events = fixture.pass(&fixture.hub);
    assert!(
        matches!(events[0].outcome, StepOutcome::Moved(_)),
        "{events:?}"
    );
    assert_eq!(fixture.base("dev"), second);
    let closed = StepOutcome::Closed(vec![
        "press-7 has not reported".into(),
        format!("note: press-8 is {WAIVED}"),
        "note: the rules on record count".into(),
    ]);
    assert_eq!(events[1].outcome, closed);
    assert!(
        events[1]
            .to_string()
            .contains("the gate of `dev` is closed")
    );
    let question = fixture.asked.lock().unwrap().last().unwrap().clone();
    assert!(
        question.contains("quorum_percent=90"),
        "the policy is asked for: {question}"
    );

    let again = fixture.pass(&fixture.hub);
    assert_eq!(
        again[1..],
        events[1..],
        "the same decision is the same event"
    );

    fixture.open.lock().unwrap().push("dev");
    let moved = fixture.pass(&fixture.hub);
    assert!(
        matches!(moved[1].outcome, StepOutcome::Moved(_)),
        "{moved:?}"
    );
    assert_eq!(
        moved[2].outcome, closed,
        "the gate of stage decides for prod"
    );
    assert_eq!(fixture.base("stage"), second);
    assert_ne!(fixture.base("prod"), second);

    // dev is set back by hand; what went on before stays.
    let first = git(&fixture.plane(), &["rev-parse", "main~1"]);
    on_branch(&fixture.plane(), "dev", |copy| {
        let path = copy.join("base-repo.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace(&second, &first)).unwrap();
    });
    git(&fixture.plane(), &["checkout", "--quiet", "main"]);
    let plane = fixture.plane();
    let watch_without_first = Watch {
        control_plane: plane.to_str().unwrap(),
        sources: SourceMap::default(),
        cache: &Cache::at(fixture.folder.path().join("cache")),
        hub: Some(HubConnection {
            url: &fixture.hub,
            authority: None,
        }),
        first: None,
        hooks: HookPrograms::default(),
    };
    let events = pass(&watch_without_first).unwrap().events;
    assert_eq!(
        events[0].outcome,
        StepOutcome::Current,
        "never back: {events:?}"
    );
    assert_eq!(fixture.base("stage"), second);
}

#[test]
fn a_silent_hub_is_reported_and_stops_only_what_waits_for_it() {
    let fixture = ChainFixture::new();
    let second = fixture.commit("second");
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let events = fixture.pass(&format!("http://{nobody}"));
    assert!(
        matches!(events[0].outcome, StepOutcome::Moved(_)),
        "{events:?}"
    );
    assert_eq!(fixture.base("dev"), second);
    let StepOutcome::Failed(problem) = &events[1].outcome else {
        panic!("{events:?}")
    };
    assert!(problem.text.contains("cannot reach"), "{problem:?}");
    assert_eq!(events[1].code(), 3, "an outage");
    fixture.open.lock().unwrap().push("dev");
    assert!(
        matches!(fixture.outcomes()[1], StepOutcome::Moved(_)),
        "it goes on afterwards"
    );
}
