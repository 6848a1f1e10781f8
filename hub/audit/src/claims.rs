//! What a file says that nobody but its hub signed.
//!
//! What comes in: an export. What goes out: its claims, in sentences, so that whoever reads a verdict knows what it rests on. It checks
//! nothing.

use outhaul_gate::facts::{Act, ActKind};

use crate::lost;
use crate::read::Export;

impl Export {
    /// What nobody but the hub says.
    pub fn taken_from_the_hub(&self) -> Vec<String> {
        let ranges = self
            .removed
            .values()
            .flat_map(|site| site.0.values().flatten());
        let removed: u64 = ranges
            .map(|(first, last)| last.saturating_sub(*first).saturating_add(1))
            .fold(0, u64::saturating_add);
        let lost: Vec<String> = lost::texts(self).map(Act::lost_sentence).collect();
        let removed = removed.saturating_sub(lost.len() as u64);
        let mut taken = vec![
            format!(
                "{} site registrations with {} keys: the keys that reports are checked against",
                self.sites.len(),
                self.site_keys.values().map(Vec::len).sum::<usize>()
            ),
            format!("when each of {} reports was received", self.reports.len()),
            format!(
                "who entered each of {} entries about gates{}",
                self.acts.len(),
                self.kinds_of_acts()
            ),
            format!(
                "when it was restored from a backup: {} times",
                self.restores.len()
            ),
        ];
        if removed > 0 {
            taken.push(format!(
                "that {removed} reports which are no longer kept were received, and that no decision rests on one of them"
            ));
        }
        taken.extend(lost.into_iter().map(|lost| format!("that {lost}")));
        taken
    }
    /// How many entries there are of each kind, for a message.
    fn kinds_of_acts(&self) -> String {
        let count = |kind| self.acts.iter().filter(|act| act.kind == kind).count();
        let kinds = ActKind::ALL.into_iter().map(|kind| (count(kind), kind));
        let kinds: Vec<String> = kinds
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| format!("{count} {}", noun(kind, count)))
            .collect();
        match kinds.is_empty() {
            true => String::new(),
            false => format!(": {}", kinds.join(", ")),
        }
    }
}

/// What entries of a kind are, for people.
fn noun(kind: ActKind, count: usize) -> &'static str {
    let (one, many) = match kind {
        ActKind::Approve => ("approval", "approvals"),
        ActKind::Check => ("outcome of a check", "outcomes of checks"),
        ActKind::Choose => ("choice between machines", "choices between machines"),
        ActKind::Clock => (
            "statement about the hub's clock",
            "statements about the hub's clock",
        ),
        ActKind::Defer => ("deferral", "deferrals"),
        ActKind::Hold => ("hold", "holds"),
        ActKind::Lost => ("statement about a lost text", "statements about lost texts"),
        ActKind::Waive => ("waiver", "waivers"),
        ActKind::Withdraw => ("withdrawal", "withdrawals"),
    };
    if count == 1 { one } else { many }
}
