//! The rules of a gate, one by one: what each needs, what was found, and what would make it met.
//!
//! What comes in: the question with its rules, the facts, and where each site stands. What goes out: a
//! [`RuleVerdict`] per rule. A rule that cannot be decided is not met. It reads no clock and no store.

use std::collections::BTreeSet;

use outhaul_bundle::hub_api::{
    ApprovalRule, ClosedTime, GateRules, PartRule, PromotionWindow, RULE_COMMIT, RULE_CONFIRMED,
    RULE_NO_FAILURES, RuleVerdict, SiteDecision, SiteStatus,
};

use super::{Facts, GateQuestion};
use crate::checks;
use crate::facts::{Act, ActKind};
use crate::time::{self, HOUR_MS};
use crate::words;

/// Sites named in one text; the rest is counted.
const NAMED: usize = 5;
const MINUTE_MS: i64 = 60_000;
/// How far ahead the next opening is looked for.
const AHEAD_MS: i64 = 8 * time::DAY_MS;

/// The rules that every gate has.
pub(super) fn base(
    question: &GateQuestion,
    sites: &[SiteDecision],
    enough: bool,
    of_commit: &[String],
) -> Vec<RuleVerdict> {
    let counted = sites.iter().filter(|s| s.standing.is_counted()).count();
    let confirmed = confirming(sites.iter()).count();
    let missing: Vec<&SiteDecision> = sites.iter().filter(|s| s.standing.is_missing()).collect();
    let wrong: Vec<&SiteDecision> = sites
        .iter()
        .filter(|s| s.standing.always_closes())
        .collect();
    let hours = question.max_age_ms() / HOUR_MS;
    vec![
        verdict(
            RULE_COMMIT,
            "a bundle of the environment comes from the commit, and none went back before it"
                .into(),
            of_commit.is_empty(),
            match of_commit {
                [] => "yes".to_owned(),
                all => all.join("; "),
            },
            || "import the bundle of the commit, or ask for the commit that is bundled now".into(),
        ),
        verdict(
            RULE_NO_FAILURES,
            match question.edition {
                1 => "no site that counts failed, drifted, runs other content or is overdue",
                _ => {
                    "no site that counts failed, drifted, runs other content, is in conflict or is overdue"
                }
            }
            .into(),
            wrong.is_empty(),
            match wrong.len() {
                0 => "none".to_owned(),
                _ => names(wrong.iter().copied()),
            },
            || "fix these sites and import their reports, or waive them".into(),
        ),
        verdict(
            RULE_CONFIRMED,
            format!(
                "{} % of the sites that count confirm by a report of the {}",
                question.quorum_percent(),
                words::last_hours(question.edition, hours)
            ),
            enough,
            match missing.len() {
                0 => format!("{confirmed} of {counted} confirm"),
                _ => format!(
                    "{confirmed} of {counted} confirm; not: {}",
                    names(missing.iter().copied())
                ),
            },
            || "import the missing reports, or waive or defer these sites".into(),
        ),
    ]
}

/// The rules that the question asks for.
pub(super) fn asked(
    question: &GateQuestion,
    facts: &Facts<'_>,
    sites: &[SiteDecision],
) -> Vec<RuleVerdict> {
    let rules = &question.rules;
    let mut found = Vec::new();
    if let Err(problem) = rules.check() {
        found.push(verdict(
            "rules",
            "rules that can be decided".into(),
            false,
            problem,
            || "fix the promotion policy".into(),
        ));
    }
    let all: Vec<&SiteDecision> = sites.iter().filter(|s| s.standing.is_counted()).collect();
    if let Some(least) = rules.min_sites {
        let needs = words::at_least(question.edition, least, "");
        found.push(min_sites("min-sites", least, &all, needs));
    }
    if let Some(hours) = rules.soak_hours {
        let least = at_least(&all, question.quorum_percent(), rules.min_sites);
        found.push(soak(question, facts, ("soak", ""), hours, least, &all));
    }
    for rule in &rules.parts {
        part(question, facts, rule, sites, &mut found);
    }
    if let Some(rule) = &rules.approvals {
        found.push(approvals(question, facts, rule));
    }
    found.extend(checks::asked(question, facts));
    found.extend(held(question, facts));
    if !rules.closed.is_empty() {
        found.push(closed(question.now_ms, &rules.closed));
    }
    if !rules.windows.is_empty() {
        found.push(windows(question.now_ms, rules));
    }
    found
}

