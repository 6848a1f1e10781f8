//! `outhaul demo`: the whole loop, on an example, in a separate folder.
//!
//! What comes in: a folder (a temporary one, unless it is to be kept) and the three programs. What goes
//! out: the transcript of two rounds on standard output: what was scheduled where and why, what travelled,
//! what each site verified and applied, what came back, why the gate opened. It types the commands
//! that a user would type, runs agent and hub as the separate programs that they are, needs no root and
//! no network, and changes nothing outside its folder.

use std::io;
use std::path::{Path, PathBuf};

use outhaul_kit::failure::{Classified, FailureClass};

pub mod example;
mod folders;
mod programs;
mod rounds;
mod transcript;
mod typed;

use folders::DemoFolders;
use programs::Programs;
use transcript::Transcript;

/// What a person chose.
#[derive(Debug, Clone, Default)]
pub struct DemoOptions {
    /// Keep everything in this folder, which must not exist or be empty.
    pub keep: Option<PathBuf>,
    /// Leave the hub's page open until interrupted.
    pub serve: bool,
}

/// Why the demo stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// A program did not do what the transcript needs.
    #[error("`{command}` ended with {code}\n{said}")]
    Command {
        /// The command, as typed.
        command: String,
        /// How it ended.
        code: String,
        /// What it said.
        said: String,
    },
    /// A program answered something unexpected.
    #[error("`{command}` answered unexpectedly: {problem}")]
    Answer {
        /// The command, as typed.
        command: String,
        /// What is wrong with the answer.
        problem: String,
    },
    /// The folder to keep is in use.
    #[error("`{}` is not empty\nhelp: choose a new folder; nothing was changed", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The file system refused.
    #[error("cannot {doing} `{}`: {error}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The other programs are missing.
    #[error("{problem}")]
    Programs {
        /// What is missing, and what to do.
        problem: String,
    },
}

/// What to do where disk or system refuse.
const ROOM: &str = "see that the disk has room and can be written to (`df`), or name a folder on another one with `--keep DIR`, or in `TMPDIR` \
                    where nothing is kept; then run it again";

impl DemoError {
    /// Whether a program of the demo failed for the machine that it runs on: by its exit code, or by what the system said to it.
    fn is_of_the_machine(&self) -> bool {
        let Self::Command { code, said, .. } = self else {
            return false;
        };
        let environment = format!("exit status: {}", FailureClass::Environment.code());
        *code == environment || SYSTEM_ERRORS.iter().any(|error| said.contains(error))
    }
}

/// What the system says of a disk that takes no more, in the words of programs that have no exit code for it.
const SYSTEM_ERRORS: [&str; 3] = [
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
];

impl Classified for DemoError {
    fn class(&self) -> FailureClass {
        match self {
            Self::InUse { .. } => FailureClass::Usage,
            Self::Io { .. } | Self::Programs { .. } => FailureClass::Environment,
            _ if self.is_of_the_machine() => FailureClass::Environment,
            _ => FailureClass::Internal,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Io { .. } => Some(ROOM.to_owned()),
            Self::Command { .. } if self.is_of_the_machine() => Some(ROOM.to_owned()),
            _ => None,
        }
    }
}

/// Runs the demo.
///
/// # Errors
/// [`DemoError`] when a step does not do what it should.
pub fn run(options: &DemoOptions) -> Result<(), DemoError> {
    let programs = programs::locate()?;
    let (folder, temporary) = place(options)?;
    let mut transcript = Transcript::new();
    let ansible = folders::ansible_version();
    transcript.title(&folder, options.keep.is_some(), ansible.as_deref());
    let mut folders = DemoFolders::set(&folder, programs, ansible.is_some())?;
    transcript.fleet(&folders);
    rounds::first(&mut folders, &mut transcript)?;
    rounds::second(&mut folders, &mut transcript)?;
    if let Some(kept) = &options.keep {
        folders.write_project()?;
        transcript.next_commands(kept, &folders);
    }
    if options.serve {
        transcript.line(&format!(
            "The hub's page is open at {} (Ctrl-C ends it).",
            folders.hub_url()
        ));
        folders.wait_for_hub()?;
    }
    drop(folders);
    drop(temporary);
    Ok(())
}

fn place(options: &DemoOptions) -> Result<(PathBuf, Option<tempfile::TempDir>), DemoError> {
    let at = |doing, path: &Path| {
        let path = path.to_path_buf();
        move |error| DemoError::Io { doing, path, error }
    };
    let Some(folder) = &options.keep else {
        let parent = std::env::temp_dir();
        let made = tempfile::Builder::new()
            .prefix("outhaul-demo-")
            .tempdir_in(&parent);
        let made = made.map_err(at("make a folder in", &parent))?;
        return Ok((made.path().to_path_buf(), Some(made)));
    };
    std::fs::create_dir_all(folder).map_err(at("create", folder))?;
    let mut entries = std::fs::read_dir(folder).map_err(at("list", folder))?;
    if entries.next().is_some() {
        return Err(DemoError::InUse {
            folder: folder.clone(),
        });
    }
    let folder = std::path::absolute(folder).map_err(at("find", folder))?;
    Ok((folder, None))
}
