//! `outhaul new`: one more object in a working copy of a control plane.

use outhaul_kit::text::json_path;
use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::failure::{self, Failure};
use super::init::scaffold_failure;
use super::{Exit, Output, data, print_json, say};
use outhaul_control::model::composition::Precedence;
use outhaul_kit::format_count::format_count;
use outhaul_kit::url_secrets;
use outhaul_plane::check::secrets;
use outhaul_scaffold::add::{self, Added, New};

/// Add one object to a working copy of a control plane
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  git -C control-plane switch dev\n  outhaul new cluster-type drone --in control-plane \
    --label region=east --reconciler folder\n  git -C control-plane add . && git -C control-plane commit -m 'Drones'"
)]
pub struct Args {
    #[command(subcommand)]
    object: NewObject,
}

#[derive(Debug, clap::Args)]
struct NewObjectArgs {
    /// Its name
    name: String,
    /// The working copy
    #[arg(long = "in", value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

type KeyAndText = (String, String);

#[derive(Debug, Subcommand)]
enum NewObject {
    /// Acknowledge a removal that `render` or `bundle` refused (on an environment's branch)
    #[command(
        after_help = "Example:\n  outhaul new acknowledgement old-presses --in control-plane --removal 8637914a6778c55b \\\n    --reason 'hall 2 is closed'"
    )]
    Acknowledgement {
        #[command(flatten)]
        place: NewObjectArgs,
        /// The code that the refusal printed
        #[arg(long, value_name = "CODE")]
        removal: String,
        /// Why all that it listed may go
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// A group of clusters or hosts (on an environment's branch)
    #[command(
        after_help = "Example:\n  outhaul new cluster-type drone --in control-plane --label region=east --reconciler folder"
    )]
    ClusterType {
        #[command(flatten)]
        place: NewObjectArgs,
        /// A label, by which policies and config find it
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<KeyAndText>,
        /// The reconciler's template
        #[arg(long, value_name = "TEMPLATE", default_value = "folder")]
        reconciler: String,
        /// The namespace's template, instead of the one that fits the reconciler
        #[arg(long, value_name = "TEMPLATE")]
        namespace: Option<String>,
        /// The config's template, instead of the one that fits the reconciler
        #[arg(long, value_name = "TEMPLATE")]
        config: Option<String>,
    },
    /// Which of two config containers that set one key wins
    #[command(
        after_help = "Example:\n  outhaul new composition-policy by-specificity --in control-plane"
    )]
    CompositionPolicy {
        #[command(flatten)]
        place: NewObjectArgs,
        /// The one with more labels, the one of higher priority, or the one with the later name
        #[arg(long, value_name = "RULE", default_value = "specificity", value_parser = precedence)]
        precedence: Precedence,
    },
    /// Values for whatever has all of its labels
    #[command(
        after_help = "Example:\n  outhaul new config east --in control-plane --label region=east --set PRINTER=lp1 --set 'PORTS=[80, 443]'"
    )]
    Config {
        #[command(flatten)]
        place: NewObjectArgs,
        /// A label that it applies to; without any it applies to everything
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<KeyAndText>,
        /// A value: text, or a list or map in brackets as YAML has them (`--set 'PORTS=[80, 443]'`)
        #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair, required = true)]
        values: Vec<KeyAndText>,
    },
    /// A link of the promotion chain (on main), and its branch
    #[command(
        after_help = "Example:\n  outhaul new environment prod --in control-plane --from stage"
    )]
    Environment {
        #[command(flatten)]
        place: NewObjectArgs,
        /// The control plane's address, instead of the one that the other environments name
        #[arg(long, value_name = "URL")]
        url: Option<String>,
        /// The environment before it, whose branch it begins with (without its sites); otherwise it comes
        /// last, and its branch is empty
        #[arg(long, value_name = "NAME")]
        from: Option<String>,
    },
    /// What the step from one environment to the next needs (on main)
    #[command(
        after_help = "Example:\n  outhaul new promotion-policy dev-to-stage --in control-plane --from dev --to stage \\\n    --min-confirmed-percent 80"
    )]
    PromotionPolicy {
        #[command(flatten)]
        place: NewObjectArgs,
        /// The environment whose sites decide
        #[arg(long, value_name = "NAME")]
        from: String,
        /// The environment that moves
        #[arg(long, value_name = "NAME")]
        to: String,
        /// The share of sites that must confirm, in percent; without it all of them
        #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
        min_confirmed_percent: Option<u8>,
        /// The oldest report that counts, in hours
        #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(u32).range(1..=87_600))]
        max_report_age_hours: Option<u32>,
    },
    /// A rule that maps deployment targets to cluster types
    #[command(
        after_help = "Example:\n  outhaul new policy presses --in control-plane --workspace print --cluster-label kind=press"
    )]
    Policy {
        #[command(flatten)]
        place: NewObjectArgs,
        /// The workspace whose targets it selects; default: any
        #[arg(long, value_name = "NAME")]
        workspace: Option<String>,
        /// A label of deployment targets; without any all of them
        #[arg(long = "target-label", value_name = "KEY=VALUE", value_parser = pair)]
        targets: Vec<KeyAndText>,
        /// A label of cluster types; without any all of them
        #[arg(long = "cluster-label", value_name = "KEY=VALUE", value_parser = pair)]
        cluster_types: Vec<KeyAndText>,
    },
    /// A workload registration: repository and owner (on main)
    #[command(
        after_help = "Example:\n  outhaul new registration label-printer --in control-plane --workspace print \\\n    --repo https://git.factory.example/label-printer"
    )]
    Registration {
        #[command(flatten)]
        place: NewObjectArgs,
        /// The workspace (team) that owns it
        #[arg(long, value_name = "NAME")]
        workspace: String,
        /// The application's repository
        #[arg(long, value_name = "URL")]
        repo: String,
        /// Its branch
        #[arg(long, value_name = "NAME", default_value = "main")]
        branch: String,
        /// The folder with the workload
        #[arg(long, value_name = "PATH", default_value = "workload")]
        path: String,
    },
    /// One cluster or host (on an environment's branch)
    #[command(
        after_help = "Example:\n  outhaul new site press-7 --in control-plane --cluster-type press --label line=north"
    )]
    Site {
        #[command(flatten)]
        place: NewObjectArgs,
        /// Its cluster type
        #[arg(long, value_name = "NAME")]
        cluster_type: String,
        /// A label of its own
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<KeyAndText>,
        /// The ring in which it is updated
        #[arg(long, value_name = "NAME")]
        ring: Option<String>,
    },
    /// A copy of a template that comes with Outhaul (on main); `outhaul init --list` names them
    #[command(after_help = "Example:\n  outhaul new template ansible --in control-plane")]
    Template {
        #[command(flatten)]
        place: NewObjectArgs,
    },
    /// An application with one target per environment (in its team's own repository)
    #[command(
        after_help = "Example:\n  outhaul new workload label-printer --in label-printer --environments dev,stage"
    )]
    Workload {
        #[command(flatten)]
        place: NewObjectArgs,
        /// A label, by which policies find it
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<KeyAndText>,
        /// The environments that it runs in
        #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
        environments: Vec<String>,
        /// The repository of its manifests, with a branch for each environment
        #[arg(long, value_name = "URL")]
        manifests: Option<String>,
    },
}

