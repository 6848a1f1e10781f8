//! `outhaul promote`: the next environment's base commit, when the gate is open.

use std::path::PathBuf;
use std::time::Duration;

use outhaul_bundle::hub_api::MAX_AGE_HOURS;
use outhaul_kit::console;
use serde_json::json;

use super::failure::{self, Failure};
use super::sources::SourceArgs;
use super::{Exit, Output, print_json, say};
use outhaul_control::overriding::Override;
use outhaul_git::source::{Cache, SourceMap};
use outhaul_kit::failure::Classified as _;
use outhaul_promote::hooks::{HookPrograms, HookRun};
use outhaul_promote::record::{self, Basis};
use outhaul_promote::watch::{self, Announced, StepEvent, StepOutcome, Watch};
use outhaul_promote::{Chain, Decision, HubConnection, PromoteError, Promoted, Promotion};

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
    /// With `--watch`: seconds between checks; 0 checks until nothing more can be promoted, and ends: with 0 also where a
    /// gate is closed, 3 where only servers could not be reached, otherwise 1 or 2
    #[arg(long, value_name = "SECONDS", requires = "watch", default_value_t = 60)]
    interval: u64,
    /// The commit (full id, branch or tag), instead of the one that the environment before is at, or of
    /// the base branch's newest for the first environment
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    /// Promote backwards: to a commit that is older than the one that is there or does not contain it, or from a later environment
    #[arg(long, conflicts_with = "watch")]
    backwards: bool,
    #[command(flatten)]
    past_gate: OverrideArgs,
    /// The hub that is asked; every environment but the first needs it
    #[arg(long, value_name = "URL", value_parser = outhaul_remote::hub_url)]
    hub: Option<String>,
    /// The certificate of the hub's authority, when it is a private one
    #[arg(long, value_name = "FILE", value_parser = crate::cli::registries::authority_file())]
    hub_ca: Option<PathBuf>,
    /// The program of a hook that a promotion policy names (JSON in, exit code 0 when it passed; may be given more than once)
    #[arg(long = "hook", value_name = "NAME=PROGRAM")]
    hooks: Vec<String>,
    /// The oldest report that counts, in hours
    #[arg(long, value_name = "HOURS", value_parser = hours())]
    max_age_hours: Option<u32>,
    #[command(flatten)]
    sources: SourceArgs,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// Who goes past a gate, and why.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct OverrideArgs {
    /// Override the gate before the environment, for this reason; it is recorded
    #[arg(long, value_name = "REASON", requires = "override_by")]
    override_gate: Option<String>,
    /// Who is responsible for the override
    #[arg(long, value_name = "NAME", requires = "override_gate")]
    override_by: Option<String>,
}

