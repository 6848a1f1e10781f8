//! `outhaul publish`: a rendered environment, to where connected sites look for it.

use std::path::PathBuf;

use clap::Subcommand;
use outhaul_bundle::index::Snapshot;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::bundle::gate_passage;
use super::failure::{self, Failure};
use super::promote::OverrideArgs;
use super::render::{InputArgs, isolation_failure, isolation_json, whole_or_refused};
use super::{Exit, Format, print_json, say};
use outhaul_control::ControlPlane;
use outhaul_git::source::Reference;
use outhaul_git::store::StoreError;
use outhaul_load::pipeline::Platform;
use outhaul_load::since;
use outhaul_promote::record::Passage;
use outhaul_remote::forge::access::credential;
use outhaul_remote::forge::{self, Access, ForgeError, Kind};
use outhaul_remote::http::HttpError;
use outhaul_ship::branch::plan::{Changes, PlanError};
use outhaul_ship::branch::proposal::{Done, ProposeError, Proposed};
use outhaul_ship::branch::{self, Desired, PublishError, Repository, Said, Target};

/// Publish a rendered environment
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    to: To,
}

#[derive(Debug, Subcommand)]
enum To {
    /// Commit the rendered environment to a branch of a platform GitOps repository
    Git(Box<GitArgs>),
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        match self.to {
            To::Git(args) => args.run(),
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul publish git --environment dev --control-plane control-plane \
    --to https://git.factory.example/platform.git --branch dev\n\nFor people to look at first:\n  \
    outhaul publish git --environment dev --control-plane control-plane --pull-request --forge gitea \
    --token-file token"
)]
struct GitArgs {
    #[command(flatten)]
    input: InputArgs,
    /// The platform repository, instead of the one that the control plane's `GitOpsRepo` names
    #[arg(long, value_name = "URL|DIR")]
    to: Option<String>,
    /// The `GitOpsRepo` to publish to, when the control plane has several
    #[arg(long, value_name = "NAME", conflicts_with = "to")]
    gitops_repo: Option<String>,
    /// Its branch; without it what the `GitOpsRepo` says, or the environment's name
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// The folder below its root; without it what the `GitOpsRepo` says
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Take over the files that Kalypso wrote there
    #[arg(long)]
    adopt: bool,
    #[command(flatten)]
    past_gate: OverrideArgs,
    /// Publish nothing when one assignment is broken; without it that one stays as the branch has it
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    forge: ForgeArgs,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

/// Which forge, and with which token.
#[derive(Debug, clap::Args)]
struct ForgeArgs {
    /// Open a pull request into the branch, or update the one that is open, instead of pushing to it
    #[arg(long)]
    pull_request: bool,
    /// The forge: gitea (also for Forgejo), github or gitlab; without it by the repository's host
    #[arg(long, value_name = "KIND", requires = "pull_request")]
    forge: Option<Kind>,
    /// The forge's API, when it is not at the usual place of the repository's host
    #[arg(long, value_name = "URL", requires = "pull_request")]
    api: Option<String>,
    /// The project there, when it is not what the repository's URL says
    #[arg(long, value_name = "OWNER/NAME", requires = "pull_request")]
    project: Option<String>,
    /// The file with the token; without it `OUTHAUL_FORGE_TOKEN`, or systemd's credential `forge-token`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The certificate of the forge's authority, when it is a private one
    #[arg(long, value_name = "FILE", requires = "pull_request")]
    forge_ca: Option<PathBuf>,
}

impl GitArgs {
    fn run(&self) -> Result<Exit, Failure> {
        let token = self.forge.token()?;
        let platform = self.input.platform(None)?;
        whole_or_refused(&platform, self.strict)?;
        let passage = gate_passage(&self.input, &platform, self.past_gate.parse()?.as_ref())?;
        let overridden = match &passage {
            Passage::Override(given) => Some(given),
            _ => None,
        };
        if let Some(given) = overridden {
            let base: String = platform
                .rendering
                .snapshot
                .base
                .commit
                .chars()
                .take(12)
                .collect();
            say(&format!(
                "`{}` is at {base}, {given}",
                self.input.environment()
            ));
        }
        let named = self.target(&platform.control_plane)?;
        let reference = Reference::Branch(named.branch.clone());
        let url = branch::where_to(&named.url, &reference, self.to.is_some(), &platform.sources)
            .map_err(|error| publish_failure(error, &platform))?;
        let kind = self.forge.forge.or_else(|| Kind::of_host(&named.url));
        let credential = credential(&url, kind, token.as_ref());
        let target = Target {
            url,
            ..named.clone()
        };
        let failed = |error| publish_failure(error, &platform);
        let repository = Repository::open(target, &platform.cache, credential).map_err(failed)?;
        let tree = branch::tree(&platform).map_err(|findings| Failure::findings(&findings))?;
        let desired = Desired {
            overridden,
            ..Desired::of(&platform, &tree, self.adopt)
        };
        if !self.forge.pull_request {
            let done = repository.publish(&desired).map_err(failed)?;
            let commit = done.commit.as_deref();
            self.print(&named, &done.plan, commit, done.changed, None)?;
            return isolation_failure(&platform, &done.plan.isolation, 0);
        }
        let Some(kind) = kind else {
            return Err(Failure::say(
                failure::USAGE,
                format!("it is not known which forge `{}` is on", named.url),
            )
            .help("give `--forge gitea`, `--forge github` or `--forge gitlab`"));
        };
        let Some(token) = token else {
            return Err(
                Failure::say(failure::USAGE, "a pull request needs a token of the forge")
                    .help("give `--token-file FILE`, or set OUTHAUL_FORGE_TOKEN"),
            );
        };
        let forge = forge::connect(Access {
            kind,
            repository: &named.url,
            api: self.forge.api.as_deref(),
            project: self.forge.project.as_deref(),
            token,
            authority: self.forge.forge_ca.as_deref(),
        })
        .map_err(|error| forge_failure(&error, &error))?;
        let request = self.input.request()?;
        let mode = self.input.mode();
        let since = |before: &Snapshot| since::since(&platform, &request, mode, before);
        let done = repository
            .propose(&desired, forge.as_ref(), &since)
            .map_err(|error| propose_failure(error, &platform))?;
        let changed = matches!(done.done, Done::Opened | Done::Updated);
        let commit = done.commit.as_deref();
        self.print(&named, &done.plan, commit, changed, Some(&done))?;
        isolation_failure(&platform, &done.plan.isolation, 0)
    }

