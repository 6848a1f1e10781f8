//! The agent on a machine that is as a test says: its clocks, its free space and its hub.
//!
//! What comes in: an enrolled site with reports, a hub that answers or breaks off, clocks that are wrong, a full disk.
//! What must come out: nothing is lost before the hub's signature covers it, and what a report says of time.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::ReportsAnswer;
use outhaul_bundle::index::Stream;
use outhaul_bundle::name::Name;
use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, Ack, Report, ReportEvent};
use outhaul_signer::clock::BootReading;
use outhaul_signer::{Envelope, SigningKey};
use tempfile::TempDir;

use std::io::Read;

use crate::agent::Agent;
use crate::config::{AgentConfig, ClockConfig};
use crate::error::AgentError;
use crate::facilities::{Facilities, Server, Span};
use crate::report::{queue, send};
use crate::runner::delays;
use crate::state::clock::Clocks;
use crate::state::outbox::{self, WaitingReports};
use crate::state::{self, SiteIdentity, Store, key};
use crate::state_folder::StateFolder;
use outhaul_asking::Answered;
use outhaul_asking::settings::AskConfig;
use outhaul_kit::durable::FileError;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_reconcilers::{ApplyError, Reconciler};

/// What a hub answers, given what was sent to it; `None` is a connection that breaks.
type HubAnswer = Box<dyn FnOnce(&[u8]) -> Option<Vec<u8>> + Send>;

/// The machine.
#[derive(Debug)]
struct FakeHost {
    clocks: Mutex<Clocks>,
    /// What programs and URLs answer, by name, and the files of the delay folder.
    answers: Mutex<BTreeMap<String, Answered>>,
    files: Mutex<Vec<(String, String)>>,
    free_bytes: u64,
    hub: FakeHub,
}

/// A hub that has its next answers ready, and keeps what was sent to it.
#[derive(Clone, Default)]
struct FakeHub {
    answers: Arc<Mutex<VecDeque<HubAnswer>>>,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl std::fmt::Debug for FakeHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FakeHub")
    }
}

impl FakeHost {
    /// A machine that was just started, at `wall` by a clock that is not trusted.
    fn at(wall: &str, free_bytes: u64) -> Self {
        Self {
            clocks: Mutex::new(Clocks {
                boot: Some(BootReading {
                    boot_id: "first".to_owned(),
                    since_boot_ms: 0,
                }),
                wall: wall.parse().unwrap(),
                wall_trusted: false,
            }),
            answers: Mutex::default(),
            files: Mutex::default(),
            free_bytes,
            hub: FakeHub::default(),
        }
    }

    /// Lets `ms` pass, the wall clock then showing `wall`.
    fn later(&self, ms: u64, wall: &str) {
        let mut clocks = self.clocks.lock().unwrap();
        clocks.boot.as_mut().unwrap().since_boot_ms += ms;
        clocks.wall = wall.parse::<Timestamp>().unwrap();
    }

    fn hub(&self) -> FakeHub {
        self.hub.clone()
    }
}

impl FakeHub {
    fn will_answer(&self, answer: impl FnOnce(&[u8]) -> Option<Vec<u8>> + Send + 'static) {
        self.answers.lock().unwrap().push_back(Box::new(answer));
    }

    fn received(&self) -> Vec<Vec<u8>> {
        self.received.lock().unwrap().clone()
    }
}

impl Server for FakeHub {
    fn url(&self, path: &str) -> String {
        format!("https://hub.example/{path}")
    }

    fn get(&self, _: &str, _: u64) -> Result<Option<Vec<u8>>, AgentError> {
        Ok(None)
    }

    fn open(&self, _: &str, _: u64, _: Span) -> Result<(Box<dyn Read>, u64), AgentError> {
        Ok((Box::new(io::empty()), 0))
    }

    fn post(&self, path: &str, body: &[u8], _: u64) -> Result<Vec<u8>, AgentError> {
        self.received.lock().unwrap().push(body.to_vec());
        let answer = self.answers.lock().unwrap().pop_front();
        let answer = answer.expect("nothing more is sent than the test expects");
        answer(body).ok_or_else(|| AgentError::Network {
            url: self.url(path),
            problem: "the connection broke".to_owned(),
        })
    }
}

