//! `values`, `set`, `unset`: what belongs to this site, within what the centre opens.
//!
//! What comes in: a key and a value that a person typed. What goes out: what was decided of it, or what may be set here, and to what.

use outhaul_kit::text::one_full_line;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use outhaul_bundle::Index;
use outhaul_kit::console;
use outhaul_reconcilers::Desired;
use outhaul_values::{GivenValues, check_values};
use serde::Serialize;

use super::Context;
use crate::agent::Agent;
use crate::calls::people::{self, Ordered};
use crate::durable;
use crate::error::AgentError;
use crate::generation;
use crate::runner::decisions::values::{self, Decided};
use crate::runner::{self, held, own_values};
use crate::state::holds::AssignmentHold;

/// Largest file with values, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Sets a value that belongs to this site, within what the centre opens; later bundles keep it. Reported to the centre.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The active bundle is applied again with it; while the service runs, the service does it.\n\n\
                  Example:\n  outhaul-agent set LABEL_WIDTH_MM=70 --as ann --reason 'the new paper is wider'"
)]
pub struct SetArgs {
    /// The key and its value; the value may be empty.
    #[arg(value_name = "KEY=VALUE")]
    setting: String,
    #[command(flatten)]
    decision: Decision,
}

/// Leaves a value to the centre again. Reported to the centre.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent unset LABEL_WIDTH_MM --as ann\n\n`outhaul-agent values` lists the keys that this site has set, and those that it may."
)]
pub struct UnsetArgs {
    /// The key.
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    decision: Decision,
}

/// Who decides about which assignment, and why.
#[derive(Debug, clap::Args)]
struct Decision {
    /// The assignment or workload, where several have the key.
    #[arg(long, visible_alias = "assignment", value_name = "NAME")]
    workload: Option<String>,
    /// Who decides, as it is reported.
    #[arg(long, visible_alias = "as", value_parser = one_full_line)]
    who: Option<String>,
    /// Why, for the next person.
    #[arg(long, visible_alias = "reason", value_parser = one_full_line)]
    why: Option<String>,
}

/// Shows which values belong to this site: what each is now, who set it, and what it may be.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-agent values")]
pub struct ListArgs {}

pub(super) fn set(context: &Context, args: &SetArgs) -> Result<u8, AgentError> {
    let Some((key, value)) = args.setting.split_once('=') else {
        return Err(AgentError::Usage {
            message: format!("`{}` has no `=`", args.setting),
            help:
                "write KEY=VALUE, such as LABEL_WIDTH_MM=70; `outhaul-agent values` lists the keys"
                    .into(),
        });
    };
    decide(context, key, Some(value), &args.decision)
}

pub(super) fn unset(context: &Context, args: &UnsetArgs) -> Result<u8, AgentError> {
    decide(context, &args.key, None, &args.decision)
}

fn decide(
    context: &Context,
    key: &str,
    value: Option<&str>,
    decision: &Decision,
) -> Result<u8, AgentError> {
    let (mut agent, busy) = super::exclusive_or_shared(context)?;
    agent.check_decision()?;
    let who = decision.who.clone().unwrap_or_else(super::who);
    let decided = Decided {
        key,
        value,
        workload: decision.workload.as_deref(),
        who: &who,
        why: decision.why.as_deref().unwrap_or_default(),
    };
    let outcome = values::decide(&mut agent, decided)?;
    let name = &outcome.assignment;
    let mut text = match (value, &outcome.before) {
        (Some(value), None) => format!("`{key}` of `{name}` is `{value}`, set by {who}"),
        (Some(value), Some(before)) => {
            format!("`{key}` of `{name}` is `{value}`, set by {who}; it was `{before}`")
        }
        (None, _) => format!("`{key}` of `{name}` is the centre's again"),
    };
    if let Some(unused) = &outcome.unused {
        let _ = write!(text, "; what runs does not use it: {unused}");
    }
    let Some(number) = outcome.apply else {
        let reported = serde_json::json!({ "assignment": name, "key": key, "value": value, "unused": outcome.unused });
        context.print(&text, &reported);
        return Ok(0);
    };
    super::say(&text);
    let ordered = Ordered::Apply { number };
    let answer = people::outcome(&context.state, (!busy).then_some(agent), ordered)?;
    let code = context.print_answer(&answer);
    if code != 0 {
        // What keeps the work from its end may keep the database from opening, too.
        let unfinished = Agent::open(&context.state)
            .and_then(|agent| Ok(runner::site_now(agent.store.read())?.worked_on()))
            .map_or(true, |number| number.is_some());
        let decided = value.map_or("taken back", |_| "set");
        console::always(&match (unfinished, value) {
            (true, _) => format!(
                "help: the value is {decided} already, and what runs does not have it yet: when that is fixed, `outhaul-agent apply` goes on with it, \
                 or the service where it runs; until then the same command is refused, and so are `set` and `unset` of other values"
            ),
            (false, Some(_)) => format!(
                "help: the value stays set; `outhaul-agent unset {key} --workload {name}` takes it back"
            ),
            (false, None) => "help: the value stays the centre's".to_owned(),
        });
    }
    Ok(code)
}

/// One value that belongs to this site.
#[derive(Debug, Serialize)]
struct Row {
    assignment: String,
    key: String,
    /// What is used; absent when the bundle does not open it.
    value: Option<String>,
    /// What the centre has.
    centre: Option<String>,
    /// What was set here, used or not.
    set: Option<String>,
    who: Option<String>,
    reason: Option<String>,
    /// What it may be.
    allowed: Option<String>,
    about: String,
    /// Why what was set is not used.
    unused: Option<String>,
    /// Who holds the assignment, and at which bundle: value, centre and allowed are of that bundle.
    held: Option<AssignmentHold>,
}

