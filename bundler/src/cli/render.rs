//! `outhaul render`: an environment's platform, as files; and the input that other subcommands share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::failure::{self, Failure};
use super::sources::SourceArgs;
use super::{Exit, Output, data, print_json, say};
use outhaul_control::ControlPlane;
use outhaul_kit::format_count::{self, format_count};
use outhaul_kit::text;
use outhaul_load::pipeline::{self, Loaded, Platform};
use outhaul_load::scheduler::Schedulers;
use outhaul_load::{LoadRequest, Origin};
use outhaul_plane::compose::Mode;
use outhaul_plane::render::RenderCache;
use outhaul_record::isolation::{Isolation, Written};
use outhaul_ship::folder::{self, OutputError, WrittenRendering};
use outhaul_ship::outcome;

/// Render an environment into a folder
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul render --environment dev --control-plane control-plane \
    --source https://git.factory.example/label-printer=label-printer --out rendered\n\nFrom two folders:\n  \
    outhaul render --environment dev --env-dir dev --base-dir main --base-commit $(git -C main rev-parse HEAD) \
    --source https://git.factory.example/label-printer=label-printer --out rendered"
)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// The folder to write; what Outhaul did not write there stays
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "verify",
        conflicts_with = "verify"
    )]
    out: Option<PathBuf>,
    /// Render everything again, not only what changed since the last run into this folder
    #[arg(long, conflicts_with = "verify")]
    full: bool,
    /// Write nothing: render the commits again that this folder was rendered from, and compare
    #[arg(long, value_name = "DIR")]
    verify: Option<PathBuf>,
    /// Write nothing when one assignment is broken; without it that one stays as it last was
    #[arg(long, conflicts_with = "verify")]
    strict: bool,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// Where a control plane is, and the local folders of its repositories.
#[derive(Debug, clap::Args)]
pub struct InputArgs {
    /// The environment
    // Not required here: `check` looks at every one when none is named. The others ask for it.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    environment: String,
    /// The control plane's repository (URL or folder); branches are read from `.environments/`
    #[arg(
        long,
        value_name = "URL|DIR",
        conflicts_with = "env_dir",
        required_unless_present = "env_dir"
    )]
    control_plane: Option<String>,
    /// The branch with the environments, instead of `main`
    #[arg(long, value_name = "BRANCH", requires = "control_plane")]
    control_plane_branch: Option<String>,
    /// The environment's own folder
    #[arg(long, value_name = "DIR")]
    env_dir: Option<PathBuf>,
    /// The folder to use for the base repository named `main`
    #[arg(long, value_name = "DIR", requires = "env_dir")]
    base_dir: Option<PathBuf>,
    /// Commit of --base-dir
    #[arg(long, value_name = "SHA", requires = "base_dir", value_parser = super::sources::commit_id)]
    base_commit: Option<String>,
    #[command(flatten)]
    sources: SourceArgs,
    /// The program that chooses for policies with `scheduler: NAME` (JSON in, assignments out)
    #[arg(long = "scheduler", value_name = "NAME=PROGRAM")]
    schedulers: Vec<String>,
    /// Reproduce Kalypso's bytes where they were a harmless bug
    #[arg(long)]
    compat: bool,
}

impl InputArgs {
    /// What to load, and from where.
    ///
    /// # Errors
    /// [`Failure`] for a source that is not a folder.
    pub fn request(&self) -> Result<LoadRequest, Failure> {
        if self.environment.is_empty() {
            return Err(Failure::say(failure::USAGE, "no environment is named")
                .help("add `--environment NAME`"));
        }
        self.request_for(&self.environment)
    }

