//! One more object in a working copy.
//!
//! What comes in: the working copy's folder and the object. What goes out: the path of one new file. The
//! working copy is read first: a name that is taken, a reference to what is not there, or the wrong
//! branch is refused before anything is written. What is there is never changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::object::{self, Pairs, Target};
use super::{ScaffoldError, address, git, sound_name, write_new};
use crate::builtin;
use crate::control::diagnostic::{Diagnostics, SourceFile};
use crate::control::kinds::suggest::did_you_mean;
use crate::control::kinds::{self, Object};
use crate::control::model::{BaseRepo, TemplateType};
use crate::control::source::{self, Cache, Reference, SourceMap, TreeLimits};
use crate::promote::order::Order;

/// What to add.
#[derive(Debug, Clone)]
pub enum New {
    /// A group of clusters or hosts.
    ClusterType {
        /// Its labels.
        labels: Vec<(String, String)>,
        /// The reconciler's template.
        reconciler: String,
        /// The namespace's, instead of the one that fits.
        namespace: Option<String>,
        /// The config's, instead of the one that fits.
        config: Option<String>,
    },
    /// Values.
    Config {
        /// What they apply to.
        labels: Vec<(String, String)>,
        /// The values.
        values: Vec<(String, String)>,
    },
    /// A link of the chain, and its branch.
    Environment {
        /// The control plane's address, instead of the one that the other environments name.
        url: Option<String>,
    },
    /// A rule.
    Policy {
        /// The workspace that it is for.
        workspace: Option<String>,
        /// Labels of targets.
        targets: Vec<(String, String)>,
        /// Labels of cluster types.
        cluster_types: Vec<(String, String)>,
    },
    /// Where a workload is described.
    Registration {
        /// Whose it is.
        workspace: String,
        /// The application's repository.
        url: String,
        /// Its branch.
        branch: String,
        /// The folder in it.
        path: String,
    },
    /// One cluster or host.
    Site {
        /// Its cluster type.
        cluster_type: String,
        /// Its labels.
        labels: Vec<(String, String)>,
        /// The ring in which it is updated.
        ring: Option<String>,
    },
    /// A copy of a template that comes with Outhaul.
    Template,
    /// An application, in its team's own repository.
    Workload {
        /// Its labels.
        labels: Vec<(String, String)>,
        /// One target in each.
        environments: Vec<String>,
        /// Where its manifests lie: a branch for each environment.
        manifests: Option<String>,
    },
}

/// What was written.
#[derive(Debug, Clone)]
pub struct Added {
    /// The new file.
    pub file: PathBuf,
    /// The kind of the object in it.
    pub kind: &'static str,
    /// A branch that was made for it.
    pub branch: Option<String>,
}

/// What a working copy has checked out.
struct Here {
    root: PathBuf,
    objects: Vec<Object>,
}

/// Adds `new`, called `name`, to the working copy in `root`.
///
/// # Errors
/// [`ScaffoldError`]; nothing was written then.
pub fn add(root: &Path, name: &str, new: &New) -> Result<Added, ScaffoldError> {
    sound_name("an object", name)?;
    let here = Here::read(root)?;
    let (kind, folder, text) = match new {
        New::ClusterType {
            labels,
            reconciler,
            namespace,
            config,
        } => {
            here.on_environment("cluster type")?;
            let fitting = |chosen: &Option<String>, default: &str| {
                chosen.clone().unwrap_or_else(|| default.to_owned())
            };
            let namespace = fitting(namespace, builtin::namespace_for(reconciler));
            let config = fitting(config, builtin::config_for(reconciler));
            for (kind, template) in [
                (TemplateType::Reconciler, reconciler),
                (TemplateType::Namespace, &namespace),
                (TemplateType::Config, &config),
            ] {
                here.has_template(kind, template)?;
            }
            let text = object::cluster_type(name, labels, reconciler, &namespace, &config);
            ("ClusterType", "cluster-types", text)
        }
        New::Config { labels, values } => (
            "ConfigMap",
            "configs",
            object::config(name, labels, &object::typed_in(values)),
        ),
        New::Environment { url } => {
            here.on_main("environment")?;
            let url = here.url(url.as_deref())?;
            address(&url)?;
            (
                "Environment",
                ".environments",
                object::environment(name, &url, here.last()?.as_deref()),
            )
        }
        New::Policy {
            workspace,
            targets,
            cluster_types,
        } => {
            let text = object::policy(name, workspace.as_deref(), targets, cluster_types);
            ("SchedulingPolicy", "scheduling", text)
        }
        New::Registration {
            workspace,
            url,
            branch,
            path,
        } => {
            here.on_main("registration")?;
            address(url)?;
            let text = object::registration(name, workspace, url, branch, path);
            ("WorkloadRegistration", "workloads", text)
        }
        New::Site {
            cluster_type,
            labels,
            ring,
        } => {
            here.on_environment("site")?;
            here.has_cluster_type(cluster_type)?;
            (
                "Site",
                "sites",
                object::site(name, cluster_type, labels, ring.as_deref()),
            )
        }
        New::Template => {
            here.on_main("template")?;
            let names: Vec<&str> = builtin::ALL.iter().map(|builtin| builtin.name).collect();
            let builtin = builtin::find(name).ok_or_else(|| ScaffoldError::Choice {
                problem: format!("no template `{name}` comes with Outhaul"),
                help: did_you_mean(name, &names),
            })?;
            ("Template", "templates", builtin.text.to_owned())
        }
        New::Workload {
            labels,
            environments,
            manifests,
        } => (
            "Workload",
            "workload",
            workload(name, labels, environments, manifests.as_deref())?,
        ),
    };
    here.is_free(kind, name)?;
    let file = here.root.join(folder).join(format!("{name}.yaml"));
    reads_back(&file, &text, kind, name)?;
    let branch = match new {
        New::Environment { .. } => here.branch(name, &text)?,
        _ => None,
    };
    write_new(&file, &text)?;
    Ok(Added { file, kind, branch })
}

