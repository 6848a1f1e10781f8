//! Assemble: from single objects to one [`ControlPlane`], checked as a whole.
//!
//! What comes in: every object with who brought it. What goes out: the control plane; findings are
//! added where two objects have one name. It is pure, and the order of files never matters.

use std::collections::BTreeMap;

use super::diagnostic::{Diagnostic, Diagnostics, Location};
use super::kinds::{Object, Workload, composition};
use super::model::{CompositionPolicy, ControlPlane, DeploymentTarget, UnreadableRegistration};

/// Labels that Flux puts on what it applies; templates of a Kalypso control plane may print them.
const FLUX_NAME: &str = "kustomize.toolkit.fluxcd.io/name";
const FLUX_NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";
const WORKLOAD: &str = "Workload";

/// Who brought an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectOrigin {
    /// The environment's own folder or branch.
    Environment,
    /// A base repository, by name.
    Base,
    /// A workload registration: its name and workspace.
    Registration {
        /// The registration.
        name: String,
        /// Whose it is.
        workspace: String,
    },
}

/// One object and who brought it.
#[derive(Debug)]
pub struct FoundObject {
    /// The object.
    pub object: Object,
    /// Who brought it.
    pub by: ObjectOrigin,
}

/// What was found, before it is checked as a whole.
#[derive(Debug, Default)]
pub struct RawObjects {
    /// Objects, in the order of reading.
    pub objects: Vec<FoundObject>,
    /// The commit that is promoted into the environment.
    pub promoted_commit: Option<String>,
    /// Registrations whose repository gives no whole workload.
    pub lost: BTreeMap<String, UnreadableRegistration>,
}

