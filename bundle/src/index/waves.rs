//! Waves: which sites of a stream take a bundle first, and how many hours later the others may.
//!
//! What comes in: shares and hours that signed metadata vouches for, and the name of a site. What goes out: the wave that
//! the site belongs to, always the same for the same seed and name, and how long after the bundle was issued it begins.
//! It reads no clock: when it is time is decided by whoever knows it.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::name::Name;

/// Most waves.
pub const MAX_WAVES: usize = 16;
/// Most hours between two waves: a year.
pub const MAX_HOURS: u32 = 8760;
/// The longest seed, in bytes.
pub const MAX_SEED_BYTES: usize = 253;
/// Sites are distributed over this many places.
const PLACES: u64 = 1_000_000;

/// In which order the sites of a stream take a bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waves {
    /// Distributes the sites: another seed gives another order.
    pub seed: String,
    /// The waves, the first one first. Never empty; their shares are 100 together.
    pub waves: Vec<Wave>,
}

/// One wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wave {
    /// How many of 100 sites belong to it, 1 to 100.
    pub percent: u8,
    /// For how many hours it runs before the next wave begins.
    pub hours: u32,
}

/// Where a site stands in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WavePlace {
    /// Its wave, from 1.
    pub wave: usize,
    /// How many there are.
    pub of: usize,
    /// Hours after the bundle was issued at which the wave begins.
    pub after_hours: u64,
}

impl Waves {
    /// The wave of a site.
    pub fn place(&self, site: &Name) -> WavePlace {
        let text = format!("outhaul.dev/waves/v1\0{}\0{}", self.seed, site.as_str());
        let digest = Digest::of(text.as_bytes()).hex();
        let drawn = u64::from_str_radix(digest.get(..16).unwrap_or_default(), 16).unwrap_or(0);
        let drawn = drawn % PLACES;
        let (mut share, mut after_hours) = (0, 0);
        let last = self.waves.len().saturating_sub(1);
        for (at, wave) in self.waves.iter().enumerate() {
            share += u64::from(wave.percent);
            if drawn < share * (PLACES / 100) || at == last {
                return WavePlace {
                    wave: at + 1,
                    of: self.waves.len(),
                    after_hours,
                };
            }
            after_hours += u64::from(wave.hours);
        }
        WavePlace {
            wave: 1,
            of: 1,
            after_hours: 0,
        }
    }

    /// What contradicts itself.
    pub fn problem(&self) -> Option<String> {
        let count = self.waves.len();
        if count == 0 || count > MAX_WAVES {
            return Some(format!("{count} waves, 1 to {MAX_WAVES} are allowed"));
        }
        if self.seed.is_empty()
            || self.seed.len() > MAX_SEED_BYTES
            || self.seed.chars().any(char::is_control)
        {
            return Some(format!("a seed is text of 1 to {MAX_SEED_BYTES} bytes"));
        }
        if let Some(wave) = self.waves.iter().find(|wave| wave.percent == 0) {
            return Some(format!("a wave of {} % of the sites", wave.percent));
        }
        if let Some(wave) = self.waves.iter().find(|wave| wave.hours > MAX_HOURS) {
            return Some(format!(
                "{} hours between two waves, at most {MAX_HOURS} are allowed",
                wave.hours
            ));
        }
        let sum: u32 = self.waves.iter().map(|wave| u32::from(wave.percent)).sum();
        (sum != 100).then(|| format!("the shares of its waves are {sum} % together, not 100 %"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn waves(seed: &str, shares: &[(u8, u32)]) -> Waves {
        let wave = |(percent, hours): &(u8, u32)| Wave {
            percent: *percent,
            hours: *hours,
        };
        Waves {
            seed: seed.to_owned(),
            waves: shares.iter().map(wave).collect(),
        }
    }

    fn site(number: usize) -> Name {
        format!("press-{number}").parse().unwrap()
    }

    #[test]
    fn shares_come_out_as_they_are_asked_for_and_hours_add_up() {
        let waves = waves("stage/press", &[(10, 24), (40, 48), (50, 0)]);
        assert_eq!(waves.problem(), None);
        let mut counted = BTreeMap::new();
        for number in 0..10_000 {
            let place = waves.place(&site(number));
            assert_eq!(place.of, 3);
            *counted.entry((place.wave, place.after_hours)).or_insert(0) += 1;
        }
        let keys: Vec<_> = counted.keys().copied().collect();
        assert_eq!(keys, [(1, 0), (2, 24), (3, 72)]);
        let near = |wave: (usize, u64), expected: i32| (counted[&wave] - expected).abs() < 200;
        assert!(
            near((1, 0), 1000) && near((2, 24), 4000) && near((3, 72), 5000),
            "{counted:?}"
        );
    }

    #[test]
    fn the_order_is_frozen() {
        // What a site decides must be what the centre and the hub say of it, whatever version each has.
        let waves = waves("stage/press", &[(10, 24), (40, 48), (50, 0)]);
        let order: Vec<usize> = (0..20)
            .map(|number| waves.place(&site(number)).wave)
            .collect();
        insta::assert_compact_debug_snapshot!(order);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let problem = |seed: &str, shares: &[(u8, u32)]| waves(seed, shares).problem().unwrap();
        assert!(problem("s", &[]).contains("0 waves"));
        assert!(problem("s", &[(10, 1), (80, 1)]).contains("90 % together"));
        assert!(problem("s", &[(0, 1), (100, 1)]).contains("a wave of 0 %"));
        assert!(problem("s", &[(100, 9000)]).contains("9000 hours"));
        assert!(problem("", &[(100, 0)]).contains("a seed"));
        assert!(problem("a\nb", &[(100, 0)]).contains("a seed"));
    }

    proptest! {
        /// A share that grows at the cost of the last wave takes nobody out of an earlier one.
        #[test]
        fn who_is_first_stays_first_when_the_first_share_grows(a in 1u8..50, more in 0u8..49, number in 0usize..100_000) {
            let small = waves("seed", &[(a, 1), (100 - a, 0)]).place(&site(number));
            let grown = waves("seed", &[(a + more, 1), (100 - a - more, 0)]).place(&site(number));
            prop_assert!(grown.wave <= small.wave);
        }
    }
}
