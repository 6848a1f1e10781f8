//! Peers that lie, stall, flood or speak something else: to the agent that pulls and sends, to the centre that
//! asks a hub, and to the hub that answers.
//!
//! What comes in: `tests/fixtures/hostile/peers`. What must come out: an error in bounded time and memory, and
//! nothing that a peer said without a right signature is trusted. Every command has a copy of the scene, and
//! they run side by side, those that wait for the peer first: some are there to be waited for.

use std::io::Read as _;
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outhaul_test_kit::folder;
use outhaul_tests::Ran;

use super::{Case, Count, Step, answers, cases, copy, serving, stage, standing, status, typed};
use crate::system::SystemFixture;

/// Commands that run at the same time: most of them wait.
const AT_ONCE: usize = 24;
/// The longest that a peer of the hub waits for its answer; the hub gives up on bodies before.
const ANSWER: Duration = Duration::from_secs(120);

/// What is done in one copy of the scene: one command of a case, or all that is said to one hub.
struct Turn {
    case: Arc<Case>,
    script: String,
    steps: Range<usize>,
}

#[test]
fn every_hostile_peer_is_refused_within_bounds() {
    let fixture = stage();
    forge(&fixture);
    let before = standing(&fixture);
    let waiting = Mutex::new(turns());
    let count = Mutex::new(Count::default());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(turn) = waiting.lock().unwrap().pop() else {
                        break;
                    };
                    let done = one(&fixture, &turn, &before);
                    count.lock().unwrap().add(done);
                }
            });
        }
    });
    count.into_inner().unwrap().end("peers", 53);
}

/// All turns, those of peers that keep others waiting last, where they are taken from.
fn turns() -> Vec<Turn> {
    let mut turns = Vec::new();
    for case in cases("peers") {
        let says = std::fs::read_to_string(case.folder.join("says.txt"));
        let script = says.unwrap_or_default();
        let (steps, case) = (0..case.steps.len(), Arc::new(case));
        let each: Vec<_> = match need(&case, "hub") {
            Some(_) => vec![steps],
            None => steps.map(|step| step..step + 1).collect(),
        };
        turns.extend(each.into_iter().map(|steps| Turn {
            case: Arc::clone(&case),
            script: script.clone(),
            steps,
        }));
    }
    turns.sort_by_key(|turn| {
        let waits = |line: &str| line == "hang" || line.starts_with("drip ");
        need(&turn.case, "hub").is_some() || turn.script.lines().any(waits)
    });
    turns
}

/// What follows `word` in the lines before the first `run`.
fn need(case: &Case, word: &str) -> Option<String> {
    let found = case.needs.iter().find_map(|line| line.strip_prefix(word));
    found.map(|rest| rest.trim().to_owned())
}

