//! `enrol`: makes this machine a site, with a kit from the centre.

use outhaul_kit::text::{json_path, quoted};
use std::path::{Path, PathBuf};

use outhaul_host::{other_files, owner, state_place};
use outhaul_kit::media;

use super::Context;
use crate::durable;
use crate::enrol::{self, Adopted, Enrolled};
use crate::error::AgentError;
use crate::report::former;
use crate::runner::kept_floors::KeptFloors;
use crate::runner::lost_database::ValueBefore;
use crate::state_folder::StateFolder;

/// Makes this machine a site of a fleet, with the kit that the centre wrote for it.
///
/// It is refused while the service or another command works on the state folder: `systemctl stop outhaul-agent`, and `start`
/// afterwards.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent enrol /media/stick/drone-7.kit"
)]
pub struct Args {
    /// The kit.
    kit: PathBuf,
    /// After a lost database: files of the kept bundles that were changed by hand are Outhaul's again, and the
    /// next bundle overwrites them.
    #[arg(long)]
    adopt_changed: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    state_place::refuse_used(&context.state, Some(&args.kit))?;
    let file = media::open_file(&args.kit);
    let command = match args.adopt_changed {
        true => "enrol --adopt-changed",
        false => "enrol",
    };
    let command = (&*context.state, command);
    let file = file.map_err(|error| owner::not_readable(error, &args.kit, command))?;
    other_files::refuse_no_kit(&args.kit, &file)?;
    let kit = media::read_file(&args.kit, outhaul_signer::enrol::MAX_KIT_BYTES as u64)?;
    enrol::check_kit(&kit).map_err(|error| match error {
        AgentError::Usage { message, help } => AgentError::Usage {
            message: format!("`{}`: {message}", outhaul_kit::text::path(&args.kit)),
            help,
        },
        other => other,
    })?;
    let made = context.state.parent().and_then(durable::first_missing);
    let enrolled = enrol::enrol(&StateFolder::new(&context.state), &kit, args.adopt_changed)?;
    let site = &enrolled.site;
    let request = enrolled.request.display();
    let again = if enrolled.again { " (as before)" } else { "" };
    let text = format!(
        "site {} of fleet {} is enrolled{again} for {}/{}\nfingerprint: {}\nrequest: {request}\nseal for it with: {} {}",
        site.name,
        site.fleet,
        site.stream.environment,
        site.stream.cluster_type,
        enrolled.fingerprint,
        site.name,
        enrolled.seal_key
    );
    let adopted = &enrolled.adopted;
    if adopted.known > 0 {
        super::say(&format!(
            "{} files and playbooks of the bundles on disk are known again",
            adopted.known
        ));
    }
    say_changed(adopted, &args.kit);
    if let Some(made) = made {
        super::say(&format!(
            "warning: the folder `{}` was not there and was made, for the state folder `{}`: see that this is where the site is to be",
            outhaul_kit::text::path(&made),
            outhaul_kit::text::path(&context.state)
        ));
    }
    say_lost(&enrolled);
    if enrolled.made_key {
        super::say(
            "`site.key` was missing: this site has a new key; reports that wait are renumbered and signed with it",
        );
    }
    if let Some((message, help)) = former::words(&enrolled.rescued, &former::Refusals::new()) {
        super::say(&format!("{message}; {help}"));
    }
    super::say(
        "next: bring the request to the centre (`outhaul-agent export` puts it on a stick), and tell \
         whoever approves it the fingerprint by another way, such as by telephone",
    );
    context.print(
        &text,
        &serde_json::json!({
            "site": site.name, "fleet": site.fleet, "stream": site.stream,
            "request": json_path(&enrolled.request), "seal_key": enrolled.seal_key,
            "fingerprint": enrolled.fingerprint, "again": enrolled.again, "lost": enrolled.lost.is_some(),
            "former_reports": enrolled.rescued.iter().map(|one| json_path(&one.path)).collect::<Vec<_>>(),
            "known_again": adopted.known, "values": adopted.values, "changed": adopted.changed.iter().map(|path| json_path(path)).collect::<Vec<_>>(),
        }),
    );
    Ok(0)
}

/// Files that are not as the bundles on disk brought them.
fn say_changed(adopted: &Adopted, kit: &Path) {
    let Some(_) = adopted.changed.first() else {
        return;
    };
    for path in &adopted.changed {
        let path = outhaul_kit::text::path(path);
        super::say(&match adopted.absent {
            None => format!("warning: `{path}` was changed by hand"),
            Some(number) => format!(
                "warning: `{path}` is not as a bundle on disk brought it: bundle {number}, which is not on disk, may have written it, or someone \
                 changed it by hand"
            ),
        });
    }
    let overwrite = format!(
        "have them overwritten with `outhaul-agent enrol {} --adopt-changed`, or move them away, which takes them from what uses them",
        quoted(kit)
    );
    super::say(&match adopted.absent {
        None => format!("help: the next bundle writes nothing over these: {overwrite}"),
        Some(number) => format!(
            "help: import bundle {number} first (`outhaul-agent import FOLDER`): what it wrote is known again then; a bundle with other content \
             writes nothing over these: where bundle {number} is not to be had, {overwrite}"
        ),
    });
}

/// What of an earlier database is known again beside files, and what is not.
fn say_lost(enrolled: &Enrolled) {
    for one in enrolled.adopted.values.iter().filter(|one| one.set) {
        let ValueBefore {
            assignment,
            key,
            value,
            ..
        } = one;
        super::say(&format!(
            "`{key}` of `{assignment}` was set to `{value}` on this site, and stays so; who set it is not known any more; \
             `outhaul-agent unset {key} --workload {assignment}` leaves it to the centre, when a bundle is active"
        ));
    }
    let saved = &enrolled.saved_floors;
    if let Some(shown) = saved.shown_sentence() {
        super::say(&shown);
    }
    if let Some(unread) = saved.unread_sentence() {
        super::say(&format!("warning: {unread}"));
    }
    let Some(lost) = &enrolled.lost else {
        return;
    };
    if let Some(floors) = lost.floors.as_ref().and_then(KeptFloors::sentence) {
        super::say(&floors);
    }
    if let Some(holds) = lost.holds.filter(|holds| *holds > 0) {
        let copy = match lost.from_rescued {
            true => "rescued/holds.json",
            false => "holds.json",
        };
        super::say(&format!(
            "what was held on this site is held again, by `{copy}` ({holds} {}; `outhaul-agent status` shows who holds what)",
            if holds == 1 { "hold" } else { "holds" }
        ));
    }
    for one in &enrolled.lacking {
        super::say(&format!("warning: {}; {}", one.sentence(), one.help()));
    }
    for one in lost.attention() {
        super::say(&format!("warning: {}; {}", one.message, one.help));
    }
}
