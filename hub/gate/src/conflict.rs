//! Two machines with one site's key: what was seen of them, and whether a person chose.
//!
//! What comes in: reports that the site's key signed and that cannot come from the machine whose reports are on record,
//! and what people chose. What goes out: the conflict that is open, if one is, and which numberings are not the site's.
//! Neither machine counts at a gate until someone chose. It decides nothing, and reads no clock.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::{Act, ActKind, Conflict};
use crate::{short, time};

impl Conflict {
    /// For people: what was seen, and how someone ends it.
    pub fn sentence(&self, site: &str) -> String {
        format!(
            "two machines report with its key: {} (received {}); neither counts until a person has compared both and chosen: \
             `outhaul-hub choose {site} --digest {}` for the machine on record, `--digest {}` for the other",
            self.reason,
            time::rfc3339(self.received_ms),
            short_digest(&self.on_record),
            short_digest(&self.digest)
        )
    }
}

/// The same sentence with its commands as they can be typed. Decisions on record keep the short form, by which they are recomputed.
pub fn typeable(sentence: &str) -> String {
    let Some((_, command)) = sentence.split_once("`outhaul-hub choose ") else {
        return sentence.to_owned();
    };
    let site = command.split(' ').next().unwrap_or_default();
    let other = format!("{WHO} for the machine on record, `outhaul-hub choose {site} --digest ");
    sentence
        .replace("` for the machine on record, `--digest ", &other)
        .replace("` for the other", &format!("{WHO} for the other"))
}

/// What each choice needs besides.
const WHO: &str = " --by NAME --reason TEXT`";

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

/// When a site's numberings were reported, milliseconds since 1970 by the hub's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// Their first report.
    pub first_ms: i64,
    /// Their last one.
    pub last_ms: i64,
}

/// The conflict that is open: one that came since the last choice, or the chosen one while that machine has begun no
/// numbering of its own. What a machine reports that was not chosen is one until the chosen machine reports again: it may be
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
    let last_ms = left.map(|(_, at)| at.last_ms).max();
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
        let one = |(epoch, first_ms, last_ms): &(&str, i64, i64)| {
            let (first_ms, last_ms) = (*first_ms, *last_ms);
            ((*epoch).to_owned(), Reported { first_ms, last_ms })
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
        // A contradiction inside the chosen numbering stays one.
        let inside = [seen("old", "sha256:aaaaaaaaaaaaaaaa", AT + 50)];
        let later = reported(&[("old", 1, AT + 99)]);
        assert!(open(&inside, 0, Some(&chosen), &later, EDITION).is_some());
    }

    #[test]
    fn the_commands_of_a_sentence_can_be_typed() {
        let text = typeable(&seen("old", "sha256:aaaaaaaaaaaaaaaa", 10).sentence("edge"));
        let end = "--by NAME --reason TEXT` for the";
        for command in [
            format!("`outhaul-hub choose edge --digest aaaaaaaaaaaa {end} machine on record"),
            format!("`outhaul-hub choose edge --digest bbbbbbbbbbbb {end} other"),
        ] {
            assert!(text.contains(&command), "{text}");
        }
        assert_eq!(typeable("anything else"), "anything else");
    }
}
