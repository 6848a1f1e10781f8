//! `plan`: what importing would do.

use std::path::PathBuf;

use outhaul_kit::text;
use tracing::subscriber::{NoSubscriber, with_default};

use super::{Context, import};
use crate::agent::Agent;
use crate::calls::{self, CommandResult};
use crate::error::AgentError;
use crate::intake::plan::{self, Unfinished};
use crate::machine::Event;
use crate::runner::{self, former_targets, lost_database, lost_settings};

/// Verifies what `import` would take and says what it would do, orders included. Changes nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It refuses what `import` would refuse, with the same exit code.\n\n\
                  Examples:\n  outhaul-agent --state /var/lib/outhaul-agent plan /media/stick\n  \
                  outhaul-agent --state /var/lib/outhaul-agent plan /media/stick/dev-drone-7.outhaul"
)]
#[group(required = true, multiple = false)]
pub struct Args {
    /// A bundle, a freshness slip, or a folder that holds some.
    path: Option<PathBuf>,
    /// A freshness slip as scanned from its QR code or typed; `-` reads it from standard input.
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let mut agent = Agent::open(&context.state)?;
    // An import is the service's work where it runs.
    let followed = former_targets::follow_service(&mut agent)?;
    let mut agent = agent.for_rehearsal()?;
    // As an import does, in the copy that is rehearsed with: what a cut-off copy left is taken back.
    if let Some(number) = runner::site_now(agent.store.read())?.incoming {
        runner::transition(&mut agent, &Event::CopyLost(number).into())?;
    }
    // Nothing is planned then, and the answer says so.
    let is_refused = agent.check_settings().is_err();
    let slip = args.text.as_deref().map(import::text).transpose()?;
    // The log is of what happens, and nothing happens.
    let answer = with_default(NoSubscriber::default(), || {
        let first = match is_refused {
            true => None,
            false => plan::finish(&mut agent)?,
        };
        let answer = match (&args.path, &slip) {
            (Some(path), _) => calls::import::plan(&mut agent, path),
            (None, slip) => {
                calls::import::plan_text(&mut agent, slip.as_deref().unwrap_or_default())
            }
        };
        Ok::<_, AgentError>(match first {
            Some(first) => after(&first, answer),
            None => answer,
        })
    })?;
    let setting = followed.as_ref().and_then(|one| one.setting.clone());
    let lost =
        lost_settings::attention(&agent.state_folder, agent.store.read(), setting.as_deref())?;
    let lost = lost.filter(|_| !is_refused);
    if let Some(target) = followed.as_ref().filter(|_| lost.is_none()) {
        super::say(&format!(
            "warning: {}; this plan is for the former; {}",
            target.sentence(),
            target.help()
        ));
    }
    if let Some(lost) = lost {
        let besides = match &followed {
            Some(target) => format!(
                "this plan is for `{}`, to which the service writes, and by the default settings in place of the others",
                text::path(&target.followed)
            ),
            None => "this plan is by the default settings in place of those".to_owned(),
        };
        super::say(&format!(
            "warning: {}; {besides}: what the service would do may differ; {}",
            lost.message, lost.help
        ));
    }
    let lost = lost_database::present(agent.store.read())?;
    for one in lost.into_iter().filter(|_| !is_refused) {
        super::say(&format!("warning: {}; {}", one.message, one.help));
    }
    let left = former_targets::attention(&agent)?;
    for left in left.into_iter().filter(|_| !is_refused) {
        super::say(&format!("warning: {}; {}", left.message, left.help));
    }
    Ok(context.print_answer(&answer))
}

/// The plan after unfinished work was ended.
fn after(first: &Unfinished, mut answer: CommandResult) -> CommandResult {
    answer.text = match answer.text.as_str() {
        "" => first.text(),
        planned => format!("{}\n{planned}", first.text()),
    };
    answer.value["unfinished"] = serde_json::json!(first);
    answer
}
