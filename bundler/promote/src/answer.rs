//! Whether a hub's answer is one to the question: for this step, made now, and with itself in agreement.
//!
//! What comes in: the question, the answer, and the time. What goes out: nothing, or what is wrong with the answer, in
//! words. An answer that is wrong counts as none: what stands between may have kept an old one, or made it up. It is
//! pure and knows no hub; that an answer comes from the hub is what TLS says. Texts of an answer become one line each.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::hub_api::{
    DEFAULT_MAX_AGE_HOURS, DEFAULT_QUORUM_PERCENT, Decision, Evidence, GATE_EDITIONS, GateRules,
    GateVerdict, MAX_AGE_HOURS, PartRule, QUORUM_PERCENT, RULE_COMMIT, RULE_CONFIRMED,
    RULE_NO_FAILURES, SiteDecision, SiteStatus, time_ms,
};
use outhaul_kit::text::printable;

use super::evidence::{self, CONFIRMS, ReportedState};

/// What every answer decides, whatever the policy asks for.
const BASE_RULES: [&str; 3] = [RULE_COMMIT, RULE_NO_FAILURES, RULE_CONFIRMED];
/// Times of an answer are whole seconds.
const SECOND_MS: i64 = 1000;

/// How far the clocks of the hub and of this machine may be apart, with the time that an answer takes.
const MAX_APART_MS: i64 = 10 * 60_000;

/// What was asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub environment: &'a str,
    pub commit: &'a str,
    pub to: Option<&'a str>,
    /// The oldest report that counts, in hours.
    pub max_age_hours: Option<u32>,
    /// What the policy asks for.
    pub rules: Option<&'a GateRules>,
}

/// Checks an answer that came at `now_ms`, milliseconds since 1970.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn check(question: &Question<'_>, answer: &Decision, now_ms: i64) -> Result<(), String> {
    let same = [
        (
            "environment",
            question.environment,
            Some(&answer.environment),
        ),
        ("commit", question.commit, Some(&answer.commit)),
        (
            "target environment",
            question.to.unwrap_or_default(),
            answer.to.as_ref(),
        ),
    ];
    for (what, asked, answered) in same {
        let answered = answered.map_or("", String::as_str);
        if asked != answered {
            let answered = printable(answered);
            return Err(format!(
                "it is about the {what} `{answered}`, and `{asked}` was asked about"
            ));
        }
    }
    let apart = |at_ms: i64| now_ms.abs_diff(at_ms) > MAX_APART_MS.unsigned_abs();
    if time_ms(&answer.decided_at).is_none_or(apart) {
        return Err(format!(
            "it was made at `{}`, and by the clock here that is not now",
            printable(&answer.decided_at)
        ));
    }
    match answer.verdict {
        GateVerdict::Closed => Ok(()),
        GateVerdict::Open => open(question, answer),
    }
}

/// Checks that nothing in an answer stands against that the gate is open.
fn open(question: &Question<'_>, answer: &Decision) -> Result<(), String> {
    if !GATE_EDITIONS.contains(&answer.edition) {
        return Err(format!(
            "it was made by edition {} of the rules, and this program knows {} to {}",
            answer.edition,
            GATE_EDITIONS.start(),
            GATE_EDITIONS.end()
        ));
    }
    if let Some(reason) = answer.reasons.first() {
        return contradicts(&format!("gives a reason against it: {}", printable(reason)));
    }
    let has = |name: &&str| answer.rules.iter().any(|rule| rule.rule == **name);
    if let Some(name) = BASE_RULES.iter().find(|name| !has(name)) {
        return contradicts(&format!(
            "does not list the rule `{name}`, which every gate has: the hub is too old for this program, or the answer is not whole"
        ));
    }
    if let Some(rule) = answer.rules.iter().find(|rule| !rule.met) {
        return contradicts(&format!(
            "has a rule that is not met: {}",
            printable(&rule.rule)
        ));
    }
    if let Some(site) = answer
        .sites
        .iter()
        .find(|site| site.standing.always_closes())
    {
        return contradicts(&format!(
            "has a site that closes it: {}",
            printable(&site.sentence())
        ));
    }
    bounds(question, answer)?;
    sites(answer)?;
    by_agents(question, answer)?;
    match question.rules {
        Some(rules) => asked(rules, answer),
        None => Ok(()),
    }
}

fn contradicts<T>(what: &str) -> Result<T, String> {
    Err(format!("it says that the gate is open and {what}"))
}

/// Checks that no site confirms by webhook alone where the rules that were asked do not say that this counts.
fn by_agents(question: &Question<'_>, answer: &Decision) -> Result<(), String> {
    if question.rules.is_none_or(|rules| rules.webhook_evidence) {
        return Ok(());
    }
    let sites = answer.sites.iter();
    let confirming: BTreeSet<&str> = sites
        .filter(|site| site.standing == SiteStatus::Confirmed)
        .map(|site| site.site.as_str())
        .collect();
    let by_webhook = answer
        .evidence
        .iter()
        .find(|one| one.webhook.is_some() && confirming.contains(one.site.as_str()));
    match by_webhook {
        None => Ok(()),
        Some(one) => contradicts(&format!(
            "site `{}` confirms by webhook alone, which the promotion policy does not let count",
            printable(&one.site)
        )),
    }
}

