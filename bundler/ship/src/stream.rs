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

use jiff::Timestamp;
use outhaul_bundle::name::Name;
use outhaul_kit::interrupt;
use outhaul_signer::fleet::Fleet;
use outhaul_signer::key::Secret;

use crate::assemble::EncodedBefore;
use crate::collect::{Collector, ImageSource, signers};
use crate::destination::{self, Committed, Destination as _};
use outhaul_control::Diagnostics;
use outhaul_load::pipeline::Platform;
use outhaul_load::program::Programs;
use outhaul_pins::Lock;
use outhaul_plane::delivery::statements;
use outhaul_record::plan::Shipped as _;
use outhaul_sites::Sites;
use outhaul_sites::readers::{self, NamedRecipient};

pub mod agent;
mod authenticated;
pub mod blob_record;
mod built;
mod carried;
mod countersigned;
mod current;
mod damaged;
mod delivery_rules;
mod earlier;
pub mod elsewhere;
mod error;
pub mod estimate;
mod kept_payload;
mod make;
mod next;
mod plan;
mod production;
mod recipients;
mod recording;
mod scan;
mod sealed;
mod share;
pub mod shelf;
mod shipped;
mod signing;
mod summary;
pub mod validity;

use agent::AgentPrograms;
pub use authenticated::outdated;
pub use delivery_rules::PolicyViolation;
use earlier::EarlierBundles;
pub use error::ProduceError;
use error::{ended, warn_of};
use next::{ToStream, removed};
use plan::Sound;
pub use plan::with_payloads;
pub use production::{AwaitedSignature, Produced, Production};
pub use recipients::bundled;
pub use shipped::ShippedError;
pub use summary::Summary;

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
