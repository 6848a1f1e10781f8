//! What goes into one stream's bundle: what is sound, and what is broken as it last was.
//!
//! What comes in: the rendering ([`Sound`]), what the stream last shipped ([`LastBundle`]), where payloads are, and
//! the plan that all destinations share. What goes out: the [`StreamContents`] of a bundle. Kept assignments are tried
//! for their payload here, so that one whose payload is gone is left out and does not stop the stream. It
//! writes nothing.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Snapshot, Source};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::name::{Name, NameError, RelativePath};
use outhaul_signer::fleet::Fleet;

use super::authenticated::{self, Compared};
use super::carried::{self, LastPayloads};
use super::kept_payload::{PayloadState, still_there};
use super::share::{self, Share};
use super::{ProduceError, Produced, delivery_rules, sealed, shipped};
use crate::assemble::Spool;
use crate::collect::{self, Collector, Payloads};
use outhaul_control::Diagnostics;
use outhaul_control::diagnostic::Diagnostic;
use outhaul_control::model::MAX_REMOVAL_PERCENT_DEFAULT;
use outhaul_kit::format_count::format_count;
use outhaul_load::manifests::Manifests;
use outhaul_load::pipeline::Platform;
use outhaul_plane::delivery::{self, Delivery, Sourced};
use outhaul_plane::render::RenderedAssignment;
use outhaul_plane::schedule::AssignmentId;
use outhaul_record::isolation::{Isolation, Kept};
use outhaul_record::plan::{DesiredContent, Plan, Shipped};
use outhaul_record::record::Record;

/// One stream's content, before it has a number.
pub(super) struct StreamContents<'a> {
    pub(super) cluster_type: &'a str,
    pub(super) role: String,
    /// Name of the reconciler's template.
    pub(super) reconciler: &'a str,
    pub(super) assignments: BTreeMap<String, Arc<RenderedAssignment>>,
    /// The kept ones, and the snapshots that they are from.
    pub(super) kept: BTreeMap<Name, Digest>,
    /// The commits of the kept ones' payloads, by assignment.
    pub(super) pins: BTreeMap<String, String>,
    pub(super) isolation: Isolation<()>,
    pub(super) last: Option<Record>,
    /// What the delivery policies say of it.
    pub(super) delivery: Delivery,
    /// Payloads of kept ones that cannot be reached now.
    pub(super) carried: Option<LastPayloads>,
    /// Whether a payload of a kept one cannot be had now, and no bundle here has it: without it a site
    /// would lose what it runs, so that the stream waits.
    pub(super) stalled: bool,
}

impl<'a> StreamContents<'a> {
    /// What becomes of a stream that gets no bundle, because a delivery policy says so.
    pub(super) fn held_back(&self, why: String, number: u64) -> Produced {
        Produced {
            cluster_type: self.cluster_type.to_owned(),
            number,
            changed: false,
            file: None,
            bytes: 0,
            content_bytes: 0,
            assignments: self.assignments.len(),
            suppressed: Some(why),
            because: None,
            restored: Vec::new(),
            waiting: None,
        }
    }

    /// What becomes of `sound`, when `last` was shipped before, by `plan`.
    ///
    /// # Errors
    /// A name that cannot travel.
    pub(super) fn of(
        sound: &Sound<'a>,
        last: LastBundle<'_>,
        plan: Plan<()>,
    ) -> Result<Self, ProduceError> {
        let mut assignments = sound.assignments.clone();
        let mut kept = BTreeMap::new();
        let mut pins = BTreeMap::new();
        for (id, (Kept { from, .. }, ())) in &plan.isolation.kept {
            let known = last.record();
            let Some(before) = known.and_then(|known| known.shipped(&id.to_string())) else {
                continue;
            };
            assignments.insert(id.target.clone(), Arc::new(before.rendered.clone()));
            kept.insert(id.target.parse()?, *from);
            if let Some(commit) = &before.payload_commit {
                pins.insert(id.target.clone(), commit.clone());
            }
        }
        let mut isolation = plan.isolation;
        isolation.findings.append(sound.broken());
        Ok(Self {
            cluster_type: sound.cluster_type,
            role: sound.role.clone(),
            reconciler: sound.reconciler,
            assignments,
            kept,
            pins,
            isolation,
            last: last.last,
            delivery: sound.delivery.clone(),
            carried: last.carried.into_inner().flatten(),
            stalled: last.stalled,
        })
    }