    /// The same for another environment.
    ///
    /// # Errors
    /// [`Failure`] for a source that is not a folder.
    pub fn request_for(&self, environment: &str) -> Result<LoadRequest, Failure> {
        let (sources, cache) = self.sources.parse()?;
        let from = match (&self.control_plane, &self.env_dir) {
            (Some(url), _) => Origin::Repository {
                url: url.clone(),
                branch: self.control_plane_branch.clone(),
            },
            (None, Some(folder)) => Origin::Folders {
                environment_dir: folder.clone(),
                base_dir: self.base_dir.clone(),
                base_commit: self.base_commit.clone(),
            },
            (None, None) => {
                return Err(Failure::say(failure::USAGE, "no control plane")
                    .help("give `--control-plane URL|DIR`, or `--env-dir DIR`"));
            }
        };
        Ok(LoadRequest {
            environment: environment.to_owned(),
            from,
            sources,
            cache,
            schedulers: Schedulers::parse(&self.schedulers).map_err(|error| Failure::of(&error))?,
        })
    }

    /// Loads the control plane.
    ///
    /// # Errors
    /// [`Failure`] with every finding.
    pub fn load(&self) -> Result<Loaded, Failure> {
        let loaded = pipeline::load(&self.request()?, None)
            .map_err(|findings| Failure::findings(&findings).help("nothing was written"))?;
        warn(&loaded.control_plane);
        warn_of_lost(&loaded.control_plane);
        Ok(loaded)
    }

    /// Loads the control plane to show what runs where; its sites are not needed for that.
    ///
    /// # Errors
    /// As [`InputArgs::load`].
    pub fn load_to_schedule(&self) -> Result<Loaded, Failure> {
        let loaded = pipeline::load_to_schedule(&self.request()?, None)
            .map_err(|findings| Failure::findings(&findings).help("nothing was written"))?;
        warn(&loaded.control_plane);
        warn_of_lost(&loaded.control_plane);
        Ok(loaded)
    }

    /// The environment that was asked for.
    pub fn environment(&self) -> &str {
        &self.environment
    }

    /// How to treat Kalypso's defects.
    pub fn mode(&self) -> Mode {
        Mode {
            compat: self.compat,
        }
    }

    /// Runs the stages from `load` to `render`, and says what is to be warned of. With `pins` every
    /// repository is read at the commit that they name.
    ///
    /// # Errors
    /// [`Failure`] with every finding, when the control plane cannot be read whole.
    pub fn platform(
        &self,
        pins: Option<&outhaul_bundle::index::Snapshot>,
    ) -> Result<Platform, Failure> {
        let failed = |findings| Failure::findings(&findings).help("nothing was written");
        let platform = pipeline::run(&self.request()?, self.mode(), pins, RenderCache::None)
            .map_err(failed)?;
        if pins.is_some() {
            // What is rendered again was whole.
            outhaul_load::without_lost(&platform.control_plane).map_err(failed)?;
        }
        warn(&platform.control_plane);
        Ok(platform)
    }
}

/// Says which workloads are missing because they cannot be read.
fn warn_of_lost(plane: &ControlPlane) {
    if !plane.lost.is_empty() {
        super::say_findings(&plane.lost_findings());
    }
}

/// Says what loading warned of.
fn warn(plane: &ControlPlane) {
    let findings = &plane.findings;
    if !findings.is_empty() {
        super::say_findings(findings);
    }
}

/// With `--strict` one broken assignment stops everything, and so does a local copy of a repository that has no effect; else that is
/// said. The command line names `also` besides.
pub(super) fn whole_or_refused(
    platform: &Platform,
    strict: bool,
    also: Option<&str>,
) -> Result<(), Failure> {
    let unused = outhaul_check::warned_or_refused(platform, also, strict)
        .map_err(|findings| Failure::broken(&findings).help("`--strict`: nothing was written"))?;
    if !unused.is_empty() {
        super::say_findings(&unused);
    }
    Ok(())
}

/// An output's error, for a person.
fn output_failure(error: &OutputError) -> Failure {
    match error {
        OutputError::Removal(removal) => Failure::explained(&removal.explain()),
        error => Failure::of(error),
    }
}

