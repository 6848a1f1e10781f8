//! The real `outhaul-mirror` on a site's state folder, for tests.
//!
//! What comes in: the folder. What goes out: its address, with TLS on a free port of this machine. It ends with its value.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// A mirror that answers.
#[derive(Debug)]
pub struct Mirror {
    child: Child,
    /// `https://127.0.0.1:PORT`.
    pub url: String,
}

impl Mirror {
    /// Starts it, and waits until it says where it listens.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(state: &Path) -> Result<Self> {
        let mut child = Command::new(crate::program("outhaul-mirror")?)
            .args(["run", "--listen", "127.0.0.1:0", "--state"])
            .arg(state)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("its output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let url = line.trim().trim_end_matches('/').to_owned();
        ensure!(url.starts_with("https://127.0.0.1:"), "it said {url:?}");
        Ok(Self { child, url })
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
