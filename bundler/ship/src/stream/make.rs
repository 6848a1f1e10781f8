//! The bundle of one stream: what it holds now compared with what was signed last, and built, signed and shipped where that differs.
//!
//! What comes in: what of the stream is sound, who signs, and what was asked for. What goes out: a [`Produced`]: a new number, the
//! current one once more, or a bundle that waits for signatures. It plans nothing, and reads nothing of other streams.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use outhaul_attest as attest;
use outhaul_bundle::index::{DriftPolicy, ReconcilerSettings, Stream};
use outhaul_bundle::name::Name;
use outhaul_control::model::Drift;
use outhaul_load::pipeline::Platform;
use outhaul_record::record::Record;
use outhaul_signer::fleet::{Fleet, FleetError, StatementSigner};
use outhaul_signer::key::Secret;
use outhaul_signer::publish::SignRequest;
use outhaul_sites::Sites;

use super::built::{Built, images_of, last_of, remember_encoded};
use super::countersigned::CountersignedBundle;
use super::current::Current;
use super::plan::{StreamContents, with_payloads};
use super::recording::{check_place, file_of, ship};
use super::shelf::StoredBundle;
use super::{
    AwaitedSignature, BundleRequest, ProduceError, Produced, authenticated, countersigned, current,
    delivery_rules, scan, signing, validity,
};
use crate::assemble::{self, BundleSources, EncodedBefore, Spool};
use crate::collect::Collector;

/// Makes the next bundle of the stream that `plan` is of, or finds that the one that was signed last is the same.
#[expect(
    clippy::too_many_arguments,
    clippy::too_many_lines,
    reason = "the steps of one stream, in their order"
)]
pub(super) fn make(
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
