//! The agent that a bundle brings: one program for each architecture, of one version.
//!
//! What comes in: a list that signed metadata vouches for, the first bytes of a program. What goes out: the same list, checked;
//! which machine a program is for; which of two versions is newer. No reconciler applies it: the agent replaces itself.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::tree::BundleContents;
use super::{Content, IndexError};

/// Largest program, in bytes.
pub const MAX_PROGRAM_BYTES: u64 = 256 * 1024 * 1024;
/// How many of a program's first bytes say which machine it is for.
pub const HEADER_BYTES: usize = 20;
/// Most architectures.
const MAX_PROGRAMS: usize = 8;

/// One version of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRelease {
    /// Its version: numbers with dots, perhaps with `-` and more.
    pub version: String,
    /// The program by architecture: `x86_64`, `aarch64` … Never empty.
    pub programs: BTreeMap<String, Content>,
}

impl AgentRelease {
    pub(super) fn check(&self, carried: BundleContents<'_>) -> Result<(), IndexError> {
        let fail = |problem: String| Err(IndexError::Inconsistent { problem });
        if !is_version(&self.version) {
            let shown: String = self
                .version
                .chars()
                .filter(|c| !c.is_control())
                .take(40)
                .collect();
            return fail(format!("`{shown}` is not a version of the agent"));
        }
        if self.programs.is_empty() || self.programs.len() > MAX_PROGRAMS {
            let count = self.programs.len();
            return fail(format!(
                "{count} programs of the agent, 1 to {MAX_PROGRAMS} are allowed"
            ));
        }
        for (architecture, content) in &self.programs {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !(1..=32).contains(&architecture.len()) || !architecture.chars().all(word) {
                return fail("an architecture of the agent is not a word".to_owned());
            }
            if content.size > MAX_PROGRAM_BYTES {
                return fail(format!(
                    "the agent for {architecture} has {} bytes",
                    content.size
                ));
            }
            match carried.sizes.get(&content.digest) {
                Some(size) if *size != content.size => {
                    return fail(format!(
                        "the agent for {architecture} and its blob differ in size"
                    ));
                }
                None if !carried.delta => {
                    return fail(format!("nothing carries the agent for {architecture}"));
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }
}

/// Whether `text` is a version: `1.4.0`, `1.4.0-rc1`.
pub fn is_version(text: &str) -> bool {
    let (numbers, rest) = text.split_once('-').unwrap_or((text, "a"));
    let number =
        |part: &str| (1..=9).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    (1..=4).contains(&numbers.split('.').count())
        && numbers.split('.').all(number)
        && (1..=32).contains(&rest.len())
        && rest.chars().all(word)
}

/// How two versions compare; one with `-` and more comes before the same without.
pub fn compare(one: &str, other: &str) -> Ordering {
    let parts = |text: &str| {
        let (numbers, rest) = text.split_once('-').unwrap_or((text, ""));
        let mut numbers: Vec<u64> = numbers.split('.').map(|n| n.parse().unwrap_or(0)).collect();
        numbers.resize(4.max(numbers.len()), 0);
        (numbers, rest.is_empty(), rest.to_owned())
    };
    parts(one).cmp(&parts(other))
}

/// The architecture that an ELF program is for, by its first bytes.
///
/// # Errors
/// A sentence that says what it is instead.
pub fn architecture_of(header: &[u8]) -> Result<&'static str, String> {
    let Some(header) = header
        .get(..HEADER_BYTES)
        .filter(|h| h.starts_with(b"\x7fELF"))
    else {
        return Err("it is not an ELF program".to_owned());
    };
    let (class, order) = (header[4], header[5]);
    if !matches!(order, 1 | 2) {
        return Err("its byte order is not known".to_owned());
    }
    let two = |at: usize| {
        let bytes = [header[at], header[at + 1]];
        if order == 1 {
            u16::from_le_bytes(bytes)
        } else {
            u16::from_be_bytes(bytes)
        }
    };
    // Executables, and those that may be loaded anywhere.
    if !matches!(two(16), 2 | 3) {
        return Err("it is not a program that can be started".to_owned());
    }
    match (two(18), class, order) {
        (62, 2, 1) => Ok("x86_64"),
        (183, 2, 1) => Ok("aarch64"),
        (40, 1, 1) => Ok("arm"),
        (243, 2, 1) => Ok("riscv64"),
        (machine, ..) => Err(format!("it is for a machine that is not known ({machine})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Index;
    use crate::fake::FakeBundle;
    use crate::index::{FORMAT, FORMAT_WITH_SITE_RULES};
    use crate::limits::Limits;

    fn header(class: u8, order: u8, kind: u16, machine: u16) -> Vec<u8> {
        let mut made = b"\x7fELF".to_vec();
        made.extend([class, order, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        made.extend(kind.to_le_bytes());
        made.extend(machine.to_le_bytes());
        made
    }

    #[test]
    fn a_program_says_for_which_machine_it_is() {
        assert_eq!(architecture_of(&header(2, 1, 3, 62)), Ok("x86_64"));
        assert_eq!(architecture_of(&header(2, 1, 2, 183)), Ok("aarch64"));
        for (bytes, words) in [
            (b"#!/bin/sh\nexec reboot\n".to_vec(), "not an ELF program"),
            (header(2, 1, 3, 62)[..10].to_vec(), "not an ELF program"),
            (header(2, 1, 1, 62), "not a program that can be started"),
            (header(2, 1, 3, 999), "not known (999)"),
            (header(1, 1, 3, 62), "not known"),
            (header(2, 9, 3, 62), "byte order"),
        ] {
            let why = architecture_of(&bytes).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let sorted = [
            "0.1.0",
            "0.1.9",
            "0.1.10-rc1",
            "0.1.10",
            "0.2",
            "1.0.0-a",
            "1.0.0",
        ];
        for pair in sorted.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Ordering::Less, "{pair:?}");
        }
        assert_eq!(compare("1.0", "1.0.0"), Ordering::Equal);
        for text in ["", "v1", "1..2", "1.2.3.4.5", "1-", "1.0-a b", "../1"] {
            assert!(!is_version(text), "{text}");
        }
        assert!(sorted.into_iter().all(is_version));
    }

    #[test]
    fn a_release_is_carried_by_the_bundle_and_an_older_reader_refuses_it() {
        let mut index = FakeBundle::new(4, &[("namespace.yaml", b"a")])
            .unwrap()
            .index;
        let content = index.blobs[0].contents[0];
        let programs = BTreeMap::from([("x86_64".to_owned(), content)]);
        index.agent = Some(AgentRelease {
            version: "0.2.0".into(),
            programs,
        });
        let read = |index: &Index| {
            let read = Index::from_bytes(&index.to_bytes(), &Limits::default());
            read.map_err(|error| error.to_string())
        };
        let error = read(&index).unwrap_err();
        assert!(error.contains(FORMAT_WITH_SITE_RULES), "{error}");
        index.format = FORMAT_WITH_SITE_RULES.to_owned();
        assert_eq!(read(&index).unwrap(), index);
        let mut lacking = index.clone();
        let other = Content {
            digest: crate::Digest::of(b"other"),
            size: 5,
        };
        lacking
            .agent
            .as_mut()
            .unwrap()
            .programs
            .insert("aarch64".into(), other);
        assert!(
            read(&lacking)
                .unwrap_err()
                .contains("nothing carries the agent for aarch64")
        );
        index.agent.as_mut().unwrap().version = "../x".into();
        assert!(read(&index).unwrap_err().contains("is not a version"));
        assert_ne!(FORMAT, FORMAT_WITH_SITE_RULES);
    }
}