/// One control plane of `everything`; what contradicts itself in it is among `findings`.
pub fn assemble(
    environment: &str,
    everything: RawObjects,
    findings: &mut Diagnostics,
) -> ControlPlane {
    let mut plane = ControlPlane {
        environment: environment.into(),
        promoted_commit: everything.promoted_commit,
        lost: everything.lost,
        ..ControlPlane::default()
    };
    let mut places: BTreeMap<(&'static str, String), (Location, ObjectOrigin)> = BTreeMap::new();
    for FoundObject { object, by } in everything.objects {
        let key = (object.kind(), object.name().to_owned());
        if let Some((first, brought)) = places.get(&key) {
            let at = object.location();
            let is_taken = key.0 == WORKLOAD;
            let of = |by| registration_of(by).filter(|_| is_taken);
            let names = |name| is_owner(name, &key.1);
            match (of(&by), of(brought)) {
                (Some(by), Some((its, _))) if names(its) && !names(by.0) => {
                    lose(
                        &mut plane,
                        by,
                        &name_in_use(key.0, &key.1, at, (first, its)),
                    );
                    continue;
                }
                (Some((its, _)), Some(brought)) if names(its) && !names(brought.0) => {
                    let finding = name_in_use(key.0, &key.1, first, (at, its));
                    plane.targets.retain(|_, one| one.registration != brought.0);
                    lose(&mut plane, brought, &finding);
                }
                _ => {
                    let finding = twice(key.0, &key.1, at, first);
                    // Nothing says which of two teams has the name: what ran of both stays as it was.
                    let teams = [&by, brought].into_iter().filter_map(registration_of);
                    let teams: Vec<_> = teams.collect();
                    for team in &teams {
                        lose(&mut plane, *team, &finding);
                    }
                    if teams.is_empty() {
                        findings.push(finding);
                    }
                    continue;
                }
            }
        }
        places.insert(key, (object.location().clone(), by.clone()));
        add(&mut plane, object, by, findings);
    }
    of_unreadable(&mut plane);
    let lost = &plane.lost;
    let whole =
        |_: &String, target: &mut DeploymentTarget| !lost.contains_key(&target.registration);
    plane.targets.retain(whole);
    plane.other_targets.retain(whole);
    composition::check(&plane, findings);
    plane
}

fn add(plane: &mut ControlPlane, object: Object, by: ObjectOrigin, findings: &mut Diagnostics) {
    match object {
        Object::Acknowledgement(o) => drop(plane.acknowledgements.insert(o.name.clone(), o)),
        Object::BaseRepo(o) => {
            if by == ObjectOrigin::Environment {
                plane.own_bases.insert(o.name.clone());
            }
            plane.base_repos.insert(o.name.clone(), o);
        }
        Object::ClusterType(o) => drop(plane.cluster_types.insert(o.name.clone(), o)),
        Object::Composition(o) => only_policy(plane, o, findings),
        Object::Config(o) => drop(plane.configs.insert(o.name.clone(), o)),
        Object::ConfigSchema(o) => drop(plane.schemas.insert(o.name.clone(), o)),
        Object::Delivery(o) => drop(plane.deliveries.insert(o.name.clone(), o)),
        Object::Environment(o) => drop(plane.environments.insert(o.name.clone(), o)),
        Object::GitOpsRepo(o) => drop(plane.gitops_repos.insert(o.name.clone(), o)),
        Object::Policy(o) => drop(plane.policies.insert(o.name.clone(), o)),
        Object::Promotion(o) => {
            findings.push(misplaced(&o.name, &o.location, &by));
            plane.promotions.insert(o.name.clone(), o);
        }
        Object::Registration(o) => drop(plane.registrations.insert(o.name.clone(), o)),
        Object::Site(o) => drop(plane.sites.insert(o.name.clone(), o)),
        Object::SiteValues(o) => drop(plane.site_values.insert(o.name.clone(), o)),
        Object::Taint(o) => drop(plane.taints.insert(o.name.clone(), o)),
        Object::Template(o) => drop(plane.templates.insert(o.name.clone(), o)),
        Object::Workload(workload) => match by {
            ObjectOrigin::Registration { name, workspace } => {
                targets(plane, workload, &name, &workspace);
            }
            ObjectOrigin::Environment | ObjectOrigin::Base => findings.push(
                Diagnostic::warning(
                    "unregistered-workload",
                    format!(
                        "workload `{}` belongs to no workspace: ignored",
                        workload.name
                    ),
                )
                .at(&workload.location)
                .help("move it to its own repository and point a `WorkloadRegistration` at that"),
            ),
        },
    }
}

/// The name and workspace of the registration that brought something.
fn registration_of(by: &ObjectOrigin) -> Option<(&str, &str)> {
    match by {
        ObjectOrigin::Registration { name, workspace } => Some((name, workspace)),
        ObjectOrigin::Environment | ObjectOrigin::Base => None,
    }
}

/// Whether a workload's name is that of its registration, which no team writes: no other team takes it from that one.
fn is_owner(registration: &str, workload: &str) -> bool {
    registration == workload
}

/// Workloads that have the name of another registration whose repository cannot be read now: what runs under that name is not theirs.
fn of_unreadable(plane: &mut ControlPlane) {
    let mut found = BTreeMap::new();
    for target in plane.targets.values() {
        let (by, name) = (&target.registration, &target.workload);
        if is_owner(by, name) || !plane.lost.contains_key(name) || plane.lost.contains_key(by) {
            continue;
        }
        let owner = plane.registrations.get(name);
        let at = owner.map_or(&target.location, |owner| &owner.location);
        let finding = name_in_use(WORKLOAD, name, &target.location, (at, name));
        found.insert(by.clone(), (target.workspace.clone(), finding));
    }
    for (by, (workspace, finding)) in &found {
        lose(plane, (by, workspace), finding);
    }
}

/// The registration cannot be followed.
fn lose(plane: &mut ControlPlane, (name, workspace): (&str, &str), finding: &Diagnostic) {
    let lost = plane
        .lost
        .entry(name.to_owned())
        .or_insert_with(|| UnreadableRegistration {
            workspace: workspace.to_owned(),
            ..UnreadableRegistration::default()
        });
    lost.findings.push(finding.clone());
}

/// The code of findings about promotion policies that lie where none is read.
pub const MISPLACED_POLICY: &str = "misplaced-policy";

/// The message about `policy` in a folder where no policy is read, for whoever finds it there: who reads the folder for other objects, and who
/// looks for such policies alone. Findings with one code and message are about the same.
pub fn not_beside(policy: &str) -> String {
    format!("{policy} does not lie beside the environments: it has no effect")
}

/// The same about `policy` on the branch of an environment.
pub fn of_an_environment(policy: &str) -> String {
    format!("{policy} is an environment's own: it has no effect")
}

/// An environment must not be able to loosen the rule that lets it be entered. Those that count are not read as objects of one.
fn misplaced(name: &str, location: &Location, by: &ObjectOrigin) -> Diagnostic {
    let policy = format!("promotion policy `{name}`");
    let message = match by {
        ObjectOrigin::Environment => of_an_environment(&policy),
        ObjectOrigin::Base | ObjectOrigin::Registration { .. } => not_beside(&policy),
    };
    Diagnostic::warning(MISPLACED_POLICY, message).at(location).help("move it to `.environments/` on the control plane's main branch, beside the environments")
}

/// Two policies would leave it to chance which one counts.
fn only_policy(plane: &mut ControlPlane, policy: CompositionPolicy, findings: &mut Diagnostics) {
    if let Some(first) = &plane.composition {
        findings.push(
            Diagnostic::error(
                "two-policies",
                format!(
                    "environment `{}` has two composition policies, `{}` and `{}`",
                    plane.environment, first.name, policy.name
                ),
            )
            .at(&policy.location)
            .related(&first.location, "first here")
            .help("keep one of them: it is about all config of the environment"),
        );
        return;
    }
    plane.composition = Some(policy);
}

fn targets(plane: &mut ControlPlane, workload: Workload, registration: &str, workspace: &str) {
    let Workload {
        name: workload_name,
        labels: workload_labels,
        targets,
        ..
    } = workload;
    for target in targets {
        let mut labels = target.labels;
        labels.extend(workload_labels.clone());
        labels.insert(
            FLUX_NAME.into(),
            format!("{}-{registration}", plane.environment),
        );
        labels.insert(FLUX_NAMESPACE.into(), "flux-system".into());
        labels.insert("workload".into(), workload_name.clone());
        labels.insert("workspace".into(), workspace.into());
        let made = DeploymentTarget {
            name: format!("{workload_name}-{}", target.name),
            short_name: target.name,
            workload: workload_name.clone(),
            registration: registration.into(),
            workspace: workspace.into(),
            environment: target.environment,
            environment_at: target.environment_at,
            labels,
            manifests: target.manifests,
            storage_at: target.storage_at,
            config_schemas: target.config_schemas,
            location: target.location,
        };
        if made.environment != plane.environment {
            plane
                .other_targets
                .insert(format!("{}/{}", made.environment, made.name), made);
            continue;
        }
        // `a-b` with target `c` and `a` with target `b-c` have one full name.
        if let Some(first) = plane.targets.get(&made.name).cloned() {
            let of = |one: &DeploymentTarget| is_owner(&one.registration, &one.workload);
            let (kind, name) = ("deployment target", made.name.as_str());
            let (lost, finding) = match (of(&first), of(&made)) {
                (true, false) => {
                    let its = (&first.location, first.registration.as_str());
                    (vec![&made], name_in_use(kind, name, &made.location, its))
                }
                (false, true) => {
                    let its = (&made.location, made.registration.as_str());
                    (vec![&first], name_in_use(kind, name, &first.location, its))
                }
                _ => {
                    let finding = twice(kind, name, &made.location, &first.location);
                    (vec![&first, &made], finding)
                }
            };
            for target in &lost {
                lose(plane, (&target.registration, &target.workspace), &finding);
            }
            if lost.contains(&&made) {
                continue;
            }
        }
        plane.targets.insert(made.name.clone(), made);
    }
}

fn twice(kind: &str, name: &str, second: &Location, first: &Location) -> Diagnostic {
    Diagnostic::error(
        "duplicate-name",
        format!("two objects of kind {kind} are called `{name}`"),
    )
    .at(second)
    .related(first, "first here")
    .help("rename one of them, or remove it: one would silently replace the other")
}

/// The name is that of the workload of a registration that is called so.
fn name_in_use(
    kind: &str,
    name: &str,
    intruder: &Location,
    (owner, registration): (&Location, &str),
) -> Diagnostic {
    let message = format!(
        "the {kind} `{name}` is that of registration `{registration}`, and this repository has one of the same name"
    );
    Diagnostic::error("duplicate-name", message)
        .at(intruder)
        .related(owner, "it is this one")
        .help(format!(
            "rename this one: a workload that is called as its registration keeps its name, and `{registration}` goes on as it is"
        ))
}
