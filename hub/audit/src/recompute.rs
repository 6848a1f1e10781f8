//! Each decision, made again from what holds.
//!
//! What comes in: an export, its bundles and reports that hold. What goes out: per decision, whether the gate's own
//! function comes to what is on record, in its verdict, its rules, its sentences and each site's line. What a decision
//! needs and the export has not is named; nothing is guessed.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_gate::audit::Recorded;
use outhaul_gate::conflict::{self, Reported};
use outhaul_gate::facts::{
    Act, ActKind, Conflict, DesiredAssignment, DesiredBundle, Restored, SiteState,
};
use outhaul_gate::fold::{self, Removed, SeenReport};
use outhaul_gate::later::{self, LaterDecision};
use outhaul_gate::time::rfc3339;
use outhaul_gate::{
    DecisionRecord, EDITION, Facts, GateQuestion, GateRules, decide, evidence_lines, site_status,
    wanted_by,
};
use serde_json::Value;

use crate::clock;
use crate::differences;
use crate::lost;
use crate::outcome::{CheckedDecision, MissingReports, Problem, Recomputed};
use crate::read::{ClaimedMissing, DecisionEntry, Export, Numbered};
use crate::signed::Accepted;
use crate::site::RegisteredSite;

/// Differences that are named of one decision.
const NAMED: usize = 20;

/// When a decision was made.
#[derive(Debug, Clone, Copy)]
struct Then {
    /// By the hub's clock.
    at_ms: i64,
    /// The number of the newest entry that the hub had, where the decision states it: the clock may have been ahead.
    acts: Option<i64>,
    /// Of the rules.
    edition: u32,
}

impl Then {
    /// With all of the export.
    const NOW: Self = Self {
        at_ms: i64::MAX,
        acts: None,
        edition: EDITION,
    };

    /// Whether the hub had the entry.
    fn knows(self, act: &Act) -> bool {
        match self.acts {
            Some(newest) => act.id <= newest,
            None => act.at_ms <= self.at_ms,
        }
    }
}

/// Every decision of the export.
pub fn all(
    export: &Export,
    bundles: &[Accepted],
    reports: &BTreeMap<String, Vec<SeenReport>>,
) -> Vec<CheckedDecision> {
    let one = |entry: &DecisionEntry| {
        match entry {
        DecisionEntry::Whole(recorded) => CheckedDecision {
            id: recorded.id,
            at: rfc3339(recorded.at_ms),
            environment: recorded.environment.clone(),
            to: step_of(recorded),
            commit: recorded.commit.clone(),
            verdict: recorded.verdict.clone(),
            asked_by: recorded.asked_by.clone(),
            outcome: check(export, bundles, reports, recorded),
        },
        DecisionEntry::Forgotten { id, verdict } => CheckedDecision {
            id: *id,
            at: String::new(),
            environment: String::new(),
            to: None,
            commit: String::new(),
            verdict: verdict.clone(),
            asked_by: String::new(),
            outcome: Recomputed::Missing(
                "the hub keeps the last thousand closed decisions of an environment, and this is an older one".to_owned(),
            ),
        },
    }
    };
    export.decisions.iter().map(one).collect()
}

/// A hub that decides by an edition of the rules never goes back to one before it.
pub fn editions(export: &Export, problems: &mut Vec<Problem>) {
    let mut newest = 1;
    for entry in &export.decisions {
        let DecisionEntry::Whole(recorded) = entry else {
            continue;
        };
        let Ok((_, _, edition)) = content(recorded) else {
            continue;
        };
        if edition < newest {
            let what = format!(
                "decision {} states edition {edition} of the rules, and one before it edition {newest}",
                recorded.id
            );
            problems.push(Problem { line: 0, what });
        }
        newest = newest.max(edition);
    }
}

/// Where the step leads that it is about, as it is recorded.
fn step_of(recorded: &Recorded) -> Option<String> {
    let record = DecisionRecord::from_text(&recorded.decision).ok()?;
    record.decision.to
}

/// The rules that the decision was asked with, and its content.
fn content(recorded: &Recorded) -> Result<(Value, GateRules, u32), String> {
    let text: Value = serde_json::from_str(&recorded.decision)
        .map_err(|error| format!("its content cannot be read: {error}"))?;
    let question = text.get("question").cloned();
    let question = question.ok_or("a hub made it that did not keep what was asked")?;
    let rules = serde_json::from_value(question)
        .map_err(|error| format!("the rules that it was asked with cannot be read: {error}"))?;
    // The decisions of before name no edition.
    let edition = text.get("edition").map_or(Some(1), Value::as_u64);
    match edition.and_then(|edition| u32::try_from(edition).ok()) {
        Some(edition) if (1..=EDITION).contains(&edition) => Ok((text, rules, edition)),
        _ => Err(format!(
            "it was made with a version of the rules other than 1 to {EDITION}, which this program knows: take the \
             `outhaul-audit` of a later release"
        )),
    }
}

