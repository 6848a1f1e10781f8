//! Render: from an assignment and its values to files.
//!
//! What comes in: a [`Job`], that is a [`ControlPlane`] and its [`Schedule`], and a [`RenderCache`]. What goes out:
//! a [`Rendering`]: for each cluster type its assignments' files, and what failed. Kalypso's templates
//! are Go templates, ours are Jinja; both see the same data. It is pure and bounded: templates cannot
//! read the clock, the network or the machine, and cannot run for ever. One assignment's error never
//! touches another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_bundle::index::Snapshot;
use outhaul_gocompat::TemplateView;

use crate::compose::schema::to_json;
use crate::compose::{self, Composed, Mode, Provenance};
use crate::inputs::Inputs;
use crate::manifests;
use crate::playbooks;
use crate::schedule::{Assignment, AssignmentId, Schedule};
use crate::site_values::{OpenedValues, Opener};
use crate::templates;
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, SourceFile};
use outhaul_control::model::{
    ClusterType, DeliveryPolicy, DeploymentTarget, Spanned, TemplateType,
};

mod as_texts;
mod assignment;
mod config_map;
mod culprit;
mod disk;
mod engine;
mod filters;
mod incremental;
mod jinja;
pub mod jinja_process;
mod jinja_value;
mod keys;
pub mod namespace;
pub mod overlay;
pub(crate) mod place;
mod storages;
pub mod trace;

pub use assignment::{RenderedAssignment, RenderedOverlay};
pub use disk::DiskCache;
use engine::{Engines, Shared};
pub use incremental::{MemoryCache, Progress};

/// The code of findings about a config's key that a template cannot use.
pub const BAD_KEY: &str = "config-key";

/// Everything that one render of one environment gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendering {
    /// The environment.
    pub environment: String,
    /// What it was rendered from.
    pub snapshot: Snapshot,
    /// The commit of the promoted content, when it has one.
    pub promoted_commit: Option<String>,
    /// Every cluster type, also those that nothing is assigned to.
    pub cluster_types: BTreeMap<String, Arc<RenderedClusterType>>,
    /// What could not be composed or rendered, and why.
    pub failures: BTreeMap<AssignmentId, Diagnostics>,
    /// What may or may not be assigned, because a policy could not be followed, and why.
    pub undecided: BTreeMap<AssignmentId, Diagnostics>,
}

/// One cluster type's assignments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RenderedClusterType {
    /// Name of the template that made the reconciler's manifests.
    pub reconciler: String,
    /// By deployment target.
    pub assignments: BTreeMap<String, Arc<RenderedAssignment>>,
}

/// What keeps templates from being parsed, whether something uses them or not.
pub fn unparsable(control_plane: &ControlPlane, mode: Mode) -> Diagnostics {
    Engines::new(Inputs::of(control_plane), mode).unparsable()
}

/// What is to be rendered.
#[expect(missing_debug_implementations, reason = "a function has none")]
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The control plane.
    pub plane: &'a ControlPlane,
    /// Who runs where in it.
    pub schedule: &'a Schedule,
    /// What it was read from.
    pub snapshot: &'a Snapshot,
    /// How to treat Kalypso's defects.
    pub mode: Mode,
    /// Is called with the number of assignments done and the number of all.
    pub progress: &'a Progress<'a>,
}

