//! `outhaul-hub approve`, `hold`, `waive`, `defer`, `withdraw` and `approvals`: what people decide about gates, on record.
//!
//! What comes in: who decides what, why, and until when. What goes out: one entry more on record, which nothing
//! changes or removes. Who may run a command on the hub's state may give any name: it is for the record, and no proof.

use outhaul_kit::text::one_full_line;
use serde_json::json;

use super::{Common, Output, print};
use crate::acting::{self, until};
use crate::error::HubError;
use crate::gate;
use crate::store::{Act, ActKind, StoreError};
use crate::time;

/// Approve the promotion of a commit, on record
///
/// A gate whose rules ask for approvals counts this one when NAME is on their list.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub approve --environment dev --by alice \
                        --commit $(git -C control-plane rev-parse main) --reason \"release 4 is signed off\" --state hub"
)]
pub(crate) struct Approve {
    /// The environment that the commit is promoted from
    #[arg(long, value_name = "NAME")]
    environment: String,
    /// The base commit, in full
    #[arg(long, value_name = "SHA", value_parser = commit)]
    commit: String,
    /// When the approval ends; without it, when it is withdrawn
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    #[command(flatten)]
    who: Who,
}

/// Hold promotions from an environment back, on record
///
/// The gate is closed until someone withdraws the hold, or it ends. What runs on sites is not changed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub hold --environment stage --by alice \
                        --reason \"the press hall reports smoke\" --state hub"
)]
pub(crate) struct Hold {
    /// The environment to hold: nothing is promoted from it
    #[arg(long, value_name = "NAME")]
    environment: String,
    /// Only this base commit, in full
    #[arg(long, value_name = "SHA", value_parser = commit)]
    commit: Option<String>,
    /// When the hold ends; without it, when it is withdrawn
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    #[command(flatten)]
    who: Who,
}

/// Exclude one site from gates for a time, whatever it reports; on record
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub waive --site drone-17 --until 14d \
                        --reason \"in dock\" --by alice --state hub"
)]
pub(crate) struct Waive {
    #[command(flatten)]
    site: OneSite,
}

/// Expect one site later, by a deadline, on record
///
/// Until then gates go on without its report; a failure that it reports still closes them. After the deadline a site
/// that still does not confirm closes the gate, whatever share of sites is needed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub defer --site ship-3 --until 2026-12-24 \
                        --reason \"at sea\" --by alice --state hub"
)]
pub(crate) struct Defer {
    #[command(flatten)]
    site: OneSite,
}

/// End an approval, hold, waiver or deferral before its time, on record
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub withdraw 4 --by bob --reason \"back from the dock\" --state hub"
)]
pub(crate) struct Withdraw {
    /// Its number, as `outhaul-hub approvals` shows it
    #[arg(value_name = "NUMBER")]
    id: i64,
    #[command(flatten)]
    who: Who,
}

/// List approvals, holds, waivers and deferrals: who, why, and until when
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-hub approvals --all --state hub")]
pub(crate) struct List {
    /// Also those that ended or were withdrawn, and the withdrawals
    #[arg(long)]
    all: bool,
}

#[derive(Debug, clap::Args)]
struct OneSite {
    /// The site
    #[arg(long, value_name = "NAME")]
    site: String,
    /// When it ends: `2026-12-24`, `2026-12-24T18:00:00Z`, `36h` or `14d`
    #[arg(long, value_name = "WHEN")]
    until: String,
    #[command(flatten)]
    who: Who,
}

#[derive(Debug, clap::Args)]
struct Who {
    /// Why
    #[arg(long, value_name = "TEXT", value_parser = one_full_line)]
    reason: String,
    /// Who decides it
    #[arg(long, value_name = "WHO", value_parser = one_full_line)]
    by: String,
}

impl Who {
    fn act(&self, kind: ActKind, now_ms: i64) -> Act {
        Act::new(kind, self.by.trim(), &self.reason, now_ms)
    }
}

pub(super) fn approve(common: &Common, args: &Approve) -> Result<u8, HubError> {
    let now_ms = time::now_ms();
    let act = Act {
        environment: Some(args.environment.clone()),
        commit: Some(args.commit.clone()),
        until_ms: ends(args.until.as_deref(), "an approval", now_ms)?,
        ..args.who.act(ActKind::Approve, now_ms)
    };
    record(common, &act)
}

pub(super) fn hold(common: &Common, args: &Hold) -> Result<u8, HubError> {
    let now_ms = time::now_ms();
    let act = Act {
        environment: Some(args.environment.clone()),
        commit: args.commit.clone(),
        until_ms: ends(args.until.as_deref(), "a hold", now_ms)?,
        ..args.who.act(ActKind::Hold, now_ms)
    };
    record(common, &act)
}

pub(super) fn waive(common: &Common, args: &Waive) -> Result<u8, HubError> {
    excuse(common, &args.site, ActKind::Waive, "a waiver")
}

pub(super) fn defer(common: &Common, args: &Defer) -> Result<u8, HubError> {
    excuse(common, &args.site, ActKind::Defer, "a deferral")
}

fn excuse(common: &Common, args: &OneSite, kind: ActKind, what: &str) -> Result<u8, HubError> {
    let now_ms = time::now_ms();
    let act = Act {
        site: Some(args.site.clone()),
        until_ms: Some(until(&args.until, what, now_ms)?),
        ..args.who.act(kind, now_ms)
    };
    record(common, &act)
}

pub(super) fn withdraw(common: &Common, args: &Withdraw) -> Result<u8, HubError> {
    let act = Act {
        withdraws: Some(args.id),
        ..args.who.act(ActKind::Withdraw, time::now_ms())
    };
    record(common, &act)
}

fn ends(text: Option<&str>, what: &str, now_ms: i64) -> Result<Option<i64>, HubError> {
    text.map(|text| until(text, what, now_ms)).transpose()
}

fn record(common: &Common, act: &Act) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    print::clock(&mut hub)?;
    let (id, note) = hub.store.write(|session| acting::record(session, act))?;
    if let Some(note) = note {
        print::talk(&format!("note: {note}"));
    }
    print_recorded(common, id, act);
    Ok(0)
}

pub(super) fn list(common: &Common, args: &List) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    print::clock(&mut hub)?;
    let now_ms = time::now_ms();
    let (acts, restored) = hub.store.read(|session| {
        let acts = if args.all {
            session.acts(u32::MAX)
        } else {
            session.acts_in_force(now_ms)
        };
        Ok::<_, StoreError>((acts?, session.last_restore()?))
    })?;
    match common.output {
        Output::Json => print::json(&acts),
        Output::Text => {
            for act in &acts {
                let at = time::rfc3339(act.at_ms);
                print::data(&format!(
                    "{}: {} by {}, {at}: {}{}",
                    act.id,
                    act.sentence(),
                    act.by,
                    act.reason,
                    match restored.is_some_and(|restored| !restored.holds(act)) {
                        true => " (from before the restore: does not count)",
                        false => "",
                    }
                ));
            }
        }
    }
    Ok(0)
}

fn print_recorded(common: &Common, id: i64, act: &Act) {
    match common.output {
        Output::Json => {
            let until = act.until_ms.map(time::rfc3339);
            print::json(&json!({
                "id": id, "kind": act.kind, "site": act.site, "environment": act.environment,
                "commit": act.commit, "withdraws": act.withdraws, "until": until, "by": act.by,
            }));
        }
        Output::Text => print::data(&format!("{} (number {id} on record)", act.sentence())),
    }
}

fn commit(text: &str) -> Result<String, String> {
    gate::commit(text).map(str::to_owned)
}
