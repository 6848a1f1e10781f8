//! `rollback`: back to an earlier bundle, or one assignment to what an earlier bundle brought, by a person's decision.

use super::Context;
use crate::advice;
use crate::agent::Agent;
use crate::calls::people::{self, Ordered};
use crate::error::AgentError;
use crate::intake::plan;
use crate::runner::decisions::assignments::{self, Decided};
use crate::runner::{self, Rollback, decisions};
use outhaul_kit::text::one_full_line;

/// Goes back to the previous bundle. It stays there until a newer bundle comes; one that
/// waits already then needs an approval.
///
/// While the work on a bundle that is not active yet is unfinished, that work is taken back, and the active bundle stays. While
/// the active bundle itself is applied again, such as after a `set` or `apply` that was cut off, it is left for the bundle
/// before it; `outhaul-agent apply` ends that work instead. A first bundle, before which nothing ran, is given up: `status`
/// lists what of it is on this host.
///
/// With `--assignment`, only that one goes back, and is held there: later bundles do not change it until
/// `outhaul-agent hold --release --assignment NAME`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "While the service runs, the service does it, and this command waits for the result.\n\n\
                  Example:\n  outhaul-agent --state /var/lib/outhaul-agent rollback --who ann"
)]
pub struct Args {
    /// Who decides, as it is reported.
    #[arg(long, visible_alias = "as", value_parser = one_full_line)]
    who: Option<String>,
    /// Why, for the next person.
    #[arg(long, visible_alias = "reason", value_parser = one_full_line)]
    why: Option<String>,
    /// Goes back to this bundle; `status` lists those that are kept (`keep_generations` in agent.toml).
    #[arg(long, value_name = "NUMBER")]
    to: Option<u64>,
    /// Puts this assignment back alone, as `status` names it.
    #[arg(long, value_name = "NAME")]
    assignment: Option<String>,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let (mut agent, busy) = super::exclusive_or_shared(context)?;
    agent.check_decision()?;
    // Before it happens: whoever goes back should know what that does not undo.
    if let Some(line) = forward_only(&agent, args.assignment.as_deref())? {
        super::say(&format!("warning: {line}"));
    }
    let who = args.who.clone().unwrap_or_else(super::who);
    let why = args.why.as_deref().unwrap_or_default();
    let before = runner::site_now(agent.store.read())?;
    let ordered = match &args.assignment {
        None => match decisions::order_rollback(&mut agent, args.to, &who, why)? {
            decisions::Ordered::Back(rollback) => Ordered::Rollback(rollback),
            decisions::Ordered::GivenUp(number) => Ordered::GiveUp { number },
        },
        Some(name) => {
            let decided = Decided {
                name,
                who: &who,
                why,
            };
            let (to, number) = assignments::roll_back(&mut agent, decided, args.to)?;
            super::say(&format!(
                "`{name}` goes back to what bundle {to} brought and stays there: a later bundle does not change it until \
                 `outhaul-agent hold --release --assignment {name}`"
            ));
            Ordered::Apply { number }
        }
    };
    if let Ordered::Rollback(Rollback { from, to }) = ordered
        && let Some(line) = advice::taken_back(&before, from, to)
    {
        super::say(&line);
    }
    let answer = people::outcome(&context.state, (!busy).then_some(agent), ordered)?;
    Ok(context.print_answer(&answer))
}

/// What of that which runs, or is being applied, no rollback undoes.
fn forward_only(agent: &Agent, only: Option<&str>) -> Result<Option<String>, AgentError> {
    let site = runner::site_now(agent.store.read())?;
    let left = site.worked_on().or(site.active.map(|active| active.number));
    // An index that cannot be read is reported by the rollback itself.
    let index = left.and_then(|number| runner::index_of(agent, number).ok());
    let mut names = index.as_ref().map(plan::forward_only).unwrap_or_default();
    names.retain(|name| only.is_none_or(|only| only == name));
    Ok(plan::forward_only_sentence(&names))
}
