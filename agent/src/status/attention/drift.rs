//! What of the active bundle, and of what people hold, differs on this host at this moment.
//!
//! What comes in: the memory, the kept generations, and what their reconcilers say. What goes out: one entry for each assignment that
//! differs, with what corrects it; or why that cannot be read; and which assignments were looked at. It changes nothing.

use std::collections::BTreeSet;

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};
use outhaul_reconcilers::{ApplyError, Desired, Reconciler, folder};

use crate::agent::Agent;
use crate::attention::{Attention, AttentionKind};
use crate::error::AgentError;
use crate::generation;
use crate::machine::State;
use crate::runner::{self, held, known_again};
use crate::state::{self, generations, inventory, key};

/// The names of the assignments that were looked at.
pub(super) type Looked = BTreeSet<String>;

/// Assignments that differ at this moment. Those that were looked at are put into `looked`: of some, looking would be too much for a question.
///
/// # Errors
/// [`AgentError`] of the store.
pub(super) fn drifted_now(
    agent: &Agent,
    looked: &mut Looked,
) -> Result<Vec<Attention>, AgentError> {
    let db = agent.store.read();
    let at_work = |state| matches!(state, State::Applying | State::Soaking | State::Reverting);
    if generations::all(db)?.iter().any(|g| at_work(g.state)) {
        return Ok(Vec::new());
    }
    let Some(active) = state::meta::<u64>(db, key::ACTIVE)? else {
        return Ok(since_lost(agent, looked).unwrap_or_else(|error| {
            vec![Attention::of_site(
                AttentionKind::Drift,
                format!("what runs cannot be compared with the bundles on disk: {error}"),
                error.help(),
            )]
        }));
    };
    Ok(match differing(agent, active, looked) {
        Ok(differing) => differing,
        Err(error) => vec![not_comparable(agent, active, error)?],
    })
}

fn differing(
    agent: &Agent,
    active: u64,
    looked: &mut Looked,
) -> Result<Vec<Attention>, AgentError> {
    let index = runner::index_of(agent, active)?;
    let reconcilers = agent.reconcilers(&index)?;
    let mut differing = Vec::new();
    for desired in held::free(agent, &index)? {
        let name = desired.assignment.name.as_str();
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        let Some(verdict) = verdict(agent, reconciler, &desired, looked)? else {
            continue;
        };
        let message = format!("`{name}` differs from bundle {active}: {}", verdict.message);
        let help = match is_in_the_way(reconciler, &verdict) {
            true => format!(
                "{IN_THE_WAY}, then `outhaul-agent apply` puts back what was applied; until then the service cannot either"
            ),
            false => "`outhaul-agent apply` corrects it now; the next look for drift reports it (`drift_s` in agent.toml), and corrects it where the \
                      stream's drift policy is `correct`"
                .to_owned(),
        };
        differing.push(drift(name, message, help));
    }
    differing.extend(differing_held(agent, looked)?);
    Ok(differing)
}

/// Held assignments that differ from what they keep.
fn differing_held(agent: &Agent, looked: &mut Looked) -> Result<Vec<Attention>, AgentError> {
    let mut differing = Vec::new();
    let is_active = state::meta::<u64>(agent.store.read(), key::ACTIVE)?.is_some();
    let disputed = super::disputed_items(agent)?;
    for (name, hold) in held::all(agent)? {
        let Some(desired) = held::kept(agent, &name, &hold) else {
            continue;
        };
        let number = desired.generation;
        let reconcilers = agent.reconcilers(&runner::index_of(agent, number)?)?;
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        let Some(verdict) = verdict(agent, reconciler, &desired, looked)? else {
            continue;
        };
        let message = format!(
            "`{name}` is held by {}, and differs from bundle {number}, at which it is held: {}",
            hold.who, verdict.message
        );
        let is_disputed = disputed.iter().any(|item| item.assignment == name);
        let back = match is_in_the_way(reconciler, &verdict) {
            true => format!("{IN_THE_WAY}, then "),
            false if is_disputed => format!("{ADOPT}; then "),
            false => String::new(),
        };
        let help = match is_active {
            true => format!(
                "{back}`outhaul-agent apply` puts `{name}` back to what bundle {number} brought, and it stays held there; the service does not correct \
                 what is held"
            ),
            false => format!(
                "nothing corrects it until a bundle is active: `outhaul-agent import FOLDER`, then {back}`outhaul-agent apply` puts `{name}` back to what \
                 bundle {number} brought, and it stays held there"
            ),
        };
        differing.push(drift(&name, message, help));
    }
    Ok(differing)
}

