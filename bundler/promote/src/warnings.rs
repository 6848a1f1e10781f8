//! What is wrong with the base of a loaded environment: no gate decides about it, or no promotion brought it there.
//!
//! What comes in: a loaded environment and the chain as it is written. What goes out: warnings for `outhaul check`, one for each cause;
//! `required` refuses to ship for the same reasons. It reads the environments' branches and changes nothing.

use std::collections::BTreeSet;

use outhaul_bundle::index::Snapshot;

use super::former::FormerGate;
use super::lineage::Lineage;
use super::order::ChainPlace;
use super::required::{OTHER_BASE_HELP, looked_up_in, other_bases, unseen_path};
use super::{Chain, PromoteError, WrittenChain, quoted};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_load::{MAIN, Origin};

/// Warnings about a loaded environment: for each base that no gate decides about, where a gate is before it; and where it is at a commit of
/// its base that no promotion on its branch let in, and was there otherwise, or by one that does not count. Each cause gives one. An
/// environment that nobody has moved yet gives none of the latter: whoever ships it is told.
pub fn of(written: WrittenChain<'_>, plane: &ControlPlane, snapshot: &Snapshot) -> Diagnostics {
    let mut findings = Diagnostics::new();
    let environment = &written.request.environment;
    // Whoever loads the environment reports what of the chain cannot be read.
    let Some(chain) = chain(written) else {
        return findings;
    };
    let Ok(found) = looked_up_in(&chain, environment, snapshot) else {
        return findings;
    };
    let before = match (&found.before, &found.former) {
        (ChainPlace::After(names, _), _) => quoted(names),
        (ChainPlace::First, Some(former)) => {
            findings.push(gate_gone(environment, plane, former));
            format!("an environment that is not listed ({})", former.how())
        }
        _ => return findings,
    };
    for (base, why) in other_bases(plane) {
        let message = format!(
            "environment `{environment}` comes after {before}, and no gate decides about its base `{}`: {why}; `bundle`, `publish` and `serve` refuse it",
            base.name
        );
        let finding = Diagnostic::warning("ungated-base", message).at(&base.location);
        findings.push(finding.help(OTHER_BASE_HELP));
    }
    let ChainPlace::After(names, _) = &found.before else {
        return findings;
    };
    let is_open = found
        .lineage
        .as_ref()
        .is_some_and(|lineage| lineage.promotion.is_ok());
    let unseen = match is_open {
        true => unseen_path(&chain, environment).ok().flatten(),
        false => found.unseen,
    };
    // Of a path that no gate has seen everything else follows.
    findings.extend(match unseen {
        Some(unseen) => ungated_path(environment, plane, &unseen, is_open),
        None => found
            .lineage
            .and_then(|lineage| unpromoted(environment, names, plane, snapshot, &lineage)),
    });
    findings
}

/// The chain of a repository; `None` where it cannot be followed, and for folders, whose commits nobody promotes.
fn chain(written: WrittenChain<'_>) -> Option<Chain<'_>> {
    let WrittenChain {
        request,
        opened,
        listed,
    } = written;
    let Origin::Repository { url, branch } = &request.from else {
        return None;
    };
    let mut sources = request.sources.clone();
    sources.insert_given(url);
    let read_from = (sources, &request.cache);
    Chain::of_listed((url, branch.clone()), read_from, opened, listed.ok()?).ok()
}

/// A warning that the path of a base is none that a gate before it has seen.
fn ungated_path(
    environment: &str,
    plane: &ControlPlane,
    unseen: &PromoteError,
    is_open: bool,
) -> Option<Diagnostic> {
    let PromoteError::UnseenPath {
        from,
        path,
        their_path,
        ..
    } = unseen
    else {
        return None;
    };
    let refused = match is_open {
        true => "`promote` refuses the next move of it",
        false => "`bundle`, `publish` and `serve` refuse it",
    };
    let message = format!(
        "the base of `{environment}` has the path `{path}`, where that of `{from}` has `{their_path}`, and no promotion brought that path: the \
         gate of `{from}` says nothing about what is there; {refused}"
    );
    let finding = Diagnostic::warning("ungated-base", message).help(format!(
        "set the path to `{their_path}`; if another path is meant, promote it once with `outhaul promote --to {environment} \
         --override-gate REASON --override-by NAME`"
    ));
    Some(finding.at_any(plane.base_repos.get(MAIN).map(|base| &base.location)))
}

/// A warning that no promotion brought the base to where it is.
fn unpromoted(
    environment: &str,
    names: &BTreeSet<String>,
    plane: &ControlPlane,
    snapshot: &Snapshot,
    lineage: &Lineage,
) -> Option<Diagnostic> {
    let (Err(problem), Some(base)) = (&lineage.promotion, plane.base_repos.get(MAIN)) else {
        return None;
    };
    if lineage.before.is_none() && !lineage.is_disputed {
        return None;
    }
    let message = format!(
        "environment `{environment}` is at base commit {:.12}, and no record of its branch shows that it came there through the gate of {}: {problem}; \
         `bundle`, `publish` and `serve` refuse it, except where the fleet keeps an override for this move",
        snapshot.base.commit,
        quoted(names)
    );
    let finding = Diagnostic::warning("unpromoted-base", message).at(&base.location);
    Some(finding.help(format!(
        "promote it with `outhaul promote --to {environment} --hub URL`: at the same commit that records the evidence and moves nothing"
    )))
}

/// A warning that the chain has no gate before an environment any more that was promoted through one.
fn gate_gone(environment: &str, plane: &ControlPlane, former: &FormerGate) -> Diagnostic {
    let message = format!(
        "environment `{environment}` is the first one now, and commit {:.12} of its branch records that it was promoted {}: `promote` does not move it \
         without that gate, and `bundle`, `publish` and `serve` ship it only from where such a promotion brought it",
        former.made,
        former.how()
    );
    let finding = Diagnostic::warning("gate-gone", message);
    let base = plane.base_repos.get(MAIN);
    let finding = finding.at_any(base.map(|base| &base.location));
    finding.help("put the environment before it back into `.environments/` of the control plane")
}
