//! A whole control plane: what its environments share is said once, and what it all amounts to.
//!
//! What comes in: each environment as it was checked, and what is wrong with the list of them. What goes out: every finding once, and
//! the kind of failure. It is pure but for [`promoted_as_it_is`], which asks a working copy for its commit.

use std::path::Path;

use outhaul_control::Diagnostics;
use outhaul_control::diagnostic::Diagnostic;
use outhaul_git::source::git::{Repository, is_repository};
use outhaul_load::{LoadRequest, Origin};

use crate::environment::CheckedEnvironment;
use crate::unused;

/// Environments of one control plane, checked.
#[derive(Debug)]
pub struct CheckedPlane {
    /// Each of them, without what is wrong with the list.
    pub environments: Vec<CheckedEnvironment>,
    /// Every finding once, sorted by place.
    pub findings: Diagnostics,
}

impl CheckedPlane {
    /// Of `environments`; `unlisted` is what is wrong with the list of them, such as the file of another one: that is said once, as the
    /// error that it is.
    pub fn of(mut environments: Vec<CheckedEnvironment>, unlisted: Diagnostics) -> Self {
        let said: Vec<_> = unlisted.iter().map(place).collect();
        let mut findings = unlisted;
        for one in &mut environments {
            let own = std::mem::take(&mut one.findings);
            let own = own.iter().filter(|finding| !said.contains(&place(finding)));
            one.findings = own.cloned().collect();
            findings.append(one.findings.clone());
        }
        let unused: Vec<_> = environments.iter().map(|one| one.unused.as_ref()).collect();
        findings.append(unused::everywhere(&unused));
        findings.sort();
        Self {
            environments,
            findings,
        }
    }
}

/// Where a finding is, and what it is.
fn place(finding: &Diagnostic) -> (Option<String>, String) {
    let at = finding.location.as_ref().map(ToString::to_string);
    (at, finding.message.clone())
}

/// Where the working copy that `request` reads holds what is promoted, it reads it as if all of that had been.
pub fn promoted_as_it_is(request: &mut LoadRequest) {
    let Origin::Repository { url, .. } = &request.from else {
        return;
    };
    let folder = Path::new(url.strip_prefix("file://").unwrap_or(url));
    if !is_repository(folder) || !folder.join(outhaul_load::ENVIRONMENTS).is_dir() {
        return;
    }
    if let Ok(commit) = Repository::at(folder).revision(url, "HEAD") {
        request.sources.pin(outhaul_load::PROMOTED, "", &commit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(name: &str, findings: &[&str], unused: Option<&[&str]>) -> CheckedEnvironment {
        let all = |texts: &[&str]| -> Diagnostics {
            let texts = texts.iter();
            texts.map(|text| Diagnostic::warning("w", *text)).collect()
        };
        CheckedEnvironment {
            environment: name.to_owned(),
            snapshot: None,
            findings: all(findings),
            cluster_types: 0,
            targets: 0,
            assignments: 0,
            not_looked_at: Vec::new(),
            not_asked_for: Vec::new(),
            not_pulled: Vec::new(),
            unused: unused.map(all),
            not_promoted: None,
        }
    }

    #[test]
    fn what_environments_share_and_what_is_wrong_with_the_list_is_said_once() {
        let mut unlisted = Diagnostics::new();
        unlisted.push(Diagnostic::error("e", "unreadable"));
        let dev = checked(
            "dev",
            &["shared", "unreadable"],
            Some(&["unused", "of prod"]),
        );
        let prod = checked("prod", &["shared", "own"], Some(&["unused"]));
        let plane = CheckedPlane::of(vec![dev, prod], unlisted);
        let messages = |findings: &Diagnostics| -> Vec<String> {
            findings.iter().map(|one| one.message.clone()).collect()
        };
        let expected = ["unreadable", "own", "shared", "unused"];
        assert_eq!(messages(&plane.findings), expected);
        assert_eq!(messages(&plane.environments[0].findings), ["shared"]);
        assert!(plane.findings.has_errors());
    }
}
