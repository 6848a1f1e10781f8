//! The stages from a control plane to files, in one call: load, schedule, compose, render.
//!
//! What comes in: a [`LoadRequest`], how to treat Kalypso's defects, and optionally the commits of an
//! earlier snapshot to read again. What goes out: a [`Platform`] that holds what every stage gave, or
//! the findings that kept the control plane from being read. A broken assignment is not an error here: it
//! is among the failures of [`Platform::rendering`], and whoever writes decides what becomes of it.
//! With `--verbose` it says what it looked at and how long each stage took. It writes nothing outside the
//! cache of fetched repositories.

use std::collections::BTreeSet;
use std::sync::OnceLock;

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
use outhaul_plane::render::{self, Job, RenderCache, Rendered, Rendering};
use outhaul_plane::schedule::{self, AssignmentId, Schedule, SchedulerAnswers};

/// What the first stage gave: all that the others are functions of.
#[derive(Debug)]
pub struct Loaded {
    /// What was read, with the warnings of reading it in `findings`.
    pub control_plane: ControlPlane,
    /// What the programs answered that policies leave the choice to.
    pub answers: SchedulerAnswers,
    /// The commits that were read.
    pub snapshot: Snapshot,
    /// The request as it was carried out, with the pins among its sources.
    pub request: LoadRequest,
}

/// Everything that one run of the stages gave.
#[derive(Debug)]
pub struct Platform {
    /// What was read, with the warnings of reading it in `findings`.
    pub control_plane: ControlPlane,
    /// What the programs answered that policies leave the choice to.
    pub answers: SchedulerAnswers,
    /// Who runs where.
    pub schedule: Schedule,
    /// How Kalypso's defects were treated.
    pub mode: Mode,
    composition: OnceLock<Composition>,
    /// As which files, from which snapshot; and what could not be composed or rendered.
    pub rendering: Rendering,
    /// What lies on disk as it would be rendered, and is not in `rendering`.
    pub reused: BTreeSet<String>,
    /// How many assignments were rendered.
    pub rendered: usize,
    /// The local folders of repositories, with the pins of the snapshot that was asked for.
    pub sources: SourceMap,
    /// Where other repositories are fetched to.
    pub cache: Cache,
}

/// Runs the stages, and renders what `cache` does not have. With `pins` every repository that the snapshot
/// names is read at its commit there.
///
/// # Errors
/// Every finding, when the control plane cannot be read whole; the cache is then as it was.
pub fn run(
    request: &LoadRequest,
    mode: Mode,
    pins: Option<&Snapshot>,
    cache: RenderCache<'_>,
) -> Result<Platform, Diagnostics> {
    Ok(render(load(request, pins)?, mode, cache))
}

/// The stages after the first: schedules, and renders what `cache` does not have.
pub fn render(loaded: Loaded, mode: Mode, cache: RenderCache<'_>) -> Platform {
    let schedule = loaded.schedule();
    let Loaded {
        control_plane,
        answers,
        snapshot,
        request,
    } = loaded;
    let meter = Meter::new("rendering", Unit::Things("assignments"), None);
    let job = Job {
        plane: &control_plane,
        schedule: &schedule,
        snapshot: &snapshot,
        mode,
        progress: &|done, all| {
            meter.of(all as u64);
            meter.add(done as u64);
        },
    };
    let Rendered {
        rendering,
        reused,
        rendered,
    } = stage("composed and rendered", || render::render(job, cache));
    Platform {
        control_plane,
        answers,
        schedule,
        mode,
        composition: OnceLock::new(),
        rendering,
        reused,
        rendered,
        sources: request.sources,
        cache: request.cache,
    }
}

/// As [`run`] without a cache, where the repository of every workload must be readable.
///
/// # Errors
/// As [`run`], and the findings of a workload's repository that cannot be read whole.
pub fn run_whole(
    request: &LoadRequest,
    mode: Mode,
    pins: Option<&Snapshot>,
) -> Result<Platform, Diagnostics> {
    let platform = run(request, mode, pins, RenderCache::None)?;
    crate::without_lost(&platform.control_plane)?;
    Ok(platform)
}