/// What differs after a lost database, while no bundle is active: of held assignments, and of those that the bundles on disk applied.
fn since_lost(agent: &Agent, looked: &mut Looked) -> Result<Vec<Attention>, AgentError> {
    let db = agent.store.read();
    if !known_again::is_lost(db)? {
        return Ok(Vec::new());
    }
    let mut differing = differing_held(agent, looked)?;
    let held = held::names(agent)?;
    let applied = inventory::surplus(db, |name| held.contains(name))?;
    let names: BTreeSet<String> = applied.into_iter().map(|item| item.assignment).collect();
    for name in names {
        let number = known_again::applied_before(db, &name)?;
        let found = number.and_then(|number| known_again::index_of(agent, number));
        // Without the bundle there is nothing to compare with.
        let Some(index) = found else { continue };
        let all = generation::desired(&agent.state_folder, &index, &agent.site.name);
        let mut all = all.into_iter();
        let Some(desired) = all.find(|one| one.assignment.name.as_str() == name) else {
            continue;
        };
        let reconcilers = agent.reconcilers(&index)?;
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        let Some(verdict) = verdict(agent, reconciler, &desired, looked)? else {
            continue;
        };
        let number = index.number;
        let message = format!(
            "`{name}` differs from what bundle {number} brought, which was applied before the database of this site was lost: {}",
            verdict.message
        );
        let help = format!(
            "where the next bundle is to leave `{name}` as it is, give `outhaul-agent hold --assignment {name}` before it is imported"
        );
        differing.push(drift(&name, message, help));
    }
    Ok(differing)
}

/// Where applying again is refused.
const IN_THE_WAY: &str = "move away what is named there";

/// What comes first where nothing is written over files that an enrolment found changed.
const ADOPT: &str = "`outhaul-agent enrol SITE.kit --adopt-changed`, with the kit that this site was enrolled with, lets the changed files be written over";

/// Whether something stands in the place of an applied file that no correction removes.
fn is_in_the_way(reconciler: &dyn Reconciler, verdict: &AssignmentResult) -> bool {
    reconciler.kind() == folder::KIND && verdict.steps.iter().any(|step| step.status == "failed")
}

/// What the reconciler says of an assignment that is not as desired.
fn verdict(
    agent: &Agent,
    reconciler: &dyn Reconciler,
    desired: &Desired,
    looked: &mut Looked,
) -> Result<Option<AssignmentResult>, AgentError> {
    let recorded = agent.recorded(reconciler.kind(), desired.assignment.name.as_str())?;
    let verdict = match reconciler.health_waits() {
        true => Some(reconciler.observe(desired, &recorded, &agent.heartbeat)?),
        false => reconciler.health(desired, &recorded, &agent.heartbeat)?,
    };
    if verdict.is_some() {
        looked.insert(desired.assignment.name.to_string());
    }
    Ok(verdict.filter(|verdict| verdict.status != ComplianceStatus::Compliant))
}

fn drift(name: &str, message: String, help: String) -> Attention {
    Attention {
        what: AttentionKind::Drift,
        message,
        help,
        assignment: Some(name.to_owned()),
    }
}

/// Why nothing can be compared.
fn not_comparable(agent: &Agent, active: u64, error: AgentError) -> Result<Attention, AgentError> {
    let what = match &error {
        AgentError::Apply(ApplyError::Helper { .. }) => AttentionKind::ApplyHelper,
        _ => AttentionKind::Drift,
    };
    let message = match &error {
        AgentError::Generation(_) if !agent.state_folder.generation(active).is_dir() => format!(
            "the files of bundle {active} are not on this machine, so that what runs here cannot be compared with it"
        ),
        error => format!("what runs cannot be compared with bundle {active}: {error}"),
    };
    let help = match error {
        AgentError::Generation(_) => brings_back(agent, active)?,
        other => other.help(),
    };
    Ok(Attention::of_site(what, message, help))
}

/// What brings the files of the active bundle back. A bundle that is older than what this site has accepted is refused.
fn brings_back(agent: &Agent, active: u64) -> Result<String, AgentError> {
    let takes_from = held::takes_from(agent)?;
    let waiting = runner::site_now(agent.store.read())?.waiting;
    let again = super::brought_again(active, takes_from, waiting.map(|waiting| waiting.number));
    Ok(match active < takes_from {
        true => format!(
            "bundle {active} is older than what this site has accepted, and is refused: {again}"
        ),
        false => again,
    })
}
