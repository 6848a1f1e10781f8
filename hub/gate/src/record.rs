//! What is put on record of a decision: its sentences once, and per site the digest of the report that it rests on.
//!
//! What comes in: a decision, and the question that it answers; or the text of one on record. What goes out: a
//! [`DecisionRecord`] and its lines of evidence, the same for the same decision. It decides nothing.

use std::collections::BTreeMap;

use outhaul_bundle::hub_api::{Decision, GateRules, SiteDecision};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::GateQuestion;

/// Sentences kept of one decision; the rest is counted. Every site is kept.
const MAX_SENTENCES: usize = 200;

/// A decision without its sites, and with what it was asked, so that it can be asked again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// The decision; `sites` and `evidence` are empty: they are lines of evidence.
    #[serde(flatten)]
    pub decision: Decision,
    /// The rules that it was asked with; absent where a hub made it that did not keep them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<GateRules>,
    /// The number of the newest entry of people and checks that the hub had, where the question names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acts: Option<i64>,
    /// How many more reasons and notes there were.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub sentences_left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_none_left_out(count: &usize) -> bool {
    *count == 0
}

impl DecisionRecord {
    /// What is kept of a decision.
    pub fn new(decision: &Decision, question: &GateQuestion) -> Self {
        let some =
            |all: &[String]| -> Vec<String> { all.iter().take(MAX_SENTENCES).cloned().collect() };
        Self {
            decision: Decision {
                reasons: some(&decision.reasons),
                notes: some(&decision.notes),
                sites: Vec::new(),
                evidence: Vec::new(),
                ..decision.clone()
            },
            question: Some(question.rules.clone()),
            acts: question.acts,
            sentences_left_out: decision.reasons.len().saturating_sub(MAX_SENTENCES)
                + decision.notes.len().saturating_sub(MAX_SENTENCES),
        }
    }

    /// As it is compared, field by field.
    pub fn to_value(&self) -> Value {
        json!(self)
    }

    /// As it is stored: JSON, its fields in the order of their names.
    pub fn to_text(&self) -> String {
        self.to_value().to_string()
    }

    /// A record as it was stored.
    ///
    /// # Errors
    /// What of the text is not a record.
    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// A line per site: its name, its status, and the epoch, number and digest of the report that states what it runs.
pub fn evidence_lines(decision: &Decision) -> Vec<String> {
    let evidence: BTreeMap<&str, _> = decision
        .evidence
        .iter()
        .map(|one| (one.site.as_str(), one))
        .collect();
    let line = |site: &SiteDecision| {
        let word = site.standing.as_str();
        match evidence.get(site.site.as_str()) {
            None => format!("{}\t{word}\n", site.site),
            Some(one) => format!(
                "{}\t{word}\t{}\t{}\t{}\n",
                site.site, one.epoch, one.report, one.digest
            ),
        }
    };
    decision.sites.iter().map(line).collect()
}