fn workload(
    name: &str,
    labels: &Pairs,
    environments: &[String],
    manifests: Option<&str>,
) -> Result<String, ScaffoldError> {
    let mut targets = Vec::new();
    for environment in environments {
        sound_name("an environment", environment)?;
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let manifests = match manifests {
            None => Vec::new(),
            Some(url) => {
                address(url)?;
                vec![
                    pair("storage", "git"),
                    pair("repo", url),
                    pair("branch", environment),
                    pair("path", "."),
                ]
            }
        };
        targets.push(Target {
            name: environment.clone(),
            environment: environment.clone(),
            labels: Vec::new(),
            manifests,
        });
    }
    if targets.is_empty() {
        return Err(ScaffoldError::Choice {
            problem: "a workload needs at least one environment to run in".to_owned(),
            help: "give for example `--environments dev,stage`".to_owned(),
        });
    }
    Ok(object::workload(name, labels, &targets))
}

/// What a person typed must be read as what they meant.
fn reads_back(file: &Path, text: &str, kind: &str, name: &str) -> Result<(), ScaffoldError> {
    let source = Arc::new(SourceFile {
        name: file.to_string_lossy().into_owned(),
        text: text.to_owned(),
    });
    let mut findings = Diagnostics::new();
    let objects = kinds::read_file(&source, &mut findings);
    let same = matches!(objects.as_slice(), [one] if one.kind() == kind && one.name() == name);
    if same && findings.is_empty() {
        Ok(())
    } else {
        Err(ScaffoldError::Findings(findings))
    }
}

impl Here {
    fn read(root: &Path) -> Result<Self, ScaffoldError> {
        let opened = source::open_plain(root, "", Some(""))?;
        let is_yaml = |path: &str| {
            (path.ends_with(".yaml") || path.ends_with(".yml")) && !path.starts_with(".git/")
        };
        let mut objects = Vec::new();
        // What is wrong elsewhere is for `check` to say.
        let mut findings = Diagnostics::new();
        for file in opened.tree("", &is_yaml, &TreeLimits::YAML)?.files {
            if let Ok(text) = String::from_utf8(file.bytes) {
                let name = opened.file_name(&file.path);
                let source = Arc::new(SourceFile { name, text });
                objects.extend(kinds::read_file(&source, &mut findings));
            }
        }
        let root = root.to_owned();
        Ok(Self { root, objects })
    }

    fn is_free(&self, kind: &'static str, name: &str) -> Result<(), ScaffoldError> {
        let taken = |object: &&Object| object.kind() == kind && object.name() == name;
        match self.objects.iter().find(taken) {
            None => Ok(()),
            Some(object) => Err(ScaffoldError::Taken {
                kind,
                name: name.to_owned(),
                place: format!(
                    "{}:{}",
                    object.location().file.name,
                    object.location().line()
                ),
            }),
        }
    }

    fn base(&self) -> Option<&BaseRepo> {
        self.objects.iter().find_map(|object| match object {
            Object::BaseRepo(base) if base.name == "main" => Some(base),
            _ => None,
        })
    }

    fn environments(&self) -> Vec<&str> {
        let name = |object: &'_ Object| matches!(object, Object::Environment(_));
        self.objects
            .iter()
            .filter(|o| name(o))
            .map(Object::name)
            .collect()
    }

    /// The environment at the end of the chain, which a new one comes after.
    fn last(&self) -> Result<Option<String>, ScaffoldError> {
        let environments = self.objects.iter().filter_map(|object| match object {
            Object::Environment(found) => Some((found.name.clone(), found.clone())),
            _ => None,
        });
        let policies = self.objects.iter().filter_map(|object| match object {
            Object::Promotion(policy) => Some(policy),
            _ => None,
        });
        let order = Order::of(&environments.collect(), policies);
        match order.last().as_slice() {
            [] => Ok(None),
            [last] => Ok(Some((*last).to_owned())),
            several => Err(ScaffoldError::Choice {
                problem: format!(
                    "several environments are the last of the chain: `{}`",
                    several.join("`, `")
                ),
                help: "name the one before the new one with `--from NAME`; nothing was written"
                    .to_owned(),
            }),
        }
    }

