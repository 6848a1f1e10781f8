//! What became of the streams of one run.
//!
//! What comes in: what each stream came to. What goes out: the same in one value, for people and programs. It decides
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use outhaul_bundle::name::Name;
use outhaul_control::diagnostic::Diagnostics;
use outhaul_plane::schedule::AssignmentId;
use outhaul_signer::publish::Pending;

use outhaul_attest::verified::VerifiedImage;
use outhaul_pins::MovedPin;
use outhaul_record::isolation::Isolation;

/// What became of every stream, and of what was broken.
#[derive(Debug, Default)]
pub struct Production {
    /// The streams, by name. One in which nothing is sound, and nothing ever was, is not among them.
    pub streams: Vec<Produced>,
    /// What became of the broken assignments of the streams that were asked for.
    pub isolation: Isolation<()>,
    /// What was in the last bundle of a stream and is not in the new one, by assignment: why.
    pub removed: BTreeMap<AssignmentId, String>,
    /// Enrolled sites by their stream, where the environment has no cluster type of that name any more: nothing is
    /// made for them. Only when every stream was asked for.
    pub orphans: BTreeMap<String, BTreeSet<Name>>,
    /// Images and repositories that were asked for again and are others than before.
    pub moved: Vec<MovedPin>,
    /// What is not known of the charts that travel, which images are not verified, and which trusted roots are old.
    pub uncertain: Diagnostics,
    /// Images whose signatures were verified.
    pub signed: Vec<VerifiedImage>,
    /// Streams of which no bundle is made now, because their sites would lose what they run.
    pub stalled: BTreeSet<String>,
}

impl Production {
    /// Whether everything was shipped that is meant to be, and nothing that is doubtful is an error: no stream waits for a signature, no
    /// site gets nothing. A script must see that it is not so.
    pub fn is_complete(&self) -> bool {
        let is_shipped = self.streams.iter().all(|one| one.waiting.is_none());
        is_shipped && self.orphans.is_empty() && !self.uncertain.has_errors()
    }
}

/// What became of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Produced {
    /// The cluster type.
    pub cluster_type: String,
    /// The number that is current now.
    pub number: u64,
    /// Whether it is a new number.
    pub changed: bool,
    /// The bundle that was written: a new one, or the current one once more; `None` when it is there.
    pub file: Option<PathBuf>,
    /// The bundle's size in bytes; 0 when none was written.
    pub bytes: u64,
    /// Bytes of all of its contents.
    pub content_bytes: u64,
    /// How many assignments are in it.
    pub assignments: usize,
    /// Why no bundle is made of it at all, when a delivery policy says so.
    pub suppressed: Option<String>,
    /// Why it has a new number although nothing changed.
    pub because: Option<String>,
    /// What of the published folder was gone or another one and was written again, in a sentence each.
    pub restored: Vec<String>,
    /// Whose signature it waits for; nothing is shipped before.
    pub waiting: Option<AwaitedSignature>,
}

/// What a stream waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedSignature {
    /// The stream's role.
    pub role: String,
    /// The request to be answered.
    pub request: PathBuf,
    /// Signatures needed.
    pub threshold: usize,
    /// Signatures there.
    pub found: usize,
}

impl AwaitedSignature {
    pub(super) fn of(pending: &Pending, role: &str) -> Self {
        Self {
            role: role.to_owned(),
            request: pending.request.clone(),
            threshold: pending.threshold,
            found: pending.found,
        }
    }
}
