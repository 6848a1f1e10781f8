//! The next bundle of one stream, as a destination of what was rendered.
//!
//! What comes in: what of the stream is sound, who signs, and what was asked for. What goes out: the stream's
//! bundle, made, signed and on record, or none where nothing is sound or sites would lose what they run; and
//! what became of the broken ones.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use outhaul_bundle::name::Name;
use outhaul_kit::console::stage;
use outhaul_load::pipeline::Platform;
use outhaul_plane::schedule::{AssignmentId, gone};
use outhaul_signer::key::Secret;

use super::plan::{LastBundle, Sound, StreamContents};
use super::{BundleRequest, ProduceError, Produced, damaged, delivery_rules, make, shipped};
use crate::assemble::EncodedBefore;
use crate::destination::{Committed, Destination};
use outhaul_record::guard::Removal;
use outhaul_record::isolation::Isolation;
use outhaul_record::plan::{DesiredContent, Plan, Shipped};

/// One stream, and the bundle that is to be its newest.
pub(super) struct ToStream<'a> {
    pub(super) sound: Sound<'a>,
    pub(super) secret: &'a Secret,
    pub(super) request: &'a BundleRequest<'a>,
    pub(super) recipients: BTreeSet<Name>,
    /// What bundles that were made before hold already.
    pub(super) encoded: Rc<EncodedBefore>,
}

impl<'a> Destination for ToStream<'a> {
    type Shipped = LastBundle<'a>;
    type Done = (Option<Produced>, Isolation<()>);
    type Error = ProduceError;

    fn wanted(&self) -> DesiredContent<'_> {
        self.sound.wanted()
    }

    fn read(&mut self) -> Result<LastBundle<'a>, ProduceError> {
        let delivery = &self.sound.delivery;
        let mut last = self.sound.last()?;
        if last.record().is_none()
            && !self.request.strict
            && let Some(lost) = shipped::lost(self.sound.fleet, &self.sound.role)?
        {
            return Err(lost.into());
        }
        let environment = &self.sound.platform.rendering.environment;
        let stream = format!("{environment}/{}", self.sound.cluster_type);
        last.know_names(&stream)?;
        if delivery_rules::suppressed(delivery).is_none() {
            let readers = self.request.readers.map_or(0, <[_]>::len);
            delivery_rules::readers(delivery, &stream, readers)?;
        }
        Ok(last)
    }

    /// The other streams are made.
    fn all_broken(&self) -> Option<ProduceError> {
        None
    }

    fn commit(
        &mut self,
        mut last: LastBundle<'a>,
        plan: Plan<()>,
    ) -> Result<Committed<Self::Done, ProduceError>, ProduceError> {
        last.take_error()?;
        let Self {
            sound,
            secret,
            request,
            recipients,
            encoded,
        } = self;
        let mut cargo = StreamContents::of(sound, last, plan)?;
        let mut made = None;
        if !cargo.is_void() && !cargo.stalled {
            let platform = sound.platform;
            made = Some(stage(
                &cargo.looked_at(&platform.rendering.environment),
                || {
                    let made = make::make(
                        platform,
                        sound.fleet,
                        secret,
                        request,
                        &cargo,
                        recipients,
                        &mut sound.collector.borrow_mut(),
                        encoded,
                    );
                    made.map_err(|error| damaged::instead(error, &sound.collector.borrow()))
                },
            )?);
        }
        let mut isolation = Isolation::default();
        if cargo.stalled {
            for target in cargo.assignments.keys() {
                let id = AssignmentId {
                    cluster_type: cargo.cluster_type.to_owned(),
                    target: target.clone(),
                };
                let why = "no bundle of this stream is made now; sites keep what they have";
                isolation.left_out.insert(id, why.to_owned());
            }
        }
        isolation.append(std::mem::take(&mut cargo.isolation));
        Ok(Committed::Done((made, isolation)))
    }
}

impl From<Removal> for ProduceError {
    fn from(removal: Removal) -> Self {
        Self::Removals {
            removals: vec![removal],
        }
    }
}

/// What a stream loses, and why; what is broken is reported as that.
pub(super) fn removed(
    platform: &Platform,
    last: &impl Shipped,
    plan: &Plan<()>,
) -> BTreeMap<AssignmentId, String> {
    let there = last.there().into_iter().map(|(id, _)| id);
    let gone = there.filter(|id| {
        !plan.after.contains(&id.to_string()) && !plan.isolation.left_out.contains_key(id)
    });
    gone.map(|id| {
        let why = gone::why(&platform.control_plane, &platform.answers, &id);
        (id, why)
    })
    .collect()
}
