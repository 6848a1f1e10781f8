//! `outhaul promote`: the next environment's base commit, when the gate is open.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use outhaul_kit::console;
use serde_json::json;

use super::failure::{self, Failure};
use super::sources::SourceArgs;
use super::{Exit, Format, print_json, say};
use outhaul_git::branch::BranchError;
use outhaul_git::source::{Cache, SourceMap};
use outhaul_promote::order::Before;
use outhaul_promote::record::{self, Grounds};
use outhaul_promote::watch::{self, Event, Outcome, Watch};
use outhaul_promote::{Chain, Decision, GateError, Hub, Link, PromoteError, Rule, Verdict};
use outhaul_ship::overriding::Override;

/// Move the next environment to a commit, when the gate of the one before is open
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul promote --control-plane control-plane --to stage \
    --hub https://hub.factory.example\n\nThe first environment has no gate before it:\n  \
    outhaul promote --control-plane control-plane --to dev\n\nPast a closed gate, on record:\n  \
    outhaul promote --control-plane control-plane --to stage --override-gate 'line 3 stands still' \
    --override-by 'Jo Park'\n\nThe whole chain, for as long as it runs:\n  \
    outhaul promote --control-plane control-plane --watch --first dev --hub https://hub.factory.example"
)]
pub struct Args {
    /// The control plane's repository (URL or folder)
    #[arg(long, value_name = "URL|DIR")]
    control_plane: String,
    /// The environment whose gate decides, where several come before `--to`
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// The environment to move
    #[arg(long, value_name = "NAME", required_unless_present = "watch")]
    to: Option<String>,
    /// Follow the whole chain, as the promotion policies of the control plane say, until it is stopped
    #[arg(long, conflicts_with_all = ["from", "to", "commit", "max_age_hours"])]
    watch: bool,
    /// With `--watch`: the first environment, which follows its base branch
    #[arg(long, value_name = "NAME", requires = "watch")]
    first: Option<String>,
    /// With `--watch`: seconds between two looks; 0 looks until nothing moves any more, and ends
    #[arg(long, value_name = "SECONDS", requires = "watch", default_value_t = 60)]
    interval: u64,
    /// The commit (full id, branch or tag), instead of the one that the environment before is at, or of
    /// the base branch's newest for the first environment
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    #[command(flatten)]
    past_gate: OverrideArgs,
    /// The hub that is asked; every environment but the first needs it
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

/// Who goes past a gate, and why.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct OverrideArgs {
    /// Go past the gate before the environment, for this reason; it is kept as evidence
    #[arg(long, value_name = "REASON", requires = "override_by")]
    override_gate: Option<String>,
    /// Who takes that upon them
    #[arg(long, value_name = "NAME", requires = "override_gate")]
    override_by: Option<String>,
}

impl OverrideArgs {
    /// The override, when one was given.
    pub(super) fn parse(&self) -> Result<Option<Override>, Failure> {
        let (Some(reason), Some(by)) = (&self.override_gate, &self.override_by) else {
            return Ok(None);
        };
        let given = Override::new(by, reason);
        given
            .map(Some)
            .map_err(|error| Failure::new(failure::USAGE, &error))
    }
}

