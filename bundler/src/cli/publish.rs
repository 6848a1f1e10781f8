//! `outhaul publish`: a rendered environment, or the bundles that were signed, to where connected sites look for them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Subcommand;
use serde_json::{Value, json};

use super::bundle::pass_gate;
use super::failure::Failure;
use super::promote::OverrideArgs;
use super::render::{InputArgs, isolation_failure, isolation_json, whole_or_refused};
use super::{Exit, Output, print_json, say};
use crate::publication::{self, Publication, PullRequestOptions};
use outhaul_remote::forge::{self, ForgeKind};
use outhaul_ship::branch::plan::CommitChanges;
use outhaul_ship::branch::proposal::{ProposalAction, Proposed};
use outhaul_ship::branch::{BranchTarget, TargetChoice};
use outhaul_ship::shown::Shown;

mod bundles;

/// Publish a rendered environment to a branch, or signed bundles to where sites pull them
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    to: To,
}

#[derive(Debug, Subcommand)]
enum To {
    /// Commit the rendered environment to a branch of a platform GitOps repository
    Git(Box<GitArgs>),
    /// Push the bundles that were signed last to an OCI registry, each as an artifact
    Oci(bundles::OciArgs),
    /// Upload the bundles that were signed last to S3-compatible storage, from where sites pull
    S3(bundles::S3Args),
    /// Write the bundles that were signed last into the folder of a web server, from where sites pull
    Web(bundles::WebArgs),
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        match self.to {
            To::Git(args) => args.run(),
            To::Oci(args) => args.run(),
            To::S3(args) => args.run(),
            To::Web(args) => args.run(),
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
    /// Its branch; default: the `GitOpsRepo`'s, or the environment's name
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// The folder below its root; default: the `GitOpsRepo`'s
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
    output: Output,
}

/// Which forge, and with which token.
#[derive(Debug, clap::Args)]
struct ForgeArgs {
    /// Open a pull request into the branch, or update the one that is open, instead of pushing to it
    #[arg(long)]
    pull_request: bool,
    /// The forge: gitea (also for Forgejo), github or gitlab; without it by the repository's host
    #[arg(long, value_name = "KIND", requires = "pull_request")]
    forge: Option<ForgeKind>,
    /// The forge's API, when it is not at the usual place of the repository's host
    #[arg(long, value_name = "URL", requires = "pull_request")]
    api: Option<String>,
    /// The project there, where it differs from the repository's URL
    #[arg(long, value_name = "OWNER/NAME", requires = "pull_request")]
    project: Option<String>,
    /// The file with the token; without it `OUTHAUL_FORGE_TOKEN`, or systemd's credential `forge-token`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The certificate of the forge's authority, when it is a private one
    #[arg(long, value_name = "FILE", requires = "pull_request", value_parser = crate::cli::registries::authority_file())]
    forge_ca: Option<PathBuf>,
}

impl GitArgs {
    fn run(&self) -> Result<Exit, Failure> {
        let token =
            forge::token(self.forge.token_file.as_deref()).map_err(|error| Failure::of(&error))?;
        let platform = self.input.platform(None)?;
        whole_or_refused(&platform, self.strict, self.to.as_deref())?;
        let given = self.past_gate.parse()?;
        let overridden = pass_gate(&self.input, &platform, None, given.as_ref())?;
        let publication = Publication {
            target: TargetChoice {
                to: self.to.as_deref(),
                gitops_repo: self.gitops_repo.as_deref(),
                branch: self.branch.as_deref(),
                path: self.path.as_deref(),
            },
            adopt: self.adopt,
            overridden: overridden.as_ref(),
            forge: self.forge.forge,
            token,
            pull_request: self.forge.pull_request.then_some(PullRequestOptions {
                api: self.forge.api.as_deref(),
                project: self.forge.project.as_deref(),
                authority: self.forge.forge_ca.as_deref(),
            }),
        };
        let done = publication::publish(&platform, &self.input.request()?, publication)
            .map_err(|error| Shown::from(&error))?;
        let commit = done.commit.as_deref();
        let proposed = done.proposed.as_ref();
        self.print(&done.target, &done.plan, commit, done.changed, proposed)?;
        let (isolation, nothing) = (&done.plan.isolation, BTreeSet::new());
        isolation_failure(&platform, isolation, (0, done.changed), &nothing)
    }

    fn print(
        &self,
        target: &BranchTarget,
        plan: &CommitChanges,
        commit: Option<&str>,
        changed: bool,
        proposed: Option<&Proposed>,
    ) -> Result<(), Failure> {
        if self.output == Output::Json {
            return print_json(&report(target, plan, commit, changed, proposed)).map(drop);
        }
        if let Some(warning) = plan.made_anew(&target.branch) {
            say(&warning);
        }
        for path in &plan.by_hand {
            say(&format!(
                "warning: `{path}` was edited directly in the branch; overwritten with the rendered version"
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
        ProposalAction::Opened => format!("{place}: {request} opened: {files}"),
        ProposalAction::Updated => format!("{place}: {request} updated: {files}"),
        ProposalAction::Closed => format!("{place}: nothing to propose any more; {request} closed"),
        ProposalAction::Nothing if proposed.commit.is_some() => {
            format!("{place}: {request} is open and up to date")
        }
        ProposalAction::Nothing => format!("{place}: nothing changed"),
    }
}

fn report(
    target: &BranchTarget,
    plan: &CommitChanges,
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
                ProposalAction::Closed => "closed",
                ProposalAction::Nothing => "nothing",
                ProposalAction::Opened => "opened",
                ProposalAction::Updated => "updated",
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
        "gone_from": plan.gone_from,
        "pull_request": request,
    })
}
