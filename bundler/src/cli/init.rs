//! `outhaul init`: a control plane to start from, and the templates that come with Outhaul.

use outhaul_kit::text::json_path;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::failure::{self, Failure};
use super::{Exit, Output, data, print_json, say};
use crate::project;
use crate::project::trust::Records;
use outhaul_kit::url_secrets;
use outhaul_plane::builtin;
use outhaul_scaffold::{self as scaffold, ScaffoldError, ScaffoldPlan};

/// Write a control plane to start from
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul init control-plane\n  outhaul check --environment dev --control-plane \
    control-plane\n\nFor clusters with Flux and hosts with Ansible, in three environments:\n  \
    outhaul init control-plane --environments dev,stage,prod --reconciler flux-git --reconciler ansible"
)]
pub struct Args {
    /// The folder to write: empty, or not there
    #[arg(value_name = "DIR", required_unless_present = "list")]
    folder: Option<PathBuf>,
    /// List the templates that come with Outhaul, and write nothing
    #[arg(long)]
    list: bool,
    /// The environments, first to last
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "dev,stage"
    )]
    environments: Vec<String>,
    /// A reconciler's template, with a cluster type for it (may be given more than once)
    #[arg(long = "reconciler", value_name = "TEMPLATE", default_value = "folder")]
    reconcilers: Vec<String>,
    /// The address that the control plane will have
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        let folder = match self.folder {
            Some(folder) if !self.list => folder,
            _ => return list(self.output),
        };
        super::places::new_folder(&folder)?;
        let name = folder
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let url = self.url.unwrap_or_else(|| {
            let name = name.unwrap_or_else(|| "control-plane".to_owned());
            format!("https://git.example.org/{name}")
        });
        if url_secrets::has_secret(&url) {
            let shown = url_secrets::without_secrets(&url);
            let text =
                format!("`--url {shown}` was given with a password or token; nothing was written");
            return Err(Failure::say(failure::USAGE, text)
                .help("what is written there is committed: give the URL without it, and the password to git's credential helper"));
        }
        refuse_folder_as_file(&folder)?;
        let plan = ScaffoldPlan {
            url,
            environments: self.environments,
            reconcilers: self.reconcilers,
        };
        let written = scaffold::control_plane(&folder, &plan).map_err(scaffold_failure)?;
        let project = match written.git {
            true => project(&folder)?,
            false => None,
        };
        if self.output == Output::Json {
            let branches = written.branches.iter().map(
                |(name, commit, files)| json!({ "branch": name, "commit": commit, "files": files }),
            );
            return print_json(&json!({
                "folder": json_path(&folder), "git": written.git, "url": plan.url, "project": project.as_deref().map(json_path),
                "branches": branches.collect::<Vec<_>>(),
            }));
        }
        for (name, commit, files) in &written.branches {
            let commit = commit.get(..8).unwrap_or("");
            data(&format!("{name:<10} {commit:<8}  {}", files.join(" ")));
        }
        if let Some(project) = &project {
            say(&format!(
                "`{}` names it: commands beside it and below need no `--control-plane`",
                project.display()
            ));
        }
        let shown = folder.display();
        let first = plan.environments.first().map_or("dev", String::as_str);
        if written.git {
            say(&format!(
                "next: outhaul check --environment {first} --control-plane {shown}"
            ));
        } else {
            say(&format!(
                "git was not found, so each branch is a folder\nnext: outhaul check --environment {first} \
                 --env-dir {shown}/{first} --base-dir {shown}/main --source {}={shown}/hello",
                plan.url
            ));
        }
        Ok(Exit::SUCCESS)
    }
}

/// Refuses to write a control plane beside a folder that is named as the project file is: no command below it would run.
fn refuse_folder_as_file(folder: &Path) -> Result<(), Failure> {
    let path = folder.parent().unwrap_or(Path::new("")).join(project::FILE);
    if !path.is_dir() {
        return Ok(());
    }
    let text = format!(
        "`{}` is a folder, and commands beside the control plane read a file of that name",
        path.display()
    );
    Err(Failure::say(failure::USAGE, text).help("rename it, or choose another place"))
}

/// Writes a project file beside the control plane, unless one is there, and agrees to it.
fn project(folder: &Path) -> Result<Option<PathBuf>, Failure> {
    let Some(name) = folder.file_name() else {
        return Ok(None);
    };
    let beside = folder.parent().unwrap_or(Path::new(""));
    let path = beside.join(project::FILE);
    let text = project::sample(&name.to_string_lossy());
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&path)
        .and_then(|mut file| {
            let whole = file
                .write_all(text.as_bytes())
                .and_then(|()| file.sync_all());
            // Half a file would keep every command below it from running.
            whole.inspect_err(|_| drop(std::fs::remove_file(&path)))
        });
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => {
            let message = format!(
                "the control plane was written, and `{}` cannot be: {error}",
                path.display()
            );
            return Err(Failure::say(failure::ENVIRONMENT, message)
                .help("name the control plane with `--control-plane`"));
        }
    }
    // Who has no home folder agrees to it by naming it.
    if let (Some(records), Ok(place)) = (Records::of_user(), std::fs::canonicalize(&path))
        && let Err(error) = records.add(&place, &text)
    {
        say(&format!(
            "note: {error}; name it in OUTHAUL_PROJECT, or `outhaul project trust`"
        ));
    }
    Ok(Some(path))
}

fn list(output: Output) -> Result<Exit, Failure> {
    if output == Output::Json {
        let all = builtin::ALL.iter().map(|builtin| {
            json!({ "name": builtin.name, "type": builtin.kind.as_str(), "purpose": builtin.purpose })
        });
        return print_json(&json!({ "templates": all.collect::<Vec<_>>() }));
    }
    for builtin in builtin::ALL {
        let kind = builtin.kind.as_str();
        data(&format!(
            "{:<18} {kind:<11} {}",
            builtin.name, builtin.purpose
        ));
    }
    Ok(Exit::SUCCESS)
}

/// What kept something from being written.
pub(super) fn scaffold_failure(error: ScaffoldError) -> Failure {
    match &error {
        ScaffoldError::Findings(findings) if !findings.is_empty() => {
            Failure::findings(findings).help("nothing was written")
        }
        error => Failure::of(error),
    }
}
