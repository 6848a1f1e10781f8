//! `outhaul bundle --estimate`: what the next bundles would bring, before anything is written.
//!
//! What comes in: a loaded platform and what was typed. What goes out: for each stream its files, images and
//! repositories with their bytes, and how much of it is new; and what a site could not reach. No layer of an image
//! is fetched, no key is used, and nothing of the fleet is written.

use outhaul_check::beside_estimates;
use outhaul_kit::format_count::{assignments, format_count};
use outhaul_load::pipeline::Platform;
use outhaul_record::isolation::Written;
use outhaul_ship::stream::estimate::{Estimate, Estimates, Share};
use serde_json::json;

use super::failure::Failure;
use super::render::isolation_json;
use super::{Exit, Output, data, print_json, say};
use outhaul_ship::outcome;

/// Prints what was estimated.
pub(super) fn print(
    platform: &Platform,
    estimates: &Estimates,
    cluster_types: &[String],
    output: Output,
) -> Result<Exit, Failure> {
    let environment = &platform.rendering.environment;
    let unreachable = beside_estimates(platform, cluster_types, &estimates.uncertain);
    if output == Output::Json {
        let (kept, left_out) = isolation_json(&estimates.isolation);
        let findings = unreachable.iter().map(outhaul_control::Diagnostic::to_json);
        print_json(&json!({
            "environment": environment,
            "streams": estimates.streams,
            "stalled": estimates.stalled,
            "kept": kept,
            "left_out": left_out,
            "would_update": estimates.moved.iter().map(|moved| json!({
                "name": moved.name, "from": moved.from, "to": moved.to,
            })).collect::<Vec<_>>(),
            "unreachable": findings.collect::<Vec<_>>(),
        }))?;
    } else {
        for one in &estimates.streams {
            data(&text(environment, one));
        }
    }
    if estimates.streams.iter().any(|one| one.against.is_some()) {
        say(
            "note: the bytes are of whole bundles: patches and twins of a copy for sites that have an earlier one (`outhaul copy --since`, `--twins`) \
             are not counted, and make it smaller",
        );
    }
    for moved in &estimates.moved {
        say(&format!(
            "would be updated: {} from {} to {}",
            moved.name, moved.from, moved.to
        ));
    }
    if !unreachable.is_empty() {
        super::say_findings(&unreachable);
    }
    let isolation = &estimates.isolation;
    if outcome::written(platform, isolation, 0, false) == Written::Everything {
        return Ok(Exit::SUCCESS);
    }
    let failure = Failure::broken(&outcome::findings(platform, isolation));
    let lines = isolation.lines();
    let failure = lines
        .iter()
        .fold(failure, |failure, line| failure.because(line));
    Err(failure.help(
        "an estimate writes nothing; what is named above would be left out or kept as it was",
    ))
}

fn text(environment: &str, one: &Estimate) -> String {
    let stream = format!("{environment}/{}", one.cluster_type);
    if let Some(why) = &one.suppressed {
        return format!("{stream}: no bundle, it {why}");
    }
    let against = match one.against {
        Some(number) => format!("new against number {number}"),
        None => "new, as nothing that was shipped before can be read here".to_owned(),
    };
    let mut lines = vec![format!(
        "{stream}: {}, {} bytes of content, {} of them {against}",
        assignments(one.assignments),
        one.total.bytes,
        one.total.new_bytes
    )];
    let new = |share: &Share| format!("{} bytes, {} new", share.bytes, share.new_bytes);
    lines.push(format!(
        "  files       {}, {}",
        format_count(one.file_count, "file", "files"),
        new(&one.files)
    ));
    for image in &one.images {
        let platforms = match image.platforms.as_slice() {
            [] => String::new(),
            platforms => format!(" ({})", platforms.join(", ")),
        };
        let digest = image.digest.short();
        lines.push(format!(
            "  image       {} at {digest}{platforms}: {}",
            image.name,
            new(&image.share)
        ));
    }
    for repository in &one.repositories {
        let refs = repository.refs.iter();
        let refs: Vec<String> = refs
            .map(|(name, id)| format!("{name} at {}", id.get(..15).unwrap_or(id)))
            .collect();
        lines.push(format!(
            "  repository  {} ({}): {}",
            repository.url,
            refs.join(", "),
            new(&repository.share)
        ));
    }
    lines.join("\n")
}
