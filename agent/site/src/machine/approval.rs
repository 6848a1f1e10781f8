//! What keeps a bundle from being applied: a pure decision over what is known of a bundle that waits.
//!
//! What comes in: [`Conditions`], each looked up by whoever asks. What goes out: every [`Obstacle`] that stands, in the order
//! in which a person has to know of them; none: it may start. It reads no clock, asks nobody, and changes nothing. Its
//! test walks all conditions.

/// What is known of a bundle that waits, and of the site that it waits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a condition of its own, and all combinations occur"
)]
pub struct Conditions {
    /// A person holds back whatever is new.
    pub held: bool,
    /// A person rolled back after it came.
    pub rolled_back: bool,
    /// A person approved it.
    pub approved: bool,
    /// On this site a person approves every bundle.
    pub always: bool,
    /// It removes more than is removed without a person.
    pub removes: bool,
    /// How often its content was applied and left again without a person.
    pub returns: u32,
    /// How often that may happen.
    pub max_returns: u32,
    /// Whether something on this site asks for later.
    pub delay: Delayed,
    /// Whether it may be applied at this time.
    pub window: WindowState,
    /// Whether the wave of the stream's sites that this one belongs to has begun.
    pub wave: WindowState,
    /// It does not take a value that this site set and that is in use.
    pub values: bool,
    /// A person holds an assignment at what another bundle brought, and that bundle is not here.
    pub content_lacks: bool,
}

/// Whether something on this site asks for a bundle to be applied later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Delayed {
    /// Nothing does.
    #[default]
    No,
    /// Something does, and its deadline lies ahead.
    Until,
    /// All deadlines have passed, and the site's owner lets it go on then.
    Over,
    /// A deadline has passed, and the site's owner wants to be asked.
    Asks,
}

/// Whether it may be applied at this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WindowState {
    /// At any time.
    #[default]
    Always,
    /// Within a maintenance window.
    Open,
    /// Outside of all of them.
    Shut,
    /// This machine's clock is not trusted.
    Unknown,
}

/// One thing that keeps a bundle from being applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// A person's hold. No approval lifts it.
    Hold,
    /// What a held assignment keeps is not here: the bundle that brought it, or the release of the hold, and no approval lifts it.
    HeldContent,
    /// A rollback that was ordered after it came.
    Rollback,
    /// Every bundle needs an approval here.
    Approval,
    /// It removes a lot.
    Removal,
    /// Its content was applied and left again too often.
    Loop,
    /// Something asks for later.
    Delay,
    /// Something asks for later, its deadline has passed, and a person decides.
    DelayAsks,
    /// No maintenance window is open.
    Window,
    /// Which time it is cannot be known.
    Clock,
    /// The wave that this site belongs to has not begun.
    Wave,
    /// The same, and which time it is cannot be known.
    WaveClock,
    /// It does not take a value that this site set.
    Values,
}

impl Obstacle {
    /// Whether a person's approval of the bundle lifts it.
    pub fn is_lifted_by_approval(self) -> bool {
        !matches!(self, Self::Hold | Self::HeldContent)
    }
}

