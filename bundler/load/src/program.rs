//! Programs that whoever runs outhaul names, and one run of one of them.
//!
//! What comes in: texts `NAME=PROGRAM`; then a program without arguments, what it reads, how long it may take. What goes out: what
//! it wrote on its standard output, or a [`ProgramFault`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::program::{self, Limits};
pub use outhaul_kit::program::{ProgramFault, last_line, shown};

/// The most that a program may answer: 20,000 assignments with their reasons fit in easily.
const MAX_OUTPUT: u64 = 16 << 20;

/// Programs by the name that a control plane calls them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Programs(BTreeMap<String, PathBuf>);

/// Why texts name no programs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPrograms {
    /// One is not of the form `NAME=PROGRAM`.
    #[error("`{0}` does not name a program")]
    Form(String),
    /// Two are for one name.
    #[error("`{name}` has two programs, `{first}` and `{second}`")]
    Twice {
        /// The name.
        name: String,
        /// The program that was given first.
        first: String,
        /// The other one.
        second: String,
    },
}

impl Classified for NotPrograms {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }

    fn help(&self) -> Option<String> {
        let help = match self {
            Self::Form(_) => "write `NAME=PROGRAM`",
            Self::Twice { .. } => "give each name once",
        };
        Some(help.to_owned())
    }
}

impl Programs {
    /// From texts of the form `NAME=PROGRAM`.
    ///
    /// # Errors
    /// [`NotPrograms`] for the first text that is not of this form, or names one again.
    pub fn parse(given: &[String]) -> Result<Self, NotPrograms> {
        let mut programs = BTreeMap::new();
        for text in given {
            let pair = text.split_once('=');
            let Some((name, program)) = pair.filter(|(a, b)| !a.is_empty() && !b.is_empty()) else {
                return Err(NotPrograms::Form(text.clone()));
            };
            let before = programs.insert(name.to_owned(), PathBuf::from(program));
            if let Some(before) = before {
                return Err(NotPrograms::Twice {
                    name: name.to_owned(),
                    first: before.display().to_string(),
                    second: program.to_owned(),
                });
            }
        }
        Ok(Self(programs))
    }

    /// The program of that name.
    pub fn get(&self, name: &str) -> Option<&Path> {
        self.0.get(name).map(PathBuf::as_path)
    }

    /// The names.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// The names that are none of `known`: their programs are never run.
    pub fn unused(&self, known: &[&str]) -> Vec<&str> {
        let mut names = self.names();
        names.retain(|name| !known.contains(name));
        names
    }

    /// Whether no program is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Runs a program once.
///
/// # Errors
/// [`ProgramFault`]; it and what it started were stopped.
pub fn run(program: &Path, input: &[u8], time: Duration) -> Result<Vec<u8>, ProgramFault> {
    let limits = Limits {
        time,
        output: MAX_OUTPUT,
        asks: false,
    };
    program::run(&mut Command::new(program), input, &limits)
}
