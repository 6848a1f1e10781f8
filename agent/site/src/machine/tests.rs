//! Every site that can be reached with three bundles, with every event, every outcome of every task, and a
//! cut before, in the middle of and after each. The walk is exhaustive within that bound.

use std::collections::{HashSet, VecDeque};
use std::sync::LazyLock;

use super::*;

mod owed;
mod soak;
mod world;

use world::World;

/// Numbers of bundles that come to a site.
const BUNDLES: u64 = 3;

/// Every world that can be reached.
static REACHABLE: LazyLock<HashSet<World>> = LazyLock::new(reachable);

/// Every site that can be reached, for the test that stores and reads them.
pub(crate) fn reachable_sites() -> HashSet<Site> {
    REACHABLE.iter().map(|world| world.site.clone()).collect()
}

fn reachable() -> HashSet<World> {
    let mut seen = HashSet::from([World::default()]);
    let mut queue: VecDeque<World> = seen.iter().cloned().collect();
    while let Some(world) = queue.pop_front() {
        let mut next = world.others();
        if let Some(task) = owed(&world.site) {
            next.extend(world.outcomes(task));
        }
        for world in next {
            if seen.insert(world.clone()) {
                queue.push_back(world);
            }
        }
    }
    seen
}

#[test]
fn what_may_be_removed_is_never_what_runs_waits_is_worked_on_held_or_gone_back_to() {
    let mut some = false;
    for site in reachable_sites() {
        let mut needed: Vec<u64> = site.numbers().chain(site.pins.iter().copied()).collect();
        if let Work::Reverting { to, .. } = site.work {
            needed.push(to);
        }
        for number in site.removable() {
            assert!(!needed.contains(&number), "{number}: {site:?}");
            some |= matches!(site.work, Work::Reverting { .. });
        }
    }
    assert!(some, "also during a rollback something may be removed");
}

#[test]
fn from_every_site_a_healthy_bundle_becomes_active_whatever_its_number_and_reports_say_what_runs() {
    let all = &*REACHABLE;
    let sites: HashSet<&Site> = all.iter().map(|world| &world.site).collect();
    // The bound that was exhausted: three bundles come, one assignment is held at a time. Who changes the machine sees here
    // what that adds or loses; one that lost its states would pass everything else.
    assert_eq!((all.len(), sites.len()), (115_598, 4_082));
    for world in all {
        if world.site.work == Work::Idle {
            world.check_at_rest();
        }
        // Also one below all others, when the floors let it in.
        for number in [0, BUNDLES + 1] {
            let after = world.healthy_bundle(number);
            let active = after.site.active.unwrap();
            assert_eq!((active.number, active.broken), (number, false));
            assert!(after.host.is_whole(number));
            assert_eq!(after.reported, world::Reported::Runs(number));
        }
    }
}

#[test]
fn every_event_and_every_action_happens_somewhere() {
    let mut actions = HashSet::new();
    let mut changed = HashSet::new();
    let name = |debug: String| debug.split(['(', ' ']).next().unwrap().to_owned();
    for world in &*REACHABLE {
        for event in every_event() {
            let (site, made) = step(world.site.clone(), event);
            if site != world.site || !made.is_empty() {
                changed.insert(name(format!("{event:?}")));
            }
            actions.extend(made.iter().map(|action| name(format!("{action:?}"))));
        }
    }
    let events: HashSet<_> = every_event()
        .into_iter()
        .map(|event| name(format!("{event:?}")))
        .collect();
    assert_eq!(changed, events);
    assert_eq!(actions.len(), 6, "{actions:?}");
}

#[test]
fn only_a_healthy_bundle_and_a_return_to_an_earlier_one_lead_to_active() {
    let name = |debug: String| debug.split(['(', ' ', '{']).next().unwrap().to_owned();
    let mut ways = std::collections::BTreeSet::new();
    for site in reachable_sites() {
        for event in every_event() {
            let work = name(format!("{:?}", site.work));
            let before = site.active.as_ref().map(|active| active.number);
            let (after, _) = step(site.clone(), event);
            let now = after.active.as_ref().map(|active| active.number);
            if now.is_some() && now != before {
                ways.insert(format!("{work}, {}", name(format!("{event:?}"))));
            }
        }
    }
    let ways: Vec<String> = ways.into_iter().collect();
    assert_eq!(ways, ["Reverting, Returned", "Soaking, Healthy"]);
}

fn every_event() -> Vec<Event> {
    let mut events = vec![
        Event::Withdrawn,
        Event::Held,
        Event::Released,
        Event::RepairDue,
        Event::KeptAtMost(0),
        Event::Repaired,
        Event::RepairBroken,
        Event::Blocked,
    ];
    for number in 1..=BUNDLES {
        events.extend([
            Event::CopyBegun(number),
            Event::CopyEnded(number),
            Event::CopyLost(number),
            Event::MayStart(number),
            Event::MustWait(number),
            Event::Approved(number),
            Event::Applied(number),
            Event::Broken(number),
            Event::Healthy(number),
            Event::HealthySoFar(number),
            Event::FolderLost(number),
            Event::Returned(number),
            Event::ReturnBroken(number),
            Event::RollbackOrdered(number),
            Event::Observed(number),
            Event::DriftFound(number),
            Event::Corrected(number),
            Event::Pinned {
                number,
                repair: true,
            },
            Event::Unpinned {
                number: Some(number),
                repair: true,
            },
        ]);
    }
    events
}

#[test]
fn a_rollback_never_installs_what_waits() {
    for world in &*REACHABLE {
        let Some(waiting) = world.site.waiting else {
            continue;
        };
        for to in 1..=BUNDLES {
            let (site, _) = step(world.site.clone(), Event::RollbackOrdered(to));
            if site == world.site {
                continue;
            }
            let (after, _) = step(site, Event::MayStart(waiting.number));
            assert_ne!(after.candidate(), Some(waiting.number), "{world:?}");
        }
    }
}

#[test]
fn a_rollback_goes_to_the_earlier_bundle_that_was_named_and_forgets_those_above_it() {
    let mut goes = 0;
    for world in &*REACHABLE {
        let site = &world.site;
        let idle = site.work == Work::Idle;
        for to in site.earlier.iter().filter(|_| idle) {
            let (site, _) = step(site.clone(), Event::RollbackOrdered(*to));
            let from = site.active.unwrap().number;
            let decided = true;
            let to = *to;
            assert_eq!(site.work, Work::Reverting { from, to, decided });
            let (after, actions) = step(site, Event::Returned(from));
            assert_eq!(after.active.unwrap().number, to);
            assert!(after.earlier.iter().all(|earlier| *earlier < to));
            assert!(actions.contains(&Action::ReportRevert { from, to }));
            goes += 1;
        }
        // Nobody goes where nothing is kept.
        let (after, _) = step(site.clone(), Event::RollbackOrdered(BUNDLES + 1));
        assert_eq!(after, *site);
    }
    assert!(goes > 0);
}

#[test]
fn words_round_trip() {
    for state in state::ALL {
        assert_eq!(State::from_word(state.as_str()), Some(state));
    }
}
