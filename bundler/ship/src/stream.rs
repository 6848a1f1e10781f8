//! From one environment's rendering to one signed bundle per stream, written and on record.
//!
//! What comes in: a [`Platform`], the fleet that signs, and a [`BundleRequest`]: for whom, until when, where
//! to. What goes out: a [`Produced`] per stream. A stream whose content is what was signed last uses
//! no number. Each stream is signed, written, put on the fleet's record and published before the next
//! one begins, so that what was done before an error stays done and is right. It prints nothing and
//! reads no clock.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;
use outhaul_bundle::index::{DriftPolicy, ReconcilerSettings, Stream};
use outhaul_bundle::name::Name;
use outhaul_kit::interrupt;
use outhaul_signer::fleet::{Fleet, FleetError, StatementSigner};
use outhaul_signer::key::Secret;
use outhaul_signer::publish::SignRequest;

use crate::assemble::{self, BundleSources, EncodedBefore, Spool};
use crate::collect::{Collector, ImageSource, signers};
use crate::destination::{self, Committed, Destination as _};
use outhaul_attest as attest;
use outhaul_control::Diagnostics;
use outhaul_control::model::Drift;
use outhaul_load::pipeline::Platform;
use outhaul_load::program::Programs;
use outhaul_pins::Lock;
use outhaul_plane::delivery::statements;
use outhaul_record::plan::Shipped as _;
use outhaul_record::record::Record;
use outhaul_sites::Sites;
use outhaul_sites::readers::{self, NamedRecipient};

pub mod agent;
mod authenticated;
mod built;
mod carried;
pub mod copies;
mod countersigned;
mod current;
mod damaged;
mod delivery_rules;
mod earlier;
pub mod elsewhere;
mod error;
pub mod estimate;
mod kept_payload;
mod next;
pub mod patches;
mod plan;
mod production;
mod recipients;
mod recording;
mod scan;
mod sealed;
mod share;
mod shelf;
mod shipped;
mod signing;
pub mod since;
pub mod validity;
pub mod volumes;

use agent::AgentPrograms;
pub use authenticated::outdated;
use built::{Built, images_of, last_of, record_of, remember_encoded};
use countersigned::CountersignedBundle;
use current::Current;
pub use delivery_rules::PolicyViolation;
use earlier::EarlierBundles;
pub use error::ProduceError;
use error::{ended, warn_of};
use next::{ToStream, removed};
pub use plan::with_payloads;
use plan::{Sound, StreamContents};
pub use production::{AwaitedSignature, Produced, Production};
pub use recipients::bundled;
use recording::{check_place, file_of, ship};
use shelf::StoredBundle;
pub use shipped::ShippedError;

/// What to make, for whom, and where to put it.
#[derive(Debug)]
pub struct BundleRequest<'a> {
    /// Only these cluster types; empty for every one.
    pub cluster_types: &'a [String],
    /// Where `<environment>-<cluster type>-<number>.outhaul` is written; it is made if missing.
    pub out: &'a Path,
    /// Where each bundle is also unpacked, for sites that pull over HTTPS.
    pub publish: Option<&'a Path>,
    /// Only for these sites; empty for every site of the stream.
    pub recipients: BTreeSet<Name>,
    /// For whom everything is encrypted; without it the bundle can be read by anybody. A list of nobody is
    /// refused.
    pub readers: Option<&'a [NamedRecipient]>,
    /// Use a new number even when nothing changed.
    pub renew: bool,
    /// Make nothing where an assignment of the streams is broken.
    pub strict: bool,
    /// The time of issue that is signed.
    pub issued: Timestamp,
    /// Days until the bundle may no longer be installed, within `EXPIRES_DAYS`; without it what the delivery
    /// policies say, or else 180 ([`validity`]).
    pub expires_days: Option<u32>,
    /// Who brings images, where a delivery policy says that they travel.
    pub images: Option<&'a dyn ImageSource>,
    /// Ask again what tags and branches are that the fleet's lock has pinned.
    pub update: bool,
    /// The programs of the scanners that delivery policies name.
    pub scanners: &'a Programs,
    /// The agent that the bundles bring.
    pub agent: Option<&'a AgentPrograms>,
}

