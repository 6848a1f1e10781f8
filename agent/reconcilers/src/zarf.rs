//! The Zarf reconciler: the command `zarf` on this host, and the cluster that it deploys packages to.
//!
//! What comes in: an assignment with the definition of one package (`kind: ZarfPackageConfig`) among its rendered files, or with one
//! package in its payload. What goes out: the package made of verified files and deployed, by its own name; what Zarf keeps of it in
//! the cluster, read back; and each object of its charts compared with the cluster. A package that someone else deployed is not
//! touched. Nothing is removed but packages that the inventory lists, by name.

use std::rc::Rc;

use outhaul_bundle::digest::Hasher;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};
use outhaul_kit::heartbeat::Heartbeat;

use crate::assignment::Desired;
use crate::context::ReconcilerContext;
use crate::error::ApplyError;
use crate::inventory::{Item, Ledger, Phase};
use crate::kubernetes::Kubernetes;
use crate::kubernetes::ownership::Owner;
use crate::outcome::{Change, Stop, of_assignment, result, step};
use crate::reconciler::Reconciler;
use crate::settings::{KubernetesConfig, ZarfConfig};

mod charts;
mod deployed;
mod interrupted;
mod package;
mod program;

use deployed::{DeployedPackage, Origin};
use package::{MadePackage, PackageSource};
use program::Zarf as Program;

/// Its name in the index and the inventory.
pub const KIND: &str = "zarf";

/// Begins how a package is known that came as a file.
const READY_MADE: &str = "ready-made ";
/// What Helm says of a release on which something was begun and not ended.
const IN_PROGRESS: &str = "is in progress";

/// The reconciler.
#[derive(Debug)]
pub struct Zarf {
    program: Program,
    cluster: Kubernetes,
    context: Option<String>,
    site: Rc<dyn ReconcilerContext>,
}

impl Zarf {
    /// A reconciler with the site's settings; the cluster is that of `kubernetes`.
    pub fn new(
        config: &ZarfConfig,
        kubernetes: &KubernetesConfig,
        site: Rc<dyn ReconcilerContext>,
    ) -> Self {
        Self {
            program: Program::new(config, kubernetes.kubeconfig.as_deref(), site.hook(KIND)),
            cluster: Kubernetes::new(kubernetes, Rc::clone(&site)),
            context: kubernetes.context.clone(),
            site,
        }
    }

    /// The package of `desired` that an earlier state folder of this agent deployed, as an item of the inventory: the package itself says
    /// for which assignment it was made.
    pub fn known_again(&self, desired: &Desired) -> Vec<Item> {
        let Ok(source) = PackageSource::of(desired, &self.program, &Heartbeat::default()) else {
            return Vec::new();
        };
        let there = self.deployed(&source.name).ok().flatten();
        let ours = there.filter(|there| there.origin(&Owner::of(desired)) == Origin::Ours);
        let item = ours.map(|there| {
            let content = there.content.unwrap_or_default();
            Item::intent(KIND, desired, source.name, content).applied()
        });
        item.into_iter().collect()
    }

