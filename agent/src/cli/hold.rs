//! `hold`: nothing new is applied until a person releases it.

use super::Context;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::runner::decisions;
use crate::state::{self, Hold, key};

/// Holds back every new bundle; `--release` ends it. Reported to the centre.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent hold --why 'harvest until Friday'"
)]
pub struct Args {
    /// Why, for whoever comes next.
    #[arg(long, default_value = "no reason given")]
    why: String,
    /// Who says so, as it is reported.
    #[arg(long)]
    who: Option<String>,
    /// Ends the hold.
    #[arg(long)]
    release: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let mut agent = Agent::open(&context.state)?;
    let who = args.who.clone().unwrap_or_else(super::who);
    let hold = (!args.release).then(|| Hold {
        who: who.clone(),
        why: args.why.clone(),
    });
    let before: Option<Hold> = state::meta(agent.store.read(), key::HOLD)?;
    if hold.is_none() && before.is_none() {
        context.print(
            "no hold is set; nothing was changed",
            &serde_json::json!({ "hold": hold }),
        );
        return Ok(0);
    }
    decisions::hold(&mut agent, hold.as_ref(), &who)?;
    let text = match (&hold, before.filter(|before| Some(before) != hold.as_ref())) {
        (Some(hold), None) => format!("held by {}: {}", hold.who, hold.why),
        (Some(hold), Some(before)) => format!(
            "held by {}: {}; this replaces the hold of {}: {}",
            hold.who, hold.why, before.who, before.why
        ),
        (None, _) => {
            format!("released by {who}; what waits is applied by `run`, `import` or `approve`")
        }
    };
    context.print(&text, &serde_json::json!({ "hold": hold }));
    Ok(0)
}
