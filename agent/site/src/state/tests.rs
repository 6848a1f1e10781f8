//! Tests of the memory: damage that is reported and kept, floors from two places, an outbox that overflows.
//!
//! What comes in: databases in a temporary folder, damaged or put back on purpose. What goes out: what
//! is refused and what is kept. The way through power cuts is tested with the real program.

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;
use outhaul_bundle::report::{
    Ack, ComplianceStatus, GenerationEvent, GenerationState, Report, ReportEvent,
};
use outhaul_signer::{Envelope, LowerBound, SigningKey};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{self, OLD, name};
use tempfile::TempDir;

use super::floors::Floors;
use super::outbox::Author;
use super::*;
use crate::state::clock::ClockReading;

struct Memory {
    folder: TempDir,
    store: Store,
    site: SiteIdentity,
    key: SigningKey,
}

impl Memory {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("agent.db")).unwrap();
        let stream = plain::stream("dev", "drone");
        let site = SiteIdentity {
            fleet: name("f0"),
            name: name("drone-7"),
            stream,
            hub_url: String::new(),
            hub_key: String::new(),
            enrolment: None,
            hub_ca: String::new(),
            epoch: name("e0"),
        };
        Self {
            folder,
            store,
            site,
            key: SigningKey::generate().unwrap(),
        }
    }

    fn sidecar(&self) -> PathBuf {
        self.folder.path().join("floors.json")
    }

    fn queue(&mut self, max_rows: u64, event: ReportEvent) {
        let reading = ClockReading {
            bound: LowerBound::new(Timestamp::UNIX_EPOCH),
            wall: Timestamp::UNIX_EPOCH,
            wall_trusted: false,
            boot: None,
        };
        let (site, key) = (&self.site, &self.key);
        let author = Author {
            site,
            key,
            reading: &reading,
            max_rows,
        };
        self.store
            .commit(|db| outbox::queue(db, &author, event))
            .unwrap();
    }

    fn reports(&self) -> Vec<Report> {
        let rows = outbox::waiting(self.store.read(), 0, usize::MAX).unwrap();
        let payload = |row: outbox::WaitingReports| {
            let envelope = Envelope::from_json(&row.envelope).unwrap();
            Report::from_bytes(envelope.unverified_payload()).unwrap()
        };
        rows.into_iter().map(payload).collect()
    }

    fn ack(&mut self, number: u64) -> u64 {
        let ack = Ack {
            fleet: self.site.fleet.clone(),
            site: self.site.name.clone(),
            epoch: self.site.epoch.clone(),
            number,
            digest: None,
            hub_time_ms: 0,
        };
        let site = self.site.clone();
        self.store
            .commit(|db| outbox::acknowledge(db, &site, &ack))
            .unwrap()
    }

    fn generation_event(state: GenerationState) -> GenerationEvent {
        let drone = Site::new("drone-7", "dev", "drone");
        GenerationEvent {
            assignments: Vec::new(),
            ..drone.event(1, OLD, state, ComplianceStatus::Compliant)
        }
    }
}

fn floors_of(role: u64) -> Floors {
    Floors::from([("s-0".to_owned(), role), ("timestamp".to_owned(), 2 * role)])
}

#[test]
fn a_damaged_database_is_reported_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    fs::write(&path, vec![b'x'; 4096]).unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StateError::Damaged { .. }), "{error}");
    assert!(error.help().contains("floors.json"));
    assert_eq!(fs::read(&path).unwrap(), vec![b'x'; 4096]);
}

#[test]
fn what_fails_in_the_middle_is_not_committed() {
    let mut memory = Memory::new();
    let result: Result<(), StateError> = memory.store.commit(|db| {
        set_meta(db, key::ACTIVE, Some(&7))?;
        Err(StateError::NotEnrolled {
            folder: PathBuf::new(),
        })
    });
    assert!(result.is_err());
    assert_eq!(meta::<u64>(memory.store.read(), key::ACTIVE).unwrap(), None);
}

#[test]
fn a_cut_between_sidecar_and_database_keeps_the_higher_floors() {
    let mut memory = Memory::new();
    let sidecar = memory.sidecar();
    memory
        .store
        .commit(|db| floors::store(db, &floors_of(1)))
        .unwrap();
    floors::write_sidecar(memory.store.read(), &sidecar, &floors_of(2)).unwrap();
    assert_eq!(
        floors::floors(memory.store.read(), &sidecar).unwrap(),
        floors_of(2)
    );
    // A new database beside it goes on from there.
    memory
        .store
        .commit(|db| floors::store(db, &Floors::new()))
        .unwrap();
    assert_eq!(
        floors::floors(memory.store.read(), &sidecar).unwrap(),
        floors_of(2)
    );
}

