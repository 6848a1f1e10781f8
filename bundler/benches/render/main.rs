//! How fast a large control plane is composed and rendered.
//!
//! What comes in: a made-up control plane (100 workloads, 200 cluster types, 300 config containers, so
//! 20,000 assignments, almost every one with a separate config) with templates as Kalypso's users
//! write them. What goes out: the full render against a Go program that is given the composed configs
//! and executes the same templates (`tests/go-render`; same bytes or the benchmark fails); one changed
//! value against the full render; `check` and `schedule` with 30,000 sites against 300; the reader of plain
//! sites against the parser; peak memory; and the whole program, run again into the folder that it wrote.
//! Every ratio is of rounds that alternate, by the clock and in processor time. One part alone:
//! `cargo bench -p outhaul-bundler --bench render -- sites` (or `full`, `value`, `across`).
#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a helper of a test or benchmark that fails ends it"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;
use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::Snapshot;
use outhaul_control::diagnostic::SourceFile;
use outhaul_control::{ControlPlane, Diagnostics, kinds};
use outhaul_git::source::{Cache, SourceMap};
use outhaul_load::scheduler::Schedulers;
use outhaul_load::{LoadRequest, Origin};
use outhaul_plane::check;
use outhaul_plane::compose::{self, Composition, Mode};
use outhaul_plane::render::{self, Job, MemoryCache, RenderCache, Rendered, Rendering};
use outhaul_plane::schedule::{self, Schedule};
use serde_json::{Value, json};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

mod across;
mod measure;
mod plane;

use measure::{Took, least_and_median, mean, took};
use plane::{CLUSTER_TYPES, WORKLOADS, write_control_plane, write_sites};

const ROUNDS: usize = 5;
/// Sites of a large fleet.
const MANY_SITES: usize = 30_000;
/// Changes of one value in a round, so that their processor time can be measured.
const CHANGES: usize = 20;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_control_plane(at, 300);
    let mut names = std::env::args().skip(1);
    let only = names.find(|name| !name.starts_with('-'));
    let is_wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if is_wanted("full") {
        full(at, &Loaded::of(at));
    }
    if is_wanted("value") {
        one_value(Loaded::of(at));
    }
    if is_wanted("across") {
        across::across_runs(at);
    }
    if is_wanted("sites") {
        plain_sites(at);
        sites(at);
    }
}

struct Loaded {
    plane: ControlPlane,
    snapshot: Snapshot,
    schedule: Schedule,
}

impl Loaded {
    fn of(at: &Path) -> Self {
        let (plane, snapshot) = outhaul_load::load(&request(at)).unwrap();
        let schedule = schedule::schedule(&plane, &schedule::SchedulerAnswers::default());
        assert_eq!(schedule.assignments.len(), WORKLOADS * CLUSTER_TYPES);
        Self {
            plane,
            snapshot,
            schedule,
        }
    }

    /// Everything, from nothing.
    fn render(&self, memory: &mut MemoryCache) -> Rendered {
        let job = Job {
            plane: &self.plane,
            schedule: &self.schedule,
            snapshot: &self.snapshot,
            mode: Mode::default(),
            progress: &|_, _| (),
        };
        let rendered = render::render(job, RenderCache::Memory(memory));
        assert!(rendered.rendering.failures.is_empty());
        rendered
    }
}

fn request(at: &Path) -> LoadRequest {
    let app = format!("https://git.example.org/apps={}", at.join("apps").display());
    LoadRequest {
        environment: "prod".into(),
        from: Origin::Folders {
            environment_dir: at.join("env"),
            base_dir: Some(at.join("main")),
            base_commit: Some("0".repeat(40)),
        },
        sources: SourceMap::parse(&[app]).unwrap(),
        cache: Cache::at(at.join("cache")),
        schedulers: Schedulers::default(),
    }
}

/// The best of [`ROUNDS`].
fn best<T>(mut work: impl FnMut() -> T) -> (Duration, T) {
    let mut best: Option<(Duration, T)> = None;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let made = work();
        let took = start.elapsed();
        if best.as_ref().is_none_or(|(before, _)| took < *before) {
            best = Some((took, made));
        }
    }
    best.unwrap()
}

