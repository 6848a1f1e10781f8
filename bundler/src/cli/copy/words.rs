//! What came of a copy, in words and as JSON.
//!
//! What comes in: a bundle, the file that was written of it, how its blobs travel, and what else lies on the medium. What goes out: text and
//! JSON. It prints nothing.

use std::path::Path;

use outhaul_copy::copies::KeptBundle;
use outhaul_copy::others::OtherBundles;
use outhaul_copy::patches::{How, Travels};
use outhaul_copy::write::FinishedCopy;
use outhaul_kit::format_count::format_count;
use outhaul_kit::text::json_path;
use serde_json::{Value, json};

/// Blobs of which a line says how they travel.
const MAX_NAMED: usize = 20;

pub(super) fn line(one: &FinishedCopy) -> String {
    let (bundle, copied, left_out) = (&one.bundle, &one.copied, one.left_out.as_ref());
    let only_for = left_out.map_or_else(String::new, |left_out| {
        let numbers: Vec<String> = left_out.numbers.iter().map(ToString::to_string).collect();
        format!(
            "; only for sites that have bundle {} ({} of {} bytes left out{}){}",
            numbers.join(" or "),
            format_count(left_out.blobs, "blob", "blobs"),
            left_out.bytes,
            patched(&left_out.others),
            with_twins(left_out.twins())
        )
    });
    format!(
        "{}: number {}, {} bytes {}{only_for}: {}",
        bundle.stream(),
        bundle.number,
        copied.bytes,
        match copied.written {
            true => "written and read back",
            false => "there already, read back",
        },
        copied.file.display()
    )
}

/// The same as `removable`, where all of so many files were there already.
pub(super) fn all_there(to: &Path, files: usize) -> String {
    format!(
        "`{}` had all of it already ({}): it was read back and is what was signed; a stick is safe to remove now",
        to.display(),
        format_count(files, "file", "files")
    )
}

/// Which sites take a copy with so many layers as twins, after what it is of.
pub(in crate::cli) fn with_twins(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!(
            " and whose agent takes twins for containerd ({} as {})",
            format_count(count, "layer", "layers"),
            if count == 1 { "a twin" } else { "twins" }
        ),
    }
}

/// What is carried as patches, in words.
pub(super) fn patched(others: &[Travels]) -> String {
    let patches = others.iter().filter_map(|other| match &other.how {
        How::Patch { bytes, .. } | How::Twin { bytes, .. } => Some((other.bytes, *bytes)),
        How::Whole { .. } => None,
    });
    let (mut count, mut whole, mut bytes) = (0usize, 0u64, 0u64);
    for (of, patch) in patches {
        count += 1;
        whole += of;
        bytes += patch;
    }
    match count {
        0 => String::new(),
        count => format!(
            ", {} of {whole} bytes as patches of {bytes} bytes",
            format_count(count, "blob", "blobs")
        ),
    }
}

/// A line for each blob that is not left out, the largest first.
pub(super) fn others_lines(others: &[Travels]) -> Vec<String> {
    let mut others: Vec<&Travels> = others.iter().collect();
    others.sort_by_key(|other| (std::cmp::Reverse(other.bytes), &other.name));
    let line = |other: &&Travels| match &other.how {
        How::Patch { bytes, method } => format!(
            "  {}: a patch of {bytes} bytes in place of {}, made by {}",
            other.name,
            other.bytes,
            method.word()
        ),
        How::Twin { bytes, why } => format!(
            "  {}: a twin of {bytes} bytes in place of {}: {why}",
            other.name, other.bytes
        ),
        How::Whole { why } => format!("  {}: whole, {} bytes: {why}", other.name, other.bytes),
    };
    let mut lines: Vec<String> = others.iter().take(MAX_NAMED).map(line).collect();
    if let Some(more) = others.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        lines.push(format!(
            "  and {more} smaller ones (`--output json` has all)"
        ));
    }
    lines
}

fn other_json(other: &Travels) -> Value {
    let (how, bytes, method, why) = match &other.how {
        How::Patch { bytes, method } => ("patch", *bytes, Some(method.word()), None),
        How::Twin { bytes, why } => ("twin", *bytes, None, Some(why)),
        How::Whole { why } => ("whole", other.bytes, None, Some(why)),
    };
    json!({
        "name": other.name, "blob": other.blob.to_string(), "whole_bytes": other.bytes, "how": how,
        "bytes": bytes, "method": method, "why": why,
    })
}

/// One file, for programs.
pub(super) fn json(one: &FinishedCopy, outdated: Option<&String>) -> Value {
    let (bundle, copied) = (&one.bundle, &one.copied);
    let left_out = one.left_out.as_ref().map(|left_out| {
        json!({
            "since": left_out.numbers, "blobs": left_out.blobs, "bytes": left_out.bytes,
            "twins": left_out.twins(),
            "others": left_out.others.iter().map(other_json).collect::<Vec<_>>(),
        })
    });
    json!({
        "environment": bundle.environment, "cluster_type": bundle.cluster_type,
        "number": bundle.number, "file": json_path(&copied.file), "bytes": copied.bytes,
        "written": copied.written, "left_out": left_out, "outdated": outdated,
    })
}

/// A line for each other bundle on the medium `to` that does not verify.
pub(super) fn other_bundles(others: &OtherBundles, to: &Path) -> Vec<String> {
    let unverified = others.unverified.iter();
    let mut lines: Vec<String> = unverified
        .map(|(path, problem)| {
            format!(
                "`{}` lies there as well, was not written now, and does not verify: {problem}",
                path.display()
            )
        })
        .collect();
    if others.incomplete {
        lines.push(format!(
            "`{}` holds more than was read: what else lies there was not checked",
            to.display()
        ));
    }
    lines
}

/// Why nothing is copied of a bundle.
pub(super) fn up_to_date(bundle: &KeptBundle) -> String {
    format!(
        "{}: number {} is the newest: a site that has it needs no copy; without `--since` it is copied whole",
        bundle.stream(),
        bundle.number
    )
}

/// Why a copy is whole though something was to be left out.
pub(super) fn nothing_left_out(bundle: &KeptBundle) -> String {
    format!(
        "{}: number {} has nothing that each of those bundles has: the whole bundle was copied",
        bundle.stream(),
        bundle.number
    )
}
