//! One environment, read and checked together with what it leads to.
//!
//! What comes in: a [`LoadRequest`]. What goes out: every finding of `outhaul_plane::check`, of the
//! repositories that payloads lie in, and of the promotion chain. It reads and changes nothing.

use jiff::Timestamp;
use outhaul_bundle::index::Snapshot;
use outhaul_control::Diagnostics;
use outhaul_control::diagnostic::Diagnostic;
use outhaul_load::LoadRequest;
use outhaul_load::pipeline;
use outhaul_plane::check::{check, local};
use outhaul_plane::compose::Mode;
use outhaul_plane::delivery::statements;
use outhaul_promote::{WrittenChain, warnings};
use outhaul_ship::collect::signers;

use crate::{offline, payloads, unpromoted, unused};

/// What was found in one environment.
#[derive(Debug)]
pub struct CheckedEnvironment {
    /// Its name.
    pub environment: String,
    /// What was read; `None` when it cannot be loaded whole.
    pub snapshot: Option<Snapshot>,
    /// Every finding, sorted by place.
    pub findings: Diagnostics,
    /// How many cluster types there are.
    pub cluster_types: usize,
    /// How many deployment targets there are.
    pub targets: usize,
    /// How many assignments there are.
    pub assignments: usize,
    /// Payloads that were not looked at, and why.
    pub not_looked_at: Vec<String>,
    /// Images that the sites' registries are said to have; no registry is contacted.
    pub not_asked_for: Vec<String>,
    /// Images that would travel: whether they can be had was not asked.
    pub not_pulled: Vec<String>,
    /// Local copies of repositories that nothing of it names; `None` when it cannot be loaded whole.
    pub unused: Option<Diagnostics>,
    /// What the base's branch has that is not promoted into it, in a sentence.
    pub not_promoted: Option<String>,
}

/// Loads an environment and checks it. What cannot be loaded whole is checked as far as single objects
/// go: what is missing would only make other things look wrong. With `network` a payload's server that
/// does not answer is a finding. `now` is what the age of trusted roots is counted to.
pub fn environment(
    request: &LoadRequest,
    mode: Mode,
    network: bool,
    now: Timestamp,
) -> CheckedEnvironment {
    match pipeline::run_whole(request, mode, None) {
        Ok(mut platform) => {
            // What is promoted need not lie where the environments are listed.
            if let Ok(listed) = outhaul_load::declared(request) {
                let own = &mut platform.control_plane.environments;
                own.extend(listed.into_iter().map(|one| (one.name.clone(), one)));
            }
            let plane = &platform.control_plane;
            let mut findings = check(
                plane,
                &platform.schedule,
                platform.composition(),
                &platform.rendering,
                mode,
            );
            let not_looked_at = payloads::uncollected(&platform, network, &mut findings);
            let looked_at = offline::looked_at(&platform, None);
            findings.append(looked_at.findings);
            if let Some(chain) = WrittenChain::read(request) {
                chain_problems(&chain, &mut findings);
                findings.append(chain.unknown_parts(plane));
                let snapshot = &platform.rendering.snapshot;
                findings.append(warnings::of(chain, plane, snapshot));
            }
            findings.append(signers(plane, now));
            findings.sort();
            CheckedEnvironment {
                environment: request.environment.clone(),
                snapshot: Some(platform.rendering.snapshot.clone()),
                findings,
                cluster_types: plane.cluster_types.len(),
                targets: plane.targets.len(),
                assignments: platform.schedule.assignments.len(),
                not_looked_at,
                not_asked_for: looked_at.trusted.into_iter().collect(),
                not_pulled: looked_at.carried.into_iter().collect(),
                not_promoted: unpromoted::of(&platform, network),
                unused: Some(unused::sources(&platform, None)),
            }
        }
        Err(mut findings) => {
            let (plane, _, _) = outhaul_load::load_partly(request);
            local(&plane, mode, &mut findings);
            if let Some(chain) = WrittenChain::read(request) {
                chain_problems(&chain, &mut findings);
            }
            findings.append(signers(&plane, now));
            findings.append(statements::to_come(&plane, now.as_millisecond()));
            findings.sort();
            CheckedEnvironment {
                environment: request.environment.clone(),
                snapshot: None,
                findings,
                cluster_types: plane.cluster_types.len(),
                targets: plane.targets.len(),
                assignments: 0,
                not_looked_at: Vec::new(),
                not_asked_for: Vec::new(),
                not_pulled: Vec::new(),
                not_promoted: None,
                unused: None,
            }
        }
    }
}

/// Adds what is wrong with the promotion chain. A finding of the loader about the same is left out.
fn chain_problems(chain: &WrittenChain<'_>, findings: &mut Diagnostics) {
    let found = chain.problems();
    let known = |one: &Diagnostic| {
        let same = |other: &Diagnostic| (other.code, &other.message) == (one.code, &one.message);
        found.iter().any(same)
    };
    let mut all: Diagnostics = std::mem::take(findings)
        .into_iter()
        .filter(|one| !known(one))
        .collect();
    all.append(found);
    *findings = all;
}