pub(super) fn list(context: &Context, _args: &ListArgs) -> Result<u8, AgentError> {
    let agent = Agent::open(&context.state)?;
    let given = agent.site_values()?;
    let site = runner::site_now(agent.store.read())?;
    let active = own_values::active_index(&agent)?;
    // Before anything runs, what waits says what may be set.
    let waiting = site
        .waiting
        .and_then(|waiting| runner::index_of(&agent, waiting.number).ok());
    let index = active.or(waiting);
    let unknown = own_values::unknown(&agent)?;
    let rows = rows(&agent, index.as_ref(), &given, unknown.is_some())?;
    if let Some((problem, help)) = &unknown {
        super::say(&format!("warning: {problem}"));
        super::say(&format!("help: {help}"));
    }
    let text = match rows.is_empty() && unknown.is_some() {
        true => "which values belong to this site is not known here".to_owned(),
        false => text(&rows),
    };
    context.print(&text, &rows);
    Ok(0)
}

/// What this site runs: of the index, and of held assignments what they keep.
fn running(
    agent: &Agent,
    index: Option<&Index>,
    holds: &BTreeMap<String, AssignmentHold>,
) -> Vec<Desired> {
    let all = index.map(|index| generation::desired(&agent.state_folder, index, &agent.site.name));
    let mut all = all.unwrap_or_default();
    for (name, hold) in holds {
        if let Some(kept) = held::kept(agent, name, hold) {
            all.retain(|one| one.assignment.name.as_str() != name);
            all.push(kept);
        }
    }
    all.sort_by(|one, other| one.assignment.name.cmp(&other.assignment.name));
    all
}

/// `unknown`: what runs is not known here, so that what is kept may be in use.
fn rows(
    agent: &Agent,
    index: Option<&Index>,
    given: &GivenValues,
    unknown: bool,
) -> Result<Vec<Row>, AgentError> {
    let holds = held::all(agent)?;
    let mut rows = Vec::new();
    let mut shown = std::collections::BTreeSet::new();
    for one in running(agent, index, &holds) {
        let name = one.assignment.name.as_str();
        let Some(declared) = &one.assignment.site_values else {
            continue;
        };
        let checked = check_values(Some(declared), given.of(name));
        let file = durable::read(&one.rendered.join(declared.form.file()), MAX_FILE_BYTES);
        let file = file.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let file = file.unwrap_or_default();
        for (key, rule) in &declared.keys {
            shown.insert((name.to_owned(), key.clone()));
            let set = given
                .of(name)
                .find(|(known, _)| known == key)
                .map(|(_, given)| given);
            let centre = declared.value_in(&file, key);
            rows.push(Row {
                assignment: name.to_owned(),
                key: key.clone(),
                value: checked.used.get(key).cloned().or_else(|| centre.clone()),
                centre,
                set: set.map(|set| set.value.clone()),
                who: set.map(|set| set.who.clone()),
                reason: set.map(|set| set.why.clone()).filter(|why| !why.is_empty()),
                allowed: Some(rule.to_string()),
                about: rule.about.clone(),
                unused: checked.unused.get(key).cloned(),
                held: holds.get(name).cloned(),
            });
        }
    }
    // What is kept and no longer open.
    for (name, key, set) in given.iter() {
        if shown.contains(&(name.to_owned(), key.to_owned())) {
            continue;
        }
        rows.push(Row {
            assignment: name.to_owned(),
            key: key.to_owned(),
            value: None,
            centre: None,
            set: Some(set.value.clone()),
            who: Some(set.who.clone()),
            reason: Some(set.why.clone()).filter(|why| !why.is_empty()),
            allowed: None,
            about: String::new(),
            unused: (!unknown).then(|| "what runs does not open it to this site".to_owned()),
            held: holds.get(name).cloned(),
        });
    }
    Ok(rows)
}

fn text(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no value belongs to this site: the centre sets all of them".to_owned();
    }
    let mut lines = Vec::new();
    let mut last = "";
    for row in rows {
        if row.assignment != last {
            let held = row.held.as_ref();
            lines.push(
                match held.map(|hold| held::sentence(hold, hold.generation)) {
                    Some(held) => format!("{}, {held}", row.assignment),
                    None => row.assignment.clone(),
                },
            );
            last = &row.assignment;
        }
        let by = row.who.as_ref().map(|who| match &row.reason {
            Some(reason) => format!("set by {who}: {reason}"),
            None => format!("set by {who}"),
        });
        let centre = row
            .centre
            .as_ref()
            .map(|centre| format!("the centre's is `{centre}`"));
        let mut line = match (&row.value, &row.set) {
            (Some(value), None) => format!("  {} = `{value}`, the centre's", row.key),
            (Some(value), Some(set)) if value == set && row.unused.is_none() => {
                let parts: Vec<String> = by.into_iter().chain(centre).collect();
                format!("  {} = `{value}`, {}", row.key, parts.join("; "))
            }
            (None, Some(set)) if row.unused.is_none() => format!(
                "  {}; `{set}`, {}, is kept; whether it is used is not known here",
                row.key,
                by.unwrap_or_default()
            ),
            (value, set) => {
                let used = value.as_ref().map_or_else(
                    || format!("  {}", row.key),
                    |value| format!("  {} = `{value}`, the centre's", row.key),
                );
                let set = set.clone().unwrap_or_default();
                let by = by.unwrap_or_default();
                let why = row.unused.clone().unwrap_or_default();
                format!("{used}; `{set}`, {by}, is kept and not used: {why}")
            }
        };
        if let Some(allowed) = &row.allowed {
            let _ = write!(line, "; may be {allowed}");
        }
        if !row.about.is_empty() {
            let _ = write!(line, " ({})", row.about);
        }
        lines.push(line);
    }
    lines.join("\n")
}