/// What `--max-age-hours` accepts: what the rules of a policy may say.
fn hours() -> clap::builder::RangedI64ValueParser<u32> {
    let (least, most) = MAX_AGE_HOURS.into_inner();
    clap::value_parser!(u32).range(i64::from(least)..=i64::from(most))
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

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        let (sources, cache) = self.sources.parse()?;
        let hooks = HookPrograms::parse(&self.hooks).map_err(|error| Failure::of(&error))?;
        if self.watch {
            return self.follow(sources, &cache, hooks);
        }
        let chain = Chain::open(&self.control_plane, sources, &cache).map_err(promote_failure)?;
        let to = self.to.as_deref().unwrap_or_default();
        for note in chain.hooks_of_other_steps(to, &hooks) {
            say(&format!("note: {note}"));
        }
        let asked = Promotion {
            to,
            from: self.from.as_deref(),
            commit: self.commit.as_deref(),
            past_gate: self.past_gate.parse()?,
            hub: self.hub(),
            max_age_hours: self.max_age_hours,
            backwards: self.backwards,
            hooks: &hooks,
        };
        match chain.promote(asked).map_err(promote_failure)? {
            Promoted::Moved {
                commit,
                made,
                basis,
                hooks,
            } => self.print(to, &commit, Some((&made, &hooks)), &basis),
            Promoted::Already { commit, basis } => {
                say(&format!(
                    "`{to}` is at {commit} already; nothing was changed"
                ));
                self.print(to, &commit, None, &basis)
            }
            Promoted::Closed {
                from,
                commit,
                decision,
            } => self.closed(&from, to, &commit, &decision),
        }
    }

    fn hub(&self) -> Option<HubConnection<'_>> {
        self.hub.as_deref().map(|url| HubConnection {
            url,
            authority: self.hub_ca.as_deref(),
        })
    }

    /// Says each decision when it changes; outages are said and waited out. A closed gate is an answer and no error:
    /// what was asked is that steps are made as far as the gates are open.
    fn follow(
        &self,
        sources: SourceMap,
        cache: &Cache,
        hooks: HookPrograms,
    ) -> Result<Exit, Failure> {
        let watch = Watch {
            control_plane: &self.control_plane,
            sources,
            cache,
            hub: self.hub(),
            first: self.first.as_deref(),
            hooks,
        };
        let mut announced = Announced::default();
        loop {
            let mut moved = false;
            let mut code = 0;
            match watch::pass(&watch) {
                Ok(pass) => {
                    let announcement = announced.announce(pass).ok_or_else(|| {
                        Failure::say(failure::USAGE, "there is nothing to follow").help(match self.hub {
                            Some(_) => "`.environments/` has no PromotionPolicy: write one for each step, or give `--first NAME`",
                            None => "write PromotionPolicies in `.environments/` and give `--hub`, or give `--first NAME`",
                        })
                    })?;
                    for note in &announcement.notes {
                        say(&format!("note: {note}"));
                    }
                    for event in &announcement.events {
                        self.print_event(event)?;
                    }
                    (moved, code) = (announcement.moved, announcement.code);
                }
                Err(error) if self.interval == 0 => return Err(promote_failure(error)),
                Err(error) => {
                    if let Some(text) = announced.problem(&error) {
                        say(&format!("trying again in {} s: {text}", self.interval));
                        if self.output == Output::Json {
                            let text = format!("error: {text}");
                            console::event(serde_json::Value::Null, error.class().code(), &text);
                        }
                    }
                }
            }
            if self.interval == 0 && !moved {
                return Ok(Exit::from(code));
            }
            std::thread::sleep(Duration::from_secs(self.interval));
        }
    }

    fn print_event(&self, event: &StepEvent) -> Result<(), Failure> {
        if self.output == Output::Json {
            let value = serde_json::to_value(event)
                .map_err(|error| Failure::new(failure::INTERNAL, &error))?;
            let errors = match &event.outcome {
                StepOutcome::Failed(problem) => {
                    format!("error: `{}` stays: {}", event.to, problem.text)
                }
                StepOutcome::Moved(moved) => watch::failures(&moved.hooks)
                    .iter()
                    .map(|text| format!("error: `{}` was moved, and then: {text}", event.to))
                    .collect::<Vec<_>>()
                    .join("\n"),
                _ => String::new(),
            };
            console::event(value, event.code(), &errors);
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
        if self.output == Output::Json {
            print_json(
                &json!({"promoted": false, "verdict": decision.verdict, "commit": commit,
                "reasons": decision.reasons, "notes": decision.notes, "rules": decision.rules}),
            )?;
        }
        print_notes(decision);
        let mut failure = Failure::say(
            failure::REFUSED,
            format!("the gate of `{from}` is closed for {commit}; `{to}` stays where it is"),
        );
        for reason in &decision.reasons {
            failure = failure.because(reason);
        }
        let ways = outhaul_promote::ways_to_open(from, commit, decision);
        Err(ways.into_iter().fold(failure, Failure::help))
    }

    fn print(
        &self,
        to: &str,
        commit: &str,
        moved: Option<(&str, &[HookRun])>,
        basis: &Basis,
    ) -> Result<Exit, Failure> {
        let (made, hooks) = moved.unzip();
        let hooks = hooks.unwrap_or_default();
        if self.output == Output::Json {
            let decision = match basis {
                Basis::Open { decision, .. } => Some(decision),
                _ => None,
            };
            print_json(&json!({
                "promoted": made.is_some(), "environment": to, "commit": commit,
                "environment_commit": made,
                "gate": match basis {
                    Basis::First => json!({"verdict": "first"}),
                    Basis::Open { from, .. } => json!({"verdict": "open", "environment": from}),
                    Basis::Override(given) => json!({"verdict": "overridden", "by": given.by, "reason": given.reason}),
                },
                "rules": decision.map(|decision| &decision.rules),
                "notes": decision.map(|decision| &decision.notes),
                "confirmed": decision.map(|decision| decision.confirmed),
                "counted": decision.map(|decision| decision.counted),
                "hooks": hooks,
            }))?;
            return self.after(to, hooks);
        }
        if let Some(made) = made {
            say(&format!(
                "`{to}` moved to {commit} (commit {made} on its branch)"
            ));
            if let Basis::Override(given) = basis {
                say(&format!("recorded in that commit: {given}"));
            }
        }
        if let Basis::Open { decision, .. } = basis {
            print_notes(decision);
        }
        for hook in hooks {
            say(&hook.sentence());
        }
        self.after(to, hooks)
    }

    /// Fails when a hook failed after the environment was moved.
    fn after(&self, to: &str, hooks: &[HookRun]) -> Result<Exit, Failure> {
        let failed = watch::failures(hooks);
        if failed.is_empty() {
            return Ok(Exit::SUCCESS);
        }
        let text = format!("`{to}` was moved, and then a hook failed");
        let mut failure = Failure::say(failure::REFUSED, text);
        for sentence in &failed {
            failure = failure.because(sentence);
        }
        Err(failure.help(
            "the promotion holds; do what the hook is for by hand, or promote another commit",
        ))
    }
}

/// What did not close the gate but should be known.
fn print_notes(decision: &Decision) {
    for note in record::notes(decision) {
        say(&format!("note: {note}"));
    }
}

pub(super) fn promote_failure(error: PromoteError) -> Failure {
    match &error {
        PromoteError::Candidate { findings, .. } | PromoteError::Broken { findings, .. } => {
            Failure::classed(findings, &error)
                .and(&error)
                .help(error.help().unwrap_or_default())
        }
        PromoteError::Findings(findings) => Failure::findings(findings),
        _ => Failure::of(&error),
    }
}