fn verdict(
    rule: &str,
    needs: String,
    met: bool,
    found: String,
    opens: impl FnOnce() -> String,
) -> RuleVerdict {
    RuleVerdict {
        rule: rule.to_owned(),
        needs,
        met,
        found,
        opens: (!met).then(opens),
        evidence: Vec::new(),
    }
}

fn confirming<'a>(
    sites: impl Iterator<Item = &'a SiteDecision>,
) -> impl Iterator<Item = &'a SiteDecision> {
    sites.filter(|site| site.standing == SiteStatus::Confirmed)
}

/// How many of these sites have to confirm: at least one, whatever is asked.
fn at_least(sites: &[&SiteDecision], percent: u8, least: Option<u32>) -> usize {
    let share = (sites.len() * usize::from(percent)).div_ceil(100);
    share
        .max(usize::try_from(least.unwrap_or(1)).unwrap_or(usize::MAX))
        .max(1)
}

fn min_sites(rule: &str, least: u32, sites: &[&SiteDecision], needs: String) -> RuleVerdict {
    let confirmed = confirming(sites.iter().copied()).count();
    verdict(
        rule,
        needs,
        u32::try_from(confirmed).unwrap_or(u32::MAX) >= least,
        format!("{confirmed} confirm"),
        || "import more reports; a waiver does not count as a confirmation".into(),
    )
}

/// Enough sites have confirmed for long enough.
fn soak(
    question: &GateQuestion,
    facts: &Facts<'_>,
    (rule, of): (&str, &str),
    hours: u32,
    least: usize,
    sites: &[&SiteDecision],
) -> RuleVerdict {
    let soak_ms = i64::from(hours) * HOUR_MS;
    let mut since: Vec<(i64, &str)> = confirming(sites.iter().copied())
        .filter_map(|site| Some((*facts.well_since.get(&site.site)?, site.site.as_str())))
        .collect();
    since.sort_unstable();
    let is_long = |since_ms: i64| since_ms.saturating_add(soak_ms) <= question.now_ms;
    let long = since.iter().filter(|(ms, _)| is_long(*ms)).count();
    let found = match since.get(long) {
        Some((ms, site)) if long < least => format!(
            "{long} of {least} needed{of}; `{site}` since {}",
            time::rfc3339(*ms)
        ),
        _ => format!("{long} of {least} needed{of}"),
    };
    verdict(
        rule,
        format!(
            "{least} {}{of} reported healthy for {} without a break",
            plural(least),
            words::hours(question.edition, i64::from(hours))
        ),
        long >= least,
        found,
        || match since.get(least - 1) {
            Some((ms, _)) => format!(
                "it is met at {}, when nothing breaks until then",
                time::rfc3339(ms.saturating_add(soak_ms))
            ),
            None => "first enough sites have to confirm".to_owned(),
        },
    )
}

