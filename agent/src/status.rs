//! How this site stands: one value for people and for scripts.
//!
//! What comes in: the memory, read without the lock, so that it works while `run` works. What goes out:
//! a [`Status`]. It asks no network and no reconciler: it says what was last found.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::report::{AssignmentResult, ClusterEvent};
use serde::Serialize;

use crate::acks::Renumbered;
use crate::advice;
use crate::agent::Agent;
use crate::attention::Attention;
use crate::error::AgentError;
use crate::following;
use crate::incomplete::{self, IncompleteBundle};
use crate::intake::plan;
use crate::intake::refusals::{self, PastRefusal};
use crate::intake::visit::{self, Visit};
use crate::machine::{Site, State};
use crate::orders::{self, EnrolmentStatus};
use crate::report;
use crate::runner::former_targets::{self, StillFollowed};
use crate::runner::lost_settings;
use crate::runner::progress::{self, AssignmentProgress};
use crate::runner::{self, delays, held};
use crate::state::delays::Delays;
use crate::state::generations::Generation;
use crate::state::holds::AssignmentHold;
use crate::state::{
    self, Hold, Note, StateError, clock, floors, generations, inventory, key, outbox,
};
use crate::state_folder::AtWork;
use crate::update::AgentStatus;
use outhaul_host::owner;
use outhaul_pace::PullStatus;
use outhaul_site::backup::restored::Restored;

mod attention;
mod brief;
mod next;
pub mod page;
mod settings;
mod text;

/// How this site stands.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "scripts read them")]
pub struct Status {
    /// The site.
    pub site: String,
    /// The fleet.
    pub fleet: String,
    /// The environment of its stream.
    pub environment: String,
    /// The cluster type of its stream.
    pub cluster_type: String,
    /// Where its enrolment stands.
    pub enrolment: EnrolmentStatus,
    /// The id of its key, as the centre and the hub show it.
    pub key: String,
    /// The number of the last order that was carried out; 0 before the first.
    pub orders_done: u64,
    /// The number that runs.
    pub active: Option<u64>,
    /// The number of the bundle on which work is unfinished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<u64>,
    /// Whether all that is unfinished of it is that its health is checked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub watched: bool,
    /// How far that work has come, assignment by assignment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<AssignmentProgress>,
    /// Which agent runs.
    pub agent: AgentStatus,
    /// Whether a command, and not the service, is at work: its end is to be waited for.
    #[serde(skip)]
    pub command: bool,
    /// Whether the service works on this site now.
    pub service: bool,
    /// What a person is to do, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_do: Option<String>,
    /// All generations that are known, newest first.
    pub generations: Vec<GenerationStatus>,
    /// Files of the active bundle that hold values of this site alone, by assignment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub own_files: BTreeMap<String, Vec<String>>,
    /// Assignments of the active bundle that are for other sites of the stream.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_others: Vec<String>,
    /// Assignments of the active bundle that nothing takes back: a rollback runs the playbooks of before again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forward_only: Vec<String>,
    /// What the cluster shows that follows the platform repository directly, as it was last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterEvent>,
    /// What was last found of each assignment.
    pub assignments: Vec<AssignmentResult>,
    /// Of these, those that were looked at for this status. Of the others, that is too much: a playbook would have to run.
    #[serde(skip)]
    looked_at: BTreeSet<String>,
    /// When that was, milliseconds since 1970 by the site's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_ms: Option<i64>,
    /// Assignments that are gone but whose traces could not be removed.
    pub left_behind: Vec<String>,
    /// Why nothing is applied, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// How long this machine still has to run until the hold's deadline, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_left_s: Option<i64>,
    /// What on this site asks for a bundle that waits to be applied later, by who asks.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub delays: Delays,
    /// Assignments that a person holds, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub held: BTreeMap<String, AssignmentHold>,
    /// The bundles that ran before and are on disk, the newest first: `rollback --to` goes to them.
    pub earlier: Vec<u64>,
    /// Reports that wait.
    pub reports_waiting: u64,
    /// The last report's number.
    pub reports_last: u64,
    /// The last number that the hub acknowledged.
    pub reports_acknowledged: u64,
    /// Why reports are renumbered, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renumbered: Option<String>,
    /// That this memory came from a backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,
    /// What came from the repository today, and how much may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulled: Option<PullStatus>,
    /// It is certainly not earlier than this.
    pub time_lower_bound: String,
    /// Whether something that was signed proves that; it counts from 1970 otherwise.
    #[serde(skip)]
    pub time_is_proven: bool,
    /// The machine's own clock.
    pub clock: Clock,
    /// A bundle of which some parts are here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<IncompleteBundle>,
    /// Sticks and folders that were read, the latest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Visit>,
    /// Of these places, those below a watched folder that are there now.
    #[serde(skip)]
    plugged_in: Vec<String>,
    /// Bundles and slips that were refused, the latest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<PastRefusal>,
    /// What a person should do something about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attention: Vec<Attention>,
    /// Why no bundle would be accepted at all, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What to do next, the most urgent first; empty when there is nothing to do.
    pub next: Vec<String>,
}