/// Makes the bundles of every stream that `request` names. A broken assignment is in its bundle as it
/// was shipped last; what of a stream is on record lies in the fleet's folder.
///
/// # Errors
/// [`ProduceError::Busy`] while another process makes bundles of this fleet; else that of the first stream that fails; those before it, in order of their names, are done, and
/// where only its files could not be written those after it, too.
/// A removal that nobody acknowledged is found before anything is written.
#[expect(
    clippy::too_many_lines,
    reason = "the steps of one run, in their order"
)]
pub fn produce(
    platform: &Platform,
    fleet: &Fleet,
    secret: &Secret,
    request: &BundleRequest<'_>,
) -> Result<Production, ProduceError> {
    // Two at once would sign different bundles with one number.
    let _exclusive = exclusive(fleet)?;
    shelf::sweep(fleet.folder());
    let left = fleet.remove_leftovers()?;
    if !left.is_empty() {
        tracing::debug!(?left, "a killed run left these, they were removed");
    }
    let rendering = &platform.rendering;
    known(platform, fleet, request)?;
    if let Some(folder) = request.publish {
        elsewhere::refuse(fleet, folder)?;
    }
    let wanted =
        |name: &&String| request.cluster_types.is_empty() || request.cluster_types.contains(name);
    let lock = Lock::read(fleet.folder(), &rendering.environment, request.update)?;
    let collector = Collector::new(&platform.sources, &platform.cache);
    let role = |name: &String| fleet.role(&rendering.environment, name);
    let roles = rendering.cluster_types.keys().map(role).collect();
    let earlier = EarlierBundles::of(fleet, roles);
    let collector = collector.with_images(request.images, lock);
    let collector = RefCell::new(collector.with_earlier(&earlier));
    let mut recipients = recipients::of(platform, fleet, request, wanted)?;
    let encoded = Rc::new(EncodedBefore::default());
    let mut ready = Vec::new();
    let mut removals = Vec::new();
    for name in rendering.cluster_types.keys().filter(wanted) {
        let readers = recipients.remove(name);
        if !request.recipients.is_empty() && readers.is_none() {
            // None of those that it is for follows this stream.
            continue;
        }
        let mut stream = ToStream {
            sound: Sound::of(platform, fleet, name, &collector)?,
            secret,
            request,
            recipients: readers.unwrap_or_default(),
            encoded: Rc::clone(&encoded),
        };
        match destination::planned(&mut stream) {
            Ok((mut last, plan)) => {
                last.take_error()?;
                ready.push((stream, last, plan));
            }
            Err(ProduceError::Removals { removals: more }) => removals.extend(more),
            Err(error) => return Err(error),
        }
    }
    if !removals.is_empty() {
        return Err(ProduceError::Removals { removals });
    }
    if request.strict {
        let unfit = ready.iter().map(|(stream, ..)| stream.sound.broken());
        let mut findings = Diagnostics::new();
        unfit.for_each(|broken| findings.append(broken));
        if !findings.is_empty() {
            return Err(ProduceError::Strict(findings));
        }
    }
    let everything = request.cluster_types.is_empty() && request.recipients.is_empty();
    let mut production = Production {
        orphans: match everything {
            true => recipients::orphans(platform, fleet)?,
            false => BTreeMap::new(),
        },
        uncertain: signers(&platform.control_plane, request.issued),
        ..Production::default()
    };
    let now_ms = request.issued.as_millisecond();
    let later = statements::to_come(&platform.control_plane, now_ms);
    production.uncertain.append(later);
    let known_before = production.uncertain.clone();
    let mut failed = None;
    let _parts = interrupt::parts();
    for (mut stream, last, plan) in ready {
        let removed = removed(platform, &last, &plan);
        if last.is_stalled() {
            let name = &stream.sound.cluster_type;
            let name = format!("{}/{name}", rendering.environment);
            production.stalled.insert(name);
        }
        let committed = match stream.commit(last, plan) {
            Ok(committed) => committed,
            // What lies in the way of one stream's files says nothing about the others'.
            Err(error) if error.is_of_one_place(fleet.folder()) => {
                let name = format!("{}/{}", rendering.environment, stream.sound.cluster_type);
                // One is what the run ends with; the others are said where they are met.
                match failed {
                    Some(_) => warn_of(&name, &error),
                    None => failed = Some((name, error)),
                }
                continue;
            }
            Err(error) => return Err(ended(failed, error).after(production)),
        };
        match committed {
            Committed::Done((made, isolation)) => {
                if made.iter().any(|one| one.changed) {
                    production.removed.extend(removed);
                }
                production.streams.extend(made);
                production.isolation.append(isolation);
            }
            Committed::Overtaken(error) => return Err(ended(failed, error).after(production)),
        }
        let collector = collector.borrow();
        let lock = collector.lock();
        if let Err(error) = lock.write(fleet.folder(), &rendering.environment) {
            return Err(ended(failed, error.into()));
        }
        production.moved = lock.moved();
        production.uncertain = collector.uncertain();
        production.uncertain.append(known_before.clone());
        production.signed = collector.signed();
    }
    match failed {
        Some((_, error)) => Err(error.after(production)),
        None => Ok(production),
    }
}

