//! What an environment's gate decides now, and where its promotion leads.
//!
//! What comes in: the store, an environment, and the time. What goes out: the gate's own decisions, one for each step on
//! record, with what people decided and the sites that a promotion would reach. It decides nothing itself: the gate is
//! asked as the API asks it. It writes nothing, so that looking at a page is never on record.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::record::{AskError, EnvironmentRecord, GateRequest};
use crate::steps::RecordedSteps;
use outhaul_gate::Decision;
use outhaul_gate::time;
use outhaul_store::{Act, CORRUPT_HELP, DesiredBundle, Session, SitePage, StoreError};

/// Sites listed that a promotion would reach.
const REACHED_SHOWN: u64 = 100;

/// One environment.
#[derive(Debug, Clone, Serialize)]
pub struct Board {
    /// Its name.
    pub environment: String,
    /// The base commit of its bundle that was signed last; `None` without a bundle.
    pub commit: Option<String>,
    /// What the gate decides now, for each step on record.
    pub steps: Vec<Step>,
    /// Why no gate can be told, where the rules on record cannot be read.
    pub problem: Option<String>,
    /// Approvals of this environment, waivers and deferrals of its sites.
    pub acts: Vec<Act>,
    /// When the hub was restored last, milliseconds since 1970: what people decided before does not count.
    pub restored_ms: Option<i64>,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

/// One step from an environment.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// The decision.
    pub decision: Decision,
    /// Where it leads: `None` where no rules on record name it.
    pub reach: Option<Reach>,
}

/// What a promotion would reach.
#[derive(Debug, Clone, Serialize)]
pub struct Reach {
    /// The environment.
    pub environment: String,
    /// How many sites.
    pub count: u64,
    /// How many of each cluster type.
    pub cluster_types: Vec<(String, u64)>,
    /// The first of them, by name.
    pub sites: Vec<String>,
}

/// All environments, those that are promoted from before those that they lead to.
#[derive(Debug, Clone, Serialize)]
pub struct Environments {
    /// One each.
    pub boards: Vec<Board>,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

impl Board {
    /// Reads one environment; `None` where no site and no bundle is of it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(
        session: &Session<'_>,
        environment: &str,
        now_ms: i64,
    ) -> Result<Option<Self>, StoreError> {
        if !session
            .environments()?
            .iter()
            .any(|known| known == environment)
        {
            return Ok(None);
        }
        let commit = newest_commits(&session.bundles()?).remove(environment);
        Self::read(session, environment, commit, now_ms).map(Some)
    }

    fn read(
        session: &Session<'_>,
        environment: &str,
        commit: Option<String>,
        now_ms: i64,
    ) -> Result<Self, StoreError> {
        let mut steps = Vec::new();
        let mut problem = None;
        if let Some(commit) = &commit {
            let decided = readable(gates(session, environment, commit, now_ms))?;
            let decisions = decided.unwrap_or_else(|why| {
                problem = Some(why);
                Vec::new()
            });
            for decision in decisions {
                let reach = match &decision.to {
                    Some(to) => Some(Reach::of(session, to)?),
                    None => None,
                };
                steps.push(Step { decision, reach });
            }
        }
        let mut acts = session.acts_in_force(now_ms)?;
        let mut kept = Vec::new();
        for act in acts.drain(..) {
            let concerns = match (&act.environment, &act.site) {
                (Some(of), _) => of == environment,
                (None, Some(site)) => session
                    .site(site)?
                    .is_some_and(|site| site.environment == environment),
                (None, None) => false,
            };
            if concerns {
                kept.push(act);
            }
        }
        Ok(Self {
            environment: environment.to_owned(),
            commit,
            steps,
            problem,
            acts: kept,
            restored_ms: session.last_restore()?.map(|restored| restored.at_ms),
            read_at: time::rfc3339(now_ms),
        })
    }
}

impl Reach {
    fn of(session: &Session<'_>, environment: &str) -> Result<Self, StoreError> {
        let cluster_types = session.sites_by_cluster_type(environment)?;
        let page = SitePage {
            limit: REACHED_SHOWN,
            ..SitePage::at_gate(environment)
        };
        let sites = session.site_states_of(page)?;
        Ok(Self {
            environment: environment.to_owned(),
            count: cluster_types.iter().map(|(_, count)| count).sum(),
            cluster_types,
            sites: sites.into_iter().map(|site| site.site).collect(),
        })
    }
}