    /// What the stream holds, for those who want to know more.
    pub(super) fn looked_at(&self, environment: &str) -> String {
        let count = format_count(self.assignments.len(), "assignment", "assignments");
        let kept = match self.kept.len() {
            0 => String::new(),
            kept => format!(", {kept} as last shipped"),
        };
        format!(
            "stream `{environment}/{}` ({count}{kept})",
            self.cluster_type
        )
    }

    /// Whether there is nothing to send, only because nothing is sound.
    pub(super) fn is_void(&self) -> bool {
        self.assignments.is_empty() && !self.isolation.is_empty()
    }

    /// Collects the payloads of its assignments into `spool`.
    pub(super) fn payloads(
        &self,
        collector: &mut Collector<'_>,
        spool: &mut Spool,
    ) -> Result<Payloads, ProduceError> {
        collector.carry(&self.delivery);
        let Some(carried) = &self.carried else {
            return Ok(collector.collect(&self.assignments, &self.pins, spool)?);
        };
        let mut reached = self.assignments.clone();
        reached.retain(|name, _| !carried.has(name));
        let mut payloads = collector.collect(&reached, &self.pins, spool)?;
        carried.add_to(&mut payloads, spool)?;
        Ok(payloads)
    }
}

/// What of one stream is rendered and can be carried now.
pub(super) struct Sound<'a> {
    pub(super) platform: &'a Platform,
    pub(super) fleet: &'a Fleet,
    pub(super) cluster_type: &'a str,
    pub(super) role: String,
    /// Name of the reconciler's template.
    reconciler: &'a str,
    assignments: BTreeMap<String, Arc<RenderedAssignment>>,
    /// What no bundle can carry, and why.
    unfit: BTreeMap<AssignmentId, Diagnostics>,
    /// What the delivery policies say of it.
    pub(super) delivery: Delivery,
    pub(super) collector: &'a RefCell<Collector<'a>>,
}

impl<'a> Sound<'a> {
    /// What is wrong with the assignments that no bundle can carry.
    pub(super) fn broken(&self) -> Diagnostics {
        let mut all = Diagnostics::new();
        (self.unfit.values()).for_each(|findings| all.append(findings.clone()));
        all
    }

    pub(super) fn of(
        platform: &'a Platform,
        fleet: &'a Fleet,
        cluster_type: &'a str,
        collector: &'a RefCell<Collector<'a>>,
    ) -> Result<Self, ProduceError> {
        let rendering = &platform.rendering;
        let delivery = match platform.control_plane.cluster_types.get(cluster_type) {
            Some(found) => delivery::of(&platform.control_plane, found)?,
            None => Delivery::default(),
        };
        let group = rendering.cluster_types.get(cluster_type);
        let mut assignments = group
            .map(|group| group.assignments.clone())
            .unwrap_or_default();
        // A stream that travels by git needs nothing collected.
        let unfit = match delivery_rules::suppressed(&delivery) {
            None => unfit(
                platform,
                fleet,
                &delivery,
                cluster_type,
                &assignments,
                &mut collector.borrow_mut(),
            ),
            Some(_) => BTreeMap::new(),
        };
        assignments.retain(|target, _| !unfit.keys().any(|id| id.target == *target));
        Ok(Self {
            platform,
            fleet,
            cluster_type,
            role: fleet.role(&rendering.environment, cluster_type),
            reconciler: group.map_or("", |group| group.reconciler.as_str()),
            assignments,
            unfit,
            delivery,
            collector,
        })
    }

    /// What should be in it.
    pub(super) fn wanted(&self) -> DesiredContent<'_> {
        let rendering = &self.platform.rendering;
        let here = |(id, _): &(&AssignmentId, &Diagnostics)| id.cluster_type == self.cluster_type;
        let failures = rendering.failures.iter().filter(here);
        let names = self.assignments.keys();
        DesiredContent {
            control_plane: &self.platform.control_plane,
            what: format!("stream `{}/{}`", rendering.environment, self.cluster_type),
            sound: names.map(|name| self.named(name)).collect(),
            failures: failures.chain(&self.unfit).collect(),
            undecided: rendering.undecided.iter().filter(here).collect(),
            max_removal_percent: self
                .delivery
                .max_removal_percent
                .as_ref()
                .map_or(MAX_REMOVAL_PERCENT_DEFAULT, |most| most.value),
        }
    }

    /// What it shipped last.
    pub(super) fn last(&self) -> Result<LastBundle<'a>, ProduceError> {
        let last = shipped::last(self.fleet, &self.role)?;
        let taken = self.assignments.iter().filter_map(|(name, now)| {
            let name = self.named(name);
            let had = &last.as_ref()?.shipped(&name)?.rendered;
            let sites = self.sites_losing(had, now);
            (sites > 0).then_some((name, sites))
        });
        Ok(LastBundle {
            taken: taken.collect(),
            fleet: self.fleet,
            environment: &self.platform.rendering.environment,
            role: self.role.clone(),
            collector: self.collector,
            signed_by: self.delivery.image_signatures.as_ref().map(Sourced::by),
            last,
            names: BTreeSet::new(),
            carried: OnceCell::new(),
            compared: None,
            stalled: false,
            trouble: None,
        })
    }

    fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.cluster_type)
    }

    /// How many sites that the control plane still lists lose an assignment that they had.
    fn sites_losing(&self, last: &RenderedAssignment, now: &RenderedAssignment) -> usize {
        let Some(still) = &now.sites else { return 0 };
        let sites = self.platform.control_plane.sites.values();
        let here = sites.filter(|site| site.cluster_type.value == self.cluster_type);
        let had = |name: &String| last.sites.as_ref().is_none_or(|sites| sites.contains(name));
        here.filter(|site| had(&site.name) && !still.contains(&site.name))
            .count()
    }
}

