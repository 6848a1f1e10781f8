//! What a document has to keep to: it does not contradict itself, and what a hub keeps or shows as it is has a bounded size.
//!
//! What comes in: a document that was read. What goes out: nothing, or the first thing that is wrong with it. It changes nothing.

use std::collections::BTreeSet;

use super::{
    AssignmentExplanation, EXPLANATION_FORMAT, Entity, ExplanationError,
    MAX_EXPLANATION_NAME_BYTES as MAX_NAME_BYTES, PlatformExplanation, PolicyVerdict,
};
use crate::index::Source;

/// Most sources besides the base and the environment: as many as workloads that one control plane registers.
const MAX_SOURCES: usize = 10_000;
/// Longest address of a repository, and longest place in a file, in bytes.
const MAX_PLACE_BYTES: usize = 8 * 1024;

impl PlatformExplanation {
    /// Whether it is whole in itself.
    pub(super) fn check(&self) -> Result<(), ExplanationError> {
        if self.format != EXPLANATION_FORMAT {
            let found = self.format;
            return Err(ExplanationError::Format { found });
        }
        if self.snapshot.digest != self.snapshot.computed_digest() {
            return Err(ExplanationError::Snapshot);
        }
        name("the environment's name", &self.environment)?;
        if self.environment != self.snapshot.environment.name {
            return wrong(format!(
                "it is of environment `{}`, and its snapshot of `{}`",
                self.environment, self.snapshot.environment.name
            ));
        }
        self.check_sources()?;
        for (kind, entities) in self.entities.kinds() {
            check_entities(kind, entities)?;
        }
        for one in &self.assignments {
            check_assignment(one)?;
        }
        for one in &self.not_assigned {
            check_verdicts(one.nearest.iter())?;
        }
        for layer in self.configs.iter().flatten().flat_map(|one| &one.layers) {
            name("the name of a container", &layer.container)?;
            place(&layer.at)?;
        }
        self.check_pairs()?;
        self.check_policies()?;
        self.check_configs()
    }

    /// The same sources in another order would have another digest, and pass for another snapshot.
    fn check_sources(&self) -> Result<(), ExplanationError> {
        let workloads = &self.snapshot.workloads;
        if workloads.len() > MAX_SOURCES {
            let found = workloads.len();
            return wrong(format!(
                "its snapshot has {found} workloads, and {MAX_SOURCES} is the most"
            ));
        }
        let fixed = [&self.snapshot.environment, &self.snapshot.base];
        for source in fixed.into_iter().chain(workloads) {
            let Source {
                name: called,
                repo,
                commit,
            } = source;
            name("the name of a source", called)?;
            name("the commit of a source", commit)?;
            place(repo)?;
        }
        match workloads.windows(2).find(|two| two[0] >= two[1]) {
            None => Ok(()),
            Some(two) => wrong(format!(
                "the workloads of its snapshot are not in order, each once: `{}` comes after `{}`",
                two[1].name, two[0].name
            )),
        }
    }

