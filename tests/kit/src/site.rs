//! A site that signs as an agent does: its request to be enrolled, and reports that are counted and chained.
//!
//! What comes in: what it is to say. What goes out: signed bytes. It keeps what the next report needs, and nothing on disk.

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Assignment, Stream};
use outhaul_bundle::report::{
    self, AssignmentResult, ClusterEvent, ClusterState, ComplianceStatus, ENROLMENT_PAYLOAD_TYPE,
    EnrolmentRequest, FollowedAssignment, GenerationEvent, GenerationState, PAYLOAD_TYPE, Report,
    ReportEvent, SiteTime,
};
use outhaul_signer::enrol::kit_key;
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::SigningKey;

use crate::plain::{FLEET, index, name, stream};

/// The one-time token of the kits that do not ask for another.
pub const TOKEN: &str = "one-time-token";

/// A site with its own key, that counts and chains its reports.
#[derive(Debug)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// The id of its fleet.
    pub fleet: String,
    /// The life of its memory.
    pub epoch: String,
    /// What it follows.
    pub stream: Stream,
    /// What it signs with.
    pub key: SigningKey,
    /// The number of its next report.
    pub next: u64,
    /// The digest of the report before.
    pub previous: Option<Digest>,
    /// What its clock says.
    pub at: SiteTime,
}

impl Site {
    /// A site of no real fleet, with a new key.
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

    /// Asks to be enrolled, signed by its key and that of its kit.
    pub fn request(&self) -> Vec<u8> {
        self.request_with(TOKEN)
    }

    /// What it asks for with the kit of this token, before it is signed.
    pub fn asks(&self, token: &str) -> EnrolmentRequest {
        EnrolmentRequest {
            fleet: name(&self.fleet),
            site: name(&self.name),
            stream: self.stream.clone(),
            public_key: self.key.public().to_pem(),
            seal_key: String::new(),
            order: None,
            kit: self.kit(token).public().to_hex(),
        }
    }

    /// A request that proves the kit with this token.
    pub fn request_with(&self, token: &str) -> Vec<u8> {
        let payload = serde_json::to_vec(&self.asks(token)).unwrap();
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

    /// The next report, not signed yet.
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

    /// Says that its agent was started.
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

    /// Says in which state bundle `number` is, and how all of its assignments are.
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

    /// Says what its cluster shows that follows the platform repository directly, rendered from base `commit`.
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
            webhook: None,
        })))
    }

    /// What it would say of bundle `number`, to be changed.
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
