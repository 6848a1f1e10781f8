//! `hold`: nothing new is applied until a person releases it.

use outhaul_bundle::report::Event as Told;

use super::Context;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::{self, Hold, StateError, key, outbox};

/// Holds everything back that comes from now on; `--release` ends it. Reported home.
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
    let what = if args.release { "release" } else { "hold" };
    let hold = (!args.release).then(|| Hold {
        who: who.clone(),
        why: args.why.clone(),
    });
    agent
        .commit(|db, author| {
            state::set_meta(db, key::HOLD, hold.as_ref())?;
            let event = Told::Decision {
                what: what.into(),
                who: who.clone(),
                number: None,
            };
            outbox::queue(db, author, event).map(|_| ())
        })
        .map_err(|error: StateError| AgentError::from(error))?;
    let text = match &hold {
        Some(hold) => format!("held by {}: {}", hold.who, hold.why),
        None => format!("released by {who}; what waits is applied by `run`, `import` or `approve`"),
    };
    context.print(&text, &serde_json::json!({ "hold": hold }));
    Ok(0)
}