/// What a stream last shipped, and whether it can be shipped once more.
pub(super) struct LastBundle<'a> {
    fleet: &'a Fleet,
    environment: &'a str,
    role: String,
    collector: &'a RefCell<Collector<'a>>,
    /// Which policy says that images must be signed.
    signed_by: Option<String>,
    last: Option<Record>,
    /// The assignments of the bundle that was signed last, where the record is lost.
    names: BTreeSet<String>,
    taken: BTreeMap<String, usize>,
    /// The bundle that was shipped last, opened when a payload cannot be had otherwise.
    carried: OnceCell<Option<LastPayloads>>,
    /// Whether it is what was signed, looked at when something of it is to stay.
    compared: Option<Compared>,
    stalled: bool,
    trouble: Option<ProduceError>,
}

impl LastBundle<'_> {
    /// Sees that what is on record is what was signed, before something of it stays.
    fn compare(&mut self) -> Result<(), ProduceError> {
        let (Some(record), None) = (&self.last, self.compared) else {
            return Ok(());
        };
        let compared = authenticated::compare(self.fleet, &self.role, record)?;
        self.compared = Some(compared);
        match compared {
            Compared::Same => Ok(()),
            Compared::Unknown => Err(shipped::unverified(self.fleet, &self.role)?.into()),
        }
    }

    /// Where the record is lost, what is removed is known by the bundle that was signed last; where that is, too, it is said.
    pub(super) fn know_names(&mut self, stream: &str) -> Result<(), ProduceError> {
        if self.last.is_none() && self.fleet.latest(&self.role)?.is_some() {
            match authenticated::assignments_signed(self.fleet, &self.role)? {
                Some(names) => self.names = names,
                None => {
                    let unknown = authenticated::removals_unknown(stream);
                    self.collector.borrow_mut().note_unverified(unknown);
                }
            }
        }
        Ok(())
    }

    /// What kept the last good content of one from being looked for.
    pub(super) fn take_error(&mut self) -> Result<(), ProduceError> {
        self.trouble.take().map_or(Ok(()), Err)
    }
}

impl Shipped for LastBundle<'_> {
    /// It is looked up by its name.
    type Content = ();

    fn record(&self) -> Option<&Record> {
        self.last.as_ref()
    }

    fn names(&self) -> BTreeSet<String> {
        let record = self.record().map(Record::assignments);
        record.unwrap_or_else(|| self.names.clone())
    }

    fn last(&mut self, id: &AssignmentId) -> Result<(Digest, ()), String> {
        let name = id.to_string();
        if let Err(error) = self.compare() {
            self.trouble = Some(error);
            return Err(String::new());
        }
        let last = self.last.as_ref();
        let Some((last, before)) = last.and_then(|last| Some((last, last.shipped(&name)?))) else {
            return Err("it has no last good output".to_owned());
        };
        let good = Ok((last.origin(&name), ()));
        let looked = still_there(&mut self.collector.borrow_mut(), &id.target, before);
        match looked {
            Ok(PayloadState::Yes) => good,
            Ok(PayloadState::No(why)) => Err(why),
            Ok(PayloadState::Unreached(why) | PayloadState::Lacking(why)) => {
                let (fleet, role) = (self.fleet, &self.role);
                self.carried.get_or_init(|| LastPayloads::open(fleet, role));
                let bundle = self.carried.get_mut().and_then(Option::as_mut);
                if let Some(bundle) = bundle
                    && bundle.take(&id.target, before)
                {
                    if let Some(policy) = self.signed_by.as_ref().filter(|_| bundle.has_images()) {
                        let environment = self.environment;
                        let unverified =
                            carried::unverified((environment, id), bundle.number(), policy, &why);
                        self.collector.borrow_mut().note_unverified(unverified);
                    }
                    return good;
                }
                self.stalled = true;
                Err(format!(
                    "its sites keep it, and so no bundle of this stream is made: what its last good output needs is \
                     not available now, and no bundle here has it ({why})"
                ))
            }
            Err(error) => {
                self.trouble = Some(error);
                Err(String::new())
            }
        }
    }

    fn sites_losing_assignments(&self) -> BTreeMap<String, usize> {
        self.taken.clone()
    }

    fn is_stalled(&self) -> bool {
        // What cannot be known stops everything, before anything is removed.
        self.stalled || self.trouble.is_some()
    }
}

