//! What a gate reads of the store, and what it puts on record.
//!
//! What comes in: a question as it was asked. What goes out: the question with the rules that count, the decision from
//! the sites of one environment, and the record of it: its sentences once, and per site the digest of the report that
//! it rests on. It reads no other site and decides nothing itself.

use std::collections::BTreeMap;

use outhaul_bundle::hub_api::{Decision, GateQuery, GateRules, MAX_AGE_HOURS, QUORUM_PERCENT};
use outhaul_bundle::json_object;
use outhaul_gate::later::LaterDecision;
use outhaul_gate::{
    DecisionRecord, EDITION, Facts, GateQuestion, MAX_RULES_BYTES, decide, evidence_lines,
    fingerprint, site_status, tighter, wanted_by,
};
use outhaul_kit::suggest::{did_you_mean, nearest};
use outhaul_store::{
    Act, DesiredAssignment, DesiredBundle, PastDecision, Restored, Session, SitePage, SiteState,
    StepRules, StoreError,
};

pub use crate::ask_error::AskError;
use crate::steps::RecordedSteps;

/// A question as someone asks it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateRequest {
    /// The environment.
    pub environment: String,
    /// The base commit.
    pub commit: String,
    /// The environment that it is to be promoted to, where that was said.
    pub to: Option<String>,
    /// The oldest report that counts, in hours: stricter than the rules, never looser.
    pub max_age_hours: Option<u32>,
    /// The share of sites that must confirm: stricter than the rules, never looser.
    pub quorum_percent: Option<u8>,
    /// The rules; without them those on record count.
    pub rules: Option<GateRules>,
}

/// Refuses an environment that no site and no bundle of this hub is of, with what was meant.
///
/// # Errors
/// [`AskError::NoEnvironment`].
pub fn known_environment(session: &Session<'_>, name: &str) -> Result<Vec<String>, AskError> {
    let known = session.environments()?;
    if known.iter().any(|one| one == name) {
        return Ok(known);
    }
    let help = match known.is_empty() {
        true => {
            "it knows none yet: bring the bundles and the sites' requests in (`outhaul-hub import`)"
                .to_owned()
        }
        false => did_you_mean(name, &known),
    };
    let name = name.to_owned();
    Err(AskError::NoEnvironment { name, help })
}

impl GateRequest {
    /// The question of a query, every bound checked.
    ///
    /// # Errors
    /// The problem, in words.
    pub fn of_query(query: GateQuery) -> Result<Self, String> {
        let within = |hours: &u32| MAX_AGE_HOURS.contains(hours);
        let share = |percent: &u8| QUORUM_PERCENT.contains(&u32::from(*percent));
        if !query.max_age_hours.as_ref().is_none_or(within)
            || !query.quorum_percent.as_ref().is_none_or(share)
        {
            return Err("max_age_hours is 1 to 87600, quorum_percent 1 to 100".to_owned());
        }
        outhaul_gate::commit(&query.commit)?;
        let rules = match query.rules {
            None => None,
            Some(text) if text.len() > MAX_RULES_BYTES => {
                return Err(format!("rules are {MAX_RULES_BYTES} bytes at most"));
            }
            Some(text) => {
                let rules: GateRules = json_object::read(text.as_bytes())
                    .map_err(|error| format!("rules cannot be read: {error}"))?;
                rules
                    .check()
                    .map_err(|problem| format!("rules: {problem}"))?;
                Some(rules)
            }
        };
        Ok(Self {
            environment: query.environment,
            commit: query.commit,
            to: query.to,
            max_age_hours: query.max_age_hours,
            quorum_percent: query.quorum_percent,
            rules,
        })
    }

