//! What is copied of each bundle, before anything is written.
//!
//! What comes in: the bundles that the fleet keeps, what the sites of each have of it, and whether files are cut. What goes out: a step for each
//! bundle. It reads and writes nothing.

use crate::copies::KeptBundle;
use crate::since::Has;

/// What is done with one bundle.
#[derive(Debug, Clone)]
pub enum CopyStep {
    /// Nothing: the sites that the copy is for have it.
    UpToDate,
    /// It is copied whole.
    Whole,
    /// It is copied in parts.
    Parts,
    /// It is copied without what each of these earlier bundles has.
    Since(Vec<Has>),
}

/// A bundle, and what is done with it.
#[derive(Debug, Clone)]
pub struct PlannedCopy {
    /// The bundle.
    pub bundle: KeptBundle,
    /// What is done.
    pub step: CopyStep,
}

/// Plans the copy of `bundle`, of which its sites have what `bases` have; `None` where nothing is to be left out. `is_cut` is whether whole
/// bundles are copied in parts.
pub fn plan(bundle: KeptBundle, bases: Option<Vec<Has>>, is_cut: bool) -> PlannedCopy {
    let step = step(bundle.number, bases, is_cut);
    PlannedCopy { bundle, step }
}

fn step(number: u64, bases: Option<Vec<Has>>, is_cut: bool) -> CopyStep {
    let is_it = |base: &Has| base.number() == number;
    match bases {
        Some(bases) if !bases.is_empty() && bases.iter().all(is_it) => CopyStep::UpToDate,
        Some(bases) => CopyStep::Since(bases),
        None if is_cut => CopyStep::Parts,
        None => CopyStep::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_copied_for_sites_that_have_the_newest_and_parts_are_of_whole_bundles() {
        let has = |numbers: &[u64]| Some(numbers.iter().map(|number| Has::fake(*number)).collect());
        let shown = |bases, is_cut| match step(7, bases, is_cut) {
            CopyStep::UpToDate => "up to date".to_owned(),
            CopyStep::Whole => "whole".to_owned(),
            CopyStep::Parts => "parts".to_owned(),
            CopyStep::Since(bases) => format!("since {}", bases.len()),
        };
        assert_eq!(shown(None, false), "whole");
        assert_eq!(shown(None, true), "parts");
        assert_eq!(shown(has(&[7]), false), "up to date");
        assert_eq!(shown(has(&[7, 7]), false), "up to date");
        assert_eq!(shown(has(&[6, 7]), false), "since 2");
        assert_eq!(shown(has(&[6]), true), "since 1");
        assert_eq!(
            shown(has(&[]), false),
            "since 0",
            "such a copy leaves out nothing"
        );
    }
}
