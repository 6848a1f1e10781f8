//! The reconcilers of a cluster: plain manifests, applied to its API server by the agent itself, and the objects
//! of a controller, Flux, Argo CD or Fleet, which then does the work.
//!
//! What comes in: an assignment's manifests. What goes out: its objects on the cluster, by server-side apply
//! under the field manager `outhaul`, each with an inventory row committed before. Everything is looked at,
//! and asked of the server as a dry run, before anything is changed. What someone else made is not touched
//! unless the stream says so. It prints no token and no secret value.

use std::rc::Rc;
use std::time::Duration;

use outhaul_bundle::Digest;
use outhaul_bundle::index::DriftPolicy;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kubernetes::{Cluster, Key, order};
use zeroize::Zeroizing;

use crate::assignment::Desired;
use crate::context::ReconcilerContext;
use crate::error::ApplyError;
use crate::inventory::{Item, Ledger};
use crate::outcome::{Change, Stop, of_assignment, result, step};
use crate::reconciler::Reconciler;
use crate::sealed::struck_out;
use crate::settings::{ArgoCdConfig, FleetConfig, FluxConfig, KubernetesConfig};

pub mod access;
pub mod argocd;
pub mod controller;
pub mod fleet;
pub mod flux;
pub mod follows;
pub(crate) mod inspect;
pub(crate) mod objects;
pub(crate) mod observe;
mod original;
pub(crate) mod ownership;
mod prune;
mod site_error;
mod values;
mod wait;

use argocd::ArgoCd;
use controller::{ManifestController, PlainManifests};
use fleet::Fleet;
use flux::Flux;
use inspect::InspectedObject;
use objects::DesiredObjects;
use ownership::{Owner, Ownership, OwnershipRecord, uid_of};
use site_error::{site_error, site_error_of};

/// The name of plain manifests in the index and the inventory.
pub const KIND: &str = "kubernetes";

/// The reconciler.
#[derive(Debug)]
pub struct Kubernetes {
    config: KubernetesConfig,
    controller: Box<dyn ManifestController>,
    site: Rc<dyn ReconcilerContext>,
}

impl Kubernetes {
    /// Plain manifests, with the site's settings.
    pub fn new(config: &KubernetesConfig, site: Rc<dyn ReconcilerContext>) -> Self {
        Self {
            config: config.clone(),
            controller: Box::new(PlainManifests),
            site,
        }
    }

    /// What is rendered for Flux.
    pub fn flux(
        config: &KubernetesConfig,
        flux: &FluxConfig,
        site: Rc<dyn ReconcilerContext>,
    ) -> Self {
        Self {
            controller: Box::new(Flux::new(flux)),
            ..Self::new(config, site)
        }
    }

    /// What is rendered for Argo CD.
    pub fn argocd(
        config: &KubernetesConfig,
        argocd: &ArgoCdConfig,
        site: Rc<dyn ReconcilerContext>,
    ) -> Self {
        Self {
            controller: Box::new(ArgoCd::new(argocd)),
            ..Self::new(config, site)
        }
    }

    /// What is rendered for Rancher Fleet.
    pub fn fleet(
        config: &KubernetesConfig,
        fleet: &FleetConfig,
        site: Rc<dyn ReconcilerContext>,
    ) -> Self {
        Self {
            controller: Box::new(Fleet::new(fleet)),
            ..Self::new(config, site)
        }
    }

    fn read(&self, desired: &Desired) -> Result<DesiredObjects, String> {
        let mut all = objects::read(desired, &*self.site, self.controller.payload())?;
        let handed = self.controller.hand_on(&mut all);
        handed.map_err(|problem| struck_out(&problem, &all.values))?;
        Ok(all)
    }

    pub(crate) fn cluster(&self) -> Result<Cluster, ApplyError> {
        let timeout = Duration::from_secs(self.config.timeout_s);
        Cluster::new(&access::of(&self.config)?, timeout).map_err(|trouble| site_error(&trouble))
    }

    fn patience(&self, all: &DesiredObjects) -> Duration {
        Duration::from_secs(all.settings.wait_seconds.unwrap_or(self.config.wait_s))
    }
}

/// A result without any opened value: in the message, in the objects' names, and in what is said of them.
fn redacted_result(
    desired: &Desired,
    all: &DesiredObjects,
    status: ComplianceStatus,
    message: &str,
    steps: Vec<StepResult>,
) -> AssignmentResult {
    let message = struck_out(message, &all.values);
    result(desired, status, &message, without(steps, &all.values))
}

/// Steps without any of `values`.
fn without(mut steps: Vec<StepResult>, values: &[Zeroizing<String>]) -> Vec<StepResult> {
    for step in &mut steps {
        step.name = struck_out(&step.name, values);
        step.message = struck_out(&step.message, values);
    }
    steps
}

