//! The rules on record of the steps from one environment, which of them count for a step, and what a change of them loosens.
//!
//! What comes in: the records of the store. What goes out: the rules of a step, a change of them with its entry for the record, and the
//! commands with which a person at the hub changes them. Rules that were recorded without a step apply to each step from the environment, in
//! addition to its own: a step that is recorded later drops none of them. It reads the store and writes nothing.

use std::collections::BTreeSet;
use std::fmt;

use outhaul_bundle::hub_api::GateRules;
use outhaul_gate::tighter;
use outhaul_kit::suggest::{as_sentence, did_you_mean, nearest};
use outhaul_kit::text::quoted;
use outhaul_store::{AccessEntry, Act, Session, StepRules, StoreError};

use crate::ask_error::AskError;

/// The rules on record of the steps from one environment.
#[derive(Debug, Clone, Default)]
pub struct RecordedSteps {
    /// Of steps to an environment, by its name.
    named: Vec<StepRules>,
    /// Recorded where nobody named the step.
    of_each: Option<StepRules>,
}

impl RecordedSteps {
    /// Those of the steps from `environment`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn read(session: &Session<'_>, environment: &str) -> Result<Self, StoreError> {
        Ok(Self::of(session.step_rules(environment)?))
    }

    fn of(all: Vec<StepRules>) -> Self {
        let (mut unnamed, named): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|step| step.to.is_empty());
        Self {
            named,
            of_each: unnamed.pop(),
        }
    }

    /// Where the steps lead, by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|step| step.to.as_str())
    }

    /// The rules that apply to each step; `None` where none ask for anything.
    pub fn of_each(&self) -> Option<&GateRules> {
        let rules = self.of_each.as_ref().map(|step| &step.rules);
        // Rules that ask for nothing are nobody's decision.
        rules.filter(|rules| **rules != GateRules::default())
    }

    /// Whether rules were recorded without a step, also ones that ask for nothing.
    pub fn has_unnamed(&self) -> bool {
        self.of_each.is_some()
    }

    /// The rules that were recorded for exactly this step (`None` or no name: without a step).
    pub fn recorded(&self, to: Option<&str>) -> Option<&GateRules> {
        let step = match to.filter(|to| !to.is_empty()) {
            None => self.of_each.as_ref(),
            Some(to) => self.named.iter().find(|step| step.to == to),
        };
        step.map(|step| &step.rules)
    }

    /// The rules that count for the step to `to`: its own, and those of each step.
    pub fn rules(&self, to: &str) -> Option<GateRules> {
        let own = self.recorded(Some(to));
        match (self.of_each(), own) {
            (None, own) => own.cloned(),
            (Some(each), None) => Some(each.clone()),
            (Some(each), Some(own)) => Some(tighter::of(each, own).0),
        }
    }
}

/// A change of the rules on record of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesChange {
    /// The step, in words.
    place: String,
    /// The rules of before, as JSON; `none` where none were on record.
    was: String,
    /// Those of now.
    is: String,
    /// What those of now ask less for.
    less: String,
}

impl RecordedSteps {
    /// What `step` changes; `None` where the same rules are on record for it.
    pub fn change(&self, step: &StepRules) -> Option<RulesChange> {
        let before = self.recorded(Some(&step.to));
        if before == Some(&step.rules) {
            return None;
        }
        let less = before.map_or_else(Vec::new, |before| tighter::of(before, &step.rules).1);
        Some(RulesChange {
            place: place(&step.environment, &step.to),
            was: before.map_or_else(|| "none".to_owned(), json),
            is: json(&step.rules),
            less: less.join(", "),
        })
    }

    /// The commands that let webhooks count for a step at the rules on record, each with those rules: for the step, and for each step
    /// where those that were recorded without one lack it, too.
    pub fn let_webhooks_count(
        &self,
        environment: &str,
        commit: &str,
        to: Option<&str>,
    ) -> Vec<String> {
        let to = to.filter(|to| !to.is_empty());
        let of_each = to.and(self.of_each()).map(|rules| (None, rules.clone()));
        let own = self.recorded(to).cloned().unwrap_or_default();
        let lack = [Some((to, own)), of_each].into_iter().flatten();
        let lack = lack.filter(|(_, rules)| !rules.webhook_evidence);
        lack.map(|(to, rules)| {
            let rules = GateRules {
                webhook_evidence: true,
                ..rules
            };
            tighter::command(environment, commit, to, &quoted(json(&rules)))
        })
        .collect()
    }

    /// Why nothing is asked about a step without rules on record where others have some, and why nothing is removed of one: what was meant,
    /// and what removes the rules of a name that is mistyped. `environments` are those that the hub knows.
    pub fn no_step(&self, environment: &str, to: &str, environments: &[String]) -> AskError {
        let steps: Vec<String> = self.names().map(str::to_owned).collect();
        let help = match steps.is_empty() {
            true if self.has_unnamed() => {
                "those on record were recorded without a step: leave `--to` out".to_owned()
            }
            true => "`outhaul-hub decisions` lists the steps that were asked about".to_owned(),
            false => {
                let unknown = steps.iter().find(|step| !environments.contains(step));
                let removal = unknown.map_or_else(String::new, |step| {
                    format!(
                        " Nothing came in of an environment `{step}` yet: if the name is mistyped, remove its rules with {}",
                        tighter::removal(environment, Some(step))
                    )
                });
                let meant = did_you_mean(to, &steps);
                match removal.is_empty() {
                    true => meant,
                    false => as_sentence(&meant) + &removal,
                }
            }
        };
        AskError::NoStep {
            environment: environment.to_owned(),
            to: to.to_owned(),
            help,
        }
    }

