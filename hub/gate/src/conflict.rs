//! Two machines with one site's key: what was seen of them, and whether a person chose.
//!
//! What comes in: reports that the site's key signed and that cannot come from the machine whose reports are on record,
//! and what people chose. What goes out: the conflict that is open, if one is, and which numberings are not the site's.
//! Neither machine counts at a gate until somebody chose. It decides nothing, and reads no clock.

use std::collections::BTreeSet;

use crate::facts::{Act, ActKind, Conflict};
use crate::{short, time};

impl Conflict {
    /// For people: what was seen, and how somebody ends it.
    pub fn sentence(&self, site: &str) -> String {
        format!(
            "two machines report with its key: {} (received {}); neither counts until somebody looked at both and chose: \
             `outhaul-hub choose {site} --digest {}` for the machine on record, `--digest {}` for the other",
            self.reason,
            time::rfc3339(self.received_ms),
            short_digest(&self.on_record),
            short_digest(&self.digest)
        )
    }
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

/// The conflict that is open: one that came since the last choice, or the chosen one while that machine has begun no
/// numbering of its own. `seen` come in the order in which they were received; `newest_start_ms` is when the epoch that
/// began last did.
pub fn open(
    seen: &[Conflict],
    enrolled_ms: i64,
    choice: Option<&Act>,
    newest_start_ms: Option<i64>,
) -> Option<Conflict> {
    let mut since = seen.iter().filter(|one| one.received_ms >= enrolled_ms);
    let Some(choice) = choice else {
        return since.next().cloned();
    };
    if let Some(new) = since.clone().find(|one| one.received_ms > choice.at_ms) {
        return Some(new.clone());
    }
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
