//! What may make a bundle wait on a site, and what counts as its health: `[delay]` and `[health]`.
//!
//! What comes in: the sections of `agent.toml`. What goes out: values, and which of them is out of its range. It asks nobody
//! and reads no clock.

use std::path::PathBuf;

use outhaul_reconcilers::settings::OutOfRange;
use serde::Deserialize;

/// What happens when a deadline passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AtDeadline {
    /// What waits waits on, and says that a person has to decide.
    #[default]
    Ask,
    /// It is over: what waits is applied.
    Go,
}

/// `[delay]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DelayConfig {
    /// A folder in which each file delays what waits.
    pub folder: Option<PathBuf>,
    /// Programs and URLs that are asked whether what waits may be applied.
    pub ask: Vec<AskConfig>,
    /// Longest delay in hours, 1 to 8760.
    pub longest_h: i64,
    /// What happens at a deadline.
    pub at_deadline: AtDeadline,
}

impl Default for DelayConfig {
    fn default() -> Self {
        Self {
            folder: None,
            ask: Vec::new(),
            longest_h: 72,
            at_deadline: AtDeadline::Go,
        }
    }
}

/// `[health]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HealthConfig {
    /// Seconds for which health has to be good after a bundle was applied, 0 to 604,800. 0: at one look.
    pub soak_s: u32,
    /// How often the same content is applied and left again without a person, 1 to 100.
    pub max_returns: u32,
    /// Programs and URLs that count as this site's health.
    pub ask: Vec<AskConfig>,
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self {
            soak_s: 0,
            max_returns: 2,
            ask: Vec::new(),
        }
    }
}

/// A program, a URL or an object of this site.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AskConfig {
    /// Its name in `status` and reports.
    pub name: String,
    /// The program, by its absolute path, and its arguments.
    pub program: Vec<String>,
    /// The URL: `https://`, or `http://` of this very host.
    pub url: Option<String>,
    /// PEM file with the certificate authority to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// An object of the cluster that `[kubernetes]` names, as `status` names objects: `Deployment.apps shop/web`, `Node worker-1`.
    pub object: Option<String>,
    /// The type of its condition that is looked at: `Available`, `Ready`.
    pub condition: Option<String>,
    /// The status that the condition is to have; without it, `True`.
    pub is: Option<String>,
    /// Longest time for an answer in seconds, 1 to 60; without it, 10. Of a condition: how long it may take to be as it is to
    /// be, 1 to 3600; without it, 60.
    pub timeout_s: Option<u64>,
}

impl AskConfig {
    /// Longest time for an answer in seconds.
    pub fn timeout_s(&self) -> u64 {
        self.timeout_s.unwrap_or(match self.object {
            Some(_) => 60,
            None => 10,
        })
    }

    fn out_of_range(&self, key: &'static str) -> Option<OutOfRange> {
        let wrong = |found: String, expected| Some((key, found, expected));
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = (1..=64).contains(&self.name.len()) && self.name.chars().all(named);
        if !is_name || self.name.starts_with('.') {
            return wrong(
                format!("`{}`", self.name),
                "a list in which each has a `name` of letters, digits, `-`, `_` and `.`",
            );
        }
        match (&self.program[..], &self.url, &self.object) {
            ([program, ..], None, None) if program.starts_with('/') => {}
            ([], None, Some(object)) => {
                if let Some(expected) = self.not_asked_of_a_cluster(key, object) {
                    return wrong(format!("`{object}`"), expected);
                }
            }
            ([], Some(url), None) => {
                if let Err(expected) = outhaul_http::check_url(url) {
                    return wrong(format!("`{url}`"), expected);
                }
            }
            _ => {
                return wrong(
                    format!("`{}`", self.name),
                    "a list in which each has one of `program` (its absolute path and its arguments), `url` and `object`",
                );
            }
        }
        if self.object.is_none() && (self.condition.is_some() || self.is.is_some()) {
            return wrong(
                format!("`{}`", self.name),
                "a list in which only what names an `object` has a `condition` and `is`",
            );
        }
        let (longest, expected) = match self.object {
            Some(_) => (
                3600,
                "a list with each `timeout_s` 1 to 3600 where it names an `object`",
            ),
            None => (60, "a list with each `timeout_s` 1 to 60"),
        };
        if !(1..=longest).contains(&self.timeout_s()) {
            return wrong(self.timeout_s().to_string(), expected);
        }
        None
    }

    /// What is wrong with a question about an object.
    fn not_asked_of_a_cluster(&self, key: &str, object: &str) -> Option<&'static str> {
        if key != "health.ask" {
            return Some("a list of programs and URLs: objects are asked about under `[health]`");
        }
        let word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
        let place = object
            .split_once(' ')
            .filter(|(kind, place)| word(kind) && word(place));
        if place.is_none() || self.ca.is_some() {
            return Some(
                "a list with each `object` such as `Deployment.apps NAMESPACE/NAME` or `Node NAME`, without `ca`",
            );
        }
        let named = self.condition.as_deref().is_some_and(word);
        let statuses = ["True", "False", "Unknown"];
        let status = self.is.as_deref().is_none_or(|is| statuses.contains(&is));
        (!named || !status).then_some(
            "a list in which an `object` has a `condition`, such as `Available`, and `is` is `True`, `False` or `Unknown`",
        )
    }
}

impl DelayConfig {
    /// What is out of its range.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        if let Some(folder) = self.folder.as_ref().filter(|folder| !folder.is_absolute()) {
            let found = format!("`{}`", folder.display());
            return Some(("delay.folder", found, "an absolute path"));
        }
        if !(1..=8760).contains(&self.longest_h) {
            return Some(("delay.longest_h", self.longest_h.to_string(), "1 to 8760"));
        }
        self.ask
            .iter()
            .find_map(|one| one.out_of_range("delay.ask"))
    }
}

impl HealthConfig {
    /// What is out of its range.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        if self.soak_s > 604_800 {
            return Some(("health.soak_s", self.soak_s.to_string(), "0 to 604800"));
        }
        if !(1..=100).contains(&self.max_returns) {
            return Some((
                "health.max_returns",
                self.max_returns.to_string(),
                "1 to 100",
            ));
        }
        self.ask
            .iter()
            .find_map(|one| one.out_of_range("health.ask"))
    }
}
