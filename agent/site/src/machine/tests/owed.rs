//! What an agent does while it runs on: it asks about what waits where work cannot be ended now, and comes to its end.

use std::collections::HashMap;

use super::*;

/// The events that a task can end with.
fn ends(task: Task) -> Vec<Event> {
    match task {
        Task::Discard(number) => vec![Event::CopyLost(number)],
        Task::AskApproval(number) => vec![
            Event::MayStart(number),
            Event::MustWait(number),
            Event::FolderLost(number),
        ],
        Task::Apply(number) => vec![
            Event::Applied(number),
            Event::Broken(number),
            Event::FolderLost(number),
            Event::Blocked,
        ],
        Task::Watch(number) => vec![
            Event::Healthy(number),
            Event::HealthySoFar(number),
            Event::Broken(number),
            Event::FolderLost(number),
            Event::Blocked,
        ],
        Task::Revert { from, .. } => vec![
            Event::Returned(from),
            Event::ReturnBroken(from),
            Event::Blocked,
        ],
        Task::Repair(_) => vec![Event::Repaired, Event::RepairBroken, Event::Blocked],
        Task::Correct(number) => vec![Event::Corrected(number), Event::Blocked],
    }
}

#[test]
fn after_a_look_and_where_work_is_blocked_what_waits_is_asked_about_once_and_takes_its_place() {
    let (mut began, mut stayed) = (0, 0);
    for site in reachable_sites() {
        let mut paused = Vec::new();
        if site.worked_on().is_some() {
            paused.push(Event::Blocked);
        }
        if let Work::Soaking(number) = site.work {
            paused.push(Event::HealthySoFar(number));
        }
        for event in paused {
            let (site, _) = step(site.clone(), event);
            let asks = owed_after(&site, event);
            let Some(waiting) = site.waiting else {
                assert_eq!(asks, None, "{event:?} {site:?}");
                continue;
            };
            let number = waiting.number;
            assert_eq!(asks, Some(Task::AskApproval(number)), "{event:?} {site:?}");
            for answer in [Event::MustWait(number), Event::FolderLost(number)] {
                let (after, _) = step(site.clone(), answer);
                assert_eq!(after.work, site.work, "{answer:?} {site:?}");
                assert_eq!(owed_after(&after, answer), None, "{answer:?} {site:?}");
            }
            let (after, _) = step(site.clone(), Event::MayStart(number));
            let next = owed_after(&after, Event::MayStart(number));
            if site.hold || waiting.needs_approval {
                assert_eq!((after.work, next), (site.work, None), "{site:?}");
                stayed += 1;
            } else {
                assert_eq!(after.work, Work::Applying(number), "{site:?}");
                // What a cut-off copy left is taken back first.
                let first = site.incoming.map_or(Task::Apply(number), Task::Discard);
                assert_eq!(next, Some(first), "{site:?}");
                began += 1;
            }
        }
    }
    assert!(began > 0 && stayed > 0, "{began} {stayed}");
}

#[test]
fn what_is_blocked_where_nothing_is_worked_on_is_not_tried_again_at_once() {
    let idle = |site: &Site| site.work == Work::Idle && site.waiting.is_some();
    let mut sites = reachable_sites();
    sites.retain(idle);
    assert!(!sites.is_empty());
    for site in sites {
        assert_eq!(owed_after(&site, Event::Blocked), None, "{site:?}");
    }
}

/// How many tasks follow at most; a task of a site that is met again on the way to itself would be done for ever.
fn longest(
    at: (Site, Task),
    known: &mut HashMap<(Site, Task), Option<usize>>,
    sites: &HashSet<Site>,
) -> usize {
    if let Some(length) = known.get(&at) {
        return length.unwrap_or_else(|| panic!("for ever: {at:?}"));
    }
    known.insert(at.clone(), None);
    let mut longest_yet = 0;
    for event in ends(at.1) {
        let (after, _) = step(at.0.clone(), event);
        assert!(sites.contains(&after), "{at:?} {event:?} {after:?}");
        if let Some(next) = owed_after(&after, event) {
            longest_yet = longest_yet.max(longest((after, next), known, sites));
        }
    }
    known.insert(at, Some(longest_yet + 1));
    longest_yet + 1
}

#[test]
fn from_every_site_a_run_comes_to_its_end_whatever_comes_of_each_task() {
    let sites = reachable_sites();
    let mut known = HashMap::new();
    let mut most = 0;
    for site in &sites {
        if let Some(task) = owed(site) {
            most = most.max(longest((site.clone(), task), &mut known, &sites));
        }
    }
    assert!((5..20).contains(&most), "{most}");
}