/// Success when nothing was broken; else every finding, and what became of the broken ones. `taken`
/// sound ones were not rendered; `is_new` is whether anything was written.
pub(super) fn isolation_failure(
    platform: &Platform,
    isolation: &Isolation<()>,
    (taken, is_new): (usize, bool),
    stalled: &BTreeSet<String>,
) -> Result<Exit, Failure> {
    let written = outcome::written(platform, isolation, taken, !stalled.is_empty());
    if written == Written::Everything {
        return Ok(Exit::SUCCESS);
    }
    let findings = outcome::findings(platform, isolation);
    let mut failure = Failure::broken(&findings);
    for line in isolation.lines() {
        failure = failure.because(&line);
    }
    if !stalled.is_empty() {
        let streams: Vec<String> = stalled.iter().map(|name| format!("`{name}`")).collect();
        failure = failure.because(&format!(
            "nothing was written for {}: its sites keep what they have until what is missing is available",
            streams.join(", ")
        ));
    }
    Err(match written {
        Written::Everything | Written::Rest => failure.help(match is_new {
            true => "everything else was written; `--strict` writes nothing then",
            false => "everything else is as it was before; `--strict` writes nothing then",
        }),
        Written::NoStream => failure
            .nothing_written(&findings)
            .help("no other stream was written"),
        Written::Nothing => failure.nothing_written(&findings).help(
            "nothing was written: every assignment is broken, and there is no last good output",
        ),
    })
}

/// What was kept and what was left out, for programs.
pub(super) fn isolation_json(isolation: &Isolation<()>) -> (Value, Value) {
    let kept = isolation.kept.iter();
    let kept: BTreeMap<_, _> = kept
        .map(|(id, (kept, ()))| (id.to_string(), kept))
        .collect();
    let left_out = isolation.left_out.iter();
    let left_out: BTreeMap<_, _> = left_out.map(|(id, why)| (id.to_string(), why)).collect();
    (json!(kept), json!(left_out))
}

