//! Two machines with one site's key: what was seen of them, and whether a person chose.
//!
//! What comes in: reports that the site's key signed and that cannot come from the machine whose reports are on record,
//! and what people chose. What goes out: the conflict that is open, if one is, and which numberings are not the site's.
//! Neither machine counts at a gate until someone chose. It decides nothing, and reads no clock.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::{Act, ActKind, Conflict};
use crate::{short, time};

impl Conflict {
    /// For people: what was seen, and how someone ends it, as the gate of an edition says it.
    pub fn sentence(&self, site: &str, edition: u32) -> String {
        let (on_record, other) = (short_digest(&self.on_record), short_digest(&self.digest));
        let choices = match edition {
            // What was decided before is recomputed as it was said.
            0..5 => format!(
                "`outhaul-hub choose {site} --digest {on_record}` for the machine on record, `--digest {other}` for the other"
            ),
            _ => format!(
                "{} for the machine on record, {} for the other",
                choose(site, &on_record),
                choose(site, &other)
            ),
        };
        format!(
            "two machines report with its key: {} (received {}); neither counts until a person has compared both and chosen: {choices}",
            self.reason,
            time::rfc3339(self.received_ms),
        )
    }
}

/// The command that chooses the machine of a report.
fn choose(site: &str, digest: &str) -> String {
    format!("`outhaul-hub choose {site} --digest {digest} --by NAME --reason TEXT`")
}

/// The first digits of a digest, as `choose` takes them.
pub fn short_digest(digest: &str) -> String {
    short(digest)
}

/// The choice that holds: the last one since the site was registered.
pub fn choice<'a>(
    acts: impl Iterator<Item = &'a Act>,
    site: &str,
    enrolled_ms: i64,
) -> Option<&'a Act> {
    acts.filter(|act| act.kind == ActKind::Choose && act.site.as_deref() == Some(site))
        .filter(|act| act.at_ms >= enrolled_ms)
        .max_by_key(|act| act.id)
}

/// When a site's numberings were reported, milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// When their first report was received.
    pub first_ms: i64,
    /// Their last one by the site's own time, or when it was received where that was earlier: what a stick brings late was made before.
    pub last_made_ms: i64,
}

impl Reported {
    /// Of one report, by when it was received and when it was made ([`crate::fold::made_ms`]).
    pub fn one(received_ms: i64, made_ms: i64) -> Self {
        Self {
            first_ms: received_ms,
            last_made_ms: made_ms.min(received_ms),
        }
    }

    /// Of these and another one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            first_ms: self.first_ms.min(other.first_ms),
            last_made_ms: self.last_made_ms.max(other.last_made_ms),
        }
    }
}

/// The conflict that is open: one that came since the last choice, or the chosen one while that machine has begun no
/// numbering of its own. What a machine reports that was not chosen is one until the chosen machine makes another report: it may be
/// switched off. Until edition 5 it was one until someone chose again. `seen` come in the order in which they were received;
/// `reported` has each epoch.
pub fn open(
    seen: &[Conflict],
    enrolled_ms: i64,
    choice: Option<&Act>,
    reported: &BTreeMap<String, Reported>,
    edition: u32,
) -> Option<Conflict> {
    let mut since = seen.iter().filter(|one| one.received_ms >= enrolled_ms);
    let Some(choice) = choice else {
        return since.next().cloned();
    };
    let starts = reported.iter();
    let starts = starts.map(|(epoch, at)| (epoch.as_str(), at.first_ms));
    let aside = set_aside(starts, Some(choice));
    let left = reported.iter().filter(|(epoch, _)| !aside.contains(*epoch));
    let last_ms = left.map(|(_, at)| at.last_made_ms).max();
    let is_over = |one: &Conflict| {
        let of_another = Some(&one.on_record) == choice.chosen.as_ref();
        edition >= 5
            && of_another
            && aside.contains(&one.epoch)
            && last_ms.is_some_and(|ms| ms > one.received_ms)
    };
    let is_new = |one: &&Conflict| one.received_ms > choice.at_ms && !is_over(one);
    if let Some(new) = since.clone().find(is_new) {
        return Some(new.clone());
    }
    let newest_start_ms = reported.values().map(|at| at.first_ms).max();
    let waits = choice.epoch.is_none() && newest_start_ms.is_none_or(|ms| ms <= choice.at_ms);
    waits
        .then(|| since.find(|one| Some(&one.digest) == choice.chosen.as_ref()))
        .flatten()
        .map(|one| Conflict {
            reason: format!(
                "report {} was chosen, and its machine has not started a new numbering yet: take this hub's \
                 acknowledgement to it, and its reports back",
                one.number
            ),
            ..one.clone()
        })
}