    fn check_pairs(&self) -> Result<(), ExplanationError> {
        let named = |list: &'_ [Entity]| -> BTreeSet<String> {
            list.iter().map(|entity| entity.name.clone()).collect()
        };
        let cluster_types = named(&self.entities.cluster_types);
        let targets = named(&self.entities.targets);
        let pairs = self
            .assignments
            .iter()
            .map(|one| (&one.cluster_type, &one.target))
            .chain(
                self.not_assigned
                    .iter()
                    .map(|one| (&one.cluster_type, &one.target)),
            );
        let mut seen = BTreeSet::new();
        for (cluster_type, target) in pairs {
            if !cluster_types.contains(cluster_type) || !targets.contains(target) {
                return wrong(format!(
                    "`{cluster_type}/{target}` is not a pair of its cluster types and targets"
                ));
            }
            if !seen.insert((cluster_type, target)) {
                return wrong(format!("`{cluster_type}/{target}` is in it twice"));
            }
        }
        Ok(())
    }

    /// Policies that put a pair there are policies of the control plane, and those whose verdicts say so.
    fn check_policies(&self) -> Result<(), ExplanationError> {
        let known = self.entities.policies.iter();
        let known: BTreeSet<&str> = known.map(|policy| policy.name.as_str()).collect();
        for one in &self.assignments {
            let pair = format!("`{}/{}`", one.cluster_type, one.target);
            let named: BTreeSet<&str> = one.policies.iter().map(String::as_str).collect();
            if let Some(unknown) = named.difference(&known).next() {
                return wrong(format!(
                    "{pair} is assigned by `{unknown}`, which is not one of its policies"
                ));
            }
            let choosing = one.verdicts.iter().filter(|verdict| verdict.chooses());
            let choosing: BTreeSet<&str> = choosing.map(|one| one.policy.as_str()).collect();
            if named != choosing {
                return wrong(format!(
                    "the policies that assign {pair} are not those whose verdicts choose it"
                ));
            }
        }
        Ok(())
    }

    fn check_configs(&self) -> Result<(), ExplanationError> {
        let places = self
            .assignments
            .iter()
            .flat_map(AssignmentExplanation::configs);
        match places.max() {
            Some(place) if place >= self.configs.len() => wrong(format!(
                "an assignment has config {place}, and there are {}",
                self.configs.len()
            )),
            _ => Ok(()),
        }
    }
}

fn check_entities(kind: &str, entities: &[Entity]) -> Result<(), ExplanationError> {
    let mut names = BTreeSet::new();
    for entity in entities {
        name(&format!("the name of a {kind}"), &entity.name)?;
        place(&entity.at)?;
        if !names.insert(&entity.name) {
            return wrong(format!("two of kind {kind} are called `{}`", entity.name));
        }
    }
    Ok(())
}

fn check_assignment(one: &AssignmentExplanation) -> Result<(), ExplanationError> {
    let overlays = one.overlays.iter();
    let sites = one
        .sites
        .iter()
        .chain(overlays.clone().map(|one| &one.sites));
    for (what, called) in (one.policies.iter().map(|called| ("a policy", called)))
        .chain(one.schemas.iter().map(|called| ("a schema", called)))
        .chain(sites.flatten().map(|called| ("a site", called)))
    {
        name(&format!("the name of {what}"), called)?;
    }
    for version in one
        .config_version
        .iter()
        .chain(overlays.map(|one| &one.config_version))
    {
        if version.len() > MAX_NAME_BYTES {
            return wrong(format!(
                "a config's version has {MAX_NAME_BYTES} bytes at most"
            ));
        }
    }
    check_verdicts(one.verdicts.iter())
}

fn check_verdicts<'a>(
    verdicts: impl Iterator<Item = &'a PolicyVerdict>,
) -> Result<(), ExplanationError> {
    for verdict in verdicts {
        name("the name of a policy", &verdict.policy)?;
        place(&verdict.at)?;
    }
    Ok(())
}

/// A name is kept, listed, and part of an address of a page: short, and text that every database takes.
fn name(what: &str, text: &str) -> Result<(), ExplanationError> {
    match (1..=MAX_NAME_BYTES).contains(&text.len()) && !text.contains('\0') {
        true => Ok(()),
        false => wrong(format!(
            "{what} has 1 to {MAX_NAME_BYTES} bytes, none of them 0"
        )),
    }
}

fn place(text: &str) -> Result<(), ExplanationError> {
    match text.len() <= MAX_PLACE_BYTES {
        true => Ok(()),
        false => wrong(format!(
            "the address of a repository or a place in a file has {MAX_PLACE_BYTES} bytes at most"
        )),
    }
}

fn wrong(problem: String) -> Result<(), ExplanationError> {
    Err(ExplanationError::Contradiction { problem })
}
