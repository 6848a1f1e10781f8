//! Which reports of a part are no longer kept, a bounded number of ranges.
//!
//! What comes in: the store, a numbering of a site, and from which number to which. What goes out: the ranges there, the highest
//! first; of more than are read, the others as one, so that what lies between them is never taken for missing. It decides nothing.

use outhaul_store::{RemovedRange, Session, StoreError};

/// Ranges of a part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RemovedPart {
    /// The highest first.
    pub ranges: Vec<RemovedRange>,
    /// Whether the last of them stands for several.
    pub is_cut: bool,
}

impl RemovedPart {
    /// The ranges that have a number from one to another.
    pub(crate) fn read(
        session: &Session<'_>,
        place: (&str, &str),
        (from, to): (u64, u64),
        at_most: usize,
    ) -> Result<Self, StoreError> {
        let wanted = u32::try_from(at_most.saturating_add(1)).unwrap_or(u32::MAX);
        let ranges = session.removed_within(place, (from, to), wanted)?;
        Ok(Self::cut(ranges, from, at_most))
    }

    /// Of more ranges than these, the others together.
    fn cut(mut ranges: Vec<RemovedRange>, from: u64, at_most: usize) -> Self {
        let is_cut = ranges.len() > at_most;
        ranges.truncate(at_most);
        if let Some(last) = ranges.last_mut().filter(|_| is_cut) {
            last.first = from.max(1);
        }
        Self { ranges, is_cut }
    }

    /// First and last of each, the lowest first.
    pub(crate) fn numbers(&self) -> Vec<(u64, u64)> {
        let ranges = self.ranges.iter().rev();
        ranges.map(|range| (range.first, range.last)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_ranges_than_are_read_the_lowest_are_one() {
        let range = |number: u64| RemovedRange {
            site: "a".to_owned(),
            epoch: "e1".to_owned(),
            first: number,
            last: number,
            since_ms: 0,
            rule: "older".to_owned(),
            by: "ann".to_owned(),
        };
        let read = || vec![range(90), range(80), range(70)];
        let part = RemovedPart::cut(read(), 3, 2);
        assert_eq!(
            (part.numbers(), part.is_cut),
            (vec![(3, 80), (90, 90)], true)
        );
        let whole = RemovedPart::cut(read(), 3, 3);
        assert_eq!((whole.numbers()[0], whole.is_cut), ((70, 70), false));
    }
}