fn full(at: &Path, loaded: &Loaded) {
    let rendering = loaded.render(&mut MemoryCache::default()).rendering;
    memory();
    let composition = compose::compose(&loaded.plane, &loaded.schedule, Mode::default());
    let input = go_input(loaded, &composition);
    let file = at.join("go-input.json");
    fs::write(&file, serde_json::to_vec(&input).unwrap()).unwrap();
    drop(input);
    drop(composition);
    let program = built_go(at);
    let digest = digest(&rendering, loaded);
    drop(rendering);
    for (parse, what) in [
        ("once", "that parses every template once"),
        ("each", "that parses each time, as Kalypso does"),
    ] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mut memory = MemoryCache::default();
            let (time, rendering) = took(|| loaded.render(&mut memory));
            drop(rendering);
            ours.push(time);
            theirs.extend(
                program
                    .as_ref()
                    .map(|program| go(program, &file, parse, &digest)),
            );
        }
        let (least, median) = least_and_median(ours.iter().map(|one| one.wall));
        if parse == "once" {
            println!(
                "full: {} assignments composed and rendered in {:.0} ms (median {:.0} ms, {:.0} ms of {} \
                 processors)",
                loaded.schedule.assignments.len(),
                1000.0 * least,
                1000.0 * median,
                1000.0 * cpu(&ours),
                std::thread::available_parallelism().map_or(1, usize::from)
            );
        }
        if theirs.is_empty() {
            println!("full: SKIPPED against Go: `go build` failed");
            return;
        }
        let (go_least, go_median) = least_and_median(theirs.iter().map(|one| one.wall));
        println!(
            "full: {:.1} x as fast (median {:.1} x, in processor time {:.1} x) as a Go program {what} ({:.0} ms, \
             median {:.0} ms, {:.0} ms of processors, composing left out); aim 5",
            go_least / least,
            go_median / median,
            cpu(&theirs) / cpu(&ours),
            1000.0 * go_least,
            1000.0 * go_median,
            1000.0 * cpu(&theirs),
        );
    }
}

/// Processor seconds of one round.
fn cpu(rounds: &[Took]) -> f64 {
    mean(&rounds.iter().map(|one| one.cpu).collect::<Vec<_>>())
}

/// The Go program, when there is a Go.
fn built_go(at: &Path) -> Option<PathBuf> {
    let program = at.join("go-render");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/go-render"))
        .env("GOFLAGS", "-buildvcs=false")
        .status();
    built
        .is_ok_and(|status| status.success())
        .then_some(program)
}

/// Runs it once; it must write the same bytes.
fn go(program: &Path, input: &Path, parse: &str, digest: &str) -> Took {
    let output = Command::new(program)
        .arg(input)
        .arg(parse)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        printed["digest"].as_str().unwrap(),
        digest,
        "the same bytes"
    );
    Took {
        wall: printed["seconds"].as_f64().unwrap(),
        cpu: printed["cpu"].as_f64().unwrap(),
    }
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1000.0
}

const FILES: [&str; 3] = ["reconciler.yaml", "namespace.yaml", "platform-config.yaml"];

fn digest(rendering: &Rendering, loaded: &Loaded) -> String {
    let mut hasher = Hasher::new();
    for id in loaded.schedule.assignments.keys() {
        let one = &rendering.cluster_types[&id.cluster_type].assignments[&id.target];
        for name in FILES {
            let bytes = &one.files[name];
            hasher.update(format!("{}\n", bytes.len()).as_bytes());
            hasher.update(bytes);
        }
    }
    hasher.finish().0.hex()
}

