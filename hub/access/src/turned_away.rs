//! Requests that were turned away, put on record without an end for whoever sends many.
//!
//! What comes in: the network of a request, who sent it, and why it was refused. What goes out: the entry that is to be written, if
//! any: one for each network, caller and reason within a minute, written again each time their number doubles. Of one group one write
//! is under way at a time. Beyond a number of groups in a minute, what is left is counted together. It writes nothing, and decides
//! about no request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

const MINUTE_MS: i64 = 60 * 1000;
/// Groups of one minute that are written by themselves.
const MAX_GROUPS: usize = 100;
/// Longest detail, in characters.
const MAX_DETAIL: usize = 200;

/// What is counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group {
    /// The network.
    pub peer: String,
    /// The name of the token; empty for a stranger.
    pub who: String,
    /// What was tried.
    pub action: String,
    /// The status of the answer.
    pub status: u16,
}

/// How often, and where that is on record.
#[derive(Debug, Clone, Default)]
struct Counted {
    times: u64,
    /// How many of them the entry says that was to be written last.
    said: u64,
    is_being_written: bool,
    id: Option<i64>,
    detail: String,
}

impl Counted {
    /// The entry that is to be written now.
    fn due(&mut self, group: &Group, minute: i64) -> Option<ToWrite> {
        let doubled = 1 << self.times.ilog2();
        if self.is_being_written || doubled <= self.said {
            return None;
        }
        self.is_being_written = true;
        self.said = self.times;
        let times = match self.times {
            1 => String::new(),
            times => format!("; {times} times or more within this minute"),
        };
        Some(ToWrite {
            detail: format!("{}{times}", self.detail),
            id: self.id,
            group: group.clone(),
            minute,
        })
    }
}

/// An entry to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToWrite {
    /// Of which group.
    pub group: Group,
    /// What the first of them was about, and how many there were.
    pub detail: String,
    /// The entry that it takes the place of.
    pub id: Option<i64>,
    /// In which minute they were counted.
    minute: i64,
}

/// The requests of this minute that were turned away.
#[derive(Debug, Default)]
pub struct TurnedAway(Mutex<(i64, HashMap<Group, Counted>)>);

impl TurnedAway {
    /// Counts one; what is to be written for it.
    pub fn count(&self, group: Group, detail: &str, now_ms: i64) -> Option<ToWrite> {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = now_ms.div_euclid(MINUTE_MS);
        if found.0 != minute {
            *found = (minute, HashMap::new());
        }
        let groups = &mut found.1;
        let (group, detail) = match groups.len() < MAX_GROUPS || groups.contains_key(&group) {
            true => (group, detail.chars().take(MAX_DETAIL).collect()),
            false => (rest(), "of further networks and callers".to_owned()),
        };
        let one = groups.entry(group.clone()).or_default();
        one.times += 1;
        if one.times == 1 {
            one.detail = detail;
        }
        one.due(&group, minute)
    }

    /// Remembers where an entry is on record (`None`: it could not be written); what is to be written of its group since. An entry of
    /// another minute than the present one is over.
    pub fn written(&self, entry: &ToWrite, id: Option<i64>) -> Option<ToWrite> {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if found.0 != entry.minute {
            return None;
        }
        let one = found.1.get_mut(&entry.group)?;
        one.is_being_written = false;
        one.id = Some(id?);
        one.due(&entry.group, entry.minute)
    }
}

/// What is beyond the groups that are written by themselves.
fn rest() -> Group {
    Group {
        peer: String::new(),
        who: String::new(),
        action: "request refused".to_owned(),
        status: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(peer: usize) -> Group {
        Group {
            peer: format!("10.0.{peer}.1"),
            ..rest()
        }
    }

    #[test]
    fn attack_many_refusals_are_few_entries() {
        let away = TurnedAway::default();
        let first = away.count(group(1), "GET /a", 5).unwrap();
        assert_eq!((&*first.detail, first.id), ("GET /a", None));
        assert_eq!(away.written(&first, Some(7)), None);
        let mut more: Vec<ToWrite> = Vec::new();
        for _ in 0..999 {
            if let Some(one) = away.count(group(1), "GET /b", 6) {
                assert_eq!(away.written(&one, Some(7)), None);
                more.push(one);
            }
        }
        assert_eq!(more.len(), 9);
        assert!(more.iter().all(|one| one.id == Some(7)));
        let last = &more[8].detail;
        assert_eq!(last, "GET /a; 512 times or more within this minute");
        // The next minute begins anew.
        assert_eq!(away.count(group(1), "GET /c", MINUTE_MS).unwrap().id, None);

        let networks = (0..10_000).filter_map(|peer| away.count(group(peer), "x", MINUTE_MS));
        let written = networks.filter(|one| one.id.is_none()).count();
        assert!(written < 2 * MAX_GROUPS, "{written}");
    }

    #[test]
    fn attack_a_write_that_ends_late_takes_no_entry_of_another_minute_and_two_at_once_make_one() {
        let away = TurnedAway::default();
        let first = away.count(group(1), "GET /a", 5).unwrap();
        // While the first is written, nobody writes another.
        let during = (0..4).filter_map(|_| away.count(group(1), "GET /b", 6));
        assert_eq!(during.count(), 0);
        // What came meanwhile is then said in the same entry.
        let next = away.written(&first, Some(7)).unwrap();
        assert_eq!(next.id, Some(7));
        assert_eq!(next.detail, "GET /a; 5 times or more within this minute");

        let of_next_minute = away.count(group(1), "GET /c", MINUTE_MS).unwrap();
        assert_eq!(away.written(&next, Some(7)), None);
        // Still being written: the late one did not end that.
        assert_eq!(away.count(group(1), "GET /d", MINUTE_MS), None);
        let again = away.written(&of_next_minute, Some(8)).unwrap();
        assert_eq!(again.id, Some(8));
        // One that could not be written is tried again with the next that is due.
        assert_eq!(away.written(&again, None), None);
        assert_eq!(away.count(group(1), "GET /e", MINUTE_MS), None);
        let fourth = away.count(group(1), "GET /f", MINUTE_MS).unwrap();
        assert_eq!(fourth.id, Some(8));
    }
}
