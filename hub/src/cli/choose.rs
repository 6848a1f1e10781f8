//! `outhaul-hub choose`: which of two machines with one key is the site.
//!
//! What comes in: a report of one of the two, by its digest, who chooses and why. What goes out: one entry more on record
//! and, from then on, that machine's reports as the site's state. It removes nothing of what was reported.

use outhaul_kit::text::one_full_line;
use serde_json::json;

use super::{Common, Output, print};
use crate::acting::{unknown_site, usage};
use crate::error::HubError;
use crate::gate;
use crate::store::{Act, ActKind, NamedReport, Session};
use crate::time;

/// Fewest hexadecimal digits of a digest that are taken for it.
const LEAST_DIGITS: usize = 8;

/// Choose which of two machines with one key is the site, on record
///
/// A hub that gets reports of two machines with one site's key, or of one that was restored from a copy, counts neither
/// at a gate. Look at both, switch one off, and name a report of the other by its digest, as `outhaul-hub sites` prints
/// it. Where the machine that you choose is not the one on record, bring it this hub's acknowledgement (`outhaul-hub acks
/// STICK`): it begins a numbering of its own, and counts from its next reports on; one that has begun already counts at once. Another choice replaces one that was wrong.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub choose drone-17 --digest 4be1c0b2a9d3 --by alice --reason \
                        \"the other one is the test bench\" --state hub"
)]
pub(crate) struct Args {
    /// The site
    #[arg(value_name = "SITE")]
    site: String,
    /// The digest of a report of the machine that is the site, or its first 8 digits or more
    #[arg(long, value_name = "DIGEST", value_parser = digits)]
    digest: String,
    /// Why
    #[arg(long, value_name = "TEXT", value_parser = one_full_line)]
    reason: String,
    /// Who decides it
    #[arg(long, value_name = "WHO", value_parser = one_full_line)]
    by: String,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    print::clock(&mut hub)?;
    let now_ms = time::now_ms();
    let (id, act, after) = hub.store.write(|session| {
        let mut chosen = named(session, args)?;
        let after = match chosen.epoch {
            Some(_) => None,
            None => session.renumbered(&args.site, &chosen.digest)?,
        };
        chosen.epoch = chosen.epoch.or_else(|| after.clone());
        let act = Act {
            site: Some(args.site.clone()),
            chosen: Some(chosen.digest),
            epoch: chosen.epoch,
            ..Act::new(ActKind::Choose, args.by.trim(), &args.reason, now_ms)
        };
        let id = session.add_act(&act)?;
        session.set_epochs_aside(&act)?;
        Ok::<_, HubError>((id, act, after))
    })?;
    let digest = act.chosen.as_deref().unwrap_or_default();
    match common.output {
        Output::Json => print::json(&json!({
            "id": id, "kind": act.kind, "site": act.site, "chosen": act.chosen, "epoch": act.epoch, "by": act.by,
        })),
        Output::Text => print::data(&format!(
            "the machine of report {} is site `{}` (number {id} on record)",
            gate::short(digest),
            args.site
        )),
    }
    if let Some(epoch) = &after {
        print::talk(&format!(
            "note: reports of that machine were refused; it renumbered them as `{epoch}`, which is on record and counts from now on"
        ));
    } else if act.epoch.is_none() {
        print::talk(&format!(
            "note: that machine's reports were refused until now. Bring it this hub's acknowledgement (`outhaul-hub acks \
             STICK`, or its connection): it starts a new numbering. Until its reports come in `{}` does not count",
            args.site
        ));
    }
    Ok(0)
}

/// The one report that is meant.
fn named(session: &Session<'_>, args: &Args) -> Result<NamedReport, HubError> {
    let lists = "`outhaul-hub sites` prints which sites are in conflict, with the digests";
    let Some(site) = session.site(&args.site)? else {
        return Err(unknown_site(session, &args.site)?);
    };
    // A choice that was wrong is replaced by another one.
    let was_chosen = session.choice_of(&site.site, site.enrolled_ms)?.is_some();
    if !was_chosen && !session.open_conflicts()?.contains_key(&site.site) {
        let problem = format!(
            "site `{}` is not in conflict: there is nothing to choose",
            args.site
        );
        return Err(usage(problem, lists));
    }
    let mut found = session.named_reports(&args.site, &args.digest)?;
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => Err(usage(
            format!(
                "several reports of `{}` begin with {}",
                args.site, args.digest
            ),
            "give more digits",
        )),
        (None, _) => Err(usage(
            format!(
                "no report of `{}` has a digest that begins with {}",
                args.site, args.digest
            ),
            lists,
        )),
    }
}

/// Hexadecimal digits, with or without `sha256:`.
fn digits(text: &str) -> Result<String, String> {
    let hex = text
        .strip_prefix("sha256:")
        .unwrap_or(text)
        .to_ascii_lowercase();
    let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex && (LEAST_DIGITS..=64).contains(&hex.len()) {
        return Ok(hex);
    }
    Err(format!(
        "expected {LEAST_DIGITS} to 64 hexadecimal digits of a report's digest, as `outhaul-hub sites` prints it"
    ))
}
