//! What holds on every site while the health of a bundle that was applied is looked at.

use super::*;

/// Between the application and the end of the soak, the bundle before stays the one to go back to, whatever comes.
#[test]
fn while_a_bundle_is_looked_at_the_one_before_is_kept_and_a_failure_goes_back_to_it() {
    let mut looked = 0;
    for world in &*REACHABLE {
        let Work::Soaking(number) = world.site.work else {
            assert!(!world.site.watched, "{world:?}");
            continue;
        };
        let (site, actions) = step(world.site.clone(), Event::HealthySoFar(number));
        let reported = actions == [Action::Report(number, State::Soaking)];
        assert_eq!(reported, !world.site.watched, "{world:?}");
        assert_eq!(owed(&site), owed(&world.site));
        assert_eq!(site.active, world.site.active);
        let (after, actions) = step(site, Event::Broken(number));
        assert!(actions.contains(&Action::Remember(number)));
        match world.site.active {
            Some(active) => assert_eq!(
                after.work,
                Work::Reverting {
                    from: number,
                    to: active.number,
                    decided: false
                }
            ),
            None => assert_eq!(after.work, Work::Idle),
        }
        looked += 1;
    }
    assert!(looked > 10, "{looked}");
}
