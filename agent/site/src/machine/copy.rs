//! The copy of a bundle onto this site: which one may be begun, and what becomes of it.
//!
//! What comes in: the site, the number of the bundle, and which of the site's numbers the fleet has taken back. What goes out: why it is not copied; of an
//! event about a copy, the site afterwards. It knows no signatures: who calls it has verified them.

use std::collections::BTreeSet;

use super::{Action, Event, Site, State, WaitingBundle, Work};

/// Why a bundle is not copied onto a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CopyRefusal {
    /// The site has this bundle, which is of the same number or newer.
    Newer(u64),
    /// It works with a bundle of this number.
    InUse,
}

impl Site {
    /// Why no copy of bundle `number` may be begun; `None`: it may. A number of the site that a key signed which the fleet took away since
    /// (`taken_back`) makes no bundle older: floors fall then, so that a lower number may be the newer one.
    pub fn refuses_copy(&self, number: u64, taken_back: &BTreeSet<u64>) -> Option<CopyRefusal> {
        let counts = self.numbers().filter(|known| !taken_back.contains(known));
        match counts.max().filter(|newest| *newest >= number) {
            Some(newest) => Some(CopyRefusal::Newer(newest)),
            None => (!self.is_free(number)).then_some(CopyRefusal::InUse),
        }
    }

    /// Whether a copy of the bundle may be begun: nothing is done with one of its number, nor will be.
    pub fn is_free(&self, number: u64) -> bool {
        let is_target = matches!(self.work, Work::Reverting { to, .. } if to == number);
        self.state_of(number).is_none() && !is_target
    }

    pub(super) fn copied(&mut self, event: Event, actions: &mut Vec<Action>) {
        match event {
            // One that matters already is not copied over.
            Event::CopyBegun(number) if self.is_free(number) => {
                if let Some(earlier) = self.incoming.replace(number) {
                    actions.push(Action::Forget(earlier));
                }
                // The copy takes the place of its folder.
                self.earlier.retain(|earlier| *earlier != number);
                self.pins.remove(&number);
            }
            Event::CopyEnded(number) if self.incoming == Some(number) => {
                self.incoming = None;
                self.withdraw(actions);
                self.waiting = Some(WaitingBundle {
                    number,
                    gated: false,
                    needs_approval: false,
                });
                actions.push(Action::Report(number, State::Staged));
            }
            Event::CopyLost(number) if self.incoming == Some(number) => {
                self.incoming = None;
                actions.push(Action::Forget(number));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::step;
    use crate::machine::tests::reachable_sites;

    /// On every site that can be reached, for every number, with each of the site's bundles taken back or not.
    #[test]
    fn a_copy_is_refused_below_what_counts_and_where_its_number_is_used_and_else_it_is_begun() {
        let (mut begun, mut older, mut used) = (0, 0, 0);
        for site in reachable_sites() {
            let numbers: BTreeSet<u64> = site.numbers().collect();
            let known = Vec::from_iter(&numbers);
            for chosen in 0..1_u32 << known.len() {
                let taken_back = known.iter().enumerate();
                let taken_back = taken_back.filter(|(at, _)| chosen & (1 << at) != 0);
                let taken_back: BTreeSet<u64> = taken_back.map(|(_, number)| **number).collect();
                for number in 1..=4 {
                    let above = numbers
                        .difference(&taken_back)
                        .any(|known| *known >= number);
                    let (after, _) = step(site.clone(), Event::CopyBegun(number));
                    match site.refuses_copy(number, &taken_back) {
                        None => {
                            assert!(!above, "{number} {taken_back:?} {site:?}");
                            assert_eq!(after.incoming, Some(number), "{site:?}");
                            begun += 1;
                        }
                        Some(CopyRefusal::Newer(newest)) => {
                            assert!(above && newest >= number && numbers.contains(&newest));
                            assert!(!taken_back.contains(&newest), "{newest} {site:?}");
                            older += 1;
                        }
                        // Whatever the fleet took back: the host is worked on with it, or it is copied.
                        Some(CopyRefusal::InUse) => {
                            assert!(!above, "{number} {taken_back:?} {site:?}");
                            assert_eq!(after, site);
                            used += 1;
                        }
                    }
                }
            }
        }
        assert!(begun > 0 && older > 0 && used > 0, "{begun} {older} {used}");
    }
}