fn pair(text: &str) -> Result<KeyAndText, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

/// Refuses a URL with a password or token: it would be published with everything made from it.
fn refuse_secret(new: &New) -> Result<(), Failure> {
    let url = match new {
        New::Registration { url, .. } => Some(url),
        New::Environment { url, .. } => url.as_ref(),
        New::Workload { manifests, .. } => manifests.as_ref(),
        _ => None,
    };
    match url.filter(|url| url_secrets::has_secret(url)) {
        None => Ok(()),
        Some(url) => {
            let shown = url_secrets::without_secrets(url);
            let text = format!(
                "the URL `{shown}` was given with a password or token; nothing was written"
            );
            Err(Failure::say(failure::USAGE, text)
                .help("give it without one: git's credential helper is the place for it; if it was published, make a new one"))
        }
    }
}

fn precedence(text: &str) -> Result<Precedence, String> {
    Precedence::parse(text).ok_or_else(|| format!("one of {}", Precedence::NAMES.join(", ")))
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        let (place, new) = self.object.into_new();
        refuse_secret(&new)?;
        let added = add::add(&place.folder, &place.name, &new).map_err(scaffold_failure)?;
        let next = next(&place, &new, &added);
        if let New::Config { values, .. } = &new {
            for (key, _) in values
                .iter()
                .filter(|(key, value)| secrets::is_in_clear(key, value))
            {
                say(&format!(
                    "warning[{}]: {}\nhelp: {}",
                    secrets::CODE,
                    secrets::message(key),
                    secrets::HELP
                ));
            }
        }
        if place.output == Output::Json {
            return print_json(&json!({
                "file": json_path(&added.file), "kind": added.kind, "name": place.name, "branch": added.branch.as_ref().map(|branch| &branch.name),
                "copied": added.branch.as_ref().map(|branch| branch.copied),
                "left_out": added.branch.as_ref().map(|branch| &branch.left_out), "next": next,
            }));
        }
        data(&added.file.display().to_string());
        if let Some(branch) = &added.branch {
            say(&format!(
                "branch `{}` was made for it, based on `main` as it is{}",
                branch.name,
                match (&new, branch.copied) {
                    (
                        New::Environment {
                            from: Some(from), ..
                        },
                        copied,
                    ) => format!(
                        ", with {} of `{from}`",
                        format_count(copied, "file", "files")
                    ),
                    _ => String::new(),
                }
            ));
            if !branch.left_out.is_empty() {
                say(&format!(
                    "not copied, because it is about what is there alone: {}",
                    branch.left_out.join(", ")
                ));
            }
        }
        say(&format!("next: {next}"));
        Ok(Exit::SUCCESS)
    }
}