/// Files of others that are listed one by one.
const MAX_FOREIGN: usize = 50;

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        match (&self.verify, &self.out) {
            (Some(folder), _) => self.verify(folder),
            (None, Some(folder)) if folder.is_file() => {
                let message = format!("`{}` is a file, not a folder", folder.display());
                Err(Failure::say(failure::USAGE, message).help("name another folder with `--out`"))
            }
            (None, Some(folder)) => self.render(folder),
            // clap asks for one of them.
            (None, None) => Err(Failure::say(failure::USAGE, "no folder: give `--out DIR`")),
        }
    }

    fn verify(&self, folder: &Path) -> Result<Exit, Failure> {
        let Some(record) = folder::record(folder).map_err(|error| output_failure(&error))? else {
            let message = format!("there is no record beside `{}`", folder.display());
            return Err(Failure::say(failure::USAGE, message).help(
                "`outhaul render --out DIR` writes `DIR.outhaul.json` beside the folder; copy both",
            ));
        };
        let platform = self.input.platform(Some(&record.snapshot))?;
        let found = outhaul_check::verify(folder, &record, &platform)
            .map_err(|error| output_failure(&error))?;
        let from = record.snapshot.digest.short();
        let code = match found.is_equal() {
            true => Exit::SUCCESS,
            false => Exit::from(failure::REFUSED),
        };
        if self.output == Output::Json {
            let equal = found.is_equal();
            print_json(&json!({"equal": equal, "snapshot": record.snapshot, "comparison": found}))?;
            return Ok(code);
        }
        for line in found.lines() {
            data(&line);
        }
        for (id, kept) in &found.kept {
            let from = kept.from.short();
            data(&format!(
                "kept: {id} is as snapshot {from} had it, and cannot be compared"
            ));
        }
        let verdict = match found.lines().len() {
            0 => "equal".to_owned(),
            count => format_count(count, "difference", "differences"),
        };
        for path in found.foreign.iter().take(MAX_FOREIGN) {
            data(&format!(
                "of others: `{}` is not rendered",
                text::printable(path)
            ));
        }
        if found.foreign.len() > MAX_FOREIGN {
            let more = found.foreign.len() - MAX_FOREIGN;
            data(&format!(
                "of others: {more} more; `--output json` lists them all"
            ));
        }
        let foreign = match found.foreign.len() {
            0 => String::new(),
            count => format!(
                "; {} of others, which is no difference",
                format_count(count, "file is", "files are")
            ),
        };
        say(&format!(
            "`{}` and what snapshot {from} renders to: {verdict} ({} files are the same{foreign})",
            folder.display(),
            found.equal
        ));
        Ok(code)
    }

    fn render(&self, folder: &Path) -> Result<Exit, Failure> {
        let request = self.input.request()?;
        outhaul_load::refuse_rendering(&request, folder).map_err(|error| Failure::of(&error))?;
        let mut before = folder::remembered(folder, &request.environment, self.full)
            .map_err(|error| output_failure(&error))?;
        let mut cache = std::mem::take(&mut before.cache);
        let mode = self.input.mode();
        let platform = pipeline::run(&request, mode, None, RenderCache::Disk(&mut cache))
            .map_err(|findings| Failure::findings(&findings).help("nothing was written"))?;
        warn(&platform.control_plane);
        whole_or_refused(&platform, self.strict, None)?;
        let (control_plane, rendering) = (&platform.control_plane, &platform.rendering);
        outhaul_load::refuse_rendered(&request, folder, rendering.cluster_types.keys())
            .map_err(|error| Failure::of(&error))?;
        let rest = folder::ReusedOutput {
            before: &before,
            reused: &platform.reused,
            cache,
        };
        let written =
            folder::write_rendering(folder, control_plane, rendering, rest).map_err(|error| {
                match &error {
                    OutputError::AllBroken => {
                        Failure::broken(&platform.broken()).help(error.to_string())
                    }
                    error => output_failure(error),
                }
            })?;
        let reused = platform.reused.len();
        self.print(folder, &platform, &written, reused)?;
        let changes = &written.changes;
        let is_new = changes.added + changes.changed + changes.removed > 0;
        let nothing = BTreeSet::new();
        isolation_failure(&platform, &written.isolation, (reused, is_new), &nothing)
    }

    fn print(
        &self,
        folder: &Path,
        platform: &Platform,
        written: &WrittenRendering,
        reused: usize,
    ) -> Result<(), Failure> {
        let rendering = &platform.rendering;
        let WrittenRendering {
            changes,
            files,
            assignments,
            isolation,
        } = written;
        if self.output == Output::Json {
            let (kept, left_out) = isolation_json(isolation);
            print_json(&json!({
                "environment": rendering.environment,
                "snapshot": rendering.snapshot,
                "cluster_types": rendering.cluster_types.len(),
                "assignments": assignments,
                "rendered": rendering.assignments().len(),
                "reused": reused,
                "files": {"added": changes.added, "changed": changes.changed,
                    "removed": changes.removed, "unchanged": changes.unchanged,
                    "foreign": changes.foreign},
                "kept": kept,
                "left_out": left_out,
            }))?;
            return Ok(());
        }
        let again = match reused {
            0 => String::new(),
            reused => format!(
                " ({} rendered, {reused} unchanged)",
                rendering.assignments().len()
            ),
        };
        say(&format!(
            "{}: {} on {}{again}, {} in `{}` ({} added, {} changed, {} removed) from snapshot {}",
            rendering.environment,
            format_count::assignments(*assignments),
            format_count(
                rendering.cluster_types.len(),
                "cluster type",
                "cluster types"
            ),
            format_count(*files, "file", "files"),
            folder.display(),
            changes.added,
            changes.changed,
            changes.removed,
            rendering.snapshot.digest.short()
        ));
        Ok(())
    }
}
