//! From which commits of its environment's own branch a site's bundles were made: which content of the base commit they have, is written there.
//!
//! What comes in: the question, the bundles that a hub verified, and what a site runs. What goes out: the commit of the environment that what
//! it runs was made from, and where that has another base commit than the one asked about, those of the bundles of that
//! one. It decides nothing and reads no repository: whoever promotes compares what these commits have.

use outhaul_bundle::hub_api::MAX_PASSED;

use crate::facts::{DesiredBundle, Running, SiteState};
use crate::{Facts, GateQuestion};

/// The environment's commit of what `site` runs, and of the bundles of the commit asked about that it had before. `follows` where its
/// cluster follows the platform repository directly: then the site's report states what that was rendered from, and no bundle does.
pub(crate) fn of(
    question: &GateQuestion,
    facts: &Facts<'_>,
    (site, running): (&SiteState, &Running),
    follows: bool,
) -> (Option<String>, Vec<String>) {
    let of_role = || facts.bundles.iter().filter(|one| one.role == running.role);
    let known = of_role().find(|one| one.number == running.bundle && one.index == running.index);
    let (base, environment) = match (follows, known) {
        (true, _) => (&running.base_commit, running.environment_commit.clone()),
        (false, Some(known)) => (&known.base_commit, Some(known.environment_commit.clone())),
        (false, None) => (&running.base_commit, None),
    };
    if *base == question.commit {
        return (environment, Vec::new());
    }
    let is_passed = |one: &&DesiredBundle| {
        one.base_commit == question.commit
            && one.number <= running.bundle
            && !one.taken_back
            && (one.recipients.is_empty() || one.recipients.contains(&site.site))
    };
    let mut bundles: Vec<&DesiredBundle> = of_role().filter(is_passed).collect();
    bundles.sort_by_key(|one| std::cmp::Reverse(one.number));
    let mut passed: Vec<String> = Vec::new();
    for bundle in bundles {
        if passed.len() < MAX_PASSED && !passed.contains(&bundle.environment_commit) {
            passed.push(bundle.environment_commit.clone());
        }
    }
    (environment, passed)
}
