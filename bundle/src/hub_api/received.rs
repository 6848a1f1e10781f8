//! What a hub answers to reports, enrolment requests and bundles that it was sent.
//!
//! What comes in: what the hub did with them. What goes out: the same, typed: what was accepted, what was refused by which rule, what
//! is still missing. It decides nothing.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What became of the reports of one request.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportsAnswer {
    /// Signed acknowledgements: envelopes of [`Ack`](crate::report::Ack).
    pub acks: Vec<Value>,
    /// Why nothing is acknowledged: the hub's clock is wrong.
    #[serde(default)]
    pub clock: Option<String>,
    /// Reports that are new.
    pub accepted: u64,
    /// Reports that were on record already.
    pub duplicates: u64,
    /// The first 200 refused lines.
    #[serde(default)]
    pub refused: Vec<RefusedLine>,
    /// How many lines were refused.
    pub refused_lines: u64,
    /// All of them, one entry per site and rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_groups: Vec<RefusedGroup>,
}

/// Lines that one rule refused of one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefusedGroup {
    /// The site that they claim to be from, where they claim one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The rule.
    pub rule: Cow<'static, str>,
    /// What was expected and found in the first.
    pub reason: String,
    /// How many lines.
    pub lines: u64,
    /// The number of the first, from 1.
    pub first_line: u64,
    /// The number of the last.
    pub last_line: u64,
}

/// A line that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefusedLine {
    /// Its number, from 1.
    pub line: u64,
    /// The site that it claims to be from, where it claims one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The rule.
    pub rule: Cow<'static, str>,
    /// What was expected and found.
    pub reason: String,
}

/// What became of an enrolment request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Enrolled {
    /// This key is registered already, or was before the one in use.
    Already,
    /// The site is registered now.
    Registered,
    /// The site has a new key now.
    Rekeyed,
    /// Nobody has approved it yet.
    Waiting,
    /// It waits beside another one for the same site, or for another key than the registered one: a
    /// person has to decide.
    Conflict,
}

impl fmt::Display for Enrolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Already => "already",
            Self::Registered => "registered",
            Self::Rekeyed => "rekeyed",
            Self::Waiting => "waiting",
            Self::Conflict => "conflict",
        })
    }
}

/// The answer to an enrolment request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RequestAnswer {
    /// What became of it.
    pub result: Enrolled,
    /// The id of its key.
    pub fingerprint: String,
}

/// What became of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedBundle {
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// The stream's role.
    pub role: String,
    /// Its number.
    pub number: u64,
    /// Its base commit.
    pub base_commit: String,
    /// Whether it is new.
    pub new: bool,
    /// Bills of materials, and statements about exploitability, that it lists and that are not on record, by their file names, with why
    /// where they are there: of what they list nothing is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub materials_missing: Vec<String>,
}
