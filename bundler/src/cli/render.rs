//! `outhaul render`: an environment's platform, as files; and the input that other subcommands share.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::failure::{self, Failure};
use super::{Format, print_json, say};
use crate::compose::Mode;
use crate::control::{Cache, ControlPlane, LoadRequest, Origin, SourceMap};
use crate::output::{self, OutputError};
use crate::pipeline::{self, Platform};

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
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

/// Where a control plane is, and what stands for its repositories here.
#[derive(Debug, clap::Args)]
pub struct InputArgs {
    /// The environment
    #[arg(long, value_name = "NAME")]
    environment: String,
    /// The control plane's repository (URL or folder): its environments say which branches are whose
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
    /// The folder that stands for the base repository named `main`
    #[arg(long, value_name = "DIR", requires = "env_dir")]
    base_dir: Option<PathBuf>,
    /// The commit that the base folder is
    #[arg(long, value_name = "SHA", requires = "base_dir")]
    base_commit: Option<String>,
    /// A folder, working copy or mirror that stands for a repository; `URL#BRANCH=DIR` for one branch
    #[arg(long = "source", value_name = "URL=DIR")]
    sources: Vec<String>,
    /// Where other repositories are fetched to, instead of your own cache folder
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Reproduce Kalypso's bytes where they were a defect but no danger
    #[arg(long)]
    compat: bool,
}

impl InputArgs {
    /// What to load, and from where.
    ///
    /// # Errors
    /// [`Failure`] for a source that is no folder.
    pub fn request(&self) -> Result<LoadRequest, Failure> {
        let sources = SourceMap::parse(&self.sources).map_err(|error| {
            let help = error.help();
            Failure::new(failure::USAGE, &error).help(help)
        })?;
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
            environment: self.environment.clone(),
            from,
            sources,
            cache: self.cache.as_ref().map_or_else(Cache::of_user, Cache::at),
        })
    }

    /// Loads the control plane.
    ///
    /// # Errors
    /// [`Failure`] with every finding.
    pub fn load(
        &self,
    ) -> Result<(ControlPlane, outhaul_bundle::index::Snapshot, LoadRequest), Failure> {
        pipeline::load(&self.request()?, None)
            .map_err(|findings| Failure::findings(&findings).help("nothing was written"))
    }

    /// The same input, with every repository at the commit that `snapshot` names.
    ///
    /// # Errors
    /// [`Failure`] with every finding.
    pub fn render_at(
        &self,
        snapshot: &outhaul_bundle::index::Snapshot,
    ) -> Result<Platform, Failure> {
        self.render_pinned(Some(snapshot))
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

    /// Runs the stages from `load` to `render`. A broken assignment is an error here: what is sent or
    /// written is whole.
    ///
    /// # Errors
    /// [`Failure`] with every finding.
    pub fn render(&self) -> Result<Platform, Failure> {
        self.render_pinned(None)
    }

    fn render_pinned(
        &self,
        snapshot: Option<&outhaul_bundle::index::Snapshot>,
    ) -> Result<Platform, Failure> {
        let platform = pipeline::run(&self.request()?, self.mode(), snapshot)
            .map_err(|findings| Failure::findings(&findings).help("nothing was written"))?;
        let broken = platform.broken();
        if !broken.is_empty() {
            return Err(Failure::findings(&broken).help("nothing was written"));
        }
        let findings = &platform.control_plane.findings;
        if !findings.is_empty() {
            say(findings.render(false).trim_end());
        }
        Ok(platform)
    }
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let rendered = self.input.render()?;
        let rendering = &rendered.rendering;
        let tree = rendering.tree();
        let changes = output::write(&self.out, &tree, &rendering.snapshot).map_err(|error| {
            let code = match &error {
                OutputError::Foreign { .. } | OutputError::Record { .. } => failure::USAGE,
                _ => failure::ENVIRONMENT,
            };
            Failure::new(code, &error)
        })?;
        let assignments: usize = rendering
            .cluster_types
            .values()
            .map(|group| group.assignments.len())
            .sum();
        if self.output == Format::Json {
            return print_json(&json!({
                "environment": rendering.environment,
                "snapshot": rendering.snapshot,
                "cluster_types": rendering.cluster_types.len(),
                "assignments": assignments,
                "files": {"added": changes.added, "changed": changes.changed,
                    "removed": changes.removed, "unchanged": changes.unchanged,
                    "foreign": changes.foreign},
            }));
        }
        say(&format!(
            "{}: {assignments} assignments on {} cluster types, {} files in `{}` ({} added, {} changed, \
             {} removed) from snapshot {}",
            rendering.environment,
            rendering.cluster_types.len(),
            tree.len(),
            self.out.display(),
            changes.added,
            changes.changed,
            changes.removed,
            rendering.snapshot.digest.short()
        ));
        Ok(ExitCode::SUCCESS)
    }
}