/// What the move rests on, as it was found.
enum Found {
    First,
    Open(String, Decision),
    Override(Override),
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        let (sources, cache) = self.sources.parse()?;
        if self.watch {
            return self.follow(sources, &cache);
        }
        let chain = Chain::open(&self.control_plane, sources, &cache).map_err(promote_failure)?;
        let name = self.to.as_deref().unwrap_or_default();
        let to = chain.link(name).map_err(promote_failure)?;
        let given = self.past_gate.parse()?;
        let from = match (&given, chain.before(name)) {
            (Some(_), Before::First) => {
                let message =
                    format!("`{name}` is the first environment: there is no gate to go past");
                return Err(Failure::say(failure::USAGE, message)
                    .help("leave out `--override-gate` and `--override-by`; nothing was changed"));
            }
            // Past the gate also goes what the chain does not know.
            (Some(_), _) if self.from.is_some() || self.commit.is_some() => self.from.clone(),
            _ => chain
                .gate_before(name, self.from.as_deref())
                .map_err(promote_failure)?,
        };
        let commit = self.candidate(&chain, &to, from.as_deref())?;
        let found = match (given, from) {
            (Some(given), _) => Found::Override(given),
            (None, None) => Found::First,
            (None, Some(from)) => {
                let decision = self.ask(&chain, &from, name, &commit)?;
                if decision.verdict != Verdict::Open {
                    return self.closed(&from, name, &commit, &decision);
                }
                Found::Open(from, decision)
            }
        };
        if to.is_at(&commit) {
            let recorded = matches!(found, Found::First)
                || chain
                    .passage(&to, &commit)
                    .map_err(promote_failure)?
                    .is_some();
            if recorded {
                say(&format!(
                    "`{name}` is at {commit} already; nothing was changed"
                ));
                return self.print(name, &commit, None, &found);
            }
        }
        chain.check(&to, &commit).map_err(promote_failure)?;
        let grounds = match &found {
            Found::First => Grounds::First,
            Found::Open(from, decision) => Grounds::Open(from, decision),
            Found::Override(given) => Grounds::Override(given),
        };
        let message = record::message(name, &commit, grounds);
        let made = to.advance(&commit, &message).map_err(promote_failure)?;
        self.print(name, &commit, Some(&made), &found)
    }

    /// The commit that is to be promoted: one that exists.
    fn candidate(
        &self,
        chain: &Chain<'_>,
        to: &Link,
        from: Option<&str>,
    ) -> Result<String, Failure> {
        let text = match (&self.commit, from) {
            (Some(commit), _) => commit.clone(),
            (None, None) => return chain.newest(to).map_err(promote_failure),
            (None, Some(from)) => {
                let link = chain.link(from).map_err(promote_failure)?;
                link.pinned().map_err(promote_failure)?.to_owned()
            }
        };
        chain.resolve(to, &text).map_err(promote_failure)
    }

    /// What the hub decides.
    fn ask(
        &self,
        chain: &Chain<'_>,
        from: &str,
        to: &str,
        commit: &str,
    ) -> Result<Decision, Failure> {
        let Some(hub) = self.hub() else {
            let message = format!(
                "the gate of `{from}` decides whether `{to}` moves, and no hub was named to ask; `{to}` stays where it is"
            );
            return Err(Failure::say(failure::REFUSED, message).help(
                "give `--hub URL`, or go past the gate with `--override-gate REASON --override-by NAME`, which is \
                 recorded in the commit; nothing was changed",
            ));
        };
        // The command line may be stricter than the policy, never looser.
        let rule = chain
            .policy(from, to)
            .map_or(Rule::default(), Rule::of)
            .no_older_than(self.max_age_hours);
        hub.ask(from, commit, rule).map_err(gate_failure)
    }

    fn hub(&self) -> Option<Hub<'_>> {
        self.hub.as_deref().map(|url| Hub {
            url,
            authority: self.hub_ca.as_deref(),
        })
    }

    /// Says each decision when it changes; outages are said and waited out.
    fn follow(&self, sources: SourceMap, cache: &Cache) -> Result<Exit, Failure> {
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
                return Ok(Exit::from(if failed { failure::ENVIRONMENT } else { 0 }));
            }
            std::thread::sleep(Duration::from_secs(self.interval));
        }
    }

    fn tell(&self, event: &Event) -> Result<(), Failure> {
        if self.output == Format::Json {
            let value = serde_json::to_value(event)
                .map_err(|error| Failure::new(failure::INTERNAL, &error))?;
            console::event(value);
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
    ) -> Result<Exit, Failure> {
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
        Err(failure.help(
            "import the missing reports, or waive a site (`outhaul-hub waive`), and run it again",
        ))
    }

    fn print(
        &self,
        to: &str,
        commit: &str,
        made: Option<&str>,
        found: &Found,
    ) -> Result<Exit, Failure> {
        if self.output == Format::Json {
            let decision = match found {
                Found::Open(_, decision) => Some(decision),
                _ => None,
            };
            return print_json(&json!({
                "promoted": made.is_some(), "environment": to, "commit": commit,
                "environment_commit": made,
                "gate": match found {
                    Found::First => json!({"verdict": "first"}),
                    Found::Open(from, _) => json!({"verdict": "open", "environment": from}),
                    Found::Override(given) => json!({"verdict": "overridden", "by": given.by, "reason": given.reason}),
                },
                "confirmed": decision.map(|decision| decision.confirmed),
                "counted": decision.map(|decision| decision.counted),
            }));
        }
        if let Some(made) = made {
            say(&format!(
                "`{to}` moved to {commit} (commit {made} on its branch)"
            ));
            if let Found::Override(given) = found {
                say(&format!("recorded in that commit: {given}"));
            }
        }
        Ok(Exit::SUCCESS)
    }
}

fn gate_failure(error: GateError) -> Failure {
    let code = match &error {
        GateError::NoCommit { .. } => failure::USAGE,
        _ => failure::ENVIRONMENT,
    };
    Failure::new(code, &error)
}

pub(super) fn promote_failure(error: PromoteError) -> Failure {
    let (code, help) = match &error {
        PromoteError::Candidate { findings, .. } => {
            let told = match findings.exit_code() {
                failure::ENVIRONMENT => Failure::findings(findings),
                _ => Failure::broken(findings),
            };
            return told.and(&error).help(
                "mend it and promote the commit that mends it; a repository that this machine cannot reach is \
                 mapped with `--source URL=DIR`",
            );
        }
        PromoteError::Findings(findings) => return Failure::findings(findings),
        PromoteError::Source(source) if source.is_input() => (failure::USAGE, Some(source.help())),
        PromoteError::Source(source) => (failure::ENVIRONMENT, Some(source.help())),
        PromoteError::NotFromThere { .. }
        | PromoteError::NotFirst { .. }
        | PromoteError::NoOrder { .. }
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