/// The first stage alone, and the answers of schedulers.
///
/// # Errors
/// Every finding, when the control plane cannot be read whole.
pub fn load(request: &LoadRequest, pins: Option<&Snapshot>) -> Result<Loaded, Diagnostics> {
    load_by(crate::load, request, pins)
}

/// As [`load`], for scheduling alone: [`crate::load_to_schedule`].
///
/// # Errors
/// As [`load`].
pub fn load_to_schedule(
    request: &LoadRequest,
    pins: Option<&Snapshot>,
) -> Result<Loaded, Diagnostics> {
    load_by(crate::load_to_schedule, request, pins)
}

fn load_by(
    load: fn(&LoadRequest) -> Result<(ControlPlane, Snapshot), Diagnostics>,
    request: &LoadRequest,
    pins: Option<&Snapshot>,
) -> Result<Loaded, Diagnostics> {
    let mut request = request.clone();
    if let Some(snapshot) = pins {
        pin(&mut request.sources, snapshot);
    }
    let (control_plane, snapshot) = stage("read the control plane", || load(&request))?;
    detail(|| looked_at(&snapshot));
    // A local control plane takes the place of its own URL in what comes after, too: manifests may lie in it.
    if let Origin::Repository { url, .. } = &request.from {
        request.sources.insert_given(url);
        if let Some(folder) = source::local_folder(url) {
            let own = &snapshot.environment.repo;
            request.sources.insert_default(own, folder);
        }
    }
    // Between loading and scheduling, so that scheduling stays a function of values.
    let answers = scheduler::ask(&control_plane, &request.schedulers);
    Ok(Loaded {
        control_plane,
        answers,
        snapshot,
        request,
    })
}

/// Has every repository that `snapshot` names read at its commit there.
fn pin(sources: &mut SourceMap, snapshot: &Snapshot) {
    let fixed = [&snapshot.environment, &snapshot.base];
    for source in fixed.into_iter().chain(&snapshot.workloads) {
        sources.pin(&source.name, &source.repo, &source.commit);
    }
}

impl Loaded {
    /// Who runs where; with `--verbose` also by which policies.
    pub fn schedule(&self) -> Schedule {
        let (plane, answers) = (&self.control_plane, &self.answers);
        let schedule = stage("scheduled", || schedule::schedule(plane, answers));
        detail(|| chosen(plane, &schedule));
        schedule
    }

    /// With every repository fixed to the commit that was read, for what later stages read of them.
    #[must_use]
    pub fn pinned(mut self) -> Self {
        pin(&mut self.request.sources, &self.snapshot);
        self
    }
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
            let chosen = outhaul_kit::format_count::assignments(count(&policy.name));
            let at = policy.location.file_line();
            format!("  policy `{}` ({at}): {chosen}", policy.name)
        })
        .collect()
}

impl Platform {
    /// What was rendered before, of which nothing else is known: neither control plane nor schedule.
    pub fn of_rendering(rendering: Rendering) -> Self {
        Self {
            control_plane: ControlPlane::default(),
            answers: SchedulerAnswers::default(),
            schedule: Schedule::default(),
            mode: Mode::default(),
            composition: OnceLock::new(),
            rendering,
            reused: BTreeSet::new(),
            rendered: 0,
            sources: SourceMap::default(),
            cache: Cache::at(""),
        }
    }

    /// The config of every assignment; composed when it is first asked for, because rendering drops each as
    /// soon as its files are made.
    pub fn composition(&self) -> &Composition {
        self.composition.get_or_init(|| {
            stage("composed the config", || {
                compose::compose(&self.control_plane, &self.schedule, self.mode)
            })
        })
    }

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

    /// Refuses everything because of one broken assignment, or else of `also`, such as local copies of repositories that have no effect: for
    /// whoever asked for a strict run.
    ///
    /// # Errors
    /// What is wrong.
    pub fn whole_or_refused(&self, also: &Diagnostics) -> Result<(), Diagnostics> {
        let mut wrong = [self.broken(), also.clone()].into_iter();
        match wrong.find(|findings| !findings.is_empty()) {
            Some(findings) => Err(findings),
            None => Ok(()),
        }
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
