//! A gate's decision as lines for a terminal.
//!
//! What comes in: a decision. What goes out: its verdict, reasons, rules, notes and evidence, one line each, and what opens a closed gate.
//! Pure; it decides nothing.

use outhaul_bundle::hub_api::{
    Decision, RULE_COMMIT, RULE_CONFIRMED, RULE_NO_FAILURES, RuleVerdict,
};
use outhaul_gate::{later, short};

/// The lines, without a line ending.
pub fn lines(decision: &Decision) -> Vec<String> {
    let (verdict, environment) = (decision.verdict.as_str(), &decision.environment);
    let commit = short(&decision.commit);
    let first = decision.rules.first().map(|rule| rule.rule.as_str());
    let mut lines = vec![match later::instead_of_sites(first) {
        Some(what) => format!(
            "{verdict}: no site of `{environment}` was counted for base {commit}, because of {what}"
        ),
        None => format!(
            "{verdict}: {} of {} sites of `{environment}` confirm base {commit}",
            decision.confirmed, decision.counted
        ),
    }];
    lines.extend(decision.reasons.iter().map(|reason| format!("  {reason}")));
    for rule in &decision.rules {
        let word = if rule.met { "met" } else { "not met" };
        lines.push(format!(
            "  rule {}: {word}: {} ({})",
            rule.rule, rule.found, rule.needs
        ));
        lines.extend(rule.opens.iter().map(|opens| format!("    opens: {opens}")));
        let evidence = rule.evidence.iter();
        lines.extend(evidence.map(|item| format!("    evidence: {item}")));
    }
    lines.extend(decision.notes.iter().map(|note| format!("  note: {note}")));
    let evidence = decision.evidence.iter();
    lines.extend(evidence.map(|one| format!("  evidence: {}", one.sentence())));
    lines
}

/// The rules that count sites: that all of them confirm the commit, that none failed, that a share confirms it, and that there are at least so
/// many. Reports and excuses of sites change what they find.
const BY_SITES: [&str; 4] = [RULE_COMMIT, RULE_NO_FAILURES, RULE_CONFIRMED, "min-sites"];
const WAY_OUT: &str = "import the missing reports (`import`), fix what failed, or excuse one site for a time with `outhaul-hub waive` or `defer`; what each rule needs is shown beside it";

/// What opens a closed gate: where none of [`BY_SITES`] closes it, what each of the others needs.
pub fn way_out(decision: &Decision) -> String {
    let unmet: Vec<_> = decision.rules.iter().filter(|rule| !rule.met).collect();
    let by_sites = |rule: &&RuleVerdict| BY_SITES.contains(&rule.rule.as_str());
    if unmet.is_empty() || unmet.iter().any(by_sites) {
        return WAY_OUT.to_owned();
    }
    let needs = unmet.iter().map(|rule| {
        let opens = rule.opens.as_deref().unwrap_or(&rule.needs);
        format!("rule {}: {opens}", rule.rule)
    });
    needs.collect::<Vec<_>>().join("; ")
}

/// Why a commit does not go on and what opens the gate, as an error: the same sentences as the text of a decision has.
pub fn refusal(decision: &Decision) -> String {
    let way_out = way_out(decision);
    let mut text = format!(
        "error: the gate of `{}` is closed for {}",
        decision.environment, decision.commit
    );
    for reason in &decision.reasons {
        text.push_str(&format!("\n  - {reason}"));
    }
    format!("{text}\nhelp: {way_out}")
}
