//! `hold`: nothing new is applied, or one assignment stays as it is, until a person releases it.

use super::Context;
use crate::agent::Agent;
use crate::calls::people::{self, Ordered};
use crate::error::AgentError;
use crate::machine::Site;
use crate::runner::decisions::assignments::{self, Decided, Released};
use crate::runner::{self, decisions, held, lost_database};
use crate::state::delays;
use crate::state::holds::Deadline;
use crate::state::{self, Hold, key};
use crate::state_folder::AtWork;
use outhaul_kit::text::one_full_line;

/// What is remembered where nobody gave a reason.
const NO_REASON: &str = "no reason given";

/// Holds back every new bundle, or one assignment; `--release` ends it. Reported to the centre.
///
/// A held assignment keeps its content while the others take the next bundle, and is not removed either.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 held, or released, also where nobody held it; 1 refused, such as for an assignment that this site does not \
                  have, or released and what is applied for it failed; 2 usage; 3 this host.\n\n\
                  Example:\n  outhaul-agent --state /var/lib/outhaul-agent hold --why 'harvest until Friday'"
)]
pub struct Args {
    /// Why, for the next person.
    #[arg(long, visible_alias = "reason", default_value = NO_REASON, value_parser = one_full_line)]
    why: String,
    /// Until when: an instant such as 2026-11-23T06:00:00+01:00, or how long from now, such as 90m, 8h or 2d; ten years (3650d)
    /// at most. `at_deadline` in agent.toml decides what happens then.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["release", "assignment"])]
    until: Option<String>,
    /// Holds this assignment alone, as `status` names it.
    #[arg(long, value_name = "NAME")]
    assignment: Option<String>,
    /// Who decides, as it is reported.
    #[arg(long, visible_alias = "as", value_parser = one_full_line)]
    who: Option<String>,
    /// Ends the hold.
    #[arg(long)]
    release: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    if let Some(name) = &args.assignment {
        return hold_one(context, args, name);
    }
    let mut agent = Agent::open(&context.state)?;
    let who = args.who.clone().unwrap_or_else(super::who);
    let until = args.until.as_deref().map(|until| deadline(&agent, until));
    let until = until.transpose()?;
    let hold = (!args.release).then(|| Hold {
        who: who.clone(),
        why: args.why.clone(),
        until,
    });
    let before: Option<Hold> = state::meta(agent.store.read(), key::HOLD)?;
    if hold.is_none() && before.is_none() && lost_database::holds_are_unknown(agent.store.read())? {
        agent.commit(|db, _| lost_database::holds_are_known(db))?;
        context.print(
            "no hold is set, and none was lost with the database: that is noted",
            &serde_json::json!({ "hold": hold }),
        );
        return Ok(0);
    }
    if hold.is_none() && before.is_none() {
        context.print(
            "no hold is set; nothing was changed",
            &serde_json::json!({ "hold": hold }),
        );
        return Ok(0);
    }
    let site = match &hold {
        Some(hold) => decisions::hold(&mut agent, hold)?,
        None => decisions::release(&mut agent, &who, reason(args).unwrap_or_default())?,
    };
    let text = match (&hold, before.filter(|before| Some(before) != hold.as_ref())) {
        (Some(hold), None) => hold.sentence(),
        (Some(hold), Some(before)) => format!(
            "{}; this replaces the hold of {}: {}",
            hold.sentence(),
            before.who,
            before.why
        ),
        (None, _) => format!("released by {who}; {}", waits_now(&agent, &site)?),
    };
    let work = match &hold {
        Some(_) => runner::site_now(agent.store.read())?.worked_on(),
        None => None,
    };
    let text = match work {
        Some(number) => format!("{text}; {}", goes_on(&agent, number)),
        None => text,
    };
    let said = serde_json::json!({ "hold": hold, "goes_on": work });
    context.print(&text, &said);
    Ok(0)
}