fn check(
    export: &Export,
    bundles: &[Accepted],
    reports: &BTreeMap<String, Vec<SeenReport>>,
    recorded: &Recorded,
) -> Recomputed {
    let (text, rules, edition) = match content(recorded) {
        Ok(found) => found,
        Err(missing) => return Recomputed::Missing(missing),
    };
    let back = clock::put_back(export, reports, recorded);
    if let Some(missing) = missing(export, reports, recorded) {
        return Recomputed::Missing(back.unwrap_or(missing));
    }
    let question = GateQuestion {
        environment: recorded.environment.clone(),
        commit: recorded.commit.clone(),
        to: text["to"].as_str().map(str::to_owned),
        now_ms: recorded.at_ms,
        rules,
        edition,
        acts: text["acts"].as_i64(),
    };
    let at_ms = recorded.at_ms;
    let then = Then {
        at_ms,
        acts: question.acts,
        edition,
    };
    let later = later_than(export, recorded, edition);
    let is_by_clock = later.is_none() && edition >= 3 && text["rules"][0]["rule"] == "clock";
    let is_forgotten = |entry: &DecisionEntry| matches!(entry, DecisionEntry::Forgotten { id, .. } if *id < recorded.id);
    if is_by_clock && export.decisions.iter().any(is_forgotten) {
        return Recomputed::Missing(
            "it is closed by the hub's clock, and the later decision that it names may be one of those that the hub keeps no longer".to_owned(),
        );
    }
    let known = match later {
        // Such a decision rests on nothing else.
        Some(_) if edition >= 3 => Ok(Known::new()),
        _ => known_at(bundles, &recorded.environment, at_ms),
    };
    let known = match known {
        Ok(known) => known,
        Err(missing) => return Recomputed::Missing(missing),
    };
    let desired: Vec<DesiredBundle> = known.iter().map(|(bundle, _)| bundle.clone()).collect();
    let sites = sites_at(export, reports, &recorded.environment, then);
    let mut wanted: BTreeMap<(String, u64), Vec<DesiredAssignment>> = BTreeMap::new();
    for key in wanted_by(&sites, &desired) {
        let assignments = known
            .iter()
            .find(|(bundle, _)| (bundle.role.as_str(), bundle.number) == (key.0.as_str(), key.1));
        if let Some((_, assignments)) = assignments {
            wanted.insert(key, assignments.clone());
        }
    }
    let restored = clock::restored_at(export, at_ms);
    let well_since = well_since(&question, &sites, &desired, (export, reports), restored);
    let decision = decide(
        &question,
        &Facts {
            sites: &sites,
            bundles: &desired,
            wanted: &wanted,
            acts: &acts_at(&export.acts, then),
            well_since: &well_since,
            restored,
            later,
        },
    );
    let mut again = DecisionRecord::new(&decision, &question).to_value();
    let lines = evidence_lines(&decision);
    // What the hub answered beside its content, as it is listed.
    let mut differences = Vec::new();
    if decision.verdict.as_str() != recorded.verdict {
        differences.push(format!(
            "the verdict is {}, recorded is {}",
            decision.verdict.as_str(),
            recorded.verdict
        ));
    }
    differences::fields(&mut again, &text, &mut differences);
    differences::lines(&lines, &recorded.evidence, &mut differences);
    differences.truncate(NAMED);
    if differences.is_empty() {
        return Recomputed::AsRecorded;
    }
    differences.extend(back);
    differences.extend(lost::after(export, recorded).map(Act::lost_sentence));
    Recomputed::Differs(differences)
}

