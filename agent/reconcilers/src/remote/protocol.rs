//! What the agent and its apply helper say to each other: one line of JSON each way.
//!
//! What comes in: bytes of a socket, bounded by their reader. What goes out: a [`HelperRequest`], whose types let
//! no path and no command through (values are text that the signed index has to allow), or an [`HelperAnswer`]. An empty line before the answer is a heartbeat.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use outhaul_bundle::name::Name;
use outhaul_bundle::report::{AssignmentResult, StepResult};
use serde::{Deserialize, Serialize};

use crate::inventory::Item;

/// The version of both.
pub const FORMAT: &str = "outhaul.dev/apply/v1";
/// Largest request in bytes.
pub const MAX_REQUEST_BYTES: u64 = 64 * 1024;
/// Largest answer in bytes: the rows of an assignment's objects fit.
pub const MAX_ANSWER_BYTES: u64 = 8 * 1024 * 1024;

/// What the agent asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelperRequest {
    /// [`FORMAT`]
    pub format: String,
    /// What is to be done.
    pub verb: HelperVerb,
    /// The number of the bundle.
    pub number: u64,
    /// Digest of its index, which the fleet's metadata names.
    pub index: Digest,
    /// The assignment.
    pub assignment: Name,
    /// The values of the site that its files are to hold, by key: the helper uses what the signed index allows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
}

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HelperVerb {
    /// Accept the bundle, and see what can be seen of an assignment before it is applied.
    Prepare,
    /// Apply an assignment of the bundle.
    Apply,
    /// The same, and take back what others changed in it since.
    Correct,
    /// Remove what an assignment of the bundle does not have any more.
    Prune,
    /// Compare an assignment of the bundle with this host.
    Observe,
    /// The verdict on an assignment that was just applied.
    Health,
    /// Remove an assignment that the bundle does not have.
    Remove,
}

impl HelperVerb {
    /// Whether it may change the host.
    pub fn changes(self) -> bool {
        match self {
            Self::Apply | Self::Correct | Self::Prune | Self::Remove => true,
            Self::Prepare | Self::Observe | Self::Health => false,
        }
    }

    /// The word of the request.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Apply => "apply",
            Self::Correct => "correct",
            Self::Prune => "prune",
            Self::Observe => "observe",
            Self::Health => "health",
            Self::Remove => "remove",
        }
    }
}

/// What the helper answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum HelperAnswer {
    /// The assignment's result; none where the reconciler has no verdict of its own.
    Result(Option<AssignmentResult>),
    /// What came of applying or pruning.
    Applied {
        /// The assignment's result.
        result: AssignmentResult,
        /// What the helper's inventory has of the assignment now; none where the bundle itself lists that.
        items: Option<Vec<Item>>,
    },
    /// What came of a removal.
    Removed {
        /// What was removed, left or failed; at most a report's worth.
        steps: Vec<StepResult>,
        /// What the helper's inventory still has of the assignment.
        rest: Remaining,
    },
    /// It must not be done; nothing was changed.
    Refused {
        /// A word for it.
        rule: String,
        /// What was expected and found.
        message: String,
    },
    /// This host cannot do it now.
    Unable {
        /// What is missing.
        problem: String,
        /// What to do next.
        help: String,
    },
}

/// What is left of an assignment after a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Remaining {
    /// Nothing.
    Nothing,
    /// What nothing knows how to remove.
    Left,
    /// What the next removal tries again.
    Some,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_holds_a_verb_a_number_a_digest_a_name_and_values_and_nothing_else() {
        let request = HelperRequest {
            format: FORMAT.to_owned(),
            verb: HelperVerb::Apply,
            number: 7,
            index: Digest::of(b"index"),
            assignment: "hello".parse().unwrap(),
            values: BTreeMap::new(),
        };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(
            serde_json::from_str::<HelperRequest>(&text).unwrap(),
            request
        );
        let wrong = [
            ("\"apply\"", "\"delete\""),
            ("\"hello\"", "\"../hello\""),
            ("\"hello\"", "\"/etc/hello\""),
            (":7", ":-7"),
            (":7", ":7,\"path\":\"/etc\""),
            ("sha256:", "sha256:../"),
        ];
        for (from, to) in wrong {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            assert!(
                serde_json::from_str::<HelperRequest>(&changed).is_err(),
                "{changed}"
            );
        }
        for verb in [
            HelperVerb::Prepare,
            HelperVerb::Apply,
            HelperVerb::Correct,
            HelperVerb::Prune,
            HelperVerb::Observe,
            HelperVerb::Health,
            HelperVerb::Remove,
        ] {
            let word = serde_json::to_value(verb).unwrap();
            assert_eq!(word.as_str(), Some(verb.as_str()));
        }
    }
}
