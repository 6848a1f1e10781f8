//! Fakes for tests: sites that sign real reports, and indexes of bundles that carry nothing.
//!
//! What comes in: names, numbers, commits. What goes out: values and signed bytes like those of a real
//! site and a real centre. Never part of the program.
#![allow(dead_code, reason = "two test binaries use different parts of it")]

use outhaul_bundle::index::{
    Assignment, DriftPolicy, FORMAT, ReconcilerSettings, Snapshot, Source, Stream,
};
use outhaul_bundle::name::Name;
use outhaul_bundle::report::{
    self, AssignmentResult, ClusterEvent, ClusterState, ComplianceStatus, ENROLMENT_PAYLOAD_TYPE,
    EnrolmentRequest, FollowedAssignment, GenerationEvent, GenerationState, PAYLOAD_TYPE, Report,
    ReportEvent, SiteTime,
};
use outhaul_bundle::{Digest, Index};
use outhaul_signer::enrol::kit_key;
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::SigningKey;

/// The fleet of most tests.
pub const FLEET: &str = "0123456789abcdef";
/// Two base commits.
pub const OLD: &str = "1111111111111111111111111111111111111111";
/// The newer one.
pub const NEW: &str = "2222222222222222222222222222222222222222";

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub fn stream(environment: &str, cluster_type: &str) -> Stream {
    Stream {
        role: name(&format!("s-{environment}-{cluster_type}")),
        environment: name(environment),
        cluster_type: name(cluster_type),
    }
}

pub fn snapshot(commit: &str) -> Snapshot {
    let source = |name: &str, commit: &str| Source {
        name: name.to_owned(),
        repo: format!("https://git.example/{name}"),
        commit: commit.to_owned(),
    };
    Snapshot {
        environment: source("env", "3333333333333333333333333333333333333333"),
        base: source("main", commit),
        workloads: Vec::new(),
        digest: Digest::of(commit.as_bytes()),
    }
}

pub fn config(number: u64, assignment: &str) -> Digest {
    Digest::of(format!("{assignment} {number}").as_bytes())
}

/// The token of the kits that do not ask for another.
pub const TOKEN: &str = "one-time-token";

/// Bundle `number` of a stream, with two assignments.
pub fn index(stream: &Stream, number: u64, commit: &str) -> Index {
    let assignment = |text: &str, workspace: &str| Assignment {
        name: name(text),
        workload: text.split('-').next().unwrap().to_owned(),
        workspace: workspace.to_owned(),
        policies: vec!["functional-test".to_owned()],
        config_version: config(number, text),
        files: Vec::new(),
        payload: Vec::new(),
        sites: None,
        overlays: Vec::new(),
        bootstrap: None,
        site_values: None,
    };
    Index {
        format: FORMAT.to_owned(),
        fleet: name(FLEET),
        stream: stream.clone(),
        number,
        requires: None,
        snapshot: snapshot(commit),
        reconciler: ReconcilerSettings {
            kind: name("folder"),
            settings: std::collections::BTreeMap::new(),
            drift: DriftPolicy::Report,
        },
        recipients: std::collections::BTreeSet::new(),
        assignments: vec![
            assignment("camera-functional", "vision"),
            assignment("maps-uat", "nav"),
        ],
        served: outhaul_bundle::index::Served::default(),
        kept: std::collections::BTreeMap::new(),
        orders: Vec::new(),
        waves: None,
        agent: None,
        attestations: Vec::new(),
        blobs: Vec::new(),
    }
}

/// What a bundle's metadata says of its index.
pub fn content(index: &Index) -> outhaul_bundle::index::Content {
    let bytes = index.to_bytes();
    outhaul_bundle::index::Content {
        digest: Digest::of(&bytes),
        size: bytes.len() as u64,
    }
}

/// A site with its own key, that counts and chains its reports.
#[derive(Debug)]
pub struct Site {
    pub name: String,
    pub fleet: String,
    pub epoch: String,
    pub stream: Stream,
    pub key: SigningKey,
    pub next: u64,
    pub previous: Option<Digest>,
    pub at: SiteTime,
}

impl Site {
    pub fn new(site: &str, environment: &str, cluster_type: &str) -> Self {
        Self {
            name: site.to_owned(),
            fleet: FLEET.to_owned(),
            epoch: "e1".to_owned(),
            stream: stream(environment, cluster_type),
            key: SigningKey::generate().unwrap(),
            next: 1,
            previous: None,
            at: SiteTime {
                wall_ms: 1_000,
                lower_bound_ms: 500,
                trusted: false,
            },
        }
    }

