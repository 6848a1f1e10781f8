//! `status` when the agent cannot be opened: its key is gone, its database or `agent.toml` is damaged.
//!
//! What comes in: the state folder and the error. What goes out: what can still be read there, from the
//! database if it opens and from the disk if not. It repairs nothing and changes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};
use outhaul_kit::{durable, text};
use outhaul_site::state::holds::AssignmentHold;
use outhaul_site::state::{self, Hold, SiteIdentity, StateError, Store, holds, key};
use outhaul_site::state_folder::{LockError, StateFolder};
use outhaul_site::{identity, request, rescued};
use serde::{Serialize, Serializer};

use crate::error::AgentError;

/// What can still be said.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each changes one line")]
pub struct Blind {
    /// The site, if its name can be read.
    pub site: Option<String>,
    /// The fleet, likewise.
    pub fleet: Option<String>,
    /// Whether the database says so.
    #[serde(skip)]
    is_read: bool,
    /// Whether the database is gone, and not only unreadable.
    #[serde(skip)]
    is_lost: bool,
    /// Whether the database is an older copy, which knows less than what runs.
    #[serde(skip)]
    is_older: bool,
    /// The number that runs, if the database can be read.
    pub active: Option<u64>,
    /// What was last found of each assignment, likewise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assignments: Vec<AssignmentResult>,
    /// What is held, in words: the folders of bundles that these are held at must stay; absent where it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Vec<String>>,
    /// The file in `rescued` that shows what is held, where nothing else does: a restore or an enrolment gives it back.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_json_path"
    )]
    pub held_in: Option<PathBuf>,
    /// The bundles whose folders are on disk.
    pub on_disk: Vec<u64>,
    /// Whether the service runs, with the settings and the key that it read when it started: what is wrong keeps only commands and the next start
    /// of the service from working.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub service: bool,
    /// Why no more can be said.
    pub trouble: String,
    /// What to do next.
    pub help: String,
}

impl Blind {
    /// What is left to say after `error`; `None` where there is nothing to look at.
    pub fn look(state_folder: &StateFolder, error: &AgentError) -> Option<Self> {
        if let AgentError::State(
            StateError::NotEnrolled { .. }
            | StateError::File(_)
            | StateError::Lock(LockError::Busy { .. }),
        ) = error
        {
            return None;
        }
        let names = durable::list(&state_folder.generations()).ok()?;
        let mut on_disk: Vec<u64> = names
            .iter()
            .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
            .collect();
        on_disk.sort_unstable();
        // Opening what is gone would make an empty one in its place.
        let store = match error {
            // And what another site's or an older one has does not run here.
            AgentError::State(
                StateError::Gone { .. }
                | StateError::Instead { .. }
                | StateError::OtherSite { .. }
                | StateError::OlderCopy { .. },
            ) => None,
            AgentError::State(StateError::NoSpace { .. }) => {
                Store::open_without_space(&state_folder.database()).ok()
            }
            AgentError::State(StateError::ReadOnly { .. }) => {
                Store::open_read_only(&state_folder.database()).ok()
            }
            _ => Store::open(&state_folder.database()).ok(),
        };
        let db = store.as_ref().map(Store::read);
        let site: Option<SiteIdentity> = db.and_then(|db| state::site(db).ok());
        let is_read = site.is_some();
        let name = site.map(|site| (site.fleet, site.name)).or_else(|| {
            let known = identity::read(state_folder).map(|known| (known.fleet, known.site));
            let request = || request::written(state_folder).map(|one| (one.fleet, one.site));
            let saved = || Some(rescued::owners(state_folder).into_iter().next()?.0);
            known.or_else(request).or_else(saved)
        });
        let known = store.as_ref().and_then(held).or_else(|| {
            let kept = holds::beside::read(state_folder)?;
            Some(in_words(kept.site.is_some(), kept.assignments))
        });
        let copy = rescued::copied(state_folder);
        let saved = match known {
            Some(_) => None,
            // It came along when the folder was moved aside, after the database was saved.
            None => holds::beside::read(&copy)
                .map(|kept| {
                    let held = in_words(kept.site.is_some(), kept.assignments);
                    (copy.holds(), held)
                })
                .or_else(|| held_in_database(state_folder)),
        };
        let (held_in, saved) = saved.unzip();
        Some(Self {
            held_in,
            fleet: name.as_ref().map(|(fleet, _)| fleet.to_string()),
            site: name.map(|(_, site)| site.to_string()),
            is_read,
            is_lost: matches!(
                error,
                AgentError::State(StateError::Gone { .. } | StateError::Damaged { .. })
            ),
            is_older: matches!(error, AgentError::State(StateError::OlderCopy { .. })),
            active: db.and_then(|db| state::meta(db, key::ACTIVE).ok().flatten()),
            assignments: db
                .and_then(|db| state::meta(db, key::RESULTS).ok().flatten())
                .unwrap_or_default(),
            held: known.or(saved),
            on_disk,
            service: !is_of_database(error) && state_folder.service_runs(),
            trouble: error.to_string(),
            help: error.help(),
        })
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        if let (Some(site), Some(fleet)) = (&self.site, &self.fleet) {
            lines.push(format!("site {site} of fleet {fleet}"));
        }
        lines.push(match self.active {
            Some(number) => format!("active: bundle {number}"),
            None if self.is_read => "active: nothing yet".to_owned(),
            None if self.is_older => {
                "active: not known: the database is an older copy; what runs on this host goes on"
                    .to_owned()
            }
            None => "active: cannot be read; what runs on this host goes on".to_owned(),
        });
        for assignment in &self.assignments {
            let name = &assignment.name;
            let word = found(assignment.status);
            lines.push(format!("  {name}: {word} when it was last checked"));
        }
        lines.push(match self.held.as_deref() {
            None if self.is_lost => {
                "holds: lost with the database; no readable `holds.json` shows what was held"
                    .to_owned()
            }
            None => "holds: cannot be read; what is held stays held".to_owned(),
            Some([]) => "holds: none".to_owned(),
            Some(held) => {
                let held = held.join(", ");
                match &self.held_in {
                    None => format!("holds: {held}"),
                    Some(path) if path.extension().is_some_and(|end| end == "db") => format!(
                        "holds: {held}, by `{path}`: they are held again when it is put back, or by a restore from a backup",
                        path = text::path(path)
                    ),
                    Some(path) => format!(
                        "holds: {held}, by `{path}`: a restore from a backup, or an enrolment, gives them back",
                        path = text::path(path)
                    ),
                }
            }
        });
        let on_disk: Vec<_> = self.on_disk.iter().map(ToString::to_string).collect();
        if !on_disk.is_empty() {
            lines.push(format!("bundles on disk: {}", on_disk.join(", ")));
        }
        lines.push(match self.service {
            true => "the service runs, and goes on with the settings and the key that it read when it started; until this is fixed no command works, \
                     and the service does not start again:"
                .to_owned(),
            false => {
                "nothing new is installed and no report is written until this is fixed:".to_owned()
            }
        });
        lines.join("\n")
    }
}