    /// Refuses names that were mistyped. A step to an environment that this hub knows nothing of is one where the
    /// question brings the rules of it, and the name is near no environment that it knows; `strict` takes known ones and steps on record
    /// only. Rules on record make no name an environment: that of one may be mistyped.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn check_names(&self, session: &Session<'_>, strict: bool) -> Result<(), AskError> {
        let found = known_environment(session, &self.environment);
        let known = match found {
            // A control plane's names come as they are written there: of an environment of which nothing came in yet the
            // answer is a closed gate.
            Err(AskError::NoEnvironment { .. }) if !strict => {
                let known = session.environments()?;
                if nearest(&self.environment, &known).is_some() {
                    return found.map(drop);
                }
                known
            }
            found => found?,
        };
        let Some(to) = &self.to else {
            return Ok(());
        };
        let recorded = RecordedSteps::read(session, &self.environment)?;
        let steps: Vec<String> = recorded.names().map(str::to_owned).collect();
        // Where rules are on record of other steps, a mistyped name would open without them. Those without a step apply to each step.
        if self.rules.is_none() && !steps.is_empty() && !steps.contains(to) {
            return Err(recorded.no_step(&self.environment, to, &known));
        }
        let is_known = known.contains(to) || steps.contains(to);
        if is_known || (!strict && nearest(to, &known).is_none()) {
            return Ok(());
        }
        Err(AskError::NoEnvironment {
            name: to.clone(),
            help: did_you_mean(to, &known),
        })
    }

    /// That nothing came in of an environment which the question names and whose rules are put on record: it may be mistyped.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn unknown_names(
        &self,
        session: &Session<'_>,
        recorded: &RecordedSteps,
    ) -> Result<Vec<String>, StoreError> {
        let known = session.environments()?;
        let step = self.to.as_deref().filter(|to| !to.is_empty());
        let others: Vec<&str> = recorded.names().filter(|to| Some(*to) != step).collect();
        let near = step.and_then(|to| nearest(to, &others));
        let named = [(self.environment.as_str(), None)];
        let named = named.into_iter().chain(step.map(|to| (to, near)));
        let unknown = named.filter(|(name, _)| !known.iter().any(|one| one == name));
        let removal = tighter::removal(&self.environment, step);
        let note = |(name, near): (&str, Option<&str>)| {
            let meant = near.map_or_else(String::new, |near| {
                format!("; rules are on record for the step to `{near}`: did you mean it?")
            });
            let end = if near.is_some() { "" } else { ";" };
            format!(
                "note: nothing came in of an environment `{name}` yet{meant}{end} {removal} removes the rules that were recorded now, where \
                 `{name}` is mistyped"
            )
        };
        Ok(unknown.map(note).collect())
    }

    /// The question with the rules that count: its own, or those with which the step was last asked about on record.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn question(&self, session: &Session<'_>, now_ms: i64) -> Result<GateQuestion, AskError> {
        let mut to = self.to.clone().filter(|to| !to.is_empty());
        let mut rules = match &self.rules {
            Some(rules) => rules.clone(),
            None => {
                let recorded = RecordedSteps::read(session, &self.environment)?;
                to = self.step_of(&recorded, to)?;
                let rules = match &to {
                    Some(to) => recorded.rules(to),
                    None => recorded.of_each().cloned(),
                };
                rules.unwrap_or_default()
            }
        };
        self.tighten(&mut rules);
        // Outcomes are told apart by their number: their times are of a clock that may have been ahead.
        let acts = match rules.checks.is_empty() && !session.has_checks()? {
            true => None,
            false => Some(session.newest_act()?),
        };
        Ok(GateQuestion {
            acts,
            environment: self.environment.clone(),
            commit: self.commit.clone(),
            to,
            now_ms,
            rules,
            edition: EDITION,
        })
    }

    /// Makes the rules of the question as tight as those on record for the step, where some are. Returns what is put on record for it where
    /// `asked_by` may record, and what the question asked less for.
    pub fn keep_to_record(
        &mut self,
        recorded: &RecordedSteps,
        asked_by: Option<&str>,
        now_ms: i64,
    ) -> KeptRules {
        let Some(asked) = self.rules.clone() else {
            return KeptRules::default();
        };
        // Rules that ask for nothing of their own are nobody's decision yet.
        let is_asked = |rules: &&GateRules| **rules != GateRules::default();
        let mut kept = KeptRules::default();
        if let Some(by) = asked_by {
            match self.check_step(recorded) {
                Err(problem) => {
                    kept.note = Some(format!(
                        "the rules of this question are not put on record: {problem}"
                    ));
                }
                // Its own alone: those of each step count besides, and are made looser as such.
                Ok(()) => {
                    let own = recorded.recorded(self.to.as_deref()).filter(is_asked);
                    let rules = own.map_or_else(|| asked.clone(), |own| tighter::of(own, &asked).0);
                    kept.step = Some(self.step_with(rules, by, now_ms));
                }
            }
        }
        let on_record = match self.to.as_deref() {
            Some(to) => recorded.rules(to),
            None => recorded.of_each().cloned(),
        };
        if let Some(on_record) = on_record.as_ref().filter(is_asked) {
            let (rules, less) = tighter::of(on_record, &asked);
            self.rules = Some(rules);
            kept.less = less;
        }
        kept
    }

    /// The answer of a hub whose database is damaged.
    pub fn damaged(&self, now_ms: i64) -> Decision {
        let mut rules = self.rules.clone().unwrap_or_default();
        self.tighten(&mut rules);
        outhaul_gate::later::damaged(&GateQuestion {
            acts: None,
            environment: self.environment.clone(),
            commit: self.commit.clone(),
            to: self.to.clone(),
            now_ms,
            rules,
            edition: EDITION,
        })
    }

    /// The age and share that were asked for, where they are stricter.
    fn tighten(&self, rules: &mut GateRules) {
        let ages = [self.max_age_hours, rules.max_age_hours];
        rules.max_age_hours = ages.into_iter().flatten().min();
        let shares = [self.quorum_percent, rules.quorum_percent];
        rules.quorum_percent = shares.into_iter().flatten().max();
    }

    /// The step that is meant where the question names none: the only one on record.
    fn step_of(
        &self,
        recorded: &RecordedSteps,
        to: Option<String>,
    ) -> Result<Option<String>, AskError> {
        let mut names = recorded.names();
        match (to, names.next(), names.next()) {
            (Some(to), ..) => Ok(Some(to)),
            (None, only, None) => Ok(only.map(str::to_owned)),
            (None, ..) => Err(self.which_step(recorded)),
        }
    }

    fn which_step(&self, recorded: &RecordedSteps) -> AskError {
        let names: Vec<_> = recorded.names().map(|to| format!("`{to}`")).collect();
        AskError::WhichStep {
            environment: self.environment.clone(),
            known: names.join(", "),
        }
    }

    /// Refuses to put the rules of a caller's question on record without a step beside steps that are on record, except where there are some
    /// to change: a person at the hub decides that they apply to each step.
    ///
    /// # Errors
    /// [`AskError::WhichStep`].
    fn check_step(&self, recorded: &RecordedSteps) -> Result<(), AskError> {
        let is_named = self.to.as_deref().is_some_and(|to| !to.is_empty());
        let is_first = recorded.names().next().is_none();
        match is_named || self.rules.is_none() || is_first || recorded.has_unnamed() {
            true => Ok(()),
            false => Err(self.which_step(recorded)),
        }
    }

    /// Makes the question one whose rules are put on record: what is put there of them. The rules of each step count besides.
    pub fn recording(
        &mut self,
        recorded: &RecordedSteps,
        (asked_by, now_ms): (&str, i64),
    ) -> Option<StepRules> {
        let step = self.step(asked_by, now_ms)?;
        self.rules = Some(match recorded.of_each().filter(|_| self.to.is_some()) {
            Some(each) => tighter::of(each, &step.rules).0,
            None => step.rules.clone(),
        });
        Some(step)
    }

    /// What would be put on record of the rules, when the question brought some.
    pub fn step(&self, asked_by: &str, now_ms: i64) -> Option<StepRules> {
        let rules = self.rules.clone()?;
        Some(self.step_with(rules, asked_by, now_ms))
    }

    /// What is put on record of `rules` for the step of the question.
    fn step_with(&self, mut rules: GateRules, asked_by: &str, now_ms: i64) -> StepRules {
        self.tighten(&mut rules);
        StepRules {
            environment: self.environment.clone(),
            to: self.to.clone().unwrap_or_default(),
            rules,
            asked_by: asked_by.to_owned(),
            at_ms: now_ms,
        }
    }
}