    /// The removal of the rules that were recorded for exactly this step (`None`: without a step).
    pub fn removal(&self, environment: &str, to: Option<&str>) -> Option<RulesChange> {
        let rules = self.recorded(to)?;
        let (_, less) = tighter::of(rules, &GateRules::default());
        Some(RulesChange {
            place: place(environment, to.unwrap_or_default()),
            was: json(rules),
            is: "none".to_owned(),
            less: less.join(", "),
        })
    }

    /// That rules which were recorded without a step apply to others, and the command that changes them.
    pub fn note(&self, environment: &str, commit: &str) -> Option<String> {
        let rules = self.of_each().filter(|_| !self.named.is_empty())?;
        Some(format!(
            "note: rules that were recorded without a step apply to each step from `{environment}`, too: {}; {} changes them",
            json(rules),
            tighter::command(environment, commit, None, "FILE")
        ))
    }
}

impl RulesChange {
    /// Whether the rules of now ask for less.
    pub fn is_looser(&self) -> bool {
        !self.less.is_empty()
    }

    /// Why it is not made without a name and a reason.
    pub fn refusal(&self) -> String {
        format!(
            "these rules ask for less than those on record for {}: {}; on record are {}",
            self.place, self.less, self.was
        )
    }

    /// The entry of who made it and why: by which way, and when.
    pub fn entry(&self, by: &str, reason: &str, (how, at_ms): (&str, i64)) -> AccessEntry {
        AccessEntry {
            who: by.to_owned(),
            how: how.to_owned(),
            at_ms,
            action: match self.is_looser() {
                true => "gate rules loosened".to_owned(),
                false => "gate rules".to_owned(),
            },
            detail: format!("{}: {} became {}: {reason}", self.place, self.was, self.is),
            allowed: true,
            ..AccessEntry::default()
        }
    }
}

/// For people, in one line.
impl fmt::Display for RulesChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rules on record for {}: {} became {}",
            self.place, self.was, self.is
        )?;
        match self.is_looser() {
            true => write!(f, ", which asks for less: {}", self.less),
            false => Ok(()),
        }
    }
}

/// That the same rules are on record for `step`, which changes nothing, so that who records them and why is not.
pub fn unchanged(step: &StepRules) -> String {
    let place = place(&step.environment, &step.to);
    format!(
        "note: no change: these rules are on record for {place} already, so that the name and the reason are not recorded"
    )
}

/// A step, in words.
fn place(environment: &str, to: &str) -> String {
    match to {
        "" => format!("each step from `{environment}`"),
        to => format!("the step from `{environment}` to `{to}`"),
    }
}

fn json(rules: &GateRules) -> String {
    serde_json::to_string(rules).unwrap_or_default()
}

/// That no rule on record of a step from the environment asks for the check that `act` states, where rules ask for others.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn not_asked_for(session: &Session<'_>, act: &Act) -> Result<Option<String>, StoreError> {
    let (Some(check), Some(environment)) = (act.stated_check(), &act.environment) else {
        return Ok(None);
    };
    let steps = session.step_rules(environment)?;
    let asked = steps.into_iter().flat_map(|step| step.rules.checks);
    let asked: BTreeSet<String> = asked.map(|rule| rule.name).collect();
    if asked.is_empty() || asked.contains(check.name) {
        return Ok(None);
    }
    let asked: Vec<String> = asked.into_iter().collect();
    let meant = match nearest(check.name, &asked) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; those on record ask for `{}`", asked.join("`, `")),
    };
    Ok(Some(format!(
        "no rule on record of a step from `{environment}` asks for the check `{}`{meant}",
        check.name
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(to: &str, min_sites: Option<u32>, soak_hours: Option<u32>) -> StepRules {
        StepRules {
            environment: "dev".to_owned(),
            to: to.to_owned(),
            rules: GateRules {
                min_sites,
                soak_hours,
                ..GateRules::default()
            },
            asked_by: "ann".to_owned(),
            at_ms: 1,
        }
    }

    #[test]
    fn rules_without_a_step_apply_to_each_step_with_its_own() {
        let all = vec![step("", Some(3), None), step("stage", Some(2), Some(24))];
        let known = RecordedSteps::of(all);
        assert_eq!(known.names().collect::<Vec<_>>(), ["stage"]);
        let both = known.rules("stage").unwrap();
        assert_eq!((both.min_sites, both.soak_hours), (Some(3), Some(24)));
        assert_eq!(known.rules("prod").unwrap().min_sites, Some(3));
        let own = known.recorded(Some("stage")).unwrap();
        assert_eq!(own.min_sites, Some(2));
        // Ones that ask for nothing change nothing.
        let known = RecordedSteps::of(vec![step("", None, None), step("stage", Some(2), None)]);
        assert_eq!(known.rules("stage").unwrap().min_sites, Some(2));
        assert_eq!(known.rules("prod"), None);
        assert!(known.has_unnamed() && known.of_each().is_none());
    }

    #[test]
    fn the_rules_of_a_command_stand_where_they_belong_whatever_the_names_are() {
        let known = RecordedSteps::of(vec![step("FILE-2", Some(1), None)]);
        let commands = known.let_webhooks_count("FILE-1", "c", Some("FILE-2"));
        let [command] = commands.as_slice() else {
            panic!("{commands:?}");
        };
        let whole = "gate --environment FILE-1 --commit c --to FILE-2 --rules '{";
        assert!(command.contains(whole), "{command}");
    }
}
