//! The stages from a control plane to files, in one call: load, schedule, compose, render.
//!
//! What comes in: a [`LoadRequest`], how to treat Kalypso's defects, and optionally the commits of an
//! earlier snapshot to read again. What goes out: a [`Platform`] that holds what every stage gave, or
//! the findings that kept the control plane from being read. A broken assignment is no error here: it
//! is among the failures of [`Platform::rendering`], and whoever writes decides what becomes of it.
//! With `--verbose` it says what it looked at and how long each stage took. It writes nothing outside the
//! cache of fetched repositories.

use std::collections::BTreeSet;

use outhaul_bundle::index::{Snapshot, Source};
use outhaul_git::source;
use outhaul_kit::console::progress::{Meter, Unit};
use outhaul_kit::console::{self, stage};

use crate::scheduler;
use crate::{LoadRequest, Origin};
use outhaul_control::model::{ReconcilerKind, Template};
use outhaul_control::{ControlPlane, Diagnostics};
use outhaul_git::source::{Cache, SourceMap};
use outhaul_git::terminal;
use outhaul_plane::compose::{self, Composition, Mode};
use outhaul_plane::render::{self, Memory, Past, Rendering, Told};
use outhaul_plane::schedule::{self, AssignmentId, Schedule};

/// Everything that one run of the stages gave.
#[derive(Debug)]
pub struct Platform {
    /// What was read, with the warnings of reading it in `findings`.
    pub control_plane: ControlPlane,
    /// Who runs where.
    pub schedule: Schedule,
    /// With which values; empty after [`run_again`].
    pub composition: Composition,
    /// As which files, from which snapshot; and what could not be composed or rendered.
    pub rendering: Rendering,
    /// What stands for repositories here, with the pins of the snapshot that was asked for.
    pub sources: SourceMap,
    /// Where other repositories are fetched to.
    pub cache: Cache,
}

/// Runs the stages. With `pins` every repository that the snapshot names is read at its commit there.
///
/// # Errors
/// Every finding, when the control plane, or the repository of one workload, cannot be read whole.
pub fn run(
    request: &LoadRequest,
    mode: Mode,
    pins: Option<&Snapshot>,
) -> Result<Platform, Diagnostics> {
    let (control_plane, snapshot, request) = load(request, pins)?;
    crate::without_lost(&control_plane)?;
    let schedule = scheduled(&control_plane);
    let composition = stage("composed the config", || {
        compose::compose(&control_plane, &schedule, mode)
    });
    let rendering = stage("rendered", || {
        render::render(&control_plane, &schedule, &composition, &snapshot, mode)
    });
    Ok(Platform {
        control_plane,
        schedule,
        composition,
        rendering,
        sources: request.sources,
        cache: request.cache,
    })
}

/// As [`run`], on every processor, and without rendering again what did not change since the last call
/// with this `memory`. [`Platform::composition`] stays empty: configs are dropped as soon as they are
/// rendered. One memory is for one environment; another only costs a full render.
///
/// # Errors
/// As [`run`]; `memory` is then as it was.
pub fn run_again(
    memory: &mut Memory,
    request: &LoadRequest,
    mode: Mode,
    pins: Option<&Snapshot>,
) -> Result<Platform, Diagnostics> {
    let (control_plane, snapshot, request) = load(request, pins)?;
    let schedule = scheduled(&control_plane);
    let rendering =
        rendered(|told| memory.render_telling(&control_plane, &schedule, &snapshot, mode, told));
    Ok(Platform {
        control_plane,
        schedule,
        composition: Composition::default(),
        rendering,
        sources: request.sources,
        cache: request.cache,
    })
}

/// As [`run_again`], across runs: `past` is what the last run remembered and nothing else. What is in the
/// second value is not in [`Platform::rendering`]: it is as the last run left it.
///
/// # Errors
/// As [`run`].
pub fn run_since(
    past: &Past,
    request: &LoadRequest,
    mode: Mode,
) -> Result<(Platform, BTreeSet<String>, Past), Diagnostics> {
    let (control_plane, snapshot, request) = load(request, None)?;
    let schedule = scheduled(&control_plane);
    let since = rendered(|told| {
        render::render_since(past, &control_plane, &schedule, &snapshot, mode, told)
    });
    let platform = Platform {
        control_plane,
        schedule,
        composition: Composition::default(),
        rendering: since.rendering,
        sources: request.sources,
        cache: request.cache,
    };
    Ok((platform, since.taken, since.past))
}

/// The first stage alone. Returns the request as it was carried out, with the pins among its sources.
///
/// # Errors
/// Every finding, when the control plane cannot be read whole.
pub fn load(
    request: &LoadRequest,
    pins: Option<&Snapshot>,
) -> Result<(ControlPlane, Snapshot, LoadRequest), Diagnostics> {
    load_by(crate::load, request, pins)
}

