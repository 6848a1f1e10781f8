//! Compose: which values each assignment gets, and where each came from.
//!
//! What comes in: a [`ControlPlane`] and its [`Schedule`]. What goes out: a [`Composition`]: for each
//! assignment the merged platform config with the place of every key, or what is wrong with it. It is
//! pure, and one assignment's error never touches another. Assignments that the same containers match
//! share one config. Where containers match only because of a site's labels, those sites get overlays:
//! their own configs, shared by all sites with equal values.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_bundle::Digest;
use outhaul_gocompat::{GoMap, GoValue, MapKind};

use crate::inputs::Inputs;
use crate::schedule::{AssignmentId, Schedule};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_control::model::composition::ArrayRule;
use outhaul_control::model::{ClusterType, CompositionPolicy, DeploymentTarget, Site};

mod conflict;
pub mod layers;
pub mod merge;
mod overlay;
pub mod schema;
mod sealed;
mod secrets;
pub mod typing;

pub use conflict::{Ambiguity, ambiguities, contradiction};
use layers::Layers;
use merge::Arrays;
use overlay::Sites;
pub use overlay::findings::SiteFindings;
pub use overlay::site_labels;
pub(crate) use secrets::without_secrets;

/// How to treat the places where Kalypso's bytes were a defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mode {
    /// Reproduce Kalypso where it is not a danger, rather than do the right thing.
    pub compat: bool,
}

/// The config of every assignment.
#[derive(Debug, Clone, Default)]
pub struct Composition {
    /// What was composed.
    pub assignments: BTreeMap<AssignmentId, Arc<Composed>>,
    /// Where it is another one on some sites. Ordered by the first site; no site is in two.
    pub overlays: BTreeMap<AssignmentId, Vec<Overlay>>,
    /// What could not be, and why. A failure of one site's values is one of the assignment.
    pub failures: BTreeMap<AssignmentId, Diagnostics>,
}

/// The platform config of some sites, where it is not the assignment's own.
#[derive(Debug, Clone)]
pub struct Overlay {
    /// Names of the sites. Never empty.
    pub sites: BTreeSet<String>,
    /// Their config, whole.
    pub composed: Arc<Composed>,
}

/// The platform config of one assignment.
#[derive(Debug, Clone)]
pub struct Composed {
    /// The values: always a `map[string]interface{}`.
    pub values: GoValue,
    /// Digest of the values: the config's version.
    pub version: Digest,
    /// Where each top-level key came from.
    pub provenance: BTreeMap<String, Provenance>,
}

/// Where one key's value came from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Provenance {
    /// Every container that set it, in order: the last one decides, or is merged over the others.
    pub layers: Vec<Layer>,
}

/// One container's value for a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The container's name.
    pub container: String,
    /// The value as written.
    pub text: String,
    /// Where it is written.
    pub location: Location,
    /// Whether it was merged into what was there, rather than replacing it.
    pub merged: bool,
}

impl Provenance {
    /// Where the value that counts is written.
    pub fn location(&self) -> Option<&Location> {
        self.layers.last().map(|layer| &layer.location)
    }
}

/// The rules of merging.
#[derive(Debug, Clone, Copy)]
struct Rules<'a> {
    policy: Option<&'a CompositionPolicy>,
    compat: bool,
}

impl<'a> Rules<'a> {
    fn of(plane: Inputs<'a>, mode: Mode) -> Self {
        Self {
            policy: plane.composition,
            compat: mode.compat,
        }
    }

    /// What becomes of lists in the value of `key`.
    fn arrays(&self, key: &str) -> Arrays {
        let rule = self
            .policy
            .and_then(|policy| policy.arrays_by_key.get(key).copied().or(policy.arrays));
        match rule {
            Some(ArrayRule::Append) => Arrays::Append,
            Some(ArrayRule::Replace) => Arrays::Replace,
            None if self.compat => Arrays::AsKalypso,
            Some(ArrayRule::ByName) | None => Arrays::ByName,
        }
    }
}

