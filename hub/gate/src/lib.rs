//! The gate: may what an environment runs go on to the next one?
//!
//! The hub asks it, and so does the verifier that recomputes what a hub decided.
//!
//! What comes in: a question, and all that the hub knows (sites, bundles, waivers), with the time. What
//! goes out: a [`Decision`], open or closed, with every reason, every site's standing and the reports that
//! it rests on. A pure function: the same facts give the same decision. It is closed unless proven
//! open: no sites, silence, old reports, gaps, failures and unknown bundles all close it, and nothing
//! that a site reports of a failure ever opens it. A rule can only close it. It reads no store and no clock.

pub mod audit;
mod checks;
pub mod conflict;
pub mod facts;
pub mod fold;
pub mod later;
pub mod observed;
mod places;
pub mod record;
mod rules;
pub mod site_status;
pub mod tighter;
pub mod time;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
pub use outhaul_bundle::hub_api::{
    DEFAULT_MAX_AGE_HOURS, DEFAULT_QUORUM_PERCENT, Decision, Evidence, GATE_EDITIONS, GateRules,
    GateVerdict, RestoredHub, SiteDecision, SiteStatus,
};

use facts::{Act, DesiredAssignment, DesiredBundle, Restored, SiteState};
use later::LaterDecision;
use places::Places;
pub use record::{DecisionRecord, evidence_lines};

/// The edition of the rules by which gates decide now. Decisions of an earlier one are made again by that one:
///
/// 1. A waived site that confirms counts, and a commit without a bundle is only refused where a site is registered.
/// 2. A waived site never counts, and a commit without a bundle is refused always; after a restore only what is new counts.
/// 3. Closed while the hub's clock is before a decision on record; a report that is dated far ahead is not fresh.
/// 4. What a person states of the clock counts also where the clock shows a time up to [`later::APART_MS`] before it.
/// 5. A conflict that came after a choice ends when the chosen machine reports again; until then someone had to choose again. What
///    failed closes also where a cluster shows no bundle that is known. A part that no site is of is to be corrected in the policy.
pub const EDITION: u32 = *GATE_EDITIONS.end();

/// Longest rules in a question, in bytes.
pub const MAX_RULES_BYTES: usize = 64 * 1024;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateQuestion {
    /// The environment.
    pub environment: String,
    /// The base commit that should run there.
    pub commit: String,
    /// The environment that it is to be promoted to, where that was said.
    pub to: Option<String>,
    /// The time, milliseconds since 1970.
    pub now_ms: i64,
    /// What is asked for.
    pub rules: GateRules,
    /// The edition of the rules: [`EDITION`], or an earlier one for a decision of before.
    pub edition: u32,
    /// The number of the newest entry of people and checks that is known, where the decision is to state it.
    pub acts: Option<i64>,
}

impl GateQuestion {
    /// How old a site's newest report may be, by when it was received, in milliseconds.
    pub fn max_age_ms(&self) -> i64 {
        let hours = self.rules.max_age_hours.unwrap_or(DEFAULT_MAX_AGE_HOURS);
        i64::from(hours) * time::HOUR_MS
    }

    /// The share of the counted sites that must have confirmed, 1 to 100.
    pub fn quorum_percent(&self) -> u8 {
        self.rules
            .quorum_percent
            .unwrap_or(DEFAULT_QUORUM_PERCENT)
            .clamp(1, 100)
    }

    /// Whether any rule asks for how long sites have confirmed.
    pub fn asks_for_soak(&self) -> bool {
        self.rules.soak_hours.is_some() || self.rules.parts.iter().any(|p| p.soak_hours.is_some())
    }

    /// The longest of these times, in milliseconds.
    pub fn longest_soak_ms(&self) -> i64 {
        longest_soak_ms(&self.rules)
    }
}

/// The longest time that rules ask sites to have confirmed for without a break, in milliseconds; 0 where they do not ask.
pub fn longest_soak_ms(rules: &GateRules) -> i64 {
    let parts = rules.parts.iter().map(|part| part.soak_hours);
    let all = parts.chain([rules.soak_hours]);
    i64::from(all.flatten().max().unwrap_or(0)) * time::HOUR_MS
}