/// What of `assignments` no bundle can carry, and why: each is broken on its own.
fn unfit(
    platform: &Platform,
    fleet: &Fleet,
    delivery: &Delivery,
    cluster_type: &str,
    assignments: &BTreeMap<String, Arc<RenderedAssignment>>,
    collector: &mut Collector<'_>,
) -> BTreeMap<AssignmentId, Diagnostics> {
    collector.carry(delivery);
    let mut unfit = BTreeMap::new();
    let mut shares = BTreeMap::new();
    let mut manifests = Manifests::new(platform);
    for (name, rendered) in assignments {
        let Some(target) = platform.control_plane.targets.get(name) else {
            continue;
        };
        let at = target.storage_at.as_ref().unwrap_or(&target.location);
        let finding =
            delivery::storage::unsupported(delivery, cluster_type, target).or_else(|| {
                if let Some(error) = untravelled(name, rendered) {
                    let message = format!("no bundle can contain `{name}`: {error}");
                    return Some(
                        Diagnostic::error("not-carried", message)
                            .at(at)
                            .help("rename it"),
                    );
                }
                let plane = &platform.control_plane;
                let foreign =
                    sealed::for_another_fleet(plane, fleet.id(), rendered, &target.location);
                if foreign.is_some() {
                    return foreign;
                }
                let looked = collector.look(name, rendered, None);
                let looked = looked.and_then(|listed| {
                    collector.look_served(name, rendered, None).map(|()| listed)
                });
                let artifact = delivery::storage::artifact(delivery, target);
                let looked =
                    looked.and_then(|all| Ok((all, collector.fetches(name, rendered, artifact)?)));
                match looked {
                    Ok((_, false)) => Some(delivery::storage::not_fetched(target)),
                    Ok((listed, true)) => {
                        shares.insert(name.clone(), Share::of(rendered, listed));
                        None
                    }
                    Err(error) => Some(collect::finding(&error).at(error.place().unwrap_or(at))),
                }
            });
        let findings = match finding {
            Some(finding) => finding.into(),
            None => manifests.problems(cluster_type, name, rendered),
        };
        if !findings.is_empty() {
            unfit.insert(id_of(cluster_type, name), findings);
        }
    }
    for (name, why) in share::beyond(shares, &Limits::default()) {
        let mut finding = Diagnostic::error("too-large-a-share", why);
        if let Some(target) = platform.control_plane.targets.get(&name) {
            finding = finding.at(target.storage_at.as_ref().unwrap_or(&target.location));
        }
        let help = "put its files into an archive, or give them to fewer deployment targets";
        unfit.insert(id_of(cluster_type, &name), finding.help(help).into());
    }
    unfit
}

fn id_of(cluster_type: &str, target: &str) -> AssignmentId {
    AssignmentId {
        cluster_type: cluster_type.to_owned(),
        target: target.to_owned(),
    }
}

/// The name of an assignment or of one of its rendered files that no bundle carries.
fn untravelled(name: &str, rendered: &RenderedAssignment) -> Option<NameError> {
    let overlays = rendered.overlays.iter().flat_map(|one| one.files.keys());
    let mut files = rendered.files.keys().chain(overlays);
    let named = name.parse::<Name>().err();
    named.or_else(|| files.find_map(|path| path.parse::<RelativePath>().err()))
}

/// The render's snapshot, with the commits of the payloads among the workloads' sources.
pub fn with_payloads(snapshot: &Snapshot, payloads: Vec<Source>) -> Snapshot {
    let mut workloads = snapshot.workloads.clone();
    workloads.extend(payloads);
    outhaul_bundle::index::Snapshot::of(
        snapshot.environment.clone(),
        snapshot.base.clone(),
        workloads,
    )
}
