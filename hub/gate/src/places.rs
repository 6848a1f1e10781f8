//! From which commits of its environment's own branch a site's bundles were made: which content of the base commit they have, is written there.
//!
//! What comes in: the question, the bundles that a hub verified, and what a site runs. What goes out: the commits of the base and of the environment that what
//! it runs was made from, and where that has another base commit than the one asked about, those of the bundles of that
//! one. It decides nothing and reads no repository: whoever promotes compares what these commits have.

use std::collections::BTreeMap;

use outhaul_bundle::hub_api::MAX_PASSED;

use crate::GateQuestion;
use crate::facts::{DesiredBundle, Running, SiteState};

/// The bundles that a hub verified, as a question looks for them.
pub(crate) struct Places<'a> {
    commit: &'a str,
    /// By stream, number and digest of the index.
    all: BTreeMap<(&'a str, u64, &'a str), &'a DesiredBundle>,
    /// Those of the commit asked about, by stream, the newest first.
    with_commit: BTreeMap<&'a str, Vec<&'a DesiredBundle>>,
}

/// What a site runs was made from.
pub(crate) struct RunningOrigin {
    pub base_commit: String,
    pub environment_commit: Option<String>,
    /// The environment's commits of the bundles of the commit asked about that the site had before.
    pub passed: Vec<String>,
}

impl<'a> Places<'a> {
    pub(crate) fn of(question: &'a GateQuestion, bundles: &'a [DesiredBundle]) -> Self {
        let mut all = BTreeMap::new();
        let mut with_commit: BTreeMap<&str, Vec<&DesiredBundle>> = BTreeMap::new();
        for one in bundles {
            let key = (one.role.as_str(), one.number, one.index.as_str());
            all.entry(key).or_insert(one);
            if one.base_commit == question.commit && !one.taken_back {
                with_commit.entry(&one.role).or_default().push(one);
            }
        }
        for of_role in with_commit.values_mut() {
            of_role.sort_by_key(|one| std::cmp::Reverse(one.number));
        }
        Self {
            commit: &question.commit,
            all,
            with_commit,
        }
    }

    /// Of what `site` runs. `follows` where its cluster follows the platform repository directly: then the site's report states what that
    /// was rendered from, and no bundle does.
    pub(crate) fn at(&self, site: &SiteState, running: &Running, follows: bool) -> RunningOrigin {
        let role = running.role.as_str();
        let known = self
            .all
            .get(&(role, running.bundle, running.index.as_str()));
        let (base, environment_commit) = match (follows, known) {
            (true, _) => (&running.base_commit, running.environment_commit.clone()),
            (false, Some(known)) => (&known.base_commit, Some(known.environment_commit.clone())),
            (false, None) => (&running.base_commit, None),
        };
        let mut passed: Vec<String> = Vec::new();
        let is_passed = |one: &&&DesiredBundle| {
            one.number <= running.bundle
                && (one.recipients.is_empty() || one.recipients.contains(&site.site))
        };
        let bundles = self.with_commit.get(role).map_or(&[][..], Vec::as_slice);
        let is_other = base != self.commit;
        for bundle in bundles.iter().filter(|_| is_other).filter(is_passed) {
            if passed.len() >= MAX_PASSED {
                break;
            }
            if !passed.contains(&bundle.environment_commit) {
                passed.push(bundle.environment_commit.clone());
            }
        }
        RunningOrigin {
            base_commit: base.clone(),
            environment_commit,
            passed,
        }
    }
}
