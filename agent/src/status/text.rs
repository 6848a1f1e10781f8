//! How this site stands, for people: the text of `status`, and the sentences that its page shares with it.
//!
//! What comes in: a [`Status`]. What goes out: lines. It looks at nothing else.

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};

use super::Status;
use super::brief::{self, at};
use crate::attention::AttentionKind;
use crate::following;
use crate::incomplete::IncompleteBundle;
use crate::intake::plan;
use crate::machine::State;
use crate::runner::known_again;

impl Status {
    /// How an assignment stands, for people; when that was, where it was not looked at now.
    pub(super) fn word(&self, assignment: &AssignmentResult) -> String {
        let word = self.found(assignment);
        let name = assignment.name.as_str();
        let is_old = assignment.status == ComplianceStatus::Compliant
            && self.unfinished.is_none()
            && !self.looked_at.contains(name);
        match (is_old, self.observed_ms) {
            (false, _) => word.to_owned(),
            (true, Some(ms)) => format!("{word} when it was last checked ({})", at(ms)),
            (true, None) => format!("{word} when it was last checked"),
        }
    }

    fn found(&self, assignment: &AssignmentResult) -> &'static str {
        let drifted = self.attention.iter().any(|one| {
            one.what == AttentionKind::Drift
                && one.assignment.as_deref() == Some(assignment.name.as_str())
        });
        let held = self.held.contains_key(assignment.name.as_str());
        match assignment.status {
            ComplianceStatus::Compliant if held && drifted => {
                "held, and changed since it was last checked"
            }
            ComplianceStatus::Compliant if held => "as desired and held",
            ComplianceStatus::Drifted if held => "held, not as the active bundle has it",
            ComplianceStatus::Compliant if drifted => "changed since it was last checked",
            ComplianceStatus::Compliant if self.unfinished.is_some() => {
                "as desired before the unfinished work"
            }
            ComplianceStatus::Compliant => "as desired",
            ComplianceStatus::Drifted => "drifted",
            ComplianceStatus::Failed => "failed",
            ComplianceStatus::InProgress => "in progress",
        }
    }

    /// Whether the files of a bundle are not here, though it is the active one.
    fn is_without_files(&self, number: u64) -> bool {
        let mut all = self.generations.iter();
        all.any(|bundle| bundle.number == number && !bundle.on_disk)
    }

    /// The unfinished work and the bundles, for people.
    fn bundle_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for step in &self.steps {
            let label = step.progress.label();
            lines.push(format!("  {}: {label}", step.assignment));
        }
        for g in self.generations.iter().filter(|g| brief::is_shown(self, g)) {
            let note = match brief::note(self, g) {
                "" => String::new(),
                note => format!(": {note}"),
            };
            let disk = if g.on_disk { ", on disk" } else { "" };
            let state = State::from_word(g.state).map_or(g.state, State::shown);
            // Which bundle was active is not known: no newer one replaced it for certain.
            if self.active.is_none() && g.source == known_again::SOURCE {
                lines.push(format!(
                    "  bundle {} was here before the database was lost{disk}{note}",
                    g.number
                ));
                continue;
            }
            lines.push(format!("  bundle {} is {state}{disk}{note}", g.number));
        }
        lines
    }

    /// What runs, in one sentence.
    pub(super) fn headline(&self) -> String {
        match (self.active, self.unfinished) {
            _ if self.command => "A command is at work on this site.".to_owned(),
            (_, Some(number)) if self.watched => {
                format!("Bundle {number} is applied, and its health is checked.")
            }
            (_, Some(number)) => format!("The work on bundle {number} is unfinished."),
            (Some(number), None) if self.attention.is_empty() && self.to_do.is_none() => {
                format!("Bundle {number} runs.")
            }
            (Some(number), None) => {
                format!("Bundle {number} is active, and needs attention.")
            }
            (None, None) => match &self.cluster {
                Some(cluster) => format!("{}.", following::sentence(cluster)),
                None => "No bundle runs yet.".to_owned(),
            },
        }
    }

    /// The assignments, for people.
    fn assignment_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for assignment in &self.assignments {
            let word = self.word(assignment);
            let more = if assignment.message.is_empty() {
                ""
            } else {
                ": "
            };
            let own = match self.own_files.get(assignment.name.as_str()) {
                Some(files) => format!(", with values of this site in {}", files.join(", ")),
                None => String::new(),
            };
            lines.push(format!(
                "  {}: {word}{own}{more}{}",
                assignment.name, assignment.message
            ));
            lines.extend(brief::differing(assignment));
        }
        for name in &self.for_others {
            lines.push(format!("  {name}: for other sites, not for this one"));
        }
        lines.extend(
            plan::forward_only_sentence(&self.forward_only).map(|line| format!("  {line}")),
        );
        for name in &self.left_behind {
            lines.push(format!(
                "  {name}: no longer wanted; its traces are left on this host"
            ));
        }
        lines
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut lines = vec![format!(
            "site {} of fleet {}, {}/{}",
            self.site, self.fleet, self.environment, self.cluster_type
        )];
        lines.push(brief::enrolment(self));
        lines.push(match self.active {
            Some(number) if self.is_without_files(number) => {
                format!(
                    "active: bundle {number}, by the database; its files are not on this machine"
                )
            }
            Some(number) => format!("active: bundle {number}"),
            None if self.cluster.is_some() => {
                "active: no bundle; the cluster follows the platform repository directly".into()
            }
            None => "active: nothing yet".into(),
        });
        if let Some(to_do) = &self.to_do {
            lines.push(format!("to do: {to_do}"));
        }
        lines.extend(self.bundle_lines());
        lines.extend(self.incomplete.iter().map(IncompleteBundle::sentence));
        lines.extend(self.cluster.iter().flat_map(following::lines));
        lines.extend(self.assignment_lines());
        lines.extend(brief::hold(self));
        lines.extend(brief::held(self).map(|line| format!("  {line}")));
        if let [_, _, ..] = &self.earlier[..] {
            let numbers: Vec<_> = self.earlier.iter().map(ToString::to_string).collect();
            let numbers = numbers.join(", ");
            lines.push(format!(
                "kept for `rollback --to NUMBER`: bundles {numbers}"
            ));
        }
        lines.push(format!(
            "reports: {} waiting, {} made, {} acknowledged",
            self.reports_waiting, self.reports_last, self.reports_acknowledged
        ));
        let pulled = self.pulled.iter();
        lines.extend(pulled.map(|one| format!("repository: {}", one.reported())));
        lines.extend(self.agent.sentence());
        lines.extend(self.renumbered.iter().cloned());
        lines.extend(self.restored.iter().map(brief::restored));
        lines.push(brief::time(self));
        lines.push(format!("clock: {} ({})", self.clock.now, self.clock.why));
        lines.extend(self.clock.hub_ahead_ms.map(brief::hub_clock));
        for visit in brief::media(self) {
            let what = if visit.is_file { "file" } else { "stick" };
            lines.push(format!("{what} `{}`: {}", visit.place, visit.text));
        }
        for refused in &self.refusals {
            lines.push(format!("refused: {} ({})", refused.text, at(refused.at_ms)));
        }
        for attention in &self.attention {
            lines.push(format!("attention: {}", attention.message));
        }
        if let Some(trouble) = &self.trouble {
            lines.push(format!("trouble: {trouble}"));
        }
        match &self.next[..] {
            [] => lines.push("next: no action needed".to_owned()),
            [one] => lines.push(format!("next: {one}")),
            many => {
                let numbered = many.iter().enumerate();
                lines.extend(numbered.map(|(at, step)| format!("next {}: {step}", at + 1)));
            }
        }
        lines.join("\n")
    }
}
