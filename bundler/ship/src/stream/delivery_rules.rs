//! What delivery policies forbid, found before anything is signed.
//!
//! What comes in: a stream's [`Delivery`], for whom the bundle is encrypted, and the assembled bundle.
//! What goes out: nothing, or a [`PolicyViolation`] that names the policy and its place. It is pure.

use std::collections::BTreeMap;

use outhaul_bundle::Index;

use outhaul_control::model::{Encryption, Transport};
use outhaul_plane::delivery::Delivery;

/// Room for TUF's metadata, which exists only once it is signed; and a bundle over its budget must not be
/// signed. A fleet of a hundred streams needs about this much.
const METADATA_BYTES: u64 = 32 << 10;
/// Tar pads everything to blocks of this size, and puts a header of one block before each member.
const BLOCK: u64 = outhaul_bundle::BLOCK as u64;
/// How many contents a refusal lists.
const LISTED: usize = 5;

/// A bundle that a delivery policy forbids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stream `{stream}`: {what}")]
pub struct PolicyViolation {
    /// `<environment>/<cluster type>`.
    pub stream: String,
    /// What is forbidden, and by which policy.
    pub what: String,
    /// What makes it so large, when that is it: largest first.
    pub largest: Vec<String>,
    /// What to do next.
    pub help: String,
}

/// Why no bundle is made of a stream that travels by git alone; `None` when one is.
pub(super) fn suppressed(delivery: &Delivery) -> Option<String> {
    let transport = delivery.transport.as_ref()?;
    (transport.value == Transport::Git)
        .then(|| format!("travels by git alone, says {}", transport.by()))
}

/// Encryption as the policy wants it.
pub(super) fn readers(
    delivery: &Delivery,
    stream: &str,
    readers: usize,
) -> Result<(), PolicyViolation> {
    let Some(said) = &delivery.encryption else {
        return Ok(());
    };
    let (what, help) = match (said.value, readers) {
        (Encryption::Required, 0) => (
            format!(
                "{} wants it encrypted, and no recipient is given",
                said.by()
            ),
            "name the readers: `--seal-for FILE`; nothing was written",
        ),
        (Encryption::None, 1..) => (
            format!(
                "{} says that it is never encrypted, and readers are named",
                said.by()
            ),
            "leave `--seal-for` out, or choose other streams with `--cluster-type`; nothing was written",
        ),
        _ => return Ok(()),
    };
    Err(PolicyViolation {
        stream: stream.to_owned(),
        what,
        largest: Vec::new(),
        help: help.to_owned(),
    })
}

/// The bundle's size as the policy wants it.
pub(super) fn budget(
    delivery: &Delivery,
    stream: &str,
    index: &Index,
    index_bytes: usize,
) -> Result<(), PolicyViolation> {
    let Some(said) = &delivery.size_budget else {
        return Ok(());
    };
    let member = |size: u64| BLOCK + size.div_ceil(BLOCK) * BLOCK;
    let blobs = index.blobs.iter().map(|blob| member(blob.size));
    let size = blobs.fold(
        member(index_bytes as u64) + METADATA_BYTES,
        u64::saturating_add,
    );
    if size <= said.value {
        return Ok(());
    }
    Err(PolicyViolation {
        stream: stream.to_owned(),
        what: format!(
            "its bundle would have {size} bytes, and {} allows {}",
            said.by(),
            said.value
        ),
        largest: largest(index),
        help: "make these smaller, move targets elsewhere, or raise `sizeBudget`; of this stream nothing was signed"
            .to_owned(),
    })
}

/// The largest contents, each once, under the first name that they have.
fn largest(index: &Index) -> Vec<String> {
    let mut sizes = BTreeMap::new();
    for assignment in &index.assignments {
        for (folder, files) in [
            ("files", &assignment.files),
            ("payload", &assignment.payload),
        ] {
            for file in files {
                sizes.entry(file.content).or_insert_with(|| {
                    let name = format!("{}/{folder}/{}", assignment.name, file.path);
                    (std::cmp::Reverse(file.size), name)
                });
            }
        }
    }
    let served = &index.served;
    for one in &served.repositories {
        let name = format!("the pack of {}", one.url);
        sizes.insert(one.pack.digest, (std::cmp::Reverse(one.pack.size), name));
    }
    for image in &served.images {
        for content in &image.blobs {
            let name = format!("{} of image {}", content.digest, image.name);
            sizes.insert(content.digest, (std::cmp::Reverse(content.size), name));
        }
    }
    let mut sizes: Vec<_> = sizes.into_values().collect();
    sizes.sort();
    let line = |(size, name): (std::cmp::Reverse<u64>, String)| format!("{} bytes: {name}", size.0);
    sizes.into_iter().take(LISTED).map(line).collect()
}
