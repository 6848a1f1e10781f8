//! `outhaul promote`: the next environment's base commit, when the gate is open.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::failure::{self, Failure};
use super::{Format, print_json, say};
use crate::control::model::PromotionPolicy;
use crate::control::{Cache, SourceMap};
use crate::deliver::branch::BranchError;
use crate::http;
use crate::promote::{self, Chain, Decision, PromoteError};

/// Move the next environment to a commit, when the gate of the one before is open
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul promote --control-plane control-plane --from dev --to stage \
    --hub https://hub.factory.example\n\nThe first environment has no gate before it:\n  \
    outhaul promote --control-plane control-plane --to dev"
)]
pub struct Args {
    /// The control plane's repository (URL or folder)
    #[arg(long, value_name = "URL|DIR")]
    control_plane: String,
    /// The environment whose gate decides; without it `--to` is the first of the chain
    #[arg(long, value_name = "NAME", requires = "hub")]
    from: Option<String>,
    /// The environment to move
    #[arg(long, value_name = "NAME")]
    to: String,
    /// The commit, instead of what `--from` runs (or the base branch's newest, without `--from`)
    #[arg(long, value_name = "SHA")]
    commit: Option<String>,
    /// The hub that is asked
    #[arg(long, value_name = "URL")]
    hub: Option<String>,
    /// The certificate of the hub's authority, when it is a private one
    #[arg(long, value_name = "FILE")]
    hub_ca: Option<PathBuf>,
    /// The oldest report that counts, in hours
    #[arg(long, value_name = "HOURS")]
    max_age_hours: Option<u32>,
    /// A folder, working copy or mirror that stands for a repository
    #[arg(long = "source", value_name = "URL=DIR")]
    sources: Vec<String>,
    /// Where other repositories are fetched to, instead of your own cache folder
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let sources = SourceMap::parse(&self.sources).map_err(|error| {
            let help = error.help();
            Failure::new(failure::USAGE, &error).help(help)
        })?;
        let cache = self.cache.as_ref().map_or_else(Cache::of_user, Cache::at);
        let chain = Chain::open(&self.control_plane, sources, &cache).map_err(promote_failure)?;
        let to = chain.link(&self.to).map_err(promote_failure)?;
        let policy = chain
            .policy(self.from.as_deref(), &self.to)
            .map_err(promote_failure)?;
        let (commit, decision) = match &self.from {
            None => {
                let commit = match &self.commit {
                    Some(commit) => commit.clone(),
                    None => chain.newest(&to).map_err(promote_failure)?,
                };
                (commit, None)
            }
            Some(from) => {
                let commit = match &self.commit {
                    Some(commit) => commit.clone(),
                    None => {
                        let link = chain.link(from).map_err(promote_failure)?;
                        link.pinned().map_err(promote_failure)?.to_owned()
                    }
                };
                let decision = self.ask(from, &commit, policy)?;
                if decision.verdict != "open" {
                    return self.closed(from, &commit, &decision);
                }
                (commit, Some(decision))
            }
        };
        check_commit(&commit)?;
        if to.is_at(&commit) {
            say(&format!(
                "`{}` is at {commit} already; nothing was changed",
                self.to
            ));
            return self.print(&commit, None, decision.as_ref());
        }
        if self.from.is_none() {
            say(
                "note: no gate was asked, because no `--from` was given; right for the first environment only",
            );
        }
        let message = promote::message(self.from.as_deref(), &self.to, &commit, decision.as_ref());
        let made = to.advance(&commit, &message).map_err(promote_failure)?;
        self.print(&commit, Some(&made), decision.as_ref())
    }

    fn ask(
        &self,
        from: &str,
        commit: &str,
        policy: Option<&PromotionPolicy>,
    ) -> Result<Decision, Failure> {
        check_commit(commit)?;
        let hub = self
            .hub
            .as_deref()
            .unwrap_or_default()
            .trim_end_matches('/');
        let mut url = format!("{hub}/api/v1/gate?environment={from}&commit={commit}");
        // The command line may be stricter than the policy, never looser.
        let written = policy.and_then(|policy| policy.max_report_age_hours);
        if let Some(hours) = self.max_age_hours.into_iter().chain(written).min() {
            url = format!("{url}&max_age_hours={hours}");
        }
        if let Some(percent) = policy.and_then(|policy| policy.min_confirmed_percent) {
            url = format!("{url}&quorum_percent={percent}");
        }
        let bytes = http::fetch(&url, self.hub_ca.as_deref())
            .map_err(|error| Failure::new(failure::ENVIRONMENT, &error))?;
        serde_json::from_slice(&bytes).map_err(|error| {
            Failure::say(
                failure::ENVIRONMENT,
                format!("`{hub}` does not answer like a hub: {error}"),
            )
        })
    }

    fn closed(&self, from: &str, commit: &str, decision: &Decision) -> Result<ExitCode, Failure> {
        if self.output == Format::Json {
            print_json(
                &json!({"promoted": false, "verdict": decision.verdict, "commit": commit,
                "reasons": decision.reasons}),
            )?;
        }
        let mut failure = Failure::say(
            failure::REFUSED,
            format!(
                "the gate of `{from}` is closed for {commit}; `{}` stays where it is",
                self.to
            ),
        );
        for reason in &decision.reasons {
            failure = failure.because(reason);
        }
        Err(failure.help("bring the missing reports home, or waive a site (`outhaul-hub waive`), and run it again"))
    }

    fn print(
        &self,
        commit: &str,
        made: Option<&str>,
        decision: Option<&Decision>,
    ) -> Result<ExitCode, Failure> {
        if self.output == Format::Json {
            return print_json(&json!({
                "promoted": made.is_some(), "environment": self.to, "commit": commit,
                "environment_commit": made,
                "confirmed": decision.map(|decision| decision.confirmed),
                "counted": decision.map(|decision| decision.counted),
            }));
        }
        if let Some(made) = made {
            say(&format!(
                "`{}` moved to {commit} (commit {made} on its branch)",
                self.to
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A commit goes into a URL and into YAML: only a full id is taken.
fn check_commit(commit: &str) -> Result<(), Failure> {
    if crate::control::source::git::is_commit_id(commit) {
        return Ok(());
    }
    Err(Failure::say(
        failure::USAGE,
        format!("`{commit}` is not a full commit id"),
    )
    .help("give all 40 (or 64) hexadecimal digits: `git rev-parse HEAD`"))
}

fn promote_failure(error: PromoteError) -> Failure {
    let (code, help) = match &error {
        PromoteError::Findings(findings) => return Failure::findings(findings),
        PromoteError::Source(source) if source.is_input() => (failure::USAGE, Some(source.help())),
        PromoteError::Source(source) => (failure::ENVIRONMENT, Some(source.help())),
        PromoteError::NotFromThere { .. }
        | PromoteError::Branch {
            source: BranchError::Moved { .. },
            ..
        } => (failure::REFUSED, None),
        PromoteError::Branch {
            source: BranchError::Git { .. },
            ..
        } => (failure::ENVIRONMENT, None),
        _ => (failure::USAGE, None),
    };
    let failure = Failure::new(code, &error);
    match help {
        Some(help) => failure.help(help),
        None => failure,
    }
}
