//! A command as a user would type it, run to its end.
//!
//! What comes in: a program and its arguments. What goes out: what it printed, or an error with the
//! command and all that it said. It gives a program no input and hides nothing that it says on failure.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::DemoError;

/// One command to be.
#[derive(Debug)]
pub struct Typed {
    command: Command,
    /// Arguments at its beginning that a user would not type.
    hidden: usize,
    allowed: Vec<i32>,
}

impl Typed {
    /// A command that runs in `folder`.
    pub fn new(program: &Path, folder: &Path) -> Self {
        Self::of(Command::new(program), folder)
    }

    /// `git`, as every part of Outhaul starts it.
    pub fn git(folder: &Path) -> Self {
        Self::of(outhaul_git::source::git::plain(), folder)
    }

    fn of(mut command: Command, folder: &Path) -> Self {
        // All options are typed: a project file of a folder above is about something else.
        command
            .current_dir(folder)
            .env("OUTHAUL_PROJECT", "none")
            .stdin(Stdio::null());
        let hidden = command.get_args().count();
        Self {
            command,
            hidden,
            allowed: vec![0],
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, arguments: I) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Another exit code that the transcript expects.
    #[must_use]
    pub fn or_code(mut self, code: i32) -> Self {
        self.allowed.push(code);
        self
    }

    /// Runs it: its standard output and exit code.
    pub fn run_with_code(mut self) -> Result<(String, i32), DemoError> {
        let shown = self.shown();
        let output = self.command.output().map_err(|error| DemoError::Command {
            command: shown.clone(),
            code: "no start".to_owned(),
            said: error.to_string(),
        })?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.code() {
            Some(code) if self.allowed.contains(&code) => Ok((stdout, code)),
            _ => Err(DemoError::Command {
                command: shown,
                code: output.status.to_string(),
                said: format!("{stdout}{}", String::from_utf8_lossy(&output.stderr)),
            }),
        }
    }

    /// Runs it: its standard output.
    pub fn run(self) -> Result<String, DemoError> {
        self.run_with_code().map(|(stdout, _)| stdout)
    }

    /// Runs it: the result in the envelope on its standard output.
    pub fn json(self) -> Result<serde_json::Value, DemoError> {
        let command = self.shown();
        let text = self.run()?;
        let mut envelope: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| DemoError::Answer {
                command,
                problem: format!("{error}: {text}"),
            })?;
        Ok(envelope["result"].take())
    }

    /// The command for people: the program without its folder.
    pub fn shown(&self) -> String {
        let program = Path::new(self.command.get_program())
            .file_name()
            .unwrap_or_default();
        let mut text = program.to_string_lossy().into_owned();
        for argument in self.command.get_args().skip(self.hidden) {
            text.push(' ');
            text.push_str(&argument.to_string_lossy());
        }
        text
    }

    /// The command itself, for what is started and goes on.
    pub fn into_command(self) -> Command {
        self.command
    }
}
