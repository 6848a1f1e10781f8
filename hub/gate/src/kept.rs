//! What is put on record of a decision: its sentences once, and per site the digest of the report that it rests on.
//!
//! What comes in: a decision, and the rules that it was asked with. What goes out: JSON and lines, the same for the same
//! decision. It decides nothing.

use std::collections::BTreeMap;

use outhaul_bundle::hub_api::{Decision, GateRules, SiteDecision};
use serde_json::{Value, json};

/// Sentences kept of one decision; the rest is counted. Every site is kept.
const MAX_SENTENCES: usize = 200;

/// The decision without its sites, and a line per site: its name, its status, and the epoch, number and digest of the
/// report that states what it runs.
pub fn kept(decision: &Decision, rules: &GateRules) -> (Value, Vec<String>) {
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
    let lines = decision.sites.iter().map(line).collect();
    let some =
        |all: &[String]| -> Vec<String> { all.iter().take(MAX_SENTENCES).cloned().collect() };
    let mut text = json!(Decision {
        verdict: decision.verdict,
        environment: decision.environment.clone(),
        commit: decision.commit.clone(),
        decided_at: decision.decided_at.clone(),
        edition: decision.edition,
        restored: decision.restored.clone(),
        max_age_hours: decision.max_age_hours,
        quorum_percent: decision.quorum_percent,
        to: decision.to.clone(),
        rules: decision.rules.clone(),
        counted: decision.counted,
        confirmed: decision.confirmed,
        reasons: some(&decision.reasons),
        notes: some(&decision.notes),
        sites: Vec::new(),
        evidence: Vec::new(),
    });
    // With what it was asked, so that it can be asked again.
    text["question"] = json!(rules);
    let left = decision.reasons.len().saturating_sub(MAX_SENTENCES)
        + decision.notes.len().saturating_sub(MAX_SENTENCES);
    if left > 0 {
        text["sentences_left_out"] = left.into();
    }
    (text, lines)
}
