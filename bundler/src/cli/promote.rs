//! `outhaul promote`: the next environment's base commit, when the gate is open.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::failure::{self, Failure};
use super::sources::SourceArgs;
use super::{Format, print_json, say};
use crate::control::{Cache, SourceMap};
use crate::deliver::branch::BranchError;
use crate::promote::watch::{self, Event, Outcome, Watch};
use crate::promote::{self, Chain, Decision, GateError, Hub, PromoteError, Rule};

/// Move the next environment to a commit, when the gate of the one before is open
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul promote --control-plane control-plane --from dev --to stage \
    --hub https://hub.factory.example\n\nThe first environment has no gate before it:\n  \
    outhaul promote --control-plane control-plane --to dev\n\nThe whole chain, for as long as it runs:\n  \
    outhaul promote --control-plane control-plane --watch --first dev --hub https://hub.factory.example"
)]
pub struct Args {
    /// The control plane's repository (URL or folder)
    #[arg(long, value_name = "URL|DIR")]
    control_plane: String,
    /// The environment whose gate decides; without it `--to` is the first of the chain
    #[arg(long, value_name = "NAME", requires = "hub")]
    from: Option<String>,
    /// The environment to move
    #[arg(long, value_name = "NAME", required_unless_present = "watch")]
    to: Option<String>,
    /// Follow the whole chain, as the promotion policies of the control plane say, until it is stopped
    #[arg(long, conflicts_with_all = ["from", "to", "commit", "max_age_hours"])]
    watch: bool,
    /// With `--watch`: the environment that follows its base branch, without a gate
    #[arg(long, value_name = "NAME", requires = "watch")]
    first: Option<String>,
    /// With `--watch`: seconds between two looks; 0 looks until nothing moves any more, and ends
    #[arg(long, value_name = "SECONDS", requires = "watch", default_value_t = 60)]
    interval: u64,
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
    #[command(flatten)]
    sources: SourceArgs,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let (sources, cache) = self.sources.parse()?;
        if self.watch {
            return self.follow(sources, &cache);
        }
        let chain = Chain::open(&self.control_plane, sources, &cache).map_err(promote_failure)?;
        let name = self.to.as_deref().unwrap_or_default();
        let to = chain.link(name).map_err(promote_failure)?;
        let policy = chain
            .policy(self.from.as_deref(), name)
            .map_err(promote_failure)?;
        // The command line may be stricter than the policy, never looser.
        let rule = policy
            .map_or(Rule::default(), Rule::of)
            .no_older_than(self.max_age_hours);
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
                let hub = self.hub().unwrap_or(Hub {
                    url: "",
                    authority: None,
                });
                let decision = hub.ask(from, &commit, rule).map_err(gate_failure)?;
                if decision.verdict != "open" {
                    return self.closed(from, name, &commit, &decision);
                }
                (commit, Some(decision))
            }
        };
        promote::check_commit(&commit).map_err(gate_failure)?;
        if to.is_at(&commit) {
            say(&format!(
                "`{name}` is at {commit} already; nothing was changed"
            ));
            return self.print(name, &commit, None, decision.as_ref());
        }
        if self.from.is_none() {
            say(
                "note: no gate was asked, because no `--from` was given; right for the first environment only",
            );
        }
        let message = promote::message(self.from.as_deref(), name, &commit, decision.as_ref());
        let made = to.advance(&commit, &message).map_err(promote_failure)?;
        self.print(name, &commit, Some(&made), decision.as_ref())
    }

    fn hub(&self) -> Option<Hub<'_>> {
        self.hub.as_deref().map(|url| Hub {
            url,
            authority: self.hub_ca.as_deref(),
        })
    }

    /// Says each decision when it changes; outages are said and waited out.
    fn follow(&self, sources: SourceMap, cache: &Cache) -> Result<ExitCode, Failure> {
        let watch = Watch {
            control_plane: &self.control_plane,
            sources,
            cache,
            hub: self.hub(),
            first: self.first.as_deref(),
        };
        let mut said: BTreeMap<(Option<String>, String), Event> = BTreeMap::new();
        let mut trouble = None;
        loop {
            let events = match watch::pass(&watch) {
                Ok(events) => {
                    trouble = None;
                    events
                }
                Err(error) if self.interval == 0 => return Err(promote_failure(error)),
                Err(error) => {
                    let text = watch::told(&error);
                    if trouble.as_ref() != Some(&text) {
                        say(&format!("trying again in {} s: {text}", self.interval));
                    }
                    trouble = Some(text);
                    Vec::new()
                }
            };
            let moved = events
                .iter()
                .any(|event| matches!(event.outcome, Outcome::Moved(_)));
            let failed = events
                .iter()
                .any(|event| matches!(event.outcome, Outcome::Failed(_)));
            if events.is_empty() && trouble.is_none() {
                return Err(Failure::say(failure::USAGE, "there is nothing to follow").help(
                    "write PromotionPolicies in `.environments/` and give `--hub`, or give `--first NAME`",
                ));
            }
            for event in events {
                let key = (event.from.clone(), event.to.clone());
                if said.get(&key) != Some(&event) {
                    self.tell(&event)?;
                    said.insert(key, event);
                }
            }
            if self.interval == 0 && !moved {
                return Ok(ExitCode::from(if failed {
                    failure::ENVIRONMENT
                } else {
                    0
                }));
            }
            std::thread::sleep(Duration::from_secs(self.interval));
        }
    }

    fn tell(&self, event: &Event) -> Result<(), Failure> {
        if self.output == Format::Json {
            let line = serde_json::to_string(event)
                .map_err(|error| Failure::new(failure::INTERNAL, &error))?;
            super::data(&line);
        } else {
            say(&event.to_string());
        }
        Ok(())
    }

    fn closed(
        &self,
        from: &str,
        to: &str,
        commit: &str,
        decision: &Decision,
    ) -> Result<ExitCode, Failure> {
        if self.output == Format::Json {
            print_json(
                &json!({"promoted": false, "verdict": decision.verdict, "commit": commit,
                "reasons": decision.reasons}),
            )?;
        }
        let mut failure = Failure::say(
            failure::REFUSED,
            format!("the gate of `{from}` is closed for {commit}; `{to}` stays where it is"),
        );
        for reason in &decision.reasons {
            failure = failure.because(reason);
        }
        Err(failure.help("bring the missing reports home, or waive a site (`outhaul-hub waive`), and run it again"))
    }

    fn print(
        &self,
        to: &str,
        commit: &str,
        made: Option<&str>,
        decision: Option<&Decision>,
    ) -> Result<ExitCode, Failure> {
        if self.output == Format::Json {
            return print_json(&json!({
                "promoted": made.is_some(), "environment": to, "commit": commit,
                "environment_commit": made,
                "confirmed": decision.map(|decision| decision.confirmed),
                "counted": decision.map(|decision| decision.counted),
            }));
        }
        if let Some(made) = made {
            say(&format!(
                "`{to}` moved to {commit} (commit {made} on its branch)"
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn gate_failure(error: GateError) -> Failure {
    let code = match &error {
        GateError::NoCommit { .. } => failure::USAGE,
        _ => failure::ENVIRONMENT,
    };
    Failure::new(code, &error)
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
