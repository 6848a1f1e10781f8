//! What is wrong with the promotion chain as it is written, before anybody promotes along it.
//!
//! What comes in: where a control plane is. What goes out: a finding, at its place, for each environment that is
//! named and not listed, for each circle, for environments that share one branch, for two policies for one
//! step, for policies that lie where none is read or that do not read, and for each part of the sites that a gate names and its environment does
//! not have. Of a list that cannot be read, whoever loads the environment reports the rest; here it gives findings about links, double names and
//! policies alone.

use std::collections::{BTreeMap, BTreeSet};

use super::unread_policies::{self, BranchUse};
use super::{
    ENVIRONMENTS, ListedObjects, PromoteError, listed, open, open_environment, policy,
    sources_beside,
};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_control::model::{Environment, PromotionPolicy};
use outhaul_git::source::{self, OpenedSource};
use outhaul_kit::suggest::did_you_mean;
use outhaul_load::{LoadRequest, Origin};

/// One written step of the chain.
struct Step<'a> {
    from: &'a str,
    to: &'a str,
    /// Where `from` is written.
    at: &'a Location,
}

/// The chain of a control plane as it is written, read once for all that is looked for in it.
#[derive(Debug)]
pub struct WrittenChain<'a> {
    pub(super) request: &'a LoadRequest,
    /// The branch that lists the environments.
    pub(super) opened: OpenedSource,
    /// The environments and policies, or why they cannot be read.
    pub(super) listed: Result<ListedObjects, PromoteError>,
}

impl<'a> WrittenChain<'a> {
    /// That of the control plane that `request` names; `None` where its branch cannot be read, which whoever loads it reports.
    pub fn read(request: &'a LoadRequest) -> Option<Self> {
        let opened = opened_for(request)?;
        Some(Self {
            request,
            listed: listed(&opened),
            opened,
        })
    }

    /// Each finding about the chain.
    pub fn problems(&self) -> Diagnostics {
        let mut findings = match &self.listed {
            Ok((environments, policies)) => of(environments, policies),
            // What else does not read is reported by whoever loads the list: of the file of another environment as a warning. A promotion
            // policy is nobody's alone: without it nothing is promoted.
            Err(PromoteError::Findings(found)) => {
                let of_policy = |one: &Diagnostic| {
                    let file = one.location.as_ref().map(|at| &at.file);
                    file.is_some_and(|file| unread_policies::written(&file.text).is_some())
                };
                let own = |one: &&Diagnostic| [TWICE, LINK].contains(&one.code) || of_policy(one);
                found.iter().filter(own).cloned().collect()
            }
            Err(_) => Diagnostics::new(),
        };
        let on_list = unread_policies::of(&self.opened, BranchUse::List);
        let on_its_own = match &self.listed {
            Ok((environments, policies)) => own_branch(self.request, environments).map_or_else(
                || Ok(Diagnostics::new()),
                |own| unread_policies::beside(&self.opened, policies, &own),
            ),
            Err(_) => Ok(Diagnostics::new()),
        };
        let own = format!("the branch of environment `{}`", self.request.environment);
        for (branch, found) in [
            ("the branch that lists the environments", on_list),
            (own.as_str(), on_its_own),
        ] {
            match found {
                Ok(found) => findings.append(found),
                Err(error) => findings.push(unread_policies::not_looked_at(branch, &error)),
            }
        }
        findings
    }

    /// A warning for each rule of a gate for a part of the sites of `plane`, the environment that was loaded, that it does not have: no site
    /// meets such a rule, and the gate stays closed.
    pub fn unknown_parts(&self, plane: &ControlPlane) -> Diagnostics {
        let Ok((_, policies)) = &self.listed else {
            return Diagnostics::new();
        };
        let types: Vec<&str> = plane.cluster_types.keys().map(String::as_str).collect();
        let workloads: BTreeSet<&str> = plane.targets.values().map(|one| &*one.workload).collect();
        let workloads: Vec<&str> = workloads.into_iter().collect();
        parts_not_in((&self.request.environment, &types, &workloads), policies)
    }
}

/// The environment's own content; `None` where it cannot be read, as whoever loads it says.
fn own_branch(
    request: &LoadRequest,
    environments: &BTreeMap<String, Environment>,
) -> Option<OpenedSource> {
    match &request.from {
        Origin::Repository { url, .. } => {
            let environment = environments.get(&request.environment)?;
            let repository = &environment.control_plane.repo.value;
            let mut sources = request.sources.clone();
            sources.insert_given(url);
            let sources = sources_beside(url, &sources, repository);
            open_environment(environment, &sources, &request.cache).ok()
        }
        Origin::Folders {
            environment_dir, ..
        } => source::open_plain(environment_dir, "", None).ok(),
    }
}