    fn apply_or_stop(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, Stop> {
        self.ready()?;
        let source = PackageSource::of(desired, &self.program, heartbeat)?;
        let assignment = desired.assignment.name.as_str();
        let (name, content) = (source.name.as_str(), content_of(desired));
        if let Some(other) = ledger.other_holder(KIND, assignment, name)? {
            return Err(Stop::failed(format!(
                "the package `{name}` belongs to the assignment `{other}`; nothing of `{assignment}` was deployed"
            )));
        }
        let known = recorded.iter().find(|item| item.item == name);
        let there = self.deployed(name)?;
        let is_of_others =
            |there: &DeployedPackage| there.origin(&Owner::of(desired)) != Origin::Ours;
        if known.is_none() && there.as_ref().is_some_and(is_of_others) {
            let of = there.as_ref().and_then(DeployedPackage::owner_text);
            let whose = of.unwrap_or_else(|| "is not Outhaul's".to_owned());
            return Err(Stop::failed(format!(
                "the package `{name}` is deployed on this cluster and {whose}; remove it with `zarf package remove {name} --confirm`, \
                 or give this one another name; nothing of `{assignment}` was deployed"
            )));
        }
        let wanted = Item {
            before: known.map_or_else(String::new, |known| known.digest.clone()),
            ..Item::intent(KIND, desired, name.to_owned(), content.clone())
        };
        let is_the_same =
            known.is_some_and(|known| known.digest == content && known.phase == Phase::Applied);
        if is_the_same {
            let found = self.compare(desired, name, &content, heartbeat)?;
            if found.status == ComplianceStatus::Compliant {
                ledger.intend(&[wanted])?;
                ledger.confirm(KIND, assignment)?;
                return Ok(found);
            }
        }
        ledger.intend(&[wanted])?;
        ledger.passed("inventory-intended");
        // What an agent before this one left at work may still read its folder.
        self.program.waits_and_is_zarf(heartbeat)?;
        let is_whole = there
            .as_ref()
            .is_some_and(|there| there.unfinished().is_none());
        let state = (known.is_some(), is_whole);
        let done = source
            .make(desired, &content, &*self.site, &self.program, heartbeat)
            .and_then(|made| self.deploy(&made, state, &source.definition, heartbeat));
        if let Err(failed) = done {
            // A cluster that does not answer is no bundle's fault.
            self.deployed(name)?;
            return Err(failed);
        }
        ledger.passed("zarf-deployed");
        let mut steps = match self.deployed(name)? {
            Some(there) => there.steps(),
            None => {
                return Err(Stop::failed(format!(
                    "`zarf package deploy` ended well, and the cluster has no package `{name}`"
                )));
            }
        };
        let others: Vec<Item> = recorded
            .iter()
            .filter(|item| item.item != name)
            .cloned()
            .collect();
        steps.extend(self.take_away(&others, ledger, heartbeat)?);
        let left = there.map(|there| there.files_without(&source.definition));
        let stays = |target| step(target, "skipped", deployed::STAYS);
        steps.extend(left.into_iter().flatten().map(stays));
        ledger.confirm(KIND, assignment)?;
        Ok(result(desired, ComplianceStatus::Compliant, "", steps))
    }

    /// Deploys a package. Only what is ours is taken back from others who set it since, and cleared of what a power cut left.
    fn deploy(
        &self,
        made: &MadePackage,
        (is_ours, is_whole): (bool, bool),
        definition: &serde_json::Value,
        heartbeat: &Heartbeat,
    ) -> Result<(), Stop> {
        // What Zarf unpacks has the opened values, too.
        let scratch = made.in_memory().unwrap_or(self.program.folder());
        let once = || {
            let program = &self.program;
            let done = program.deploy(&made.path, scratch, is_ours, heartbeat);
            done.map_err(|stop| package::without(stop, &made.values))
        };
        if !is_ours || is_whole {
            return once();
        }
        for release in interrupted::clear(
            definition,
            &self.cluster.cluster()?,
            &self.program,
            heartbeat,
        )? {
            tracing::info!(
                "the Helm release `{release}`, which was interrupted, is installed again"
            );
        }
        // An upgrade that was cut off makes the first attempt fail, by which Zarf takes it back.
        match once() {
            Err(Stop::Assignment(_, why)) if why.contains(IN_PROGRESS) => once(),
            other => other,
        }
    }

    /// What Zarf keeps of a package in the cluster.
    fn deployed(&self, name: &str) -> Result<Option<DeployedPackage>, ApplyError> {
        deployed::read(&self.cluster.cluster()?, name)
    }

    /// Compares the package and the objects of its charts with the cluster.
    fn compare(
        &self,
        desired: &Desired,
        name: &str,
        content: &str,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, Stop> {
        let drifted = |why: &str| {
            let steps = vec![step(name, "changed", why)];
            let message = format!("the package `{name}`: {why}");
            Ok(result(desired, ComplianceStatus::Drifted, &message, steps))
        };
        let Some(there) = self.deployed(name)? else {
            return drifted("it is not deployed any more");
        };
        if !there.is_made_of(content) {
            return drifted("someone deployed another package of its name");
        }
        if let Some(unfinished) = there.unfinished() {
            let message = format!("the package `{name}`: {unfinished}");
            let steps = there.steps();
            return Ok(result(desired, ComplianceStatus::Failed, &message, steps));
        }
        let cluster = self.cluster.cluster()?;
        let values = package::values(desired, &*self.site)?;
        charts::compare(desired, &there, &cluster, &self.program, heartbeat)
            .map(|found| package::redacted(found, &values))
            .map_err(|stop| package::without(stop, &values))
    }

    /// Removes these packages, and records in the ledger which are gone.
    fn take_away(
        &self,
        items: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<Vec<StepResult>, ApplyError> {
        let mut steps = Vec::new();
        for item in items {
            let name = item.item.as_str();
            let Some(there) = self.deployed(name)? else {
                ledger.forget(std::slice::from_ref(item))?;
                steps.push(step(name, "removed", "it was not there any more"));
                continue;
            };
            if !there.is_made_of(&item.digest) && !there.is_made_of(&item.before) {
                ledger.intend(&[item.clone().left()])?;
                let why = "left behind: someone deployed another package of its name since, which stays, and with it what this one \
                           had deployed";
                steps.push(step(name, "skipped", why));
                continue;
            }
            match self.program.remove(name, heartbeat) {
                Ok(()) => {}
                Err(Stop::Site(error)) => return Err(error),
                Err(Stop::Assignment(_, why)) => {
                    steps.push(step(name, "failed", why));
                    continue;
                }
            }
            ledger.passed("zarf-removed");
            ledger.forget(std::slice::from_ref(item))?;
            steps.push(step(name, "removed", there.what_stays()));
        }
        Ok(steps)
    }
}

/// By what a package is known: whose it is, and all that it is made of. One that came ready-made says nothing of that itself.
fn content_of(desired: &Desired) -> String {
    let owner = Owner::of(desired);
    let mut hasher = Hasher::new();
    hasher.update(format!("{} {:?}\n", owner.assignment, owner.site).as_bytes());
    for (file, _, shown) in desired.files() {
        hasher.update(format!("{shown} {} {}\n", file.content, file.executable).as_bytes());
    }
    let digest = hasher.finish().0;
    match package::is_ready_made(desired) {
        true => format!("{READY_MADE}{digest}"),
        false => digest.to_string(),
    }
}

impl Reconciler for Zarf {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn ready(&self) -> Result<(), ApplyError> {
        if let Some(context) = &self.context {
            return Err(ApplyError::Cluster {
                problem: format!(
                    "Zarf takes the current context of the kubeconfig, and agent.toml names the context `{context}`"
                ),
                help: "take `context` under `[kubernetes]` in agent.toml out, and name a kubeconfig whose current context is \
                       that one"
                    .into(),
            });
        }
        self.program.is_there()?;
        self.cluster.cluster().map(|_| ())
    }

    fn plan(&self, desired: &Desired, recorded: &[Item]) -> Vec<Change> {
        let content = content_of(desired);
        if recorded
            .iter()
            .any(|item| item.digest == content && item.phase == Phase::Applied)
        {
            return Vec::new();
        }
        let action = if recorded.is_empty() { "add" } else { "change" };
        let item = format!("the Zarf package of `{}`", desired.assignment.name);
        vec![Change { action, item }]
    }

    fn plans_every_file(&self) -> bool {
        true
    }

    fn apply(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        let done = self.apply_or_stop(desired, recorded, ledger, heartbeat);
        of_assignment(desired, done)
    }

    fn observe(
        &self,
        desired: &Desired,
        recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        // One that got another name leaves the older one in the inventory until it is removed.
        let newest = recorded.iter().max_by_key(|item| item.generation);
        let found = match newest {
            Some(item) => self.compare(desired, &item.item, &content_of(desired), heartbeat),
            None => {
                let message = "no package of it was deployed";
                let steps = Vec::new();
                Ok(result(desired, ComplianceStatus::Drifted, message, steps))
            }
        };
        of_assignment(desired, found)
    }

    fn remove(
        &self,
        _instead: u64,
        _assignment: &str,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<Vec<StepResult>, ApplyError> {
        self.program.is_there()?;
        self.take_away(recorded, ledger, heartbeat)
    }
}