/// The epochs that are not the site's by the last choice: all that had begun by then, but for the chosen one.
pub fn set_aside<'a>(
    epochs: impl Iterator<Item = (&'a str, i64)>,
    choice: Option<&Act>,
) -> BTreeSet<String> {
    let Some(choice) = choice else {
        return BTreeSet::new();
    };
    epochs
        .filter(|(epoch, began_ms)| {
            *began_ms <= choice.at_ms && choice.epoch.as_deref() != Some(*epoch)
        })
        .map(|(epoch, _)| epoch.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EDITION;

    const AT: i64 = 1_000;

    fn seen(epoch: &str, on_record: &str, received_ms: i64) -> Conflict {
        Conflict {
            epoch: epoch.into(),
            number: 7,
            digest: "sha256:bbbbbbbbbbbbbbbb".into(),
            on_record: on_record.into(),
            reason: "r".into(),
            via: "x".into(),
            received_ms,
        }
    }

    fn choice(epoch: Option<&str>) -> Act {
        Act {
            site: Some("edge".into()),
            chosen: Some("sha256:aaaaaaaaaaaaaaaa".into()),
            epoch: epoch.map(str::to_owned),
            ..Act::new(ActKind::Choose, "ann", "r", AT)
        }
    }

    fn reported(epochs: &[(&str, i64, i64)]) -> BTreeMap<String, Reported> {
        let one = |(epoch, first_ms, last_made_ms): &(&str, i64, i64)| {
            let first = Reported::one(*first_ms, *first_ms);
            let last = Reported::one(i64::MAX, *last_made_ms);
            ((*epoch).to_owned(), first.and(last))
        };
        epochs.iter().map(one).collect()
    }

    #[test]
    fn a_chosen_numbering_that_is_on_record_counts_at_once() {
        let before = [seen("old", "sha256:aaaa", 10)];
        let both = reported(&[("old", 1, 20), ("new", 30, 40)]);
        assert_eq!(
            open(&before, 0, Some(&choice(Some("new"))), &both, EDITION),
            None
        );
        let starts = [("old", 1), ("new", 30)];
        let aside = set_aside(starts.into_iter(), Some(&choice(Some("new"))));
        assert_eq!(aside, BTreeSet::from(["old".to_owned()]));
    }

    #[test]
    fn what_the_other_machine_reports_is_a_conflict_until_the_chosen_one_reports() {
        let chosen = choice(Some("old"));
        let since = [seen("new", "sha256:aaaaaaaaaaaaaaaa", AT + 50)];
        for (last_ms, is_open) in [(20, true), (AT + 50, true), (AT + 51, false)] {
            let both = reported(&[("old", 1, last_ms), ("new", 30, AT + 50)]);
            let found = |edition| open(&since, 0, Some(&chosen), &both, edition);
            assert_eq!(found(EDITION).is_some(), is_open, "{last_ms}");
            // A decision of before is made again as it was made.
            assert!(found(4).is_some(), "{last_ms}");
        }
        // What an old stick brings of the chosen machine was made before.
        let late = Reported::one(AT + 99, AT + 40);
        let both = BTreeMap::from([("old".to_owned(), Reported::one(1, 1).and(late))]);
        let both = both.into_iter().chain(reported(&[("new", 30, AT + 50)]));
        assert!(open(&since, 0, Some(&chosen), &both.collect(), EDITION).is_some());
        // A contradiction inside the chosen numbering stays one.
        let inside = [seen("old", "sha256:aaaaaaaaaaaaaaaa", AT + 50)];
        let later = reported(&[("old", 1, AT + 99)]);
        assert!(open(&inside, 0, Some(&chosen), &later, EDITION).is_some());
    }

    #[test]
    fn the_commands_of_a_sentence_can_be_typed() {
        let one = seen("old", "sha256:aaaaaaaaaaaaaaaa", 10);
        let text = one.sentence("edge", EDITION);
        let end = "--by NAME --reason TEXT` for the";
        for command in [
            format!("`outhaul-hub choose edge --digest aaaaaaaaaaaa {end} machine on record"),
            format!("`outhaul-hub choose edge --digest bbbbbbbbbbbb {end} other"),
        ] {
            assert!(text.contains(&command), "{text}");
        }
        let before = "`outhaul-hub choose edge --digest aaaaaaaaaaaa` for the machine on record, `--digest bbbbbbbbbbbb` for the other";
        assert!(one.sentence("edge", 4).ends_with(before));
    }
}
