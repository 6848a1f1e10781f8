//! `outhaul diff`: what a change of the control plane does, before anybody merges it.

use std::path::PathBuf;

use clap::ValueEnum;
use outhaul_kit::console::options::is_coloured_out;
use outhaul_kit::console::{self, paint};
use serde_json::json;

use super::failure::{self, Failure};
use super::sources::SourceArgs;
use super::{Exit, data, print_json, say};
use outhaul_diff::Difference;
use outhaul_git::terminal;
use outhaul_kit::failure::Classified as _;
use outhaul_load::scheduler::Schedulers;
use outhaul_load::sides::{self, DiffError, DiffRequest, side};
use outhaul_plane::compose::Mode;
use outhaul_ship::folder::RenderedBefore;

/// Show what a change does: assignments, values, files and sites
#[derive(Debug, clap::Args)]
#[command(
    after_help = "BEFORE and AFTER are two revisions of the control plane (branches, tags, commits): of the branch \
    with the environments, or of one environment's branch. Without --control-plane they are two folders: control \
    planes, an environment's own folders, or rendered platforms.\n\n\
    Exit code 0 when nothing differs, 1 when something does, 2 when a side cannot be loaded.\n\n\
    Examples:\n  outhaul diff dev my-change --control-plane control-plane\n  \
    outhaul diff origin/main HEAD --control-plane . --output markdown > comment.md\n  \
    outhaul diff --working-copy --control-plane .\n  \
    outhaul diff rendered-before rendered-after"
)]
pub struct Args {
    /// The side before: a revision or a folder; with --working-copy `HEAD` when it is left out
    #[arg(required_unless_present = "working_copy")]
    before: Option<String>,
    /// The side after: a revision or a folder
    #[arg(
        required_unless_present = "working_copy",
        conflicts_with = "working_copy"
    )]
    after: Option<String>,
    /// Instead of AFTER: the control plane's working copy, with edits that are not committed
    #[arg(long, requires = "control_plane")]
    working_copy: bool,
    /// The control plane's repository (URL or folder)
    #[arg(long, value_name = "URL|DIR")]
    control_plane: Option<String>,
    /// The branch with the environments, instead of `main`
    #[arg(long, value_name = "BRANCH", requires = "control_plane")]
    control_plane_branch: Option<String>,
    /// Only this environment (may be given more than once)
    #[arg(long, value_name = "NAME")]
    environment: Vec<String>,
    /// For an environment's own folders: a local copy of the base repository `main`, for both or one each
    #[arg(long, value_name = "DIR", num_args = 1..=2)]
    base_dir: Vec<PathBuf>,
    /// Commits of --base-dir
    #[arg(long, value_name = "SHA", num_args = 1..=2, requires = "base_dir", value_parser = super::sources::commit_id)]
    base_commit: Vec<String>,
    #[command(flatten)]
    sources: SourceArgs,
    /// The program that chooses for policies with `scheduler: NAME` (JSON in, assignments out)
    #[arg(long = "scheduler", value_name = "NAME=PROGRAM")]
    schedulers: Vec<String>,
    /// Reproduce Kalypso's bytes where they were a harmless bug
    #[arg(long)]
    compat: bool,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: DiffFormat,
}

/// How a difference is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum DiffFormat {
    /// One JSON document, with everything.
    Json,
    /// For a pull request.
    Markdown,
    /// For people.
    #[default]
    Text,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        let output = self.output;
        let pairs = sides::load(&self.question()?, &RenderedBefore).map_err(failed)?;
        let [before, after] = self.words();
        let words = match self.working_copy {
            true => [before.as_str(), "working copy"],
            false => [before.as_str(), after.as_str()],
        };
        let differences: Vec<Difference> = pairs
            .iter()
            .map(|pair| {
                let [before, after] = words;
                let mut difference =
                    outhaul_diff::compare(side(before, &pair.before), side(after, &pair.after));
                if difference.environment.is_empty() {
                    difference.environment.clone_from(&pair.environment);
                }
                difference
            })
            .collect();
        match output {
            DiffFormat::Json => {
                let differs = differences.iter().any(|d| !d.is_empty());
                print_json(&json!({"differs": differs, "environments": differences}))?;
            }
            DiffFormat::Markdown => data(outhaul_diff::markdown::markdown(&differences).trim_end()),
            DiffFormat::Text => {
                for difference in &differences {
                    let text = outhaul_diff::text::text(difference);
                    let text = terminal::plain(text.trim_end());
                    console::data(&paint::difference(&text, is_coloured_out()));
                }
            }
        }
        let same = differences.iter().all(Difference::is_empty);
        Ok(if same {
            Exit::SUCCESS
        } else {
            Exit::from(failure::REFUSED)
        })
    }

    /// The revisions or folders; a working copy is an edited `HEAD`.
    fn words(&self) -> [String; 2] {
        [&self.before, &self.after].map(|word| word.clone().unwrap_or_else(|| "HEAD".to_owned()))
    }

    fn question(&self) -> Result<DiffRequest, Failure> {
        let (sources, cache) = self.sources.parse()?;
        Ok(DiffRequest {
            words: self.words(),
            working_copy: self.working_copy,
            control_plane: self.control_plane.clone(),
            branch: self.control_plane_branch.clone(),
            environments: self.environment.clone(),
            base_dirs: self.base_dir.clone(),
            base_commits: self.base_commit.clone(),
            sources,
            cache,
            schedulers: Schedulers::parse(&self.schedulers).map_err(|error| Failure::of(&error))?,
            mode: Mode {
                compat: self.compat,
            },
        })
    }
}

/// Findings are reported side by side, each under the words that it is about.
fn failed(error: DiffError) -> Failure {
    let code = error.class().code();
    let DiffError::Findings(sides) = &error else {
        return Failure::new(code, &error);
    };
    let mut names = Vec::new();
    for side in sides {
        let of = match side.environment.as_str() {
            "" => String::new(),
            name => format!(", environment `{name}`"),
        };
        say(&format!(
            "`{}`{of}:\n{}",
            side.word,
            side.findings.render(false).trim_end()
        ));
        super::in_envelope(&side.findings);
        names.push(format!("`{}`", side.word));
    }
    names.dedup();
    Failure::say(
        code,
        format!(
            "{} cannot be loaded, so nothing was compared",
            names.join(" and ")
        ),
    )
    .help("fix the findings above; `outhaul check` lists them for one side")
}