/// A path as other commands have it in their JSON.
#[expect(clippy::ref_option, reason = "serde gives it so")]
fn as_json_path<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(text::json_path).serialize(to)
}

/// Whether it is the database, or the disk under it: a service that runs needs these all the time, and the rest when it starts.
fn is_of_database(error: &AgentError) -> bool {
    use StateError::{
        Damaged, Database, Exchanged, Gone, Instead, LockLost, Newer, NoSpace, NotEnrolled,
        OlderCopy, OtherPiece, OtherSite, ReadOnly, Shortened, Value,
    };
    matches!(
        error,
        AgentError::State(
            Damaged { .. }
                | Database { .. }
                | Exchanged { .. }
                | Gone { .. }
                | Instead { .. }
                | LockLost { .. }
                | Newer { .. }
                | NoSpace { .. }
                | NotEnrolled { .. }
                | OlderCopy { .. }
                | OtherPiece { .. }
                | OtherSite { .. }
                | ReadOnly { .. }
                | Shortened { .. }
                | Value { .. }
        )
    )
}

/// What is held by the database that is saved in `rescued` and may take the place of the one that is gone.
fn held_in_database(state_folder: &StateFolder) -> Option<(PathBuf, Vec<String>)> {
    let path = state::saved::beside(&state_folder.database())?;
    let held = held(&Store::open_read_only(&path).ok()?)?;
    Some((path, held))
}

/// What is held, where it can be read.
fn held(store: &Store) -> Option<Vec<String>> {
    let db = store.read();
    let site = state::meta::<Hold>(db, key::HOLD).ok()?;
    Some(in_words(site.is_some(), holds::of_assignments(db).ok()?))
}

fn in_words(site: bool, assignments: BTreeMap<String, AssignmentHold>) -> Vec<String> {
    let assignments = assignments
        .into_iter()
        .map(|(name, hold)| match hold.generation {
            Some(number) => format!("`{name}` at bundle {number}"),
            None => format!("`{name}`"),
        });
    let site = site.then(|| "the site".to_owned());
    site.into_iter().chain(assignments).collect()
}

/// How an assignment stood.
fn found(status: ComplianceStatus) -> &'static str {
    match status {
        ComplianceStatus::Compliant => "as desired",
        ComplianceStatus::Drifted => "drifted",
        ComplianceStatus::Failed => "failed",
        ComplianceStatus::InProgress => "in progress",
    }
}