impl Facilities for FakeHost {
    fn clocks(&self, _: &ClockConfig) -> Clocks {
        self.clocks.lock().unwrap().clone()
    }

    fn free_bytes(&self, _: &Path) -> Result<u64, FileError> {
        Ok(self.free_bytes)
    }

    fn server(&self, _: &str, _: Option<&Path>, _: &str) -> Result<Box<dyn Server>, AgentError> {
        Ok(Box::new(self.hub.clone()))
    }

    fn ask(&self, one: &AskConfig, _: &AgentConfig, _: &StateFolder, _: &Heartbeat) -> Answered {
        let answers = self.answers.lock().unwrap();
        answers.get(&one.name).cloned().unwrap_or(Answered::Yes)
    }

    fn files(&self, _: &Path) -> Result<Vec<(String, String)>, FileError> {
        Ok(self.files.lock().unwrap().clone())
    }

    fn reconciler(
        &self,
        kind: &str,
        _: &AgentConfig,
        _: &StateFolder,
    ) -> Result<Box<dyn Reconciler>, ApplyError> {
        Err(ApplyError::Unknown {
            kind: kind.to_owned(),
        })
    }
}

struct Site {
    folder: TempDir,
    agent: Agent,
    host: Arc<FakeHost>,
    hub_key: Arc<SigningKey>,
}

/// A site whose hub has a key, on a machine whose wall clock shows `wall`.
fn site(wall: &str, free_bytes: u64) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let state_folder = StateFolder::new(folder.path());
    state_folder.create().unwrap();
    let name = |text: &str| text.parse::<Name>().unwrap();
    let hub_key = Arc::new(SigningKey::generate().unwrap());
    let identity = SiteIdentity {
        fleet: name("f0"),
        name: name("drone-7"),
        stream: Stream {
            role: name("s-0"),
            environment: name("dev"),
            cluster_type: name("drone"),
        },
        hub_url: "https://hub.example".to_owned(),
        hub_key: hub_key.public().to_pem(),
        enrolment: None,
        hub_ca: String::new(),
        epoch: name("e0"),
    };
    let mut store = Store::open(&state_folder.database()).unwrap();
    store
        .commit(|db| state::set_meta(db, key::SITE, Some(&identity)))
        .unwrap();
    drop(store);
    let key = SigningKey::generate().unwrap();
    key.save_plain(&state_folder.key()).unwrap();
    let mut agent = Agent::open(folder.path()).unwrap();
    let host = Arc::new(FakeHost::at(wall, free_bytes));
    agent.facilities = host.clone();
    Site {
        folder,
        agent,
        host,
        hub_key,
    }
}

impl Site {
    fn start(&mut self) {
        let agent_version = "1".to_owned();
        queue(&mut self.agent, ReportEvent::Started { agent_version }).unwrap();
    }

    fn reports(&self) -> Vec<Report> {
        let rows = outbox::waiting(self.agent.store.read(), 0, usize::MAX).unwrap();
        rows.iter().map(report_of).collect()
    }
}

fn report_of(row: &WaitingReports) -> Report {
    let envelope = Envelope::from_json(&row.envelope).unwrap();
    Report::from_bytes(envelope.unverified_payload()).unwrap()
}

/// The hub's answer to `body`, signed by `key`: all of it is there.
fn acknowledged(key: &SigningKey, body: &[u8], hub_time_ms: i64) -> Option<Vec<u8>> {
    let last = body
        .split(|byte| *byte == b'\n')
        .rfind(|line| !line.is_empty())?;
    let envelope = Envelope::from_json(last).ok()?;
    let report = Report::from_bytes(envelope.unverified_payload()).ok()?;
    let ack = Ack {
        fleet: report.fleet,
        site: report.site,
        epoch: report.epoch,
        number: report.number,
        digest: Some(Digest::of(envelope.unverified_payload())),
        hub_time_ms,
    };
    let payload = serde_json::to_vec(&ack).ok()?;
    let signed = Envelope::sign(ACK_PAYLOAD_TYPE, payload, key).to_json();
    let answer = ReportsAnswer {
        acks: vec![serde_json::from_slice(&signed).ok()?],
        ..ReportsAnswer::default()
    };
    serde_json::to_vec(&answer).ok()
}

