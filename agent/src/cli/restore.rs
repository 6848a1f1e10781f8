//! `restore`: a site from its backup.

use outhaul_kit::text::{one_full_line, quoted};
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_host::{other_files, owner, state_place};
use outhaul_kit::media;

use super::Context;
use crate::agent::Agent;
use crate::config;
use crate::error::AgentError;
use crate::facilities::Facilities as _;
use crate::host::Host;
use crate::runner::held::{self, Lacking};
use crate::state_folder::StateFolder;
use outhaul_site::backup::restore::{Options, restore};

/// Makes this machine the site of a backup. The state folder must hold no site.
///
/// All of the file is checked before anything is written. The restored site renumbers its reports, so that the hub
/// sees none twice under one number. The machine that the backup is of must never run again. The service of this machine must not run
/// meanwhile, wherever its state folder was moved to: `systemctl stop outhaul-agent`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent restore /media/stick/press-7.backup \
                  --digest sha256:6f1ed002ab5595859014ebf0951522d9f1b1b8b1c2a6b3f3fa5f7a1f6c7a4b1e"
)]
pub struct Args {
    /// The backup.
    file: PathBuf,
    /// The digest that `backup` printed.
    #[arg(long, value_name = "DIGEST")]
    digest: Option<Digest>,
    /// Who restores; without it, who gives the command.
    #[arg(long, value_name = "NAME", value_parser = one_full_line)]
    who: Option<String>,
}

/// The command with the options that were given, before the file.
fn again(args: &Args) -> String {
    let digest = args.digest.map(|digest| format!(" --digest {digest}"));
    let who = args
        .who
        .as_ref()
        .map(|who| format!(" --who {}", quoted(who)));
    let options = digest.into_iter().chain(who);
    std::iter::once("restore".to_owned())
        .chain(options)
        .collect()
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    state_place::refuse(&context.state)?;
    let file = media::open_file(&args.file);
    let command = (&*context.state, &*again(args));
    let file = file.map_err(|error| owner::not_readable(error, &args.file, command))?;
    other_files::refuse_no_backup(&args.file, &file)?;
    let who = args.who.clone().unwrap_or_else(super::who);
    let options = Options {
        digest: args.digest,
        who: &who,
        clocks: Host.clocks(&config::ClockConfig::default()),
        settings: |path: &Path| config::load(path).err().map(|error| error.to_string()),
    };
    let state_folder = StateFolder::new(&context.state);
    let done = restore(&state_folder, &args.file, &options)
        .map_err(|error| AgentError::from_backup(&outhaul_kit::text::path(&args.file), error))?;
    let header = &done.header;
    if done.kept_settings {
        super::say("the agent.toml that was here stays; the one in the backup was not written");
    }
    if args.digest.is_none() {
        super::say(&format!(
            "warning: no `--digest` was given: compare {} with what `backup` printed",
            done.digest
        ));
    }
    super::say(
        "the machine that this backup is of must never run again: two machines with one key contradict each other at \
         the hub, and neither counts",
    );
    for sentence in &done.held {
        super::say(sentence);
    }
    super::say(&done.floor.sentence());
    let lacking = lacking(&context.state);
    let first = lacking.iter().filter(|one| !one.is_too_old);
    let first = first.map(|one| one.generation).min();
    let content = match (header.content, first) {
        (true, _) => {
            "its bundles are on disk again: `outhaul-agent apply` puts right what is missing on this host".to_owned()
        }
        (false, None) => {
            "its bundles are not in it: `outhaul-agent import FOLDER` imports the newest from a stick".to_owned()
        }
        (false, Some(first)) => format!(
            "its bundles are not in it: import bundle {first} first, because a newer one waits for what is held at it and keeps it out; then \
             `outhaul-agent import FOLDER` imports the newest from a stick"
        ),
    };
    super::say(&format!("next: {content}; then start the service"));
    for one in &lacking {
        super::say(&format!("{}: {}", one.sentence(), one.help()));
    }
    context.print(
        &format!(
            "site {} of fleet {} is restored; reports are renumbered from here on ({} instead of {})",
            header.site, header.fleet, done.epoch, header.epoch
        ),
        &serde_json::json!({
            "site": header.site, "fleet": header.fleet, "digest": done.digest, "content": header.content,
            "epoch": done.epoch, "epoch_before": header.epoch, "reports_before": header.reports_last,
            "made_ms": header.made_ms, "kept_settings": done.kept_settings, "held": done.held,
            "accepts_from": done.floor.from,
            "accepts_from_shown_by": done.floor.shown_by.iter().map(|path| outhaul_kit::text::json_path(path)).collect::<Vec<_>>(),
        }),
    );
    Ok(0)
}

/// What held assignments keep and no backup brought. What keeps this from being known, the next command says.
fn lacking(state: &Path) -> Vec<Lacking> {
    let agent = Agent::open(state).ok();
    agent
        .and_then(|agent| held::lacking(&agent).ok())
        .unwrap_or_default()
}