/// The rules for the sites of one cluster type or workload. A part without a site is not met: nobody can confirm it.
fn part(
    question: &GateQuestion,
    facts: &Facts<'_>,
    rule: &PartRule,
    all: &[SiteDecision],
    found: &mut Vec<RuleVerdict>,
) {
    let of_part: Vec<&SiteDecision> = all
        .iter()
        .filter(|site| is_in(question, facts, rule, site))
        .collect();
    let sites: Vec<&SiteDecision> = of_part
        .iter()
        .copied()
        .filter(|site| site.standing.is_counted())
        .collect();
    let edition = question.edition;
    // What was decided before is recomputed as it was said.
    let without_sites = (sites.is_empty() && edition >= 5)
        .then(|| words::opens_without_sites(&question.environment, rule, !of_part.is_empty()));
    let of = words::of_part(edition, rule);
    let percent = rule.quorum_percent.unwrap_or(100).clamp(1, 100);
    let confirmed = confirming(sites.iter().copied()).count();
    let missing: Vec<&SiteDecision> = sites
        .iter()
        .copied()
        .filter(|site| site.standing != SiteStatus::Confirmed)
        .collect();
    let mut of_this = vec![verdict(
        "part",
        format!("{percent} % of the sites{of} confirm"),
        confirmed > 0 && confirmed * 100 >= sites.len() * usize::from(percent),
        match (sites.len(), missing.len()) {
            (0, _) => format!("no site that counts {}", words::is_in_part(edition, rule)),
            (count, 0) => format!("{confirmed} of {count} confirm"),
            (count, _) => format!(
                "{confirmed} of {count} confirm; not: {}",
                names(missing.iter().copied())
            ),
        },
        || "import the missing reports, or waive or defer these sites".into(),
    )];
    if let Some(least) = rule.min_sites {
        let needs = words::at_least(edition, least, &of);
        of_this.push(min_sites("part-min-sites", least, &sites, needs));
    }
    if let Some(hours) = rule.soak_hours {
        let least = at_least(&sites, percent, rule.min_sites);
        let part_soak = ("part-soak", of.as_str());
        of_this.push(soak(question, facts, part_soak, hours, least, &sites));
    }
    for one in &mut of_this {
        if !one.met && without_sites.is_some() {
            one.opens.clone_from(&without_sites);
        }
    }
    found.append(&mut of_this);
}

/// Whether a site is of the part: by its cluster type, and by what bundles want on it.
fn is_in(question: &GateQuestion, facts: &Facts<'_>, rule: &PartRule, site: &SiteDecision) -> bool {
    let of_type = |name: &String| site.cluster_type == *name;
    if !rule.cluster_type.as_ref().is_none_or(of_type) {
        return false;
    }
    let Some(workload) = &rule.workload else {
        return true;
    };
    let role = facts
        .sites
        .binary_search_by(|state| state.site.as_str().cmp(&site.site))
        .ok()
        .map(|at| facts.sites[at].role.as_str());
    let of_environment = |role: &str, number: u64| {
        facts.bundles.iter().any(|bundle| {
            bundle.role == role
                && bundle.number == number
                && bundle.environment == question.environment
        })
    };
    facts.wanted.iter().any(|((of_role, number), wanted)| {
        Some(of_role.as_str()) == role
            && of_environment(of_role, *number)
            && wanted
                .iter()
                .any(|one| one.workload == *workload && one.is_for(&site.site))
    })
}

/// What people hold back; `None` where they hold nothing.
fn held(question: &GateQuestion, facts: &Facts<'_>) -> Option<RuleVerdict> {
    let is_of = |act: &&Act| {
        act.kind == ActKind::Hold
            && facts.counts(act)
            && act.environment.as_deref() == Some(question.environment.as_str())
            && act
                .commit
                .as_deref()
                .is_none_or(|commit| commit == question.commit)
            && act
                .until_ms
                .is_none_or(|until_ms| until_ms > question.now_ms)
    };
    let holds: Vec<&Act> = facts.acts.iter().filter(is_of).collect();
    let first = holds.first()?;
    let names: BTreeSet<&str> = holds.iter().map(|act| act.by.as_str()).collect();
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let reported = |act: &&Act| {
        let at = time::rfc3339(act.at_ms);
        format!("hold {} by {}, {at}: {}", act.id, act.by, act.reason)
    };
    Some(RuleVerdict {
        evidence: holds.iter().map(reported).collect(),
        ..verdict(
            "hold",
            format!("nobody holds promotions from `{}`", question.environment),
            false,
            format!("held by {}: {}", names.join(", "), first.reason),
            || format!("`outhaul-hub withdraw {}` ends it", first.id),
        )
    })
}