/// Templates, composed configs as YAML, and assignments, in the order of the schedule.
fn go_input(loaded: &Loaded, composition: &Composition) -> Value {
    let plane = &loaded.plane;
    let templates: Value = plane
        .templates
        .values()
        .map(|template| {
            let texts: Vec<_> = template.manifests.iter().map(|m| &m.value).collect();
            (template.name.clone(), json!(texts))
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let mut configs = Vec::new();
    let mut assignments = Vec::new();
    for id in loaded.schedule.assignments.keys() {
        let target = &plane.targets[&id.target];
        let cluster_type = &plane.cluster_types[&id.cluster_type];
        configs.push(outhaul_gocompat::to_yaml(
            &composition.assignments[id].values,
        ));
        assignments.push(json!({
            "DeploymentTargetName": target.name,
            "Namespace": format!("prod-{}-{}", cluster_type.name, target.name),
            "Environment": "prod",
            "Workspace": target.workspace,
            "Workload": target.workload,
            "Labels": target.labels,
            "Manifests": target.manifests,
            "ClusterType": cluster_type.name,
            "Config": configs.len() - 1,
            "Templates": [cluster_type.reconciler.value, cluster_type.namespace_service.value,
                cluster_type.config_type.as_ref().unwrap().value],
        }));
    }
    json!({"Templates": templates, "Configs": configs, "Assignments": assignments})
}

fn memory() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .map_or("unknown", str::trim);
    println!("full: peak memory of the benchmark {peak}; aim 300 MB");
}

/// One value of one container changes, again and again, between full renders.
fn one_value(mut loaded: Loaded) {
    let mut memory = MemoryCache::default();
    loaded.render(&mut memory);
    for (container, what) in [
        ("line-007", "of one cluster type"),
        ("app-007", "of one workload"),
        ("region-7", "of one region"),
        ("all", "of all"),
    ] {
        let (mut full, mut changes) = (Vec::new(), Vec::new());
        let mut again = 0;
        for round in 0..ROUNDS {
            let mut fresh = MemoryCache::default();
            let (time, rendering) = took(|| loaded.render(&mut fresh));
            drop((rendering, fresh));
            full.push(time);
            let mut walls = Vec::new();
            let mut cpu = 0.0;
            for change in 0..CHANGES {
                let one = loaded.plane.configs.get_mut(container).unwrap();
                one.data.values_mut().next().unwrap().value = format!("changed {round} {change}");
                let (time, rendering) = took(|| loaded.render(&mut memory));
                again = rendering.rendered;
                walls.push(time.wall);
                cpu += time.cpu / CHANGES as f64;
                drop(rendering);
            }
            let wall = least_and_median(walls).1;
            changes.push(Took { wall, cpu });
        }
        let (least, median) = least_and_median(changes.iter().map(|one| one.wall));
        let (full_least, full_median) = least_and_median(full.iter().map(|one| one.wall));
        println!(
            "one value {what}: {again} assignments ({:.1} %) again in {:.1} ms (median {:.1} ms): {:.2} % of the \
             full render (median {:.2} %, in processor time {:.2} %); aim 2",
            100.0 * again as f64 / loaded.schedule.assignments.len() as f64,
            1000.0 * least,
            1000.0 * median,
            100.0 * least / full_least,
            100.0 * median / full_median,
            100.0 * cpu(&changes) / cpu(&full),
        );
    }
}

/// The same sites, by the reader of plain sites and by the parser alone: a comment behind the first `---` leaves
/// the whole file to the parser.
fn plain_sites(at: &Path) {
    write_sites(at, MANY_SITES);
    let plain = fs::read_to_string(at.join("env/sites.yaml")).unwrap();
    let commented = plain.replacen("---\n", "--- # the parser reads this\n", 1);
    assert_ne!(plain, commented);
    let read = |text: &str| {
        let name = "env/sites.yaml".to_owned();
        let text = text.to_owned();
        let file = Arc::new(SourceFile { name, text });
        let mut findings = Diagnostics::new();
        let (time, sites) = took(|| kinds::read_file(&file, &mut findings).len());
        assert_eq!((sites, findings.is_empty()), (MANY_SITES, true));
        time
    };
    let (mut ours, mut parsed) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(read(&plain));
        parsed.push(read(&commented));
    }
    let (least, median) = least_and_median(ours.iter().map(|one| one.wall));
    let (parsed_least, parsed_median) = least_and_median(parsed.iter().map(|one| one.wall));
    println!(
        "{MANY_SITES} sites read: {:.1} ms by the plain reader, {:.0} ms by the parser: {:.1} x as fast (median \
         {:.1} x)",
        1000.0 * least,
        1000.0 * parsed_least,
        parsed_least / least,
        parsed_median / median,
    );
}

/// `check` and `schedule`, as library calls: load, decide and for `check` check.
fn sites(at: &Path) {
    let mut few: Option<[f64; 2]> = None;
    for count in [300, MANY_SITES] {
        write_sites(at, count);
        let (schedule_time, schedule_len) = best(|| {
            let (plane, _) = outhaul_load::load_to_schedule(&request(at)).unwrap();
            schedule::schedule(&plane, &schedule::SchedulerAnswers::default())
                .assignments
                .len()
        });
        assert_eq!(schedule_len, WORKLOADS * CLUSTER_TYPES);
        let (check_time, ()) = best(|| {
            let (plane, snapshot) = outhaul_load::load(&request(at)).unwrap();
            let schedule = schedule::schedule(&plane, &schedule::SchedulerAnswers::default());
            let mode = Mode::default();
            let composition = compose::compose(&plane, &schedule, mode);
            let job = Job {
                plane: &plane,
                schedule: &schedule,
                snapshot: &snapshot,
                mode,
                progress: &|_, _| (),
            };
            let rendering = render::render(job, RenderCache::None).rendering;
            drop(check::check(
                &plane,
                &schedule,
                &composition,
                &rendering,
                mode,
            ));
        });
        println!(
            "{count} sites: schedule {:.0} ms, check {:.0} ms (library calls, load included)",
            ms(schedule_time),
            ms(check_time)
        );
        let now = [schedule_time.as_secs_f64(), check_time.as_secs_f64()];
        match few {
            None => few = Some(now),
            Some(few) => println!(
                "30000 sites against 300: schedule {:.2} x, check {:.2} x; aim 2",
                now[0] / few[0],
                now[1] / few[1]
            ),
        }
    }
}