/// What is put on record of the rules of a question that keeps to those on record.
#[derive(Debug, Clone, Default)]
pub struct KeptRules {
    /// The rules of the step.
    pub step: Option<StepRules>,
    /// What the question asked less for than what is on record.
    pub less: Vec<&'static str>,
    /// Why its rules are not put on record, where the caller could.
    pub note: Option<String>,
}

/// What the store knows of the sites of one environment.
#[derive(Debug, Clone)]
pub struct EnvironmentRecord {
    sites: Vec<SiteState>,
    bundles: Vec<DesiredBundle>,
    wanted: BTreeMap<(String, u64), Vec<DesiredAssignment>>,
    acts: Vec<Act>,
    well_since: BTreeMap<String, i64>,
    restored: Option<Restored>,
    later: Option<LaterDecision>,
}

impl EnvironmentRecord {
    /// Reads what `question` needs, and no other environment's sites.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn read(session: &Session<'_>, question: &GateQuestion) -> Result<Self, StoreError> {
        let sites = session.site_states_of(SitePage::at_gate(&question.environment))?;
        let mut bundles = session.bundles()?;
        bundles.retain(|bundle| bundle.environment == question.environment);
        let mut wanted = BTreeMap::new();
        for key in wanted_by(&sites, &bundles) {
            let list = session.bundle_assignments(&key.0, key.1)?;
            wanted.insert(key, list);
        }
        let well_since = well_since(session, question, &sites, &bundles)?;
        let mut acts = session.acts_in_force(question.now_ms)?;
        if !question.rules.checks.is_empty() {
            acts.extend(session.checks_of(&question.environment, &question.commit)?);
        }
        Ok(Self {
            acts,
            sites,
            bundles,
            wanted,
            well_since,
            restored: session.last_restore()?,
            later: session.later_decision(question.now_ms, question.edition)?,
        })
    }

    /// Whether a bundle of the environment was rendered from the commit.
    pub fn knows_commit(&self, question: &GateQuestion) -> bool {
        self.bundles.iter().any(|b| {
            b.environment == question.environment
                && b.base_commit == question.commit
                && !b.taken_back
        })
    }

    /// Asks the gate.
    pub fn decide(&self, question: &GateQuestion) -> Decision {
        decide(
            question,
            &Facts {
                sites: &self.sites,
                bundles: &self.bundles,
                wanted: &self.wanted,
                acts: &self.acts,
                well_since: &self.well_since,
                restored: self.restored,
                later: self.later,
            },
        )
    }
}