fn approvals(question: &GateQuestion, facts: &Facts<'_>, rule: &ApprovalRule) -> RuleVerdict {
    let is_of = |act: &&Act| {
        act.kind == ActKind::Approve
            && facts.counts(act)
            && act.environment.as_deref() == Some(question.environment.as_str())
            && act.commit.as_deref() == Some(question.commit.as_str())
            && act
                .until_ms
                .is_none_or(|until_ms| until_ms > question.now_ms)
    };
    let given: Vec<&Act> = facts.acts.iter().filter(is_of).collect();
    let people: BTreeSet<&str> = given
        .iter()
        .map(|act| act.by.as_str())
        .filter(|name| rule.by.contains(*name))
        .collect();
    let others: BTreeSet<&str> = given
        .iter()
        .map(|act| act.by.as_str())
        .filter(|name| !rule.by.contains(*name))
        .collect();
    let quoted = |names: &BTreeSet<&str>| {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    let mut found = match people.len() {
        0 => "none of them has".to_owned(),
        count => format!("{count} of them have: {}", quoted(&people)),
    };
    if !others.is_empty() {
        found.push_str(&format!("; not on the list: {}", quoted(&others)));
    }
    let missing: BTreeSet<&str> = rule
        .by
        .iter()
        .map(String::as_str)
        .filter(|name| !people.contains(name))
        .collect();
    let evidence = given
        .iter()
        .filter(|act| people.contains(act.by.as_str()))
        .map(|act| {
            format!(
                "approval {} by {}, {}: {}",
                act.id,
                act.by,
                time::rfc3339(act.at_ms),
                act.reason
            )
        });
    RuleVerdict {
        evidence: evidence.collect(),
        ..verdict(
            "approvals",
            format!(
                "{} of {} approve",
                rule.needed,
                quoted(&rule.by.iter().map(String::as_str).collect())
            ),
            people.len() >= usize::try_from(rule.needed).unwrap_or(usize::MAX).max(1),
            found,
            || {
                format!(
                    "`outhaul-hub approve --environment {} --commit {} --by NAME --reason TEXT` by {}",
                    question.environment,
                    question.commit,
                    quoted(&missing)
                )
            },
        )
    }
}

fn closed(now_ms: i64, times: &[ClosedTime]) -> RuleVerdict {
    let now = times.iter().find_map(|time| match time.span() {
        Ok((from, until)) => (from..until)
            .contains(&now_ms)
            .then(|| (Some(until), describe(time))),
        Err(problem) => Some((None, problem)),
    });
    let (until, found) = match now {
        Some((until, found)) => (Some(until), found),
        None => (None, "none is now".to_owned()),
    };
    verdict(
        "closed-times",
        "no closed time is in effect".into(),
        until.is_none(),
        found,
        || match until.flatten() {
            Some(until) => format!("it is over at {}", time::rfc3339(until)),
            None => "fix the promotion policy".to_owned(),
        },
    )
}

fn describe(time: &ClosedTime) -> String {
    let colon = if time.reason.is_empty() { "" } else { ": " };
    format!(
        "closed from {} until {}{colon}{}",
        time.from, time.until, time.reason
    )
}

fn windows(now_ms: i64, rules: &GateRules) -> RuleVerdict {
    let names: Vec<String> = rules.windows.iter().map(PromotionWindow::name).collect();
    let open = |at_ms: i64| rules.windows.iter().any(|window| window.holds(at_ms));
    let now = time::rfc3339(now_ms);
    verdict(
        "windows",
        format!("it is one of these times: {}", names.join("; ")),
        open(now_ms),
        format!("it is {now}"),
        || {
            let minutes = (1..AHEAD_MS / MINUTE_MS)
                .map(|minute| (now_ms.div_euclid(MINUTE_MS) + minute) * MINUTE_MS);
            match minutes.into_iter().find(|at_ms| open(*at_ms)) {
                Some(at_ms) => format!("the next one begins at {}", time::rfc3339(at_ms)),
                None => "fix the promotion policy: no such time comes".to_owned(),
            }
        },
    )
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "site" } else { "sites" }
}

/// Names with each one's status, the first few.
fn names<'a>(sites: impl Iterator<Item = &'a SiteDecision>) -> String {
    let all: Vec<String> = sites
        .map(|site| format!("`{}` ({})", site.site, site.standing.as_str()))
        .collect();
    let more = all.len().saturating_sub(NAMED);
    let mut text = all[..all.len() - more].join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