/// What becomes of lists in the value of `key`.
pub(crate) fn arrays(plane: &ControlPlane, key: &str, mode: Mode) -> merge::Arrays {
    Rules::of(Inputs::of(plane), mode).arrays(key)
}

/// Composes assignments one by one; see [`compose`].
pub(crate) struct Composing<'a> {
    composer: Composer<'a>,
    sites: Sites<'a>,
}

/// Configs that are remembered for others that the same layers match.
const REMEMBERED: usize = 128;

impl<'a> Composing<'a> {
    pub(crate) fn new(control_plane: Inputs<'a>, mode: Mode) -> Self {
        let mut composer = Composer::new(control_plane, mode);
        let mut targets = control_plane.targets.values();
        // Findings of schemas need the place of every key, and files those of what was merged.
        composer.lean =
            control_plane.schemas.is_empty() && targets.all(|one| one.config_schemas.is_empty());
        let sites = Sites::of(control_plane, &composer.layers);
        Self { composer, sites }
    }

    /// The config of one assignment, and those of sites where it is another one; of those in `only`, when
    /// it is for some sites only.
    pub(crate) fn assignment(
        &mut self,
        cluster_type: &ClusterType,
        target: &'a DeploymentTarget,
        only: Option<&BTreeSet<String>>,
    ) -> Result<(Arc<Composed>, Vec<Overlay>), Diagnostics> {
        let composer = &mut self.composer;
        if composer.merged.len() > REMEMBERED {
            composer.merged.clear();
            composer.checked.clear();
        }
        composer.assignment(cluster_type, target, &self.sites, only)
    }
}

/// Composes the config of every assignment, and of every site that has its own values.
pub fn compose(control_plane: &ControlPlane, schedule: &Schedule, mode: Mode) -> Composition {
    let inputs = Inputs::of(control_plane);
    let mut composer = Composer::new(inputs, mode);
    let sites = Sites::of(inputs, &composer.layers);
    let mut composition = Composition::default();
    for (id, assignment) in &schedule.assignments {
        let (Some(cluster_type), Some(target)) = (
            inputs.cluster_types.get(&id.cluster_type),
            inputs.targets.get(&id.target),
        ) else {
            continue;
        };
        match composer.assignment(cluster_type, target, &sites, assignment.sites.as_ref()) {
            Ok((composed, overlays)) => {
                composition.assignments.insert(id.clone(), composed);
                if !overlays.is_empty() {
                    composition.overlays.insert(id.clone(), overlays);
                }
            }
            Err(findings) => drop(composition.failures.insert(id.clone(), findings)),
        }
    }
    composition
}

/// The config of one pair, schemas left aside: what explanations start from.
///
/// # Errors
/// Findings about containers that match but cannot be read, or that contradict each other.
pub fn compose_one(
    control_plane: &ControlPlane,
    cluster_type: &ClusterType,
    target: &DeploymentTarget,
    mode: Mode,
) -> Result<Composed, Diagnostics> {
    let mut composer = Composer::new(Inputs::of(control_plane), mode);
    let base = composer.layers.matching(cluster_type, target)?;
    composer.merged(&base).map(Arc::unwrap_or_clone)
}

/// The config that an assignment has on one site, schemas left aside: the pair's own, with the layers
/// that match only because of the site. It is the pair's own when the site is of another cluster type.
///
/// # Errors
/// As [`compose_one`].
pub fn compose_for_site(
    control_plane: &ControlPlane,
    cluster_type: &ClusterType,
    target: &DeploymentTarget,
    site: &Site,
    mode: Mode,
) -> Result<Composed, Diagnostics> {
    let mut composer = Composer::new(Inputs::of(control_plane), mode);
    let base = composer.layers.matching(cluster_type, target)?;
    let sites = Sites::only(site, &composer.layers);
    let groups = sites.groups(&composer.layers, &base, cluster_type, target);
    let positions = match groups.into_keys().next() {
        Some(positions) => composer.layers.sound(positions)?,
        None => base,
    };
    composer.merged(&positions).map(Arc::unwrap_or_clone)
}