/// What an earlier render of the environment left. Another environment's only costs a full render.
#[derive(Debug)]
pub enum RenderCache<'c> {
    /// Nothing: everything is rendered.
    None,
    /// The last rendering, in memory.
    Memory(&'c mut MemoryCache),
    /// Which assignments lie on disk as the last run rendered them, and from what.
    Disk(&'c mut DiskCache),
}

/// What one render gave, whatever cache it had.
#[derive(Debug)]
pub struct Rendered {
    /// Every assignment, but for those in `reused`.
    pub rendering: Rendering,
    /// What lies on disk as it would be rendered, as `<cluster type>/<target>`; empty without a disk cache.
    pub reused: BTreeSet<String>,
    /// How many assignments were composed and rendered.
    pub rendered: usize,
}

/// Composes and renders every assignment that `cache` does not have, on every processor, and brings the
/// cache up to date. Without a cache, and with an empty one, that is all of them.
pub fn render(job: Job<'_>, cache: RenderCache<'_>) -> Rendered {
    match cache {
        RenderCache::None => MemoryCache::default().render(job),
        RenderCache::Memory(cache) => cache.render(job),
        RenderCache::Disk(cache) => cache.render(job),
    }
}

/// What was rendered and what could not be.
#[derive(Debug, Default)]
struct RenderedBatch {
    rendered: Vec<(AssignmentId, Arc<RenderedAssignment>)>,
    failures: BTreeMap<AssignmentId, Diagnostics>,
}

impl RenderedBatch {
    fn add(&mut self, id: &AssignmentId, result: Result<RenderedAssignment, Diagnostics>) {
        match result {
            Ok(rendered) => self.rendered.push((id.clone(), Arc::new(rendered))),
            Err(findings) => self
                .failures
                .entry(id.clone())
                .or_default()
                .append(findings),
        }
    }

    /// What was rendered, by cluster type; also those that nothing is assigned to.
    fn groups(&mut self, plane: Inputs<'_>) -> BTreeMap<String, Arc<RenderedClusterType>> {
        let mut groups: BTreeMap<String, RenderedClusterType> = plane
            .cluster_types
            .values()
            .map(|cluster_type| (cluster_type.name.clone(), empty_group(cluster_type)))
            .collect();
        for (id, rendered) in self.rendered.drain(..) {
            if let Some(group) = groups.get_mut(&id.cluster_type) {
                group.assignments.insert(id.target, rendered);
            }
        }
        let groups = groups.into_iter();
        groups
            .map(|(name, group)| (name, Arc::new(group)))
            .collect()
    }
}

fn empty_group(cluster_type: &ClusterType) -> RenderedClusterType {
    RenderedClusterType {
        reconciler: cluster_type.reconciler.value.clone(),
        assignments: BTreeMap::new(),
    }
}

fn rendering(
    job: Job<'_>,
    cluster_types: BTreeMap<String, Arc<RenderedClusterType>>,
    failures: BTreeMap<AssignmentId, Diagnostics>,
) -> Rendering {
    let (plane, schedule) = (job.plane, job.schedule);
    Rendering {
        environment: plane.environment.clone(),
        snapshot: job.snapshot.clone(),
        promoted_commit: plane.promoted_commit.clone(),
        cluster_types,
        failures,
        undecided: schedule
            .undecided
            .keys()
            .map(|id| (id.clone(), schedule.why_undecided(id)))
            .collect(),
    }
}

/// A target on a cluster type.
#[derive(Clone, Copy)]
struct AssignmentInput<'a> {
    environment: &'a str,
    target: &'a DeploymentTarget,
    cluster_type: &'a ClusterType,
    deliveries: &'a BTreeMap<String, DeliveryPolicy>,
}

impl<'a> AssignmentInput<'a> {
    fn of(plane: Inputs<'a>, id: &AssignmentId) -> Option<Self> {
        Some(Self {
            environment: plane.environment,
            target: plane.targets.get(&id.target)?,
            cluster_type: plane.cluster_types.get(&id.cluster_type)?,
            deliveries: plane.deliveries,
        })
    }

    fn render(
        self,
        assignment: &Assignment,
        composed: &Composed,
        overlays: &[compose::Overlay],
        (engines, opener): (&Engines<'a>, &Opener<'a>),
        shared: &mut Shared<'a>,
    ) -> Result<RenderedAssignment, Diagnostics> {
        let target = self.target;
        if let Some(problem) = storages::problem(target) {
            return Err(problem.into());
        }
        let bootstrap = self.bootstrap(engines)?;
        let opened = opener.of(self.cluster_type, target)?;
        let values = opened.as_ref().map(|opened| (opener, opened));
        let (namespace, files) = self.files(composed, engines, values, shared)?;
        if let Some(problem) = playbooks::without_payload(target, &files) {
            return Err(problem.into());
        }
        let overlays = overlay::render(overlays, &files, |composed| {
            Ok(self.files(composed, engines, values, shared)?.1)
        })?;
        Ok(RenderedAssignment {
            workload: target.workload.clone(),
            workspace: target.workspace.clone(),
            policies: assignment.policies.clone(),
            sites: assignment.sites.clone(),
            namespace,
            config_version: composed.version,
            files,
            manifests: target.manifests.clone().unwrap_or_default(),
            overlays,
            site_values: opened.map(|opened| opened.declared),
            bootstrap,
        })
    }