/// What the hub knows.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Every registered site, by name.
    pub sites: &'a [SiteState],
    /// Every bundle, by stream and number.
    pub bundles: &'a [DesiredBundle],
    /// For bundles that sites run: each assignment.
    pub wanted: &'a BTreeMap<(String, u64), Vec<DesiredAssignment>>,
    /// What people decided about gates, but for what they withdrew.
    pub acts: &'a [Act],
    /// Since when each site has reported without a break that what it runs is well, milliseconds since 1970, by when
    /// the hub received the reports; needed only where a rule asks for it. A site that is not in it has not.
    pub well_since: &'a BTreeMap<String, i64>,
    /// When the hub was restored last; `None` when it never was.
    pub restored: Option<Restored>,
    /// A decision on record that is dated after now, as [`later::found`] finds it.
    pub later: Option<LaterDecision>,
}

impl Facts<'_> {
    /// Whether what a person decided counts: nothing from before a restore does.
    fn counts(&self, act: &Act) -> bool {
        self.restored.is_none_or(|restored| restored.holds(act))
    }
}

/// Decides.
pub fn decide(question: &GateQuestion, facts: &Facts<'_>) -> Decision {
    if let Some(later) = facts.later.filter(|_| question.edition >= 3) {
        return later::closed(question, later);
    }
    let reported = facts.sites;
    let resolved = observed::resolved(reported, facts.bundles);
    let facts = &Facts {
        sites: &resolved,
        ..*facts
    };
    let follows = observed::following(reported);
    let in_scope =
        |site: &&SiteState| site.environment == question.environment && site.revoked_ms.is_none();
    let sites: Vec<SiteDecision> = facts
        .sites
        .iter()
        .filter(in_scope)
        .map(|site| site_status::of(question, facts, site))
        .collect();
    let counted: Vec<&SiteDecision> = sites
        .iter()
        .filter(|site| site.standing.is_counted())
        .collect();
    let confirmed = counted
        .iter()
        .filter(|site| site.standing == SiteStatus::Confirmed)
        .count();
    let quorum_percent = question.quorum_percent();

    let mut reasons = Vec::new();
    let mut notes = Vec::new();
    let environment = &question.environment;
    if sites.is_empty() {
        reasons.push(format!(
            "no-sites: no site of environment `{environment}` is registered, so no site can confirm"
        ));
    } else if counted.is_empty() {
        reasons.push(
            "all-waived: every site is waived or deferred, and at least one has to confirm"
                .to_owned(),
        );
    }
    for site in sites.iter().filter(|site| site.standing.always_closes()) {
        reasons.push(site.sentence());
    }
    let enough = confirmed > 0 && confirmed * 100 >= counted.len() * usize::from(quorum_percent);
    for site in counted.iter().filter(|site| site.standing.is_missing()) {
        let list = if enough { &mut notes } else { &mut reasons };
        list.push(site.sentence());
    }
    if !enough && !counted.is_empty() && quorum_percent < 100 {
        reasons.push(format!(
            "quorum: {confirmed} of {} sites confirmed, {quorum_percent} % are needed",
            counted.len()
        ));
    }
    let mut of_commit = Vec::from_iter(unknown(question, facts));
    of_commit.extend(withdrawn(question, facts));
    let mut rules = rules::base(question, &sites, enough, &of_commit);
    reasons.extend(of_commit);
    let asked = rules::asked(question, facts, &sites);
    reasons.extend(asked.iter().filter(|rule| !rule.met).map(|rule| {
        let opens = rule.opens.as_deref().unwrap_or_default();
        format!(
            "{}: {}; needed: {}; {opens}",
            rule.rule, rule.found, rule.needs
        )
    }));
    rules.extend(asked);
    for site in sites.iter().filter(|site| !site.standing.is_counted()) {
        notes.push(site.sentence());
    }
    notes.extend(streams_without_sites(question, facts));
    notes.extend(facts.restored.map(restored_note));

    // `enough` is asked again so that no way of building `reasons` can open the gate by itself.
    let verdict = if reasons.is_empty() && enough && rules.iter().all(|rule| rule.met) {
        GateVerdict::Open
    } else {
        GateVerdict::Closed
    };
    let evidence = evidence(question, facts, &sites, &follows);
    Decision {
        verdict,
        environment: environment.clone(),
        commit: question.commit.clone(),
        decided_at: time::rfc3339(question.now_ms),
        edition: question.edition,
        restored: facts.restored.map(|restored| RestoredHub {
            at: time::rfc3339(restored.at_ms),
            backup_at: time::rfc3339(restored.backup_ms),
        }),
        max_age_hours: question.max_age_ms() / time::HOUR_MS,
        quorum_percent,
        to: question.to.clone(),
        rules,
        counted: counted.len(),
        confirmed,
        reasons,
        notes,
        sites,
        evidence,
    }
}