#[test]
fn a_connection_that_breaks_costs_no_report_and_another_key_acknowledges_none() {
    let mut site = site("2026-11-22T10:00:00Z", u64::MAX);
    site.start();
    site.start();
    let hub = site.host.hub();
    hub.will_answer(|_| None);
    let error = send(&mut site.agent).unwrap_err();
    assert!(matches!(error, AgentError::Network { .. }), "{error}");
    assert_eq!(site.reports().len(), 2);

    let other = SigningKey::generate().unwrap();
    hub.will_answer(move |body| acknowledged(&other, body, 0));
    let sent = send(&mut site.agent).unwrap();
    assert_eq!((sent.sent, sent.acknowledged), (2, 0));
    assert_eq!(site.reports().len(), 2);

    let key = Arc::clone(&site.hub_key);
    hub.will_answer(move |body| acknowledged(&key, body, 0));
    let sent = send(&mut site.agent).unwrap();
    assert_eq!((sent.sent, sent.acknowledged), (2, 2));
    assert!(site.reports().is_empty());
    let received = hub.received();
    assert_eq!(received.len(), 3);
    assert!(received.iter().all(|body| *body == received[0]));
    // Nothing waits: the hub is not asked again.
    assert_eq!(send(&mut site.agent).unwrap().sent, 0);
}

#[test]
fn a_wall_clock_that_jumps_moves_no_lower_bound_and_a_hub_only_within_its_slack() {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let mut site = site("2099-01-01T00:00:00Z", u64::MAX);
    let bound = |site: &Site| site.agent.clock_reading().unwrap().bound.at();
    site.start();
    assert_eq!(bound(&site).as_millisecond(), 0);
    // An hour by the clock that counts since boot, thirty years back by the other.
    site.host.later(3_600_000, "1970-01-02T00:00:00Z");
    site.start();
    assert_eq!(bound(&site).as_millisecond(), 3_600_000);
    let times: Vec<_> = site.reports().into_iter().map(|report| report.at).collect();
    assert_eq!(times[0].lower_bound_ms, 0);
    assert_eq!(times[1].lower_bound_ms, 3_600_000);
    assert!(times[0].wall_ms > times[1].wall_ms);
    assert!(times.iter().all(|time| !time.trusted));

    let key = Arc::clone(&site.hub_key);
    site.host
        .hub()
        .will_answer(move |body| acknowledged(&key, body, 1000 * DAY_MS));
    send(&mut site.agent).unwrap();
    assert_eq!(bound(&site).as_millisecond(), 3_600_000 + 3 * DAY_MS);
}

#[test]
fn the_hub_s_clock_is_named_while_it_disagrees_and_a_site_that_is_refused_states_so_until_it_is_taken_again()
 {
    let mut site = site("2026-11-22T10:00:00Z", u64::MAX);
    let now_ms = "2026-11-22T10:00:00Z"
        .parse::<Timestamp>()
        .unwrap()
        .as_millisecond();
    let reported = |site: &Site| crate::status::of_site(&site.agent).unwrap().text();
    for (ahead_ms, words) in [
        (
            3 * 3_600_000,
            Some("hub's clock: 3 hours ahead of this machine's"),
        ),
        (
            -90_000,
            Some("hub's clock: 2 minutes behind this machine's"),
        ),
        (30_000, None),
    ] {
        site.start();
        let key = Arc::clone(&site.hub_key);
        site.host
            .hub()
            .will_answer(move |body| acknowledged(&key, body, now_ms + ahead_ms));
        send(&mut site.agent).unwrap();
        let text = reported(&site);
        assert_eq!(text.contains("hub's clock:"), words.is_some(), "{text}");
        assert!(words.is_none_or(|words| text.contains(words)), "{text}");
    }

    site.start();
    let name = site.agent.site.name.to_string();
    for (rule, counts) in [("exchanged", false), ("revoked", true), ("revoked", true)] {
        let line = serde_json::json!({"line": 1, "site": name, "rule": rule, "reason": "r"});
        let mut answer = serde_json::to_value(ReportsAnswer::default()).unwrap();
        answer["refused"] = serde_json::json!([line]);
        let answer = answer.to_string().into_bytes();
        site.host.hub().will_answer(move |_| Some(answer));
        let sent = send(&mut site.agent).unwrap();
        assert_eq!(sent.of_site.is_some(), counts, "{rule}");
        assert_eq!(site.reports().len(), 1, "the queue is kept");
    }
    let text = reported(&site);
    assert!(
        text.contains("accepts no reports of this site (revoked)"),
        "{text}"
    );
    let key = Arc::clone(&site.hub_key);
    site.host
        .hub()
        .will_answer(move |body| acknowledged(&key, body, now_ms));
    assert!(send(&mut site.agent).unwrap().of_site.is_none());
    assert!(
        !reported(&site).contains("accepts no report"),
        "{}",
        reported(&site)
    );
}

