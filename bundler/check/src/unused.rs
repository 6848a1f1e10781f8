//! What a command line names and nothing uses: local copies of repositories, and programs of scanners. A URL that was misspelt is fetched
//! from its server then, and nothing is scanned, in silence.
//!
//! What comes in: a platform that was made, and URLs and programs that the command line names besides. What goes out: each `--source` that
//! had no effect, and that neither the control plane, nor what is rendered, nor a workload's manifests name; each `--scanner` that no
//! delivery policy names. It opens nothing that was not open, and runs no program.

use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_git::address::Address;
use outhaul_git::source::normal_url;
use outhaul_kit::suggest::nearest;
use outhaul_kit::url_secrets::without_secrets;
use outhaul_load::manifests::Manifests;
use outhaul_load::pipeline::Platform;
use outhaul_load::program::Programs;

/// The code of the finding.
const CODE: &str = "source-without-effect";

/// A note for each scanner that a program is given for, and that no delivery policy names: nothing is scanned by it.
pub fn scanners(plane: &ControlPlane, given: &Programs) -> Vec<String> {
    let wanted = plane
        .deliveries
        .values()
        .filter_map(|policy| policy.scan.as_deref());
    let wanted: Vec<&str> = wanted.collect();
    let note = |name: &str| {
        let why = match nearest(name, &wanted) {
            Some(near) => format!("no delivery policy names it; did you mean `{near}`?"),
            None => "no delivery policy names it (`scan`)".to_owned(),
        };
        format!("scanner `{name}` has a program and scans nothing: {why}")
    };
    given.unused(&wanted).into_iter().map(note).collect()
}

/// What of the mappings of `platform` has no effect; nothing where a workload's repository could not be read, which may name more, or a URL
/// is refused, which the mapping may be right for.
pub fn sources(platform: &Platform, also: Option<&str>) -> Diagnostics {
    let plane = &platform.control_plane;
    let mut findings = Diagnostics::new();
    let unused = platform.sources.unused();
    if unused.is_empty() || !plane.lost.is_empty() {
        return findings;
    }
    let mut named = named(plane);
    if named.iter().any(|(url, _)| Address::parse(url).is_err()) {
        return findings;
    }
    named.extend(also.into_iter().map(|url| (normal_url(url), None)));
    let mut manifests = Manifests::new(platform);
    for (url, branch) in unused {
        let is_named = |(other, of): &(String, Option<String>)| {
            *other == url && (branch.is_none() || of.is_none() || *of == branch)
        };
        if named.iter().any(is_named) || manifests.name(&url) {
            continue;
        }
        let typed = match &branch {
            Some(branch) => format!("{url}#{branch}"),
            None => url.clone(),
        };
        let urls: Vec<&str> = named.iter().map(|(url, _)| url.as_str()).collect();
        let help = match nearest(&url, &urls) {
            Some(near) => format!("did you mean `{}`?", without_secrets(near)),
            None => "correct its URL, or remove it".to_owned(),
        };
        let message = format!(
            "`--source {}` has no effect: nothing here names that repository",
            without_secrets(&typed)
        );
        findings.push(Diagnostic::warning(CODE, message).help(help));
    }
    findings
}

/// What is to be said of local copies that have no effect. In a `strict` run they stop everything, as one broken assignment does.
///
/// # Errors
/// What is wrong, in a strict run.
pub fn warned_or_refused(
    platform: &Platform,
    also: Option<&str>,
    strict: bool,
) -> Result<Diagnostics, Diagnostics> {
    let unused = sources(platform, also);
    if strict {
        platform.whole_or_refused(&unused)?;
    }
    Ok(unused)
}

/// Of the `unused` local copies of each environment, those that none of them uses; nothing where that is not known of one of them.
pub fn everywhere(unused: &[Option<&Diagnostics>]) -> Diagnostics {
    let each: Option<Vec<&Diagnostics>> = unused.iter().copied().collect();
    let Some((first, others)) = each.as_deref().and_then(<[_]>::split_first) else {
        return Diagnostics::new();
    };
    let in_all = first.iter().filter(|finding| {
        let is_it = |other: &Diagnostic| other.message == finding.message;
        others.iter().all(|other| other.iter().any(is_it))
    });
    in_all.cloned().collect()
}

/// The repositories that a control plane names, with their branches where one is named.
fn named(plane: &ControlPlane) -> Vec<(String, Option<String>)> {
    let registrations = plane.registrations.values().map(|one| &one.workload);
    let bases = plane.base_repos.values().map(|one| &one.at);
    let platforms = plane.gitops_repos.values().map(|one| &one.at);
    let environments = plane.environments.values().map(|one| &one.control_plane);
    let places = registrations.chain(bases).chain(platforms);
    let places = places.chain(environments);
    let mut all: Vec<_> = places
        .map(|at| (normal_url(&at.repo.value), Some(at.branch.clone())))
        .collect();
    let targets = plane.targets.values().chain(plane.other_targets.values());
    for manifests in targets.filter_map(|target| target.manifests.as_ref()) {
        if let Some(repo) = manifests.get("repo") {
            all.push((normal_url(repo), manifests.get("branch").cloned()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_copy_is_unused_when_no_environment_uses_it() {
        let unused = |urls: &[&str]| -> Diagnostics {
            let findings = urls.iter().map(|url| Diagnostic::warning(CODE, *url));
            findings.collect()
        };
        let (one, both, none) = (unused(&["a"]), unused(&["b", "a"]), unused(&[]));
        let messages = |each: &[Option<&Diagnostics>]| -> Vec<String> {
            let findings = everywhere(each);
            findings.iter().map(|one| one.message.clone()).collect()
        };
        assert_eq!(messages(&[Some(&one), Some(&both)]), ["a"]);
        assert_eq!(messages(&[Some(&both)]), ["b", "a"]);
        assert!(messages(&[Some(&one), Some(&none)]).is_empty());
        // One that cannot be loaded may name it.
        assert!(messages(&[Some(&one), None]).is_empty());
        assert!(messages(&[]).is_empty());
    }
}
