//! What of a bundle a file is that is not the whole of it: a part, a copy for sites with an earlier bundle, a parity part.
//!
//! What comes in: what was found in the file. What goes out: what it completes, what of it was checked, and why something is not in it, in
//! words and as JSON. It reads nothing.

use outhaul_attest::PROVENANCE;
use outhaul_attest::inspect::Inspection;
use outhaul_bundle::index::{Blob, Index};
use outhaul_bundle::volume::{Parity, Volume};
use outhaul_kit::format_count::format_count;
use serde_json::json;

use super::copy::words::with_twins;
use super::data;

/// Of what the digests were checked: no more than lies in the file.
pub(super) fn checked(found: &Inspection) -> String {
    let blobs = found.index.blobs.len();
    match (&found.volume, &found.parity) {
        (_, Some(_)) => "the digest of the parity checked; no blob is in this file".to_owned(),
        (Some(volume), None) => {
            let here = volume.carried(&found.index).len();
            format!(
                "every digest checked of {} in this file{}; {} of {blobs} are not in it",
                format_count(here, "blob", "blobs"),
                patches_checked(volume, &found.index),
                blobs.saturating_sub(here)
            )
        }
        (None, None) => "every digest checked".to_owned(),
    }
}

/// What is known of the patches in the file, as a part of a sentence: what they make is compared on site.
pub(super) fn patches_checked(volume: &Volume, index: &Index) -> String {
    match volume.patched(index).len() {
        0 => String::new(),
        count => format!(
            ", and {} as written (what a patch makes, a site compares with the signed index)",
            format_count(count, "patch is", "patches are")
        ),
    }
}

/// What a file that is not the whole bundle needs besides.
pub(super) fn completed_by(volume: &Volume, index: &Index, twins: usize) -> String {
    let left_out = volume.left_out(index);
    let bytes = left_out.iter().map(|blob| blob.size).sum::<u64>();
    let left_out = format_count(left_out.len(), "blob", "blobs");
    let bases = volume.named_bases();
    let patched = volume.patched(index);
    if patched.is_empty() {
        return format!(
            "complete only on a site that has {bases} (or holds {left_out}, {bytes} bytes)"
        );
    }
    let (whole, patches) = patched_bytes(&patched);
    format!(
        "complete only on a site that has {bases}{}: {left_out} of {bytes} bytes left out, {} of {whole} bytes as patches of \
         {patches} bytes",
        with_twins(twins),
        format_count(patched.len(), "blob", "blobs")
    )
}

/// Bytes of blobs that are carried as patches, and of the patches.
fn patched_bytes(patched: &[(&Blob, u64)]) -> (u64, u64) {
    let whole = patched.iter().map(|(blob, _)| blob.size).sum();
    (whole, patched.iter().map(|(_, bytes)| bytes).sum())
}

/// What a copy for sites with an earlier bundle needs and saves; nothing of another file.
pub(super) fn left_out_json(
    volume: &Volume,
    index: &Index,
    twins: usize,
) -> Option<serde_json::Value> {
    let left_out = volume.left_out(index);
    let patched = volume.patched(index);
    let (whole, patches) = patched_bytes(&patched);
    volume.is_since().then(|| {
        json!({
            "since": volume.bases(), "blobs": left_out.len(),
            "bytes": left_out.iter().map(|blob| blob.size).sum::<u64>(),
            "patches": { "blobs": patched.len(), "bytes": patches, "in_place_of": whole, "twins": twins },
        })
    })
}

/// What of its bundle the file is, when it is not the whole of it.
pub(super) fn print_file(found: &Inspection) {
    if let Some(volume) = &found.volume {
        print_part(volume, &found.index, found.twins);
    }
    if let Some(parity) = &found.parity {
        data(&format!("  parity      {}", parity_sentence(parity)));
    }
}

fn print_part(volume: &Volume, index: &Index, twins: usize) {
    if volume.is_since() {
        data(&format!(
            "  copy        {}",
            completed_by(volume, index, twins)
        ));
        return;
    }
    let (part, parts) = (volume.part(), volume.parts());
    let others = (1..=parts).filter(|other| *other != part);
    let others: Vec<_> = others.map(|other| other.to_string()).collect();
    data(&match others.as_slice() {
        [] => format!("  part        {part} of {parts}"),
        others => format!(
            "  part        {part} of {parts}; a site needs part {}, too",
            others.join(", ")
        ),
    });
}

/// What a parity part is, after "this is".
pub(super) fn parity_sentence(parity: &Parity) -> String {
    format!(
        "parity part {} of {} for the bundle in {}: it stands in for any one of them that is lost or damaged",
        parity.part(),
        parity.of(),
        format_count(parity.parts(), "part", "parts")
    )
}

/// Why the provenance cannot be read in this file.
pub(super) fn no_provenance(found: &Inspection) -> &'static str {
    let index = &found.index;
    let Some(blob) = provenance_blob(index) else {
        return "this bundle has none";
    };
    let is_it = |other: &&Blob| other.digest == blob.digest;
    match (&found.parity, &found.volume) {
        _ if blob.sealed.is_some() => "it is sealed",
        (Some(_), _) => "no blob is in this file",
        (None, Some(volume)) if volume.left_out(index).iter().any(is_it) => {
            "this copy leaves it out, because an earlier bundle has it"
        }
        (None, Some(volume)) if volume.patched(index).iter().any(|(other, _)| is_it(other)) => {
            "this copy has a patch in its place, and an earlier bundle is needed to read it"
        }
        (None, Some(volume)) if !volume.carried(index).iter().any(is_it) => "it is in another part",
        _ => "it is too large or of another form than this program reads",
    }
}

/// The blob with the provenance of a bundle; `None` where it has no provenance.
fn provenance_blob(index: &Index) -> Option<&Blob> {
    let mut attestations = index.attestations.iter();
    let file = attestations.find(|file| file.path.as_str() == PROVENANCE)?;
    let has_it = |blob: &&Blob| {
        let mut contents = blob.contents.iter();
        contents.any(|content| content.digest == file.content)
    };
    index.blobs.iter().find(has_it)
}