/// What to do with the new file.
fn next(place: &NewObjectArgs, new: &New, added: &Added) -> String {
    let folder = place.folder.display();
    let file = added
        .file
        .strip_prefix(&place.folder)
        .unwrap_or(&added.file);
    let commit = format!(
        "git -C {folder} add {} && git -C {folder} commit -m 'Add {}'",
        file.display(),
        place.name
    );
    let more = match new {
        New::Environment { from: None, .. } => format!(
            ", then `git -C {folder} switch {}` and give it a cluster type",
            place.name
        ),
        New::Environment { .. } => format!(
            ", then `outhaul promote --control-plane {folder} --to {} --hub URL` through the gate before it",
            place.name
        ),
        New::Acknowledgement { .. } => {
            ", and run again what was refused; it may be deleted afterwards".to_owned()
        }
        New::Registration { .. } | New::Template => {
            format!(", then `outhaul promote --control-plane {folder} --to` the first environment")
        }
        New::Site { cluster_type, .. } => format!(
            ", then `outhaul site enrol {} --cluster-type {cluster_type}` writes its kit",
            place.name
        ),
        New::Workload { .. } => ", and ask the platform team to register it".to_owned(),
        _ => String::new(),
    };
    commit + &more
}

impl NewObject {
    #[expect(clippy::too_many_lines, reason = "one arm for each kind")]
    fn into_new(self) -> (NewObjectArgs, New) {
        match self {
            Self::ClusterType {
                place,
                labels,
                reconciler,
                namespace,
                config,
            } => (
                place,
                New::ClusterType {
                    labels,
                    reconciler,
                    namespace,
                    config,
                },
            ),
            Self::Acknowledgement {
                place,
                removal,
                reason,
            } => (place, New::Acknowledgement { removal, reason }),
            Self::CompositionPolicy { place, precedence } => {
                (place, New::CompositionPolicy { precedence })
            }
            Self::PromotionPolicy {
                place,
                from,
                to,
                min_confirmed_percent,
                max_report_age_hours,
            } => (
                place,
                New::PromotionPolicy {
                    from,
                    to,
                    min_confirmed_percent,
                    max_report_age_hours,
                },
            ),
            Self::Config {
                place,
                labels,
                values,
            } => (place, New::Config { labels, values }),
            Self::Environment { place, url, from } => (place, New::Environment { url, from }),
            Self::Policy {
                place,
                workspace,
                targets,
                cluster_types,
            } => (
                place,
                New::Policy {
                    workspace,
                    targets,
                    cluster_types,
                },
            ),
            Self::Registration {
                place,
                workspace,
                repo,
                branch,
                path,
            } => (
                place,
                New::Registration {
                    workspace,
                    url: repo,
                    branch,
                    path,
                },
            ),
            Self::Site {
                place,
                cluster_type,
                labels,
                ring,
            } => (
                place,
                New::Site {
                    cluster_type,
                    labels,
                    ring,
                },
            ),
            Self::Template { place } => (place, New::Template),
            Self::Workload {
                place,
                labels,
                environments,
                manifests,
            } => (
                place,
                New::Workload {
                    labels,
                    environments,
                    manifests,
                },
            ),
        }
    }
}
