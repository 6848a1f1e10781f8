//! What goes into one stream's bundle: what is sound, and what is broken as it last was.
//!
//! What comes in: the rendering, what the stream last shipped, and where payloads are. What goes out: a
//! [`Plan`], or the refusal to remove too much. Kept assignments are tried for their payload here, so
//! that one whose payload is gone is left out and does not stop the stream. It writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_bundle::Digest;
use outhaul_bundle::name::Name;
use outhaul_signer::fleet::Fleet;

use super::ProduceError;
use super::last::{LastAssignment, LastStream};
use crate::Diagnostics;
use crate::assemble::Spool;
use crate::collect::{self, CollectError};
use crate::delivery::{self, Delivery};
use crate::guard::{self, Removal};
use crate::isolation::{self, Isolation, Last};
use crate::pipeline::Platform;
use crate::render::RenderedAssignment;
use crate::schedule::AssignmentId;

/// One stream's content, before it has a number.
pub(super) struct Plan<'a> {
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
    pub(super) last: Option<LastStream>,
    /// What the delivery policies say of it.
    pub(super) delivery: Delivery,
}

impl<'a> Plan<'a> {
    pub(super) fn of(
        platform: &'a Platform,
        fleet: &Fleet,
        cluster_type: &'a str,
    ) -> Result<Self, ProduceError> {
        let rendering = &platform.rendering;
        let delivery = match platform.control_plane.cluster_types.get(cluster_type) {
            Some(found) => delivery::of(&platform.control_plane, found)?,
            None => Delivery::default(),
        };
        let role = fleet.role(&rendering.environment, cluster_type);
        let last = LastStream::read(fleet.folder(), &role)?;
        let group = rendering.cluster_types.get(cluster_type);
        let mut assignments = group
            .map(|group| group.assignments.clone())
            .unwrap_or_default();
        let here = |(id, _): &(&AssignmentId, &Diagnostics)| id.cluster_type == cluster_type;
        let failures = rendering.failures.iter().filter(here);
        let undecided = rendering.undecided.iter().filter(here);
        let known = last.as_ref().map(|last| &last.assignments);
        let mut trouble = None;
        let isolation = isolation::isolate(failures, undecided, |id| {
            let Some(before) = known.and_then(|known| known.get(&id.target)) else {
                return Last::None("it has no last good output".to_owned());
            };
            match still_there(platform, &id.target, before) {
                Ok(None) => Last::Good {
                    from: before.from,
                    content: before,
                },
                Ok(Some(why)) => Last::None(why),
                Err(error) => {
                    trouble = Some(error);
                    Last::None(String::new())
                }
            }
        });
        if let Some(error) = trouble {
            return Err(error);
        }
        let mut kept = BTreeMap::new();
        let mut pins = BTreeMap::new();
        for (id, (_, before)) in &isolation.kept {
            assignments.insert(id.target.clone(), before.rendered());
            kept.insert(id.target.parse()?, before.from);
            if let Some(commit) = &before.payload_commit {
                pins.insert(id.target.clone(), commit.clone());
            }
        }
        let isolation = isolation.without_content();
        Ok(Self {
            cluster_type,
            role,
            reconciler: group.map_or("", |group| group.reconciler.as_str()),
            assignments,
            kept,
            pins,
            isolation,
            last,
            delivery,
        })
    }

    /// Whether there is nothing to send, only because nothing is sound.
    pub(super) fn is_void(&self) -> bool {
        self.assignments.is_empty() && !self.isolation.is_empty()
    }

    /// What of it no bundle carries. What was shipped before was found fit then.
    pub(super) fn uncarried(&self, platform: &Platform) -> Diagnostics {
        let targets = &platform.control_plane.targets;
        let fresh = self.assignments.keys().filter(|name| {
            let kept = |kept: &Name| kept.as_str() == name.as_str();
            !self.kept.keys().any(kept)
        });
        let mut findings = Diagnostics::new();
        findings.extend(
            fresh
                .filter_map(|name| targets.get(name))
                .filter_map(|target| {
                    delivery::storage::uncarried(&self.delivery, self.cluster_type, target)
                }),
        );
        findings
    }

    /// Compares with what the stream last shipped.
    pub(super) fn guard(&self, platform: &Platform) -> Result<(), Removal> {
        let before = self.last.as_ref().map(LastStream::names);
        let after: BTreeSet<String> = self
            .assignments
            .keys()
            .map(|name| format!("{}/{name}", self.cluster_type))
            .collect();
        guard::check(
            &platform.control_plane,
            &format!(
                "stream `{}/{}`",
                platform.rendering.environment, self.cluster_type
            ),
            &before.unwrap_or_default(),
            &after,
            self.delivery
                .max_removal_percent
                .as_ref()
                .map_or(guard::MAX_REMOVAL_PERCENT, |most| most.value),
        )
    }
}

/// Why the payload of a kept assignment cannot be had any more; `None` when it can.
fn still_there(
    platform: &Platform,
    name: &str,
    before: &LastAssignment,
) -> Result<Option<String>, ProduceError> {
    let Some(commit) = &before.payload_commit else {
        return Ok(None);
    };
    let collected = collect::collect(
        &BTreeMap::from([(name.to_owned(), before.rendered())]),
        &BTreeMap::from([(name.to_owned(), commit.clone())]),
        &platform.sources,
        &platform.cache,
        &mut Spool::new(&std::env::temp_dir())?,
    );
    match collected {
        Ok(_) => Ok(None),
        Err(CollectError::Source { source, .. }) if source.is_input() => Ok(Some(format!(
            "the payload of its last good output cannot be had any more: {source}"
        ))),
        Err(CollectError::Gone { .. }) => Ok(Some(
            "the folder with the payload of its last good output was changed".to_owned(),
        )),
        Err(error) => Err(error.into()),
    }
}