fn well_since(
    session: &Session<'_>,
    question: &GateQuestion,
    sites: &[SiteState],
    bundles: &[DesiredBundle],
) -> Result<BTreeMap<String, i64>, StoreError> {
    let mut found = BTreeMap::new();
    if !question.asks_for_soak() {
        return Ok(found);
    }
    let enough_ms = question.now_ms.saturating_sub(question.longest_soak_ms());
    for site in sites {
        if let Some(first) = site_status::needed(&question.commit, bundles, site)
            && let Some(since) = session.well_since(site, first.number, enough_ms)?
        {
            found.insert(site.site.clone(), since);
        }
    }
    Ok(found)
}

/// Puts a decision on record with the digests of its evidence, and who asked for it; `false` when the one before said the same.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn keep(
    session: &Session<'_>,
    (question, decision): (&GateQuestion, &Decision),
    rules: Option<&StepRules>,
    asked_by: &str,
    now_ms: i64,
) -> Result<bool, StoreError> {
    if let Some(rules) = rules {
        session.add_step_rules(rules)?;
    }
    let past = PastDecision {
        id: 0,
        at_ms: now_ms,
        environment: decision.environment.clone(),
        commit: decision.commit.clone(),
        verdict: decision.verdict.as_str().to_owned(),
        asked_by: asked_by.to_owned(),
        to: decision.to.clone(),
    };
    let text = DecisionRecord::new(decision, question).to_text();
    session.add_decision(
        &past,
        &fingerprint(decision),
        &text,
        &evidence_lines(decision),
    )
}
