//! Which program is to be started, and whether a release is to be put into a slot.
//!
//! What comes in: what is in the slots, the version of the packaged program, a release that a signed index lists. What goes
//! out: a decision. It reads no file, and its test walks every state of the slots.

use std::cmp::Ordering;

use outhaul_bundle::index::Content;
use outhaul_bundle::index::release::{AgentRelease, compare};

use crate::slots::{Program, Slots};

/// How often a program is tried: a power cut or a host that cannot be asked is not its fault.
pub const MAX_ATTEMPTS: u32 = 3;

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// The packaged program.
    Packaged,
    /// The program in use.
    Committed(Program),
    /// First try this one.
    Trial(Program),
    /// This one was tried often enough.
    GiveUp(Program, String),
}

/// What to start, by what is in the slots. A packaged program that is as new as the one in use takes its place.
pub fn start(slots: &Slots, packaged: &str) -> Start {
    if let Some(trial) = &slots.trial {
        let program = trial.program.clone();
        if compare(&program.version, packaged) != Ordering::Greater {
            return Start::GiveUp(program, format!("the packaged program is {packaged}"));
        }
        if trial.attempts < MAX_ATTEMPTS {
            return Start::Trial(program);
        }
        let why = match trial.why.as_str() {
            "" => "the power went or it was killed while it was tried".to_owned(),
            why => why.to_owned(),
        };
        return Start::GiveUp(program, format!("tried {MAX_ATTEMPTS} times: {why}"));
    }
    match &slots.committed {
        Some(program) if compare(&program.version, packaged) == Ordering::Greater => {
            Start::Committed(program.clone())
        }
        _ => Start::Packaged,
    }
}

/// What becomes of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseChoice {
    /// What runs is as new.
    No,
    /// It is in a slot already, to be tried.
    Waits,
    /// It has no program for this machine.
    OtherMachines,
    /// It failed here: why.
    Failed(String),
    /// It is to be put into a slot.
    Install(Content),
}

/// What becomes of `release` on a machine of `architecture` on which `running` runs.
pub fn wanted(
    slots: &Slots,
    running: &str,
    release: &AgentRelease,
    architecture: &str,
) -> ReleaseChoice {
    if compare(&release.version, running) != Ordering::Greater {
        return ReleaseChoice::No;
    }
    let Some(content) = release.programs.get(architecture) else {
        return ReleaseChoice::OtherMachines;
    };
    let trial = slots.trial.as_ref().map(|trial| &trial.program);
    if trial.is_some_and(|program| program.digest == content.digest) {
        return ReleaseChoice::Waits;
    }
    match slots
        .failed
        .iter()
        .find(|failed| failed.digest == content.digest)
    {
        Some(failed) => ReleaseChoice::Failed(failed.why.clone()),
        None => ReleaseChoice::Install(*content),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use outhaul_bundle::Digest;

    use super::*;
    use crate::slots::{Slot, Trial};

    fn one(slot: Slot, version: &str) -> Program {
        Program {
            slot,
            version: version.into(),
            digest: Digest::of(version.as_bytes()),
            bundle: 7,
        }
    }

    #[test]
    fn in_every_state_of_the_slots_something_is_started_and_never_an_older_program() {
        let versions = ["0.0.9", "0.1.0", "0.2.0"];
        let committed = versions
            .map(|v| Some(one(Slot::A, v)))
            .into_iter()
            .chain([None]);
        for committed in committed {
            let trials = versions.iter().flat_map(|v| {
                (0..=MAX_ATTEMPTS).map(move |attempts| {
                    let why = String::new();
                    Some(Trial {
                        program: one(Slot::B, v),
                        attempts,
                        why,
                    })
                })
            });
            for trial in trials.chain([None]) {
                let slots = Slots {
                    committed: committed.clone(),
                    trial: trial.clone(),
                    failed: Vec::new(),
                };
                match start(&slots, "0.1.0") {
                    Start::Packaged => assert!(trial.is_none()),
                    Start::Committed(program) => {
                        assert!(trial.is_none());
                        assert_eq!(program.version, "0.2.0");
                    }
                    Start::Trial(program) => {
                        assert_eq!(program.version, "0.2.0");
                        assert!(trial.unwrap().attempts < MAX_ATTEMPTS);
                    }
                    // Then it is asked again, without the trial.
                    Start::GiveUp(program, why) => {
                        let mut after = slots.clone();
                        after.fail(&program, &why);
                        assert!(!matches!(
                            start(&after, "0.1.0"),
                            Start::Trial(_) | Start::GiveUp(..)
                        ));
                    }
                }
            }
        }
    }

    #[test]
    fn a_release_is_installed_when_it_is_newer_for_this_machine_and_did_not_fail_here() {
        let content = Content {
            digest: Digest::of(b"0.2.0"),
            size: 5,
        };
        let programs = BTreeMap::from([("x86_64".to_owned(), content)]);
        let release = AgentRelease {
            version: "0.2.0".into(),
            programs,
        };
        let mut slots = Slots::default();
        assert_eq!(
            wanted(&slots, "0.1.0", &release, "x86_64"),
            ReleaseChoice::Install(content)
        );
        assert_eq!(
            wanted(&slots, "0.2.0", &release, "x86_64"),
            ReleaseChoice::No
        );
        assert_eq!(
            wanted(&slots, "0.3.0", &release, "x86_64"),
            ReleaseChoice::No
        );
        assert_eq!(
            wanted(&slots, "0.1.0", &release, "aarch64"),
            ReleaseChoice::OtherMachines
        );
        let program = one(Slot::A, "0.2.0");
        slots.trial = Some(Trial {
            program: program.clone(),
            attempts: 0,
            why: String::new(),
        });
        assert_eq!(
            wanted(&slots, "0.1.0", &release, "x86_64"),
            ReleaseChoice::Waits
        );
        slots.fail(&program, "it ended with exit code 5");
        let why = "it ended with exit code 5".to_owned();
        assert_eq!(
            wanted(&slots, "0.1.0", &release, "x86_64"),
            ReleaseChoice::Failed(why)
        );
    }
}