    /// Starts a new epoch, as after the loss of the site's store.
    pub fn forget(&mut self, epoch: &str) {
        epoch.clone_into(&mut self.epoch);
        self.next = 1;
        self.previous = None;
    }

    pub fn request(&self) -> Vec<u8> {
        self.request_with(TOKEN)
    }

    /// A request that proves the kit with this token.
    pub fn request_with(&self, token: &str) -> Vec<u8> {
        let request = EnrolmentRequest {
            fleet: name(&self.fleet),
            site: name(&self.name),
            stream: self.stream.clone(),
            public_key: self.key.public().to_pem(),
            seal_key: String::new(),
            order: None,
            kit: self.kit(token).public().to_hex(),
        };
        let payload = serde_json::to_vec(&request).unwrap();
        let envelope = Envelope::sign(ENROLMENT_PAYLOAD_TYPE, payload, &self.key);
        envelope.countersigned(&self.kit(token)).to_json()
    }

    /// The key of a kit for this site.
    pub fn kit(&self, token: &str) -> SigningKey {
        kit_key(&self.fleet, &self.name, token)
    }

    /// What an enrolment with that kit is known by.
    pub fn enrolment(&self, token: &str) -> Digest {
        Digest::from_hex(&self.kit(token).public().id()).unwrap()
    }

    pub fn report(&mut self, event: ReportEvent) -> Report {
        let report = Report {
            format: report::FORMAT.to_owned(),
            fleet: name(&self.fleet),
            site: name(&self.name),
            epoch: name(&self.epoch),
            number: self.next,
            previous: self.previous,
            at: self.at,
            event,
        };
        self.next += 1;
        self.previous = Some(Digest::of(&report.to_bytes()));
        report
    }

    /// A signed line.
    pub fn sign(&self, report: &Report) -> Vec<u8> {
        line(Envelope::sign(PAYLOAD_TYPE, report.to_bytes(), &self.key).to_json())
    }

    /// The next report, signed.
    pub fn say(&mut self, event: ReportEvent) -> Vec<u8> {
        let report = self.report(event);
        self.sign(&report)
    }

    pub fn started(&mut self) -> Vec<u8> {
        self.say(ReportEvent::Started {
            agent_version: "0.1.0".to_owned(),
        })
    }

    /// Says that bundle `number` is active and well.
    pub fn active(&mut self, number: u64, commit: &str) -> Vec<u8> {
        self.state(
            number,
            commit,
            GenerationState::Active,
            ComplianceStatus::Compliant,
        )
    }

    pub fn state(
        &mut self,
        number: u64,
        commit: &str,
        state: GenerationState,
        status: ComplianceStatus,
    ) -> Vec<u8> {
        let event = self.event(number, commit, state, status);
        self.say(ReportEvent::Generation(event))
    }

    /// Says what its cluster shows that follows the platform repository by itself, rendered from base `commit`.
    pub fn shows(
        &mut self,
        commit: &str,
        state: ClusterState,
        status: ComplianceStatus,
    ) -> Vec<u8> {
        let index = index(&self.stream, 1, commit);
        let followed = |assignment: &Assignment| FollowedAssignment {
            name: assignment.name.clone(),
            status,
            message: String::new(),
            steps: Vec::new(),
        };
        self.say(ReportEvent::Cluster(Box::new(ClusterEvent {
            stream: self.stream.clone(),
            reconciler: "flux".to_owned(),
            repository: "https://git.example/platform".to_owned(),
            commit: Some("c".repeat(40)),
            snapshot: Some(index.snapshot.clone()),
            state,
            assignments: index.assignments.iter().map(followed).collect(),
            message: String::new(),
        })))
    }

    pub fn event(
        &self,
        number: u64,
        commit: &str,
        state: GenerationState,
        status: ComplianceStatus,
    ) -> GenerationEvent {
        let index = index(&self.stream, number, commit);
        let result = |assignment: &Assignment| AssignmentResult {
            name: assignment.name.clone(),
            status,
            config_version: assignment.config_version,
            message: String::new(),
            steps: Vec::new(),
        };
        GenerationEvent {
            stream: self.stream.clone(),
            number,
            index: Digest::of(&index.to_bytes()),
            snapshot: index.snapshot.clone(),
            state,
            assignments: index.assignments.iter().map(result).collect(),
            message: String::new(),
            reverted_from: None,
        }
    }
}

/// One line, as in a file of reports.
pub fn line(mut json: Vec<u8>) -> Vec<u8> {
    while json.last() == Some(&b'\n') {
        json.pop();
    }
    assert!(!json.contains(&b'\n'), "an envelope is one line");
    json.push(b'\n');
    json
}