/// Published folders that say something else than the fleet's newest.
fn forge(fixture: &SystemFixture) {
    for part in ["metadata", "targets", "blobs"] {
        let forged = format!("forged-{part}");
        folder::copy(&fixture.path("published-2"), &fixture.path(&forged));
        for path in folder::paths(&fixture.path(&forged).join(part)) {
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let keys = ["--fleet", "other", "--passphrase-file", "passphrase"];
    fixture.run("outhaul", 0, &[&["key", "init"][..], &keys].concat());
    let out = ["--out", "other-out", "--publish", "published-other"];
    fixture.plane(0, "bundle", "dev", &[&keys[..], &out].concat());
}

fn one(fixture: &SystemFixture, turn: &Turn, before: &str) -> Count {
    let case = &*turn.case;
    let mut count = Count {
        tried: usize::from(turn.steps.start == 0),
        ..Count::default()
    };
    let fixture = copy(fixture);
    if need(case, "hub").is_some() {
        to_the_hub(&fixture, case, &turn.script, &mut count);
    } else {
        for step in &case.steps[turn.steps.clone()] {
            from_a_peer(&fixture, turn, step, &mut count);
        }
    }
    let expected = match need(case, "takes") {
        Some(_) => before.replace("active 1", "active 2"),
        None => before.to_owned(),
    };
    if standing(&fixture) != expected {
        count.accepted(case, &standing(&fixture));
    }
    count
}

/// Has a program ask the peer; no report may be taken for received.
fn from_a_peer(fixture: &SystemFixture, turn: &Turn, step: &Step, count: &mut Count) {
    let case = &*turn.case;
    let served = need(case, "serves").map(|folder| fixture.path(&folder));
    let address = answers::peer(turn.script.clone(), case.folder.clone(), served);
    let port = address.rsplit(':').next().unwrap();
    let url = match need(case, "scheme") {
        None => format!("http://{address}"),
        Some(scheme) => format!("{scheme}://localhost:{port}"),
    };
    if need(case, "takes").is_some() {
        fixture.agent("edge-1", 0, &["import", "next"]);
    }
    let reports = status(fixture)["reports_waiting"].as_u64().unwrap();
    let config = format!("[repository]\nurl = \"{url}\"\n[hub]\nurl = \"{url}\"\n");
    std::fs::write(fixture.path("sites/edge-1/agent.toml"), config).unwrap();
    let ran = typed(fixture, &step.line.replace("URL", &url));
    if ran.code == Some(0) && !step.exit.contains(&0) {
        count.accepted(case, &step.line);
    }
    count.judge(case, step, &ran);
    let after = status(fixture)["reports_waiting"].as_u64().unwrap();
    if after < reports {
        count.accepted(case, &format!("{reports} reports waited, {after} do"));
    }
}

/// Says the script to a hub that serves, and verifies its answer; whatever was said, the hub goes on answering.
fn to_the_hub(fixture: &SystemFixture, case: &Case, script: &str, count: &mut Count) {
    let hub = fixture.serve_with(serving(fixture, "outhaul-hub"));
    let address = hub.url.trim_start_matches("http://");
    let address = address.trim_end_matches('/').to_owned();
    for step in &case.steps {
        let times = step
            .line
            .strip_prefix("say ")
            .map_or(1, |n| n.parse().unwrap());
        let peers: Vec<_> = (0..times)
            .map(|_| spoken(&address, script, &case.folder))
            .collect();
        for answer in peers {
            let answer = answer.join().unwrap();
            let ran = Ran {
                code: Some(status_of(&answer)),
                stdout: answer,
                stderr: String::new(),
            };
            count.judge(case, step, &ran);
        }
    }
    let alive = Step {
        line: "GET /healthz".to_owned(),
        exit: vec![200],
        says: Vec::new(),
    };
    let ask = "text \"GET /healthz HTTP/1.1\\r\\nHost: hub\\r\\nConnection: close\\r\\n\\r\\n\"";
    let answer = spoken(&address, ask, &case.folder).join().unwrap();
    let ran = Ran {
        code: Some(status_of(&answer)),
        stdout: answer,
        stderr: String::new(),
    };
    count.judge(case, &alive, &ran);
}

/// 0 where the hub closed without a word.
fn status_of(answer: &str) -> i32 {
    let status = answer.split(' ').nth(1);
    status.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn spoken(address: &str, script: &str, folder: &Path) -> std::thread::JoinHandle<String> {
    let (address, script, folder) = (address.to_owned(), script.to_owned(), folder.to_owned());
    std::thread::spawn(move || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(ANSWER)).unwrap();
        let speaking = stream.try_clone().unwrap();
        let speaker = std::thread::spawn(move || {
            // A hub that hears no more closes; what it said before that counts.
            let _ = answers::say(&speaking, &script, &folder);
        });
        let mut answer = Vec::new();
        let _ = (&stream).take(1 << 20).read_to_end(&mut answer);
        let _ = stream.shutdown(Shutdown::Both);
        let _ = speaker.join();
        String::from_utf8_lossy(&answer).into_owned()
    })
}
