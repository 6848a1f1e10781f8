//! Why a hub takes nothing of this site, as it is remembered and reported.
//!
//! What comes in: the hub's rule and its words. What goes out: a value for the database, a sentence, and what to do. It believes
//! the hub for nothing else.

use serde::{Deserialize, Serialize};

/// Rules by which a hub refuses a site and not one report of it.
pub const OF_THE_SITE: [&str; 6] = [
    "revoked",
    "unknown-site",
    "retired-key",
    "epoch-key",
    "signature",
    "fleet",
];

/// Why a hub takes nothing of this site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubRefusal {
    /// The hub's rule: `revoked`, `unknown-site`, `retired-key`, `epoch-key`, `signature`, `fleet`.
    pub rule: String,
    /// In the hub's words.
    pub reason: String,
    /// The hub's address.
    pub url: String,
    /// When it was refused first, milliseconds since 1970 by the site's clock.
    pub since_ms: i64,
    /// When it was refused last.
    pub at_ms: i64,
    /// How often in a row.
    pub times: u64,
}

impl HubRefusal {
    /// One sentence for people.
    pub fn sentence(&self) -> String {
        format!(
            "the hub {} accepts no reports of this site ({}): {}; every report stays in the queue",
            self.url, self.rule, self.reason
        )
    }

    /// What to do next.
    pub fn help(&self) -> String {
        match self.rule.as_str() {
            "revoked" => "ask the hub's operator why this site was revoked; a new kit (`outhaul site enrol` at the \
                          centre, `outhaul-agent enrol` here) is the way back",
            "unknown-site" => "bring the enrolment request to the hub (`outhaul-agent export FOLDER`), where \
                               `outhaul-hub site add` accepts it",
            "retired-key" | "epoch-key" | "signature" => {
                "the hub has another key under this site's name: ask its operator which machine has it \
                 (`outhaul-hub sites`); if that machine replaced this one, take this one out of service, else enrol it \
                 again with a new kit"
            }
            _ => "this site is of another fleet than its hub: compare `hub.url` in agent.toml with the kit",
        }
        .to_owned()
    }
}