    /// Where the environment goes.
    fn target(&self, control_plane: &ControlPlane) -> Result<Target, Failure> {
        let environment = &control_plane.environment;
        let said = Said {
            to: self.to.as_deref(),
            gitops_repo: self.gitops_repo.as_deref(),
            branch: self.branch.as_deref(),
            path: self.path.as_deref(),
        };
        Target::of(control_plane, said).map_err(|known| {
            let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
            if known.is_empty() {
                Failure::say(
                    failure::USAGE,
                    format!("environment `{environment}` has no GitOpsRepo"),
                )
                .help("add one to its branch, or give `--to URL`")
            } else {
                let asked = match &self.gitops_repo {
                    Some(name) => format!("there is no GitOpsRepo `{name}`"),
                    None => format!("environment `{environment}` has several GitOpsRepos"),
                };
                Failure::say(failure::USAGE, asked)
                    .help(format!("give `--gitops-repo NAME`: {}", known.join(", ")))
            }
        })
    }

    fn print(
        &self,
        target: &Target,
        plan: &Changes,
        commit: Option<&str>,
        changed: bool,
        proposed: Option<&Proposed>,
    ) -> Result<(), Failure> {
        if self.output == Format::Json {
            return print_json(&report(target, plan, commit, changed, proposed)).map(drop);
        }
        for path in &plan.by_hand {
            say(&format!(
                "warning: `{path}` was changed by hand in the branch; it is as rendered again"
            ));
        }
        let place = format!("branch `{}` of {}", target.branch, target.url);
        let files = format!(
            "{} added, {} changed, {} removed, {} unchanged",
            plan.added.len(),
            plan.changed.len(),
            plan.removed.len(),
            plan.unchanged
        );
        say(&match (proposed, commit) {
            (None, Some(commit)) if changed => format!("{place}: {files}, commit {commit}"),
            (None, _) => format!("{place}: nothing changed, {} files", plan.unchanged),
            (Some(proposed), _) => request_line(&place, &files, proposed),
        });
        Ok(())
    }
}

fn request_line(place: &str, files: &str, proposed: &Proposed) -> String {
    let request = match &proposed.pull_request {
        Some(request) => format!("pull request #{} ({})", request.number, request.url),
        None => String::new(),
    };
    match proposed.done {
        Done::Opened => format!("{place}: {request} opened: {files}"),
        Done::Updated => format!("{place}: {request} updated: {files}"),
        Done::Closed => format!("{place}: nothing to propose any more; {request} closed"),
        Done::Nothing if proposed.commit.is_some() => {
            format!("{place}: {request} is open and up to date")
        }
        Done::Nothing => format!("{place}: nothing changed"),
    }
}

fn report(
    target: &Target,
    plan: &Changes,
    commit: Option<&str>,
    changed: bool,
    proposed: Option<&Proposed>,
) -> Value {
    let request = proposed.map(|proposed| {
        let open = proposed.pull_request.as_ref();
        json!({
            "branch": proposed.branch,
            "number": open.map(|request| request.number),
            "url": open.map(|request| &request.url),
            "done": match proposed.done {
                Done::Closed => "closed",
                Done::Nothing => "nothing",
                Done::Opened => "opened",
                Done::Updated => "updated",
            },
        })
    });
    let (kept, left_out) = isolation_json(&plan.isolation);
    json!({
        "kept": kept, "left_out": left_out,
        "repository": target.url, "branch": target.branch, "path": target.path,
        "changed": changed, "commit": commit, "promoted": plan.promoted,
        "files": {"added": plan.added, "changed": plan.changed, "removed": plan.removed,
            "by_hand": plan.by_hand, "unchanged": plan.unchanged},
        "pull_request": request,
    })
}

impl ForgeArgs {
    fn token(&self) -> Result<Option<Zeroizing<String>>, Failure> {
        let failed = |error: ForgeError| Failure::new(failure::USAGE, &error);
        if let Some(file) = &self.token_file {
            return forge::read_token(file).map(Some).map_err(failed);
        }
        forge::token_of_surroundings().map_err(failed)
    }
}

fn propose_failure(error: ProposeError<ForgeError>, platform: &Platform) -> Failure {
    match error {
        ProposeError::Publish(error) => publish_failure(error, platform),
        ProposeError::Forge { ref source, .. } => forge_failure(source, &error),
        ProposeError::NoBase { .. } => Failure::new(failure::USAGE, &error),
    }
}

fn forge_failure(cause: &ForgeError, error: &dyn std::error::Error) -> Failure {
    let code = match cause {
        ForgeError::NoProject { .. }
        | ForgeError::TokenFile { .. }
        | ForgeError::Token { .. }
        | ForgeError::Unknown { .. }
        | ForgeError::Http(HttpError::Plain { .. } | HttpError::Authority { .. }) => failure::USAGE,
        _ => failure::ENVIRONMENT,
    };
    Failure::new(code, error)
}

fn publish_failure(error: PublishError, platform: &Platform) -> Failure {
    let (code, help) = match &error {
        PublishError::Plan(PlanError::Removal(removal)) => {
            return Failure::explained(&removal.explain());
        }
        PublishError::Plan(PlanError::AllBroken) => {
            return Failure::broken(&platform.broken()).help(error.to_string());
        }
        PublishError::Source(source) if source.is_input() => (failure::USAGE, Some(source.help())),
        PublishError::Source(_) => (
            failure::ENVIRONMENT,
            Some("check the network and that you may push there; nothing was changed".to_owned()),
        ),
        PublishError::Plan(PlanError::Foreign { .. })
        | PublishError::Refused { .. }
        | PublishError::Taken { .. }
        | PublishError::Moved { .. } => (failure::REFUSED, None),
        PublishError::Plan(_)
        | PublishError::Store(StoreError::BadBranch { .. })
        | PublishError::CheckedOut { .. } => (failure::USAGE, None),
        _ => (failure::ENVIRONMENT, None),
    };
    let failure = Failure::new(code, &error);
    match help {
        Some(help) => failure.help(help),
        None => failure,
    }
}