/// Checks the numbers of an answer against the sites that it lists.
fn sites(answer: &Decision) -> Result<(), String> {
    let names: BTreeSet<&str> = answer.sites.iter().map(|site| site.site.as_str()).collect();
    if names.len() != answer.sites.len() {
        return contradicts("lists a site twice");
    }
    let (counted, confirmed) = tally(&answer.sites.iter().collect::<Vec<_>>());
    let (said, confirming) = (answer.counted, answer.confirmed);
    if (counted, confirmed) != (said, confirming) {
        return contradicts(&format!(
            "counts {confirming} of {said} sites, and lists {confirmed} of {counted}"
        ));
    }
    let reports: Vec<ReportedState> = answer.evidence.iter().map(ReportedState::from).collect();
    let supported = evidence::sound(&reports)
        .and_then(|()| evidence::supports(confirmed, counted, &evidence::confirming(answer)));
    if let Err(problem) = supported {
        return contradicts(&problem);
    }
    if confirmed * 100 < counted * usize::from(answer.quorum_percent) {
        return contradicts(&format!(
            "{confirmed} of {counted} sites confirm, where {} % must",
            answer.quorum_percent
        ));
    }
    let unlisted = answer
        .evidence
        .iter()
        .find(|one| !names.contains(one.site.as_str()));
    if let Some(one) = unlisted {
        return contradicts(&format!(
            "names a report of site `{}`, which it does not list",
            printable(&one.site)
        ));
    }
    let evidence = answer.evidence.iter();
    let reports: BTreeMap<&str, &Evidence> = evidence.map(|one| (one.site.as_str(), one)).collect();
    for site in &answer.sites {
        if site.standing == SiteStatus::Confirmed {
            confirms(site, reports.get(site.site.as_str()).copied(), answer)?;
        }
    }
    Ok(())
}

/// Checks that the report of a site that confirms is new enough, and of a bundle that has the commit.
fn confirms(
    site: &SiteDecision,
    report: Option<&Evidence>,
    answer: &Decision,
) -> Result<(), String> {
    let name = printable(&site.site);
    let Some(report) = report else {
        return contradicts(&format!("names no report of site `{name}`, which confirms"));
    };
    if report.state != CONFIRMS {
        return contradicts(&format!(
            "site `{name}` confirms by a report that bundle {} is `{}`",
            report.bundle,
            printable(&report.state)
        ));
    }
    let needs = site.needs.filter(|needs| *needs > 0);
    if site.bundle != Some(report.bundle) || needs.is_none_or(|needs| report.bundle < needs) {
        let number = |number: Option<u64>| {
            number.map_or("no bundle".to_owned(), |number| format!("bundle {number}"))
        };
        return contradicts(&format!(
            "site `{name}` confirms by a report of bundle {}, where it runs {} and needs {}",
            report.bundle,
            number(site.bundle),
            number(site.needs)
        ));
    }
    let now_ms = time_ms(&answer.decided_at).unwrap_or_default();
    let oldest_ms = answer.max_age_hours.saturating_mul(60 * 60_000) + SECOND_MS;
    let times = [
        (
            "reported last",
            site.last_seen.as_deref().unwrap_or_default(),
        ),
        (
            "confirms by a report that came",
            report.received_at.as_str(),
        ),
    ];
    for (what, at) in times {
        let age_ms = time_ms(at).map(|at_ms| now_ms.saturating_sub(at_ms));
        if age_ms.is_none_or(|age_ms| age_ms > oldest_ms || age_ms < -MAX_APART_MS) {
            return contradicts(&format!(
                "site `{name}` {what} at `{}`, where reports of the last {} hours count at {}",
                printable(at),
                answer.max_age_hours,
                answer.decided_at
            ));
        }
    }
    Ok(())
}

/// How many of these sites count, and how many of them confirm.
fn tally(sites: &[&SiteDecision]) -> (usize, usize) {
    let counted = sites.iter().filter(|site| site.standing.is_counted());
    let confirmed = sites
        .iter()
        .filter(|site| site.standing == SiteStatus::Confirmed);
    (counted.count(), confirmed.count())
}

/// Checks that the age of reports and the share of sites are at least as strict as asked.
fn bounds(question: &Question<'_>, answer: &Decision) -> Result<(), String> {
    let age = u32::try_from(answer.max_age_hours).unwrap_or(0);
    let oldest = question.max_age_hours.unwrap_or(DEFAULT_MAX_AGE_HOURS);
    if !MAX_AGE_HOURS.contains(&age) || age > oldest {
        return Err(format!(
            "it counts reports of {} hours, and of {oldest} at most was asked for",
            answer.max_age_hours
        ));
    }
    let share = u32::from(answer.quorum_percent);
    let asked = question.rules.and_then(|rules| rules.quorum_percent);
    let least = u32::from(asked.unwrap_or(DEFAULT_QUORUM_PERCENT));
    if !QUORUM_PERCENT.contains(&share) || share < least {
        return Err(format!(
            "it lets {share} % of the sites do, and {least} % was asked for"
        ));
    }
    Ok(())
}