/// Of the gates out of `environment`, with these cluster types and workloads.
fn parts_not_in(
    (environment, types, workloads): (&str, &[&str], &[&str]),
    policies: &[PromotionPolicy],
) -> Diagnostics {
    let mut findings = Diagnostics::new();
    for policy in policies.iter().filter(|one| one.from.value == environment) {
        for part in &policy.rules.parts {
            let named = [
                ("cluster type", &part.cluster_type, types),
                ("workload", &part.workload, workloads),
            ];
            for (what, name, known) in named {
                let Some(name) = name.as_ref().filter(|name| !known.contains(&name.as_str()))
                else {
                    continue;
                };
                let message = format!(
                    "`parts` of promotion policy `{}` names {what} `{name}`, and environment `{environment}` has none of that name: no site can \
                     meet that rule, so the gate stays closed",
                    policy.name
                );
                let finding = Diagnostic::warning("unknown-part", message).at(&policy.location);
                findings.push(finding.help(did_you_mean(name, known)));
            }
        }
    }
    findings
}

/// The branch that lists the environments; `None` where it cannot be read.
fn opened_for(request: &LoadRequest) -> Option<OpenedSource> {
    let opened = match &request.from {
        Origin::Repository { url, branch } => {
            let mut sources = request.sources.clone();
            sources.insert_given(url);
            open(url, branch.as_deref(), &sources, &request.cache)
        }
        Origin::Folders {
            base_dir: Some(base),
            ..
        } => source::open_plain(base, "", None),
        Origin::Folders { .. } => return None,
    };
    opened.ok()
}

/// The circles that `environment` is a part of.
pub(super) fn circles_with(
    environment: &str,
    environments: &BTreeMap<String, Environment>,
    policies: &[PromotionPolicy],
) -> Diagnostics {
    let policies = policies.iter().map(|policy| Step {
        from: &policy.from.value,
        to: &policy.to.value,
        at: &policy.from.location,
    });
    let labels = environments.values().filter_map(|one| {
        let after = one.after.as_ref()?;
        Some(Step {
            from: &after.value,
            to: &one.name,
            at: &after.location,
        })
    });
    let steps: Vec<Step<'_>> = labels.chain(policies).collect();
    let leads_back =
        |step: &&Step<'_>| step.to == environment && path(&steps, environment, step.from).is_some();
    let mut findings = Diagnostics::new();
    if steps.iter().any(|step| leads_back(&step)) {
        circles(&steps, &mut findings);
    }
    findings
}

fn of(environments: &BTreeMap<String, Environment>, policies: &[PromotionPolicy]) -> Diagnostics {
    let mut findings = unknown_in(policies, environments);
    let is_known = |name: &str| environments.contains_key(name);
    let mut steps = Vec::new();
    for environment in environments.values() {
        findings.extend(unknown_before(environment, environments));
        if let Some(after) = environment.after.as_ref().filter(|at| is_known(&at.value)) {
            steps.push(Step {
                from: &after.value,
                to: &environment.name,
                at: &after.location,
            });
        }
    }
    for policy in policies {
        if is_known(&policy.from.value) && is_known(&policy.to.value) {
            steps.push(Step {
                from: &policy.from.value,
                to: &policy.to.value,
                at: &policy.from.location,
            });
        }
    }
    circles(&steps, &mut findings);
    shared_branches(environments, &mut findings);
    if let Err(PromoteError::Findings(twice)) = policy::contradictions(policies) {
        findings.append(twice);
    }
    findings
}

/// An error for each environment that a policy names and nobody listed: the step that is meant would have the default rules.
pub(super) fn unknown_in(
    policies: &[PromotionPolicy],
    environments: &BTreeMap<String, Environment>,
) -> Diagnostics {
    let mut findings = Diagnostics::new();
    for policy in policies {
        for (side, name) in [("from", &policy.from), ("to", &policy.to)] {
            let what = format!("promotion policy `{}` leads {side}", policy.name);
            findings.extend(unknown(&name.value, &name.location, &what, environments));
        }
    }
    findings
}