/// Every obstacle that stands before a bundle; none: it may be applied.
///
/// An approval is a person's word for this bundle, now: it lifts all but a hold, and what a held assignment keeps.
pub fn obstacles(conditions: &Conditions) -> Vec<Obstacle> {
    let unless_approved = |stands: bool| stands && !conditions.approved;
    let all = [
        (Obstacle::Hold, conditions.held),
        (Obstacle::HeldContent, conditions.content_lacks),
        // It was ordered after any approval that there was.
        (Obstacle::Rollback, conditions.rolled_back),
        (Obstacle::Approval, unless_approved(conditions.always)),
        (Obstacle::Removal, unless_approved(conditions.removes)),
        (
            Obstacle::Loop,
            unless_approved(conditions.returns >= conditions.max_returns.max(1)),
        ),
        (Obstacle::Values, unless_approved(conditions.values)),
        (
            Obstacle::Delay,
            unless_approved(conditions.delay == Delayed::Until),
        ),
        (
            Obstacle::DelayAsks,
            unless_approved(conditions.delay == Delayed::Asks),
        ),
        (
            Obstacle::Window,
            unless_approved(conditions.window == WindowState::Shut),
        ),
        (
            Obstacle::Clock,
            unless_approved(conditions.window == WindowState::Unknown),
        ),
        (
            Obstacle::Wave,
            unless_approved(conditions.wave == WindowState::Shut),
        ),
        (
            Obstacle::WaveClock,
            unless_approved(conditions.wave == WindowState::Unknown),
        ),
    ];
    all.into_iter()
        .filter_map(|(obstacle, stands)| stands.then_some(obstacle))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Event, owed, step, tests::reachable_sites};

    /// Every combination of conditions, with no and enough returns.
    fn every_condition() -> Vec<Conditions> {
        let delays = [Delayed::No, Delayed::Until, Delayed::Over, Delayed::Asks];
        let windows = [
            WindowState::Always,
            WindowState::Open,
            WindowState::Shut,
            WindowState::Unknown,
        ];
        let mut all = Vec::new();
        for bits in 0..128_u8 {
            let is = |bit: u8| bits & (1 << bit) != 0;
            for delay in delays {
                for (window, wave) in windows.into_iter().flat_map(|w| windows.map(|v| (w, v))) {
                    for returns in [0, 2] {
                        all.push(Conditions {
                            held: is(0),
                            rolled_back: is(1),
                            approved: is(2),
                            always: is(3),
                            removes: is(4),
                            returns,
                            max_returns: 2,
                            delay,
                            window,
                            wave,
                            values: is(5),
                            content_lacks: is(6),
                        });
                    }
                }
            }
        }
        all
    }

    #[test]
    fn each_obstacle_stands_exactly_when_its_condition_does_and_an_approval_lifts_all_but_a_person_s_no()
     {
        for conditions in every_condition() {
            let found = obstacles(&conditions);
            let stands = |obstacle| found.contains(&obstacle);
            assert_eq!(stands(Obstacle::Hold), conditions.held);
            assert_eq!(stands(Obstacle::HeldContent), conditions.content_lacks);
            assert_eq!(stands(Obstacle::Rollback), conditions.rolled_back);
            // Approving it again lifts a rollback as well: the machine takes it away.
            let mut lifted = found.iter().filter(|one| one.is_lifted_by_approval());
            assert!(!conditions.approved || lifted.all(|one| *one == Obstacle::Rollback));
            let expected = [
                (Obstacle::Approval, conditions.always),
                (Obstacle::Removal, conditions.removes),
                (Obstacle::Loop, conditions.returns == 2),
                (Obstacle::Delay, conditions.delay == Delayed::Until),
                (Obstacle::DelayAsks, conditions.delay == Delayed::Asks),
                (Obstacle::Window, conditions.window == WindowState::Shut),
                (Obstacle::Clock, conditions.window == WindowState::Unknown),
                (Obstacle::Wave, conditions.wave == WindowState::Shut),
                (Obstacle::WaveClock, conditions.wave == WindowState::Unknown),
                (Obstacle::Values, conditions.values),
            ];
            for (obstacle, is) in expected {
                assert_eq!(
                    stands(obstacle),
                    is && !conditions.approved,
                    "{conditions:?}"
                );
            }
            // A deadline that passed, an open window and a clock that is right keep nothing back.
            let quiet = matches!(conditions.delay, Delayed::No | Delayed::Over)
                && matches!(conditions.window, WindowState::Always | WindowState::Open)
                && matches!(conditions.wave, WindowState::Always | WindowState::Open);
            let asks = conditions.always
                || conditions.removes
                || conditions.values
                || conditions.returns == 2;
            let nobody = !conditions.held && !conditions.rolled_back && !conditions.content_lacks;
            if nobody && (conditions.approved || (quiet && !asks)) {
                assert!(found.is_empty(), "{conditions:?}: {found:?}");
            }
        }
    }

    /// With the machine: nothing that waits is begun while something stands before it, and it is begun as soon as nothing
    /// does, on every site that can be reached.
    #[test]
    fn on_every_site_what_waits_is_begun_when_nothing_stands_before_it_and_not_before() {
        let (mut begun, mut waited) = (0, 0);
        let conditions = every_condition();
        for site in reachable_sites() {
            let Some(waiting) = site.waiting else {
                continue;
            };
            // What the machine itself knows is what whoever asks looks up.
            let fits =
                |c: &&Conditions| c.held == site.hold && c.rolled_back == waiting.needs_approval;
            for conditions in conditions.iter().filter(fits) {
                let number = waiting.number;
                let found = obstacles(conditions);
                let event = match found.is_empty() {
                    true => Event::MayStart(number),
                    false => Event::MustWait(number),
                };
                let (after, _) = step(site.clone(), event);
                let is_begun = after.candidate() == Some(number) && after.waiting.is_none();
                assert_eq!(is_begun, found.is_empty(), "{site:?} {conditions:?}");
                if is_begun {
                    begun += 1;
                    continue;
                }
                waited += 1;
                // It waits on, and is asked for again: a deadline or a window is met by looking again.
                assert_eq!(
                    after.waiting.map(|w| (w.number, w.gated)),
                    Some((number, true))
                );
                assert_eq!(after.work, site.work);
                assert!(owed(&after).is_some());
            }
        }
        assert!(
            begun > 0 && waited > begun,
            "{begun} begun, {waited} waited"
        );
    }
}