/// As [`load`], for scheduling alone: [`crate::load_to_schedule`].
///
/// # Errors
/// As [`load`].
pub fn load_to_schedule(
    request: &LoadRequest,
    pins: Option<&Snapshot>,
) -> Result<(ControlPlane, Snapshot, LoadRequest), Diagnostics> {
    load_by(crate::load_to_schedule, request, pins)
}

fn load_by(
    load: fn(&LoadRequest) -> Result<(ControlPlane, Snapshot), Diagnostics>,
    request: &LoadRequest,
    pins: Option<&Snapshot>,
) -> Result<(ControlPlane, Snapshot, LoadRequest), Diagnostics> {
    let mut request = request.clone();
    if let Some(snapshot) = pins {
        let fixed = [&snapshot.environment, &snapshot.base];
        for source in fixed.into_iter().chain(&snapshot.workloads) {
            request
                .sources
                .pin(&source.name, &source.repo, &source.commit);
        }
    }
    let (mut control_plane, snapshot) = stage("read the control plane", || load(&request))?;
    detail(|| looked_at(&snapshot));
    // A local control plane stands for its own URL in what comes after, too: manifests may lie in it.
    if let Origin::Repository { url, .. } = &request.from {
        request.sources.insert_given(url);
        if let Some(folder) = source::local_folder(url) {
            let own = &snapshot.environment.repo;
            request.sources.insert_default(own, folder);
        }
    }
    // Between loading and scheduling, so that scheduling stays a function of values.
    control_plane.answers = scheduler::ask(&control_plane, &request.schedulers);
    Ok((control_plane, snapshot, request))
}

/// Who runs where; with `--verbose` also by which policies.
fn scheduled(control_plane: &ControlPlane) -> Schedule {
    let schedule = stage("scheduled", || schedule::schedule(control_plane));
    detail(|| chosen(control_plane, &schedule));
    schedule
}

/// Composes and renders, and shows how far that is when it takes long.
fn rendered<T>(work: impl FnOnce(&Told<'_>) -> T) -> T {
    let meter = Meter::new("rendering", Unit::Things("assignments"), None);
    stage("composed and rendered", || {
        work(&|done, all| {
            meter.of(all as u64);
            meter.add(done as u64);
        })
    })
}

fn detail(lines: impl FnOnce() -> Vec<String>) {
    if console::options::is_verbose() {
        for line in lines() {
            console::detail(&terminal::plain(&line));
        }
    }
}

/// The sources that were read, one line each.
fn looked_at(snapshot: &Snapshot) -> Vec<String> {
    let line = |what: &str, source: &Source| {
        let repo = match source.repo.as_str() {
            "" => "a folder",
            repo => repo,
        };
        format!(
            "  {what} `{}` from {repo} at {}",
            source.name, source.commit
        )
    };
    let mut lines = vec![
        line("environment", &snapshot.environment),
        line("base", &snapshot.base),
    ];
    lines.extend(snapshot.workloads.iter().map(|one| line("workload", one)));
    lines
}

/// What each policy chose, one line each.
fn chosen(control_plane: &ControlPlane, schedule: &Schedule) -> Vec<String> {
    let count = |name: &String| {
        let assignments = schedule.assignments.values();
        assignments
            .filter(|one| one.policies.contains(name))
            .count()
    };
    let policies = control_plane.policies.values();
    policies
        .map(|policy| {
            let chosen = outhaul_kit::counted::assignments(count(&policy.name));
            let at = policy.location.file_line();
            format!("  policy `{}` ({at}): {chosen}", policy.name)
        })
        .collect()
}

impl Platform {
    /// Whether every policy could be followed and every workload could be read.
    pub fn is_whole(&self) -> bool {
        self.schedule.failures.is_empty() && self.control_plane.lost.is_empty()
    }

    /// Which reconciler on site applies what the template `name` renders.
    pub fn reconciler_kind(&self, name: &str) -> ReconcilerKind {
        let template = self.control_plane.templates.get(name);
        template.map_or(ReconcilerKind::Folder, Template::reconciler_kind)
    }

    /// What is wrong with the broken assignments, as people read it: sorted, each finding once.
    pub fn broken(&self) -> Diagnostics {
        self.broken_of(self.rendering.failures.keys())
    }

    /// What is wrong with these broken assignments, with policies that could not be followed, and with
    /// workloads that could not be read.
    pub fn broken_of<'i>(&self, ids: impl IntoIterator<Item = &'i AssignmentId>) -> Diagnostics {
        let mut all = self.schedule.findings();
        all.append(self.control_plane.lost_findings());
        for findings in ids
            .into_iter()
            .filter_map(|id| self.rendering.failures.get(id))
        {
            all.append(findings.clone());
        }
        all.sort();
        all
    }
}
