//! Requests that were turned away, put on record without an end for whoever sends many.
//!
//! What comes in: the network of a request, who sent it, whether it would have changed something, and why it was refused. What goes out:
//! the entry that is to be written, if any: one for each network, caller and reason within a minute, and of a named caller's writes one
//! for each address; written again each time their number doubles. Of one group one write is under way at a time. Beyond a number of
//! groups in a minute, what is left is counted together: of strangers as one, of each named caller by itself. It writes nothing, and
//! decides about no request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

const MINUTE_MS: i64 = 60 * 1000;
/// Groups of strangers in one minute that are written by themselves.
const MAX_OF_STRANGERS: usize = 100;
/// Groups of one named caller in one minute that are written by themselves.
const MAX_OF_ONE: usize = 20;
/// Groups of all named callers in one minute; a caller has a name because someone gave them a token or an account.
const MAX_OF_NAMED: usize = 2_000;
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
    /// Of what would have changed something the address, or as much of it as is counted apart; `None` for what only reads.
    pub write: Option<String>,
}

/// How often, and where that is on record.
#[derive(Debug, Clone, Default)]
struct RefusalCount {
    times: u64,
    /// How many of them the entry says that was to be written last.
    said: u64,
    is_being_written: bool,
    id: Option<i64>,
    detail: String,
}

impl RefusalCount {
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

/// What was counted in one minute.
#[derive(Debug, Default)]
struct Counts {
    minute: i64,
    groups: HashMap<Group, RefusalCount>,
    /// How many groups each caller has; strangers together, under the empty name, and apart those of what would change something.
    of_caller: HashMap<(String, bool), usize>,
    of_named: usize,
}

impl Counts {
    /// Whether one more group of this caller is written by itself.
    fn have_room(&self, group: &Group) -> bool {
        let own = self.of_caller.get(&places_of(group)).copied();
        let own = own.unwrap_or_default();
        match group.who.as_str() {
            "" => own < MAX_OF_STRANGERS,
            _ => own < MAX_OF_ONE && self.of_named < MAX_OF_NAMED,
        }
    }

    /// The group that one is counted in, and its detail.
    fn place(&self, group: Group, detail: &str) -> (Group, String) {
        let short = || detail.chars().take(MAX_DETAIL).collect();
        if self.groups.contains_key(&group) || self.have_room(&group) {
            return (group, short());
        }
        // Strangers are one group. What someone tried to change stays apart from what they tried to read.
        let is_write = group.write.is_some();
        let own = rest(&group.who, is_write);
        match &*group.who {
            "" => (own, "of further networks".to_owned()),
            _ if self.of_named < 2 * MAX_OF_NAMED || self.groups.contains_key(&own) => {
                (own, format!("further ones, such as {}", short()))
            }
            _ => (rest("", is_write), "of further callers".to_owned()),
        }
    }