/// Files that nothing was made of, as steps.
fn without_manifests(all: &DesiredObjects) -> Vec<StepResult> {
    let others = all.others.iter();
    others
        .map(|name| step(name, "skipped", "it holds no manifests"))
        .collect()
}

impl Reconciler for Kubernetes {
    fn kind(&self) -> &'static str {
        self.controller.kind()
    }

    /// There is a kubeconfig, or a pod's service account, and a program that logs in does. The server is asked when something is applied.
    fn ready(&self) -> Result<(), ApplyError> {
        let cluster = self.cluster()?;
        cluster.log_in().map_err(|trouble| site_error(&trouble))
    }

    fn goes_with_removed(&self, gone: bool, recorded: &[Item]) -> Vec<Change> {
        let named = recorded.iter().filter(|item| {
            Key::parse(&item.item).is_some_and(|key| {
                key.is_definition() && self.config.remove_definitions.contains(&key.name)
            })
        });
        let which = match gone {
            true => "",
            false => ", if the bundle does not have it any more,",
        };
        let with = prune::WITH_OBJECTS;
        named
            .map(|item| Change {
                action: "remove",
                item: format!("{}{which} {with}", item.item),
            })
            .collect()
    }

    fn apply(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        self.with_read(desired, |all| {
            self.apply_all(desired, all, recorded, ledger, heartbeat)
        })
    }

    fn observe(
        &self,
        desired: &Desired,
        recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        self.with_read(desired, |all| {
            self.observe_all(desired, all, recorded, true, heartbeat)
        })
    }

    /// Waits until every object is ready, or one has failed, or the time is up.
    fn health(
        &self,
        desired: &Desired,
        recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<Option<AssignmentResult>, ApplyError> {
        self.with_read(desired, |all| {
            self.health_all(desired, all, recorded, heartbeat)
        })
        .map(Some)
    }

    fn health_waits(&self) -> bool {
        true
    }

    fn prunes_last(&self) -> bool {
        true
    }

    fn prune(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<Option<AssignmentResult>, ApplyError> {
        // What is wanted was recorded again when it was applied.
        if recorded
            .iter()
            .all(|item| item.generation == desired.generation)
        {
            return Ok(None);
        }
        self.with_read(desired, |all| {
            self.prune_all(desired, all, recorded, ledger, heartbeat)
        })
        .map(Some)
    }

    fn remove(
        &self,
        _instead: u64,
        _assignment: &str,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<Vec<StepResult>, ApplyError> {
        // What the server says of an object may quote what was sealed in it.
        let values = values::of_recorded(&*self.site, recorded);
        self.cluster()
            .and_then(|cluster| {
                let manner = prune::PruneOptions {
                    controller: &*self.controller,
                    patience: Duration::from_secs(self.config.wait_s),
                    gone: true,
                    definitions: &self.config.remove_definitions,
                };
                prune::prune(&cluster, recorded, manner, ledger, heartbeat)
            })
            .map(|steps| values.strike_out_of(steps))
            .map_err(|error| error.without(values.known()))
    }
}

impl Kubernetes {
    /// The row of one object.
    fn item(
        &self,
        desired: &Desired,
        looked: &InspectedObject,
        origin: Ownership,
        owner: &Owner,
        meaning: Option<Digest>,
    ) -> Item {
        let mark = OwnershipRecord {
            content: looked.content,
            origin,
            owner: owner.clone(),
            meaning,
        };
        let key = looked.object.key.to_string();
        Item::intent(self.kind(), desired, key, mark.to_text())
    }

    /// What an earlier state folder of this site would have recorded of an assignment. The objects themselves say
    /// whether they are still this site's, when they are to go.
    pub fn known_again(&self, desired: &Desired) -> Vec<Item> {
        let Ok(mut all) = self.read(desired) else {
            return Vec::new();
        };
        let default = all.namespace();
        let owner = Owner::of(desired);
        for wanted in &mut all.objects {
            let key = &mut wanted.object.key;
            if key.namespace.is_none() {
                key.namespace.clone_from(&default);
            }
        }
        // What this site adds is known again, too, if it still can be said.
        if let Err(error) = self.controller.adapt(&mut all) {
            tracing::warn!("{error}");
        }
        let objects = all.objects.into_iter().map(|wanted| {
            let looked = InspectedObject::unseen(wanted);
            self.item(desired, &looked, Ownership::New, &owner, None)
        });
        objects.collect()
    }

    /// Does `work` on what an assignment asks for. Nothing that ends it early shows what was opened.
    fn with_read(
        &self,
        desired: &Desired,
        work: impl FnOnce(DesiredObjects) -> Result<AssignmentResult, Stop>,
    ) -> Result<AssignmentResult, ApplyError> {
        let mut values = Vec::new();
        let done = self.read(desired).map_err(Stop::failed).and_then(|all| {
            values.clone_from(&all.values);
            work(all)
        });
        let done = done.map_err(|stop| match stop {
            Stop::Site(error) => Stop::Site(error.without(&values)),
            Stop::Assignment(steps, why) => {
                Stop::Assignment(without(steps, &values), struck_out(&why, &values))
            }
        });
        of_assignment(desired, done)
    }

    fn apply_all(
        &self,
        desired: &Desired,
        mut all: DesiredObjects,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, Stop> {
        let cluster = self.cluster()?;
        let owner = Owner::of(desired);
        let correct = desired.drift == DriftPolicy::Correct;

        // Look at everything before anything is changed.
        let (controller, objects) = (&*self.controller, &mut all);
        let looked = inspect::inspect(
            &cluster, controller, objects, recorded, &owner, correct, heartbeat,
        );
        let looked = looked.map_err(|stop| match stop {
            Stop::Assignment(steps, problem) => Stop::Assignment(
                steps,
                format!("{problem}; nothing of this assignment was applied"),
            ),
            site @ Stop::Site(_) => site,
        })?;
        let intents: Vec<Item> = looked
            .iter()
            .map(|looked| {
                let (origin, meaning) = (looked.origin.clone(), looked.meaning);
                self.item(desired, looked, origin, &owner, meaning)
            })
            .collect();
        ledger.intend(&intents)?;
        ledger.passed("inventory-intended");

        let mut steps = without_manifests(&all);
        let mut founded = false;
        for (at, one) in looked.iter().enumerate() {
            heartbeat.beat();
            let key = &one.object.key;
            if !founded && order::rank(key) > order::FOUNDATION {
                founded = true;
                let foundation = looked
                    .iter()
                    .take(at)
                    .filter(|one| one.object.key.is_definition());
                let patience = self.patience(&all);
                if let Err(why) = self.wait(&cluster, foundation, patience, heartbeat)? {
                    return Err(self.unready(why, steps, patience));
                }
                cluster.forget_kinds();
            }
            let kind = Some((key.group.as_str(), key.kind.as_str()));
            let defined = looked.iter().any(|other| other.object.defines() == kind);
            let patience = if defined {
                self.patience(&all)
            } else {
                Duration::ZERO
            };
            let Some(resource) = self.resource(&cluster, one, patience, heartbeat)? else {
                let problem = inspect::unknown_kind(&one.object);
                steps.push(step(key.to_string(), "failed", ""));
                return Err(Stop::Assignment(steps, problem));
            };
            let applied = match cluster.apply(&resource, key, &one.object.value, one.force, false) {
                Ok(applied) => applied,
                Err(trouble) if inspect::is_of_the_site(&trouble) => {
                    return Err(site_error_of(key, &trouble).into());
                }
                Err(refused) => {
                    let message = format!(
                        "`{key}`: {refused}; {at} of {} objects are applied, this one and those after it are not",
                        looked.len()
                    );
                    steps.push(step(key.to_string(), "failed", refused.to_string()));
                    return Err(Stop::Assignment(steps, message));
                }
            };
            ledger.passed("object-applied");
            let uid = uid_of(&applied.value).to_owned();
            let origin = match &one.origin {
                Ownership::Took(_) => Ownership::Took(uid),
                Ownership::New | Ownership::Made(_) => Ownership::Made(uid),
            };
            let meaning = self.controller.meaning(key, &applied.value);
            ledger.intend(&[self.item(desired, one, origin, &owner, meaning)])?;
            ledger.passed("object-recorded");
            let became = one.became(&*self.controller, &applied.value);
            steps.push(step(key.to_string(), became, one.note.clone()));
        }
        let objects = looked.iter().map(|one| &one.object);
        self.ask_for_attention(&cluster, desired, objects)?;

        ledger.confirm(self.kind(), desired.assignment.name.as_str())?;
        Ok(redacted_result(
            desired,
            &all,
            ComplianceStatus::Compliant,
            "",
            steps,
        ))
    }

    fn prune_all(
        &self,
        desired: &Desired,
        mut all: DesiredObjects,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, Stop> {
        let cluster = self.cluster()?;
        inspect::prepare(&cluster, &*self.controller, &mut all, &Owner::of(desired))?;
        let surplus = prune::surplus(&cluster, recorded, &all, ledger)?;
        let manner = prune::PruneOptions {
            controller: &*self.controller,
            patience: self.patience(&all),
            gone: false,
            definitions: &self.config.remove_definitions,
        };
        let removed = prune::prune(&cluster, &surplus, manner, ledger, heartbeat)?;
        let left = removed.iter().find(|step| step.status != "removed");
        let message = left.map_or_else(String::new, |step| step.message.clone());
        let status = ComplianceStatus::Compliant;
        Ok(redacted_result(desired, &all, status, &message, removed))
    }
}

#[cfg(test)]
mod tests;