/// The reports that a decision rests on. What a waived site reported is not evidence, and neither is what was reported before
/// a restore.
fn evidence(
    question: &GateQuestion,
    facts: &Facts<'_>,
    sites: &[SiteDecision],
    follows: &BTreeSet<&str>,
) -> Vec<Evidence> {
    let no_evidence = [SiteStatus::Waived, SiteStatus::BeforeRestore];
    let of_sites: BTreeSet<&str> = sites
        .iter()
        .filter(|site| question.edition < 2 || !no_evidence.contains(&site.standing))
        .map(|site| site.site.as_str())
        .collect();
    let places = Places::of(question, facts.bundles);
    facts
        .sites
        .iter()
        .filter(|site| of_sites.contains(site.site.as_str()))
        .filter_map(|site| evidence_of(&places, site, follows.contains(site.site.as_str())))
        .collect()
}

/// What a decision after a restore states, where it counts anything or nothing.
fn restored_note(restored: Restored) -> String {
    format!(
        "restored: this hub was restored at {} from a backup of {}: reports, approvals, waivers and deferrals from before \
         do not count; reports that are made and received now do",
        time::rfc3339(restored.at_ms),
        time::rfc3339(restored.backup_ms)
    )
}

/// The bundles whose assignments a decision needs: what sites run, and the newest of their streams.
pub fn wanted_by(sites: &[SiteState], bundles: &[DesiredBundle]) -> BTreeSet<(String, u64)> {
    let known: BTreeSet<(&str, u64)> = bundles
        .iter()
        .map(|bundle| (bundle.role.as_str(), bundle.number))
        .collect();
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    for bundle in bundles.iter().filter(|bundle| !bundle.taken_back) {
        let number = newest.entry(&bundle.role).or_insert(bundle.number);
        *number = bundle.number.max(*number);
    }
    let mut wanted = BTreeSet::new();
    for site in observed::resolved(sites, bundles).iter() {
        let running = site.running.as_ref().map(|r| (r.role.clone(), r.bundle));
        let desired = newest
            .get(site.role.as_str())
            .map(|number| (site.role.clone(), *number));
        let keys = running.into_iter().chain(desired);
        wanted.extend(keys.filter(|key| known.contains(&(key.0.as_str(), key.1))));
    }
    wanted
}

/// Equal for two decisions that say the same from the same evidence, whenever they were made.
pub fn fingerprint(decision: &Decision) -> String {
    let standings: Vec<_> = decision
        .sites
        .iter()
        .map(|s| (&s.site, s.standing))
        .collect();
    let reports: Vec<_> = decision
        .evidence
        .iter()
        .map(|e| (&e.site, &e.digest))
        .collect();
    let rules: Vec<_> = decision
        .rules
        .iter()
        .map(|rule| (&rule.rule, &rule.needs, rule.met, &rule.evidence))
        .collect();
    let rule = (decision.max_age_hours, decision.quorum_percent);
    let edition = (decision.edition, &decision.restored);
    let text = serde_json::json!([
        decision.verdict,
        decision.to,
        edition,
        rule,
        rules,
        standings,
        reports
    ])
    .to_string();
    Digest::of(text.as_bytes()).to_string()
}