    fn one(&mut self, group: &Group) -> &mut RefusalCount {
        if !self.groups.contains_key(group) {
            *self.of_caller.entry(places_of(group)).or_default() += 1;
            self.of_named += usize::from(!group.who.is_empty());
        }
        self.groups.entry(group.clone()).or_default()
    }
}

/// The requests of this minute that were turned away.
#[derive(Debug, Default)]
pub struct TurnedAway(Mutex<Counts>);

impl TurnedAway {
    /// Counts one; what is to be written for it.
    pub fn count(&self, mut group: Group, detail: &str, now_ms: i64) -> Option<ToWrite> {
        // Strangers would make as many groups as they think of addresses.
        if let Some(address) = group.write.as_mut().filter(|_| group.who.is_empty()) {
            address.clear();
        }
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = now_ms.div_euclid(MINUTE_MS);
        if found.minute != minute {
            *found = Counts {
                minute,
                ..Counts::default()
            };
        }
        let (group, detail) = found.place(group, detail);
        let one = found.one(&group);
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
        if found.minute != entry.minute {
            return None;
        }
        let one = found.groups.get_mut(&entry.group)?;
        one.is_being_written = false;
        one.id = Some(id?);
        one.due(&entry.group, entry.minute)
    }
}

/// Among whose places a group is counted: refused reads of strangers leave those of refused writes free.
fn places_of(group: &Group) -> (String, bool) {
    let who = group.who.clone();
    let is_apart = who.is_empty() && group.write.is_some();
    (who, is_apart)
}

/// What is beyond the groups that are written by themselves.
fn rest(who: &str, is_write: bool) -> Group {
    Group {
        peer: String::new(),
        who: who.to_owned(),
        action: match is_write {
            true => "change refused",
            false => "request refused",
        }
        .to_owned(),
        status: 0,
        write: is_write.then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(peer: usize) -> Group {
        Group {
            peer: format!("10.0.{peer}.1"),
            ..rest("", false)
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
        // The next minute is counted from nothing.
        assert_eq!(away.count(group(1), "GET /c", MINUTE_MS).unwrap().id, None);

        let networks = (0..10_000).filter_map(|peer| away.count(group(peer), "x", MINUTE_MS));
        let written = networks.filter(|one| one.id.is_none()).count();
        assert!(written < 2 * MAX_OF_STRANGERS, "{written}");
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

    fn of(who: &str, peer: usize, write: Option<String>) -> Group {
        Group {
            who: who.to_owned(),
            write,
            ..group(peer)
        }
    }

    #[test]
    fn attack_a_flood_of_strangers_and_one_of_another_caller_hide_no_named_caller() {
        let away = TurnedAway::default();
        for peer in 0..10_000 {
            away.count(of("", peer, None), "GET /a", 5);
        }
        for peer in 0..10_000 {
            away.count(of("mallory", peer, None), "GET /a", 5);
        }
        let seen = away.count(of("ann", 1, None), "GET /b", 6).unwrap();
        assert_eq!((&*seen.group.who, &*seen.detail), ("ann", "GET /b"));
        // Who exceeds their own place is still named.
        let away = TurnedAway::default();
        let written = (0..10_000).filter_map(|peer| away.count(of("eve", peer, None), "x", 5));
        let written: Vec<ToWrite> = written.collect();
        assert!(written.iter().all(|one| one.group.who == "eve"));
        assert_eq!(written.len(), MAX_OF_ONE + 1);
    }

    #[test]
    fn attack_refused_writes_of_strangers_do_not_drown_in_their_refused_reads() {
        let away = TurnedAway::default();
        for peer in 0..10_000 {
            away.count(of("", peer, None), "GET /a", 5);
        }
        let call = || Some("POST /api/v1/w".to_owned());
        let wrote = away.count(of("", 7, call()), "POST /api/v1/w", 6).unwrap();
        assert_eq!(
            (&*wrote.group.peer, &*wrote.detail),
            ("10.0.7.1", "POST /api/v1/w")
        );
        let more = (0..10_000).filter_map(|peer| away.count(of("", peer, call()), "POST", 7));
        let more: Vec<ToWrite> = more.collect();
        assert_eq!(more.len(), MAX_OF_STRANGERS);
        let rest = &more[MAX_OF_STRANGERS - 1].group;
        assert_eq!((&*rest.peer, &*rest.action), ("", "change refused"));
    }

    #[test]
    fn attack_a_great_many_named_callers_are_counted_within_a_bound() {
        let away = TurnedAway::default();
        for who in 0..3 * MAX_OF_NAMED {
            for peer in 0..3 {
                away.count(of(&format!("p-{who}"), peer, None), "x", 5);
            }
        }
        let found = away.0.lock().unwrap();
        assert!(found.groups.len() <= 2 * MAX_OF_NAMED + 2);
    }

    #[test]
    fn attack_a_refused_write_is_not_hidden_among_refused_reads() {
        let away = TurnedAway::default();
        let first = away.count(of("ann", 1, None), "GET /a", 5).unwrap();
        assert_eq!(away.written(&first, Some(7)), None);
        let write = |at: usize| Some(format!("/api/v1/w{at}"));
        let wrote = away.count(of("ann", 1, write(1)), "POST /api/v1/w1", 6);
        let wrote = wrote.unwrap();
        assert_eq!((wrote.id, &*wrote.detail), (None, "POST /api/v1/w1"));
        // Also one beyond the place that a caller has.
        for peer in 0..100 {
            away.count(of("ann", peer, None), "GET /a", 6);
        }
        let late = away.count(of("ann", 1, write(2)), "POST /api/v1/w2", 7);
        let late = late.unwrap();
        assert_eq!(late.group.action, "change refused");
        assert_eq!(late.detail, "further ones, such as POST /api/v1/w2");
    }
}