/// Composes, and keeps what assignments share: the same layers make the same config, the same schemas
/// check it alike.
struct Composer<'a> {
    layers: Layers<'a>,
    schemas: schema::Schemas<'a>,
    rules: Rules<'a>,
    /// Whether only lists and maps need their places.
    lean: bool,
    /// Positions of layers with sealed values.
    sealed: BTreeSet<usize>,
    environment: &'a str,
    merged: BTreeMap<Vec<usize>, Result<Arc<Composed>, Diagnostics>>,
    checked: BTreeMap<(Vec<usize>, Vec<String>), Result<(), Diagnostics>>,
}

impl<'a> Composer<'a> {
    fn new(control_plane: Inputs<'a>, mode: Mode) -> Self {
        let layers = Layers::of(control_plane, mode);
        Self {
            sealed: sealed::positions(&layers),
            environment: control_plane.environment,
            layers,
            schemas: schema::Schemas::of(control_plane, mode),
            rules: Rules::of(control_plane, mode),
            lean: false,
            merged: BTreeMap::new(),
            checked: BTreeMap::new(),
        }
    }

    /// The config of one assignment, and those of sites where it is another one.
    fn assignment(
        &mut self,
        cluster_type: &ClusterType,
        target: &'a DeploymentTarget,
        sites: &Sites<'_>,
        only: Option<&BTreeSet<String>>,
    ) -> Result<(Arc<Composed>, Vec<Overlay>), Diagnostics> {
        let base = self.layers.matching(cluster_type, target)?;
        let applied = self.schemas.applying(cluster_type, target);
        let composed = self.checked(&base, &applied)?;
        self.bound(&base, &composed, target)?;
        let groups = sites.groups(&self.layers, &base, cluster_type, target);
        let mut by_version: BTreeMap<Digest, Overlay> = BTreeMap::new();
        let mut findings = SiteFindings::default();
        for (positions, mut sites) in groups {
            sites.retain(|site| only.is_none_or(|only| only.contains(*site)));
            if sites.is_empty() {
                continue;
            }
            let made = self.layers.sound(positions);
            let made = made.and_then(|positions| {
                let made = self.checked(&positions, &applied)?;
                self.bound(&positions, &made, target)?;
                Ok(made)
            });
            match made {
                Ok(made) if made.version == composed.version => {}
                Ok(made) => {
                    let overlay = by_version.entry(made.version).or_insert_with(|| Overlay {
                        sites: BTreeSet::new(),
                        composed: made,
                    });
                    overlay.sites.extend(sites.into_iter().map(str::to_owned));
                }
                Err(found) => findings.add(&sites, found),
            }
        }
        if !findings.is_empty() {
            return Err(findings.finish());
        }
        let mut overlays: Vec<Overlay> = by_version.into_values().collect();
        // No site is in two of them.
        overlays.sort_by(|a, b| a.sites.first().cmp(&b.sites.first()));
        Ok((composed, overlays))
    }

    /// Whether each sealed value that counts is bound to this environment, workload and key.
    fn bound(
        &self,
        positions: &[usize],
        composed: &Composed,
        target: &DeploymentTarget,
    ) -> Result<(), Diagnostics> {
        if positions.iter().all(|at| !self.sealed.contains(at)) {
            return Ok(());
        }
        let values = match &composed.values {
            GoValue::Map(map) => Some(map),
            _ => None,
        };
        let counts = |setting: &&layers::LayerSetting<'_>| match values
            .and_then(|map| map.get(setting.key))
        {
            // What another container's value replaced is not used.
            Some(GoValue::Str(text)) => **text == *setting.text.value,
            value => value.is_some(),
        };
        let settings = positions
            .iter()
            .filter(|at| self.sealed.contains(at))
            .flat_map(|at| self.layers.settings(*at))
            .filter(counts);
        sealed::check(settings, self.environment, target)
    }

