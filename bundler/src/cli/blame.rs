//! `outhaul blame`: after which commit, value or act on site a site broke, and the commit taken back on a branch.

use std::fs;
use std::path::{Path, PathBuf};

use outhaul_bundle::hub_api::{SiteFault, SiteFaults};
use serde_json::{Value, json};

use super::failure::{self, Failure};
use super::render::InputArgs;
use super::{Exit, Output, data, print_json, say};
use outhaul_blame::chosen::{self, Offer};
use outhaul_blame::undo::{self, Undo, UndoRequest};
use outhaul_blame::{Blame, BlameRequest, text};
use outhaul_diff::Difference;
use outhaul_kit::console::progress::{Meter, Unit};
use outhaul_kit::durable;
use outhaul_kit::failure::Classified as _;
use outhaul_load::LoadRequest;
use outhaul_load::pipeline;
use outhaul_plane::render::RenderCache;
use outhaul_promote::HubConnection;
use outhaul_remote::forge::access::credential;
use outhaul_remote::forge::{self, ForgeKind};

/// Largest file of faults, in bytes.
const MAX_FAULTS: u64 = 64 << 20;

/// What to do about a file of faults that is none.
const WRITE_IT: &str = "write it with `outhaul-hub faults SITE --output json`, at the hub";

/// Show after which commit, value or act on site a site broke, and take the commit back on a branch
#[derive(Debug, clap::Args)]
#[command(
    after_help = "From what the site reported and the commits alone: what lies between the last report in which it was well and the \
    first in which it was not is rendered again, commit by commit, as far as needed. Nothing is changed without --undo, and \
    with it no branch that is there.\n\n\
    Examples:\n  outhaul blame edge-1 --control-plane control-plane --hub https://hub.factory.example\n  \
    outhaul blame edge-1 --control-plane control-plane --hub https://hub.factory.example --undo\n\n\
    Where the hub is on another network:\n  outhaul-hub faults edge-1 --state hub --output json > faults.json\n  \
    outhaul blame edge-1 --control-plane control-plane --faults faults.json"
)]
pub struct Args {
    /// The site
    site: String,
    #[command(flatten)]
    input: InputArgs,
    /// The hub that has the site's reports
    #[arg(long, value_name = "URL", value_parser = outhaul_remote::hub_url, required_unless_present = "faults")]
    hub: Option<String>,
    /// The certificate of the hub's authority, when it is a private one
    #[arg(long, value_name = "FILE", value_parser = crate::cli::registries::authority_file())]
    hub_ca: Option<PathBuf>,
    /// What `outhaul-hub faults SITE --output json` printed, instead of asking the hub
    #[arg(long, value_name = "FILE", conflicts_with = "hub")]
    faults: Option<PathBuf>,
    /// Take the likeliest commit back, on a new branch of its repository
    #[arg(long)]
    undo: bool,
    /// With --undo: this commit among those that are listed, instead of the likeliest
    #[arg(long, value_name = "ID", requires = "undo")]
    commit: Option<String>,
    /// With --undo: the new branch, instead of `undo-` and the commit's id
    #[arg(long, value_name = "NAME", requires = "undo")]
    undo_branch: Option<String>,
    /// With --undo: the file with the forge's token; without it `OUTHAUL_FORGE_TOKEN`
    #[arg(long, value_name = "FILE", requires = "undo")]
    token_file: Option<PathBuf>,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// An undo, and what it would change, or why that cannot be said.
struct Undone {
    undo: Undo,
    /// Whether it is of what is promoted: merging it alone changes no environment.
    is_base: bool,
    /// The assignments whose own files it changes.
    teams_files: Vec<String>,
    changes: Result<Difference, String>,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        let faults = self.faults()?;
        if faults.site != self.site {
            return Err(Failure::say(
                failure::USAGE,
                format!(
                    "the faults are those of site `{}`, not of `{}`",
                    faults.site, self.site
                ),
            )
            .help(WRITE_IT));
        }
        let named = self.input.environment();
        if !named.is_empty() && named != faults.environment {
            return Err(Failure::say(
                failure::USAGE,
                format!(
                    "site `{}` is of environment `{}`, not `{named}`",
                    faults.site, faults.environment
                ),
            )
            .help("leave `--environment` out"));
        }
        let load = self.input.request_for(&faults.environment)?;
        // What is mistyped is reported at once, and not as something that the site's commits lack.
        outhaul_load::environments(&load).map_err(|findings| Failure::findings(&findings))?;
        let meter = Meter::new("rendering older commits", Unit::Things("states"), None);
        let answers: Vec<(&SiteFault, Blame)> = faults
            .faults
            .iter()
            .map(|fault| (fault, self.blame(&load, &faults, fault, &meter)))
            .collect();
        drop(meter);
        let undone = match self.undo && chosen::complete(&answers).is_ok() {
            true => Some(self.take_back(&load, &faults, &answers)),
            false => None,
        };
        match self.output {
            Output::Json => {
                let undone = undone.as_ref().and_then(|undone| undone.as_ref().ok());
                print_json(&document(&faults, &answers, undone))?;
            }
            Output::Text => data(text::text(&faults, &answers).trim_end()),
        }
        // The answer is there also where nothing can be taken back.
        chosen::complete(&answers).map_err(|error| Failure::of(&error))?;
        let undone = undone
            .transpose()
            .map_err(|failure| failure.help("nothing was changed"))?;
        if self.output == Output::Text {
            match &undone {
                Some(undone) => say_undone(undone),
                None => say_next(&answers),
            }
        }
        Ok(Exit::SUCCESS)
    }