impl Environments {
    /// Reads all environments.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn take(session: &Session<'_>, now_ms: i64) -> Result<Self, StoreError> {
        let names = session.environments()?;
        let mut commits = newest_commits(&session.bundles()?);
        let mut boards = Vec::new();
        let mut leads = BTreeMap::new();
        for name in &names {
            // Rules that cannot be read lead nowhere; the environment itself says so.
            let steps = readable(RecordedSteps::read(session, name))?.unwrap_or_default();
            let to = steps.names().map(str::to_owned);
            leads.insert(name.clone(), to.collect::<Vec<_>>());
        }
        for name in in_order(&names, &leads) {
            let commit = commits.remove(&name);
            boards.push(Board::read(session, &name, commit, now_ms)?);
        }
        Ok(Self {
            boards,
            read_at: time::rfc3339(now_ms),
        })
    }
}

/// Names so that each comes before those that it leads to; where steps go round, by name.
fn in_order(names: &[String], leads: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut left: BTreeSet<&String> = names.iter().collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let is_led_to = |name: &String| {
            left.iter().any(|from| {
                *from != name && leads.get(*from).is_some_and(|list| list.contains(name))
            })
        };
        let next = left.iter().find(|name| !is_led_to(name)).copied();
        let Some(next) = next.or_else(|| left.first().copied()) else {
            break;
        };
        left.remove(next);
        order.push(next.clone());
    }
    order
}

/// The gates of one environment's newest base commit; or why they cannot be told, as one sentence.
pub type GatesOf = (String, Result<Vec<Decision>, String>);

/// A value of one environment; or why it cannot be read, which says nothing of the others. That the store fails is an error.
fn readable<T>(read: Result<T, StoreError>) -> Result<Result<T, String>, StoreError> {
    match read {
        Ok(value) => Ok(Ok(value)),
        Err(error @ StoreError::Corrupt { .. }) => Ok(Err(format!(
            "its gates decide nothing: {error}; {CORRUPT_HELP}"
        ))),
        Err(error) => Err(error),
    }
}

/// What the gates of each environment decide about its newest base commit. What cannot be read of one environment says nothing
/// of the others.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn gates_of_each(session: &Session<'_>, now_ms: i64) -> Result<Vec<GatesOf>, StoreError> {
    let mut commits = newest_commits(&session.bundles()?);
    let mut all = Vec::new();
    for name in session.environments()? {
        let decided = match commits.remove(&name) {
            None => Ok(Vec::new()),
            Some(commit) => gates(session, &name, &commit, now_ms),
        };
        all.push((name, readable(decided)?));
    }
    Ok(all)
}

/// The gate's decisions about a commit, one for each step on record, or one without a step.
pub(super) fn gates(
    session: &Session<'_>,
    environment: &str,
    commit: &str,
    now_ms: i64,
) -> Result<Vec<Decision>, StoreError> {
    let steps = RecordedSteps::read(session, environment)?;
    let mut tos: Vec<Option<String>> = steps.names().map(|to| Some(to.to_owned())).collect();
    if tos.is_empty() {
        tos.push(None);
    }
    let mut gates = Vec::new();
    for to in tos {
        let asked = GateRequest {
            environment: environment.to_owned(),
            commit: commit.to_owned(),
            to,
            ..GateRequest::default()
        };
        let question = asked
            .question(session, now_ms)
            .map_err(|error| match error {
                AskError::Store(error) => error,
                other => StoreError::Corrupt {
                    what: other.to_string(),
                },
            })?;
        gates.push(EnvironmentRecord::read(session, &question)?.decide(&question));
    }
    Ok(gates)
}

/// Each environment's base commit of the bundle that was signed last.
pub fn newest_commits(bundles: &[DesiredBundle]) -> BTreeMap<String, String> {
    let mut newest: BTreeMap<&str, &DesiredBundle> = BTreeMap::new();
    for bundle in bundles.iter().filter(|b| !b.taken_back) {
        let best = newest.entry(&bundle.environment).or_insert(bundle);
        if bundle.signed >= best.signed {
            *best = bundle;
        }
    }
    newest
        .into_iter()
        .map(|(name, bundle)| (name.to_owned(), bundle.base_commit.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_come_in_the_order_of_their_steps_and_a_circle_ends() {
        let names = ["dev", "prod", "stage", "alone"].map(str::to_owned);
        let to = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut leads: BTreeMap<String, Vec<String>> = BTreeMap::new();
        leads.insert("dev".to_owned(), to(&["stage"]));
        leads.insert("stage".to_owned(), to(&["prod"]));
        assert_eq!(in_order(&names, &leads), ["alone", "dev", "stage", "prod"]);
        leads.insert("prod".to_owned(), to(&["dev"]));
        assert_eq!(in_order(&names, &leads).len(), 4);
    }
}