/// What becomes of work that was begun before a hold.
fn goes_on(agent: &Agent, number: u64) -> String {
    let begun = format!("the work on bundle {number} was begun before");
    match (agent.check_decision(), agent.state_folder.at_work()) {
        (Err(_), _) => {
            format!("{begun}, is unfinished, and goes on when agent.toml is there again")
        }
        (Ok(()), AtWork::Nobody) => {
            format!("{begun} and is unfinished: `outhaul-agent apply` ends it")
        }
        (Ok(()), _) => format!("{begun} and goes on to its end"),
    }
}

/// What waits when a hold is over, and who applies it.
fn waits_now(agent: &Agent, site: &Site) -> Result<String, AgentError> {
    let Some(waiting) = site.waiting else {
        return Ok("no bundle waits".to_owned());
    };
    let number = waiting.number;
    if agent.check_decision().is_err() {
        return Ok(format!(
            "bundle {number} waits, and no bundle is applied until agent.toml is there again"
        ));
    }
    let note = runner::note_of(agent.store.read(), number)?;
    Ok(match note.as_str() {
        "" => format!(
            "bundle {number} waits: the service applies it where it runs, or `outhaul-agent apply` does now"
        ),
        note => format!("bundle {number} waits: {note}"),
    })
}

/// The deadline that a person named.
fn deadline(agent: &Agent, text: &str) -> Result<Deadline, AgentError> {
    let usage = |message: String| {
        AgentError::Usage {
        message,
        help: "name an instant such as 2026-11-23T06:00:00+01:00, or how long from now, such as 90m, 8h or 2d"
            .into(),
    }
    };
    let reading = agent.clock_reading()?;
    let after = delays::after(text, &reading);
    let after = after.ok_or_else(|| usage(format!("`{text}` is not a time")))?;
    if !after.is_positive() {
        return Err(usage(format!("`{text}` is not in the future")));
    }
    if after > delays::LONGEST {
        return Err(AgentError::Usage {
            message: format!("`{text}` is further away than ten years (3650d), the longest that a hold lasts; nothing was changed"),
            help: "name an earlier time, or leave `--until` out: such a hold lasts until a person ends it".into(),
        });
    }
    Deadline::new(&reading, after).ok_or_else(|| usage(format!("`{text}` is too far away")))
}

fn hold_one(context: &Context, args: &Args, name: &str) -> Result<u8, AgentError> {
    let (mut agent, busy) = super::exclusive_or_shared(context)?;
    let who = args.who.clone().unwrap_or_else(super::who);
    let decided = |why| Decided {
        name,
        who: &who,
        why,
    };
    if !args.release {
        let hold = assignments::hold(&mut agent, decided(&args.why))?;
        let text = format!("`{name}`: {}", held::sentence(&hold, hold.generation));
        context.print(
            &text,
            &serde_json::json!({ "assignment": name, "hold": hold }),
        );
        return Ok(0);
    }
    // What is released is applied.
    agent.check_decision()?;
    let text = match assignments::release(&mut agent, decided(reason(args).unwrap_or_default()))? {
        Released::Apply(number) => {
            let ordered = Ordered::Apply { number };
            let answer = people::outcome(&context.state, (!busy).then_some(agent), ordered)?;
            return Ok(context.print_answer(&answer));
        }
        Released::NotHeld => format!("`{name}` is not held; nothing was changed"),
        Released::Done => {
            let active = runner::site_now(agent.store.read())?.active;
            let is_known = active.is_some_and(|one| runner::index_of(&agent, one.number).is_ok());
            let now = match is_known {
                true => "it is as the active bundle has it",
                false => "the next bundle that is applied decides about it",
            };
            format!("`{name}` is released by {who}: {now}")
        }
    };
    context.print(
        &text,
        &serde_json::json!({ "assignment": name, "hold": null }),
    );
    Ok(0)
}

/// The reason that someone gave.
fn reason(args: &Args) -> Option<&str> {
    Some(args.why.as_str()).filter(|why| *why != NO_REASON)
}