/// The machine's own clock.
#[derive(Debug, Serialize)]
pub struct Clock {
    /// What it shows.
    pub now: String,
    /// Whether something trustworthy set it.
    pub trusted: bool,
    /// Why it is trusted or not, in a few words.
    pub why: String,
    /// How far the hub's clock was ahead of this one when it answered last, milliseconds; absent when they agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub_ahead_ms: Option<i64>,
}

/// How one generation stands.
#[derive(Debug, Serialize)]
pub struct GenerationStatus {
    /// Its number.
    pub number: u64,
    /// Its state.
    pub state: &'static str,
    /// Digest of its index.
    pub index: String,
    /// Where it came from.
    pub source: String,
    /// Why it waits or failed.
    pub note: String,
    /// Whether it is on disk.
    pub on_disk: bool,
}

/// How this site stands, by what a service that runs follows.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn beside_service(mut agent: Agent) -> Result<Status, AgentError> {
    let followed = former_targets::follow_service(&mut agent)?;
    found(&agent, followed.as_ref())
}

/// How this site stands, by the settings of `agent`.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn of_site(agent: &Agent) -> Result<Status, AgentError> {
    found(agent, None)
}

fn found(agent: &Agent, followed: Option<&StillFollowed>) -> Result<Status, AgentError> {
    let db = agent.store.read();
    let cursor = outbox::cursor(db)?;
    let mut left_behind: Vec<_> = inventory::items(db, None)?
        .into_iter()
        .filter(|item| item.phase == outhaul_reconcilers::Phase::Left)
        .map(|item| item.assignment)
        .collect();
    left_behind.dedup();
    let rows = generations::all(db)?;
    let site = runner::site_now(agent.store.read())?;
    let active = site.active.map(|active| active.number);
    let is_over = lost_settings::is_over(&agent.state_folder, db)?;
    let as_of_now = |note: &Note| match is_over {
        true => note.unblocked(),
        false => note.clone(),
    };
    let note = as_of_now(why_it_stands(&rows, &site).unwrap_or(&Note::default()));
    let generations = rows
        .into_iter()
        .map(|g| GenerationStatus {
            number: g.number,
            state: g.state.as_str(),
            index: g.index.to_string(),
            source: g.source,
            note: as_of_now(&g.note).to_string(),
            // What a backup left out, or someone removed, is not here, whatever the database says.
            on_disk: g.whole && agent.state_folder.generation(g.number).is_dir(),
        })
        .collect();
    // An index that cannot be read is reported by what needs it.
    let index = active.and_then(|number| runner::whole_index_of(agent, number).ok());
    let name = &agent.site.name;
    let own_files = index.as_ref().map(|index| plan::own_files(index, name));
    let for_others = index.as_ref().map(|index| plan::for_others(index, name));
    let reading = agent.clock_reading()?;
    let at_work = agent.state_folder.at_work();
    let media = visit::visits(db, &agent.state_folder)?;
    let hold: Option<Hold> = state::meta(db, key::HOLD)?;
    let deadline = hold.as_ref().and_then(|hold| hold.until.as_ref());
    let (attention, looked_at) = attention::find(agent)?;
    let mut status = Status {
        site: agent.site.name.to_string(),
        fleet: agent.site.fleet.to_string(),
        environment: agent.site.stream.environment.to_string(),
        cluster_type: agent.site.stream.cluster_type.to_string(),
        enrolment: orders::enrolment(agent)?,
        key: agent.key.public().id(),
        orders_done: state::meta(db, key::ORDERS)?.unwrap_or(0),
        active,
        unfinished: site.worked_on(),
        watched: site.watched,
        delays: delays::present(agent)?,
        steps: progress::steps(agent, &site)?,
        agent: AgentStatus::of(&agent.state_folder),
        to_do: match (agent.check_decision(), site.worked_on()) {
            (Err(_), Some(number)) => Some(lost_settings::to_do(number)),
            _ => advice::to_do(&site, &note, &at_work),
        }
        .map(|to_do| owner::as_owner(&to_do, agent.state_folder.root())),
        command: matches!(at_work, AtWork::Command(_)),
        service: at_work == AtWork::Service,
        generations,
        own_files: own_files.unwrap_or_default(),
        for_others: for_others.unwrap_or_default(),
        forward_only: index.as_ref().map(plan::forward_only).unwrap_or_default(),
        cluster: following::last(agent)?,
        assignments: state::meta(db, key::RESULTS)?.unwrap_or_default(),
        looked_at,
        observed_ms: state::meta(db, key::OBSERVED)?,
        left_behind,
        hold_left_s: deadline.map(|deadline| deadline.left(&reading).as_secs()),
        hold,
        held: held::all(agent)?,
        earlier: kept_earlier(agent, &site),
        reports_waiting: outbox::count(db)?,
        reports_last: cursor.last,
        reports_acknowledged: cursor.acknowledged,
        renumbered: state::meta::<Renumbered>(db, key::RENUMBERED)?.map(|why| why.sentence()),
        restored: state::meta(db, key::RESTORED)?,
        pulled: PullStatus::of(
            agent.state_folder.root(),
            agent.config.repository.pull_limits(),
            reading.wall.as_millisecond(),
        ),
        time_lower_bound: reading.bound.at().to_string(),
        time_is_proven: reading.bound.is_proven(),
        clock: Clock::of(agent, &reading)?,
        plugged_in: brief::plugged_in(&agent.config.watch, &media),
        incomplete: incomplete::incomplete(db, &agent.site)?,
        media,
        refusals: refusals::since_active(db)?,
        attention: settings::beside(attention, agent, followed)?,
        trouble: floors::floors(db, &agent.state_folder.floors())
            .err()
            .map(|error| error.to_string()),
        next: Vec::new(),
    };
    let has_hub = report::hub_url(agent).is_some();
    status.next = next::steps(&status, has_hub, agent.state_folder.root());
    Ok(status)
}

