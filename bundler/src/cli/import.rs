//! `outhaul import kalypso`: what an existing Kalypso installation would become.

use std::path::PathBuf;

use super::failure::{self, Failure};
use super::sources::SourceArgs;
use super::{Exit, Output, data, print_json, say};
use outhaul_git::source::{self, Cache, SourceMap};
use outhaul_import::{
    self as import, ImportReport, Views, classify, history, platform_repository, report,
};
use outhaul_load::scheduler::Schedulers;
use outhaul_load::{LoadRequest, Origin};

/// Look at what another tool manages, before Outhaul takes it over
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, clap::Subcommand)]
enum From {
    /// Compare what Kalypso wrote with what Outhaul would write, and say why they differ
    Kalypso(Kalypso),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul import kalypso --control-plane https://git.factory.example/control-plane \\\n    \
    --gitops https://git.factory.example/platform\n\nFrom two folders, without history:\n  \
    outhaul import kalypso --environment dev --env-dir dev --base-dir main --base-commit $(git -C main rev-parse HEAD) --gitops platform\n\n\
    Exit code 0 when everything is equal or has a reason, 1 otherwise. Nothing is written."
)]
struct Kalypso {
    /// The control plane's repository (URL or folder)
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
    /// The platform repository that Kalypso writes to (URL or folder)
    #[arg(long, value_name = "URL|DIR")]
    gitops: String,
    /// Only this environment, instead of every one
    #[arg(long, value_name = "NAME", required_unless_present = "control_plane")]
    environment: Option<String>,
    /// The environment's own folder
    #[arg(long, value_name = "DIR")]
    env_dir: Option<PathBuf>,
    /// The folder with a local copy of the base repository named `main`
    #[arg(long, value_name = "DIR", requires = "env_dir")]
    base_dir: Option<PathBuf>,
    /// Commit of `--base-dir`
    #[arg(long, value_name = "SHA", requires = "base_dir", value_parser = super::sources::commit_id)]
    base_commit: Option<String>,
    #[command(flatten)]
    sources: SourceArgs,
    /// How many earlier commits are tried for what nothing else explains
    #[arg(long, value_name = "COMMITS", default_value_t = 100)]
    history: usize,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        let From::Kalypso(kalypso) = self.from;
        kalypso.run()
    }
}

impl Kalypso {
    fn run(self) -> Result<Exit, Failure> {
        let (mut sources, cache) = self.sources.parse()?;
        let environments = self.environments(&mut sources, &cache)?;
        let mut reports = Vec::new();
        for environment in environments {
            reports.push(self.examine(environment, &sources, &cache)?);
        }
        let code = if report::is_explained(&reports) {
            0
        } else {
            failure::REFUSED
        };
        if self.output == Output::Json {
            print_json(&report::json(&reports))?;
        } else {
            for line in report::text(&reports) {
                data(&line);
            }
        }
        Ok(Exit::from(code))
    }

    /// Which environments to look at. A local control plane is used for the URLs that name it.
    fn environments(&self, sources: &mut SourceMap, cache: &Cache) -> Result<Vec<String>, Failure> {
        let (Some(url), branch) = (&self.control_plane, self.control_plane_branch.as_deref())
        else {
            return Ok(self.environment.iter().cloned().collect());
        };
        let declared = platform_repository::environments(url, branch, sources, cache)
            .map_err(|error| Failure::of(&error))?;
        sources.insert_given(url);
        for (_, repo) in &declared {
            if let Some(folder) = source::local_folder(url) {
                sources.insert_default(repo, folder);
            }
        }
        let names: Vec<String> = match &self.environment {
            Some(name) => vec![name.clone()],
            None => declared.into_iter().map(|(name, _)| name).collect(),
        };
        if names.is_empty() {
            let message = format!("`{url}` declares no environment in `.environments`");
            return Err(Failure::say(failure::USAGE, message)
                .help("give `--control-plane-branch`, or `--env-dir` and `--environment`"));
        }
        Ok(names)
    }

    fn examine(
        &self,
        environment: String,
        sources: &SourceMap,
        cache: &Cache,
    ) -> Result<ImportReport, Failure> {
        let from = match (&self.control_plane, &self.env_dir) {
            (Some(url), _) => Origin::Repository {
                url: url.clone(),
                branch: self.control_plane_branch.clone(),
            },
            (None, folder) => Origin::Folders {
                environment_dir: folder.clone().unwrap_or_default(),
                base_dir: self.base_dir.clone(),
                base_commit: self.base_commit.clone(),
            },
        };
        let request = LoadRequest {
            environment,
            from,
            sources: sources.clone(),
            cache: cache.clone(),
            schedulers: Schedulers::default(),
        };
        let views = Views::of(&request)
            .map_err(|findings| Failure::findings(&findings).help("nothing was written"))?;
        let plane = &views.right.control_plane;
        if plane.gitops_repos.len() > 1 {
            let names: Vec<_> = plane.gitops_repos.keys().map(String::as_str).collect();
            say(&format!(
                "note: `{}` has {} GitOpsRepos ({}); one is looked at",
                plane.environment,
                names.len(),
                names.join(", ")
            ));
        }
        let branch = platform_repository::branch(plane, &self.gitops);
        let (place, there) =
            platform_repository::read(&self.gitops, branch.as_deref(), sources, cache)
                .map_err(|error| Failure::of(&error))?;
        let mut report = ImportReport {
            environment: plane.environment.clone(),
            platform: place,
            recorded: import::recorded(&there),
            pinned: plane.promoted_commit.clone(),
            folders: classify::classify(&there, &views),
        };
        let limits = history::HistoryLimits {
            commits: self.history,
        };
        if self.control_plane.is_some() {
            history::explain(&mut report, &there, &views.right, &request, limits);
        }
        Ok(report)
    }
}