    fn faults(&self) -> Result<SiteFaults, Failure> {
        if let Some(path) = &self.faults {
            return read(path);
        }
        let hub = HubConnection {
            url: self.hub.as_deref().unwrap_or_default(),
            authority: self.hub_ca.as_deref(),
        };
        hub.faults(&self.site)
            .map_err(|error| Failure::new(error.class().code(), &error))
    }

    fn blame(
        &self,
        load: &LoadRequest,
        faults: &SiteFaults,
        fault: &SiteFault,
        progress: &Meter,
    ) -> Blame {
        let request = BlameRequest {
            site: &self.site,
            cluster_type: &faults.cluster_type,
            fault,
            load,
            mode: self.input.mode(),
            progress,
        };
        outhaul_blame::blame(&request)
    }

    fn take_back(
        &self,
        load: &LoadRequest,
        faults: &SiteFaults,
        answers: &[(&SiteFault, Blame)],
    ) -> Result<Undone, Failure> {
        let (fault, commit) =
            chosen::chosen(answers, self.commit.as_deref()).map_err(|error| Failure::of(&error))?;
        let branch = self.undo_branch.clone();
        let branch = branch.unwrap_or_else(|| commit.undo_branch());
        let token =
            forge::token(self.token_file.as_deref()).map_err(|error| Failure::of(&error))?;
        // The folders that the control plane's own URL stands for are found by loading it.
        let now = pipeline::run(load, self.input.mode(), None, RenderCache::None)
            .map_err(|findings| Failure::findings(&findings))?;
        let request = UndoRequest {
            commit,
            branch: &branch,
            message: &text::undo_message(faults, fault, commit),
            sources: &now.sources,
            cache: &now.cache,
            credential: credential(
                &commit.repo,
                ForgeKind::of_host(&commit.repo),
                token.as_ref(),
            ),
        };
        let undo = undo::undo(&request).map_err(|error| Failure::of(&error))?;
        let snapshot = &now.rendering.snapshot;
        let changes = undo::changes(load, self.input.mode(), snapshot, (commit, &undo));
        Ok(Undone {
            teams_files: undo::teams_files(&now, commit, &undo),
            is_base: undo::is_of_base(snapshot, commit),
            undo,
            changes,
        })
    }
}

fn say_next(answers: &[(&SiteFault, Blame)]) {
    match chosen::offer(answers) {
        Offer::Likeliest(commit, branch) => say(&format!(
            "next: run it again with `--undo` to write branch `{}` on top of `{branch}`, which reverts it; existing branches are not moved",
            commit.undo_branch()
        )),
        Offer::OneOfThem => say(
            "next: no commit is likelier than every other cause; `--undo --commit ID` takes one of them back",
        ),
        Offer::Nothing => {}
    }
}

/// What a hub printed, with or without the envelope of its output.
fn read(path: &Path) -> Result<SiteFaults, Failure> {
    let shown = path.display();
    // Only a file: a device has no end, and a pipe may have no other end.
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    if !is_file && path.exists() {
        return Err(
            Failure::say(failure::USAGE, format!("`{shown}` is not a file")).help(WRITE_IT),
        );
    }
    let bytes =
        durable::read(path, MAX_FAULTS).map_err(|error| Failure::file(&error).help(WRITE_IT))?;
    let parsed: Result<Value, _> = serde_json::from_slice(&bytes);
    let faults = parsed.and_then(|mut value| {
        let inner = value.get_mut("result").map(Value::take);
        serde_json::from_value(inner.unwrap_or(value))
    });
    faults.map_err(|error| {
        Failure::say(
            failure::USAGE,
            format!("`{shown}` does not hold a hub's answer about a site: {error}"),
        )
        .help(WRITE_IT)
    })
}

fn say_undone(undone: &Undone) {
    let undo = &undone.undo;
    say(&format!(
        "branch `{}` is written in `{}`: commit {} on top of `{}`, which is where it was",
        undo.branch,
        undo.place,
        undo.commit.get(..12).unwrap_or(&undo.commit),
        undo.onto
    ));
    if !undo.left.is_empty() {
        say(&format!(
            "not taken back, because they change nothing for the site: {}",
            undo.left.join(", ")
        ));
    }
    say(&format!("files that it changes: {}", undo.paths.join(", ")));
    if !undone.teams_files.is_empty() {
        say(&format!(
            "when it is merged, the workload's own files change for: {}",
            undone.teams_files.join(", ")
        ));
    }
    match &undone.changes {
        Ok(changes) if changes.is_empty() && !undone.teams_files.is_empty() => {
            say("no rendered file changes");
        }
        Ok(changes) => {
            say("changes of rendered files after the merge:");
            data(outhaul_diff::text::text(changes).trim_end());
        }
        Err(why) => say(&format!("what it changes is not known here: {why}")),
    }
    let promoted = match undone.is_base {
        true => ", promote its commit (`outhaul promote`)",
        false => "",
    };
    say(&format!(
        "next: look at the branch, merge it{promoted}, and make a new bundle"
    ));
}

fn document(
    faults: &SiteFaults,
    answers: &[(&SiteFault, Blame)],
    undone: Option<&Undone>,
) -> Value {
    let listed: Vec<Value> = answers
        .iter()
        .map(|(fault, blame)| json!({ "fault": fault, "blame": blame }))
        .collect();
    let undo = undone.map(|undone| {
        json!({
            "undo": undone.undo,
            "workload_files_of": undone.teams_files,
            "changes": undone.changes.as_ref().ok(),
            "changes_unknown": undone.changes.as_ref().err(),
        })
    });
    json!({
        "site": faults.site,
        "environment": faults.environment,
        "cluster_type": faults.cluster_type,
        "reports_read": faults.reports_read,
        "older_unread": faults.older_unread,
        "read_at": faults.read_at,
        "faults": listed,
        "undone": undo,
    })
}
