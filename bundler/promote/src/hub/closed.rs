//! What to do next where a gate is closed: which ways lead out depends on which rules are not met, and on what the sites reported.
//!
//! What comes in: the hub's decision. What goes out: the help, one text for each way. It is pure, and decides nothing about the gate.

use outhaul_bundle::hub_api::{CheckRule, Decision, SiteStatus};

/// The ways to open the gate of `from` for `commit`, which `decision` closes.
pub fn ways_to_open(from: &str, commit: &str, decision: &Decision) -> Vec<String> {
    let unmet = decision.rules.iter().filter(|rule| !rule.met);
    let (checks, others): (Vec<_>, Vec<_>) = unmet.partition(|rule| CheckRule::is_name(&rule.rule));
    let mut ways = Vec::new();
    if !checks.is_empty() {
        ways.push(format!(
            "state the outcome of each check once it ran: `outhaul-hub check --environment {from} --commit {commit} --name NAME --outcome \
             passed --by WHO`, or over HTTP (`POST /api/v1/checks`, with a token of scope `check`), and run it again"
        ));
    }
    let statuses = decision.sites.iter().map(|site| site.standing);
    let mut unconfirmed = statuses.filter(|status| *status != SiteStatus::Confirmed);
    let is_conflict = |status: SiteStatus| status == SiteStatus::Conflict;
    if decision.sites.iter().any(|site| is_conflict(site.standing)) {
        ways.push(
            "choose which of two machines is the site, with one of the commands of its reason; then run it again"
                .to_owned(),
        );
    }
    // Of reports no check says anything, and no report ends a conflict.
    let by_reports = decision.sites.is_empty() || !unconfirmed.all(is_conflict);
    if (checks.is_empty() || !others.is_empty()) && by_reports {
        ways.push(
            "import the missing reports, or waive a site (`outhaul-hub waive`), and run it again"
                .to_owned(),
        );
    }
    ways
}

#[cfg(test)]
mod tests {
    use outhaul_bundle::hub_api::{GateAnswer, RuleVerdict, SiteDecision};

    use super::*;

    /// The beginnings of the ways where these rules are not met, and the sites have these statuses.
    fn ways(unmet: &[&str], sites: &[SiteStatus]) -> Vec<&'static str> {
        let text = include_str!("../../../../bundle/tests/hub_api/gate-open.json");
        let GateAnswer { mut decision, .. } = serde_json::from_str(text).unwrap();
        let rule = |name: &&str| RuleVerdict {
            rule: (*name).to_owned(),
            needs: String::new(),
            met: false,
            found: String::new(),
            opens: None,
            evidence: Vec::new(),
        };
        let site = |status: &SiteStatus| SiteDecision {
            site: "drone-1".to_owned(),
            cluster_type: "drone".to_owned(),
            standing: *status,
            message: String::new(),
            bundle: None,
            needs: None,
            last_seen: None,
        };
        decision.rules = unmet.iter().map(rule).collect();
        decision.sites = sites.iter().map(site).collect();
        let known = ["state", "choose", "import"];
        let ways = ways_to_open("dev", "1111111", &decision);
        ways.iter()
            .map(|way| *known.iter().find(|known| way.starts_with(*known)).unwrap())
            .collect()
    }

    #[test]
    fn each_way_is_named_only_where_it_leads_out() {
        let (confirmed, behind) = (SiteStatus::Confirmed, SiteStatus::Behind);
        let conflict = SiteStatus::Conflict;
        assert_eq!(ways(&["confirmed"], &[confirmed, behind]), ["import"]);
        assert_eq!(ways(&["check:smoke"], &[confirmed]), ["state"]);
        assert_eq!(
            ways(&["check:smoke", "confirmed"], &[behind]),
            ["state", "import"]
        );
        assert_eq!(ways(&["confirmed"], &[conflict]), ["choose"]);
        assert_eq!(
            ways(&["confirmed"], &[conflict, behind]),
            ["choose", "import"]
        );
        assert_eq!(ways(&["commit"], &[]), ["import"]);
    }
}