fn evidence_of(places: &Places<'_>, site: &SiteState, follows: bool) -> Option<Evidence> {
    let running = site.running.as_ref()?;
    let place = places.at(site, running, follows);
    Some(Evidence {
        base_commit: Some(place.base_commit),
        environment_commit: place.environment_commit,
        passed: place.passed,
        site: site.site.clone(),
        epoch: site.newest.as_ref()?.epoch.clone(),
        report: running.report,
        digest: running.digest.clone(),
        received_at: time::rfc3339(running.received_ms),
        bundle: running.bundle,
        state: running.state.clone(),
        webhook: Some(running.webhook.clone()).filter(|sender| !sender.is_empty()),
    })
}

/// A commit that no bundle of the environment comes from, as far as this hub knows: nobody can run it.
fn unknown(question: &GateQuestion, facts: &Facts<'_>) -> Option<String> {
    let environment = &question.environment;
    let of_it = |bundle: &DesiredBundle| {
        bundle.environment == *environment
            && bundle.base_commit == question.commit
            && !bundle.taken_back
    };
    let nobody = question.edition < 2 && facts.sites.is_empty();
    if nobody || facts.bundles.iter().any(of_it) {
        return None;
    }
    Some(format!(
        "unknown-commit: this hub has no bundle of `{environment}` from base {}; bring the bundle in \
         (`outhaul-hub import`), or ask for a commit that was bundled",
        short(&question.commit)
    ))
}

/// Streams in which a later bundle went back to a base that came before the commit: being "beyond" it
/// then proves nothing, because the commit was taken back.
fn withdrawn(question: &GateQuestion, facts: &Facts<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    for (role, bundles) in streams(question, facts) {
        let waited_for = |site: &SiteState| site.role == role && site.revoked_ms.is_none();
        let Some(first) = bundles
            .iter()
            .position(|b| b.base_commit == question.commit)
        else {
            continue;
        };
        let newest = bundles[bundles.len() - 1];
        let went_back = newest.base_commit != question.commit
            && bundles[..first]
                .iter()
                .any(|b| b.base_commit == newest.base_commit);
        if went_back && facts.sites.iter().any(waited_for) {
            reasons.push(format!(
                "withdrawn: bundle {} of cluster type `{}` went back to base {}, which came before",
                newest.number,
                newest.cluster_type,
                short(&newest.base_commit)
            ));
        }
    }
    reasons
}

fn streams_without_sites(question: &GateQuestion, facts: &Facts<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    for (role, bundles) in streams(question, facts) {
        if !facts
            .sites
            .iter()
            .any(|site| site.role == role && site.revoked_ms.is_none())
        {
            notes.push(format!(
                "cluster type `{}` has bundles but no site, so that no site confirms it",
                bundles[0].cluster_type
            ));
        }
    }
    notes
}

fn streams<'a>(
    question: &GateQuestion,
    facts: &Facts<'a>,
) -> BTreeMap<&'a str, Vec<&'a DesiredBundle>> {
    let mut found: BTreeMap<&str, Vec<&DesiredBundle>> = BTreeMap::new();
    for bundle in facts
        .bundles
        .iter()
        .filter(|b| b.environment == question.environment && !b.taken_back)
    {
        found.entry(&bundle.role).or_default().push(bundle);
    }
    for bundles in found.values_mut() {
        bundles.sort_by_key(|bundle| bundle.number);
    }
    found
}

/// The full id of a commit: of a git repository, or `sha256:` and the digest of a folder. A hub has no
/// repository in which a name could be looked up.
///
/// # Errors
/// What to give instead, for any other text.
pub fn commit(text: &str) -> Result<&str, String> {
    let id = text.strip_prefix("sha256:").unwrap_or(text);
    let hex = id
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    if hex && matches!(id.len(), 40 | 64) {
        return Ok(text);
    }
    Err("a hub knows commits by their full ids only: give what `git rev-parse` prints".to_owned())
}

/// A commit as people write it.
pub fn short(commit: &str) -> String {
    let text = commit.strip_prefix("sha256:").unwrap_or(commit);
    text.chars().take(12).collect()
}