    fn checked(
        &mut self,
        positions: &[usize],
        applied: &[schema::Applied<'_>],
    ) -> Result<Arc<Composed>, Diagnostics> {
        let composed = self.merged(positions)?;
        if applied.is_empty() {
            return Ok(composed);
        }
        let texts = applied.iter().map(|schema| schema.text.to_owned());
        let key = (positions.to_vec(), texts.collect());
        let schemas = &self.schemas;
        self.checked
            .entry(key)
            .or_insert_with(|| schemas.check(applied, &composed))
            .clone()?;
        Ok(composed)
    }

    fn merged(&mut self, positions: &[usize]) -> Result<Arc<Composed>, Diagnostics> {
        if let Some(made) = self.merged.get(positions) {
            return made.clone();
        }
        let findings = conflict::conflicts(&self.layers, positions, &self.rules);
        let made = if findings.is_empty() {
            merge_layers(&self.layers, positions, &self.rules, self.lean).map(Arc::new)
        } else {
            Err(findings)
        };
        self.merged.insert(positions.to_vec(), made.clone());
        made
    }
}

fn merge_layers(
    layers: &Layers<'_>,
    positions: &[usize],
    rules: &Rules<'_>,
    lean: bool,
) -> Result<Composed, Diagnostics> {
    let mut settings: Vec<&layers::LayerSetting<'_>> = positions
        .iter()
        .flat_map(|at| layers.settings(*at))
        .collect();
    // Stable: those of one key stay in the order in which later ones win.
    settings.sort_by(|a, b| a.key.cmp(b.key));
    let mut entries = Vec::with_capacity(settings.len());
    let mut provenance: BTreeMap<String, Provenance> = BTreeMap::new();
    for of_key in settings.chunk_by(|a, b| a.key == b.key) {
        let mut made: Option<(&GoValue, Cow<'_, GoValue>)> = None;
        for setting in of_key {
            let (key, new) = setting.entry();
            let mut merged = false;
            let value = match made.take() {
                Some((_, before)) => {
                    let arrays = rules.arrays(setting.key);
                    merged = merge::merges(&before, new, arrays);
                    if arrays == Arrays::AsKalypso && merge::kalypso_fails(&before, new) {
                        return Err(uncomparable_names(setting).into());
                    }
                    match merged {
                        true => {
                            let both = merge::merge(before.into_owned(), new.clone(), arrays);
                            Cow::Owned(both)
                        }
                        false => Cow::Borrowed(new),
                    }
                }
                None => Cow::Borrowed(new),
            };
            made = Some((key, value));
            if !lean || new.is_container() {
                note(&mut provenance, setting, merged);
            }
        }
        entries.extend(made.map(|(key, value)| (key.clone(), value.into_owned())));
    }
    let mut map = GoMap::new(MapKind::Str);
    // In the order of the keys, so that the map is built at once.
    map.entries = entries.into_iter().collect();
    let values = GoValue::Map(map);
    let version = Digest::of(typing::canonical(&values).as_bytes());
    Ok(Composed {
        values,
        version,
        provenance,
    })
}

/// What Kalypso cannot merge, where its bytes are asked for.
fn uncomparable_names(setting: &layers::LayerSetting<'_>) -> Diagnostic {
    let message = format!(
        "`{}` of `{}` has an item whose `name` is a list or a map: Kalypso fails on it",
        setting.key, setting.container
    );
    Diagnostic::error("uncomparable-names", message)
        .at(&setting.text.location)
        .help("give the items names that are text, or render without `--compat`: there they stay apart")
}

fn note(
    provenance: &mut BTreeMap<String, Provenance>,
    setting: &layers::LayerSetting<'_>,
    merged: bool,
) {
    let of_key = provenance.entry(setting.key.to_owned()).or_default();
    of_key.layers.push(Layer {
        container: setting.container.to_owned(),
        text: setting.text.value.clone(),
        location: setting.text.location.clone(),
        merged,
    });
}

#[cfg(test)]
mod tests;
