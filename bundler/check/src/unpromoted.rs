//! What the branch of a base has that is not promoted: it is not in what was checked.
//!
//! What comes in: a rendered environment. What goes out: a sentence where the branch is at another commit than the environment, or where
//! that cannot be known; nothing for an environment that follows the branch. It changes nothing.

use outhaul_git::source::{self, GitReference};
use outhaul_load::MAIN;
use outhaul_load::pipeline::Platform;

/// Digits of a commit that are printed.
const SHORT: usize = 12;

/// What is to be said of `platform`. A server is asked with `network` alone.
pub(crate) fn of(platform: &Platform, network: bool) -> Option<String> {
    let plane = &platform.control_plane;
    let base = plane.base_repos.get(MAIN)?;
    base.commit.as_ref()?;
    // Of a working copy what is there is read in the place of what is promoted.
    let pinned = &platform.rendering.snapshot.base.commit;
    let (url, branch) = (&base.at.repo.value, &base.at.branch);
    let reference = GitReference::Branch(branch.clone());
    let environment = &plane.environment;
    let is_here = platform.sources.resolve(url, &reference).is_some();
    if !network && !is_here && source::local_folder(url).is_none() {
        return Some(format!(
            "whether branch `{branch}` of the base has more than is promoted: it is on a server, which is asked with `--network`"
        ));
    }
    match source::open(url, &reference, &platform.sources, &platform.cache) {
        Ok(newest) if newest.commit == *pinned => None,
        Ok(newest) => Some(format!(
            "commit {} of the base, where branch `{branch}` is: `{environment}` is at {}, until it is promoted",
            short(&newest.commit),
            short(pinned),
        )),
        Err(error) => Some(format!(
            "whether branch `{branch}` of the base has more than is promoted ({error})"
        )),
    }
}

fn short(commit: &str) -> String {
    commit.chars().take(SHORT).collect()
}
