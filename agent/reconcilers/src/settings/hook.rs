//! `[hook]` of `agent.toml`: the program that is this site's own reconciler.
//!
//! What comes in: the section's keys. What goes out: a [`HookConfig`] with every value in range. Whose file the
//! program is, is looked at when it is started.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::OutOfRange;
use super::choice::ReconcilerChoice;

/// `[hook]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HookConfig {
    /// The program. Without it, there is none.
    pub program: Option<PathBuf>,
    /// Longest run for one question in seconds, 1 to 86,400.
    pub timeout_s: u64,
    /// Seconds that what was applied may take to be healthy, 1 to 86,400.
    pub wait_s: u64,
    /// What the program finds in its environment beside `PATH`, `HOME` and `LC_ALL`.
    pub environment: BTreeMap<String, String>,
}

impl Default for HookConfig {
    fn default() -> Self {
        Self {
            program: None,
            timeout_s: 600,
            wait_s: 300,
            environment: BTreeMap::new(),
        }
    }
}

impl HookConfig {
    /// The first value that is out of its range: its key, the value, and what is allowed.
    pub fn out_of_range(&self, choice: &ReconcilerChoice) -> Option<OutOfRange> {
        let seconds = [
            ("hook.timeout_s", self.timeout_s),
            ("hook.wait_s", self.wait_s),
        ];
        for (key, found) in seconds {
            if !(1..=86_400).contains(&found) {
                return Some((key, found.to_string(), "1 to 86400"));
            }
        }
        let name = |name: &&String| {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            name.is_empty() || !name.bytes().all(letter)
        };
        if let Some(wrong) = self.environment.keys().find(name) {
            let expected = "names of letters, digits and `_`";
            return Some(("hook.environment", format!("`{wrong}`"), expected));
        }
        match (&self.program, choice) {
            (Some(program), _) if !program.is_absolute() => Some((
                "hook.program",
                format!("`{}`", program.display()),
                "an absolute path, such as \"/usr/local/lib/outhaul/symphony\"",
            )),
            (None, ReconcilerChoice::Hook | ReconcilerChoice::Named(_)) => Some((
                "reconciler",
                format!("`{}`", choice.as_str()),
                "`auto`, `ansible`, `folder` or `kubernetes`; any other name needs `program` under `[hook]`",
            )),
            _ => None,
        }
    }
}
