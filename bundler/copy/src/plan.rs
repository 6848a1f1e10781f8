//! What is copied of each bundle, before anything is written.
//!
//! What comes in: the bundles that the fleet keeps, and what the sites of each have of it. What goes out: a step for each bundle. Whether whole
//! bundles are cut is known to who writes them. It reads and writes nothing.

use crate::copies::KeptBundle;
use crate::since::Has;

/// What is done with one bundle.
#[derive(Debug, Clone)]
pub enum CopyStep {
    /// Nothing: the sites that the copy is for have it.
    UpToDate,
    /// All of it is copied: in one file, or in parts where the copies are cut.
    Whole,
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

/// Plans the copy of `bundle`, of which its sites have what `bases` have; `None` where nothing is to be left out.
pub(crate) fn plan(bundle: KeptBundle, bases: Option<Vec<Has>>) -> PlannedCopy {
    let step = step(bundle.number, bases);
    PlannedCopy { bundle, step }
}

fn step(number: u64, bases: Option<Vec<Has>>) -> CopyStep {
    let is_it = |base: &Has| base.number() == number;
    match bases {
        Some(bases) if !bases.is_empty() && bases.iter().all(is_it) => CopyStep::UpToDate,
        Some(bases) => CopyStep::Since(bases),
        None => CopyStep::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_copied_for_sites_that_have_the_newest() {
        let has = |numbers: &[u64]| Some(numbers.iter().map(|number| Has::fake(*number)).collect());
        let shown = |bases| match step(7, bases) {
            CopyStep::UpToDate => "up to date".to_owned(),
            CopyStep::Whole => "whole".to_owned(),
            CopyStep::Since(bases) => format!("since {}", bases.len()),
        };
        assert_eq!(shown(None), "whole");
        assert_eq!(shown(has(&[7])), "up to date");
        assert_eq!(shown(has(&[7, 7])), "up to date");
        assert_eq!(shown(has(&[6, 7])), "since 2");
        assert_eq!(shown(has(&[6])), "since 1");
        assert_eq!(shown(has(&[])), "since 0", "such a copy leaves out nothing");
    }
}
