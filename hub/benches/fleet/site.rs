//! A made-up site of the benchmarks: its key, and reports that it signs.
//!
//! What comes in: a number. What goes out: a request to be registered, and one report after the other.

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Snapshot, Source, Stream};
use outhaul_bundle::name::Name;
use outhaul_bundle::report::{
    self, AssignmentResult, ComplianceStatus, ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest,
    GenerationEvent, GenerationState, PAYLOAD_TYPE, Report, ReportEvent, SiteTime,
};
use outhaul_signer::enrol::kit_key;
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::SigningKey;

/// The fleet of the benchmarks.
pub const FLEET: &str = "0123456789abcdef";
/// What each report tells of.
pub const ASSIGNMENTS: usize = 20;

pub struct Site {
    name: Name,
    key: SigningKey,
    next: u64,
    previous: Option<Digest>,
}

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn stream() -> Stream {
    Stream {
        role: name("s-dev-drone"),
        environment: name("dev"),
        cluster_type: name("drone"),
    }
}

pub fn snapshot() -> Snapshot {
    let source = |name: &str| Source {
        name: name.to_owned(),
        repo: format!("https://git.example/{name}"),
        commit: "1111111111111111111111111111111111111111".to_owned(),
    };
    Snapshot {
        environment: source("env"),
        base: source("main"),
        workloads: Vec::new(),
        digest: Digest::of(b"snapshot"),
    }
}

impl Site {
    pub fn new(number: usize) -> Self {
        Self {
            name: name(&format!("site-{number:05}")),
            key: SigningKey::generate().unwrap(),
            next: 1,
            previous: None,
        }
    }

    pub fn request(&self) -> Vec<u8> {
        let kit = kit_key(FLEET, self.name.as_str(), "one-time-token");
        let request = EnrolmentRequest {
            fleet: name(FLEET),
            site: self.name.clone(),
            stream: stream(),
            public_key: self.key.public().to_pem(),
            seal_key: String::new(),
            order: None,
            kit: kit.public().to_hex(),
        };
        let payload = serde_json::to_vec(&request).unwrap();
        Envelope::sign(ENROLMENT_PAYLOAD_TYPE, payload, &self.key)
            .countersigned(&kit)
            .to_json()
    }

    /// Says that bundle 1 is active and well, in one signed line.
    pub fn report(&mut self) -> Vec<u8> {
        let result = |number: usize| AssignmentResult {
            name: name(&format!("workload-{number:02}")),
            status: ComplianceStatus::Compliant,
            config_version: Digest::of(b"config"),
            message: String::new(),
            steps: Vec::new(),
        };
        let report = Report {
            format: report::FORMAT.to_owned(),
            fleet: name(FLEET),
            site: self.name.clone(),
            epoch: name("e1"),
            number: self.next,
            previous: self.previous,
            at: SiteTime {
                wall_ms: 1_000,
                lower_bound_ms: 500,
                trusted: false,
            },
            event: ReportEvent::Generation(GenerationEvent {
                stream: stream(),
                number: 1,
                index: Digest::of(b"index"),
                snapshot: snapshot(),
                state: GenerationState::Active,
                assignments: (0..ASSIGNMENTS).map(result).collect(),
                message: String::new(),
                reverted_from: None,
            }),
        };
        self.next += 1;
        self.previous = Some(Digest::of(&report.to_bytes()));
        let mut line = Envelope::sign(PAYLOAD_TYPE, report.to_bytes(), &self.key).to_json();
        line.retain(|byte| *byte != b'\n');
        line.push(b'\n');
        line
    }
}