/// The right to make this fleet's bundles, or to read what must not change meanwhile; it ends with the returned value.
///
/// # Errors
/// [`ProduceError::Busy`] while another process has it.
pub fn exclusive(fleet: &Fleet) -> Result<outhaul_kit::lock::Held, ProduceError> {
    let folder = fleet.folder().to_owned();
    match outhaul_kit::lock::take_folder(&folder) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(ProduceError::Busy { folder }),
        Err(source) => Err(ProduceError::Exclusive { folder, source }),
    }
}

/// Refuses a cluster type that the environment does not have, and readers whom the records of sites contradict.
fn known(
    platform: &Platform,
    fleet: &Fleet,
    request: &BundleRequest<'_>,
) -> Result<(), ProduceError> {
    let rendering = &platform.rendering;
    let is_unknown = |name: &&String| !rendering.cluster_types.contains_key(*name);
    if let Some(name) = request.cluster_types.iter().find(is_unknown) {
        return Err(ProduceError::UnknownClusterType {
            environment: rendering.environment.clone(),
            name: name.clone(),
            known: rendering.cluster_types.keys().cloned().collect(),
        });
    }
    if let Some(given) = request.readers {
        let checked = readers::checked(given, &Sites::of(fleet).all()?);
        checked.map_err(|problems| ProduceError::Readers { problems })?;
    }
    Ok(())
}

#[expect(
    clippy::too_many_arguments,
    clippy::too_many_lines,
    reason = "the steps of one stream, in their order"
)]
fn stream(
    platform: &Platform,
    fleet: &Fleet,
    secret: &Secret,
    request: &BundleRequest<'_>,
    plan: &StreamContents<'_>,
    recipients: &BTreeSet<Name>,
    collector: &mut Collector<'_>,
    encoded: &Rc<EncodedBefore>,
) -> Result<Produced, ProduceError> {
    let environment = &platform.rendering.environment;
    let (name, role) = (plan.cluster_type, &plan.role);
    let latest = fleet.latest(role)?;
    if let Some(why) = delivery_rules::suppressed(&plan.delivery) {
        let number = latest.map_or(0, |latest| latest.number);
        return Ok(plan.held_back(why, number));
    }
    let pending = countersigned::pending(fleet, role, request)?;
    if let Some(pending) = &pending
        && let Some(ready) = countersigned::ready(fleet, role, pending)?
        && ready.may_ship(fleet, request)?
    {
        return ship_ready(platform, fleet, secret, request, plan, ready);
    }
    let signer = Arc::new(fleet.statement_signer(secret)?);
    collector.sign_with(Arc::clone(&signer));
    let orders = Sites::of(fleet).orders_for(role)?;
    let kept = StoredBundle::read(fleet.folder(), role).map_err(ProduceError::Keep)?;
    if let (Some(kept), Some(latest)) = (kept, &latest) {
        remember_encoded(fleet, role, kept.number(), latest, encoded);
    }
    let mut spool = Spool::new(&std::env::temp_dir())?.with_encoded(Rc::clone(encoded));
    // Once: what is built under one number and under another has the same contents.
    let payloads = plan.payloads(collector, &mut spool)?;
    let images = images_of(&payloads, collector, &spool)?;
    let vex = plan.delivery.vex.as_ref().map(|said| said.value.clone());
    let vex = vex.unwrap_or_default();
    let verified = collector.signed_of(&payloads.served);
    let build = |number: u64, mut spool: Spool| -> Result<Built, ProduceError> {
        let reconciler = platform.reconciler_kind(plan.reconciler);
        let contents = BundleSources {
            fleet: fleet.id(),
            stream: Stream {
                role: role.parse()?,
                environment: environment.parse()?,
                cluster_type: name.parse()?,
            },
            number,
            reconciler: ReconcilerSettings {
                kind: reconciler.as_str().parse()?,
                settings: BTreeMap::new(),
                drift: match plan.delivery.drift.as_ref().map(|said| said.value) {
                    Some(Drift::Correct) => DriftPolicy::Correct,
                    Some(Drift::Report) | None => DriftPolicy::Report,
                },
            },
            snapshot: with_payloads(&platform.rendering.snapshot, payloads.sources.clone()),
            recipients: recipients.clone(),
            assignments: &plan.assignments,
            payloads: payloads.files.clone(),
            served: payloads.served.clone(),
            kept: plan.kept.clone(),
            orders: orders.clone(),
            waves: plan.delivery.waves(environment, name),
            agent: request
                .agent
                .map(|agent| agent.add_to(&mut spool))
                .transpose()?,
        };
        let bundle =
            assemble::assemble(contents, spool)?.attest(&images, &vex, &verified, &signer)?;
        let plain = countersigned::plain_digest(&bundle, request.readers);
        let sbom = attest::sbom::with_images(bundle.attestation(attest::SBOM)?, &images);
        Ok(Built {
            bundle,
            commits: payloads.commits.clone(),
            plain,
            sbom,
        })
    };
    let mut lost = None;
    let mut is_signed = false;
    if let Some(latest) = latest.as_ref().filter(|_| !request.renew) {
        let same = build(latest.number, spool)?;
        let outdated = authenticated::outdated(fleet, role)?;
        let made = (&same, &*signer, outdated.as_deref());
        match current::again(fleet, request, plan, environment, latest, made)? {
            Current::Changed => lost = outdated,
            Current::Lost { why, signed } => (lost, is_signed) = (Some(why), signed),
            Current::Same(produced) => return Ok(produced),
        }
        spool = same.bundle.into_spool();
    }
    if let Some(pending) = &pending {
        let same = build(pending.number, spool)?;
        if countersigned::is_waiting(fleet, role, pending, &same)? {
            let waiting = (AwaitedSignature::of(pending, role), lost);
            return Ok(countersigned::waits(plan, &same, pending.number, waiting));
        }
        spool = same.bundle.into_spool();
    }
    if let Some(record) = plan.last.as_ref().filter(|_| !is_signed) {
        // What is removed is known by it; nothing is where the content is the one that was signed.
        let stream = format!("{environment}/{name}");
        let said = authenticated::compare_removals(fleet, (role, &stream), record, request.strict)?;
        if let Some(said) = said {
            collector.note_unverified(said);
        }
    }
    let number = fleet.next_number(role)?;
    // What an earlier bundle's file holds is read from it now.
    spool.confirm();
    let mut built = build(number, spool)?;
    scan::permitted(fleet, request, plan, &built)?;
    if let Some(readers) = request.readers {
        // Last: no two seals are alike, and nobody compares this one.
        built.bundle = built.bundle.seal(readers)?;
    }
    let file = file_of(request, name, environment, number);
    check_place(request, &file, (role, &built.bundle.index))?;
    let policies = plan.delivery.expires_days.as_ref().map(|days| days.value);
    let expires = validity::of_bundle(request.issued, request.expires_days, policies)?;
    let index_bytes = built.bundle.index_bytes.clone();
    let compressed = built.bundle.index_compressed()?;
    let sign = SignRequest {
        role,
        number,
        index_bytes: &index_bytes,
        index_compressed: compressed.as_deref(),
        issued: request.issued,
        expires,
    };
    let last = last_of(environment, plan, &built);
    let last = (&last, &*signer);
    let mut produced = ship_or_ask(fleet, secret, request, plan, sign, built, last)?;
    produced.because = lost;
    if let Some(latest) = fleet.latest(role)? {
        // Other streams of this run may carry the same.
        remember_encoded(fleet, role, number, &latest, encoded);
    }
    Ok(produced)
}

