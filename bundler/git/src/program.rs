//! The `git` program, for writing: one command, its input, its answer.
//!
//! What comes in: a repository's folder and arguments. What goes out: what git printed, or what it
//! complained of. It asks no questions, runs no hook and no foreign helper, signs nothing with a
//! person's key, and touches no index. A token for a server travels in
//! the environment of that one process, never in its arguments, and never to another server.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul_kit::interrupt;
use zeroize::Zeroizing;

use crate::source::git;

/// What git complained of.
#[derive(Debug, thiserror::Error)]
#[error("git {doing}: {message}")]
pub struct ProgramError {
    /// The git command.
    pub doing: String,
    /// What it said.
    pub message: String,
}

/// A token that one server is given, as the password of `user`.
#[derive(Clone)]
pub struct Credential {
    /// The start of the URLs that get it: `https://git.example/`.
    pub url: String,
    /// The user's name; what it must be depends on the server.
    pub user: String,
    /// The token.
    pub token: Zeroizing<String>,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the token.
        write!(f, "Credential({} at {})", self.user, self.url)
    }
}

/// One repository on this machine, for commands that write.
#[derive(Debug, Clone)]
pub struct Git {
    /// The repository.
    pub folder: PathBuf,
    /// What a server is given.
    pub credential: Option<Credential>,
    /// Whether it asks no server and no other repository, whatever the repository's settings name as the place of
    /// objects that it lacks.
    pub is_offline: bool,
}

impl Git {
    /// The repository in `folder`, with its own index.
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            credential: None,
            is_offline: false,
        }
    }

    /// The same, for commands that concern this repository alone.
    pub fn local(folder: &Path) -> Self {
        Self {
            is_offline: true,
            ..Self::at(folder)
        }
    }

    /// Runs git without input.
    ///
    /// # Errors
    /// [`ProgramError`] when it cannot be started or says no.
    pub fn text(&self, arguments: &[&str]) -> Result<String, ProgramError> {
        self.run(arguments, b"")
    }

    /// Runs git with `input`; what it printed, without space around it.
    ///
    /// # Errors
    /// [`ProgramError`] when it cannot be started or says no.
    pub fn run(&self, arguments: &[&str], input: &[u8]) -> Result<String, ProgramError> {
        self.feed(arguments, |stdin| stdin.write_all(input))
    }

    /// Runs git; `write` hands it its input, however long.
    ///
    /// # Errors
    /// [`ProgramError`] when it cannot be started or says no.
    pub fn feed(
        &self,
        arguments: &[&str],
        write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
    ) -> Result<String, ProgramError> {
        let failed = |message: String| ProgramError {
            doing: arguments.first().copied().unwrap_or_default().to_owned(),
            message,
        };
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own, with what it starts: hooks of a local repository, and transports.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(format!("cannot start the `git` program: {error}")))?;
        let started = interrupt::started(&child);
        if let Some(stdin) = child.stdin.take() {
            let mut stdin = std::io::BufWriter::new(stdin);
            // A git that ends early closes its input; its own message says why.
            let _ = write(&mut stdin).and_then(|()| stdin.flush());
        }
        let output = child
            .wait_with_output()
            .map_err(|error| failed(error.to_string()))?;
        drop(started);
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(failed(
                message.trim().trim_start_matches("fatal: ").to_owned(),
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = git::plain();
        if self.is_offline {
            git::keep_local(&mut command);
        }
        if let Some(credential) = &self.credential {
            let secret = format!("{}:{}", credential.user, credential.token.as_str());
            command
                // A redirect would carry the token elsewhere.
                .args(["-c", "http.followRedirects=false"])
                .env("GIT_CONFIG_COUNT", "1")
                .env(
                    "GIT_CONFIG_KEY_0",
                    format!("http.{}.extraHeader", credential.url),
                )
                .env(
                    "GIT_CONFIG_VALUE_0",
                    format!("Authorization: Basic {}", STANDARD.encode(secret)),
                );
        }
        // Who runs Outhaul unattended has no identity of their own in git.
        for who in ["AUTHOR", "COMMITTER"] {
            for (what, value) in [("NAME", "Outhaul"), ("EMAIL", "outhaul@localhost")] {
                let name = format!("GIT_{who}_{what}");
                let value = std::env::var_os(&name).unwrap_or_else(|| value.into());
                command.env(name, value);
            }
        }
        command
            .args(["-c", "commit.gpgSign=false", "-c", "push.gpgSign=false"])
            .arg("-C")
            .arg(&self.folder)
            .args(arguments);
        command
    }
}