    /// Which reconciler applies it before the others, where it brings theirs.
    fn bootstrap(self, engines: &Engines<'a>) -> Result<Option<String>, Diagnostics> {
        let named = templates::bootstrap(self.deliveries, self.cluster_type);
        let Some(named) = named.filter(|named| named.has(&self.target.name)) else {
            return Ok(None);
        };
        match engines.applied_by_the_agent(&named.reconciler.value) {
            Some(kind) => Ok(Some(kind.to_owned())),
            None => Err(templates::not_for_the_agent(named, &self.target.name).into()),
        }
    }

    /// The namespace's name, and the files that one config gives.
    fn files(
        self,
        composed: &Composed,
        engines: &Engines<'a>,
        values: Option<(&Opener<'a>, &OpenedValues<'_>)>,
        shared: &mut Shared<'a>,
    ) -> Result<(String, BTreeMap<String, Vec<u8>>), Diagnostics> {
        let Self {
            target,
            cluster_type,
            environment,
            deliveries,
        } = self;
        let namespace = namespace::of(
            environment,
            &cluster_type.name,
            &target.name,
            engines.compat(),
        );
        let data = TemplateView {
            deployment_target_name: &target.name,
            namespace: &namespace,
            environment,
            workspace: &target.workspace,
            workload: &target.workload,
            labels: Some(&target.labels),
            manifests: target.manifests.as_ref(),
            cluster_type: &cluster_type.name,
            config_data: &composed.values,
        };
        shared.target = &target.name;
        shared.cluster_type = &cluster_type.name;
        let mut findings = Diagnostics::new();
        let mut files = BTreeMap::new();
        let mut makes_objects = false;
        let named = templates::of_assignment(deliveries, cluster_type, Some(&target.name));
        for (kind, name) in named {
            let file = match kind {
                TemplateType::Reconciler => "reconciler",
                TemplateType::Namespace => "namespace",
                TemplateType::Config => "platform-config",
            };
            makes_objects |= kind == TemplateType::Reconciler && engines.makes_objects(&name.value);
            match text_of(name, kind, data, composed, engines, shared) {
                // Kalypso writes the reconciler's and the namespace's file even when it is empty.
                Ok(text) if text.is_empty() && kind == TemplateType::Config => {}
                Ok(text) => {
                    let ending = engines.ending(&name.value, kind);
                    files.insert(format!("{file}.{ending}"), text.into_bytes());
                }
                Err(found) => findings.extend(found.into_iter().map(|finding| {
                    let title =
                        format!("assignment `{}` on `{}`: ", target.name, cluster_type.name);
                    let said =
                        compose::without_secrets(&finding.message, &to_json(&composed.values));
                    Diagnostic {
                        message: format!("{title}{said}"),
                        ..finding
                    }
                })),
            }
        }
        if let Some((opener, opened)) = values {
            match opener.file(opened, (cluster_type, target), &namespace, composed) {
                Ok((name, text)) => drop(files.insert(name.to_owned(), text.into_bytes())),
                Err(found) => findings.append(found),
            }
        }
        if !findings.has_errors() && makes_objects {
            let text = |(name, bytes): (&String, &Vec<u8>)| {
                let name = format!("rendered {}/{}/{name}", cluster_type.name, target.name);
                let text = String::from_utf8_lossy(bytes).into_owned();
                Arc::new(SourceFile { name, text })
            };
            let made = files.iter().filter(|(name, _)| name.ends_with(".yaml"));
            findings.append(manifests::objects(&made.map(text).collect::<Vec<_>>()));
        }
        if findings.has_errors() {
            return Err(findings);
        }
        Ok((namespace, files))
    }
}

fn text_of<'a>(
    name: &Spanned<String>,
    kind: TemplateType,
    data: TemplateView<'_>,
    composed: &Composed,
    engines: &Engines<'a>,
    shared: &mut Shared<'a>,
) -> Result<String, Diagnostics> {
    let text = engines
        .render(name, kind, data, shared)
        .map_err(|findings| at_its_key(findings, composed, engines))?;
    // Kalypso's defect 7, which only `--compat` reproduces.
    if engines.compat() || kind != TemplateType::Config || !config_map::has_structure(composed) {
        return Ok(text);
    }
    let keys = config_map::structured_keys(&text);
    if keys.is_empty() {
        return Ok(text);
    }
    let config_data = &config_map::with_text(composed, &keys);
    let data = TemplateView {
        config_data,
        ..data
    };
    engines.render(name, kind, data, shared)
}