/// Ships what waited, now that enough signatures are there.
fn ship_ready(
    platform: &Platform,
    fleet: &Fleet,
    secret: &Secret,
    request: &BundleRequest<'_>,
    plan: &StreamContents<'_>,
    ready: CountersignedBundle,
) -> Result<Produced, ProduceError> {
    let compressed = ready.bundle.index_compressed()?;
    let sign = SignRequest {
        role: &plan.role,
        number: ready.pending.number,
        index_bytes: &ready.bundle.index_bytes.clone(),
        index_compressed: compressed.as_deref(),
        issued: request.issued,
        expires: ready.pending.expires,
    };
    let (cluster_type, environment) = (plan.cluster_type, &platform.rendering.environment);
    let file = file_of(request, cluster_type, environment, sign.number);
    check_place(request, &file, (&plan.role, &ready.bundle.index))?;
    let signed = signing::sign(fleet, sign, secret)?;
    let made = (ready.bundle, ready.plain);
    let signer = fleet.statement_signer(secret)?;
    let last = (&ready.last, &signer);
    ship(fleet, request, plan, sign, signed, made, last)
}

/// Signs and ships what was built, or keeps it until someone else has signed it as well.
fn ship_or_ask(
    fleet: &Fleet,
    secret: &Secret,
    request: &BundleRequest<'_>,
    plan: &StreamContents<'_>,
    sign: SignRequest<'_>,
    built: Built,
    last: (&Record, &StatementSigner),
) -> Result<Produced, ProduceError> {
    match signing::sign(fleet, sign, secret) {
        Ok(signed) => {
            let made = (built.bundle, built.plain);
            ship(fleet, request, plan, sign, signed, made, last)
        }
        Err(FleetError::CountersignatureNeeded {
            threshold,
            found,
            request,
            ..
        }) => {
            let SignRequest { role, number, .. } = sign;
            countersigned::keep(fleet, role, number, &built, last.0)?;
            let waiting = AwaitedSignature {
                role: role.to_owned(),
                request,
                threshold,
                found,
            };
            Ok(countersigned::waits(plan, &built, number, (waiting, None)))
        }
        Err(error) => Err(error.into()),
    }
}
