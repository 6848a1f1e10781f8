//! `outhaul new`: one more object in a working copy of a control plane.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;

use super::failure::Failure;
use super::init::scaffold_failure;
use super::{Format, data, print_json, say};
use crate::scaffold::add::{self, Added, New};

/// Add one object to a working copy of a control plane
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  git -C control-plane switch dev\n  outhaul new cluster-type drone --in control-plane \
    --label region=east --reconciler folder\n  git -C control-plane add . && git -C control-plane commit -m 'Drones'"
)]
pub struct Args {
    #[command(subcommand)]
    object: Kind,
}

#[derive(Debug, clap::Args)]
struct Place {
    /// Its name
    name: String,
    /// The working copy
    #[arg(long = "in", value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

type Pair = (String, String);

#[derive(Debug, Subcommand)]
enum Kind {
    /// A group of clusters or hosts (on an environment's branch)
    ClusterType {
        #[command(flatten)]
        place: Place,
        /// A label, by which policies and config find it
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<Pair>,
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
    /// Values for whatever has all of its labels
    Config {
        #[command(flatten)]
        place: Place,
        /// A label that it applies to; without any it applies to everything
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<Pair>,
        /// A value: text, or a list or map in brackets as YAML has them (`--set 'PORTS=[80, 443]'`)
        #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair, required = true)]
        values: Vec<Pair>,
    },
    /// A link of the promotion chain (on main), and its branch
    Environment {
        #[command(flatten)]
        place: Place,
        /// The control plane's address, instead of the one that the other environments name
        #[arg(long, value_name = "URL")]
        url: Option<String>,
    },
    /// A rule that maps deployment targets to cluster types
    Policy {
        #[command(flatten)]
        place: Place,
        /// The workspace whose targets it means; without it any
        #[arg(long, value_name = "NAME")]
        workspace: Option<String>,
        /// A label of deployment targets; without any all of them
        #[arg(long = "target-label", value_name = "KEY=VALUE", value_parser = pair)]
        targets: Vec<Pair>,
        /// A label of cluster types; without any all of them
        #[arg(long = "cluster-label", value_name = "KEY=VALUE", value_parser = pair)]
        cluster_types: Vec<Pair>,
    },
    /// Where a workload is described, and whose it is (on main)
    Registration {
        #[command(flatten)]
        place: Place,
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
    Site {
        #[command(flatten)]
        place: Place,
        /// Its cluster type
        #[arg(long, value_name = "NAME")]
        cluster_type: String,
        /// A label of its own
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<Pair>,
        /// The ring in which it is updated
        #[arg(long, value_name = "NAME")]
        ring: Option<String>,
    },
    /// A copy of a template that comes with Outhaul (on main); `outhaul init --list` names them
    Template {
        #[command(flatten)]
        place: Place,
    },
    /// An application with one target per environment (in its team's own repository)
    Workload {
        #[command(flatten)]
        place: Place,
        /// A label, by which policies find it
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<Pair>,
        /// The environments that it runs in
        #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
        environments: Vec<String>,
        /// The repository of its manifests, with a branch for each environment
        #[arg(long, value_name = "URL")]
        manifests: Option<String>,
    },
}

fn pair(text: &str) -> Result<Pair, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let (place, new) = self.object.into_new();
        let added = add::add(&place.folder, &place.name, &new).map_err(scaffold_failure)?;
        let next = next(&place, &new, &added);
        if place.output == Format::Json {
            return print_json(&json!({
                "file": added.file, "kind": added.kind, "name": place.name, "branch": added.branch, "next": next,
            }));
        }
        data(&added.file.display().to_string());
        if let Some(branch) = &added.branch {
            say(&format!(
                "branch `{branch}` was made for it, based on `main` as it is"
            ));
        }
        say(&format!("next: {next}"));
        Ok(ExitCode::SUCCESS)
    }
}

/// What to do with the new file.
fn next(place: &Place, new: &New, added: &Added) -> String {
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
        New::Environment { .. } => format!(
            ", then `git -C {folder} switch {}` and give it a cluster type",
            place.name
        ),
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

impl Kind {
    fn into_new(self) -> (Place, New) {
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
            Self::Config {
                place,
                labels,
                values,
            } => (place, New::Config { labels, values }),
            Self::Environment { place, url } => (place, New::Environment { url }),
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