/// A key that cannot be what a template makes of it is wrong where it is written.
fn at_its_key(findings: Diagnostics, composed: &Composed, engines: &Engines<'_>) -> Diagnostics {
    let at_its_key = |mut finding: Diagnostic| {
        let Some(key) = filters::refused_key(&finding.message) else {
            return finding;
        };
        let applied = composed.provenance.get(key).and_then(Provenance::location);
        let Some(at) = applied.or_else(|| engines.first_set(key)).cloned() else {
            return finding;
        };
        finding.code = BAD_KEY;
        if let Some(template) = finding.location.replace(at) {
            finding = finding.related(&template, "this template needs it to be one");
        }
        finding
    };
    let mut made = Diagnostics::new();
    made.extend(findings.into_iter().map(at_its_key));
    made
}

impl Rendering {
    /// The whole tree as the platform repository has it: path and content.
    pub fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        self.files()
            .map(|(path, bytes)| (path, bytes.to_vec()))
            .collect()
    }

    /// Every file of the tree, without copying it.
    pub fn files(&self) -> impl Iterator<Item = (String, &[u8])> {
        let of_assignments = self.cluster_types.iter().flat_map(|(name, rendered)| {
            let readme = (format!("{name}/README.md"), README.as_bytes());
            let all = rendered.assignments.iter();
            let for_all = all.filter(|(_, one)| one.sites.is_none());
            let files = for_all.flat_map(move |(target, one)| {
                one.files
                    .iter()
                    .map(move |(file, bytes)| (format!("{name}/{target}/{file}"), &bytes[..]))
            });
            std::iter::once(readme).chain(files)
        });
        let commit = self.promoted_commit.as_ref();
        of_assignments
            .chain(self.files_of_sites())
            .chain(commit.map(|id| (PROMOTED_COMMIT_FILE.to_owned(), id.as_bytes())))
    }

    /// What single sites have of their own: `.sites/<site>/<cluster type>/<target>/<file>`. An assignment
    /// for some sites only lies there whole, for each of them, and nowhere else.
    fn files_of_sites(&self) -> impl Iterator<Item = (String, &[u8])> {
        self.cluster_types.iter().flat_map(|(name, rendered)| {
            rendered.assignments.iter().flat_map(move |(target, one)| {
                one.files_by_site().flat_map(move |(site, files)| {
                    let folder = format!("{SITES}{site}/{name}/{target}");
                    let files = files.into_iter();
                    files.map(move |(file, bytes)| (format!("{folder}/{file}"), bytes))
                })
            })
        })
    }

    /// What was rendered, as `<cluster type>/<target>`.
    pub fn assignments(&self) -> BTreeSet<String> {
        self.cluster_types
            .iter()
            .flat_map(|(name, group)| {
                let targets = group.assignments.keys();
                targets.map(move |target| format!("{name}/{target}"))
            })
            .collect()
    }
}

/// Where pipelines look for the promoted commit. No newline at its end.
pub const PROMOTED_COMMIT_FILE: &str = ".github/tracking/Promoted_Commit_Id";
/// Where the files of single sites lie: beside the cluster types, because a reconciler applies all
/// that lies below those.
pub const SITES: &str = ".sites/";

/// Of whose files `path` is one, as `<cluster type>/<target>`.
pub fn assignment_of(path: &str) -> Option<&str> {
    let path = match path.strip_prefix(SITES) {
        Some(of_site) => of_site.split_once('/')?.1,
        None => path,
    };
    let (folder, _) = path.rsplit_once('/')?;
    folder.contains('/').then_some(folder)
}

/// The folder at the top of a path: the cluster type, of an assignment's file.
pub fn top_of(path: &str) -> &str {
    path.split('/').next().unwrap_or_default()
}

/// Whether `path` is named as the files of an assignment are: `<cluster type>/<target>/reconciler.yaml`, and the like.
pub fn is_of_assignment(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let [top, _, file] = parts.as_slice() else {
        return false;
    };
    let stem = file.rsplit_once('.').map_or(*file, |(stem, _)| stem);
    !top.starts_with('.') && matches!(stem, "reconciler" | "namespace" | "platform-config")
}

/// What lies in the folder of every cluster type. No newline at its end.
pub const README: &str = "This folder contains deployment targets scheduled on the cluster type";