/// What of a decision's evidence is not in the export, or does not hold.
fn missing(
    export: &Export,
    reports: &BTreeMap<String, Vec<SeenReport>>,
    recorded: &Recorded,
) -> Option<String> {
    for line in &recorded.evidence {
        let mut parts = line.trim_end().split('\t');
        let site = parts.next().unwrap_or_default();
        let registered = export.sites.get(site).filter(|found| {
            found.environment == recorded.environment && found.enrolled_ms <= recorded.at_ms
        });
        if registered.is_none() {
            return Some(format!(
                "the registration of site `{site}` at that time is not in the export: it was registered again, moved or \
                 removed since"
            ));
        }
        let (Some(_), Some(_), Some(number), Some(digest)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let known = reports.get(site).map_or(&[][..], Vec::as_slice);
        if !known.iter().any(|one| one.digest == digest) {
            if let Some(lost) = lost::of_report(export, site, digest) {
                return Some(lost.lost_sentence());
            }
            return Some(format!(
                "report {number} of site `{site}` with digest {digest}, on which it rests, is not in the export or its \
                 signature does not hold"
            ));
        }
    }
    None
}

type Known = Vec<(DesiredBundle, Vec<DesiredAssignment>)>;

/// The bundles of an environment that the hub knew then, by stream and number, those marked that a key signed which was
/// taken away by then.
fn known_at(bundles: &[Accepted], environment: &str, at_ms: i64) -> Result<Known, String> {
    let mut known: BTreeMap<(String, u64), (BTreeSet<String>, Option<_>)> = BTreeMap::new();
    let mut keys: BTreeMap<&str, &BTreeSet<String>> = BTreeMap::new();
    for one in bundles.iter().filter(|one| one.at_ms <= at_ms) {
        let entry = known.entry((one.role.clone(), one.number));
        let entry = entry.or_insert_with(|| (BTreeSet::new(), None));
        entry.0.clone_from(&one.signers);
        if let Some(bundle) = &one.bundle {
            entry.1 = Some(bundle.clone());
        }
        keys.insert(&one.role, &one.keys);
    }
    let mut found = Vec::new();
    for ((role, number), (signers, bundle)) in known {
        let Some((mut bundle, assignments)) = bundle else {
            return Err(format!(
                "the index of bundle {number} of stream `{role}` is not in the export: the hub took it in before it kept \
                 indexes, or it is larger than what is kept"
            ));
        };
        if bundle.environment == environment {
            bundle.taken_back = keys
                .get(role.as_str())
                .is_some_and(|keys| !signers.is_subset(keys));
            found.push((bundle, assignments));
        }
    }
    Ok(found)
}

/// The sites that the gate of an environment asked then, by name.
fn sites_at(
    export: &Export,
    reports: &BTreeMap<String, Vec<SeenReport>>,
    environment: &str,
    then: Then,
) -> Vec<SiteState> {
    let at_ms = then.at_ms;
    let asked = export.sites.iter().filter(|(_, site)| {
        site.environment == environment
            && site.enrolled_ms <= at_ms
            && site.revoked_ms.is_none_or(|revoked| revoked > at_ms)
    });
    asked
        .map(|(name, site)| {
            let mut state = unknown(name, site);
            let known = reports.get(name).map_or(&[][..], Vec::as_slice);
            apply_reports(export, &mut state, known, then);
            state
        })
        .collect()
}

/// A site of which nothing was reported.
fn unknown(name: &str, site: &RegisteredSite) -> SiteState {
    SiteState {
        site: name.to_owned(),
        role: site.role.clone(),
        environment: site.environment.clone(),
        cluster_type: site.cluster_type.clone(),
        key_id: String::new(),
        enrolled_ms: site.enrolled_ms,
        revoked_ms: None,
        counts_from_ms: site.counts_from_ms,
        newest: None,
        running: None,
        attempt: None,
        missing: Vec::new(),
        declared_lost: Vec::new(),
        conflict: None,
    }
}

/// What the reports that had come by then state, of the epoch that was the site's, and whether a conflict was open.
fn apply_reports(export: &Export, state: &mut SiteState, known: &[SeenReport], then: Then) {
    let at_ms = then.at_ms;
    let acts = export.acts.iter().filter(|act| then.knows(act));
    let choice = conflict::choice(acts, &state.site, state.enrolled_ms);
    let mut reported: BTreeMap<String, Reported> = BTreeMap::new();
    for one in known.iter().filter(|one| one.received_ms <= at_ms) {
        let at = Reported::one(one.received_ms, fold::made_ms(&one.report));
        reported
            .entry(one.report.epoch.to_string())
            .and_modify(|known| *known = known.and(at))
            .or_insert(at);
    }
    let starts = reported.iter();
    let starts = starts.map(|(name, at)| (name.as_str(), at.first_ms));
    let aside = conflict::set_aside(starts, choice);
    // Where all of them are, the newest still shows what was seen last.
    let some_left = reported.keys().any(|epoch| !aside.contains(epoch));
    let is_left = |one: &&SeenReport| !some_left || !aside.contains(one.report.epoch.as_str());
    let left: Vec<SeenReport> = known.iter().filter(is_left).cloned().collect();
    fold::present(state, &left, removed_of(export, &state.site), at_ms);
    let seen: Vec<Conflict> = export
        .conflicts
        .iter()
        .filter(|(_, one)| one.site == state.site && one.conflict.received_ms <= at_ms)
        .map(|(_, one)| one.conflict.clone())
        .collect();
    state.conflict = conflict::open(&seen, state.enrolled_ms, choice, &reported, then.edition);
}

/// The reports of a site that the hub states to keep no longer.
fn removed_of<'a>(export: &'a Export, site: &str) -> &'a Removed {
    static NONE: Removed = Removed(BTreeMap::new());
    export.removed.get(site).unwrap_or(&NONE)
}