/// The same of the environment that the label of another one names.
pub(super) fn unknown_before(
    environment: &Environment,
    environments: &BTreeMap<String, Environment>,
) -> Option<Diagnostic> {
    let after = environment.after.as_ref()?;
    let what = format!("environment `{}` comes after", environment.name);
    unknown(&after.value, &after.location, &what, environments)
}

fn unknown(
    name: &str,
    at: &Location,
    what: &str,
    environments: &BTreeMap<String, Environment>,
) -> Option<Diagnostic> {
    if environments.contains_key(name) {
        return None;
    }
    let names: Vec<&str> = environments.keys().map(String::as_str).collect();
    let message = format!("{what} `{name}`, and `{ENVIRONMENTS}/` lists no such environment");
    let finding = Diagnostic::error("unknown-environment", message).at(at);
    Some(finding.help(did_you_mean(name, &names)))
}

/// Codes of what only the list of environments has.
const TWICE: &str = "listed-twice";
const LINK: &str = "link";

/// A link in the list, which is not followed.
pub(super) fn linked(name: &str) -> Diagnostic {
    let message = format!(
        "`{name}` is a symbolic link or a submodule: it is not read, and a promotion policy there would have no effect"
    );
    Diagnostic::error(LINK, message).help("put the file itself there, or remove the link")
}

/// A file of the list that is not text.
pub(super) fn not_text(name: &str) -> Diagnostic {
    let message = format!(
        "`{name}` is not UTF-8 text: it is not read, and a promotion policy in it would have no effect"
    );
    Diagnostic::error("not-text", message).help("save it as UTF-8, or rename it")
}

/// One environment listed twice: which of the two is meant is not ours to guess.
pub(super) fn listed_twice(first: &Environment, second: &Environment) -> Diagnostic {
    let message = format!("environment `{}` is listed twice", first.name);
    Diagnostic::error(TWICE, message)
        .at(&second.location)
        .related(&first.location, "first here")
        .help("keep one of them")
}

/// Each circle once, at the step that closes it.
fn circles(steps: &[Step<'_>], findings: &mut Diagnostics) {
    let mut done: Vec<&str> = Vec::new();
    for step in steps {
        let Some(path) = path(steps, step.to, step.from) else {
            continue;
        };
        if path.iter().any(|name| done.contains(name)) {
            continue;
        }
        done.extend(&path);
        let names = [step.from].into_iter().chain(path.iter().copied());
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        let message = format!("the promotion chain is a circle: {}", names.join(" → "));
        findings.push(
            Diagnostic::error("promotion-circle", message)
                .at(step.at)
                .help("remove one of these steps: nothing can be promoted along them, and no environment is the first"),
        );
    }
}

/// The environments from `from` to `to` along the steps, both included.
fn path<'a>(steps: &[Step<'a>], from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut paths = vec![vec![from]];
    let mut seen = vec![from];
    while let Some(path) = paths.pop() {
        let last = path.last().copied().unwrap_or_default();
        if last == to {
            return Some(path);
        }
        for step in steps.iter().filter(|step| step.from == last) {
            if !seen.contains(&step.to) {
                seen.push(step.to);
                paths.push([&path[..], &[step.to]].concat());
            }
        }
    }
    None
}

/// Where an environment's own content lies: what two environments must not have in common.
fn place(environment: &Environment) -> (String, &str, String) {
    let at = &environment.control_plane;
    let path = source::normal_path(&at.path).unwrap_or_default();
    (source::normal_url(&at.repo.value), at.branch.as_str(), path)
}

/// Another environment that lies where `environment` does.
pub(super) fn shares_with<'e>(
    environments: &'e BTreeMap<String, Environment>,
    environment: &Environment,
) -> Option<&'e Environment> {
    let mut others = environments.values();
    others.find(|other| other.name != environment.name && place(other) == place(environment))
}

/// What is promoted into one of them would be promoted into the other.
fn shared_branches(environments: &BTreeMap<String, Environment>, findings: &mut Diagnostics) {
    let mut first: BTreeMap<(String, &str, String), &Environment> = BTreeMap::new();
    for environment in environments.values() {
        let at = &environment.control_plane;
        let place = place(environment);
        let Some(other) = first.get(&place) else {
            first.insert(place, environment);
            continue;
        };
        let message = format!(
            "environments `{}` and `{}` are on one branch, `{}`: what is promoted into one is promoted into both",
            other.name, environment.name, at.branch
        );
        findings.push(
            Diagnostic::error("shared-branch", message)
                .at(&at.branch_at)
                .related(&other.control_plane.branch_at, "also here")
                .help("give each environment its own branch or path"),
        );
    }
}