    fn on_environment(&self, kind: &'static str) -> Result<(), ScaffoldError> {
        let environments = self.environments();
        if self.base().is_some() || environments.is_empty() {
            return Ok(());
        }
        let path = self.root.clone();
        let help = format!(
            "type `git -C {} switch {}`",
            path.display(),
            environments.join("` or `")
        );
        Err(ScaffoldError::WrongBranch {
            kind,
            belongs: "an environment's branch",
            path,
            here: "what all environments share (`main`)",
            help,
        })
    }

    fn on_main(&self, kind: &'static str) -> Result<(), ScaffoldError> {
        if self.base().is_none() {
            return Ok(());
        }
        let path = self.root.clone();
        Err(ScaffoldError::WrongBranch {
            kind,
            belongs: "`main`, from which it is promoted",
            help: format!("type `git -C {} switch main`", path.display()),
            path,
            here: "an environment's branch",
        })
    }

    fn has_cluster_type(&self, name: &str) -> Result<(), ScaffoldError> {
        let is_one = |object: &&Object| matches!(object, Object::ClusterType(_));
        let known: Vec<&str> = self
            .objects
            .iter()
            .filter(is_one)
            .map(Object::name)
            .collect();
        if known.contains(&name) {
            return Ok(());
        }
        Err(ScaffoldError::Choice {
            problem: format!(
                "there is no cluster type `{name}` in `{}`",
                self.root.display()
            ),
            help: format!("{}; nothing was written", did_you_mean(name, &known)),
        })
    }

    /// Templates are on the commit of `main` that this environment is based on, when that can be read.
    fn has_template(&self, kind: TemplateType, name: &str) -> Result<(), ScaffoldError> {
        let Some(base) = self.base() else {
            return Ok(());
        };
        let reference = match &base.commit {
            Some(commit) => Reference::Commit {
                id: commit.value.clone(),
                near: None,
            },
            None => Reference::Branch(base.at.branch.clone()),
        };
        let url = self.root.to_string_lossy().into_owned();
        let is_yaml = |path: &str| path.ends_with(".yaml") || path.ends_with(".yml");
        let tree = source::open_given(&url, &reference, &SourceMap::default(), &Cache::of_user())
            .and_then(|opened| opened.tree(&base.at.path, &is_yaml, &TreeLimits::YAML));
        // Where `main` lies elsewhere, `check` will say.
        let Ok(tree) = tree else { return Ok(()) };
        let mut known = Vec::new();
        for file in tree.files {
            let text = String::from_utf8_lossy(&file.bytes).into_owned();
            let source = Arc::new(SourceFile {
                name: file.path,
                text,
            });
            for object in kinds::read_file(&source, &mut Diagnostics::new()) {
                if let Object::Template(template) = object
                    && template.kind == kind
                {
                    known.push(template.name);
                }
            }
        }
        if known.iter().any(|known| known == name) {
            return Ok(());
        }
        let what = kind.as_str();
        let more = if builtin::find(name).is_some_and(|builtin| builtin.kind == kind) {
            format!("; or on `main` type `outhaul new template {name}`, commit it, and promote it")
        } else {
            String::new()
        };
        Err(ScaffoldError::Choice {
            problem: format!(
                "the commit of `main` that this is based on has no {what} template `{name}`"
            ),
            help: format!("{}{more}; nothing was written", did_you_mean(name, &known)),
        })
    }

    fn url(&self, given: Option<&str>) -> Result<String, ScaffoldError> {
        let of = |object: &Object| match object {
            Object::Environment(e) => Some(e.control_plane.repo.value.clone()),
            _ => None,
        };
        given
            .map(str::to_owned)
            .or_else(|| self.objects.iter().find_map(of))
            .ok_or_else(|| ScaffoldError::Choice {
                problem: "no other environment says where this control plane is".to_owned(),
                help: "give `--url https://git.example.org/control-plane`".to_owned(),
            })
    }

    /// The branch of a new environment, with its base; `None` where there is no git.
    fn branch(&self, name: &str, environment: &str) -> Result<Option<String>, ScaffoldError> {
        if !source::git::is_repository(&self.root) || !git::is_there() {
            return Ok(None);
        }
        let repository = git::open(&self.root);
        if repository.commit_of(name).is_some() {
            return Ok(None);
        }
        let Some(main) = repository.commit_of("main") else {
            return Ok(None);
        };
        let url = environment
            .lines()
            .find_map(|line| line.trim().strip_prefix("repo: "))
            .unwrap_or_default()
            .trim_matches('"')
            .to_owned();
        let files = [(
            "base-repo.yaml".to_owned(),
            object::base_repo(&url, Some(&main)),
        )];
        repository.branch(
            name,
            &format!("Initial `{name}` configuration"),
            &files.into(),
        )?;
        Ok(Some(name.to_owned()))
    }
}