/// The reports that each site's present epoch misses, as the file states them and as they follow from its reports.
pub fn missing_reports(
    export: &Export,
    reports: &BTreeMap<String, Vec<SeenReport>>,
    problems: &mut Vec<Problem>,
) -> Vec<MissingReports> {
    let mut found = Vec::new();
    for (name, site) in &export.sites {
        let mut state = unknown(name, site);
        let known = reports.get(name).map_or(&[][..], Vec::as_slice);
        apply_reports(export, &mut state, known, Then::NOW);
        if let Some(newest) = state.newest.filter(|_| !state.missing.is_empty()) {
            found.push(MissingReports {
                site: name.clone(),
                epoch: newest.epoch,
                reports: state.missing,
            });
        }
    }
    if !export.states_missing {
        return found;
    }
    let is_same = |(_, stated): &Numbered<ClaimedMissing>, one: &MissingReports| {
        (&stated.site, &stated.epoch, &stated.reports) == (&one.site, &one.epoch, &one.reports)
    };
    for one in &found {
        if !export.missing.iter().any(|stated| is_same(stated, one)) {
            let what =
                format!("{one}, and the file does not state that: reports were removed from it");
            problems.push(Problem { line: 0, what });
        }
    }
    for stated in &export.missing {
        if !found.iter().any(|one| is_same(stated, one)) {
            let what = format!(
                "the file states that reports of site `{}` are missing, and they are in it",
                stated.1.site
            );
            problems.push(Problem {
                line: stated.0,
                what,
            });
        }
    }
    found
}

/// A decision made before this one that is dated after it, unless a person said that its time does not count.
fn later_than(export: &Export, recorded: &Recorded, edition: u32) -> Option<LaterDecision> {
    let before = clock::whole(export).take_while(|one| one.id != recorded.id);
    let before = before.map(|one| LaterDecision {
        id: one.id,
        at_ms: one.at_ms,
    });
    // What was said of the clock after this decision was made, by a clock that was put back again, is not about it.
    let said = export.acts.iter().filter(|act| {
        let chosen = act.chosen.as_ref().and_then(|chosen| chosen.parse().ok());
        chosen.is_some_and(|chosen: i64| chosen < recorded.id)
    });
    let from = later::from(said, recorded.at_ms, edition);
    later::found(before, from, recorded.at_ms)
}

/// What people decided that held then.
fn acts_at(acts: &[Act], then: Then) -> Vec<Act> {
    let by_then = || acts.iter().filter(|act| then.knows(act));
    let withdrawn: BTreeSet<i64> = by_then().filter_map(|act| act.withdraws).collect();
    let holds = |act: &&Act| {
        !matches!(
            act.kind,
            ActKind::Withdraw | ActKind::Choose | ActKind::Clock | ActKind::Lost
        ) && !withdrawn.contains(&act.id)
            && (act.kind == ActKind::Defer || act.until_ms.is_none_or(|until| until > then.at_ms))
    };
    by_then().filter(holds).cloned().collect()
}

fn well_since(
    question: &GateQuestion,
    sites: &[SiteState],
    bundles: &[DesiredBundle],
    (export, reports): (&Export, &BTreeMap<String, Vec<SeenReport>>),
    restored: Option<Restored>,
) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    if !question.asks_for_soak() {
        return found;
    }
    let enough_ms = question.now_ms.saturating_sub(question.longest_soak_ms());
    for site in sites {
        let known = reports.get(&site.site).map_or(&[][..], Vec::as_slice);
        if let Some(first) = site_status::needed(&question.commit, bundles, site)
            && let Some(since) = fold::well_since(
                site,
                (known, removed_of(export, &site.site)),
                first.number,
                (enough_ms, question.now_ms),
                restored,
            )
        {
            found.insert(site.site.clone(), since);
        }
    }
    found
}