/// What is noted of the work under way, or of the active bundle; `rows` are the newest first.
fn why_it_stands<'a>(rows: &'a [Generation], site: &Site) -> Option<&'a Note> {
    let active = site.active.map(|active| active.number);
    let number = site.worked_on().or(active)?;
    let row = rows.iter().find(|row| row.number == number)?;
    let is_broken = site.active.is_some_and(|active| active.broken);
    if site.worked_on().is_some() || !is_broken || row.note != Note::default() {
        return Some(&row.note);
    }
    // Why going back to it failed is noted of the bundle that was left then: the newest one that failed.
    let left = rows
        .iter()
        .find(|left| left.number != number && left.state == State::Failed);
    Some(&left.unwrap_or(row).note)
}

/// The bundles that ran before and whose files are here.
fn kept_earlier(agent: &Agent, site: &Site) -> Vec<u64> {
    let mut earlier = site.earlier.clone();
    earlier.retain(|number| agent.state_folder.generation(*number).is_dir());
    earlier
}

impl Clock {
    fn of(agent: &Agent, reading: &clock::ClockReading) -> Result<Self, StateError> {
        let file = agent.config.clock.synchronized.display();
        let early = reading.wall < reading.bound.at();
        Ok(Self {
            now: reading.wall.to_string(),
            trusted: reading.wall_trusted,
            why: match (reading.wall_trusted, early) {
                (true, _) => format!("synchronised: `{file}` is there"),
                (false, true) => "wrong: it is certainly later; set it".to_owned(),
                (false, false) => format!("not trusted: `{file}` is not there"),
            },
            hub_ahead_ms: state::meta(agent.store.read(), key::HUB_CLOCK)?,
        })
    }
}

impl Status {
    /// Whether a bundle is here and waits to be applied, or it was said already to import one again.
    fn names_import(&self) -> bool {
        let waits = |state: State| matches!(state, State::Gated | State::Staged);
        let mut all = self.generations.iter();
        all.any(|bundle| State::from_word(bundle.state).is_some_and(waits))
            || self.attention.iter().any(Attention::names_import)
    }
}
