//! What is in the two slots: which program is in use, which is to be tried, what failed.
//!
//! What comes in: the agent's state folder. What goes out: [`Slots`], read from and written to one durable file,
//! `agent/slots.json`. A file that is damaged says nothing: the packaged program runs then. It starts nothing.

use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_kit::durable::{self, FileError};
use serde::{Deserialize, Serialize};

/// Largest file, in bytes.
const MAX_BYTES: u64 = 64 * 1024;
/// How many failed programs are remembered.
const MAX_FAILED: usize = 16;
/// The longest reason that is remembered, in characters.
const MAX_WHY: usize = 600;

/// One of the two slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// The first.
    A,
    /// The second.
    B,
}

/// A program in a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Where it lies.
    pub slot: Slot,
    /// Its version, as it was signed.
    pub version: String,
    /// Digest of its bytes, as it was signed.
    pub digest: Digest,
    /// The number of the bundle that brought it.
    pub bundle: u64,
}

/// A program that is to be tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The program.
    pub program: Program,
    /// How often that was begun.
    pub attempts: u32,
    /// Why the last attempt came to nothing; empty before that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A program that did not pass its trial, or that does not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// Its version.
    pub version: String,
    /// Digest of its bytes: it is not tried again.
    pub digest: Digest,
    /// The number of the bundle that brought it.
    pub bundle: u64,
    /// Why, in a sentence.
    pub why: String,
}

/// What is in the slots.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slots {
    /// The program in use; none: the packaged one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed: Option<Program>,
    /// What is to be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// What failed, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Failed>,
}

/// The folder of the slots in a state folder.
pub fn folder(state: &Path) -> PathBuf {
    state.join("agent")
}

/// Where the program of a slot lies.
pub fn program(state: &Path, slot: Slot) -> PathBuf {
    let name = match slot {
        Slot::A => "a",
        Slot::B => "b",
    };
    folder(state).join(name).join("outhaul-agent")
}

impl Slots {
    /// What is in the slots of a state folder; nothing, when the file is not there or damaged.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be read.
    pub fn read(state: &Path) -> Result<Self, FileError> {
        let bytes = durable::read_if_present(&folder(state).join("slots.json"), MAX_BYTES)?;
        let read = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(read.unwrap_or_default())
    }

    /// Keeps it, durably.
    ///
    /// # Errors
    /// [`FileError`]
    pub fn write(&self, state: &Path) -> Result<(), FileError> {
        let folder = folder(state);
        durable::make_folder(&folder)?;
        let text = serde_json::to_value(self).unwrap_or_default().to_string();
        durable::write(&folder.join("slots.json"), text.as_bytes(), 0o600)
    }

    /// The slot whose program is not in use.
    pub fn free(&self) -> Slot {
        match &self.committed {
            Some(Program { slot: Slot::A, .. }) => Slot::B,
            _ => Slot::A,
        }
    }

    /// Remembers that a program failed. It is neither tried nor in use any more.
    pub fn fail(&mut self, program: &Program, why: &str) {
        self.trial.take_if(|trial| trial.program == *program);
        self.committed.take_if(|committed| committed == program);
        self.failed.retain(|failed| failed.digest != program.digest);
        self.failed.push(Failed {
            version: program.version.clone(),
            digest: program.digest,
            bundle: program.bundle,
            why: why.chars().take(MAX_WHY).collect(),
        });
        let surplus = self.failed.len().saturating_sub(MAX_FAILED);
        self.failed.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(slot: Slot, version: &str) -> Program {
        Program {
            slot,
            version: version.into(),
            digest: Digest::of(version.as_bytes()),
            bundle: 7,
        }
    }

    #[test]
    fn what_is_in_the_slots_is_read_back_and_a_damaged_file_says_nothing() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(Slots::read(state.path()).unwrap(), Slots::default());
        let slots = Slots {
            committed: Some(one(Slot::A, "0.2.0")),
            trial: Some(Trial {
                program: one(Slot::B, "0.3.0"),
                attempts: 1,
                why: String::new(),
            }),
            failed: Vec::new(),
        };
        slots.write(state.path()).unwrap();
        assert_eq!(Slots::read(state.path()).unwrap(), slots);
        std::fs::write(state.path().join("agent/slots.json"), "{\"committed\"").unwrap();
        assert_eq!(Slots::read(state.path()).unwrap(), Slots::default());
    }

    #[test]
    fn what_failed_is_not_in_use_and_is_remembered_once() {
        let program = one(Slot::B, "0.3.0");
        let mut slots = Slots {
            committed: Some(one(Slot::A, "0.2.0")),
            ..Slots::default()
        };
        assert_eq!(slots.free(), Slot::B);
        slots.trial = Some(Trial {
            program: program.clone(),
            attempts: 1,
            why: String::new(),
        });
        slots.fail(&program, "it ended with exit code 5");
        slots.fail(&program, "again");
        assert_eq!((slots.trial.as_ref(), slots.failed.len()), (None, 1));
        assert_eq!(slots.committed.as_ref().unwrap().version, "0.2.0");
        slots.fail(&one(Slot::A, "0.2.0"), "it does not start");
        assert_eq!(slots.committed, None);
        assert_eq!(slots.free(), Slot::A);
    }
}