/// Checks that the answer has each rule that was asked for. What can be decided here from the answer itself is.
fn asked(rules: &GateRules, answer: &Decision) -> Result<(), String> {
    let parts = || rules.parts.iter();
    let needed = [
        ("min-sites", usize::from(rules.min_sites.is_some())),
        ("soak", usize::from(rules.soak_hours.is_some())),
        ("approvals", usize::from(rules.approvals.is_some())),
        ("closed-times", usize::from(!rules.closed.is_empty())),
        ("windows", usize::from(!rules.windows.is_empty())),
        ("part", rules.parts.len()),
        (
            "part-min-sites",
            parts().filter(|part| part.min_sites.is_some()).count(),
        ),
        (
            "part-soak",
            parts().filter(|part| part.soak_hours.is_some()).count(),
        ),
    ];
    for (name, count) in needed {
        let found = answer.rules.iter().filter(|rule| rule.rule == name).count();
        if found < count {
            return Err(format!(
                "it did not apply the rule `{name}` of the promotion policy"
            ));
        }
    }
    let least = rules
        .min_sites
        .map_or(0, |least| usize::try_from(least).unwrap_or(usize::MAX));
    if answer.confirmed < least {
        return contradicts(&format!(
            "{} sites confirm, where {least} must",
            answer.confirmed
        ));
    }
    if let Some(approvals) = &rules.approvals {
        let of = answer.rules.iter().find(|rule| rule.rule == "approvals");
        let given = of.map_or(0, |rule| rule.evidence.len());
        let needed = usize::try_from(approvals.needed).unwrap_or(usize::MAX);
        if given < needed {
            return contradicts(&format!("has {given} approvals, where {needed} are needed"));
        }
    }
    for check in &rules.checks {
        let name = check.rule();
        match answer.rules.iter().find(|rule| rule.rule == name) {
            None => {
                return Err(format!(
                    "it did not apply the rule `{name}` of the promotion policy"
                ));
            }
            Some(rule) if rule.evidence.is_empty() => {
                return contradicts(&format!("has no outcome of check `{}`", check.name));
            }
            Some(_) => {}
        }
    }
    let at_ms = time_ms(&answer.decided_at).unwrap_or_default();
    let is_closed = |span: (i64, i64)| (span.0..span.1).contains(&at_ms);
    if rules
        .closed
        .iter()
        .any(|time| time.span().map_or(true, is_closed))
    {
        return contradicts("it is a closed time of the promotion policy");
    }
    if !rules.windows.is_empty() && !rules.windows.iter().any(|window| window.holds(at_ms)) {
        return contradicts("it is none of the times of the promotion policy");
    }
    rules.parts.iter().try_for_each(|rule| part(rule, answer))
}

/// Checks the rule for a part of the sites, where the answer says which sites these are.
fn part(rule: &PartRule, answer: &Decision) -> Result<(), String> {
    let (Some(cluster_type), None) = (&rule.cluster_type, &rule.workload) else {
        return Ok(());
    };
    let of_it = |site: &&SiteDecision| site.cluster_type == *cluster_type;
    let sites: Vec<&SiteDecision> = answer.sites.iter().filter(of_it).collect();
    let (counted, confirmed) = tally(&sites);
    let share = usize::from(rule.quorum_percent.unwrap_or(100));
    let least = rule
        .min_sites
        .map_or(1, |least| usize::try_from(least).unwrap_or(usize::MAX));
    if confirmed >= least && confirmed * 100 >= counted * share {
        return Ok(());
    }
    contradicts(&format!(
        "{confirmed} of {counted} sites of {} confirm, where {share} % and {least} must",
        rule.name()
    ))
}

/// Makes one line of each text of an answer, in which nothing is acted on instead of shown: they go into a commit's
/// message, beside lines that Outhaul reads.
pub(super) fn in_lines(answer: &mut Decision) {
    let lists = [&mut answer.reasons, &mut answer.notes];
    for text in lists.into_iter().flatten() {
        line(text);
    }
    for rule in &mut answer.rules {
        for text in [&mut rule.rule, &mut rule.needs, &mut rule.found] {
            line(text);
        }
        rule.opens
            .iter_mut()
            .chain(&mut rule.evidence)
            .for_each(line);
    }
    for site in &mut answer.sites {
        for text in [&mut site.site, &mut site.cluster_type, &mut site.message] {
            line(text);
        }
    }
    for one in &mut answer.evidence {
        for text in [
            &mut one.site,
            &mut one.epoch,
            &mut one.digest,
            &mut one.state,
        ] {
            line(text);
        }
    }
}

fn line(text: &mut String) {
    *text = printable(text).into_owned();
}

#[cfg(test)]
mod tests;