#[test]
fn floors_that_contradict_each_other_are_no_floors() {
    let mut memory = Memory::new();
    let sidecar = memory.sidecar();
    floors::write_sidecar(memory.store.read(), &sidecar, &floors_of(5)).unwrap();
    memory
        .store
        .commit(|db| floors::store(db, &floors_of(4)))
        .unwrap();
    let error = floors::floors(memory.store.read(), &sidecar)
        .unwrap_err()
        .to_string();
    assert!(error.contains("the database is older"), "{error}");
    memory
        .store
        .commit(|db| floors::store(db, &floors_of(6)))
        .unwrap();
    let error = floors::floors(memory.store.read(), &sidecar)
        .unwrap_err()
        .to_string();
    assert!(error.contains("is older than the database"), "{error}");
}

#[test]
fn a_damaged_sidecar_is_no_loss_while_the_database_knows() {
    let mut memory = Memory::new();
    let sidecar = memory.sidecar();
    fs::write(&sidecar, "{\"format\":").unwrap();
    assert!(floors::floors(memory.store.read(), &sidecar).is_err());
    memory
        .store
        .commit(|db| floors::store(db, &floors_of(3)))
        .unwrap();
    assert_eq!(
        floors::floors(memory.store.read(), &sidecar).unwrap(),
        floors_of(3)
    );
}

#[test]
fn an_acknowledgement_frees_what_it_covers_and_an_old_one_nothing() {
    let mut memory = Memory::new();
    for _ in 0..5 {
        memory.queue(
            100,
            ReportEvent::Started {
                agent_version: "1".into(),
            },
        );
    }
    assert_eq!(memory.ack(6), 0, "nobody has report 6");
    assert_eq!(memory.ack(3), 3);
    assert_eq!(memory.ack(2), 0);
    let numbers: Vec<_> = memory
        .reports()
        .iter()
        .map(|report| report.number)
        .collect();
    assert_eq!(numbers, [4, 5]);
}

#[test]
fn a_full_outbox_keeps_failures_decisions_and_the_newest_and_reports_the_gaps() {
    let mut memory = Memory::new();
    let hold = ReportEvent::Decision {
        what: "hold".into(),
        who: "ann".into(),
        number: None,
        assignment: None,
        reason: None,
    };
    let failed = Memory::generation_event(GenerationState::Failed);
    memory.queue(20, hold.clone());
    memory.queue(20, ReportEvent::Generation(failed.clone()));
    for at in 0..60 {
        let message = at.to_string();
        let seen = GenerationEvent {
            message,
            ..Memory::generation_event(GenerationState::Active)
        };
        memory.queue(20, ReportEvent::Observation(seen));
        assert!(outbox::count(memory.store.read()).unwrap() <= 20);
    }
    let reports = memory.reports();
    let has = |event: &ReportEvent| reports.iter().any(|report| report.event == *event);
    assert!(has(&hold) && has(&ReportEvent::Generation(failed)));
    let ReportEvent::Observation(newest) = &reports.last().unwrap().event else {
        panic!("{reports:?}")
    };
    assert_eq!(newest.message, "59");
    // Every number up to the last is there or reported as a gap.
    let last = reports.last().unwrap().number;
    let generation_event = |number: &u64| {
        reports.iter().any(|report| match &report.event {
            _ if report.number == *number => true,
            ReportEvent::Gap { from, to, .. } => (from..=to).contains(&number),
            _ => false,
        })
    };
    let missing: Vec<_> = (1..=last)
        .filter(|number| !generation_event(number))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_new_database_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let memory = Memory::new();
    let files = ["agent.db", "agent.db-wal", "agent.db-shm"];
    for path in files.map(|name| memory.folder.path().join(name)) {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn on_a_full_disk_no_bundle_that_waits_or_is_gone_back_to_is_named_as_one_that_may_be_removed() {
    let folder = PathBuf::from("/var/state");
    let help = StateError::NoSpace {
        folder,
        doing: "write",
    };
    let help = help.help();
    for words in [
        "lower number than the active one",
        "none of these folders unless it is known which bundle is active and that nothing is held",
        "not the one that it goes back to",
    ] {
        assert!(help.contains(words), "{help}");
    }
}

#[test]
fn a_folder_with_a_space_in_its_name_is_one_word_of_the_commands_that_are_named() {
    let path = PathBuf::from("/var/my state/agent.db");
    let folder = PathBuf::from("/var/my state");
    let (doing, found) = ("write", "a FIFO");
    for (error, command) in [
        (
            StateError::Instead { path, found },
            "`mv '/var/my state/agent.db' /var/agent.db.aside`",
        ),
        (
            StateError::NoSpace {
                folder: folder.clone(),
                doing,
            },
            "`df -h '/var/my state'`",
        ),
        (
            StateError::ReadOnly { folder, doing },
            "`findmnt -T '/var/my state'`",
        ),
    ] {
        assert!(error.help().contains(command), "{}", error.help());
    }
}