/// Who asked for later, and what is reported of it, look by look.
#[test]
fn who_asks_for_later_is_kept_over_a_power_cut_and_reported_once_each_time_that_it_changes() {
    let mut site = site("2026-11-22T10:00:00Z", u64::MAX);
    let ask = |name: &str| AskConfig {
        name: name.to_owned(),
        ..AskConfig::default()
    };
    site.agent.config.delay.folder = Some("/delay.d".into());
    site.agent.config.delay.ask = ["gone", "mute", "press"].map(ask).to_vec();
    let answers = [
        ("gone", Answered::Absent("connection refused".to_owned())),
        ("mute", Answered::Silent("no answer".to_owned())),
        ("press", Answered::No("batch 7\n\u{1b}[2Jmore".to_owned())),
    ];
    let answers = answers.map(|(name, answer)| (name.to_owned(), answer));
    *site.host.answers.lock().unwrap() = answers.into();
    let file = (
        "till".to_owned(),
        r#"{"reason": "sale", "until": "2h"}"#.to_owned(),
    );
    *site.host.files.lock().unwrap() = vec![file];
    let reported = |site: &Site| -> Vec<(String, String, String)> {
        let decision = |report: Report| match report.event {
            ReportEvent::Decision {
                what, who, reason, ..
            } => (what, who, reason.unwrap()),
            other => panic!("{other:?}"),
        };
        site.reports().into_iter().map(decision).collect()
    };
    delays::look(&mut site.agent).unwrap();
    let first = reported(&site);
    let names: Vec<_> = first
        .iter()
        .map(|(what, who, _)| (&**what, &**who))
        .collect();
    let expected = ["`till`", "`mute`", "`press`"].map(|who| format!("{who} on this site"));
    assert_eq!(names, expected.each_ref().map(|who| ("delay", &**who)));
    assert_eq!(first[2].2, "batch 7; until 2026-11-25T10:00:00Z");
    // Nothing new is reported; the power goes; the time that ran before counts.
    site.host.later(3_600_000, "1999-01-01T00:00:00Z");
    delays::look(&mut site.agent).unwrap();
    assert_eq!(reported(&site).len(), 3);
    let config = site.agent.config.clone();
    site.agent = Agent::open(site.folder.path()).unwrap();
    (site.agent.facilities, site.agent.config) = (site.host.clone(), config);
    site.host.clocks.lock().unwrap().boot = Some(BootReading {
        boot_id: "second".to_owned(),
        since_boot_ms: 0,
    });
    delays::look(&mut site.agent).unwrap();
    site.host.later(3_700_000, "1999-01-01T00:00:00Z");
    delays::look(&mut site.agent).unwrap();
    let later = reported(&site);
    assert_eq!(later.len(), 4, "{later:?}");
    assert_eq!(
        (&*later[3].0, &*later[3].1),
        ("delay-over", "`till` on this site")
    );
    // Who no longer asks is reported, too.
    site.host.answers.lock().unwrap().clear();
    site.host.files.lock().unwrap().clear();
    delays::look(&mut site.agent).unwrap();
    assert_eq!(reported(&site).len(), 7);
    assert!(delays::stored(&site.agent).unwrap().is_empty());
}

#[test]
fn a_full_disk_is_an_error_with_what_is_missing() {
    let site = site("2026-11-22T10:00:00Z", 1024 * 1024);
    let reserve = site.agent.config.min_free_mb;
    let error = site.agent.check_space(5 * 1024 * 1024).unwrap_err();
    let AgentError::Space { free, missing, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((free, missing), (1, reserve + 4));
}
