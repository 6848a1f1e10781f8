//! Drives the real `outhaul-agent` in a state folder of its own.
//!
//! What comes in: commands. What goes out: what the program answered, what lies in the target, and the
//! reports as a hub would read them: every signature, number and link of the chain is checked.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use outhaul_bundle::digest::Digest;
use outhaul_bundle::report::{
    ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest, GenerationState, PAYLOAD_TYPE, Report, ReportEvent,
};
use outhaul_signer::{Envelope, PublicKey};
use outhaul_test_kit::Centre;
pub use outhaul_test_kit::folder::{Tree, copy, tree};
use outhaul_tests::Checked as _;
pub use outhaul_tests::{assert_reports, code, stderr, stdout};
use serde_json::Value;

#[derive(Debug)]
pub struct Site {
    pub name: String,
    pub folder: tempfile::TempDir,
}

impl Site {
    /// Enrols `name` with a kit of `centre`.
    pub fn new(centre: &Centre, name: &str) -> Self {
        Self::with_kit(name, &centre.kit(name))
    }

    pub fn with_kit(name: &str, kit: &Path) -> Self {
        let site = Self {
            name: name.to_owned(),
            folder: tempfile::tempdir().unwrap(),
        };
        site.ok(&["enrol", kit.to_str().unwrap()]);
        site
    }

    /// The same site as it stood: a copy of its disk.
    pub fn copy(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(&self.state(), &folder.path().join("state"));
        Self {
            name: self.name.clone(),
            folder,
        }
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// What the folder reconciler wrote.
    pub fn applied(&self) -> Tree {
        tree(&self.state().join("applied"))
    }

    pub fn configure(&self, text: &str) {
        std::fs::write(self.state().join("agent.toml"), text).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul-agent"));
        command.arg("--state").arg(self.state()).args(arguments);
        // Advice names no folder then: it is the one that commands use by themselves.
        command.env("OUTHAUL_STATE", self.state());
        for name in [
            "OUTHAUL_CUT",
            "OUTHAUL_LOG",
            "NOTIFY_SOCKET",
            "WATCHDOG_USEC",
        ] {
            command.env_remove(name);
        }
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).checked().unwrap()
    }

    /// Runs a command that must succeed, and returns its JSON.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--output", "json"]].concat());
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}{}",
            stdout(&output),
            stderr(&output)
        );
        outhaul_tests::result(&String::from_utf8(output.stdout).unwrap())
    }

    /// Holds an assignment.
    #[track_caller]
    pub fn hold(&self, assignment: &str, who: &str, why: &str) {
        self.ok(&[
            "hold",
            "--assignment",
            assignment,
            "--who",
            who,
            "--why",
            why,
        ]);
    }

    pub fn import(&self, path: &Path) -> Output {
        self.run(&["import", path.to_str().unwrap()])
    }

    /// Imports a bundle that must become active.
    #[track_caller]
    pub fn take(&self, path: &Path) -> Value {
        let taken = self.ok(&["import", path.to_str().unwrap()]);
        assert_eq!(taken["state"], "active", "{taken}");
        taken
    }

    #[track_caller]
    pub fn status(&self) -> Value {
        self.ok(&["status"])
    }

    pub fn active(&self) -> Option<u64> {
        self.status()["active"].as_u64()
    }

    /// The state of one bundle, as `status` shows it.
    pub fn state_of(&self, number: u64) -> String {
        let status = self.status();
        let generations = status["generations"].as_array().unwrap();
        let found = generations.iter().find(|g| g["number"] == number);
        found
            .map_or("unknown", |g| g["state"].as_str().unwrap())
            .to_owned()
    }

    /// Every report that waits, as a hub reads them after `export`.
    #[track_caller]
    pub fn reports(&self) -> Vec<Report> {
        let stick = tempfile::tempdir().unwrap();
        self.ok(&["export", stick.path().to_str().unwrap()]);
        self.read_reports(stick.path())
    }

    /// Reads a stick's reports: signed by this site's key, numbered 1..n, each linked to the one before.
    #[track_caller]
    pub fn read_reports(&self, stick: &Path) -> Vec<Report> {
        let key = self.public_key(stick);
        let mut reports: Vec<(Report, Digest)> = Vec::new();
        for bytes in tree(&stick.join("reports")).values() {
            for line in bytes
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
            {
                let envelope = Envelope::from_json(line).unwrap();
                let payload = envelope
                    .verify(PAYLOAD_TYPE, std::slice::from_ref(&key))
                    .unwrap();
                reports.push((Report::from_bytes(payload).unwrap(), Digest::of(payload)));
            }
        }
        reports.sort_by_key(|(report, _)| report.number);
        for (at, (report, _)) in reports.iter().enumerate() {
            assert_eq!(
                report.number,
                at as u64 + 1,
                "numbers run from 1 without gaps"
            );
            let before = at.checked_sub(1).map(|before| reports[before].1);
            assert_eq!(
                report.previous, before,
                "report {} names the one before",
                report.number
            );
            assert_eq!(report.site.as_str(), self.name);
        }
        reports.into_iter().map(|(report, _)| report).collect()
    }

    /// The key of the request on a stick, which that very key signed.
    fn public_key(&self, stick: &Path) -> PublicKey {
        let path = stick
            .join("requests")
            .join(format!("{}.request", self.name));
        let envelope = Envelope::from_json(&std::fs::read(path).unwrap()).unwrap();
        let request: EnrolmentRequest =
            serde_json::from_slice(envelope.unverified_payload()).unwrap();
        let key = PublicKey::from_pem(&request.public_key).unwrap();
        envelope
            .verify(ENROLMENT_PAYLOAD_TYPE, std::slice::from_ref(&key))
            .unwrap();
        key
    }

    /// What a refusal must not touch: blobs, generations, what runs.
    pub fn kept(&self) -> [Tree; 3] {
        ["blobs", "generations", "applied"].map(|folder| tree(&self.state().join(folder)))
    }

    /// Messages of the refusals under a rule that it reports.
    #[track_caller]
    pub fn refusals(&self, wanted: &str) -> Vec<String> {
        let reports = self.reports().into_iter();
        let of_rule = reports.filter_map(|report| match report.event {
            ReportEvent::Refusal { rule, message, .. } if rule == wanted => Some(message),
            _ => None,
        });
        of_rule.collect()
    }

    /// Each report in a few words: `started`, `1 staged`, `refusal rollback`, `decision hold` …
    #[track_caller]
    pub fn event_log(&self) -> Vec<String> {
        self.reports()
            .iter()
            .map(|report| described(&report.event))
            .collect()
    }
}

pub fn described(event: &ReportEvent) -> String {
    let state = |state: GenerationState| serde_json::to_value(state).unwrap();
    match event {
        ReportEvent::Started { .. } => "started".to_owned(),
        ReportEvent::Generation(g) => format!("{} {}", g.number, state(g.state).as_str().unwrap()),
        ReportEvent::Observation(g) => format!("{} observed", g.number),
        ReportEvent::Refusal { rule, .. } => format!("refusal {rule}"),
        ReportEvent::Decision { what, .. } => format!("decision {what}"),
        ReportEvent::OrderDone { what, .. } => format!("order {what}"),
        ReportEvent::OrderRefused { what, .. } => format!("order {what} refused"),
        ReportEvent::FreshnessSlip { number, .. } => format!("slip {number}"),
        ReportEvent::SiteValues { values, .. } => format!("{} values", values.len()),
        other => format!("{other:?}"),
    }
}
